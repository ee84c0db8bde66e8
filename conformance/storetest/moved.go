package storetest

import (
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// movedCall is what Moved was asked.
type movedCall struct {
	log      core.LogState
	newer    []core.SegmentHeader
	segments []int
}

// knowing returns a segment that knows a head.
func (b *bundle) knowing(p core.PartitionKey, head int64, group int) core.NewSegment {
	n := b.messages(p, 2)
	n.Know, n.Group = head, group
	return n
}

// moving appends with a Moved that answers what with says, and returns what was asked.
func (b *bundle) moving(with func(core.NewSegment) core.NewSegment, segments ...core.NewSegment) ([]core.Placed, map[core.PartitionKey]movedCall) {
	b.Helper()
	asked := map[core.PartitionKey]movedCall{}
	placed, err := b.s.Append(b.ctx, core.AppendParams{
		Commit: uuid.New(), Now: b.now, Segments: segments,
		Moved: func(p core.PartitionKey, log core.LogState, newer []core.SegmentHeader, list []int) ([]core.NewSegment, error) {
			asked[p] = movedCall{log, newer, slices.Clone(list)}
			out := make([]core.NewSegment, len(list))
			for i, at := range list {
				out[i] = with(segments[at])
			}
			return out, nil
		},
	})
	require.NoError(b, err)
	return placed, asked
}

// appendAsksWhatMoved appends to partitions that others appended to.
func appendAsksWhatMoved(b *bundle) {
	b.append(b.messages(b.p[0], 3), b.messages(b.p[1], 1))
	b.append(b.messages(b.p[0], 4))
	b.append(b.messages(b.p[0], 1), b.messages(b.p[1], 2))
	fresh := b.messages(b.p[0], 5)
	var given int
	placed, asked := b.moving(func(core.NewSegment) core.NewSegment {
		given++
		if given == 1 {
			return fresh
		}
		return b.messages(b.p[1], 1)
	}, b.knowing(b.p[0], 3, 0), b.knowing(b.p[2], 0, 0), b.knowing(b.p[1], 1, 0))
	require.Len(b, asked, 2, "the third is as it was known")
	a := asked[b.p[0]]
	assert.Equal(b, []int{0}, a.segments)
	assert.Equal(b, int64(8), a.log.Head, "the log as it is")
	require.Len(b, a.newer, 2, "all between what was known and the head")
	assert.Equal(b, int64(4), a.newer[0].First)
	assert.Equal(b, int64(8), a.newer[1].First)
	assert.Len(b, a.newer[0].Messages, 4)
	require.Len(b, asked[b.p[1]].newer, 1)
	assert.Equal(b, int64(2), asked[b.p[1]].newer[0].First)
	assert.Equal(b, []int64{9, 1, 4}, []int64{placed[0].First, placed[1].First, placed[2].First})
	assert.Equal(b, int64(13), b.log(b.p[0]).Head, "what it said was written, not what was given")
	want, err := core.DecodeHeaders(fresh.Header, fresh.Count)
	require.NoError(b, err)
	assert.Equal(b, want[0].ID, b.read(b.p[0], 9, 9)[0].ID)
}

// appendLeavesOutWhatIsEmpty has Moved answer with nothing to write.
func appendLeavesOutWhatIsEmpty(b *bundle) {
	b.append(b.messages(b.p[0], 1), b.messages(b.p[1], 1))
	none := func(n core.NewSegment) core.NewSegment {
		return core.NewSegment{Partition: n.Partition, Group: n.Group, Know: n.Know}
	}
	placed, _ := b.moving(none, b.knowing(b.p[0], 0, 1), b.knowing(b.p[2], 0, 1), b.knowing(b.p[1], 0, 0), b.knowing(b.p[2], 0, 2))
	firsts := []int64{placed[0].First, placed[1].First, placed[2].First, placed[3].First}
	assert.Equal(b, []int64{0, 0, 0, 1}, firsts, "it takes the rest of its group with it")
	assert.False(b, placed[0].Gone)
	assert.Equal(b, int64(1), b.log(b.p[0]).Head)
	placed, _ = b.moving(none, b.knowing(b.p[0], 0, 0))
	assert.Zero(b, placed[0].First, "nothing at all went in")

	refused := errors.New("refused")
	_, err := b.s.Append(b.ctx, core.AppendParams{
		Commit: uuid.New(), Now: b.now, Segments: []core.NewSegment{b.knowing(b.p[0], 0, 0), b.messages(b.p[2], 1)},
		Moved: func(core.PartitionKey, core.LogState, []core.SegmentHeader, []int) ([]core.NewSegment, error) {
			return nil, refused
		},
	})
	require.ErrorIs(b, err, refused)
	assert.Equal(b, int64(2), b.log(b.p[2]).Head, "an error changes nothing")
}

// scheduledEntriesAreLocked asks for entries of which some are gone.
func scheduledEntriesAreLocked(b *bundle) {
	var c core.ChangeSet
	for range 4 {
		c.Schedule = append(c.Schedule, core.ScheduledSegment{Due: b.now + 10, Segment: b.messages(b.p[0], 1)})
	}
	b.update(nil, c)
	list, err := b.s.Due(b.ctx, b.now+10, 10)
	require.NoError(b, err)
	require.Len(b, list, 4)
	ask := func(s core.Store, seqs []int64, then *core.ChangeSet) (there []int64) {
		_, err := s.Update(b.ctx, core.UpdateParams{Commit: uuid.New(), Now: b.now}, func(tx core.Tx) (*core.ChangeSet, error) {
			var err error
			there, err = tx.Scheduled(seqs)
			return then, err
		})
		assert.NoError(b, err)
		return there
	}
	b.update(nil, core.ChangeSet{Unschedule: []int64{list[1].Seq}})
	seqs := []int64{list[3].Seq, list[1].Seq, 1 << 40, list[0].Seq}
	assert.Equal(b, []int64{list[3].Seq, list[0].Seq}, ask(b.s, seqs, nil), "in the order given, without what is gone")
	assert.Empty(b, ask(b.s, nil, nil))

	// Two take the same entries at once: one gets them.
	var taken [2][]int64
	both := make(chan struct{})
	for i := range taken {
		go func() {
			defer func() { both <- struct{}{} }()
			taken[i] = ask(b.s, seqs, &core.ChangeSet{Unschedule: seqs})
		}()
	}
	<-both
	<-both
	assert.Len(b, append(taken[0], taken[1]...), 2, "%v", taken)
	assert.True(b, len(taken[0]) == 0 || len(taken[1]) == 0, "%v", taken)
}
