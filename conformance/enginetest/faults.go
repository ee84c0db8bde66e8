package enginetest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Faults checks what requests see of a store that fails, and that nothing half done stays.
func Faults(t *testing.T, open Open) {
	for name, run := range map[string]func(*rig, *hooked){
		"one push that cannot be stored":             faultOnePush,
		"a duplicate of a push that is not stored":   faultDuplicate,
		"pushes to a store that is away":             faultPushAway,
		"one settlement that cannot be stored":       faultOneSettlement,
		"settlements at a store that is away":        faultSettleAway,
		"claims at a store that is away":             faultClaimAway,
		"one claim that cannot be stored":            faultOneClaim,
		"sweeps at a store that is away":             faultSweep,
		"a read of transaction ids that fails":       faultHeaders,
		"a delayed push that is not stored":          faultDelayed,
		"a commit whose outcome is not known":        faultUnknown,
		"a refused transaction and its ids":          faultRefused,
		"an atomic push into a queue that is gone":   faultAtomicGone,
		"ids forgotten under a transaction":          faultForgotten,
		"an atomic duplicate of what is not stored":  faultAtomicEcho,
		"a push and an acknowledgement in one":       rideTogether,
		"a push that cannot be stored, and another":  rideAlone,
		"a push and another at a store that is away": rideAway,
		"commits of two clients that push in turn":   faultNone,
	} {
		t.Run(name, func(t *testing.T) {
			var h *hooked
			r := newRig(t, hook(open, &h))
			run(r, h)
		})
	}
}

// faultNone has two clients push one message after the other, at a store at which nothing fails: they share commits, and do not take turns.
func faultNone(r *rig, h *hooked) {
	const each = 200
	r.push("q", 1, 1)
	h.appends.Store(0)
	h.set(func(h *hooked) {
		h.onAppend = func(core.AppendParams) error {
			for range 100 {
				runtime.Gosched() // a commit takes a while, so that they meet at all
			}
			return nil
		}
	})
	require.NoError(r.t, r.Pause(context.Background(), "q", true)) // so that they begin together
	var wg sync.WaitGroup
	for client := range 2 {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprint(client, "-", i)
				_, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: named(name, name)})
				assert.NoError(r.t, err)
			}
		})
	}
	r.eventually(func() bool {
		s, err := r.QueueStats(context.Background(), "q", "")
		require.NoError(r.t, err)
		return s.PushesWaiting == 2
	}, "they do not wait")
	require.NoError(r.t, r.Pause(context.Background(), "q", false))
	wg.Wait()
	// It would be each of them twice, less one. A busy machine keeps a client away for longer than a commit waits.
	assert.Less(r.t, h.appends.Load(), int64(2*each-each/10), "some of them share a commit")
}

// bad fails commits in which a message's body holds the text, as a store does that cannot take it.
func bad(code core.Code, text string) func(core.AppendParams) error {
	return func(p core.AppendParams) error {
		for i := range p.Segments {
			if bytes.Contains(p.Segments[i].Body, []byte(text)) {
				return core.Errorf(code, "append", "the store cannot take it")
			}
		}
		return nil
	}
}

type pushResult struct {
	out []core.Pushed
	err error
}

// together sends pushes that meet in one commit, in order.
func (r *rig) together(pushes ...[]core.PushItem) []pushResult {
	r.t.Helper()
	params := make([]core.PushParams, len(pushes))
	for i, items := range pushes {
		params[i] = core.PushParams{Protocol: core.ProtocolQueen, Items: items}
	}
	return togetherAt(r, r.engines, params...)
}

// togetherAt is together at one engine of several, or at the only one.
func togetherAt(r *rig, at interface {
	Push(ctx context.Context, p core.PushParams) ([]core.Pushed, error)
	Pause(ctx context.Context, queue string, on bool) error
	QueueStats(ctx context.Context, queue, group string) (core.QueueStats, error)
}, pushes ...core.PushParams,
) []pushResult {
	r.t.Helper()
	require.NoError(r.t, at.Pause(context.Background(), "q", true))
	done := make([]chan pushResult, len(pushes))
	for i := range pushes {
		done[i] = make(chan pushResult, 1)
		go func() {
			out, err := at.Push(context.Background(), pushes[i])
			done[i] <- pushResult{out, err}
		}()
		r.eventually(func() bool {
			s, err := at.QueueStats(context.Background(), "q", "")
			require.NoError(r.t, err)
			return s.PushesWaiting == i+1
		}, "the push does not wait")
	}
	require.NoError(r.t, at.Pause(context.Background(), "q", false))
	results := make([]pushResult, len(pushes))
	for i := range done {
		select {
		case results[i] = <-done[i]:
		case <-time.After(patience):
			require.Failf(r.t, "a push is not answered", "number %d", i)
		}
	}
	return results
}

func named(transaction, payload string) []core.PushItem {
	return []core.PushItem{{Queue: "q", NewMessage: core.NewMessage{TransactionID: transaction, Payload: []byte(payload)}}}
}

func faultOnePush(r *rig, h *hooked) {
	r.queue("q", core.ProtocolQueen)
	h.set(func(h *hooked) { h.onAppend = bad(core.CodeInvalid, "poison") })
	var pushes [][]core.PushItem
	for i := range 9 {
		pushes = append(pushes, named(fmt.Sprint("t", i), map[bool]string{true: "poison", false: "fine"}[i == 3]))
	}
	for i, p := range r.together(pushes...) {
		if i == 3 {
			require.Equal(r.t, core.CodeInvalid, core.CodeOf(p.err))
			continue
		}
		require.NoError(r.t, p.err)
		require.Equal(r.t, core.PushQueued, p.out[0].Status)
	}
	require.Equal(r.t, []string{"t0", "t1", "t2", "t4", "t5", "t6", "t7", "t8"}, r.pop("q", "", 100).names())
	h.set(func(h *hooked) { h.onAppend = nil })
	require.Equal(r.t, "d+d", r.statuses("t2", "t3", "t8"))
	require.NoError(r.t, r.ack("q", "", uuid.UUID{}, "t5", core.AckCompleted).Err)
	require.Equal(r.t, "F=8 leased-x[6-8] 6-8", r.show("q", ""))
}

func faultDuplicate(r *rig, h *hooked) {
	r.queue("q", core.ProtocolQueen)
	h.set(func(h *hooked) { h.onAppend = bad(core.CodeInvalid, "poison") })
	got := r.together(named("a", "poison"), named("a", "fine"), named("a", "late"))
	require.Equal(r.t, core.CodeInvalid, core.CodeOf(got[0].err))
	require.NoError(r.t, got[1].err)
	require.Equal(r.t, core.PushQueued, got[1].out[0].Status, "the first was not stored, so this one is no duplicate")
	require.NoError(r.t, got[2].err)
	require.Equal(r.t, core.PushDuplicate, got[2].out[0].Status)
	require.Equal(r.t, got[1].out[0].ID, got[2].out[0].ID)
	require.Equal(r.t, []string{"fine"}, r.pop("q", "", 10).payloads())
}

func faultPushAway(r *rig, h *hooked) {
	r.queue("q", core.ProtocolQueen)
	require.Equal(r.t, "+", r.statuses("before"))
	h.set(func(h *hooked) { h.onAppend = bad(core.CodeUnavailable, "fine") })
	before := h.appends.Load()
	for _, p := range r.together(named("a", "fine"), named("b", "fine"), named("a", "fine"), named("c", "other")) {
		require.Equal(r.t, core.CodeUnavailable, core.CodeOf(p.err))
	}
	require.Equal(r.t, before+1, h.appends.Load(), "a store that is away is not asked again in halves")
	h.set(func(h *hooked) { h.onAppend = nil })
	require.EqualValues(r.t, 1, r.pending("q", ""))
	require.Equal(r.t, "++d+", r.statuses("a", "b", "before", "c"))
}

func faultOneSettlement(r *rig, h *hooked) {
	r.pushTo("q", "a", "b", "c", "d")
	p := waitingPop("q", "", 10, 0)
	p.Partitions = 0
	b := r.claim(p)
	poison := b.Partitions[1].Partition.Key
	h.set(func(h *hooked) {
		h.onUpdate = func(cs *core.ChangeSet) error {
			for i := range cs.Rows {
				if cs.Rows[i].Key.Partition == poison {
					return core.Errorf(core.CodeInvalid, "update", "the store cannot take it")
				}
			}
			return nil
		}
	})
	var acks []core.Ack
	for _, cp := range b.Partitions {
		acks = append(acks, core.Ack{Partition: cp.Partition.ID, TransactionID: cp.Messages[0].ID.String(), Lease: b.lease})
	}
	out, err := r.Ack(context.Background(), acks)
	require.NoError(r.t, err)
	for i := range out {
		if i == 1 {
			require.Equal(r.t, core.CodeInvalid, core.CodeOf(out[i].Err))
			continue
		}
		require.NoError(r.t, out[i].Err)
		require.True(r.t, out[i].Released)
	}
	require.EqualValues(r.t, 1, r.pending("q", ""))
	h.set(func(h *hooked) { h.onUpdate = nil })
	out, err = r.Ack(context.Background(), acks[1:2])
	require.NoError(r.t, err)
	require.True(r.t, out[0].Released)
}

func away(*core.ChangeSet) error {
	return core.Errorf(core.CodeUnavailable, "update", "the store is away")
}

func faultSettleAway(r *rig, h *hooked) {
	r.push("q", 1, 3)
	b := r.pop("q", "", 3)
	h.set(func(h *hooked) { h.onUpdate = away })
	require.Equal(r.t, core.CodeUnavailable, core.CodeOf(r.ack("q", "", b.lease, "m2", core.AckCompleted).Err))
	_, err := r.Transact(context.Background(), core.TransactParams{Pushes: named("t", "t")})
	require.Equal(r.t, core.CodeUnavailable, core.CodeOf(err))
	h.set(func(h *hooked) { h.onUpdate = nil })
	require.Equal(r.t, "F=3 leased-x[1-3] 1-3", r.show("q", ""))
	require.False(r.t, r.ack("q", "", b.lease, "m2", core.AckCompleted).Released)
	require.Equal(r.t, "+", r.statuses("t"))
}

func faultClaimAway(r *rig, h *hooked) {
	r.push("q", 1, 3)
	c := r.park(func() core.ClaimParams { p := waitingPop("q", "", 3, time.Hour); p.Partition = "none yet"; return p }())
	h.set(func(h *hooked) { h.onUpdate = away })
	_, err := r.Claim(context.Background(), waitingPop("q", "", 3, time.Hour))
	require.Equal(r.t, core.CodeUnavailable, core.CodeOf(err))
	h.set(func(h *hooked) { h.onUpdate = nil })
	require.Equal(r.t, []string{"m1", "m2", "m3"}, r.pop("q", "", 3).names())
	c.waits("q")
	require.Equal(r.t, 1, r.claimsWaiting("q", ""))
}

// faultOneClaim fails the commits of one queue's claims: those of other queues in the same pass must go through.
func faultOneClaim(r *rig, h *hooked) {
	r.queue("q", core.ProtocolQueen)
	r.queue("p", core.ProtocolQueen)
	poison := r.partition("p").Key
	c, d := r.park(waitingPop("q", "", 3, time.Hour)), r.park(waitingPop("p", "", 3, time.Hour))
	h.set(func(h *hooked) {
		h.onUpdate = func(cs *core.ChangeSet) error {
			for i := range cs.Rows {
				if cs.Rows[i].Key.Partition == poison {
					return core.Errorf(core.CodeInvalid, "update", "the store cannot take it")
				}
			}
			return nil
		}
	})
	_, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: []core.PushItem{
		{Queue: "q", NewMessage: core.NewMessage{TransactionID: "a"}}, {Queue: "p", NewMessage: core.NewMessage{TransactionID: "b"}},
	}})
	require.NoError(r.t, err)
	require.Equal(r.t, core.CodeInvalid, d.code())
	require.Equal(r.t, []string{"a"}, c.names())
	h.set(func(h *hooked) { h.onUpdate = nil })
	require.Equal(r.t, []string{"b"}, r.pop("p", "", 3).names())
}

// faultSweep has a lease run out and a message come due while the store is away: the engine tries again, but not in a loop.
func faultSweep(r *rig, h *hooked) {
	r.push("q", 1, 2)
	r.pushAt("q", "late", r.Now().Add(time.Minute))
	require.Len(r.t, r.pop("q", "", 2).names(), 2)
	h.set(func(h *hooked) { h.onUpdate = away })
	before := h.updates.Load()
	r.clock.Advance(2 * time.Minute)
	time.Sleep(100 * time.Millisecond)
	require.Less(r.t, h.updates.Load()-before, int64(20), "a sweep that fails is tried again at once for ever")
	h.set(func(h *hooked) { h.onUpdate = nil })
	r.clock.Advance(10 * time.Second)
	r.settleDown("q")
	require.Equal(r.t, []string{"m1", "m2", "late"}, r.pop("q", "", 10).names())
}

func faultHeaders(r *rig, h *hooked) {
	require.Equal(r.t, "++", r.statuses("a", "b"))
	b := r.pop("q", "", 10)
	r.restart()
	h.set(func(h *hooked) {
		h.onHeaders = func(core.HeadersParams) error {
			return core.Errorf(core.CodeUnavailable, "headers", "the store is away")
		}
	})
	done := make(chan error, 2)
	go func() {
		_, err := r.pushNamed(false, "a")
		done <- err
	}()
	go func() {
		_, err := r.Ack(context.Background(), []core.Ack{{Partition: b.Partitions[0].Partition.ID, TransactionID: "a", Lease: b.lease}})
		done <- err
	}()
	for range 2 {
		select {
		case err := <-done:
			require.Equal(r.t, core.CodeUnavailable, core.CodeOf(err))
		case <-time.After(patience):
			require.Fail(r.t, "a request is not answered")
		}
	}
	h.set(func(h *hooked) { h.onHeaders = nil })
	require.Equal(r.t, "d+", r.statuses("b", "c"))
	require.False(r.t, r.ack("q", "", b.lease, "a", core.AckCompleted).Released)
}

func faultDelayed(r *rig, h *hooked) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(3, time.Minute))
	h.set(func(h *hooked) { h.onUpdate = away })
	_, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolCloudflare, Items: []core.PushItem{
		{Queue: "q", NewMessage: core.NewMessage{Due: r.Now().Add(time.Second)}}, {Queue: "q"},
	}})
	require.Equal(r.t, core.CodeUnavailable, core.CodeOf(err))
	h.set(func(h *hooked) { h.onUpdate = nil })
	r.advance(time.Minute, "q")
	require.Zero(r.t, r.pending("q", ""))
	require.Empty(r.t, r.pull("q", 10).offsets())
}

// faultUnknown loses the answer of a commit that took place: the caller must not be told that nothing was stored.
func faultUnknown(r *rig, h *hooked) {
	r.queue("q", core.ProtocolQueen)
	var once bool
	h.set(func(h *hooked) {
		h.afterAppend = func() error {
			if once {
				return nil
			}
			once = true
			return core.Errorf(core.CodeUnknown, "append", "the answer is lost")
		}
	})
	out, err := r.pushNamed(false, "a")
	require.NoError(r.t, err, "the commit took place, as Outcome tells")
	require.Equal(r.t, core.PushQueued, out[0].Status)
	require.Equal(r.t, "d", r.statuses("a"))
	require.Equal(r.t, []string{"a"}, r.pop("q", "", 10).names())
}

// faultRefused has a refused transaction and another with the same transaction id meet in one pass, in either order.
func faultRefused(r *rig, h *hooked) {
	r.push("q", 1, 1)
	b := r.pop("q", "", 1)
	part := r.partition("q").ID
	r.clock.Advance(time.Minute) // the lease is over, so that its acknowledgement refuses a transaction
	const rounds = 12
	for i := range rounds {
		name := fmt.Sprint("x", i)
		reached, release := h.hold()
		go r.Seek(context.Background(), core.SeekParams{Queue: "q", Group: "other", ToEnd: true}) //nolint:errcheck // it only keeps the engine busy
		<-reached
		refused, stored := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := r.transact(core.TransactParams{Pushes: named(name, "1"), Acks: []core.Ack{{Partition: part, TransactionID: "m1", Lease: b.lease}}})
			refused <- err
		}()
		go func() {
			_, err := r.transact(core.TransactParams{Pushes: named(name, "2")})
			stored <- err
		}()
		time.Sleep(2 * time.Millisecond) // both wait for the commit that is held
		release()
		require.Contains(r.t, []core.Code{core.CodeLeaseLost, core.CodeDuplicate}, core.CodeOf(<-refused))
		require.NoError(r.t, <-stored, "what a refused transaction would have pushed is not there")
	}
	require.EqualValues(r.t, 1+rounds, r.pending("q", ""))
}
