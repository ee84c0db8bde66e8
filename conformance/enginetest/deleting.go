package enginetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Deleting checks what retention and expiry delete, what they leave, and that counts stay right.
func Deleting(t *testing.T, open Open) {
	cases(t, open, map[string]func(*rig){
		"what every group has settled":            deleteSettled,
		"more than one sweep takes":               deleteMany,
		"nothing that a lease holds":              deletePinned,
		"nothing before a registered group":       deleteRegistered,
		"nothing on a Queen queue":                deleteNotQueen,
		"what is old, settled or not":             deleteRetention,
		"what is old and has an id":               deleteRetentionIDs,
		"what is old and settled":                 deleteCompleted,
		"what waited too long under a lease":      deleteMaxWait,
		"ids inside the window":                   deleteRemembered,
		"what expired":                            expireWaiting,
		"what expired under a lease":              expireLeased,
		"what expired to the dead queue":          expireDead,
		"what expired of a segment":               expirePart,
		"what expired for a group with no row":    expireNoRow,
		"what was purged":                         deletePurged,
		"what was cleared":                        deleteCleared,
		"a queue with what waits and what is due": deleteQueueScheduled,
	})
}

// sweep lets the engine's retention run.
func (r *rig) sweep(queue string) {
	r.t.Helper()
	r.advance(6*time.Second, queue)
}

func (r *rig) log(queue string) core.LogState {
	r.t.Helper()
	s, err := r.QueueStats(context.Background(), queue, "")
	require.NoError(r.t, err)
	require.Len(r.t, s.Partitions, 1)
	return s.Partitions[0].Log
}

// pushEach stores messages without ids named from to to, each as a segment of its own.
func (r *rig) pushEach(queue string, from, to int) {
	r.t.Helper()
	for i := from; i <= to; i++ {
		r.pushTo(queue, "")
	}
	require.EqualValues(r.t, to, r.log(queue).Head)
}

// deleteMany settles more segments than one sweep deletes: the rest does not wait for the next regular one.
func deleteMany(r *rig) {
	const n = 1500
	r.queue("q", core.ProtocolCloudflare)
	r.pushEach("q", 1, n)
	c := r.claim(core.ClaimParams{Protocol: core.ProtocolQueen, Exclusive: true, AutoAck: true, Queue: "q", Messages: n})
	require.Len(r.t, c.offsets(), n)
	r.sweep("q")
	require.LessOrEqual(r.t, r.log("q").Start, int64(n))
	r.advance(time.Second, "q")
	require.EqualValues(r.t, n+1, r.log("q").Start)
}

func deleteSettled(r *rig) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(3, time.Minute))
	r.pushEach("q", 1, 10)
	b := r.pull("q", 10)
	for o := int64(1); o <= 7; o++ {
		r.settle("q", core.MessageSettlement{MessageToken: r.token("q", b.at(r.t, o))})
	}
	r.sweep("q")
	require.EqualValues(r.t, 8, r.log("q").Start)
	require.EqualValues(r.t, 3, r.pending("q", ""))
	for o := int64(8); o <= 10; o++ {
		r.settle("q", core.MessageSettlement{MessageToken: r.token("q", b.at(r.t, o))})
	}
	r.sweep("q")
	l := r.log("q")
	require.EqualValues(r.t, 11, l.Start)
	require.Equal(r.t, l.HeadTotals, l.StartTotals)
	require.Zero(r.t, r.pending("q", ""))
	r.pushEach("q", 11, 12)
	require.EqualValues(r.t, 2, r.pending("q", ""))
	require.EqualValues(r.t, 2, r.pending("q", "fresh"))
	require.Equal(r.t, []int64{11, 12}, r.pull("q", 10).offsets())
}

func deletePinned(r *rig) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(3, time.Hour))
	r.pushEach("q", 1, 10)
	b := r.pull("q", 10)
	for o := int64(1); o <= 10; o++ {
		if o != 3 {
			r.settle("q", core.MessageSettlement{MessageToken: r.token("q", b.at(r.t, o))})
		}
	}
	r.sweep("q")
	require.EqualValues(r.t, 3, r.log("q").Start)
	refs, err := r.store.Segments(context.Background(), r.partition("q").Key, 0, 100)
	require.NoError(r.t, err)
	require.Len(r.t, refs, 1, "a long lease keeps one segment and not the log")
	require.EqualValues(r.t, 1, r.pending("q", ""))
	r.clock.Advance(time.Hour)
	c := r.pull("q", 10)
	require.Equal(r.t, []int64{3}, c.offsets())
	r.settle("q", core.MessageSettlement{MessageToken: r.token("q", c.at(r.t, 3))})
	r.sweep("q")
	require.EqualValues(r.t, 11, r.log("q").Start)
}

func deleteRegistered(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Hour, 24*time.Hour))
	r.pushEach("q", 1, 4)
	require.Len(r.t, r.pop("q", "g", 1).offsets(), 1)
	b := r.lease("q", 4)
	require.NoError(r.t, r.complete("q", b.at(r.t, 1), b.at(r.t, 2), b.at(r.t, 3), b.at(r.t, 4)))
	r.sweep("q")
	require.EqualValues(r.t, 1, r.log("q").Start)
	require.EqualValues(r.t, 4, r.pending("q", "g"))
	_, err := r.DeleteGroup(context.Background(), "q", "g", false)
	require.NoError(r.t, err)
	r.sweep("q")
	require.EqualValues(r.t, 5, r.log("q").Start)
}

func deleteNotQueen(r *rig) {
	r.pushEachNew("q", 3)
	b := r.pop("q", "", 3)
	require.True(r.t, r.ack("q", "", b.lease, b.at(r.t, 3).ID.String(), core.AckCompleted).Released)
	r.sweep("q")
	require.EqualValues(r.t, 1, r.log("q").Start)
	require.Equal(r.t, []int64{1, 2, 3}, r.pop("q", "late", 10).offsets())
}

func (r *rig) pushEachNew(queue string, n int) {
	r.t.Helper()
	r.queue(queue, core.ProtocolQueen)
	r.pushEach(queue, 1, n)
}

func retention(all, completed, maxWait int64) func(*core.QueueOptions) {
	return func(o *core.QueueOptions) {
		o.Queen.RetentionEnabled = all+completed > 0
		o.Queen.RetentionSeconds, o.Queen.CompletedSeconds, o.Queen.MaxWaitSeconds = all, completed, maxWait
	}
}

func deleteRetention(r *rig) {
	r.queue("q", core.ProtocolQueen, retention(60, 0, 0))
	r.pushEach("q", 1, 2)
	r.clock.Advance(40 * time.Second)
	r.pushEach("q", 3, 4)
	require.Len(r.t, r.pop("q", "", 1).offsets(), 1)
	r.sweep("q")
	require.EqualValues(r.t, 4, r.pending("q", ""))
	r.advance(20*time.Second, "q")
	r.sweep("q")
	require.EqualValues(r.t, 3, r.log("q").Start)
	require.EqualValues(r.t, 2, r.pending("q", "fresh"))
	require.EqualValues(r.t, 2, r.pending("q", ""))
	r.clock.Advance(20 * time.Second)
	r.pushEach("q", 5, 5)
	require.Equal(r.t, []int64{3, 4, 5}, r.pop("q", "", 10).offsets())
}

// deleteRetentionIDs shows that what is too old goes, although its transaction ids would be remembered for longer.
func deleteRetentionIDs(r *rig) {
	r.queue("q", core.ProtocolQueen, retention(60, 0, 0))
	require.Equal(r.t, "++", r.statuses("a", "b"))
	r.clock.Advance(61 * time.Second)
	r.sweep("q")
	require.EqualValues(r.t, 3, r.log("q").Start)
	require.Empty(r.t, r.pop("q", "", 10).names())
}

func deleteCompleted(r *rig) {
	r.queue("q", core.ProtocolQueen, retention(0, 60, 0), func(o *core.QueueOptions) { o.Queen.DedupWindowSeconds = 0 })
	r.pushEach("q", 1, 4)
	b := r.pop("q", "", 2)
	require.True(r.t, r.ack("q", "", b.lease, b.at(r.t, 2).ID.String(), core.AckCompleted).Released)
	c := r.pop("q", "g", 1)
	require.True(r.t, r.ack("q", "g", c.lease, c.at(r.t, 1).ID.String(), core.AckCompleted).Released)
	r.clock.Advance(61 * time.Second)
	r.sweep("q")
	require.EqualValues(r.t, 2, r.log("q").Start, "only what every group has passed")
	require.EqualValues(r.t, 2, r.pending("q", ""))
	require.EqualValues(r.t, 3, r.pending("q", "g"))
}

func deleteMaxWait(r *rig) {
	r.queue("q", core.ProtocolQueen, retention(0, 0, 10))
	r.pushEach("q", 1, 3)
	b := r.pop("q", "", 2)
	require.Len(r.t, b.offsets(), 2)
	r.clock.Advance(11 * time.Second)
	r.sweep("q")
	require.EqualValues(r.t, 4, r.log("q").Start)
	require.Zero(r.t, r.pending("q", ""), "what no longer exists is settled")
	r.pushEach("q", 4, 4)
	require.EqualValues(r.t, 1, r.pending("q", ""))
	r.clock.Advance(time.Minute)
	r.pushEach("q", 5, 5)
	require.Equal(r.t, []int64{5}, r.pop("q", "", 10).offsets())
	require.EqualValues(r.t, 1, r.pending("q", ""))
	_, n, err := r.DeadLetters(context.Background(), core.DeadLetterFilter{Limit: 10})
	require.NoError(r.t, err)
	require.Zero(r.t, n)
}

func deleteRemembered(r *rig) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(3, time.Minute))
	require.Equal(r.t, "++", r.statuses("a", "b"))
	b := r.pop("q", "", 2)
	require.True(r.t, r.ack("q", "", b.lease, "b", core.AckCompleted).Released)
	r.sweep("q")
	require.Equal(r.t, "d+", r.statuses("a", "c"))
	r.restart()
	require.Equal(r.t, "dd", r.statuses("b", "c"))
	require.EqualValues(r.t, 1, r.pending("q", ""))
	r.clock.Advance(2 * time.Hour)
	c := r.pop("q", "", 2)
	require.True(r.t, r.ack("q", "", c.lease, "c", core.AckCompleted).Released)
	r.sweep("q")
	require.EqualValues(r.t, 4, r.log("q").Start)
	require.Equal(r.t, "+", r.statuses("a"))
}

func deletePurged(r *rig) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(3, time.Minute))
	r.pushEach("q", 1, 5)
	b := r.pull("q", 2)
	require.Len(r.t, r.pop("q", "g", 1).offsets(), 1)
	r.pushAt("q", "late", r.Now().Add(time.Second))
	require.EqualValues(r.t, 6, r.pending("q", ""))
	require.NoError(r.t, r.Purge(context.Background(), "q"))
	for _, g := range []string{"", "g", "other"} {
		require.Zero(r.t, r.pending("q", g))
	}
	require.True(r.t, r.settle("q", core.MessageSettlement{MessageToken: r.token("q", b.at(r.t, 1))})[0].Counted)
	require.NotZero(r.t, r.settle("q", core.MessageSettlement{MessageToken: r.token("q", b.at(r.t, 2)), Outcome: core.OutcomeRetry})[0].Code)
	r.advance(2*time.Minute, "q")
	require.Empty(r.t, r.pull("q", 10).offsets())
	r.pushEach("q", 6, 6)
	require.Equal(r.t, []int64{6}, r.pull("q", 10).offsets())
	require.Equal(r.t, []int64{6}, r.pop("q", "g", 10).offsets())
	require.Equal(r.t, core.CodeNoQueue, core.CodeOf(r.Purge(context.Background(), "none")))
}

func deleteCleared(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Hour, 24*time.Hour))
	r.pushEach("q", 1, 6)
	b := r.lease("q", 3)
	require.NoError(r.t, r.retry("q", r.Now().Add(time.Minute), b.at(r.t, 1)))
	require.NoError(r.t, r.retry("q", 0, b.at(r.t, 2)))
	r.pushAt("q", "late", r.Now().Add(time.Minute))
	require.NoError(r.t, r.Clear(context.Background(), core.ClearParams{Queue: "q", Queued: true}))
	require.EqualValues(r.t, 3, r.pending("q", ""), "one leased, one retried for later, one scheduled")
	require.Empty(r.t, r.lease("q", 10).offsets())
	require.NoError(r.t, r.complete("q", b.at(r.t, 3)))
	require.NoError(r.t, r.Clear(context.Background(), core.ClearParams{Queue: "q", Scheduled: true}))
	require.Zero(r.t, r.pending("q", ""))
	r.advance(2*time.Minute, "q")
	require.Empty(r.t, r.lease("q", 10).offsets())
}

func deleteQueueScheduled(r *rig) {
	for i := range 2 {
		r.queue("q", core.ProtocolCloudflare, cloudflare(3, time.Minute))
		require.Zero(r.t, r.pending("q", ""), fmt.Sprint("round ", i))
		r.pushEach("q", 1, 2)
		r.pushAt("q", "late", r.Now().Add(time.Second))
		require.Len(r.t, r.pull("q", 1).offsets(), 1)
		require.NoError(r.t, r.DeleteQueue(context.Background(), "q", false))
		r.clock.Advance(10 * time.Minute)
	}
}
