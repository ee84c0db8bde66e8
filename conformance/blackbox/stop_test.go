package blackbox

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStopAnswersWhoWaits ends a server in order while consumers of every kind wait on it: each is
// answered in its protocol's words, and another start finds everything as it was.
func TestStopAnswersWhoWaits(t *testing.T) {
	server := Start(t, t.TempDir())
	c := NewClients(server.Target)
	prepareLeave(t, c)
	kinds := leavers(c, 0)
	parked := make([]<-chan outcome, 0, len(kinds))
	for _, l := range kinds {
		parked = append(parked, later(t, c, l.method, l.url, l.body))
	}
	waiting(t, c, len(kinds))
	server.Stop(t)
	for i, l := range kinds {
		a := answered(t, parked[i])
		if l.method == http.MethodGet {
			assert.Equal(t, http.StatusNoContent, a.Status, "%s: %s", l.name, a)
			assert.Empty(t, a.Body)
			continue
		}
		assert.Equal(t, 453, a.Status, "%s: %s", l.name, a)
		assert.JSONEq(t, `{"code":453,"code_text":"Request Failed","message":"queue is shutting down"}`, string(a.Body))
	}
	_, err := c.Conn.JSON(t.Context(), http.MethodGet, c.Admin+"/healthz", "")
	require.Error(t, err, "nobody listens any more")

	again := NewClients(Start(t, server.Dir).Target)
	prepared, err := again.Querator.Lease(t.Context(), "leave", "x", 1, 11*time.Millisecond)
	require.NoError(t, err)
	require.Empty(t, prepared.Items)
	require.NoError(t, again.Querator.Produce(t.Context(), "leave", QueratorItem{Encoding: "json", Bytes: []byte(Payload("later"))}))
	requireFirstDelivery(t, again, "later")
}

// TestSettlementsHoldAcrossARestart settles by leases that were taken before a restart, orderly or
// not: lease ids, item ids and tokens of all protocols are good for as long as their lease.
func TestSettlementsHoldAcrossARestart(t *testing.T) {
	for _, end := range []string{"stop", "kill"} {
		t.Run(end, func(t *testing.T) {
			server := Start(t, t.TempDir())
			c := NewClients(server.Target)
			for _, queue := range []string{"by-queen", "by-querator", "by-cf"} {
				require.NoError(t, c.Querator.Create(t.Context(), QueratorQueue{Name: queue, LeaseTimeout: "10m", ExpireTimeout: "24h", Partitions: 1}))
				require.NoError(t, c.Cf.CreateConsumer(t.Context(), queue, CfConsumer{MaxRetries: 10}))
				for i := range 3 {
					require.NoError(t, c.Querator.Produce(t.Context(), queue, QueratorItem{Encoding: "json", Bytes: fmt.Append(nil, i)}))
				}
			}
			popped, err := c.Queen.Pop(t.Context(), "by-queen", "", popQuery(2, 600, 0, ""))
			require.NoError(t, err)
			leased, err := c.Querator.Lease(t.Context(), "by-querator", "x", 2, time.Second)
			require.NoError(t, err)
			pulled, err := c.Cf.Pull(t.Context(), "by-cf", 2, 600_000)
			require.NoError(t, err)
			if end == "stop" {
				server.Stop(t)
			} else {
				server.Kill(t)
			}
			c = NewClients(Start(t, server.Dir).Target)
			requireOneFree(t, c)
			acked, err := c.Queen.Ack(t.Context(), "", QueenAck{TransactionID: popped[1].TransactionID, PartitionID: popped[1].PartitionID, LeaseID: popped[1].LeaseID})
			require.NoError(t, err)
			require.True(t, acked[0].Success)
			require.True(t, acked[0].LeaseReleased)
			require.NoError(t, c.Querator.Complete(t.Context(), "by-querator", 0, leased.Items[0].ID, leased.Items[1].ID))
			got, err := c.Cf.Ack(t.Context(), "by-cf", []string{pulled[0].LeaseID, pulled[1].LeaseID})
			require.NoError(t, err)
			require.Equal(t, CfAcked{AckCount: 2, Warnings: map[string]string{}}, got)
			for _, queue := range []string{"by-queen", "by-querator", "by-cf"} {
				left, err := backlogs(t.Context(), c, queue)
				require.NoError(t, err)
				require.Equal(t, map[string]int64{"queen": 1, "querator": 1, "cfqueues": 1}, left, queue)
			}
		})
	}
}

// requireOneFree makes sure that exactly the third message of the two shared queues can be claimed,
// and none of the one that Queen holds in part.
func requireOneFree(t *testing.T, c *Clients) {
	t.Helper()
	none, err := c.Queen.Pop(t.Context(), "by-queen", "", popQuery(10, 600, 0, ""))
	require.NoError(t, err)
	require.Empty(t, none, "one exclusive lease per partition and group")
	lease, err := c.Querator.Lease(t.Context(), "by-querator", "y", 10, time.Second)
	require.NoError(t, err)
	require.Len(t, lease.Items, 1)
	require.Equal(t, "2", string(lease.Items[0].Bytes))
	pulled, err := c.Cf.Pull(t.Context(), "by-cf", 10, 600_000)
	require.NoError(t, err)
	require.Len(t, pulled, 1)
	require.Equal(t, "2", decodeBody(pulled[0]))
}
