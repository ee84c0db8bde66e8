package storetest

import (
	"context"
	"sync"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
)

// everyMethod calls each method of a store once, with arguments that would be fine.
func everyMethod(ctx context.Context, s core.Store, q core.Queue, p core.PartitionKey, now core.Time) map[string]error {
	out := map[string]error{}
	_, out["Queues"] = s.Queues(ctx)
	_, out["PutQueue"] = s.PutQueue(ctx, core.PutQueueParams{Queue: q, Now: now})
	_, out["Partitions"] = s.Partitions(ctx, q.ID)
	_, out["CreatePartitions"] = s.CreatePartitions(ctx, now, []core.Partition{coretest.Partition(1, q.ID, "more", now)})
	_, out["Registrations"] = s.Registrations(ctx, q.ID)
	segments := []core.NewSegment{coretest.Segments(p, 1, 1, now)}
	_, out["Append"] = s.Append(ctx, core.AppendParams{Commit: uuid.New(), Now: now, Segments: segments})
	_, out["Headers"] = s.Headers(ctx, core.HeadersParams{Partition: p, From: 1, To: 2})
	_, out["Read"] = s.Read(ctx, core.ReadParams{Partition: p, Offsets: run(1, 1)})
	_, out["Locate"] = s.Locate(ctx, p, now)
	_, out["Source"] = s.Source(ctx, p, "x")
	_, out["Update"] = s.Update(ctx, core.UpdateParams{Commit: uuid.New(), Now: now}, func(core.Tx) (*core.ChangeSet, error) {
		return &core.ChangeSet{Segments: segments}, nil
	})
	_, out["Outcome"] = s.Outcome(ctx, uuid.New())
	_, out["Rows"] = s.Rows(ctx, core.RowsParams{Queue: q.ID})
	_, _, out["Batches"] = s.Batches(ctx, core.RowKey{Partition: p})
	_, out["Scheduled"] = s.Scheduled(ctx, core.ScheduledParams{Partition: p})
	_, _, out["DeadLetters"] = s.DeadLetters(ctx, core.DeadLetterFilter{})
	_, out["ScheduledTotals"] = s.ScheduledTotals(ctx, q.ID)
	_, out["Record"] = s.Record(ctx, "k", "n")
	out["PutRecord"] = s.PutRecord(ctx, "k", "n", nil, []byte("v"))
	_, out["Due"] = s.Due(ctx, now, 1)
	_, _, _, out["NextDue"] = s.NextDue(ctx)
	_, out["Expired"] = s.Expired(ctx, now, 1)
	_, out["ExpiredSegments"] = s.ExpiredSegments(ctx, now, 1)
	out["DeleteSegments"] = s.DeleteSegments(ctx, now, []core.SegmentRef{{Partition: p, First: 1, Last: 1}}, nil)
	_, out["RemoveIdle"] = s.RemoveIdle(ctx, core.RemoveIdleParams{Queue: q.ID, Partitions: []core.PartitionKey{p}, Since: now})
	_, out["Segments"] = s.Segments(ctx, p, 0, 1)
	out["DeleteQueue"] = s.DeleteQueue(ctx, q.ID)
	return out
}

func closeTwice(b *bundle) {
	require.NoError(b, b.s.Close())
	require.NoError(b, b.s.Close())
	for name, err := range everyMethod(b.ctx, b.s, b.queue, b.p[0], b.now) {
		assert.Equal(b, core.CodeClosed.String(), core.CodeOf(err).String(), "%s: %v", name, err)
	}
}

func canceledContext(b *bundle) {
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	for name, err := range everyMethod(ctx, b.s, b.queue, b.p[0], b.now) {
		assert.Equal(b, core.CodeCanceled.String(), core.CodeOf(err).String(), "%s: %v", name, err)
	}
	assert.Zero(b, b.log(b.p[0]).Head, "nothing was stored")
	for name, err := range everyMethod(b.ctx, b.s, b.queue, b.p[0], b.now) {
		assert.NoError(b, err, name)
	}
}

// concurrentCallers appends, reads and deletes from many goroutines; run it with the race detector.
func concurrentCallers(b *bundle) {
	check := func(err error) {
		if err != nil {
			b.Error(err)
		}
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 40 {
				seg := coretest.Segments(b.p[i%2], 10_000*i+100*n, 3, b.now)
				_, err := b.s.Append(b.ctx, core.AppendParams{Commit: uuid.New(), Now: b.now, Segments: []core.NewSegment{seg}})
				check(err)
			}
		})
		wg.Go(func() {
			for range 40 {
				hs, err := b.s.Headers(b.ctx, core.HeadersParams{Partition: b.p[i%2], From: 1, To: 1000})
				check(err)
				ms, err := b.s.Read(b.ctx, core.ReadParams{Partition: b.p[i%2], Offsets: run(1, 1000)})
				check(err)
				assert.GreaterOrEqual(b, len(hs)*3+240, len(ms))
				_, err = b.s.Locate(b.ctx, b.p[i%2], b.now)
				check(err)
			}
		})
		wg.Go(func() {
			for n := range 10 {
				ref := core.SegmentRef{Partition: b.p[i%2], First: int64(3*n + 1), Last: int64(3*n + 3)}
				check(b.s.DeleteSegments(b.ctx, b.now, []core.SegmentRef{ref}, nil))
				_, err := b.s.Partitions(b.ctx, b.queue.ID)
				check(err)
				_, err = b.s.Rows(b.ctx, core.RowsParams{Queue: b.queue.ID})
				check(err)
			}
		})
	}
	wg.Wait()
	for _, p := range b.p[:2] {
		assert.Equal(b, int64(240), b.log(p).Head)
	}
}

// reopen compares everything observable before and after.
func reopen(b *bundle) {
	for i, p := range b.p {
		for range i + 1 {
			b.append(b.messages(p, 2))
		}
		b.fill(p)
	}
	require.NoError(b, b.s.DeleteSegments(b.ctx, b.now, []core.SegmentRef{{Partition: b.p[2], First: 1, Last: 2}}, nil))
	for range 3 {
		before := Observe(b, b.s, b.now)
		b.reopen()
		assert.Equal(b, before, Observe(b, b.s, b.now))
		b.append(b.messages(b.p[0], 1)) // on top of what was written behind
	}
	assert.Equal(b, int64(8), b.append(b.messages(b.p[0], 1))[0].First)
}

func failingCommit(b *bundle) {
	if b.h.Fail == nil {
		b.Skip("the store has no way to make a commit fail")
	}
	b.fill(b.p[0])
	for _, point := range []FailPoint{FailWrite, FailCommit, FailAnswer} {
		before := Observe(b, b.s, b.now)
		commit := uuid.New()
		b.h.Fail(b.s, point)
		placed, err := b.s.Append(b.ctx, core.AppendParams{
			Commit: commit, Now: b.now, Segments: []core.NewSegment{b.messages(b.p[0], 2), b.messages(b.p[1], 1)},
		})
		took, lookup := b.s.Outcome(b.ctx, commit)
		require.NoError(b, lookup)
		head := b.log(b.p[1]).Head
		switch {
		case err == nil: // the store found out by itself
			assert.True(b, took)
			assert.Equal(b, head, placed[1].First)
			assert.Equal(b, FailAnswer, point)
		case core.CodeOf(err) == core.CodeUnknown:
			assert.Equal(b, point == FailAnswer, took)
		default:
			requireCode(b, core.CodeUnavailable, err)
			assert.False(b, took)
		}
		if !took {
			assert.Equal(b, before, Observe(b, b.s, b.now), "nothing changed")
		}
		assert.Equal(b, head+1, b.append(b.messages(b.p[1], 1))[0].First, "the store goes on")
		after := Observe(b, b.s, b.now)
		if _, except := b.h.Exceptions["Reopen"]; !except {
			b.reopen()
			assert.Equal(b, after, Observe(b, b.s, b.now), "memory is what is stored")
		}
	}
	failingUpdate(b)
}

func failingUpdate(b *bundle) {
	key := core.RowKey{Partition: b.p[1], Group: "g"}
	for i, point := range []FailPoint{FailCommit, FailAnswer} {
		commit := uuid.New()
		b.h.Fail(b.s, point)
		_, err := b.s.Update(b.ctx, core.UpdateParams{Commit: commit, Now: b.now, Rows: []core.RowRequest{{Key: key}}},
			func(tx core.Tx) (*core.ChangeSet, error) {
				f := tx.Row(key).Frontier
				f.Offset++
				return &core.ChangeSet{Rows: []core.RowChange{{Key: key, Move: true, Frontier: f}}}, nil
			})
		took, lookup := b.s.Outcome(b.ctx, commit)
		require.NoError(b, lookup)
		assert.Equal(b, point == FailAnswer, took)
		assert.Equal(b, int64(i), b.row(key).Frontier.Offset)
		if err != nil && !took {
			requireCode(b, core.CodeUnavailable, err)
		}
	}
}
