package storetest

import (
	"sync"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// updateExcludesOthers increments a counter in a row from many goroutines: none may be lost.
func updateExcludesOthers(b *bundle) {
	key := core.RowKey{Partition: b.p[0], Group: "g"}
	const callers, each = 8, 25
	var wg sync.WaitGroup
	errs := make(chan error, callers*each)
	for range callers {
		wg.Go(func() {
			for range each {
				_, err := b.s.Update(b.ctx, core.UpdateParams{Commit: uuid.New(), Now: b.now, Rows: []core.RowRequest{{Key: key, Must: true}}},
					func(tx core.Tx) (*core.ChangeSet, error) {
						f := tx.Row(key).Frontier
						f.Offset++
						return &core.ChangeSet{Rows: []core.RowChange{{Key: key, Move: true, Frontier: f}}}, nil
					})
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(b, err)
	}
	assert.Equal(b, int64(callers*each), b.row(key).Frontier.Offset)
}

func rowsOfOtherPartitions(b *bundle) {
	changes := make([]core.RowChange, 0, 2*len(b.p))
	for i, p := range b.p {
		for _, g := range []string{"a", "b"} {
			changes = append(changes, core.RowChange{
				Key: core.RowKey{Partition: p, Group: g}, Move: true, Frontier: core.Frontier{Offset: int64(i + 1)},
				Put: []core.Batch{b.batch(1, int64(i+1), int64(i+1), core.BatchWaiting, b.now)},
			})
		}
	}
	b.put(changes...)
	b.put(core.RowChange{Key: core.RowKey{Partition: b.p[1], Group: "a"}, Drop: true})
	for i := range changes {
		r := b.row(changes[i].Key)
		if changes[i].Key == (core.RowKey{Partition: b.p[1], Group: "a"}) {
			assert.False(b, r.Exists)
			continue
		}
		assert.Equal(b, changes[i].Frontier, r.Frontier)
		assert.Equal(b, changes[i].Put, r.Batches)
	}
}

func outcomeOfCommits(b *bundle) {
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New(), uuid.New()}
	_, err := b.s.Append(b.ctx, core.AppendParams{Commit: ids[0], Now: b.now, Segments: []core.NewSegment{b.messages(b.p[0], 1)}})
	require.NoError(b, err)
	for i, c := range []core.ChangeSet{
		{Register: []core.Registration{{Queue: b.queue.ID, Group: "g"}}}, {Segments: []core.NewSegment{b.messages(b.p[0], 1)}},
	} {
		_, err := b.s.Update(b.ctx, core.UpdateParams{Commit: ids[i+1], Now: b.now}, func(core.Tx) (*core.ChangeSet, error) { return &c, nil })
		require.NoError(b, err)
	}
	for range 20 {
		b.append(b.messages(b.p[0], 1))
	}
	check := func() {
		for i, id := range ids {
			took, err := b.s.Outcome(b.ctx, id)
			require.NoError(b, err)
			assert.Equal(b, i < 3, took, "commit %d", i)
		}
	}
	check()
	if _, except := b.h.Exceptions["Reopen"]; !except {
		b.reopen()
		check()
	}
}
