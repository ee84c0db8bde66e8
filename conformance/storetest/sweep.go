package storetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
)

func scheduleOrder(b *bundle) {
	add := func(due core.Time, p core.PartitionKey) core.ScheduledSegment {
		m := coretest.Message(b.next(), b.now, coretest.Source("s"), coretest.Expires(b.now+9))
		e := core.ScheduledSegment{Due: b.now + due, Segment: coretest.Segment(p, coretest.Message(b.next(), b.now), m)}
		e.Segment.Know, e.Segment.Group = 4, 5
		b.update(nil, core.ChangeSet{Schedule: []core.ScheduledSegment{e}})
		e.Segment.Know, e.Segment.Group = -1, 0
		return e
	}
	list := []core.ScheduledSegment{add(30, b.p[0]), add(10, b.p[1]), add(30, b.p[1]), add(20, b.p[0]), add(10, b.p[0])}
	due := func(at core.Time, limit int) (out []core.ScheduledSegment) {
		out, err := b.s.Due(b.ctx, b.now+at, limit)
		require.NoError(b, err)
		return out
	}
	assert.Empty(b, due(9, 0))
	got := due(30, 0)
	require.Len(b, got, 5)
	for i, want := range []int{1, 4, 3, 0, 2} { // by due time, then arrival
		list[want].Seq = got[i].Seq
		assert.Equal(b, list[want], got[i])
	}
	for i := 1; i < len(list); i++ {
		assert.Less(b, list[i-1].Seq, list[i].Seq, "ascending in order of arrival")
	}
	assert.Len(b, due(30, 2), 2)
	assert.Len(b, due(10, 0), 2)
	next, _, expiry, err := b.s.NextDue(b.ctx)
	require.NoError(b, err)
	assert.Equal(b, b.now+10, next)
	assert.Zero(b, expiry, "what is scheduled is not in the log")
	page, err := b.s.Scheduled(b.ctx, core.ScheduledParams{Partition: b.p[0], After: list[0].Seq, Limit: 1})
	require.NoError(b, err)
	assert.Equal(b, []core.ScheduledSegment{list[3]}, page)
	totals, err := b.s.ScheduledTotals(b.ctx, b.queue.ID)
	require.NoError(b, err)
	assert.Len(b, totals, 2)
	assert.Equal(b, list[1].Segment.Totals.Plus(list[2].Segment.Totals), totals[b.p[1]])

	n := got[0].Segment
	placed := b.update(nil, core.ChangeSet{Unschedule: []int64{got[0].Seq, 4711}, Segments: []core.NewSegment{n}})
	assert.Equal(b, int64(1), placed[0].First)
	off, err := b.s.Source(b.ctx, b.p[1], "s")
	require.NoError(b, err)
	assert.Equal(b, int64(2), off, "source ids survive the schedule")
	assert.Len(b, due(10, 0), 1)
	last := add(5, b.p[2])
	assert.Greater(b, due(5, 0)[0].Seq, list[4].Seq, "numbers are not used twice: %v", last.Due)
}

func expiredRows(b *bundle) {
	key := func(i int) core.RowKey { return core.RowKey{Partition: b.p[i], Group: "g"} }
	redraw := b.batch(2, 10, 19, core.BatchWaiting, b.now+20)
	redraw.Redraw = true
	b.put(
		core.RowChange{Key: key(0), Put: []core.Batch{b.batch(1, 1, 9, core.BatchLeased, b.now+30), redraw, b.batch(3, 20, 29, core.BatchLeased, b.now+40)}},
		core.RowChange{Key: key(1), Put: []core.Batch{b.batch(1, 1, 9, core.BatchLeased, b.now+10)}},
		core.RowChange{Key: key(2), Put: []core.Batch{b.batch(1, 1, 9, core.BatchWaiting, b.now+1), b.batch(2, 1, 9, core.BatchEmpty, b.now+1)}},
	)
	check := func(at core.Time, limit int, next core.Time, want ...core.RowKey) {
		b.Helper()
		got, err := b.s.Expired(b.ctx, b.now+at, limit)
		require.NoError(b, err)
		if len(want) == 0 {
			assert.Empty(b, got)
		} else {
			assert.Equal(b, want, got)
		}
		_, lease, _, err := b.s.NextDue(b.ctx)
		require.NoError(b, err)
		assert.Equal(b, next, lease)
	}
	check(9, 0, b.now+10)
	check(10, 0, b.now+10, key(1))
	check(20, 0, b.now+10, key(1), key(0))
	check(99, 1, b.now+10, key(1))
	b.put(core.RowChange{Key: key(1), Delete: []int64{1}})
	check(99, 0, b.now+20, key(0))
	b.put(core.RowChange{Key: key(0), Delete: []int64{2}})
	check(20, 0, b.now+30)
	extended := b.batch(1, 1, 9, core.BatchLeased, b.now+50)
	b.put(core.RowChange{Key: key(0), Put: []core.Batch{extended}})
	check(40, 0, b.now+40, key(0))
	if _, except := b.h.Exceptions["Reopen"]; !except {
		b.reopen()
		check(40, 0, b.now+40, key(0))
	}
	b.put(core.RowChange{Key: key(0), Drop: true})
	check(1000, 0, 0)
}

func expiredSegments(b *bundle) {
	at := func(t core.Time) core.NewSegment {
		return coretest.Segment(b.p[0], coretest.Message(b.next(), b.now), coretest.Message(b.next(), b.now, coretest.Expires(b.now+t)))
	}
	refs := make([]core.SegmentRef, 0, 3)
	for i, t := range []core.Time{50, 10, 30} {
		b.append(at(t))
		refs = append(refs, core.SegmentRef{
			Partition: b.p[0], First: int64(2*i + 1), Last: int64(2*i + 2), AppendedAt: b.now, Expires: b.now + t,
		})
	}
	b.append(b.messages(b.p[1], 2))
	other := coretest.Segment(b.p[2], coretest.Message(b.next(), b.now, coretest.Expires(b.now+20)))
	b.append(other)
	last := core.SegmentRef{Partition: b.p[2], First: 1, Last: 1, AppendedAt: b.now, Expires: b.now + 20}
	check := func(t core.Time, limit int, next core.Time, want ...core.SegmentRef) {
		b.Helper()
		got, err := b.s.ExpiredSegments(b.ctx, b.now+t, limit)
		require.NoError(b, err)
		if len(want) == 0 {
			assert.Empty(b, got)
		} else {
			assert.Equal(b, want, got, "by partition and offset")
		}
		_, _, expiry, err := b.s.NextDue(b.ctx)
		require.NoError(b, err)
		assert.Equal(b, next, expiry)
	}
	check(9, 0, b.now+10)
	check(10, 0, b.now+10, refs[1])
	check(30, 0, b.now+10, refs[1], refs[2], last)
	check(30, 2, b.now+10, refs[1], refs[2])
	handled := refs[1]
	handled.Expires = b.now + 60
	require.NoError(b, b.s.DeleteSegments(b.ctx, b.now, nil, []core.SegmentRef{handled}))
	check(30, 0, b.now+20, refs[2], last)
	refs[1].Expires = b.now + 60
	done := refs[2]
	done.Expires = 0
	require.NoError(b, b.s.DeleteSegments(b.ctx, b.now, []core.SegmentRef{last}, []core.SegmentRef{done}))
	check(40, 0, b.now+50)
	check(60, 0, b.now+50, refs[0], refs[1])
	if _, except := b.h.Exceptions["Reopen"]; !except {
		b.reopen()
		check(60, 0, b.now+50, refs[0], refs[1])
	}
	got, err := b.s.Segments(b.ctx, b.p[0], 5, 0)
	require.NoError(b, err)
	assert.Equal(b, []core.SegmentRef{done}, got, "all of it is handled")
	require.NoError(b, b.s.DeleteSegments(b.ctx, b.now, refs[:2], nil))
	check(1000, 0, 0)
}

func deleteSegmentsMovesStart(b *bundle) {
	var totals core.Totals
	before := map[int64]core.Totals{}
	for i := range int64(5) {
		n := b.messages(b.p[0], 2) // 1-2, 3-4, 5-6, 7-8, 9-10
		before[2*i+1] = totals
		totals = totals.Plus(n.Totals)
		b.append(n)
	}
	remove := func(firsts ...int64) {
		b.Helper()
		refs := make([]core.SegmentRef, 0, len(firsts)+1)
		for _, f := range firsts {
			refs = append(refs, core.SegmentRef{Partition: b.p[0], First: f, Last: f + 1})
		}
		require.NoError(b, b.s.DeleteSegments(b.ctx, b.now, append(refs, core.SegmentRef{Partition: 4711, First: 1, Last: 1}), nil))
	}
	start := func(want int64, sum core.Totals) {
		b.Helper()
		assert.Equal(b, core.LogState{Start: want, Head: 10, HeadAt: b.now, StartTotals: sum, HeadTotals: totals}, b.log(b.p[0]))
	}
	remove(5)
	start(1, core.Totals{})
	remove(1)
	start(3, before[3])
	remove(1, 4711)
	start(3, before[3])
	remove(3)
	start(7, before[7])
	assert.Empty(b, b.read(b.p[0], 1, 6))
	assert.Len(b, b.read(b.p[0], 1, 8), 2)
	remove(9, 7)
	start(11, totals)
	if _, except := b.h.Exceptions["Reopen"]; !except {
		b.reopen()
		start(11, totals)
	}
	assert.Equal(b, int64(11), b.append(b.messages(b.p[0], 1))[0].First, "offsets go on")
	assert.Equal(b, int64(11), b.log(b.p[0]).Start)
	assert.Len(b, b.read(b.p[0], 1, 99), 1)
}

func segmentsFrom(b *bundle) {
	for range 4 {
		b.append(b.messages(b.p[0], 3))
	}
	firsts := func(from int64, limit int) (out []int64) {
		refs, err := b.s.Segments(b.ctx, b.p[0], from, limit)
		require.NoError(b, err)
		for i := range refs {
			assert.Equal(b, refs[i].First+2, refs[i].Last)
			assert.Equal(b, b.now, refs[i].AppendedAt)
			out = append(out, refs[i].First)
		}
		return out
	}
	assert.Equal(b, []int64{1, 4, 7, 10}, firsts(0, 0))
	assert.Equal(b, []int64{4, 7}, firsts(6, 2))
	assert.Empty(b, firsts(13, 0))
	refs, err := b.s.Segments(b.ctx, 4711, 0, 0)
	require.NoError(b, err)
	assert.Empty(b, refs)
}
