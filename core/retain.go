package core

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// relog reads the logs of partitions again whose segments were deleted.
func (e *Engine) relog(ctx context.Context, refs []SegmentRef) {
	for en := range e.queuesOf(refs) {
		logs, err := e.store.Partitions(ctx, en.q().ID)
		if err != nil {
			e.log.ErrorContext(ctx, "the partitions of a queue cannot be read", "queue", en.q().Name, "error", err)
			continue
		}
		for i := range logs {
			if p := e.cat.partByKey(logs[i].Key); p != nil {
				p.log = logs[i].Log
			}
		}
		en.changes.Add(1)
	}
}

// queuesOf returns the queues in which segments lie.
func (e *Engine) queuesOf(refs []SegmentRef) map[*entry]bool {
	queues := map[*entry]bool{}
	for i := range refs {
		if p := e.cat.partByKey(refs[i].Partition); p != nil {
			queues[p.entry] = true
		}
	}
	return queues
}

// retain deletes the segments that the rules of their queue no longer keep.
func (e *Engine) retain(ctx context.Context, now Time) {
	for _, en := range e.cat.all() {
		seen := en.changes.Load()
		if en.retained == seen && !en.q().ages() {
			continue
		}
		en.retained = seen
		more, err := e.retainQueue(ctx, en, now)
		if err != nil {
			e.log.ErrorContext(ctx, "settled segments cannot be deleted", "queue", en.q().Name, "error", err)
		}
		if more || err != nil {
			en.retained = seen - 1 // it is looked at again, even if nothing changes
		}
	}
}

// ages reports whether time alone makes segments of the queue deletable.
func (q *Queue) ages() bool {
	o := &q.Options.Queen
	return o.MaxWaitSeconds > 0 || o.RetentionEnabled && o.RetentionSeconds+o.CompletedSeconds > 0
}

// retainQueue reports whether the next sweep has more to delete.
func (e *Engine) retainQueue(ctx context.Context, en *entry, now Time) (more bool, err error) {
	q := en.q()
	settledOnly := q.Origin != ProtocolQueen
	if !settledOnly && !q.ages() {
		return false, nil
	}
	regs, err := e.store.Registrations(ctx, q.ID)
	if err != nil {
		return false, err
	}
	rows, err := e.store.Rows(ctx, RowsParams{Queue: q.ID, Now: now})
	if err != nil {
		return false, err
	}
	floors := passedFloors(en, regs, rows, settledOnly)
	var remove []SegmentRef
	settled := map[*part][]SegmentRef{}
	for _, p := range en.partitions() {
		if p.log.Start > p.log.Head {
			continue
		}
		refs, err := e.store.Segments(ctx, p.Key, p.log.Start, sweepBatches)
		if err != nil {
			return false, err
		}
		floor := e.reads.below(p.Key, floors[p.Key])
		pinned, err := e.pinned(ctx, p, rows, floor)
		if err != nil {
			return false, err
		}
		before := len(remove)
		for _, ref := range refs {
			switch {
			case q.aged(&ref, now):
				remove = append(remove, ref)
			case q.deletable(&ref, floor, pinned, now, settledOnly) && !e.remembered(ctx, p, &ref, now):
				settled[p] = append(settled[p], ref)
			}
		}
		if len(settled[p]) == 0 {
			p.theirs.settled = nil
		}
		e.sweepSoon(p, now, len(remove)-before+len(settled[p]))
	}
	free, more, err := e.unread(ctx, settled, now)
	if err != nil {
		return false, err
	}
	remove = append(remove, free...)
	if len(remove) == 0 {
		return more, nil
	}
	if err := e.store.DeleteSegments(ctx, now, remove, nil); err != nil {
		return more, err
	}
	e.relog(ctx, remove)
	e.settleMissing(rows, remove)
	return more, nil
}

// sweepSoon has the next sweep come soon after one that found as much in a partition as it takes of it. Where other gateways claim it would
// find most of it too early to be deleted, and hold them up.
func (e *Engine) sweepSoon(p *part, now Time, found int) {
	if found == sweepBatches && now >= p.theirs.changed.Add(readFor) {
		e.retainAt = min(e.retainAt, now.Add(e.opts.SweepEvery/10))
	}
}

// settleMissing settles what was pending in segments that were deleted, and drops what covered them.
func (e *Engine) settleMissing(rows []RowSummary, removed []SegmentRef) {
	last := map[PartitionKey]int64{}
	for i := range removed {
		key := removed[i].Partition
		last[key] = max(last[key], removed[i].Last)
		if p := e.cat.partByKey(key); p != nil {
			last[key] = max(last[key], p.log.Start-1)
		}
	}
	op := &opReq{}
	for i := range rows {
		r, upto := &rows[i], last[rows[i].Key.Partition]
		if r.OldestPending != 0 && r.OldestPending <= upto || r.CoveredAbove.Messages > 0 && r.Frontier.Offset < upto {
			op.rows = append(op.rows, RowRequest{Key: rows[i].Key, Must: true, All: true})
		}
	}
	if len(op.rows) == 0 {
		return
	}
	op.apply = func(p *pass) error {
		for i := range op.rows {
			if ed := p.edit(op.rows[i].Key); ed != nil {
				ed.dropMissing()
			}
		}
		return nil
	}
	e.extraOps = append(e.extraOps, op)
}

// passedFloors returns, per partition, the offset that every group has passed.
func passedFloors(en *entry, regs []Registration, rows []RowSummary, reserved bool) map[PartitionKey]int64 {
	names := map[string]bool{}
	if reserved {
		names[QueueModeGroup] = true
	}
	for _, r := range regs {
		names[r.Group] = true
	}
	have := map[RowKey]int64{}
	for i := range rows {
		have[rows[i].Key] = rows[i].Frontier.Offset
		names[rows[i].Key.Group] = true
	}
	out := map[PartitionKey]int64{}
	for _, p := range en.partitions() {
		floor := p.log.Head
		for name := range names {
			floor = min(floor, max(have[RowKey{p.Key, name}], p.log.Start-1))
		}
		if len(names) == 0 {
			floor = p.log.Start - 1
		}
		out[p.Key] = floor
	}
	return out
}

// pinned returns what is pending at or below floor in any group's batches of a partition.
func (e *Engine) pinned(ctx context.Context, p *part, rows []RowSummary, floor int64) (Runs, error) {
	var out Runs
	for i := range rows {
		r := &rows[i]
		if r.Key.Partition != p.Key || r.OldestPending == 0 || r.OldestPending > floor {
			continue
		}
		batches, _, err := e.store.Batches(ctx, r.Key)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(batches, func(a, b Batch) int { return cmp.Compare(a.First, b.First) })
		for j := range batches {
			out = out.Union(batches[j].Pending)
		}
	}
	return out, nil
}

// aged reports whether a segment goes for its age, settled or not.
func (q *Queue) aged(ref *SegmentRef, now Time) bool {
	o := &q.Options.Queen
	return ref.older(o.MaxWaitSeconds, now) || o.RetentionEnabled && ref.older(o.RetentionSeconds, now)
}

// older reports whether a segment was appended more than so many seconds before now; 0 seconds is no limit.
func (s *SegmentRef) older(seconds int64, now Time) bool {
	return seconds > 0 && now.Sub(s.AppendedAt) > time.Duration(seconds)*time.Second
}

// deletable reports whether the queue's rule lets a segment go once it is settled for every group: at once on a queue that
// Querator or Cloudflare made, by Queen's retention options on any other.
func (q *Queue) deletable(ref *SegmentRef, floor int64, pinned Runs, now Time, settledOnly bool) bool {
	if ref.Last > floor || len(pinned.Upto(ref.Last).Above(ref.First-1)) > 0 {
		return false
	}
	o := &q.Options.Queen
	return settledOnly || o.RetentionEnabled && ref.older(o.CompletedSeconds, now)
}

// remembered reports whether a settled segment still has transaction ids inside the window that deduplication and late
// acknowledgements look back to.
func (e *Engine) remembered(ctx context.Context, p *part, ref *SegmentRef, now Time) bool {
	if ref.AppendedAt.Add(p.entry.q().Options.DedupWindow()) <= now {
		return false
	}
	segs, err := e.store.Headers(ctx, HeadersParams{Partition: p.Key, From: ref.First, To: ref.Last})
	if err != nil {
		return true
	}
	for i := range segs {
		for j := range segs[i].Messages {
			if segs[i].Messages[j].Hash != 0 {
				return true
			}
		}
	}
	return false
}
