package postgres_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/blackbox"
	"github.com/leasehold/leasehold/conformance/testenv"
)

// waiting is how to ask for a message and wait for it up to five seconds.
var waiting = url.Values{"wait": {"true"}, "timeout": {"5000"}, "leaseSeconds": {"60"}}

// TestEightGatewaysStartAtOnce starts as many servers at the same moment over a schema that does not exist: one makes it, all serve it.
func TestEightGatewaysStartAtOnce(t *testing.T) {
	t.Parallel()
	store := schema(t)
	gateways := make([]*gateway, 8)
	for i := range gateways {
		gateways[i] = spawnGateway(t, store)
	}
	for _, g := range gateways {
		g.await(t, g.ready)
		assert.Zero(t, g.count(lineDown), "none had to try again")
	}
	for i, g := range gateways {
		require.NoError(t, g.queen.Push(t.Context(), blackbox.QueenItem{Queue: "q", Payload: "1"}))
		next := gateways[(i+1)%len(gateways)]
		got, err := next.queen.Pop(t.Context(), "q", "", url.Values{"autoAck": {"true"}})
		require.NoError(t, err)
		assert.Len(t, got, 1, "what one gateway has answered is there at the next one")
	}
}

// TestSchemas keeps two installations apart that share a database, however their schemas are called, by flag and in the URL.
func TestSchemas(t *testing.T) {
	t.Parallel()
	c := testenv.NewCluster(t)
	odd := `Odd "one", with; signs--`
	a, b := startGateway(t, c.URL(), "--schema", odd), startGateway(t, c.URL()+"&schema=other")
	require.NoError(t, a.queen.Push(t.Context(), blackbox.QueenItem{Queue: "q", Payload: "1"}))
	none, err := b.queen.Pop(t.Context(), "q", "", url.Values{})
	require.NoError(t, err)
	assert.Empty(t, none)
	again := startGateway(t, c.URL()+"&schema="+strings.ReplaceAll(url.QueryEscape(odd), "+", "%20"))
	got, err := again.queen.Pop(t.Context(), "q", "", url.Values{})
	require.NoError(t, err)
	assert.Len(t, got, 1)
	c.Until(t, `SELECT count(*) = 2 FROM pg_namespace WHERE nspname IN ('Odd "one", with; signs--', 'other')`)
	c.Until(t, "SELECT NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'leasehold')")
}

// TestGatewaysThatHearNothing puts a pooler between gateways and database that keeps notifications back: consumers that wait are woken all the same,
// a little later, and the log says why.
func TestGatewaysThatHearNothing(t *testing.T) {
	t.Parallel()
	store := testenv.Deaf(t, schema(t))
	a, b := startGateway(t, store), startGateway(t, store)
	require.NoError(t, a.queen.Configure(t.Context(), "q", `{}`))
	for range 3 {
		got := make(chan time.Time, 1)
		go func() {
			list, err := b.queen.Pop(t.Context(), "q", "", waiting)
			assert.NoError(t, err)
			assert.Len(t, list, 1)
			got <- time.Now()
			if len(list) == 1 {
				_, err = a.queen.Ack(t.Context(), "", blackbox.QueenAck{
					TransactionID: list[0].TransactionID, PartitionID: list[0].PartitionID, LeaseID: list[0].LeaseID, Status: "completed",
				})
				assert.NoError(t, err)
			}
			close(got)
		}()
		time.Sleep(300 * time.Millisecond) // it waits by now
		pushed := time.Now()
		require.NoError(t, a.queen.Push(t.Context(), blackbox.QueenItem{Queue: "q", Payload: "1"}))
		woken := <-got
		t.Logf("delivered after %s", woken.Sub(pushed).Round(time.Millisecond))
		assert.Less(t, woken.Sub(pushed), 3*time.Second, "gateways look every second")
		<-got
	}
	const line = "other gateways cannot wake this one, so it looks every second"
	require.Eventually(t, func() bool { return a.count(line) == 1 && b.count(line) == 1 }, 15*time.Second, 50*time.Millisecond)
}
