package enginetest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// pushAndAck has a push and an acknowledgement meet.
func pushAndAck(r *rig, push []core.PushItem, ack core.Ack) (pushResult, core.Acked) {
	r.t.Helper()
	pushed, acked := make(chan pushResult, 1), make(chan core.Acked, 1)
	require.NoError(r.t, r.Pause(context.Background(), "q", true))
	go func() {
		out, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: push})
		pushed <- pushResult{out, err}
	}()
	go func() {
		out, err := r.Ack(context.Background(), []core.Ack{ack})
		if err != nil {
			out = []core.Acked{{Err: err}}
		}
		acked <- out[0]
	}()
	r.eventually(func() bool {
		s, err := r.QueueStats(context.Background(), "q", "")
		require.NoError(r.t, err)
		return s.PushesWaiting == 1 && s.SettlesWaiting == 1
	}, "they do not wait")
	require.NoError(r.t, r.Pause(context.Background(), "q", false))
	return <-pushed, <-acked
}

// rideTogether has a push and an acknowledgement meet: both are in one commit.
func rideTogether(r *rig, h *hooked) {
	r.push("q", 1, 2)
	b := r.pop("q", "", 1)
	appends, updates := h.appends.Load(), h.updates.Load()
	p, a := pushAndAck(r, named("m3", "3"), core.Ack{Partition: r.partition("q").ID, TransactionID: "m1", Lease: b.lease, Status: core.AckCompleted})
	require.NoError(r.t, p.err)
	require.Equal(r.t, core.PushQueued, p.out[0].Status)
	require.True(r.t, a.Released)
	require.Equal(r.t, []int64{appends, updates + 1}, []int64{h.appends.Load(), h.updates.Load()})
	require.Equal(r.t, "d", r.statuses("m3"))
	require.Equal(r.t, []string{"m2", "m3"}, r.pop("q", "", 10).names())
}

// rideAlone has a push meet an acknowledgement in a commit that the store refuses for what is pushed: the acknowledgement is stored by itself.
func rideAlone(r *rig, h *hooked) {
	r.push("q", 1, 2)
	b := r.pop("q", "", 1)
	h.set(func(h *hooked) {
		h.onUpdate = func(cs *core.ChangeSet) error {
			if len(cs.Segments) > 0 {
				return core.Errorf(core.CodeInvalid, "update", "the store cannot take it")
			}
			return nil
		}
		h.onAppend = bad(core.CodeInvalid, "poison")
	})
	push := append(named("m3", "3"), named("m1", "again")...)
	p, a := pushAndAck(r, push, core.Ack{Partition: r.partition("q").ID, TransactionID: "m1", Lease: b.lease, Status: core.AckCompleted})
	require.NoError(r.t, p.err)
	require.Equal(r.t, []core.PushStatus{core.PushQueued, core.PushDuplicate}, []core.PushStatus{p.out[0].Status, p.out[1].Status})
	require.True(r.t, a.Released)
	b = r.pop("q", "", 1)
	require.Equal(r.t, []string{"m2"}, b.names())
	p, a = pushAndAck(r, named("m4", "poison"), core.Ack{Partition: r.partition("q").ID, TransactionID: "m2", Lease: b.lease, Status: core.AckCompleted})
	require.Equal(r.t, core.CodeInvalid, core.CodeOf(p.err))
	require.True(r.t, a.Released)
	h.set(func(h *hooked) { h.onAppend, h.onUpdate = nil, nil })
	require.Equal(r.t, "+", r.statuses("m4"), "what was refused is not remembered")
	require.Equal(r.t, []string{"m3", "m4"}, r.pop("q", "", 10).names())
}

// rideAway has a push meet an acknowledgement at a store that is away: neither takes place, nor is anything of them remembered.
func rideAway(r *rig, h *hooked) {
	r.push("q", 1, 2)
	b := r.pop("q", "", 1)
	ack := core.Ack{Partition: r.partition("q").ID, TransactionID: "m1", Lease: b.lease, Status: core.AckCompleted}
	h.set(func(h *hooked) { h.onUpdate = away })
	p, a := pushAndAck(r, named("m3", "3"), ack)
	require.Equal(r.t, core.CodeUnavailable, core.CodeOf(p.err))
	require.Equal(r.t, core.CodeUnavailable, core.CodeOf(a.Err))
	h.set(func(h *hooked) { h.onUpdate = nil })
	p, a = pushAndAck(r, named("m3", "3"), ack)
	require.NoError(r.t, p.err)
	require.Equal(r.t, core.PushQueued, p.out[0].Status)
	require.True(r.t, a.Released)
	require.Equal(r.t, []string{"m2", "m3"}, r.pop("q", "", 10).names())
}
