package enginetest

import (
	"context"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/core"
)

// check compares what is stored and counted with the model.
func (w *world) check(t *rapid.T) {
	for _, l := range w.logs {
		for _, g := range groups {
			w.checkRow(t, l, g)
		}
	}
	w.checkCounts(t)
	dead := w.pending("dead", "")
	require.GreaterOrEqual(t, dead, w.model.dead, "messages in the dead queue")
	require.LessOrEqual(t, dead, w.model.dead+w.again, "messages in the dead queue")
	_, n, err := w.DeadLetters(context.Background(), core.DeadLetterFilter{})
	require.NoError(t, err)
	require.Equal(t, w.letters, n, "dead letters")
}

// checkRow compares every message of a group on a partition, and the rows themselves.
func (w *world) checkRow(t *rapid.T, l *modelLog, g string) {
	defer func() {
		if t.Failed() {
			w.explain(t, l, g)
		}
	}()
	s, err := w.QueueStats(context.Background(), property, g)
	require.NoError(t, err)
	start := s.Partitions[l.Ordinal].Log.Start
	r := l.row(g)
	batches, f, err := w.store.Batches(context.Background(), core.RowKey{Partition: l.Key, Group: g})
	require.NoError(t, err)
	holder := map[int64]*core.Batch{}
	covered := core.Runs{}
	exclusive := 0
	for i := range batches {
		b := &batches[i]
		w.checkBatch(t, l, b)
		if b.State == core.BatchLeased && b.Exclusive && b.Until > w.now {
			exclusive++
		}
		if b.Last > f.Offset {
			covered = covered.Add(core.Run{First: b.First, Last: b.Last})
		}
		b.Pending.Offsets(func(off int64) bool {
			require.Nil(t, holder[off], "offset %d is pending twice", off)
			holder[off] = b
			return true
		})
	}
	require.LessOrEqual(t, exclusive, 1, "live exclusive leases")
	require.Equal(t, r.retries, f.Retries, "retry counter of %q", g)
	l.each(r, func(off int64, c *copyOf) {
		b := holder[off]
		if b == nil {
			gone := off <= f.Offset || off < start || covered.Has(off)
			if c.standing == fresh && r.ghosts[off] {
				return
			}
			require.Equal(t, c.standing == settled, gone, "offset %d of %q: settled", off, g)
			require.True(t, gone || c.standing == fresh, "offset %d of %q is neither pending nor settled: %+v", off, g, c)
			return
		}
		w.checkPending(t, b, g, off, c)
	})
}

// checkPending compares a message that is pending in a batch.
func (w *world) checkPending(t *rapid.T, b *core.Batch, g string, off int64, c *copyOf) {
	require.Equal(t, c.attempts, b.Attempts, "attempts of offset %d of %q", off, g)
	switch b.State {
	case core.BatchLeased:
		require.Equal(t, held, c.standing, "offset %d of %q is leased: %+v", off, g, c)
		require.Equal(t, c.exclusive, b.Exclusive)
		require.Equal(t, c.lease, b.Lease)
		require.Equal(t, c.until, b.Until)
	default:
		require.Equal(t, back, c.standing, "offset %d of %q waits: %+v", off, g, c)
		require.Equal(t, c.later, b.Redraw, "offset %d of %q is for later", off, g)
		if c.later {
			require.Equal(t, c.until, b.Until)
		} else {
			require.Equal(t, c.tail(), b.Turn != 0, "offset %d of %q has been to the tail", off, g)
		}
	}
}

// explain logs what is stored and what the model knows when a check has failed.
func (w *world) explain(t *rapid.T, l *modelLog, g string) {
	batches, f, err := w.store.Batches(context.Background(), core.RowKey{Partition: l.Key, Group: g})
	t.Logf("group %q at %d: frontier %+v, batches %+v, %v", g, w.now, f, batches, err)
	for i := range l.bodies {
		t.Logf("%d: %+v %+v", i+1, l.bodies[i], l.row(g).at(int64(i+1)))
	}
}

func (w *world) checkBatch(t *rapid.T, l *modelLog, b *core.Batch) {
	require.LessOrEqual(t, b.First, b.Last)
	require.Less(t, b.Last-b.First, int64(core.MaxBatchSpan))
	require.LessOrEqual(t, b.Last, l.head())
	var held core.Totals
	b.Pending.Offsets(func(off int64) bool {
		require.True(t, b.First <= off && off <= b.Last, "offset %d is outside its batch", off)
		held = held.Plus(l.body(off).totals())
		return true
	})
	require.Equal(t, held, b.Held, "totals of what is pending in [%d-%d]", b.First, b.Last)
	require.Equal(t, b.State == core.BatchEmpty, len(b.Pending) == 0)
}

// checkCounts compares the figures of the queue.
func (w *world) checkCounts(t *rapid.T) {
	for _, g := range groups {
		s, err := w.QueueStats(context.Background(), property, g)
		require.NoError(t, err)
		require.Zero(t, s.ClaimsWaiting)
		for i, l := range w.logs {
			r, got := l.row(g), &s.Partitions[i]
			var pending, leased, later, scheduled, ghosts core.Totals
			l.each(r, func(off int64, c *copyOf) {
				one := l.body(off).totals()
				switch {
				case c.standing == settled:
					return
				case c.standing == fresh && r.ghosts[off]:
					ghosts = ghosts.Plus(one)
					return
				case c.standing == held:
					leased = leased.Plus(one)
				case c.standing == back && c.later:
					later = later.Plus(one)
				}
				pending = pending.Plus(one)
			})
			for j := range w.scheduled {
				if w.scheduled[j].log == l {
					scheduled = scheduled.Plus(w.scheduled[j].totals())
				}
			}
			require.Equal(t, leased, got.Leased, "leased of %q", g)
			require.Equal(t, later, got.Later, "for later of %q", g)
			require.Equal(t, scheduled, got.Scheduled, "scheduled")
			if ghosts.Messages == 0 {
				require.Equal(t, pending.Plus(scheduled), got.Pending, "pending of %q in %+v", g, got)
				continue
			}
			extra := got.Pending.Minus(pending.Plus(scheduled)).Messages
			require.True(t, extra >= 0 && extra <= ghosts.Messages, "pending of %q in %+v: %d more than there is", g, got, extra)
		}
	}
}
