package sqlite

import (
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// TestBatchSetSelectsAsTheCoreDoes compares a set with what core.SelectBatches says of the same batches.
func TestBatchSetSelectsAsTheCoreDoes(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	lease := func() uuid.UUID { return uuid.UUID{byte(rnd.IntN(3))} }
	for round := range 300 {
		var set batchSet
		all := map[int64]core.Batch{}
		for range rnd.IntN(60) {
			id := int64(rnd.IntN(25))
			if rnd.IntN(4) == 0 {
				set.remove(id)
				delete(all, id)
				continue
			}
			b := core.Batch{ID: id, First: 1 + rnd.Int64N(20_000), State: core.BatchState(rnd.IntN(3)), Until: core.Time(rnd.IntN(20)), Lease: lease()} //nolint:gosec // three of them
			b.Last = b.First + rnd.Int64N([]int64{3, core.MaxBatchSpan}[rnd.IntN(2)])
			b.Redraw, b.Turn = rnd.IntN(2) == 0, core.Turn(rnd.IntN(3)*rnd.IntN(1<<28)) //nolint:gosec // positive
			if b.State != core.BatchEmpty {
				b.Pending = core.Runs{{First: b.First, Last: b.Last}}
			}
			if set.exclusive == nil || set.exclusive.ID == id {
				b.Exclusive = b.State == core.BatchLeased && rnd.IntN(2) == 0
			}
			copied := b
			set.put(&copied)
			all[id] = b
		}
		list := make([]core.Batch, 0, len(all))
		for _, b := range set.byFirst {
			require.Equal(t, all[b.ID], *b)
			list = append(list, *b)
		}
		require.Len(t, list, len(all))
		for range 20 {
			req := core.RowRequest{Due: rnd.IntN(6) - 1, All: rnd.IntN(10) == 0, Lease: lease()}
			for range rnd.IntN(4) {
				req.Offsets = append(req.Offsets, rnd.Int64N(25_000))
			}
			f, now := core.Frontier{Offset: rnd.Int64N(30_000)}, core.Time(rnd.IntN(22))
			want, wantRest := core.SelectBatches(list, req, f, now)
			got, gotRest := set.load(&req, &f, now)
			require.Equal(t, want, got, "round %d", round)
			require.Equal(t, wantRest, gotRest, "round %d", round)
		}
		var next core.Time
		for i := range list {
			if at, ok := list[i].NeedsResolving(); ok && (next == 0 || at < next) {
				next = at
			}
		}
		if next != 0 && len(set.leased)+len(set.redraws) > 0 {
			require.Equal(t, min(orMax(firstUntil(set.leased)), orMax(firstUntil(set.redraws))), orMax(set.nextResolve()))
		}
	}
}

// orMax puts "none" behind every time.
func orMax(t core.Time) core.Time {
	if t == 0 {
		return 1 << 62
	}
	return t
}
