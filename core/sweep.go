package core

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Bounds of what one turn of the dispatcher sweeps.
const (
	sweepRows     = 256
	sweepSegments = 256
	sweepBatches  = 1000
	sweepDue      = 1000
)

// refreshDue asks the store for the next moments at which time changes something.
func (e *Engine) refreshDue(ctx context.Context) error {
	schedule, lease, expiry, err := e.store.NextDue(ctx)
	if err != nil {
		return WrapError(CodeInternal, "next due", err)
	}
	e.scheduleAt, e.leaseAt, e.expiryAt = schedule, lease, expiry
	return nil
}

// admitOps holds back ops on paused queues and refuses those on queues that are gone.
func (e *Engine) admitOps(ops []*opReq) []*opReq {
	out := make([]*opReq, 0, len(ops)+4)
	for _, op := range ops {
		switch {
		case op.gone():
			op.err = Errorf(CodeDeleted, "settle", "the queue is being deleted")
			close(op.done)
		case op.entry != nil && op.entry.held:
			op.entry.heldOps = append(op.entry.heldOps, op)
			op.entry.heldCount[1].Add(1)
		default:
			out = append(out, op)
		}
	}
	return out
}

// Pause holds (or releases) the pushes, claims and settlements of a queue; they wait, and one pass over everything
// that waits follows the release. It exists for tests that need several requests to meet.
func (e *Engine) Pause(_ context.Context, queue string, on bool) error {
	en := e.cat.byName(queue)
	if en == nil {
		return noQueue("pause", queue)
	}
	return e.call(func() {
		if on {
			en.held = true
			return
		}
		e.release(en)
		e.post(func() { e.unhold(en) }) // drained together with what was held
	})
}

// release puts what a queue holds back in front of what came later.
func (e *Engine) release(en *entry) {
	e.inbox.mu.Lock()
	e.inbox.pushes = append(en.heldPushes, e.inbox.pushes...)
	e.inbox.ops = append(en.heldOps, e.inbox.ops...)
	e.inbox.mu.Unlock()
	en.heldPushes, en.heldOps = nil, nil
}

// unhold lets a pass begin over everything that waited while a queue was held.
func (e *Engine) unhold(en *entry) {
	en.held = false
	if len(en.heldPushes)+len(en.heldOps) > 0 {
		e.release(en) // what came in the turn in which the release was asked for
		e.inbox.wake()
	}
	en.heldCount[0].Store(0)
	en.heldCount[1].Store(0)
	for _, g := range en.groups {
		e.recheck(g)
	}
}

// dueOps makes the changes that time asks for: delayed pushes that are due, leases that ran out, messages that expired, and
// what retention deletes.
func (e *Engine) dueOps(ctx context.Context) []*opReq {
	now := e.clock.Now()
	if e.nextDue() <= now {
		e.settleAir() // time goes on while a turn takes its work
	}
	var ops []*opReq
	if e.scheduleAt != 0 && e.scheduleAt <= now {
		ops = e.appendOp(ops, e.scheduleOp(ctx, now), &e.scheduleAt, now)
	}
	if e.leaseAt != 0 && e.leaseAt <= now {
		ops = e.appendOp(ops, e.leaseOp(ctx, now), &e.leaseAt, now)
	}
	if e.expiryAt != 0 && e.expiryAt <= now && !e.keeps(ctx, now) {
		e.expiryAt = now.Add(followEvery) // another gateway does it
	}
	if e.expiryAt != 0 && e.expiryAt <= now {
		ops = e.appendOp(ops, e.expiryOp(ctx, now), &e.expiryAt, now)
	}
	if e.retainAt <= now {
		e.retainAt = now.Add(e.opts.SweepEvery)
		e.leases.sweep(now)
		if e.keeps(ctx, now) {
			e.retain(ctx, now)
			e.ageRecords(ctx, now)
			e.removeIdle(ctx, now)
		}
	}
	return ops
}

// appendOp adds a sweep; where there was nothing to sweep after all the moment is asked for again.
func (e *Engine) appendOp(ops []*opReq, op *opReq, at *Time, now Time) []*opReq {
	if op == nil {
		if err := e.refreshDue(context.Background()); err != nil {
			e.log.Error("the next due time cannot be read", "error", err)
		}
		if *at != 0 && *at <= now {
			*at = now.Add(time.Second)
		}
		return ops
	}
	op.due = at
	return append(ops, op)
}

func (e *Engine) afterSweep(*pass) {
	if err := e.refreshDue(context.Background()); err != nil {
		e.log.Error("the next due time cannot be read", "error", err)
		later := e.clock.Now().Add(retrySweep)
		e.scheduleAt, e.leaseAt, e.expiryAt = later, later, later
	}
	e.again = true
}

// scheduleOp appends delayed pushes that are due, in order of due time and then of arrival.
func (e *Engine) scheduleOp(ctx context.Context, now Time) *opReq {
	due, err := e.store.Due(ctx, now, sweepDue)
	if err != nil {
		e.log.ErrorContext(ctx, "delayed messages cannot be read", "error", err)
		return nil
	}
	if len(due) == 0 {
		return nil
	}
	op := &opReq{after: e.afterSweep}
	seqs := make([]int64, len(due))
	for i := range due {
		seqs[i] = due[i].Seq
	}
	op.apply = func(p *pass) error {
		there, err := p.tx.Scheduled(seqs)
		if err != nil {
			return err
		}
		for i := range due {
			if len(there) == 0 || there[0] != due[i].Seq {
				continue // another gateway has appended it
			}
			there = there[1:]
			p.cs.Unschedule = append(p.cs.Unschedule, due[i].Seq)
			if _, ok := p.tx.Log(due[i].Segment.Partition); !ok {
				continue
			}
			s := due[i].Segment
			s.Know = -1
			p.append(s)
		}
		return nil
	}
	return op
}

// leaseOp resolves leases that ran out and retries that are due, whether or not a claim waits.
func (e *Engine) leaseOp(ctx context.Context, now Time) *opReq {
	keys, err := e.store.Expired(ctx, now, sweepRows)
	if err != nil {
		e.log.ErrorContext(ctx, "expired leases cannot be read", "error", err)
		return nil
	}
	if len(keys) == 0 {
		return nil
	}
	op := &opReq{after: e.afterSweep}
	for _, k := range keys {
		op.rows = append(op.rows, RowRequest{Key: k, Must: true, Due: sweepBatches})
	}
	op.apply = func(p *pass) error {
		for _, k := range keys {
			if ed := p.edit(k); ed != nil {
				ed.resolve(p.expiry(k.Partition))
			}
		}
		return nil
	}
	return op
}

// stale is a segment with expired messages.
type stale struct {
	ref     SegmentRef
	expired Runs
	next    Time
}

// expiryOp takes expired messages out of play: to the dead queue unless the reserved group had settled them.
func (e *Engine) expiryOp(ctx context.Context, now Time) *opReq {
	refs, err := e.store.ExpiredSegments(ctx, now, sweepSegments)
	if err != nil {
		e.log.ErrorContext(ctx, "expired messages cannot be read", "error", err)
		return nil
	}
	var stales []stale
	for _, ref := range refs {
		s, err := e.examine(ctx, ref, now)
		if err != nil {
			e.log.ErrorContext(ctx, "the header of a segment cannot be read", "partition_key", int64(ref.Partition), "offset", ref.First, "error", err)
			continue
		}
		stales = append(stales, s)
	}
	if len(stales) == 0 {
		return nil
	}
	groups := e.groupsOf(ctx, stales)
	op := &opReq{}
	for part, names := range groups {
		req := RowRequest{Must: true}
		for i := range stales {
			if stales[i].ref.Partition == part {
				stales[i].expired.Offsets(func(off int64) bool {
					req.Offsets = append(req.Offsets, off)
					return true
				})
			}
		}
		for _, name := range names {
			req.Key = RowKey{part, name}
			op.rows = append(op.rows, req)
		}
	}
	op.apply = func(p *pass) error {
		for i := range stales {
			p.expire(&stales[i], groups[stales[i].ref.Partition])
		}
		return nil
	}
	op.after = func(p *pass) {
		dropped := e.dropStale(ctx, stales, now)
		e.afterSweep(p)
		if !dropped {
			e.expiryAt = now.Add(retrySweep)
		}
	}
	return op
}

// examine finds the expired messages of a segment.
func (e *Engine) examine(ctx context.Context, ref SegmentRef, now Time) (stale, error) {
	s := stale{ref: ref}
	segs, err := e.store.Headers(ctx, HeadersParams{Partition: ref.Partition, From: ref.First, To: ref.Last})
	if err != nil {
		return s, err
	}
	for i := range segs {
		for j := range segs[i].Messages {
			h := &segs[i].Messages[j]
			off := segs[i].First + int64(j)
			switch {
			case off < ref.First || off > ref.Last:
			case h.Expired(now):
				s.expired = s.expired.Add(Run{off, off})
			case h.ExpiresAt != 0 && (s.next == 0 || h.ExpiresAt < s.next):
				s.next = h.ExpiresAt
			}
		}
	}
	return s, nil
}

// groupsOf returns the groups with a row on the partitions of stale segments; the reserved group comes first and always.
func (e *Engine) groupsOf(ctx context.Context, stales []stale) map[PartitionKey][]string {
	out := map[PartitionKey][]string{}
	queues := map[*entry]bool{}
	for i := range stales {
		if p := e.cat.partByKey(stales[i].ref.Partition); p != nil {
			out[p.Key] = []string{QueueModeGroup}
			queues[p.entry] = true
		}
	}
	for en := range queues {
		rows, err := e.store.Rows(ctx, RowsParams{Queue: en.q().ID, Now: e.clock.Now()})
		if err != nil {
			e.log.ErrorContext(ctx, "the groups of a queue cannot be read", "queue", en.q().Name, "error", err)
			continue
		}
		for i := range rows {
			k := rows[i].Key
			if names, ok := out[k.Partition]; ok && k.Group != QueueModeGroup {
				out[k.Partition] = append(names, k.Group)
			}
		}
	}
	return out
}

// expire takes the expired messages of a segment out of play for every group that has a row.
func (p *pass) expire(s *stale, groups []string) {
	for _, name := range groups {
		ed := p.edit(RowKey{s.ref.Partition, name})
		if ed == nil {
			continue
		}
		reserved := name == QueueModeGroup
		if !ed.row.Exists {
			if !reserved || p.queue(s.ref.Partition).Options.DeadQueue == (uuid.UUID{}) {
				continue
			}
			ed.begin(ed.row.Log.Start)
		}
		var dead Runs
		s.expired.Offsets(func(off int64) bool {
			if ed.done(off) {
				dead = dead.Add(Run{off, off})
			}
			return true
		})
		if reserved {
			p.toDeadQueue(ed, dead, &Batch{})
		}
		ed.tidy()
	}
}

// dropStale deletes segments all of whose messages have expired, and notes the next expiry of the others. It reports whether
// the store did it.
func (e *Engine) dropStale(ctx context.Context, stales []stale, now Time) bool {
	var remove, keep []SegmentRef
	for i := range stales {
		s := &stales[i]
		if s.expired.Count() == s.ref.Last-s.ref.First+1 {
			remove = append(remove, s.ref)
			continue
		}
		s.ref.Expires = s.next
		keep = append(keep, s.ref)
	}
	if err := e.store.DeleteSegments(ctx, now, remove, keep); err != nil {
		e.log.ErrorContext(ctx, "expired segments cannot be deleted", "error", err)
		return false
	}
	e.relog(ctx, remove)
	for en := range e.queuesOf(remove) {
		rows, err := e.store.Rows(ctx, RowsParams{Queue: en.q().ID, Now: now})
		if err != nil {
			e.log.ErrorContext(ctx, "the groups of a queue cannot be read", "queue", en.q().Name, "error", err)
			continue
		}
		e.settleMissing(rows, remove)
	}
	return true
}
