package storetest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
)

func purge(b *bundle) {
	b.fill(b.p[0])
	b.fill(b.p[1])
	untouched := core.RowKey{Partition: b.p[0], Group: "never claimed"}
	b.put(core.RowChange{Key: untouched, Put: []core.Batch{b.batch(1, 2, 2, core.BatchEmpty, 0)}})
	before := b.log(b.p[0])
	b.now += 77
	b.update(nil, core.ChangeSet{Purge: []core.PartitionKey{b.p[0]}})

	l := before
	l.Start, l.StartTotals = l.Head+1, l.HeadTotals
	assert.Equal(b, l, b.log(b.p[0]))
	r := b.row(core.RowKey{Partition: b.p[0], Group: "g"})
	assert.True(b, r.Exists)
	assert.Equal(b, core.Frontier{Offset: l.Head, NextBatch: 2, Before: l.HeadTotals, MovedAt: b.now}, r.Frontier)
	assert.Empty(b, r.Batches)
	assert.Equal(b, &core.Row{Key: untouched, Log: l}, b.row(untouched))
	assert.Empty(b, b.read(b.p[0], 1, 9))
	refs, err := b.s.Segments(b.ctx, b.p[0], 0, 0)
	require.NoError(b, err)
	assert.Empty(b, refs)
	list, err := b.s.Scheduled(b.ctx, core.ScheduledParams{Partition: b.p[0]})
	require.NoError(b, err)
	assert.Empty(b, list)
	off, err := b.s.Source(b.ctx, b.p[0], "source")
	require.NoError(b, err)
	assert.Zero(b, off)
	expired, err := b.s.Expired(b.ctx, b.now+1000, 0)
	require.NoError(b, err)
	assert.Equal(b, []core.RowKey{{Partition: b.p[1], Group: "g"}}, expired, "the other partition stays")
	list, err = b.s.Scheduled(b.ctx, core.ScheduledParams{Partition: b.p[1]})
	require.NoError(b, err)
	assert.Len(b, list, 1)

	key := core.RowKey{Partition: b.p[1], Group: "g"}
	n := b.messages(b.p[1], 3)
	placed := b.update([]core.RowRequest{{Key: key}}, core.ChangeSet{
		Purge: []core.PartitionKey{b.p[1]}, Segments: []core.NewSegment{n}, Rows: []core.RowChange{{Key: key, Put: []core.Batch{
			b.batch(9, 3, 5, core.BatchLeased, b.now),
		}}},
	})
	assert.Equal(b, int64(3), placed[0].First, "a purge comes before what else the change set does")
	assert.Equal(b, int64(3), b.log(b.p[1]).Start)
	assert.Len(b, b.read(b.p[1], 1, 9), 3)
	assert.Len(b, b.row(key).Batches, 1)
	assert.Equal(b, int64(2), b.row(key).Frontier.Offset)
}

func registrations(b *bundle) {
	first := core.Registration{Queue: b.queue.ID, Group: "g", Start: 5, CreatedAt: b.now, Mode: "timestamp"}
	other := core.Registration{Queue: b.queue.ID, Group: "\x00", CreatedAt: b.now, Mode: "all"}
	again := first
	again.Start, again.Mode = 9, "new"
	b.update(nil, core.ChangeSet{Register: []core.Registration{first, again, other}})
	b.update(nil, core.ChangeSet{Register: []core.Registration{again}})
	list, err := b.s.Registrations(b.ctx, b.queue.ID)
	require.NoError(b, err)
	assert.Equal(b, []core.Registration{other, first}, list, "one that exists keeps what it says")
	b.update(nil, core.ChangeSet{Unregister: []core.RegistrationKey{{Queue: b.queue.ID, Group: "g"}}})
	list, err = b.s.Registrations(b.ctx, b.queue.ID)
	require.NoError(b, err)
	assert.Equal(b, []core.Registration{other}, list)
}

func rowSummaries(b *bundle) {
	key := core.RowKey{Partition: b.p[1], Group: "g"}
	f := core.Frontier{Offset: 30, Before: core.Totals{Messages: 30}}
	list := []core.Batch{
		b.batch(1, 1, 9, core.BatchLeased, b.now+300_000), b.batch(2, 10, 19, core.BatchLeased, b.now+200_000),
		b.batch(3, 20, 29, core.BatchWaiting, b.now+40_000), b.batch(4, 40, 49, core.BatchWaiting, b.now+50_000), b.batch(5, 50, 51, core.BatchEmpty, 0),
	}
	list[0].Exclusive = true
	list[0].Pending = run(7, 9)
	b.put(core.RowChange{Key: key, Move: true, Frontier: f, Put: list},
		core.RowChange{Key: core.RowKey{Partition: b.p[0], Group: "h"}, Move: true})
	rows := func(group string) []core.RowSummary {
		out, err := b.s.Rows(b.ctx, core.RowsParams{Queue: b.queue.ID, Group: group, Now: b.now + 41_000})
		require.NoError(b, err)
		return out
	}
	want := core.RowSummary{
		Key: key, Frontier: f, Leases: 2, Batches: 5, ExclusiveUntil: b.now + 300_000, NextLease: b.now + 200_000, NextWaiting: b.now + 40_000,
		Leased: list[0].Held.Plus(list[1].Held), Waiting: list[2].Held.Plus(list[3].Held), CoveredAbove: list[3].Covered.Plus(list[4].Covered),
		OldestPending: 7, Later: list[3].Held,
	}
	for i := range 2 {
		want.LeaseLeft += list[i].Held.Messages * int64(list[i].Until-b.now-41_000) / 1000
	}
	assert.Equal(b, []core.RowSummary{want}, rows("g"))
	assert.Equal(b, []core.RowSummary{{Key: core.RowKey{Partition: b.p[0], Group: "h"}}, want}, rows(""))
	assert.Empty(b, rows("nobody"))
	out, err := b.s.Rows(b.ctx, core.RowsParams{Queue: coretest.ID(1)})
	require.NoError(b, err)
	assert.Empty(b, out)
	batches, got, err := b.s.Batches(b.ctx, core.RowKey{Partition: b.p[2], Group: "g"})
	require.NoError(b, err)
	assert.Empty(b, batches)
	assert.Equal(b, core.Frontier{}, got)
}

func deadLettersFilter(b *bundle) {
	other, keys := b.makeQueue("other", "0")
	all := make([]core.DeadLetter, 0, 6)
	for i := range 6 {
		d := core.DeadLetter{
			ID: coretest.ID(100 + i), Queue: b.queue.ID, Partition: b.p[i%2], Group: []string{"g", "h\x00"}[i/3], Error: "e",
			Retries: int32(i), FailedAt: b.now + core.Time(i/2), Message: coretest.Message(i, b.now),
		}
		all = append(all, d)
	}
	all[2].Message.TransactionID = "tx"
	all[5].Queue, all[5].Partition = other.ID, keys[0]
	b.update(nil, core.ChangeSet{DeadLetters: all})
	for name, c := range map[string]struct {
		f     core.DeadLetterFilter
		want  []int // newest failure first
		total int64
	}{
		"all":         {core.DeadLetterFilter{}, []int{4, 5, 2, 3, 0, 1}, 6},
		"queue":       {core.DeadLetterFilter{Queue: b.queue.ID}, []int{4, 2, 3, 0, 1}, 5},
		"partition":   {core.DeadLetterFilter{Partition: b.p[1]}, []int{3, 1}, 2},
		"group":       {core.DeadLetterFilter{Group: "h\x00"}, []int{4, 5, 3}, 3},
		"no group":    {core.DeadLetterFilter{Group: "h"}, nil, 0},
		"transaction": {core.DeadLetterFilter{TransactionID: "tx"}, []int{2}, 1},
		"message id":  {core.DeadLetterFilter{TransactionID: coretest.ID(3).String()}, []int{3}, 1},
		"from":        {core.DeadLetterFilter{From: b.now + 2}, []int{4, 5}, 2},
		"to":          {core.DeadLetterFilter{To: b.now + 1, From: b.now + 1}, []int{2, 3}, 2},
		"page":        {core.DeadLetterFilter{Limit: 2, Offset: 1}, []int{5, 2}, 6},
		"past":        {core.DeadLetterFilter{Limit: 2, Offset: 100}, nil, 6},
	} {
		list, total, err := b.s.DeadLetters(b.ctx, c.f)
		require.NoError(b, err)
		var got []int
		for i := range list {
			got = append(got, int(list[i].Retries))
		}
		assert.Equal(b, c.want, got, name)
		assert.Equal(b, c.total, total, name)
	}
	b.update(nil, core.ChangeSet{DropDeadLetters: []uuid.UUID{all[0].ID, all[1].ID}})
	_, total, err := b.s.DeadLetters(b.ctx, core.DeadLetterFilter{})
	require.NoError(b, err)
	assert.Equal(b, int64(4), total)
}
