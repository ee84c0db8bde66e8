package enginetest

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// thenMoved has f come once the first engine has said what goes in after others came before its next append; f may ask it again.
func (r *rig) thenMoved(f func(ask func() ([]core.NewSegment, error)) ([]core.NewSegment, error)) {
	r.store.(*meddled).moved.Store(&f) //nolint:forcetypeassert // the case was given such a store
}

// withMoved returns an append's parameters with what thenMoved set.
func (m *meddled) withMoved(p core.AppendParams) core.AppendParams {
	f, moved := m.moved.Load(), p.Moved
	if f != nil {
		p.Moved = func(key core.PartitionKey, log core.LogState, newer []core.SegmentHeader, indexes []int) ([]core.NewSegment, error) {
			ask := func() ([]core.NewSegment, error) { return moved(key, log, newer, indexes) }
			out, err := ask()
			if err == nil && m.moved.CompareAndSwap(f, nil) {
				return (*f)(ask)
			}
			return out, err
		}
	}
	return p
}

// knownAtBoth pushes ids again at both engines and checks that they are remembered as what they were told.
func knownAtBoth(r *rig, names ...string) {
	r.t.Helper()
	for n := range 2 {
		again, err := r.engine(r.t, n).Push(context.Background(), queenPush(false, names...))
		require.NoError(r.t, err)
		for _, o := range again {
			require.Equal(r.t, core.PushDuplicate, o.Status, "%s is not remembered at %d", o.TransactionID, n)
		}
		r.requireStored(pushResult{out: again})
	}
}

// precedeOthers has pushes meet in one commit while another engine comes before them with ids of its own: theirs and ours are remembered where
// they went.
func precedeOthers(r *rig) {
	var all []string
	for i := range 4 {
		pushOne(r, i%2, fmt.Sprint("before", i))
		a, b, c, d := fmt.Sprint("a", i), fmt.Sprint("b", i), fmt.Sprint("c", i), fmt.Sprint("d", i)
		theirs := r.pushThere(fmt.Sprint("x", i), fmt.Sprint("y", i))
		got := togetherAt(r, r.engine(r.t, 0), queenPush(false, a, b, a), queenPush(true, c), queenPush(false, d, b))
		require.Equal(r.t, core.PushQueued, got[1].out[0].Status)
		require.Equal(r.t, core.PushDuplicate, got[0].out[2].Status)
		require.Equal(r.t, core.PushDuplicate, got[2].out[1].Status)
		r.requireStored(append(got, pushResult{out: *theirs})...)
		all = append(all, fmt.Sprint("x", i), fmt.Sprint("y", i), a, b, c, d)
		knownAtBoth(r, all...)
	}
}

// precedeTwice has a commit after what others came before be decided twice.
func precedeTwice(r *rig) {
	pushOne(r, 0, "before")
	r.pushThere("x")
	r.thenMoved(func(ask func() ([]core.NewSegment, error)) ([]core.NewSegment, error) { return ask() })
	got := togetherAt(r, r.engine(r.t, 0), queenPush(false, "a", "b"), queenPush(false, "c", "a"))
	require.Equal(r.t, core.PushDuplicate, got[1].out[1].Status)
	r.requireStored(got...)
	knownAtBoth(r, "x", "a", "b", "c")
}

// precedeInVain has others come before a commit that does not take place after all: nothing of it is remembered.
func precedeInVain(r *rig) {
	for i := range 3 {
		pushOne(r, i%2, fmt.Sprint("before", i))
		a, b, x := fmt.Sprint("a", i), fmt.Sprint("b", i), fmt.Sprint("x", i)
		r.pushThere(x)
		r.thenMoved(func(func() ([]core.NewSegment, error)) ([]core.NewSegment, error) {
			return nil, core.Errorf(core.CodeUnavailable, "append", "the store is away")
		})
		_, err := r.engine(r.t, 0).Push(context.Background(), queenPush(false, a, b))
		require.Equal(r.t, core.CodeUnavailable, core.CodeOf(err))
		out, err := r.engine(r.t, 0).Push(context.Background(), queenPush(false, b, x, a))
		require.NoError(r.t, err)
		require.Equal(r.t, core.PushQueued, out[0].Status, "it was not stored, so this one is no duplicate")
		require.Equal(r.t, core.PushDuplicate, out[1].Status)
		require.Equal(r.t, core.PushQueued, out[2].Status)
		knownAtBoth(r, a, b, x)
	}
}
