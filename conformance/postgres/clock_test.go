package postgres_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/blackbox"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/postgres"
)

// wrong is a machine's clock that is ahead or, where by is negative, behind.
type wrong struct {
	core.Clock
	by time.Duration
}

// Now implements core.Clock.
func (w wrong) Now() core.Time { return w.Clock.Now().Add(w.by) }

// TestWrongClocks runs three gateways, of which one thinks that it is an hour later and one that it is an hour earlier: leases,
// deduplication and delays go by the database's clock everywhere.
func TestWrongClocks(t *testing.T) {
	t.Parallel()
	store := schema(t)
	var clients []*blackbox.Clients
	var clocks []core.Clock
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		s, err := postgres.Open(t.Context(), store, postgres.Options{MaxConns: 5, Mono: wrong{core.NewSystemClock(), by}})
		require.NoError(t, err)
		clocks = append(clocks, s.Clock())
		clients = append(clients, blackbox.NewClients(blackbox.InProcess(t, s, blackbox.ProgramOptions{Clock: s.Clock()})))
	}
	for _, c := range clocks[1:] {
		assert.Less(t, c.Now().Sub(clocks[0].Now()).Abs(), time.Second)
	}
	ctx := t.Context()
	require.NoError(t, clients[0].Queen.Configure(ctx, "q", `{"retryLimit":5,"dedupWindowSeconds":3600}`))
	item := blackbox.QueenItem{Queue: "q", Payload: `"a"`, TransactionID: "a"}
	require.NoError(t, clients[1].Queen.Push(ctx, item))
	for _, c := range clients {
		require.Error(t, c.Queen.Push(ctx, item), "it is a duplicate everywhere")
	}
	pop := url.Values{"leaseSeconds": {"4"}}
	taken := time.Now()
	got, err := clients[0].Queen.Pop(ctx, "q", "", pop)
	require.NoError(t, err)
	require.Len(t, got, 1)
	early := 0
	for time.Since(taken) < 3*time.Second {
		for _, c := range clients {
			again, err := c.Queen.Pop(ctx, "q", "", pop)
			require.NoError(t, err)
			early += len(again)
		}
	}
	assert.Zero(t, early, "nothing expires early")
	again, err := clients[2].Queen.Pop(ctx, "q", "", url.Values{"wait": {"true"}, "timeout": {"10000"}})
	require.NoError(t, err)
	require.Len(t, again, 1, "the lease ends, at every gateway")
	assert.Less(t, time.Since(taken), 8*time.Second)
	out, err := clients[1].Queen.Ack(ctx, "", blackbox.QueenAck{
		TransactionID: again[0].TransactionID, PartitionID: again[0].PartitionID, LeaseID: again[0].LeaseID, Status: "completed",
	})
	require.NoError(t, err)
	assert.True(t, out[0].Success, "taken at one gateway, settled at another")
}
