package blackbox

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// leaver is a kind of client that waits for messages, and leaves.
type leaver struct {
	name              string
	method, url, body string
}

// leavers are the ways to wait; n tells apart those that must not be the same.
func leavers(c *Clients, n int) []leaver {
	pop := c.Queen.Base + "/api/v1/pop"
	wait := "wait=true&timeout=600000&batch=10"
	lease := func(kind string) string {
		return fmt.Sprintf(`{"queue_name":"leave","client_id":"%s-%d","batch_size":10,"request_timeout":"10m"}`, kind, n)
	}
	return []leaver{
		{"pop", "GET", pop + "/queue/leave?" + wait, ""},
		{"pop of a partition", "GET", pop + "/queue/leave/partition/0?" + wait, ""},
		{"pop by namespace", "GET", pop + "?namespace=leaving&" + wait, ""},
		{"lease", "POST", c.Querator.Base + "/v1/queue.lease", lease("l")},
		{"reserve", "POST", c.Querator.Base + "/v1/queue.reserve", lease("r")},
	}
}

// TestClientThatLeavesDuringALongPoll makes sure that nothing is leased for a client that has gone:
// the next message goes to who asks next, at once, as its first delivery.
func TestClientThatLeavesDuringALongPoll(t *testing.T) {
	c := NewClients(Start(t, t.TempDir()).Target)
	prepareLeave(t, c)
	for i, l := range leavers(c, 0) {
		t.Run(l.name, func(t *testing.T) {
			leave(t, c, l)
			id := fmt.Sprintf("one-%d", i)
			require.NoError(t, c.Querator.Produce(t.Context(), "leave", QueratorItem{Encoding: "json", Bytes: []byte(Payload(id))}))
			requireFirstDelivery(t, c, id)
		})
	}
	t.Run("two hundred at once", func(t *testing.T) {
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for n := range 40 {
			for _, l := range leavers(c, n) {
				all.Go(func() { _, _ = c.Conn.JSON(ctx, l.method, l.url, l.body) })
			}
		}
		waiting(t, c, 200)
		cancel()
		all.Wait()
		waiting(t, c, 0)
		require.NoError(t, c.Queen.Push(t.Context(), QueenItem{Queue: "leave", Partition: "0", Payload: Payload("many")}))
		requireFirstDelivery(t, c, "many")
	})
}

func prepareLeave(t *testing.T, c *Clients) {
	t.Helper()
	require.NoError(t, c.Querator.Create(t.Context(), QueratorQueue{Name: "leave", LeaseTimeout: "10m", ExpireTimeout: "24h", Partitions: 1}))
	require.NoError(t, c.Cf.CreateConsumer(t.Context(), "leave", CfConsumer{MaxRetries: 10}))
	_, err := c.Conn.call(t.Context(), http.MethodPost, c.Queen.Base+"/api/v1/configure",
		[]byte(`{"queue":"leave","namespace":"leaving"}`), http.StatusOK, nil)
	require.NoError(t, err)
}

// waiting waits until so many consumers wait on the queue.
func waiting(t *testing.T, c *Clients, n int) {
	t.Helper()
	seen := -1
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		_, waiting, err := c.Querator.Stats(t.Context(), "leave")
		require.NoError(t, err)
		if seen = waiting; seen == n {
			return
		}
	}
	require.Equal(t, n, seen, "waiting consumers")
}

// leave lets a client wait, and go.
func leave(t *testing.T, c *Clients, l leaver) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := c.Conn.JSON(ctx, l.method, l.url, l.body)
		gone <- err
	}()
	waiting(t, c, 1)
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	waiting(t, c, 0)
}

// requireFirstDelivery makes sure that a message is leased to nobody and was never delivered, and
// settles it.
func requireFirstDelivery(t *testing.T, c *Clients, id string) {
	t.Helper()
	stats, _, err := c.Querator.Stats(t.Context(), "leave")
	require.NoError(t, err)
	require.Len(t, stats, 1)
	require.Zero(t, stats[0].TotalLeased, "leased to a client that has gone")
	got, err := c.Cf.Pull(t.Context(), "leave", 10, 0)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, Payload(id), decodeBody(got[0]))
	require.Equal(t, 1, got[0].Attempts)
	_, err = c.Cf.Ack(t.Context(), "leave", []string{got[0].LeaseID})
	require.NoError(t, err)
}
