package enginetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// meddled is a shared store in which something can be done just before the next append of the first engine, or in its place.
type meddled struct {
	core.Store
	core.Shared

	another func() core.Store
	before  atomic.Pointer[func() error]
	moved   atomic.Pointer[func(ask func() ([]core.NewSegment, error)) ([]core.NewSegment, error)]
}

func meddle(open Open) Open {
	return func(t *testing.T) core.Store {
		t.Helper()
		s := open(t).(Sharing)                                                 //nolint:forcetypeassert // suites about two engines are given such stores
		return &meddled{Store: s, Shared: s.(core.Shared), another: s.Another} //nolint:forcetypeassert // the same
	}
}

// Another implements Sharing.
func (m *meddled) Another() core.Store { return m.another() }

// Append implements core.Log.
func (m *meddled) Append(ctx context.Context, p core.AppendParams) ([]core.Placed, error) {
	if f := m.before.Swap(nil); f != nil {
		if err := (*f)(); err != nil {
			return nil, err
		}
	}
	return m.Store.Append(ctx, m.withMoved(p))
}

// beforeAppend has f come before the next append of the first engine, which fails with its error.
func (r *rig) beforeAppend(f func() error) {
	r.store.(*meddled).before.Store(&f) //nolint:forcetypeassert // the case was given such a store
}

// pushThere has the second engine push messages just before the next append of the first, and returns where their ids will be.
func (r *rig) pushThere(names ...string) *[]core.Pushed {
	var out []core.Pushed
	r.beforeAppend(func() (err error) {
		out, err = r.all[1].Push(context.Background(), queenPush(false, names...))
		return err
	})
	return &out
}

func queenPush(atomically bool, names ...string) core.PushParams {
	p := core.PushParams{Protocol: core.ProtocolQueen, Atomic: atomically}
	for _, name := range names {
		p.Items = append(p.Items, named(name, name)...)
	}
	return p
}

// stored returns the ids of all messages of q's first partition by transaction id, each of which must be there once.
func (r *rig) stored() map[string]uuid.UUID {
	r.t.Helper()
	out := map[string]uuid.UUID{}
	b := r.claim(core.ClaimParams{Protocol: core.ProtocolQueen, Exclusive: true, Queue: "q", Group: uuid.NewString(), Partition: core.DefaultPartition, Messages: 100})
	for _, p := range b.Partitions {
		for i := range p.Messages {
			m := &p.Messages[i]
			require.NotContains(r.t, out, m.TransactionID, "stored twice")
			out[m.TransactionID] = m.ID
		}
	}
	return out
}

// requireStored checks that what a push was told is there under the ids that it was told.
func (r *rig) requireStored(results ...pushResult) {
	r.t.Helper()
	ids := r.stored()
	for n := range results {
		require.NoError(r.t, results[n].err)
		for _, o := range results[n].out {
			require.NotEqual(r.t, core.PushFailed, o.Status)
			require.Equal(r.t, ids[o.TransactionID].String(), o.ID.String(), "push %d was told of %s", n, o.TransactionID)
		}
	}
}

// echoDuplicate has three pushes of one id meet, and another engine come before all of them.
func echoDuplicate(r *rig) {
	for i := range 3 {
		pushOne(r, i%2, fmt.Sprint("before", i))
		name, own := fmt.Sprint("t", i), fmt.Sprint("own", i)
		theirs := r.pushThere(name)
		got := togetherAt(r, r.engine(r.t, 0), queenPush(false, name, own), queenPush(false, own, name), queenPush(false, name, name))
		require.Equal(r.t, core.PushQueued, (*theirs)[0].Status)
		require.Equal(r.t, core.PushQueued, got[0].out[1].Status)
		for _, o := range []core.Pushed{got[0].out[0], got[1].out[0], got[1].out[1], got[2].out[0], got[2].out[1]} {
			require.Equal(r.t, core.PushDuplicate, o.Status)
		}
		r.requireStored(append(got, pushResult{out: *theirs})...)
	}
}

// echoAtomic has pushes repeat one that is refused as a whole, because another engine came before it.
func echoAtomic(r *rig) {
	for i := range 3 {
		pushOne(r, i%2, fmt.Sprint("before", i))
		a, b, c, d := fmt.Sprint("a", i), fmt.Sprint("b", i), fmt.Sprint("c", i), fmt.Sprint("d", i)
		theirs := r.pushThere(a)
		got := togetherAt(r, r.engine(r.t, 0), queenPush(true, b, a), queenPush(false, c, b), queenPush(false, b, d), queenPush(true, a))
		for _, n := range []int{0, 3} {
			require.Equal(r.t, core.CodeDuplicate, core.CodeOf(got[n].err))
		}
		require.Equal(r.t, 1, core.ItemOf(got[0].err))
		require.Equal(r.t, core.PushQueued, got[1].out[1].Status, "the first of them is not stored, so this one is no duplicate")
		require.Equal(r.t, core.PushDuplicate, got[2].out[0].Status)
		r.requireStored(got[1], got[2], pushResult{out: *theirs})
		for n := range 2 {
			again, err := r.engine(r.t, n).Push(context.Background(), queenPush(false, a, b, c, d))
			require.NoError(r.t, err)
			for _, o := range again {
				require.Equal(r.t, core.PushDuplicate, o.Status, "the ids are remembered")
			}
			r.requireStored(pushResult{out: again})
		}
	}
}

// echoOld pushes an id that another engine pushed before the window, and another time inside it.
func echoOld(r *rig) {
	r.queue("q", core.ProtocolQueen, func(o *core.QueueOptions) { o.Queen.DedupWindowSeconds = 60 })
	for i := range 4 {
		name := fmt.Sprint("t", i)
		pushOne(r, 0, fmt.Sprint("before", i)) // and so it knows the ids up to here
		pushOne(r, 1, name)
		pushOne(r, 1, fmt.Sprint("after", i))
		r.clock.Advance(time.Minute - time.Microsecond)
		out, err := r.engine(r.t, 0).Push(context.Background(), queenPush(false, name))
		require.NoError(r.t, err)
		require.Equal(r.t, core.PushDuplicate, out[0].Status)
		r.clock.Advance(time.Microsecond)
		pushOne(r, 0, name)
		name += "-later"
		pushOne(r, 1, name)
		r.clock.Advance(time.Minute)
		pushOne(r, 0, name)
	}
}

// echoCycle has a step of a stream processor push what a push on its way pushes, which then fails.
func echoCycle(r *rig) {
	const steps = 6
	for i := range steps {
		pushOne(r, 0, fmt.Sprint("s", i))
	}
	c, err := r.engine(r.t, 0).Claim(context.Background(), core.ClaimParams{
		Protocol: core.ProtocolQueen, Exclusive: true, Queue: "q", Messages: steps,
	})
	require.NoError(r.t, err)
	for i := range steps {
		name := fmt.Sprint("t", i)
		reached, held := make(chan struct{}), make(chan struct{})
		r.beforeAppend(func() error {
			close(reached)
			<-held
			if i%2 == 0 {
				return core.Errorf(core.CodeUnavailable, "append", "the store is away")
			}
			return nil
		})
		require.NoError(r.t, r.engine(r.t, 0).Pause(context.Background(), "q", true)) // so that they meet
		pushed, cycled := make(chan pushResult, 1), make(chan pushResult, 1)
		go func() {
			out, err := r.all[0].Push(context.Background(), queenPush(false, name))
			pushed <- pushResult{out, err}
		}()
		go func() {
			out, err := r.all[0].Cycle(context.Background(), core.CycleParams{
				Partition: c.Partitions[0].Partition.ID, Pushes: named(name, name),
				Ack: &core.CycleAck{Lease: c.Lease, TransactionID: fmt.Sprint("s", i), Keep: true},
			})
			cycled <- pushResult{out.Pushes, err}
		}()
		r.eventually(func() bool {
			s, err := r.engine(r.t, 0).QueueStats(context.Background(), "q", "")
			require.NoError(r.t, err)
			return s.PushesWaiting == 1 && s.SettlesWaiting == 1
		}, "they do not wait")
		require.NoError(r.t, r.engine(r.t, 0).Pause(context.Background(), "q", false))
		<-reached
		var got pushResult
		select {
		case got = <-cycled: // too early; what it was told will not be true
			close(held)
		case <-time.After(10 * time.Millisecond): // it waits for the push, as it should
			close(held)
			got = <-cycled
		}
		first := <-pushed
		if i%2 == 0 {
			require.Equal(r.t, core.CodeUnavailable, core.CodeOf(first.err))
			first = pushResult{}
		}
		r.requireStored(first, got)
	}
}

// faultAtomicGone has an atomic push meet others, of which nothing is stored because one of its queues is gone.
func faultAtomicGone(r *rig, h *hooked) {
	r.queue("q", core.ProtocolQueen)
	p := r.queue("p", core.ProtocolQueen)
	require.Equal(r.t, "+", r.statuses("before"))
	whole := queenPush(true, "a", "b")
	whole.Items = append(whole.Items, core.PushItem{Queue: "p", NewMessage: core.NewMessage{TransactionID: "a"}})
	var once sync.Once
	h.set(func(h *hooked) {
		h.onAppend = func(core.AppendParams) (err error) {
			once.Do(func() { err = h.DeleteQueue(context.Background(), p.ID) })
			return err
		}
	})
	got := togetherAt(r, r.engines, whole, queenPush(false, "c", "b"), queenPush(false, "d"), queenPush(false, "a"))
	require.Equal(r.t, core.CodeDeleted, core.CodeOf(got[0].err))
	require.Equal(r.t, core.PushQueued, got[1].out[1].Status)
	require.Equal(r.t, core.PushQueued, got[3].out[0].Status)
	r.requireStored(got[1:]...)
	require.Equal(r.t, "dddd", r.statuses("a", "b", "c", "d"), "the ids are remembered")
}

// faultAtomicEcho has an atomic push repeat one that meets it and cannot be stored, another one that can, and itself.
func faultAtomicEcho(r *rig, h *hooked) {
	r.queue("q", core.ProtocolQueen)
	h.set(func(h *hooked) { h.onAppend = bad(core.CodeInvalid, "poison") })
	poison := core.PushParams{Protocol: core.ProtocolQueen, Items: append(named("x", "poison"), named("a", "poison")...)}
	got := togetherAt(r, r.engines, poison, queenPush(true, "a", "b"), queenPush(false, "c"), queenPush(true, "c"), queenPush(true, "d", "d"))
	require.Equal(r.t, core.CodeInvalid, core.CodeOf(got[0].err))
	r.requireStored(got[1], got[2])
	require.Equal(r.t, core.PushQueued, got[1].out[0].Status, "the first was not stored, so this one is no duplicate")
	for _, n := range []int{3, 4} {
		require.Equal(r.t, core.CodeDuplicate, core.CodeOf(got[n].err))
	}
	require.Equal(r.t, 1, core.ItemOf(got[4].err))
	require.Equal(r.t, "ddd+", r.statuses("a", "b", "c", "d"))
}

// faultForgotten has a step of a stream processor wait while an answer about its queue is lost, and with it what is known of the transaction ids.
func faultForgotten(r *rig, h *hooked) {
	require.Equal(r.t, "++", r.statuses("a", "b"))
	b := r.pop("q", "", 1)
	require.True(r.t, r.ack("q", "", b.lease, "a", core.AckDead).Dead)
	letters, _, err := r.DeadLetters(context.Background(), core.DeadLetterFilter{Limit: 10})
	require.NoError(r.t, err)
	require.NoError(r.t, r.Pause(context.Background(), "q", true))
	cycled := make(chan pushResult, 1)
	go func() {
		out, err := r.next().Cycle(context.Background(), core.CycleParams{Partition: b.Partitions[0].Partition.ID, Pushes: named("b", "again")})
		cycled <- pushResult{out.Pushes, err}
	}()
	r.eventually(func() bool {
		s, err := r.QueueStats(context.Background(), "q", "")
		require.NoError(r.t, err)
		return s.SettlesWaiting == 1
	}, "the step does not wait")
	h.set(func(h *hooked) {
		h.onUpdate = func(*core.ChangeSet) error { return core.Errorf(core.CodeUnknown, "update", "the answer is lost") }
	})
	_, err = r.ReplayDeadLetters(context.Background(), []uuid.UUID{letters[0].ID}, nil)
	require.Equal(r.t, core.CodeUnavailable, core.CodeOf(err))
	h.set(func(h *hooked) { h.onUpdate = nil })
	require.NoError(r.t, r.Pause(context.Background(), "q", false))
	got := <-cycled
	require.Equal(r.t, core.PushDuplicate, got.out[0].Status)
	r.requireStored(got)
}
