package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/testenv"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/postgres"
)

// counted counts the statements, sent outside of batches, that is says yes to.
type counted struct {
	n  atomic.Int64
	is func(sql string) bool
}

// TraceQueryStart implements pgx.QueryTracer.
func (c *counted) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if c.is(d.SQL) {
		c.n.Add(1)
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*counted) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestMessagesOfALargeSegmentOneByOne are what was pushed, and from the third on the database is not asked for them. What was deleted is
// gone for whoever only looks.
func TestMessagesOfALargeSegmentOneByOne(t *testing.T) {
	t.Parallel()
	_, parts, schema := replicas(t, 1)
	count := &counted{is: func(sql string) bool {
		return strings.HasPrefix(sql, "SELECT") && strings.Contains(sql, "FROM segments")
	}}
	s, err := postgres.Open(t.Context(), testenv.Postgres(t), postgres.Options{Schema: schema}.Trace(count))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	const messages = 40
	payload := func(n int64) []byte { return fmt.Appendf(nil, `"%d%s"`, n, bytes.Repeat([]byte("x"), 3000)) }
	seg := core.NewSegment{Partition: parts[0], Know: -1}
	for n := range int64(messages) {
		m := coretest.Message(int(n+1), 1, func(m *core.Message) { m.Payload = payload(n + 1) })
		seg.Add(&m)
	}
	_, err = s.Append(t.Context(), core.AppendParams{Commit: uuid.New(), Segments: []core.NewSegment{seg}})
	require.NoError(t, err)
	read := func(n int64, leased bool) []core.Message {
		t.Helper()
		out, err := s.Read(t.Context(), core.ReadParams{Partition: parts[0], Offsets: core.Runs{{First: n, Last: n}}, Leased: leased})
		require.NoError(t, err)
		return out
	}
	for n := range int64(messages) {
		before := count.n.Load()
		got := read(n+1, true)
		require.Len(t, got, 1)
		assert.Equal(t, payload(n+1), got[0].Payload)
		assert.Equal(t, n < 2, count.n.Load() > before, "message %d asks the database", n+1)
	}
	require.Len(t, read(messages, false), 1)
	require.NoError(t, s.DeleteSegments(t.Context(), 1, []core.SegmentRef{{Partition: parts[0], First: 1, Last: messages}}, nil))
	assert.Empty(t, read(messages, false))
}
