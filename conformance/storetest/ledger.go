package storetest

import (
	"errors"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
)

// batch returns a batch over a range, all of it pending, with every field set.
func (b *bundle) batch(id, first, last int64, state core.BatchState, until core.Time) core.Batch {
	out := core.Batch{
		ID: id, First: first, Last: last, State: state, Until: until, Attempts: int32(id), Pending: run(first, last), //nolint:gosec // small
		Turn: core.Turn(1)<<63 | core.Turn(id), TurnAt: b.now + 1, Redraw: state == core.BatchEmpty, Protocol: core.ProtocolQuerator, //nolint:gosec // small
		Held: core.Totals{Messages: last - first + 1, Bytes: id, Created: -id}, Covered: core.Totals{Messages: 5, Bytes: 6, Created: 7},
	}
	switch state {
	case core.BatchLeased:
		out.Lease = coretest.ID(int(id))
	case core.BatchEmpty:
		out.Pending = nil
	case core.BatchWaiting:
	}
	return out
}

func updateAppliesRows(b *bundle) {
	key := core.RowKey{Partition: b.p[0], Group: "g\x00"}
	r := b.row(key)
	require.NotNil(b, r)
	assert.False(b, r.Exists)
	assert.Equal(b, core.Frontier{}, r.Frontier)
	f := core.Frontier{
		Offset: 12, Retries: 3, LastTurn: 1<<64 - 1, NextBatch: 7, MovedAt: b.now,
		Before: core.Totals{Messages: 12, Bytes: 1 << 40, Created: -3},
	}
	one, two, three := b.batch(1, 1, 4, core.BatchLeased, b.now+50), b.batch(2, 5, 9, core.BatchWaiting, b.now), b.batch(3, 20, 29, core.BatchEmpty, 0)
	one.Pending = core.Runs{{First: 1, Last: 1}, {First: 3, Last: 4}}
	one.Exclusive = true
	b.put(core.RowChange{Key: key, Move: true, Frontier: f, Put: []core.Batch{three, one, two}})
	check := func(want core.Frontier, batches ...core.Batch) {
		b.Helper()
		r := b.row(key)
		assert.True(b, r.Exists)
		assert.Equal(b, want, r.Frontier)
		assert.Equal(b, batches, append([]core.Batch(nil), r.Batches...))
		assert.Equal(b, b.log(key.Partition), r.Log)
		list, got, err := b.s.Batches(b.ctx, key)
		require.NoError(b, err)
		assert.Equal(b, want, got)
		assert.Equal(b, batches, append([]core.Batch(nil), list...))
	}
	check(f, one, two, three)

	two.Pending, two.State, two.Attempts = run(6, 6), core.BatchLeased, 99
	four := b.batch(4, 5, 5, core.BatchWaiting, b.now+9)
	b.put(core.RowChange{Key: key, Delete: []int64{3, 1234}, Put: []core.Batch{two, four}, Frontier: core.Frontier{Offset: 1}})
	check(f, one, two, four) // without Move the frontier stays; equal first offsets come by id

	f.Offset, f.LastTurn = 2, 0
	five := b.batch(5, 1, 1, core.BatchWaiting, b.now)
	b.put(core.RowChange{Key: key, Move: true, Frontier: f, DeleteAll: true, Put: []core.Batch{five}})
	check(f, five)
	b.put(core.RowChange{Key: key, Drop: true, Move: true, Frontier: f, Put: []core.Batch{five}})
	r = b.row(key)
	assert.False(b, r.Exists, "a drop ignores the other fields")
	assert.Empty(b, r.Batches)
	b.put(core.RowChange{Key: key, Put: []core.Batch{five}})
	assert.False(b, b.row(key).Exists, "no frontier without Move")
	assert.Equal(b, []core.Batch{five}, b.row(key).Batches)
	b.put(core.RowChange{Key: key, Drop: true}, core.RowChange{Key: key, Move: true, Frontier: f}) // two changes of one row
	check(f)
}

func updateDeletesBeforeInserts(b *bundle) {
	key := core.RowKey{Partition: b.p[0], Group: "g"}
	held := b.batch(1, 1, 4, core.BatchLeased, b.now+50)
	held.Exclusive = true
	back := b.batch(2, 5, 6, core.BatchWaiting, b.now)
	b.put(core.RowChange{Key: key, Put: []core.Batch{held, back}})
	next := held
	next.ID = 3
	b.put(core.RowChange{Key: key, Delete: []int64{1}, Put: []core.Batch{next}})
	assert.Equal(b, []core.Batch{next, back}, b.row(key).Batches, "a lease ends and another begins in one change")

	next.State, next.Lease, next.Exclusive = core.BatchWaiting, uuid.Nil, false
	back.State, back.Lease, back.Exclusive = core.BatchLeased, coretest.ID(9), true
	b.put(core.RowChange{Key: key, Put: []core.Batch{back, next}})
	assert.Equal(b, []core.Batch{next, back}, b.row(key).Batches, "the lease moves from one batch to another")
	next.State, next.Exclusive = core.BatchLeased, true
	back.State, back.Exclusive = core.BatchWaiting, true
	b.put(core.RowChange{Key: key, Put: []core.Batch{next, back}})
	assert.Equal(b, []core.Batch{next, back}, b.row(key).Batches)
}

func updateOneExclusiveLease(b *bundle) {
	key := core.RowKey{Partition: b.p[0], Group: "g"}
	one, two := b.batch(1, 1, 4, core.BatchLeased, b.now+50), b.batch(2, 5, 9, core.BatchLeased, b.now+50)
	one.Exclusive = true
	b.put(core.RowChange{Key: key, Put: []core.Batch{one, two}})
	two.Exclusive = true
	_, err := b.tryUpdate([]core.RowRequest{{Key: key}}, core.ChangeSet{Rows: []core.RowChange{{Key: key, Put: []core.Batch{two}}}})
	requireCode(b, core.CodeConflict, err)
	two.Exclusive = false
	assert.Equal(b, []core.Batch{one, two}, b.row(key).Batches)
}

func updateLoadsWhatIsAskedFor(b *bundle) {
	key := core.RowKey{Partition: b.p[0], Group: "g"}
	var list []core.Batch
	for i := int64(1); i <= 8; i++ {
		state := []core.BatchState{core.BatchLeased, core.BatchWaiting}[i%2]
		list = append(list, b.batch(i, i*10, i*10+9, state, b.now+core.Time(i)))
	}
	list[5].Exclusive = true // id 6
	b.put(core.RowChange{Key: key, Move: true, Frontier: core.Frontier{Offset: 79}, Put: list})
	b.now += 5
	for name, c := range map[string]struct {
		req  core.RowRequest
		want []int64
	}{
		"the exclusive one and what lies above": {core.RowRequest{}, []int64{6, 8}},
		"offsets":                               {core.RowRequest{Offsets: []int64{19, 40, 500}}, []int64{1, 4, 6, 8}},
		"lease":                                 {core.RowRequest{Lease: coretest.ID(2)}, []int64{2, 6, 8}},
		"due":                                   {core.RowRequest{Due: 2}, []int64{1, 2, 3, 4, 6, 8}},
		"one due":                               {core.RowRequest{Due: 1}, []int64{1, 2, 6, 8}},
		"all":                                   {core.RowRequest{All: true}, []int64{1, 2, 3, 4, 5, 6, 7, 8}},
	} {
		c.req.Key = key
		var ids []int64
		r := b.load(c.req)
		rest := core.Rest{}
		for i := range list {
			if _, loaded := find(r.Batches, list[i].ID); !loaded {
				rest = restPlus(rest, &list[i])
			}
		}
		for i := range r.Batches {
			ids = append(ids, r.Batches[i].ID)
		}
		assert.Equal(b, c.want, ids, name)
		assert.Equal(b, rest, r.Rest, name)
	}
}

func find(list []core.Batch, id int64) (*core.Batch, bool) {
	for i := range list {
		if list[i].ID == id {
			return &list[i], true
		}
	}
	return nil, false
}

func restPlus(r core.Rest, b *core.Batch) core.Rest {
	if b.State == core.BatchLeased {
		r.Leased += b.Pending.Count()
	} else {
		r.Waiting += b.Pending.Count()
	}
	if r.NextUntil == 0 || b.Until < r.NextUntil {
		r.NextUntil = b.Until
	}
	return r
}

func updateErrorChangesNothing(b *bundle) {
	key := core.RowKey{Partition: b.p[0], Group: "g"}
	cause := core.Errorf(core.CodeLeaseLost, "settle", "lost")
	plain := errors.New("plain")
	for _, want := range []error{cause, plain} {
		_, err := b.s.Update(b.ctx, core.UpdateParams{Commit: uuid.New(), Now: b.now, Rows: []core.RowRequest{{Key: key}}},
			func(core.Tx) (*core.ChangeSet, error) {
				return &core.ChangeSet{Rows: []core.RowChange{{Key: key, Move: true}}}, want
			})
		require.ErrorIs(b, err, want)
	}
	assert.False(b, b.row(key).Exists)
}

func updateEmptyWritesNothing(b *bundle) {
	commit := uuid.New()
	for _, c := range []*core.ChangeSet{nil, {}} {
		placed, err := b.s.Update(b.ctx, core.UpdateParams{Commit: commit, Now: b.now},
			func(core.Tx) (*core.ChangeSet, error) { return c, nil })
		require.NoError(b, err)
		assert.Empty(b, placed)
	}
	took, err := b.s.Outcome(b.ctx, commit)
	require.NoError(b, err)
	assert.False(b, took)
}

func updateRunsAgainAfterAMovedHead(b *bundle) {
	b.append(b.messages(b.p[0], 3))
	key := core.RowKey{Partition: b.p[0], Group: "g"}
	runs := 0
	n := b.messages(b.p[0], 1)
	placed, err := b.s.Update(b.ctx, core.UpdateParams{Commit: uuid.New(), Now: b.now, Rows: []core.RowRequest{{Key: key}}},
		func(tx core.Tx) (*core.ChangeSet, error) {
			n.Know = 2
			if runs++; runs == 2 {
				l, ok := tx.Log(b.p[0])
				require.True(b, ok)
				n.Know = l.Head
			}
			return &core.ChangeSet{Segments: []core.NewSegment{n}, Rows: []core.RowChange{{Key: key, Move: true}}}, nil
		})
	require.NoError(b, err)
	assert.Equal(b, 2, runs)
	assert.Equal(b, int64(4), placed[0].First)

	n.Know = 2
	_, err = b.tryUpdate([]core.RowRequest{{Key: key}}, core.ChangeSet{
		Segments: []core.NewSegment{b.messages(b.p[1], 1), n}, Rows: []core.RowChange{{Key: key, Drop: true}},
	})
	requireCode(b, core.CodeConflict, err)
	assert.Equal(b, 1, core.ItemOf(err))
	assert.True(b, b.row(key).Exists)
	assert.Zero(b, b.log(b.p[1]).Head)
}

func updateOfWhatIsGone(b *bundle) {
	other, _ := b.makeQueue("other", "0")
	gone := core.RowKey{Partition: 4711, Group: "g"}
	assert.Nil(b, b.row(gone))
	here := core.RowKey{Partition: b.p[0], Group: "g"}
	rows := []core.RowRequest{{Key: here}, {Key: gone}}
	for name, c := range map[string]struct {
		code core.Code
		set  core.ChangeSet
	}{
		"row":          {core.CodeNoPartition, core.ChangeSet{Rows: []core.RowChange{{Key: here, Move: true}, {Key: gone, Move: true}}}},
		"unasked row":  {core.CodeInternal, core.ChangeSet{Rows: []core.RowChange{{Key: core.RowKey{Partition: b.p[0], Group: "x"}, Move: true}}}},
		"segment":      {core.CodeNoPartition, core.ChangeSet{Segments: []core.NewSegment{b.messages(b.p[0], 1), b.messages(4711, 1)}}},
		"empty":        {core.CodeInvalid, core.ChangeSet{Segments: []core.NewSegment{{Partition: b.p[0], Know: -1}}}},
		"schedule":     {core.CodeNoPartition, core.ChangeSet{Schedule: []core.ScheduledSegment{{Due: 1, Segment: b.messages(4711, 1)}}}},
		"registration": {core.CodeNoQueue, core.ChangeSet{Register: []core.Registration{{Queue: coretest.ID(1), Group: "g"}}}},
		"dead letter": {core.CodeNoPartition, core.ChangeSet{DeadLetters: []core.DeadLetter{
			{ID: coretest.ID(1), Queue: other.ID, Partition: 4711, Message: coretest.Message(1, b.now)},
		}}},
	} {
		c.set.Register = append(c.set.Register, core.Registration{Queue: b.queue.ID, Group: "witness"})
		_, err := b.tryUpdate(rows, c.set)
		requireCode(b, c.code, err)
		assert.False(b, b.row(here).Exists, name)
	}
	regs, err := b.s.Registrations(b.ctx, b.queue.ID)
	require.NoError(b, err)
	assert.Empty(b, regs)
	b.update(nil, core.ChangeSet{ // removing what is not there is no error
		Purge: []core.PartitionKey{4711}, Unschedule: []int64{99}, DropDeadLetters: []uuid.UUID{coretest.ID(3)},
		FreeSources: []core.SourceKey{{Partition: 4711, SourceID: "x"}}, Unregister: []core.RegistrationKey{{Queue: coretest.ID(1), Group: "g"}},
	})
}

func updateIsAtomic(b *bundle) {
	if b.h.Fail == nil {
		b.Skip("the store has no way to make a commit fail")
	}
	key := core.RowKey{Partition: b.p[0], Group: "g"}
	b.append(b.messages(b.p[0], 1))
	b.h.Fail(b.s, FailWrite)
	_, err := b.tryUpdate([]core.RowRequest{{Key: key}}, core.ChangeSet{
		Segments:    []core.NewSegment{b.messages(b.p[0], 2), coretest.Segment(b.p[1], coretest.Message(b.next(), b.now, coretest.Source("s")))},
		Rows:        []core.RowChange{{Key: key, Move: true, Put: []core.Batch{b.batch(1, 1, 1, core.BatchLeased, b.now)}}},
		Schedule:    []core.ScheduledSegment{{Due: b.now, Segment: b.messages(b.p[0], 1)}},
		DeadLetters: []core.DeadLetter{{ID: coretest.ID(1), Queue: b.queue.ID, Partition: b.p[0], Message: coretest.Message(1, b.now)}},
		Register:    []core.Registration{{Queue: b.queue.ID, Group: "g"}},
		Purge:       []core.PartitionKey{b.p[0]},
	})
	requireCode(b, core.CodeUnavailable, err)
	assert.Equal(b, core.LogState{Start: 1, Head: 1, HeadAt: b.now, HeadTotals: b.log(b.p[0]).HeadTotals}, b.log(b.p[0]))
	assert.Zero(b, b.log(b.p[1]).Head)
	assert.False(b, b.row(key).Exists)
	assert.Len(b, b.read(b.p[0], 1, 9), 1)
	schedule, lease, expiry, err := b.s.NextDue(b.ctx)
	require.NoError(b, err)
	assert.Zero(b, schedule+lease+expiry)
	_, total, err := b.s.DeadLetters(b.ctx, core.DeadLetterFilter{})
	require.NoError(b, err)
	assert.Zero(b, total)
	off, err := b.s.Source(b.ctx, b.p[1], "s")
	require.NoError(b, err)
	assert.Zero(b, off)
	assert.Equal(b, int64(2), b.append(b.messages(b.p[0], 1))[0].First, "the store goes on")
}

func updateReadsInside(b *bundle) {
	dead := core.DeadLetter{ID: coretest.ID(77), Queue: b.queue.ID, Partition: b.p[0], Group: "g", Error: "why\x00", Retries: 3, FailedAt: b.now}
	dead.Message = coretest.Message(1, b.now, coretest.Transaction("t"))
	dead.Message.Offset, dead.Message.AppendedAt = 9, b.now
	b.append(b.messages(b.p[0], 2))
	b.append(b.messages(b.p[0], 2))
	b.update(nil, core.ChangeSet{DeadLetters: []core.DeadLetter{dead}})
	key := core.RowKey{Partition: b.p[0], Group: "g"}
	_, err := b.s.Update(b.ctx, core.UpdateParams{Commit: uuid.New(), Now: b.now, Rows: []core.RowRequest{{Key: key}}},
		func(tx core.Tx) (*core.ChangeSet, error) {
			hs, err := tx.Headers(b.p[0], 2, 3)
			require.NoError(b, err)
			assert.Len(b, hs, 2)
			ms, err := tx.Read(b.p[0], core.Runs{{First: 1, Last: 1}, {First: 4, Last: 4}})
			require.NoError(b, err)
			require.Len(b, ms, 2)
			assert.Equal(b, int64(4), ms[1].Offset)
			assert.NotEmpty(b, ms[1].Payload)
			l, ok := tx.Log(b.p[0])
			assert.True(b, ok)
			assert.Equal(b, int64(4), l.Head)
			_, ok = tx.Log(4711)
			assert.False(b, ok)
			d, ok, err := tx.DeadLetter(dead.ID)
			require.NoError(b, err)
			require.True(b, ok)
			assert.Equal(b, dead.Error, d.Error)
			assert.Equal(b, dead.Message.Payload, d.Message.Payload)
			assert.Equal(b, int64(9), d.Message.Offset)
			_, ok, err = tx.DeadLetter(coretest.ID(1))
			require.NoError(b, err)
			assert.False(b, ok)
			assert.Nil(b, tx.Row(core.RowKey{Partition: b.p[0], Group: "not asked for"}))
			return &core.ChangeSet{DropDeadLetters: []uuid.UUID{dead.ID}}, nil
		})
	require.NoError(b, err)
	_, total, err := b.s.DeadLetters(b.ctx, core.DeadLetterFilter{})
	require.NoError(b, err)
	assert.Zero(b, total)
}
