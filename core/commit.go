package core

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
)

// retrySweep is how long a sweep that failed waits before it is tried again.
const retrySweep = time.Second

// update runs one Update for ops and for what waiting claims can get, and answers them.
func (e *Engine) update(ctx context.Context, ops []*opReq) {
	now := e.clock.Now()
	e.showHidden(now)
	ops = e.ground(ops)
	e.offerReleased(ops, now)
	plans := e.plan(ctx, now)
	switch {
	case len(ops)+len(plans) == 0:
	case e.calm() && !slices.ContainsFunc(ops, func(op *opReq) bool { return op.pushes }):
		e.updateInAir(ctx, ops, plans)
	default:
		e.settleAir()
		e.commit(ctx, ops, plans)
		e.inbox.await(false, requestsOf(ops, plans))
	}
}

// updateOnly is update without claims; those are tried in the next turn.
func (e *Engine) updateOnly(ctx context.Context, ops []*opReq) {
	e.settleAir()
	e.commit(ctx, ops, nil)
	e.again = true
}

// commit runs one Update for ops and plans, and answers them.
func (e *Engine) commit(ctx context.Context, ops []*opReq, plans []plan) {
	if len(ops) == 0 && len(plans) == 0 {
		return
	}
	r := e.newUpdating(ops, plans)
	placed, err := e.store.Update(ctx, r.params, r.decide)
	e.finishUpdating(ctx, r, placed, err)
}

// updating is an Update that is made for ops and plans.
type updating struct {
	e      *Engine
	ops    []*opReq
	plans  []plan
	now    Time
	params UpdateParams
	p      *pass
	// outdated tells that another gateway changed queues or groups.
	outdated bool
}

func (e *Engine) newUpdating(ops []*opReq, plans []plan) *updating {
	now := e.clock.Now()
	e.commits.Add(1)
	e.running.Add(1)
	return &updating{
		e: e, ops: ops, plans: plans, now: now,
		params: UpdateParams{Commit: newCommit(), Now: max(now, e.notBefore), Rows: mergeRows(ops, plans)},
	}
}

// decide is what the store calls back.
func (r *updating) decide(tx Tx) (*ChangeSet, error) {
	e := r.e
	if r.outdated = e.shared && tx.Catalog() != e.others.catalog; r.outdated {
		return nil, nil //nolint:nilnil // an empty change set
	}
	p := &pass{e: e, tx: tx, now: r.now, edits: map[RowKey]*edit{}, cs: &ChangeSet{}, counts: map[countKey]int{}, fresh: map[freshKey]uuid.UUID{}}
	r.p = p
	if e.shared {
		if err := p.prefetch(r.params.Rows); err != nil {
			return nil, err
		}
	}
	for _, op := range r.ops {
		p.bringBack(op)
		op.err = p.attempt(func() error { return op.apply(p) })
	}
	for i := range r.plans {
		p.serve(&r.plans[i])
	}
	return p.collect()
}

// finishUpdating answers those for whom an Update was made.
func (e *Engine) finishUpdating(ctx context.Context, r *updating, placed []Placed, err error) {
	defer e.commits.Add(1)
	e.running.Add(-1)
	ops, plans, p := r.ops, r.plans, r.p
	if r.outdated && err == nil {
		e.outdated(ctx, ops, plans)
		return
	}
	lost := CodeOf(err) == CodeUnknown
	err = e.outcome(ctx, r.params.Commit, err)
	if err != nil && e.splitUpdate(ctx, ops, plans, err) {
		return
	}
	switch {
	case lost:
		e.doubtPass(p)
	case err == nil:
		e.settled(p, placed)
		e.opts.Observer.Committed("update", len(ops)+len(plans), 0, e.clock.Now().Sub(r.now))
	}
	for _, op := range ops {
		op.commit = r.params.Commit
		e.finishOp(op, p, r.now, err)
	}
	for i := range plans {
		e.finishPlan(&plans[i], p, err)
	}
}

// outdated makes a commit again after another gateway changed queues or groups. Claims are planned anew: their groups may be others now.
func (e *Engine) outdated(ctx context.Context, ops []*opReq, plans []plan) {
	for i := range plans {
		e.returnClaims(&plans[i])
		for _, h := range plans[i].rows {
			e.offer(h)
		}
	}
	e.again = true
	if err := e.follow(ctx); err != nil {
		for _, op := range ops {
			e.finishOp(op, nil, e.clock.Now(), err)
		}
		return
	}
	e.commit(ctx, e.stillThere(ops), nil)
}

// stillThere drops the ops of queues that another gateway has deleted, and answers them.
func (e *Engine) stillThere(ops []*opReq) []*opReq {
	return slices.DeleteFunc(slices.Clone(ops), func(op *opReq) bool {
		if !op.gone() {
			return false
		}
		e.finishOp(op, nil, e.clock.Now(), Errorf(CodeDeleted, "settle", "the queue is being deleted"))
		return true
	})
}

// bringBack prepares the rows of an op of which earlier ones of the pass gave something back.
func (p *pass) bringBack(op *opReq) {
	for i := range op.rows {
		if ed := p.edits[op.rows[i].Key]; ed != nil {
			ed.bringBack(&op.rows[i])
		}
	}
}

// finishOp answers an op. A sweep that failed is tried again, but not at once.
func (e *Engine) finishOp(op *opReq, p *pass, now Time, err error) {
	if err != nil {
		op.err = WrapError(CodeInternal, "update", err)
	} else if op.after != nil && op.err == nil {
		op.after(p)
	}
	if op.err != nil && op.due != nil {
		*op.due = now.Add(retrySweep)
		e.log.Error("what has come due cannot be settled and is tried again", "error", op.err)
	}
	if op.finish != nil {
		op.finish(op.err)
	}
	if op.done != nil {
		e.answered.others++
		close(op.done)
	}
}

// final reports whether an error says of a commit that it is no use to try parts of it.
func final(err error) bool {
	switch CodeOf(err) {
	case CodeUnavailable, CodeUnknown, CodeFull, CodeReadOnly, CodeClosed, CodeLocked, CodeFormat:
		return true
	default:
		return false
	}
}

// splitUpdate tries a commit that failed because of what is in it again in halves, so that one request cannot fail
// the others. It reports whether it has answered everyone.
func (e *Engine) splitUpdate(ctx context.Context, ops []*opReq, plans []plan, err error) bool {
	if final(err) || len(ops)+len(plans) < 2 {
		return false
	}
	e.settleAir()
	e.log.WarnContext(ctx, "a commit failed and is tried again in parts", "operations", len(ops), "claims", len(plans), "error", err)
	switch n, m := len(ops), len(plans); {
	case n > 0 && m > 0:
		e.commit(ctx, ops, nil)
		e.commit(ctx, nil, plans)
	case n > 0:
		e.commit(ctx, ops[:n/2], nil)
		e.commit(ctx, ops[n/2:], nil)
	default:
		e.commit(ctx, nil, plans[:m/2])
		e.commit(ctx, nil, plans[m/2:])
	}
	return true
}

// outcome looks up a commit whose answer is lost: nil when it took place, CodeUnavailable when it did not.
func (e *Engine) outcome(ctx context.Context, commit uuid.UUID, err error) error {
	if err == nil || CodeOf(err) != CodeUnknown {
		return err
	}
	took, failed := e.store.Outcome(ctx, commit)
	switch {
	case failed != nil:
		return err
	case took:
		return nil
	default:
		return Errorf(CodeUnavailable, "commit", "the commit did not take place: %w", err)
	}
}

// doubt has a queue read again before the next turn: a commit whose answer is lost may have changed it.
func (e *Engine) doubt(en *entry) {
	if e.doubted == nil {
		e.doubted = map[*entry]struct{}{}
	}
	e.doubted[en] = struct{}{}
	e.again = true
}

func (e *Engine) doubtPass(p *pass) {
	for _, ed := range p.order {
		if pt := e.cat.partByKey(ed.row.Key.Partition); pt != nil {
			e.doubt(pt.entry)
		}
	}
	for i := range p.cs.Segments {
		if pt := e.cat.partByKey(p.cs.Segments[i].Partition); pt != nil {
			e.doubt(pt.entry)
		}
	}
}

// clearDoubts reads the queues again that a lost answer left in doubt; those that cannot be read stay in doubt.
func (e *Engine) clearDoubts(ctx context.Context) {
	for en := range e.doubted {
		if !en.gone.Load() {
			if err := e.reload(ctx, en); err != nil {
				e.log.ErrorContext(ctx, "a queue cannot be read after a lost answer", "queue", en.q().Name, "error", err)
				continue
			}
			for _, p := range en.partitions() {
				e.forgetTable(p)
			}
		}
		delete(e.doubted, en)
	}
}

// settled brings memory up to date after a commit.
func (e *Engine) settled(p *pass, placed []Placed) {
	p.placed = placed
	for i, pl := range placed {
		if part := e.cat.partByKey(p.cs.Segments[i].Partition); part != nil && pl.First > 0 {
			part.log = pl.Log
			e.reach(part, pl.First, pl.First+int64(p.cs.Segments[i].Count)-1)
			part.sources = part.sources || len(p.cs.Segments[i].Sources) > 0
			if x := p.cs.Segments[i].Expires; x != 0 && (e.expiryAt == 0 || x < e.expiryAt) {
				e.expiryAt = x
			}
			e.appended(part)
		}
	}
	for _, s := range p.cs.Schedule {
		if e.scheduleAt == 0 || s.Due < e.scheduleAt {
			e.scheduleAt = s.Due
		}
	}
	for _, ed := range p.order {
		e.learn(ed)
	}
	for k, n := range p.counts {
		e.opts.Observer.Settled(k.protocol, k.queue, k.outcome, n)
	}
}

// mergeRows gathers what all requests of a pass want of each row.
func mergeRows(ops []*opReq, plans []plan) []RowRequest {
	at := map[RowKey]int{}
	var out []RowRequest
	add := func(r RowRequest) {
		i, ok := at[r.Key]
		if !ok {
			at[r.Key] = len(out)
			out = append(out, r)
			return
		}
		o := &out[i]
		o.Must, o.All = o.Must || r.Must, o.All || r.All
		o.Offsets = append(slices.Clip(o.Offsets), r.Offsets...)
		o.Due += r.Due
		if r.Lease != (uuid.UUID{}) {
			if o.Lease != (uuid.UUID{}) && o.Lease != r.Lease {
				o.All = true
			}
			o.Lease = r.Lease
		}
	}
	for _, op := range ops {
		for _, r := range op.rows {
			add(r)
		}
	}
	for i := range plans {
		for _, h := range plans[i].rows {
			add(RowRequest{Key: RowKey{h.part.Key, plans[i].group.name}, Due: plans[i].due, Must: plans[i].must})
		}
	}
	for i := range out {
		if o := &out[i]; o.Due > 0 {
			o.Due += len(o.Offsets) // what this pass settles or delays first must not stand in a claim's place
		}
	}
	return out
}
