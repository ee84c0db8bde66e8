package sealed_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/testenv"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/postgres"
	"github.com/leasehold/leasehold/store/sealed"
)

// TestMain stops the database that a test may have started.
func TestMain(m *testing.M) { testenv.Main(m) }

// dump returns every row of every table of a schema as text, bytes as hex digits.
func dump(t *testing.T, url, schema string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	rows, err := conn.Query(t.Context(), "SELECT table_name FROM information_schema.tables WHERE table_schema = $1", schema)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	var out strings.Builder
	for _, table := range tables {
		rows, err := conn.Query(t.Context(), "SELECT r::text FROM "+pgx.Identifier{schema, table}.Sanitize()+" r")
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		for _, line := range lines {
			out.WriteString(table + ": " + line + "\n")
		}
	}
	return out.String()
}

// TestADatabaseHoldsNoPlaintext fills the log, the schedule and the dead letters of an encrypted queue and searches all tables.
func TestADatabaseHoldsNoPlaintext(t *testing.T) {
	url, schema := testenv.Postgres(t), fmt.Sprint("sealed_", os.Getpid())
	below, err := postgres.Open(t.Context(), url, postgres.Options{Schema: schema})
	require.NoError(t, err)
	engine, err := core.New(t.Context(), sealed.Wrap(below, sealed.Options{Keys: sealed.NewRing(key(t, "1"))}), core.Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, engine.Shutdown(context.WithoutCancel(t.Context())))
		require.NoError(t, below.Close())
	})
	options := core.QueueOptions{Queen: core.ImplicitQueen()}
	options.Queen.RetryLimit = 0
	_, err = engine.CreateQueue(t.Context(), core.Queue{Name: "open", Options: options}, 0)
	require.NoError(t, err)
	options.Queen.EncryptionEnabled = true
	_, err = engine.CreateQueue(t.Context(), core.Queue{Name: "secret", Options: options}, 0)
	require.NoError(t, err)
	push := func(queue, payload string, due core.Time) {
		t.Helper()
		it := core.PushItem{Queue: queue, NewMessage: core.NewMessage{Payload: []byte(payload), Due: due}}
		_, err := engine.Push(t.Context(), core.PushParams{Protocol: core.ProtocolQueen, Items: []core.PushItem{it}})
		require.NoError(t, err)
	}
	push("open", `"in the clear"`, 0)
	for i := range 3 {
		push("secret", `"four-one-one-one"`, core.Time(0))
		push("secret", `"four-one-one-one"`, engine.Now().Add(time.Duration(i+1)*time.Hour))
	}
	claim := core.ClaimParams{Protocol: core.ProtocolQueen, Exclusive: true, Queue: "secret", Messages: 9, Partitions: 1}
	got, err := engine.Claim(t.Context(), claim)
	require.NoError(t, err)
	require.Len(t, got.Partitions[0].Messages, 3)
	first := &got.Partitions[0].Messages[0]
	assert.Equal(t, `"four-one-one-one"`, string(first.Payload))
	acked, err := engine.Ack(t.Context(), []core.Ack{{
		Partition: got.Partitions[0].Partition.ID, TransactionID: first.Transaction(), Status: core.AckDead, Lease: got.Lease,
	}})
	require.NoError(t, err)
	require.True(t, acked[0].Dead)

	text := dump(t, url, schema)
	assert.Contains(t, text, hex.EncodeToString([]byte("in the clear")), "the search finds what is there")
	assert.NotContains(t, text, hex.EncodeToString([]byte("four-one-one")))
	assert.NotContains(t, text, "four-one-one")
	got, err = engine.Claim(t.Context(), claim)
	require.NoError(t, err)
	assert.Len(t, got.Partitions[0].Messages, 2)
}
