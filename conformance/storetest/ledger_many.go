package storetest

import (
	"math/rand/v2"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// updateLoadsFromManyBatches asks for parts of rows that have hundreds of batches, several rows at once.
func updateLoadsFromManyBatches(b *bundle) {
	const span = 10
	random := rand.New(rand.NewPCG(1, uint64(b.now))) //nolint:gosec // any seed does
	b.append(b.messages(b.p[0], 900), b.messages(b.p[1], 900))
	leases := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	all := map[core.RowKey][]core.Batch{}
	frontier := core.Frontier{Offset: 1900, NextBatch: 1000}
	keys := []core.RowKey{{Partition: b.p[0], Group: "a"}, {Partition: b.p[0], Group: "b"}, {Partition: b.p[1], Group: "a"}}
	var changes []core.RowChange
	for k, key := range keys {
		for i := range int64([]int{200, 20, 300}[k]) {
			first := 1 + i*span
			states := []core.BatchState{core.BatchLeased, core.BatchWaiting, core.BatchEmpty}
			n := core.Batch{
				State: states[random.IntN(3)],
				ID:    i + 1, First: first, Last: first + span - 1, Attempts: 1, Lease: leases[random.IntN(3)],
				Pending: run(first+1, first+1+i%span/2), Until: b.now + core.Time(random.IntN(200)-100),
			}
			if n.State != core.BatchLeased {
				n.Lease = uuid.Nil
			}
			if n.State == core.BatchEmpty {
				n.Pending, n.Until = nil, 0
			}
			if n.State == core.BatchWaiting && random.IntN(2) == 0 {
				n.Turn = core.OwnTurn(int64(random.IntN(3000))) + 1
			}
			n.Held.Messages = n.Pending.Count()
			all[key] = append(all[key], n)
		}
		all[key][7].State, all[key][7].Exclusive, all[key][7].Pending = core.BatchLeased, true, run(71, 72)
		all[key][7].Held.Messages = 2
		changes = append(changes, core.RowChange{Key: key, Move: true, Frontier: frontier, Put: all[key]})
	}
	b.put(changes...)
	for range 20 {
		reqs := make([]core.RowRequest, len(keys))
		for i, key := range keys {
			reqs[i] = core.RowRequest{Key: key, Due: random.IntN(5), All: random.IntN(6) == 0}
			for range random.IntN(4) {
				reqs[i].Offsets = append(reqs[i].Offsets, int64(random.IntN(2500)))
			}
			if random.IntN(2) == 0 {
				reqs[i].Lease = leases[random.IntN(3)]
			}
		}
		_, err := b.s.Update(b.ctx, core.UpdateParams{Commit: uuid.New(), Now: b.now, Rows: reqs}, func(tx core.Tx) (*core.ChangeSet, error) {
			for i := range reqs {
				row := tx.Row(reqs[i].Key)
				want, rest := core.SelectBatches(all[reqs[i].Key], reqs[i], frontier, b.now)
				assert.Equal(b, want, row.Batches, "%+v", reqs[i])
				assert.Equal(b, rest, row.Rest, "%+v", reqs[i])
			}
			return nil, nil //nolint:nilnil // an empty change set is what loading asks for
		})
		require.NoError(b, err)
	}
}
