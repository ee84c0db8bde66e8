package postgres_test

import (
	"context"
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

// seen is what one run of fn saw.
type seen struct {
	recalled bool
	offset   int64
}

// advance moves the frontier of the first key by one and only looks at the others. It returns what each run saw.
func advance(t *testing.T, s *postgres.Store, keys ...core.RowKey) []seen {
	t.Helper()
	var runs []seen
	p := core.UpdateParams{Commit: uuid.New(), Now: 1}
	for _, key := range keys {
		p.Rows = append(p.Rows, core.RowRequest{Key: key, Must: true, Due: 1})
	}
	_, err := s.Update(t.Context(), p, func(tx core.Tx) (*core.ChangeSet, error) {
		f := tx.Row(keys[0]).Frontier
		runs = append(runs, seen{tx.Recalled(), f.Offset})
		if _, err := tx.Headers(keys[0].Partition, f.Offset+1, f.Offset+1); err != nil {
			return nil, err
		}
		f.Offset++
		return &core.ChangeSet{Rows: []core.RowChange{{Key: keys[0], Move: true, Frontier: f}}}, nil
	})
	require.NoError(t, err)
	return runs
}

// TestAnUpdateOnWhatIsRemembered is decided by it while it is true, and again when another gateway changed the row that is written, one
// that was only looked at, or deleted a message.
func TestAnUpdateOnWhatIsRemembered(t *testing.T) {
	t.Parallel()
	s, parts, _ := replicas(t, 2)
	a, b := core.RowKey{Partition: parts[0], Group: "g"}, core.RowKey{Partition: parts[1], Group: "g"}
	for i := range 9 {
		_, err := s[0].Append(t.Context(), core.AppendParams{Commit: uuid.New(), Segments: []core.NewSegment{coretest.Segments(parts[0], i+1, 1, 1)}})
		require.NoError(t, err)
	}
	_, err := s[0].Append(t.Context(), core.AppendParams{Commit: uuid.New(), Segments: []core.NewSegment{coretest.Segments(parts[1], 1, 1, 1)}})
	require.NoError(t, err)
	advance(t, s[0], b)
	assert.Equal(t, []seen{{false, 0}}, advance(t, s[0], a, b))
	assert.Equal(t, []seen{{true, 1}}, advance(t, s[0], a, b), "nobody else changed it")
	assert.Equal(t, []seen{{false, 2}}, advance(t, s[1], a, b))
	assert.Equal(t, []seen{{true, 2}, {false, 3}}, advance(t, s[0], a, b), "the row that is written was changed elsewhere")

	s, parts, _ = replicas(t, 2)
	a, b = core.RowKey{Partition: parts[0], Group: "g"}, core.RowKey{Partition: parts[1], Group: "g"}
	_, err = s[0].Append(t.Context(), core.AppendParams{Commit: uuid.New(), Segments: []core.NewSegment{
		coretest.Segments(parts[0], 1, 1, 1), coretest.Segments(parts[1], 1, 1, 1),
	}})
	require.NoError(t, err)
	advance(t, s[0], b)
	advance(t, s[0], a, b)
	advance(t, s[1], b)
	runs := advance(t, s[0], a, b)
	require.Len(t, runs, 2, "the row that was looked at was changed elsewhere")
	assert.Equal(t, seen{false, 1}, runs[1])
}

// TestAClaimOfAMessageThatAnotherGatewayDeleted is decided again.
func TestAClaimOfAMessageThatAnotherGatewayDeleted(t *testing.T) {
	t.Parallel()
	s, parts, _ := replicas(t, 2)
	a := core.RowKey{Partition: parts[0], Group: "g"}
	for i := range 3 {
		_, err := s[0].Append(t.Context(), core.AppendParams{Commit: uuid.New(), Segments: []core.NewSegment{coretest.Segments(parts[0], i+1, 1, 1)}})
		require.NoError(t, err)
	}
	advance(t, s[0], a)
	require.NoError(t, s[1].DeleteSegments(t.Context(), 1, []core.SegmentRef{{Partition: parts[0], First: 2, Last: 2}}, nil))
	assert.Equal(t, []seen{{true, 1}, {false, 1}}, advance(t, s[0], a))
}

// TestAClaimUpToAHeadThatIsRemembered is decided again, since another gateway may have appended and answered meanwhile.
func TestAClaimUpToAHeadThatIsRemembered(t *testing.T) {
	t.Parallel()
	s, parts, _ := replicas(t, 2)
	a := core.RowKey{Partition: parts[0], Group: "g"}
	push := func(s *postgres.Store, first int) {
		_, err := s.Append(t.Context(), core.AppendParams{Commit: uuid.New(), Segments: []core.NewSegment{coretest.Segments(parts[0], first, 3, 1)}})
		require.NoError(t, err)
	}
	push(s[0], 1)
	advance(t, s[0], a)
	assert.Equal(t, []seen{{true, 1}}, advance(t, s[0], a), "a message is left behind it")
	push(s[1], 4)
	assert.Equal(t, []seen{{true, 2}, {false, 2}}, advance(t, s[0], a), "nothing is left that is known")
}

// TestAnAppendOnWhatIsRemembered goes where the log ends, also when another gateway made it longer.
func TestAnAppendOnWhatIsRemembered(t *testing.T) {
	t.Parallel()
	s, parts, _ := replicas(t, 2)
	for i, at := range []int{0, 0, 1, 0, 1, 1, 0, 0} {
		placed, err := s[at].Append(t.Context(), core.AppendParams{Commit: uuid.New(), Segments: []core.NewSegment{coretest.Segments(parts[0], i+1, 1, 1)}})
		require.NoError(t, err)
		assert.Equal(t, int64(i+1), placed[0].First)
		assert.Equal(t, int64(i+1), placed[0].Log.HeadTotals.Messages)
	}
	hs, err := s[0].Headers(t.Context(), core.HeadersParams{Partition: parts[0], From: 1, To: 100})
	require.NoError(t, err)
	assert.Len(t, hs, 8)
}

// trips counts what is sent to the database.
type trips struct{ n atomic.Int64 }

// TraceQueryStart implements pgx.QueryTracer.
func (c *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if d.SQL != "" && d.SQL[0] == 'W' { // not the notifications beside
		c.n.Add(1)
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (c *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.n.Add(1)
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (*trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (*trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TestOneRoundTrip counts them: a commit that builds on what is remembered takes one.
func TestOneRoundTrip(t *testing.T) {
	t.Parallel()
	_, parts, schema := replicas(t, 1)
	count := &trips{}
	s, err := postgres.Open(t.Context(), testenv.Postgres(t), postgres.Options{Schema: schema}.Trace(count))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	key := core.RowKey{Partition: parts[0], Group: "g"}
	push := func(i int) {
		_, err := s.Append(t.Context(), core.AppendParams{Commit: uuid.New(), Segments: []core.NewSegment{coretest.Segments(parts[0], i, 1, 1)}})
		require.NoError(t, err)
	}
	for i := range 5 {
		push(i + 1)
	}
	advance(t, s, key)
	before := count.n.Load()
	push(6)
	assert.Equal(t, int64(1), count.n.Load()-before, "an append")
	before = count.n.Load()
	advance(t, s, key)
	assert.Equal(t, int64(1), count.n.Load()-before, "an update")
	before = count.n.Load()
	_, err = s.ReadAll(t.Context(), []core.ReadParams{{Partition: parts[0], Offsets: core.Runs{{First: 2, Last: 4}}, Leased: true}})
	require.NoError(t, err)
	assert.Equal(t, before, count.n.Load(), "reading what was just leased")
}

// TestTwoRoundTripsAfterOthers counts them where another gateway appended before: the locks with what it appended, and the commit.
func TestTwoRoundTripsAfterOthers(t *testing.T) {
	t.Parallel()
	others, parts, schema := replicas(t, 1)
	count := &trips{}
	s, err := postgres.Open(t.Context(), testenv.Postgres(t), postgres.Options{Schema: schema}.Trace(count))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	head := int64(0)
	for i, want := range []int64{2, 3, 2} { // the second tries first whether it is as it was remembered
		_, err := others[0].Append(t.Context(), core.AppendParams{Commit: uuid.New(), Segments: []core.NewSegment{coretest.Segments(parts[0], 2*i+1, 1, 1)}})
		require.NoError(t, err)
		ours := coretest.Segments(parts[0], 2*i+2, 1, 1)
		ours.Know = head
		var newer int
		moved := func(_ core.PartitionKey, _ core.LogState, headers []core.SegmentHeader, _ []int) ([]core.NewSegment, error) {
			newer = len(headers)
			return []core.NewSegment{ours}, nil
		}
		before := count.n.Load()
		placed, err := s.Append(t.Context(), core.AppendParams{Commit: uuid.New(), Segments: []core.NewSegment{ours}, Moved: moved})
		require.NoError(t, err)
		assert.Equal(t, 1, newer, "what is new since the head that is known")
		assert.Equal(t, want, count.n.Load()-before)
		head = placed[0].First
	}
}
