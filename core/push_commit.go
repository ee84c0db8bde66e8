package core

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
)

// admitPushes holds back pushes to paused queues and refuses those to queues that are gone.
func (e *Engine) admitPushes(reqs []*pushReq) []*pushReq {
	out := reqs[:0:0]
	for _, r := range reqs {
		var held *entry
		var gone bool
		for i := range r.groups {
			en := r.groups[i].entry
			gone = gone || en.gone.Load()
			if en.held {
				held = en
			}
		}
		switch {
		case gone:
			e.pushedIntoNothing(context.Background(), r)
		case held != nil:
			held.heldPushes = append(held.heldPushes, r)
			held.heldCount[0].Add(1)
		default:
			out = append(out, r)
		}
	}
	return out
}

// commitPushes stores what arrived while the last commit ran, in one commit.
func (e *Engine) commitPushes(ctx context.Context, reqs []*pushReq) {
	if len(reqs) == 0 {
		return
	}
	reqs, err := e.placePushes(ctx, e.stillPushed(ctx, reqs))
	if err != nil {
		for _, r := range reqs {
			r.fail(WrapError(CodeInternal, "push", err))
		}
		return
	}
	var plain []*pushReq
	for _, r := range reqs {
		if !e.dedup(ctx, r) {
			continue
		}
		if r.delayed {
			e.pushDelayed(ctx, r)
			continue
		}
		plain = append(plain, r)
	}
	e.appendPushes(ctx, plain)
}

// placePushes finds the partition of every group, making those that are missing in one commit.
func (e *Engine) placePushes(ctx context.Context, reqs []*pushReq) ([]*pushReq, error) {
	if err := e.place(ctx, reqs); err != nil {
		return reqs, err
	}
	return e.stillPushed(ctx, reqs), nil
}

// place finds or makes the partitions of pushes; groups whose queue is gone are marked.
func (e *Engine) place(ctx context.Context, reqs []*pushReq) error {
	var missing []Partition
	type slot struct{ g *pushGroup }
	var slots []slot
	if e.shared && slices.ContainsFunc(reqs, (*pushReq).compares) {
		_ = e.follow(ctx) // where it fails, the commit will too
	}
	for _, r := range reqs {
		for i := range r.groups {
			g := &r.groups[i]
			g.forgetGone()
			if r.params.Spread {
				g.part = e.emptiest(ctx, g.entry)
				if g.part == nil {
					g.name = g.entry.partName("")
				}
			}
			if g.part == nil {
				g.part = g.entry.partition(g.name)
			}
			if g.part != nil && r.params.Spread {
				g.part.incoming += int64(len(g.msgs))
			}
			if g.part == nil {
				slots = append(slots, slot{g})
				missing = append(missing, Partition{ID: uuid.New(), Queue: g.entry.q().ID, Name: g.name, CreatedAt: e.clock.Now()})
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	made, err := e.store.CreatePartitions(ctx, e.clock.Now(), missing)
	if err != nil {
		return err
	}
	for i, s := range slots {
		if made[i].Key == 0 {
			s.g.gone = true
			continue
		}
		s.g.part = e.cat.addPart(s.g.entry, made[i])
	}
	return nil
}

// entries are the queues of the push.
func (r *pushReq) entries() []*entry {
	out := make([]*entry, len(r.groups))
	for i := range r.groups {
		out[i] = r.groups[i].entry
	}
	return out
}

// compares reports whether the push goes where the fewest messages are.
func (r *pushReq) compares() bool {
	return r.params.Spread && len(r.groups) > 0 && len(r.groups[0].entry.partitions()) > 1
}

// emptiest returns the partition with the fewest unleased messages for the reserved group.
func (e *Engine) emptiest(ctx context.Context, en *entry) *part {
	list := en.partitions()
	if len(list) <= 1 {
		return en.partition("")
	}
	g, err := e.groupOf(ctx, en, QueueModeGroup)
	if err != nil {
		return list[0]
	}
	e.refresh(ctx, g)
	best, least := list[0], int64(-1)
	for _, p := range list {
		if n := g.hint(p).unleased() + p.incoming; least < 0 || n < least {
			best, least = p, n
		}
	}
	return best
}

// appendPushes commits the segments of plain pushes and answers them.
func (e *Engine) appendPushes(ctx context.Context, reqs []*pushReq) {
	if len(reqs) == 0 {
		return
	}
	var pieces []piece
	for n, r := range reqs {
		for i := range r.groups {
			g := &r.groups[i]
			if len(g.msgs) == 0 {
				continue
			}
			know := int64(-1)
			if e.shared && g.hasTransactions() {
				know = e.known(g.part)
			}
			for _, s := range g.cut() {
				s.Partition, s.Know = g.part.Key, know
				if r.params.Atomic {
					s.Group = n + 1
				}
				pieces = append(pieces, piece{r, g, s})
			}
		}
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(a.seg.Partition, b.seg.Partition) })
	segs := make([]NewSegment, len(pieces))
	count := 0
	for i := range pieces {
		segs[i] = pieces[i].seg
		count += segs[i].Count
	}
	a := &appending{reqs: reqs, pieces: pieces, given: segs, count: count, started: e.clock.Now()}
	a.params = AppendParams{
		Commit: newCommit(), Now: max(a.started, e.notBefore), Segments: segs, CheckCatalog: e.shared, Catalog: e.others.catalog,
	}
	if e.shared {
		a.params.Moved = func(_ PartitionKey, log LogState, newer []SegmentHeader, indexes []int) ([]NewSegment, error) {
			with, err := e.moved(ctx, pieces, log, newer, indexes)
			if err == nil {
				a.given = slices.Clone(a.given)
				for n, i := range indexes {
					a.given[i] = with[n]
				}
			}
			return with, err
		}
	}
	switch {
	case e.rides:
		e.ride(ctx, a)
		return
	case e.calm() && e.air.room(true):
		e.appendInAir(ctx, a)
		return
	}
	e.settleAir()
	placed, err := e.store.Append(ctx, a.params)
	e.finishAppending(ctx, a, placed, err)
	e.inbox.await(true, len(reqs))
}

// appending is an Append that is made for pushes.
type appending struct {
	reqs   []*pushReq
	pieces []piece
	// given are the segments of the pieces, or what was written in their place.
	given   []NewSegment
	params  AppendParams
	count   int
	started Time
}

// finishAppending answers the pushes for which an Append was made.
func (e *Engine) finishAppending(ctx context.Context, a *appending, placed []Placed, err error) {
	defer e.pushLater()
	if errors.Is(err, errTheirs) || e.shared && CodeOf(err) == CodeConflict && e.follow(ctx) == nil && e.others.catalog != a.params.Catalog {
		e.takeBack(a.reqs)
		e.commitPushes(ctx, a.reqs) // another gateway changed queues, so what was decided by their options is decided again; or it pushed the same
		return
	}
	if CodeOf(err) == CodeUnknown {
		for i := range a.pieces {
			e.doubt(a.pieces[i].g.entry)
		}
		err = e.outcome(ctx, a.params.Commit, err)
	}
	if err != nil {
		e.failPushes(ctx, a.reqs, err)
		return
	}
	e.opts.Observer.Committed("append", len(a.reqs), a.count, e.clock.Now().Sub(a.started))
	e.landed()
	for i := range placed {
		e.placed(ctx, &a.pieces[i], &a.given[i], &placed[i])
	}
	for _, r := range a.reqs {
		r.heard()
	}
	for _, r := range a.reqs {
		if (r.lost || len(r.unheard) > 0) && e.repushLost(ctx, r) {
			continue
		}
		if r.lost && r.nowhere() {
			e.pushedIntoNothing(ctx, r)
			continue
		}
		e.finishPush(r)
	}
}

// nowhere reports whether nothing of a push was stored.
func (r *pushReq) nowhere() bool {
	return !slices.ContainsFunc(r.out, func(o Pushed) bool { return o.Status != PushFailed })
}

// placed brings memory up to date with one segment of a commit.
func (e *Engine) placed(ctx context.Context, from *piece, seg *NewSegment, pl *Placed) {
	r, g := from.r, from.g
	if len(g.marks) > 0 && pl.First != g.first+int64(g.placed) {
		g.replaced() // others of the commit were left out, or it was
	}
	g.placed += seg.Count
	switch {
	case pl.Gone:
		e.others.overdue.Store(e.shared) // its queue was deleted elsewhere
		r.lost = true
		for _, i := range g.items {
			r.out[i].Status, r.out[i].Err = PushFailed, Errorf(CodeDeleted, "push", "the queue is being deleted")
		}
		return
	case pl.First == 0 && seg.Count == 0:
		return // all of it had been pushed before
	case pl.First == 0:
		for _, i := range g.items {
			if r.out[i].Err == nil {
				r.out[i].Status, r.out[i].Err = PushFailed, Errorf(CodeConflict, "push", "the partition changed under the push")
			}
		}
		return
	}
	if g.late {
		e.enterLate(ctx, g, seg, pl.First)
	}
	if seg.Know >= 0 || g.late {
		e.reach(g.part, 0, pl.First+int64(seg.Count)-1)
	} else {
		e.reach(g.part, pl.First, pl.First+int64(seg.Count)-1)
	}
	g.part.log = pl.Log
	g.part.incoming = 0
	if seg.Expires != 0 && (e.expiryAt == 0 || seg.Expires < e.expiryAt) {
		e.expiryAt = seg.Expires
	}
	e.appended(g.part)
}

// finishPush counts and answers a push that is committed.
func (e *Engine) finishPush(r *pushReq) {
	for i := range r.out {
		if r.out[i].Status == PushFailed && r.params.Atomic && (r.err == nil || CodeOf(r.err) == CodeConflict) {
			r.err = r.out[i].Err
		}
	}
	e.countPushed(r)
	e.answered.pushes++
	close(r.done)
}

// failPushes answers a commit that failed. One that failed because of what is in it is tried again in halves, so that
// one request cannot fail the others.
func (e *Engine) failPushes(ctx context.Context, reqs []*pushReq, err error) {
	e.takeBack(reqs)
	if final(err) || len(reqs) == 1 {
		e.log.ErrorContext(ctx, "a push commit failed", "requests", len(reqs), "code", CodeOf(err).String(), "error", err)
		for _, r := range reqs {
			r.fail(WrapError(CodeInternal, "push", err))
		}
		return
	}
	e.commitPushes(ctx, reqs[:len(reqs)/2])
	e.commitPushes(ctx, reqs[len(reqs)/2:])
}

// takeBack undoes what a commit that did not take place had prepared.
func (e *Engine) takeBack(reqs []*pushReq) {
	for _, r := range reqs {
		e.undoDedup(r)
		for i := range r.groups {
			r.groups[i].part.incoming = 0
		}
	}
	e.landed()
}

// pushDelayed commits a push of which some is not due yet: what is due goes to the log and the rest to the schedule, in one change set.
func (e *Engine) pushDelayed(_ context.Context, r *pushReq) {
	op := &opReq{bytes: r.bytes, entry: r.groups[0].entry, also: r.entries()}
	op.apply = func(p *pass) error {
		if err := r.placed("push"); err != nil {
			return err
		}
		for i := range r.groups {
			g := &r.groups[i]
			for _, s := range g.cut() {
				s.Partition, s.Know = g.part.Key, -1
				if g.due == 0 {
					p.append(s)
				} else {
					p.cs.Schedule = append(p.cs.Schedule, ScheduledSegment{Due: g.due, Segment: s})
				}
			}
		}
		return nil
	}
	op.finish = func(err error) {
		if err != nil {
			e.failOrAgain(r, err)
			return
		}
		r.groups[0].entry.changes.Add(1)
		e.finishPush(r)
	}
	e.extraOps = append(e.extraOps, op)
}
