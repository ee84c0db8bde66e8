package storetest

import (
	"bytes"
	"strconv"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
)

func appendPlacesInOrder(b *bundle) {
	one, two, three := b.messages(b.p[0], 3), b.messages(b.p[1], 2), b.messages(b.p[0], 1)
	placed := b.append(one, two, three)
	assert.Equal(b, int64(1), placed[0].First)
	assert.Equal(b, int64(1), placed[1].First)
	assert.Equal(b, int64(4), placed[2].First, "offsets are dense in the order given")
	want := core.LogState{Start: 1, Head: 4, HeadAt: b.now, HeadTotals: one.Totals.Plus(three.Totals)}
	assert.Equal(b, want, placed[0].Log, "the log is as after the commit")
	assert.Equal(b, want, placed[2].Log)
	assert.Equal(b, want, b.log(b.p[0]))
	assert.Equal(b, core.LogState{Start: 1, Head: 2, HeadAt: b.now, HeadTotals: two.Totals}, b.log(b.p[1]))
	assert.Equal(b, core.LogState{Start: 1}, b.log(b.p[2]))

	four := b.messages(b.p[0], 2)
	assert.Equal(b, int64(5), b.append(four)[0].First)
	ms := b.read(b.p[0], 1, 6)
	require.Len(b, ms, 6)
	for i, m := range ms {
		assert.Equal(b, int64(i+1), m.Offset)
		assert.Equal(b, b.now, m.AppendedAt)
		assert.Equal(b, m.Size, int32(len(m.Payload))) //nolint:gosec // small
	}
	hs, err := b.s.Headers(b.ctx, core.HeadersParams{Partition: b.p[0], From: 5, To: 6})
	require.NoError(b, err)
	require.Len(b, hs, 1)
	assert.Equal(b, want.HeadTotals, hs[0].TotalsUpto(4))
	assert.Equal(b, want.HeadTotals.Plus(four.Totals), hs[0].TotalsUpto(6))
}

func appendTimeNeverDecreases(b *bundle) {
	b.append(b.messages(b.p[0], 1))
	late := b.now
	b.now -= 5000
	placed := b.append(b.messages(b.p[0], 1), b.messages(b.p[1], 1))
	assert.Equal(b, late, placed[0].AppendedAt, "the clock went back, the log does not")
	assert.Equal(b, b.now, placed[1].AppendedAt, "another partition has its own time")
	assert.Equal(b, late, b.log(b.p[0]).HeadAt)
	assert.Equal(b, late, b.read(b.p[0], 2, 2)[0].AppendedAt)
}

func appendLeavesOut(b *bundle) {
	b.append(b.messages(b.p[0], 2))
	knows, behind, unknown, gone := b.messages(b.p[0], 1), b.messages(b.p[1], 1), b.messages(b.p[0], 1), b.messages(12345, 1)
	knows.Know, behind.Know = 2, 0
	b.append(behind)
	placed, err := b.s.Append(b.ctx, core.AppendParams{
		Commit: uuid.New(), Now: b.now, Segments: []core.NewSegment{knows, behind, unknown, gone},
	})
	require.NoError(b, err)
	assert.Equal(b, int64(3), placed[0].First)
	assert.Zero(b, placed[1].First, "its head moved")
	assert.False(b, placed[1].Gone)
	assert.Equal(b, int64(1), placed[1].Log.Head, "the log as found")
	assert.Equal(b, int64(4), placed[2].First, "what was appended in the same commit counts as known")
	assert.Zero(b, placed[3].First)
	assert.True(b, placed[3].Gone)
	assert.Equal(b, int64(1), b.log(b.p[1]).Head)

	commit := uuid.New()
	placed, err = b.s.Append(b.ctx, core.AppendParams{Commit: commit, Now: b.now, Segments: []core.NewSegment{gone}})
	require.NoError(b, err)
	assert.True(b, placed[0].Gone)
	both := []core.NewSegment{b.messages(b.p[2], 1), b.messages(b.p[2], 1)}
	both[0].Know, both[1].Know = 0, 0
	for _, p := range b.append(both...) {
		assert.Equal(b, int64(2), p.Log.Head, "both knew the head before the commit")
	}
}

func appendGroupsAreWhole(b *bundle) {
	list := []core.NewSegment{
		b.messages(b.p[0], 1), b.messages(b.p[1], 1), b.messages(b.p[1], 2), b.messages(99999, 1), b.messages(b.p[2], 4),
	}
	for i, group := range []int{1, 2, 1, 2, 0} {
		list[i].Group = group
	}
	placed, err := b.s.Append(b.ctx, core.AppendParams{Commit: uuid.New(), Now: b.now, Segments: list})
	require.NoError(b, err)
	firsts := make([]int64, 0, len(placed))
	for i := range placed {
		firsts = append(firsts, placed[i].First)
	}
	assert.Equal(b, []int64{1, 0, 1, 0, 1}, firsts, "group 2 names a partition that is gone")
	assert.False(b, placed[1].Gone)
	assert.Equal(b, int64(2), placed[1].Log.Head, "the partition's log after the commit of the others")
}

func appendRefusesNoMessages(b *bundle) {
	_, err := b.s.Append(b.ctx, core.AppendParams{
		Commit: uuid.New(), Now: b.now, Segments: []core.NewSegment{b.messages(b.p[0], 1), {Partition: b.p[0], Know: -1}},
	})
	requireCode(b, core.CodeInvalid, err)
	assert.Zero(b, b.log(b.p[0]).Head)
}

// appendManyPartitions also crosses the limits within which a store may join segments.
func appendManyPartitions(b *bundle) {
	names := make([]string, 50)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	_, keys := b.makeQueue("many", names...)
	list := make([]core.NewSegment, 0, 30*len(keys))
	for round := range 30 {
		for i, p := range keys {
			list = append(list, b.messages(p, 1+(round+i)%90))
		}
	}
	placed := b.append(list...)
	next := map[core.PartitionKey]int64{}
	for i := range placed {
		p := list[i].Partition
		assert.Equal(b, next[p]+1, placed[i].First)
		next[p] += int64(list[i].Count)
	}
	for _, p := range keys {
		hs, err := b.s.Headers(b.ctx, core.HeadersParams{Partition: p, From: 1, To: next[p]})
		require.NoError(b, err)
		at := int64(1)
		for i := range hs {
			assert.Equal(b, at, hs[i].First)
			assert.LessOrEqual(b, len(hs[i].Messages), core.MaxSegmentMessages)
			at = hs[i].Last() + 1
		}
		assert.Equal(b, next[p], at-1)
	}
	for _, i := range []int{0, 777, len(list) - 1} {
		hs, err := core.DecodeHeaders(list[i].Header, list[i].Count)
		require.NoError(b, err)
		ms := b.read(list[i].Partition, placed[i].First, placed[i].First)
		require.Len(b, ms, 1)
		assert.Equal(b, hs[0].ID, ms[0].ID)
	}
}

func headersOfARange(b *bundle) {
	for range 5 {
		b.append(b.messages(b.p[0], 3)) // 1-3, 4-6, 7-9, 10-12, 13-15
	}
	firsts := func(from, to int64, limit int) (out []int64) {
		hs, err := b.s.Headers(b.ctx, core.HeadersParams{Partition: b.p[0], From: from, To: to, Limit: limit})
		require.NoError(b, err)
		for i := range hs {
			require.Len(b, hs[i].Messages, 3)
			out = append(out, hs[i].First)
		}
		return out
	}
	assert.Equal(b, []int64{1, 4, 7, 10, 13}, firsts(0, 1000, 0))
	assert.Equal(b, []int64{4, 7}, firsts(6, 7, 0), "whole segments that hold the offsets")
	assert.Equal(b, []int64{7, 10}, firsts(8, 1000, 2))
	assert.Empty(b, firsts(16, 20, 0))
	assert.Empty(b, firsts(5, 4, 0))
	hs, err := b.s.Headers(b.ctx, core.HeadersParams{Partition: 4711, From: 1, To: 5})
	require.NoError(b, err)
	assert.Empty(b, hs, "a partition that is gone has none")

	require.NoError(b, b.s.DeleteSegments(b.ctx, b.now, []core.SegmentRef{{Partition: b.p[0], First: 7, Last: 9}}, nil))
	assert.Equal(b, []int64{4, 10}, firsts(5, 11, 0))
	assert.Equal(b, []int64{10}, firsts(7, 9+1, 0))
	assert.Empty(b, firsts(7, 9, 0))
}

func readOffsetsAndBytes(b *bundle) {
	m := coretest.Message(b.next(), b.now, coretest.Transaction("tx\x00"), coretest.Expires(b.now+9), coretest.Source("\x00src"),
		coretest.Payload(core.ContentText, []byte("text \x00")))
	m.Encoding, m.Kind, m.Reference = "e", "k\x00", "r"
	m.TraceID, m.Subject, m.DelaySeconds, m.Attempts = "trace", "sub", 33, 4
	empty := coretest.Message(b.next(), b.now, coretest.Payload(core.ContentBytes, nil))
	b.append(coretest.Segment(b.p[0], m, empty))
	b.append(b.messages(b.p[0], 4))
	got := b.read(b.p[0], 1, 1)
	require.Len(b, got, 1)
	m.Offset, m.AppendedAt = 1, b.now
	assert.Equal(b, m.Labels, got[0].Labels)
	assert.Equal(b, m.Payload, got[0].Payload)
	assert.Equal(b, "tx\x00", got[0].TransactionID)
	assert.Equal(b, m.Hash, got[0].Hash)
	assert.Equal(b, int32(4), got[0].Attempts)
	assert.Equal(b, b.now+9, got[0].ExpiresAt)
	assert.Equal(b, b.now, got[0].CreatedAt)
	assert.Empty(b, b.read(b.p[0], 2, 2)[0].Payload)

	offsets := func(runs core.Runs, limit int64) (out []int64) {
		ms, err := b.s.Read(b.ctx, core.ReadParams{Partition: b.p[0], Offsets: runs, Bytes: limit})
		require.NoError(b, err)
		for i := range ms {
			out = append(out, ms[i].Offset)
		}
		return out
	}
	assert.Equal(b, []int64{2, 4, 5}, offsets(core.Runs{{First: 2, Last: 2}, {First: 4, Last: 5}}, 0))
	assert.Equal(b, []int64{6}, offsets(run(6, 1<<40), 0))
	assert.Empty(b, offsets(run(7, 9), 0))
	assert.Empty(b, offsets(nil, 0))
	hs, err := b.s.Headers(b.ctx, core.HeadersParams{Partition: b.p[0], From: 3, To: 6})
	require.NoError(b, err)
	_, two := core.BodyRange(hs[0].Messages, 0, 1)
	assert.Equal(b, []int64{3, 4}, offsets(run(3, 6), two), "exactly the limit fits")
	assert.Equal(b, []int64{3}, offsets(run(3, 6), two-1))
	assert.Equal(b, []int64{3}, offsets(run(3, 6), 1), "the first message always fits")
	ms, err := b.s.Read(b.ctx, core.ReadParams{Partition: 4711, Offsets: run(1, 3)})
	require.NoError(b, err)
	assert.Empty(b, ms)
}

func readLargeBodies(b *bundle) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	payloads := [][]byte{large, []byte("small"), large[:300_000], append([]byte{0}, large...)}
	for _, p := range payloads {
		b.append(coretest.Segment(b.p[0], coretest.Message(b.next(), b.now, coretest.Payload(core.ContentBytes, p))))
	}
	parts := coretest.Segment(b.p[0])
	for i := range 20 {
		m := coretest.Message(b.next(), b.now, coretest.Payload(core.ContentBytes, large[i:i+30_000]))
		parts.Add(&m)
	}
	b.append(parts)
	check := func() {
		for i, p := range payloads {
			got := b.read(b.p[0], int64(i+1), int64(i+1))
			require.Len(b, got, 1)
			require.True(b, bytes.Equal(p, got[0].Payload), "message %d", i+1)
		}
		for _, i := range []int64{0, 7, 19} {
			got := b.read(b.p[0], 5+i, 5+i)
			require.Len(b, got, 1)
			require.True(b, bytes.Equal(large[i:i+30_000], got[0].Payload))
		}
	}
	check()
	if _, except := b.h.Exceptions["Reopen"]; !except {
		b.reopen()
		check()
	}
}

func locateByTime(b *bundle) {
	start := b.now
	locate := func(t core.Time) int64 {
		off, err := b.s.Locate(b.ctx, b.p[0], t)
		require.NoError(b, err)
		return off
	}
	assert.Equal(b, int64(1), locate(start), "an empty log")
	for i := range 10 {
		b.now = start + core.Time(i*100)
		b.append(b.messages(b.p[0], 2))
	}
	assert.Equal(b, int64(1), locate(0))
	assert.Equal(b, int64(1), locate(start))
	assert.Equal(b, int64(3), locate(start+1))
	assert.Equal(b, int64(3), locate(start+100))
	assert.Equal(b, int64(19), locate(start+900))
	assert.Equal(b, int64(21), locate(start+901))
	require.NoError(b, b.s.DeleteSegments(b.ctx, b.now, []core.SegmentRef{{Partition: b.p[0], First: 3, Last: 4}}, nil))
	assert.Equal(b, int64(5), locate(start+100))
	_, err := b.s.Locate(b.ctx, 4711, start)
	requireCode(b, core.CodeNoPartition, err)
}

func sourcesFindOffsets(b *bundle) {
	source := func(p core.PartitionKey, id string) int64 {
		off, err := b.s.Source(b.ctx, p, id)
		require.NoError(b, err)
		return off
	}
	one := coretest.Message(b.next(), b.now, coretest.Source("a"))
	two := coretest.Message(b.next(), b.now, coretest.Source("a\x00"))
	b.append(b.messages(b.p[0], 2), coretest.Segment(b.p[0], coretest.Message(b.next(), b.now), one, two))
	assert.Equal(b, int64(4), source(b.p[0], "a"))
	assert.Equal(b, int64(5), source(b.p[0], "a\x00"))
	assert.Zero(b, source(b.p[1], "a"))
	assert.Zero(b, source(b.p[0], ""))
	b.update(nil, core.ChangeSet{
		FreeSources: []core.SourceKey{{Partition: b.p[0], SourceID: "a"}, {Partition: b.p[0], SourceID: "never"}},
		Segments:    []core.NewSegment{coretest.Segment(b.p[1], coretest.Message(b.next(), b.now, coretest.Source("a")))},
	})
	assert.Zero(b, source(b.p[0], "a"))
	assert.Equal(b, int64(1), source(b.p[1], "a"), "an update appends source ids too")
	again := coretest.Message(b.next(), b.now, coretest.Source("a"))
	b.update(nil, core.ChangeSet{
		FreeSources: []core.SourceKey{{Partition: b.p[1], SourceID: "a"}}, Segments: []core.NewSegment{coretest.Segment(b.p[1], again)},
	})
	assert.Equal(b, int64(2), source(b.p[1], "a"), "freed before what the same change set appends")
	b.append(coretest.Segment(b.p[0], one))
	assert.Equal(b, int64(6), source(b.p[0], "a"), "a freed id may be used again")
	refs, err := b.s.Segments(b.ctx, b.p[0], 6, 0)
	require.NoError(b, err)
	require.NoError(b, b.s.DeleteSegments(b.ctx, b.now, refs, nil))
	assert.Zero(b, source(b.p[0], "a"), "what is deleted is not live")
	assert.Equal(b, int64(5), source(b.p[0], "a\x00"))
}
