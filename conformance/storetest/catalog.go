package storetest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
)

func queueVersions(b *bundle) {
	q := b.queue
	assert.Equal(b, int64(1), q.Version)
	_, err := b.s.PutQueue(b.ctx, core.PutQueueParams{Queue: coretest.Queue(1, "queue", b.now), Now: b.now})
	requireCode(b, core.CodeQueueExists, err)

	q.Options.MaxDeliveries = 7
	q.Name = "renamed"
	later := b.now + 1000
	changed, err := b.s.PutQueue(b.ctx, core.PutQueueParams{Queue: q, Now: later})
	require.NoError(b, err)
	assert.Equal(b, int64(2), changed.Version)
	assert.Equal(b, later, changed.UpdatedAt)
	assert.Equal(b, b.now, changed.CreatedAt)
	assert.Equal(b, int32(7), changed.Options.MaxDeliveries)

	_, err = b.s.PutQueue(b.ctx, core.PutQueueParams{Queue: q, Now: later})
	requireCode(b, core.CodeConflict, err)
	other, _ := b.makeQueue("queue") // the old name is free
	other.Name = "renamed"
	_, err = b.s.PutQueue(b.ctx, core.PutQueueParams{Queue: other, Now: later})
	requireCode(b, core.CodeQueueExists, err)
	gone := coretest.Queue(2, "gone", b.now)
	gone.Version = 3
	_, err = b.s.PutQueue(b.ctx, core.PutQueueParams{Queue: gone, Now: later})
	requireCode(b, core.CodeNoQueue, err)

	all, err := b.s.Queues(b.ctx)
	require.NoError(b, err)
	require.Len(b, all, 2)
	assert.Equal(b, "queue", all[0].Name)
	assert.Equal(b, changed, all[1])
	list, err := b.s.Partitions(b.ctx, q.ID)
	require.NoError(b, err)
	assert.Len(b, list, 3, "a change keeps the partitions")
}

func queueNamesAreBytes(b *bundle) {
	names := []string{"", "\x00", "\x00\x00", "a\x00b", "a\x00c", "A", "ä", "\xff\xfe"}
	for _, n := range names {
		_, keys := b.makeQueue("n"+n, n, n+"\x00")
		require.Len(b, keys, 2, "%q", n)
		b.append(b.messages(keys[1], 1))
		key := core.RowKey{Partition: keys[0], Group: n}
		b.put(core.RowChange{Key: key, Move: true, Frontier: core.Frontier{Offset: 3}})
		assert.Equal(b, int64(3), b.row(key).Frontier.Offset)
		assert.False(b, b.row(core.RowKey{Partition: keys[0], Group: n + "\x00"}).Exists)
	}
	all, err := b.s.Queues(b.ctx)
	require.NoError(b, err)
	require.Len(b, all, len(names)+1)
	for i := 1; i < len(all); i++ {
		assert.Less(b, all[i-1].Name, all[i].Name, "queues come by name in byte order")
	}
}

func queueOptionsAreNotShared(b *bundle) {
	q := coretest.Queue(1, "options", b.now)
	q.Options.Querator = &core.Querator{Reference: "mine", Partitions: 3}
	made, err := b.s.PutQueue(b.ctx, core.PutQueueParams{Queue: q, Now: b.now})
	require.NoError(b, err)
	q.Options.Querator.Reference = "changed by the caller"
	made.Options.Querator.Reference = "changed in the answer"
	all, err := b.s.Queues(b.ctx)
	require.NoError(b, err)
	assert.Equal(b, "mine", all[0].Options.Querator.Reference)
}

func deleteQueueTakesEverything(b *bundle) {
	keep, keptKeys := b.makeQueue("keep", "0")
	for _, p := range []core.PartitionKey{b.p[0], keptKeys[0]} {
		b.fill(p)
	}
	requireCode(b, core.CodeNoQueue, b.s.DeleteQueue(b.ctx, coretest.ID(1)))
	require.NoError(b, b.s.DeleteQueue(b.ctx, b.queue.ID))
	requireCode(b, core.CodeNoQueue, b.s.DeleteQueue(b.ctx, b.queue.ID))

	assert.Empty(b, b.read(b.p[0], 1, 10))
	list, err := b.s.Partitions(b.ctx, b.queue.ID)
	require.NoError(b, err)
	assert.Empty(b, list)
	regs, err := b.s.Registrations(b.ctx, b.queue.ID)
	require.NoError(b, err)
	assert.Empty(b, regs)
	assert.Nil(b, b.row(core.RowKey{Partition: b.p[0], Group: "g"}))
	due, err := b.s.Due(b.ctx, b.now+1000, 0)
	require.NoError(b, err)
	require.Len(b, due, 1, "the other queue's schedule stays")
	assert.Equal(b, keptKeys[0], due[0].Segment.Partition)
	_, total, err := b.s.DeadLetters(b.ctx, core.DeadLetterFilter{})
	require.NoError(b, err)
	assert.Equal(b, int64(1), total)
	off, err := b.s.Source(b.ctx, b.p[0], "source")
	require.NoError(b, err)
	assert.Zero(b, off)
	expired, err := b.s.Expired(b.ctx, b.now+1000, 0)
	require.NoError(b, err)
	assert.Equal(b, []core.RowKey{{Partition: keptKeys[0], Group: "g"}}, expired)
	assert.Len(b, b.read(keptKeys[0], 1, 10), 2)
	regs, err = b.s.Registrations(b.ctx, keep.ID)
	require.NoError(b, err)
	assert.Len(b, regs, 1)
	b.makeQueue("queue", "0")
}

// fill gives a partition one of everything: two messages, a leased batch, a schedule, a dead letter, a registration.
func (b *bundle) fill(p core.PartitionKey) {
	b.Helper()
	queue := b.queueOf(p)
	m := coretest.Message(b.next(), b.now, coretest.Source("source"), coretest.Expires(b.now+500))
	key := core.RowKey{Partition: p, Group: "g"}
	b.append(coretest.Segment(p, m, coretest.Message(b.next(), b.now)))
	b.update([]core.RowRequest{{Key: key}}, core.ChangeSet{
		Rows: []core.RowChange{{
			Key: key, Move: true, Frontier: core.Frontier{Offset: 2, NextBatch: 2},
			Put: []core.Batch{{ID: 1, First: 1, Last: 2, Pending: run(1, 2), Until: b.now + 10, Lease: coretest.ID(5)}},
		}},
		Schedule:    []core.ScheduledSegment{{Due: b.now + 20, Segment: b.messages(p, 1)}},
		DeadLetters: []core.DeadLetter{{ID: coretest.ID(b.next()), Queue: queue, Partition: p, Group: "g", Message: m}},
		Register:    []core.Registration{{Queue: queue, Group: "g", Start: b.now}},
	})
}

func (b *bundle) queueOf(p core.PartitionKey) uuid.UUID {
	b.Helper()
	all, err := b.s.Queues(b.ctx)
	require.NoError(b, err)
	for i := range all {
		list, err := b.s.Partitions(b.ctx, all[i].ID)
		require.NoError(b, err)
		for k := range list {
			if list[k].Key == p {
				return all[i].ID
			}
		}
	}
	b.Fatalf("partition %d has no queue", p)
	return uuid.Nil
}

func partitionsAreMadeOnce(b *bundle) {
	other, _ := b.makeQueue("other")
	b.append(b.messages(b.p[1], 2))
	made, err := b.s.CreatePartitions(b.ctx, b.now, []core.Partition{
		coretest.Partition(1, b.queue.ID, "new", 0),
		coretest.Partition(2, b.queue.ID, "1", 0),
		coretest.Partition(3, coretest.ID(99), "nowhere", 0),
		coretest.Partition(4, other.ID, "new", 0),
		coretest.Partition(5, b.queue.ID, "new", 0),
	})
	require.NoError(b, err)
	require.Len(b, made, 5)
	assert.Equal(b, int32(3), made[0].Ordinal)
	assert.Equal(b, coretest.ID(1), made[0].ID)
	assert.Equal(b, b.now, made[0].CreatedAt)
	assert.Equal(b, core.LogState{Start: 1}, made[0].Log)
	assert.Equal(b, b.p[1], made[1].Key, "one that exists is returned")
	assert.Equal(b, int64(2), made[1].Log.Head)
	assert.Zero(b, made[2].Key, "its queue is gone")
	assert.Equal(b, int32(0), made[3].Ordinal)
	assert.NotEqual(b, made[0].Key, made[3].Key)
	assert.Equal(b, made[0], made[4])
	list, err := b.s.Partitions(b.ctx, b.queue.ID)
	require.NoError(b, err)
	require.Len(b, list, 4)
	for i := range list {
		assert.Equal(b, int32(i), list[i].Ordinal)
	}
}

func partitionKeysAreNotReused(b *bundle) {
	require.NoError(b, b.s.DeleteQueue(b.ctx, b.queue.ID))
	if _, except := b.h.Exceptions["Reopen"]; !except {
		b.reopen()
	}
	_, keys := b.makeQueue("queue", "0")
	assert.Greater(b, keys[0], b.p[2])
}

func recordsCompareAndSet(b *bundle) {
	get := func(name string) []byte {
		v, err := b.s.Record(b.ctx, "kind", name)
		require.NoError(b, err)
		return v
	}
	assert.Nil(b, get("a"))
	requireCode(b, core.CodeConflict, b.s.PutRecord(b.ctx, "kind", "a", []byte("x"), []byte("y")))
	require.NoError(b, b.s.PutRecord(b.ctx, "kind", "a", nil, []byte("1\x00")))
	requireCode(b, core.CodeConflict, b.s.PutRecord(b.ctx, "kind", "a", nil, []byte("2")))
	requireCode(b, core.CodeConflict, b.s.PutRecord(b.ctx, "kind", "a", []byte("1"), []byte("2")))
	require.NoError(b, b.s.PutRecord(b.ctx, "kind", "a", []byte("1\x00"), []byte("2")))
	assert.Equal(b, []byte("2"), get("a"))
	assert.Nil(b, get("a\x00"))
	require.NoError(b, b.s.PutRecord(b.ctx, "kind", "\x00", nil, []byte{}))
	assert.Equal(b, []byte{}, get("\x00"), "an empty value is a value")
	requireCode(b, core.CodeConflict, b.s.PutRecord(b.ctx, "kind", "\x00", nil, []byte{}))
	require.NoError(b, b.s.PutRecord(b.ctx, "kind", "a", []byte("2"), nil))
	assert.Nil(b, get("a"))
	other, err := b.s.Record(b.ctx, "other", "\x00")
	require.NoError(b, err)
	assert.Nil(b, other, "kinds are apart")
}

func recordsOfUpdates(b *bundle) {
	lister, ok := b.s.(core.RecordLister)
	require.True(b, ok, "a store lists records")
	put := func(name string, value []byte) core.Record {
		return core.Record{Kind: "k", Name: name, Value: value, At: 99}
	}
	require.NoError(b, b.s.PutRecord(b.ctx, "k", "a", nil, []byte("old")))
	require.NoError(b, b.s.PutRecord(b.ctx, "k", "d\xff", nil, []byte("put")))
	require.NoError(b, b.s.PutRecord(b.ctx, "other", "d", nil, []byte("other")))
	b.update(nil, core.ChangeSet{Records: []core.Record{
		put("a", []byte("new")), put("b\x00", []byte{}), put("c", []byte("x")), put("d", []byte("y")), put("c", nil), put("none", nil),
	}})
	list := func(p core.ListRecordsParams) (names []string) {
		p.Kind = "k"
		out, err := lister.ListRecords(b.ctx, p)
		require.NoError(b, err)
		for i := range out {
			names = append(names, out[i].Name)
		}
		return names
	}
	assert.Equal(b, []string{"a", "b\x00", "d", "d\xff"}, list(core.ListRecordsParams{}))
	assert.Equal(b, []string{"d", "d\xff"}, list(core.ListRecordsParams{Prefix: "d"}))
	assert.Equal(b, []string{"d\xff"}, list(core.ListRecordsParams{Prefix: "d\xff"}))
	assert.Equal(b, []string{"d\xff", "d", "b\x00", "a"}, list(core.ListRecordsParams{Reverse: true}))
	assert.Equal(b, []string{"b\x00", "d"}, list(core.ListRecordsParams{After: "a", Limit: 2}))
	assert.Equal(b, []string{"b\x00"}, list(core.ListRecordsParams{After: "d", Limit: 1, Reverse: true}))
	assert.Equal(b, []string{"d"}, list(core.ListRecordsParams{After: "d\xff", Prefix: "d", Reverse: true}))
	assert.Empty(b, list(core.ListRecordsParams{Prefix: "\xff"}))
	out, err := lister.ListRecords(b.ctx, core.ListRecordsParams{Kind: "k"})
	require.NoError(b, err)
	assert.Equal(b, core.Record{Kind: "k", Name: "a", Value: []byte("new"), At: b.now}, out[0], "written at the update's time")
	assert.Equal(b, []byte{}, out[1].Value)
	assert.Zero(b, out[3].At)
	require.NoError(b, b.s.PutRecord(b.ctx, "k", "a", []byte("new"), []byte("newer")))
}
