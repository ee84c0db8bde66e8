package enginetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Ending checks how claims that wait end without messages, and that nothing of them stays.
func Ending(t *testing.T, open Open) {
	for name, run := range map[string]func(*rig, *hooked){
		"at the deadline and not before":           endDeadline,
		"at once when not waiting":                 endAtOnce,
		"when the client leaves":                   endCancel,
		"when the client leaves before the engine": endCanceledBefore,
		"when the client leaves under its commit":  endCancelCommit,
		"when it leaves under a commit for others": endCancelHungry,
		"with a second claim by the same client":   endSameClient,
		"at a shutdown":                            endShutdown,
		"at the deletion of the queue":             endDelete,
		"with many that ended before it":           endMany,
		"on a queue that is not there":             endNoQueue,
		"behind too many":                          endOverload,
		"with what it settled, swept or not":       endSwept,
	} {
		t.Run(name, func(t *testing.T) {
			var h *hooked
			r := newRig(t, hook(open, &h))
			run(r, h)
		})
	}
}

func endDeadline(r *rig, _ *hooked) {
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, time.Hour))
	first := r.park(waitingLease("q", 1, 7*time.Second))
	second := r.park(waitingLease("q", 1, 3*time.Second))
	r.clock.Advance(3*time.Second - time.Microsecond)
	second.waits("q")
	r.clock.Advance(time.Microsecond)
	require.Equal(r.t, core.CodeNothing, second.code())
	r.clock.Advance(4*time.Second - time.Microsecond)
	first.waits("q")
	r.clock.Advance(time.Microsecond)
	require.Equal(r.t, core.CodeNothing, first.code())
	require.Zero(r.t, r.claimsWaiting("q", ""))
}

func endAtOnce(r *rig, _ *hooked) {
	r.queue("q", core.ProtocolQueen)
	for _, group := range []string{"", "g"} {
		require.Empty(r.t, r.pop("q", group, 10).Partitions)
	}
	require.Empty(r.t, r.pull("q", 10).Partitions)
	p := waitingPop("q", "", 1, 0)
	p.Partition = "none"
	require.Empty(r.t, r.claim(p).Partitions)
	require.Zero(r.t, r.claimsWaiting("q", ""))
}

func endCancel(r *rig, _ *hooked) {
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, time.Hour))
	p := waitingLease("q", 1, time.Hour)
	p.Client = "me"
	for range 3 {
		c := r.park(p)
		c.cancel()
		require.Equal(r.t, core.CodeCanceled, c.code())
		r.settleDown("q")
		require.Zero(r.t, r.claimsWaiting("q", ""))
	}
	r.push("q", 1, 1)
	r.settleDown("q")
	require.Equal(r.t, "F=0", r.show("q", ""))
	require.Equal(r.t, []int64{1}, r.lease("q", 1).offsets())
}

func endCanceledBefore(r *rig, _ *hooked) {
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, time.Hour))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 100 {
		_, err := r.Claim(ctx, waitingLease("q", 1, time.Hour))
		require.Equal(r.t, core.CodeCanceled, core.CodeOf(err))
	}
	r.settleDown("q")
	require.Zero(r.t, r.claimsWaiting("q", ""))
	require.LessOrEqual(r.t, r.clock.Next(), core.TimeOf(epoch).Add(5*time.Second))
}

func endCancelCommit(r *rig, h *hooked) {
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, time.Hour))
	r.push("q", 1, 3)
	for _, p := range []core.ClaimParams{waitingLease("q", 2, time.Hour), waitingPop("q", "", 2, 0)} {
		reached, release := h.hold()
		c := r.begin(p)
		<-reached
		c.cancel()
		time.Sleep(20 * time.Millisecond) // its goroutine must see the end before the commit does
		release()
		require.Equal(r.t, core.CodeCanceled, c.code())
		_, batches := r.state("q", "")
		for i := range batches {
			require.Equal(r.t, core.BatchWaiting, batches[i].State)
			require.Zero(r.t, batches[i].Attempts)
		}
	}
	b := r.lease("q", 3)
	require.Equal(r.t, []int64{1, 2, 3}, b.offsets())
	for o := int64(1); o <= 3; o++ {
		require.EqualValues(r.t, 1, b.at(r.t, o).Attempt)
		require.Equal(r.t, core.OwnTurn(o), b.at(r.t, o).Turn, "what is given back unused keeps its turn")
	}
}

// endCancelHungry cancels a claim while a commit runs in which others get everything: it must end at once afterwards.
func endCancelHungry(r *rig, h *hooked) {
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, time.Hour))
	first := r.park(waitingLease("q", 1, time.Hour))
	second := r.park(waitingLease("q", 1, time.Hour))
	reached, release := h.hold()
	go r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQuerator, Items: []core.PushItem{{Queue: "q"}}}) //nolint:errcheck // the claim shows it
	<-reached
	release()
	reached, release = h.hold()
	select {
	case <-reached:
	case <-first.done:
	}
	second.cancel()
	time.Sleep(20 * time.Millisecond) // its goroutine must see the end before the commit does
	release()
	require.Equal(r.t, core.CodeCanceled, second.code())
	r.settleDown("q")
	require.Zero(r.t, r.claimsWaiting("q", ""))
}

func endSameClient(r *rig, _ *hooked) {
	r.queue("q", core.ProtocolQuerator, querator(time.Hour, 24*time.Hour))
	p := waitingLease("q", 1, time.Minute)
	p.Client = "me"
	c := r.park(p)
	_, err := r.Claim(context.Background(), p)
	require.Equal(r.t, core.CodeDuplicateClient, core.CodeOf(err))
	c.waits("q")
	r.push("q", 1, 1)
	require.Equal(r.t, []string{"m1"}, c.names())
	c = r.park(p)
	r.clock.Advance(time.Minute)
	require.Equal(r.t, core.CodeNothing, c.code())
	c = r.park(p)
	r.push("q", 2, 2)
	require.Len(r.t, c.names(), 1)
}

func endShutdown(r *rig, _ *hooked) {
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, time.Hour))
	r.queue("a.b", core.ProtocolQueen, func(o *core.QueueOptions) { o.Namespace = "a" })
	c := r.park(waitingLease("q", 1, time.Hour))
	d := r.begin(core.ClaimParams{Protocol: core.ProtocolQueen, Exclusive: true, Namespace: "a", Messages: 1, Wait: time.Hour})
	r.eventually(func() bool { return r.claimsWaiting("a.b", "") == 1 }, "the discovery does not wait")
	r.stop()
	require.Equal(r.t, core.CodeClosed, c.code())
	require.Equal(r.t, core.CodeClosed, d.code())
	_, err := r.Claim(context.Background(), waitingLease("q", 1, time.Hour))
	require.Equal(r.t, core.CodeClosed, core.CodeOf(err))
	_, err = r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQuerator, Items: []core.PushItem{{Queue: "q"}}})
	require.Equal(r.t, core.CodeClosed, core.CodeOf(err))
	r.stop()
	r.start()
	require.Empty(r.t, r.lease("q", 1).Partitions)
}

func endDelete(r *rig, _ *hooked) {
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, time.Hour))
	c := r.park(waitingLease("q", 1, time.Hour))
	g := r.park(waitingPop("q", "g", 1, time.Hour))
	require.NoError(r.t, r.DeleteQueue(context.Background(), "q", false))
	require.Equal(r.t, core.CodeDeleted, c.code())
	require.Equal(r.t, core.CodeDeleted, g.code())
	_, err := r.Claim(context.Background(), waitingLease("q", 1, time.Hour))
	require.Equal(r.t, core.CodeNoQueue, core.CodeOf(err))
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, time.Hour))
	require.Empty(r.t, r.lease("q", 1).Partitions)
	require.Equal(r.t, core.CodeNoQueue, core.CodeOf(r.DeleteQueue(context.Background(), "other", false)))
}

// endMany polls an idle queue very often; the one claim that then waits must still be served, and the count must be right.
func endMany(r *rig, _ *hooked) {
	r.queue("q", core.ProtocolQueen)
	for range 2000 {
		require.Empty(r.t, r.pop("q", "", 1).Partitions)
	}
	c := r.park(waitingPop("q", "", 1, time.Hour))
	require.Equal(r.t, 1, r.claimsWaiting("q", ""))
	r.push("q", 1, 1)
	require.Equal(r.t, []string{"m1"}, c.names())
}

func endNoQueue(r *rig, _ *hooked) {
	_, err := r.Claim(context.Background(), waitingLease("nowhere", 1, time.Hour))
	require.Equal(r.t, core.CodeNoQueue, core.CodeOf(err))
	r.queue("q", core.ProtocolQueen)
	_, err = r.Claim(context.Background(), waitingLease("q", 0, time.Hour))
	require.Equal(r.t, core.CodeInvalid, core.CodeOf(err))
	require.Zero(r.t, r.claimsWaiting("q", ""))
}

func endOverload(r *rig, _ *hooked) {
	r.stop()
	r.start(func(o *core.Options) { o.MaxWaiting = 2 })
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, time.Hour))
	a, b := r.park(waitingLease("q", 1, time.Hour)), r.park(waitingLease("q", 1, time.Hour))
	_, err := r.Claim(context.Background(), waitingLease("q", 1, time.Hour))
	require.Equal(r.t, core.CodeOverloaded, core.CodeOf(err))
	a.cancel()
	require.Equal(r.t, core.CodeCanceled, a.code())
	c := r.park(waitingLease("q", 1, time.Hour))
	r.push("q", 1, 2)
	require.Len(r.t, b.names(), 1)
	require.Len(r.t, c.names(), 1)
}

// endSwept lets retention look at what a claim has settled but not read yet.
func endSwept(r *rig, h *hooked) {
	if len(r.all) > 1 {
		return // the gateway that sweeps may be another one
	}
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, time.Hour), func(o *core.QueueOptions) { o.Queen.DedupWindowSeconds = 0 })
	r.queue("other", core.ProtocolQueen)
	for i := range 3 {
		r.push("q", i, i)
		h.set(func(h *hooked) {
			h.onRead = func() {
				h.set(func(h *hooked) { h.onRead = nil })
				r.clock.Advance(time.Minute)
				r.push("other", i, i) // a turn after the sweep
			}
		})
		p := waitingPop("q", "", 10, 0)
		p.AutoAck = true
		require.Equal(r.t, []string{fmt.Sprintf("m%d", i)}, r.claim(p).names())
	}
}
