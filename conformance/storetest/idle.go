package storetest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
)

// removeIdle removes those of some partitions that are idle since a moment after now.
func (b *bundle) removeIdle(after core.Time, keys ...core.PartitionKey) []core.PartitionKey {
	b.Helper()
	gone, err := b.s.RemoveIdle(b.ctx, core.RemoveIdleParams{Queue: b.queue.ID, Partitions: keys, Since: b.now + after})
	require.NoError(b, err)
	return gone
}

// named lists the partitions of the queue by name and number.
func (b *bundle) named() (out []string) {
	b.Helper()
	list, err := b.s.Partitions(b.ctx, b.queue.ID)
	require.NoError(b, err)
	for i := range list {
		out = append(out, fmt.Sprintf("%s=%d", list[i].Name, list[i].Ordinal))
	}
	return out
}

func (b *bundle) make(names ...string) (keys []core.PartitionKey) {
	b.Helper()
	var want []core.Partition
	for _, name := range names {
		want = append(want, core.Partition{ID: uuid.New(), Queue: b.queue.ID, Name: name})
	}
	made, err := b.s.CreatePartitions(b.ctx, b.now, want)
	require.NoError(b, err)
	for i := range made {
		keys = append(keys, made[i].Key)
	}
	return keys
}

// removeIdlePartitions removes what is idle, with its rows, and nothing that is in use in any way.
func removeIdlePartitions(b *bundle) {
	empty := func(key core.PartitionKey) {
		placed := b.append(b.messages(key, 3))[0]
		require.NoError(b, b.s.DeleteSegments(b.ctx, b.now, []core.SegmentRef{{Partition: key, First: placed.First, Last: placed.First + 2}}, nil))
	}
	row := core.RowKey{Partition: b.p[1], Group: "g"}
	empty(b.p[1])
	b.put(core.RowChange{Key: row, Move: true, Frontier: core.Frontier{Offset: 3, MovedAt: b.now + 5}})
	b.append(b.messages(b.p[2], 1))
	letter := core.DeadLetter{ID: uuid.New(), Queue: b.queue.ID, Partition: b.p[0], Message: coretest.Message(b.next(), b.now)}
	b.update(nil, core.ChangeSet{DeadLetters: []core.DeadLetter{letter}})
	more := b.make("leased", "scheduled", "emptied")
	b.put(core.RowChange{Key: core.RowKey{Partition: more[0], Group: "g"}, Put: []core.Batch{b.batch(1, 1, 9, core.BatchLeased, b.now+1)}})
	b.update(nil, core.ChangeSet{Schedule: []core.ScheduledSegment{{Due: b.now + 10, Segment: b.messages(more[1], 1)}}})
	empty(more[2])
	all := append(slices.Clone(b.p), append(more, 4711, b.p[1])...)

	assert.Empty(b, b.removeIdle(-1, all...), "all of them were made or used later than that")
	assert.Equal(b, []core.PartitionKey{more[2]}, b.removeIdle(4, all...), "a claim of a group came later")
	assert.Equal(b, []core.PartitionKey{b.p[1]}, b.removeIdle(5, all...), "not what has a message, a dead letter, a batch or something scheduled")
	assert.Empty(b, b.removeIdle(1000, b.p[1], more[2]), "they are gone")
	assert.Equal(b, []string{"0=0", "2=2", "leased=3", "scheduled=4"}, b.named())
	check := func() {
		list, f, err := b.s.Batches(b.ctx, row)
		require.NoError(b, err)
		assert.Empty(b, list)
		assert.Zero(b, f)
		assert.Nil(b, b.row(row))
		placed, err := b.s.Append(b.ctx, core.AppendParams{Commit: uuid.New(), Now: b.now, Segments: []core.NewSegment{b.messages(b.p[1], 1)}})
		require.NoError(b, err)
		assert.True(b, placed[0].Gone)
		_, err = b.tryUpdate(nil, core.ChangeSet{Schedule: []core.ScheduledSegment{{Due: b.now, Segment: b.messages(b.p[1], 1)}}})
		requireCode(b, core.CodeNoPartition, err)
	}
	check()
	other, keys := b.makeQueue("other", "0")
	assert.Empty(b, b.removeIdle(1000, keys...), "the partition of another queue")
	gone, err := b.s.RemoveIdle(b.ctx, core.RemoveIdleParams{Queue: uuid.New(), Partitions: keys, Since: b.now + 1000})
	require.NoError(b, err)
	assert.Empty(b, gone)

	again := b.make("1", "new")
	assert.NotContains(b, all, again[0], "keys are not used twice")
	assert.Equal(b, []string{"0=0", "2=2", "leased=3", "scheduled=4", "1=5", "new=6"}, b.named())
	assert.Equal(b, core.LogState{Start: 1}, b.log(again[0]), "it begins anew")
	if _, except := b.h.Exceptions["Reopen"]; !except {
		b.reopen()
		check()
		assert.Equal(b, []string{"0=0", "2=2", "leased=3", "scheduled=4", "1=5", "new=6"}, b.named())
	}
	b.append(b.messages(again[0], 2))
	assert.Len(b, b.read(again[0], 1, 9), 2)
	require.NoError(b, b.s.DeleteQueue(b.ctx, other.ID))
}

// removeIdleUnderLoad lets appends and rows come while partitions are removed: whatever was stored is there afterwards.
func removeIdleUnderLoad(b *bundle) { removeIdleBetween(b, b.s, b.s) }

// idleOfBoth is removeIdleUnderLoad with two gateways.
func idleOfBoth(b *bundle) { removeIdleBetween(b, b.s, b.other()) }

func removeIdleBetween(b *bundle, s, other core.Store) {
	for round := range 20 {
		keys := b.make("a", "b", "c", "d")
		var wg sync.WaitGroup
		var gone []core.PartitionKey
		segments := make([]core.NewSegment, len(keys))
		for i, key := range keys {
			segments[i] = b.messages(key, 1)
		}
		stored := make([]bool, len(keys))
		wg.Go(func() {
			var err error
			gone, err = s.RemoveIdle(b.ctx, core.RemoveIdleParams{Queue: b.queue.ID, Partitions: keys, Since: b.now + 1000})
			assert.NoError(b, err)
		})
		wg.Go(func() {
			placed, err := other.Append(b.ctx, core.AppendParams{Commit: uuid.New(), Now: b.now, Segments: segments[:2]})
			if err != nil {
				b.Error(err)
				return
			}
			for i := range placed {
				stored[i] = placed[i].First > 0
				assert.Equal(b, !stored[i], placed[i].Gone)
			}
		})
		wg.Go(func() {
			_, err := other.Update(b.ctx, core.UpdateParams{Commit: uuid.New(), Now: b.now}, func(core.Tx) (*core.ChangeSet, error) {
				return &core.ChangeSet{Schedule: []core.ScheduledSegment{{Due: b.now, Segment: segments[2]}}}, nil
			})
			if stored[2] = err == nil; err != nil {
				requireCode(b, core.CodeNoPartition, err)
			}
		})
		wg.Go(func() {
			key := core.RowKey{Partition: keys[3], Group: "g"}
			_, err := other.Update(b.ctx, core.UpdateParams{Commit: uuid.New(), Now: b.now, Rows: []core.RowRequest{{Key: key, Must: true}}}, func(tx core.Tx) (*core.ChangeSet, error) {
				if stored[3] = tx.Row(key) != nil; !stored[3] {
					return nil, nil //nolint:nilnil // an empty change set
				}
				return &core.ChangeSet{Rows: []core.RowChange{{Key: key, Move: true, Put: []core.Batch{b.batch(1, 1, 1, core.BatchLeased, b.now+1)}}}}, nil
			})
			assert.NoError(b, err)
		})
		wg.Wait()
		for i, key := range keys {
			assert.NotEqual(b, stored[i], slices.Contains(gone, key), "round %d, partition %d: stored %v, removed %v", round, i, stored, gone)
		}
		require.NoError(b, b.s.DeleteQueue(b.ctx, b.queue.ID))
		b.queue, b.p = b.makeQueue("queue", "0")
	}
}

// followTellsOfIdle follows a removal.
func followTellsOfIdle(b *bundle) {
	s := b.other()
	f := b.follow(s)
	known := f.next().Catalog
	assert.Equal(b, []core.PartitionKey{b.p[1]}, b.removeIdle(1, b.p[1]))
	made := b.make("1")
	got := f.next()
	assert.Equal(b, []core.PartitionKey{b.p[1]}, got.Gone)
	assert.Equal(b, map[core.PartitionKey]int64{made[0]: 0}, heads(got))
	assert.NotEqual(b, known, got.Catalog, "an append that knows the old partition is refused as a whole")
	got = f.next()
	assert.Empty(b, got.Gone)
	assert.Empty(b, got.Logs)
}

// removeIdle is a step of the machine.
func (m *machine) removeIdle(t *rapid.T) {
	p := core.RemoveIdleParams{
		Queue: rapid.SampledFrom(m.queues).Draw(t, "queue"), Partitions: rapid.SliceOfN(rapid.SampledFrom(m.keys), 0, 6).Draw(t, "partitions"),
		Since: m.now + core.Time(rapid.IntRange(-20, 200).Draw(t, "since")),
	}
	_, err := both(t, m, func(s core.Store) ([]core.PartitionKey, error) { return s.RemoveIdle(m.b.ctx, p) })
	require.NoError(t, err)
}
