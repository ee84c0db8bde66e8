package core

import (
	"context"
	"maps"
	"slices"
)

// ScheduledRef names a delayed message that is not in the log yet, as ScheduledItem does.
type ScheduledRef struct {
	Seq   int64
	Index int
}

// DiscardParams are the arguments of Engine.Discard.
type DiscardParams struct {
	Queue string
	// Ordinal is the partition's number.
	Ordinal int32
	// Items are messages in the log, leased or not; one whose place is no longer the current one is passed over.
	Items []ItemRef
	// Scheduled are delayed messages that are not in the log yet.
	Scheduled []ScheduledRef
}

// Discard settles messages for the reserved group wherever they stand, and deletes delayed ones, in one commit. What is
// not there is passed over. The delayed messages of a push that loses one get new sequences.
func (e *Engine) Discard(ctx context.Context, x DiscardParams) error {
	pt, err := e.partAt(ctx, "discard", x.Queue, x.Ordinal)
	if err != nil {
		return err
	}
	key := RowKey{pt.Key, QueueModeGroup}
	req := RowRequest{Key: key, Must: true}
	for i := range x.Items {
		req.Offsets = append(req.Offsets, x.Items[i].Offset)
	}
	op := &opReq{rows: []RowRequest{req}, after: e.afterSweep, done: make(chan struct{})}
	var drop []int64
	var again []ScheduledSegment
	op.apply = func(p *pass) error {
		ed := p.edit(key)
		if ed == nil {
			return Errorf(CodeConflict, "discard", "the partition is busy")
		}
		ed.begin(ed.row.Log.Start)
		for i := range x.Items {
			ed.discard(x.Items[i])
		}
		ed.tidy()
		if there, err := p.stillScheduled(drop); err != nil {
			return err
		} else if len(there) < len(drop) {
			return Errorf(CodeConflict, "discard", "delayed messages became due meanwhile")
		}
		p.cs.Unschedule, p.cs.Schedule = append(p.cs.Unschedule, drop...), append(p.cs.Schedule, again...)
		return ed.err
	}
	// The schedule is read in the dispatcher, so that nothing moves to the log before the commit.
	if cerr := e.call(func() {
		ctx := context.WithoutCancel(ctx)
		if drop, again, err = e.unscheduled(ctx, pt, x.Scheduled); err == nil {
			e.updateOnly(ctx, []*opReq{op})
		}
	}); cerr != nil {
		return cerr
	}
	if err != nil {
		return WrapError(CodeInternal, "discard", err)
	}
	<-op.done
	return op.err
}

// stillScheduled locks entries of the schedule and returns those that are there.
func (p *pass) stillScheduled(seqs []int64) ([]int64, error) {
	if len(seqs) == 0 {
		return nil, nil
	}
	return p.tx.Scheduled(seqs)
}

// discard settles one message, in any state, if its place is still the current one.
func (e *edit) discard(ref ItemRef) {
	if i, code := e.find(ref); code == CodeInternal {
		e.settle(i, Runs{{ref.Offset, ref.Offset}})
		return
	} else if code == CodeNotLeased {
		e.done(ref.Offset)
		return
	}
	// What was retried for later keeps its place until it is due, though nobody can settle it meanwhile.
	s, i := e.segment(ref.Offset), e.holder(ref.Offset)
	if s == nil || i < 0 {
		return
	}
	turn, at := OwnTurn(ref.Offset), s.AppendedAt
	if b := &e.batches[i]; b.Turn != 0 {
		turn, at = b.Turn, b.TurnAt
	}
	if turn == ref.Turn && at.Second() == ref.Second {
		e.settle(i, Runs{{ref.Offset, ref.Offset}})
	}
}

// unscheduled returns the sequences of the pushes that hold delayed messages, and what is left of these pushes.
func (e *Engine) unscheduled(ctx context.Context, pt *part, refs []ScheduledRef) (drop []int64, again []ScheduledSegment, err error) {
	gone := map[int64]map[int]bool{}
	for _, r := range refs {
		if gone[r.Seq] == nil {
			gone[r.Seq] = map[int]bool{}
		}
		gone[r.Seq][r.Index] = true
	}
	for _, seq := range slices.Sorted(maps.Keys(gone)) {
		segs, err := e.store.Scheduled(ctx, ScheduledParams{Partition: pt.Key, After: seq - 1, Limit: 1})
		if err != nil {
			return nil, nil, err
		}
		if len(segs) == 0 || segs[0].Seq != seq {
			continue
		}
		rest, err := without(&segs[0].Segment, gone[seq])
		if err != nil {
			return nil, nil, err
		}
		drop = append(drop, seq)
		if rest.Count > 0 {
			again = append(again, ScheduledSegment{Due: segs[0].Due, Segment: rest})
		}
	}
	return drop, again, nil
}

// without returns a copy of a segment that lacks some of its messages.
func without(s *NewSegment, indexes map[int]bool) (NewSegment, error) {
	rest := NewSegment{Partition: s.Partition, Know: -1}
	headers, err := DecodeHeaders(s.Header, s.Count)
	if err != nil {
		return rest, err
	}
	msgs, err := DecodeMessages(&SegmentHeader{Partition: s.Partition, Messages: headers}, 0, len(headers)-1, s.Body)
	if err != nil {
		return rest, err
	}
	for i := range msgs {
		if !indexes[i] {
			rest.Add(&msgs[i])
		}
	}
	return rest, nil
}
