package core

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// comeback is what returns to the row in a pass: retried, expired or given back.
type comeback struct {
	pending  Runs
	held     Totals
	attempts int32
	// due is when it may be claimed again.
	due Time
	// turn and turnAt are kept; zero with keep is each message's own.
	turn   Turn
	turnAt Time
	// keep keeps the turn; otherwise a new one is drawn at the tail, now or when due.
	keep bool
	// resting tells that a request gave it back: this pass does not deliver it again.
	resting bool
}

// bringBack makes what earlier requests of the pass gave back visible to one that asks for the same offsets.
func (e *edit) bringBack(r *RowRequest) {
	for i := range e.returns {
		c := &e.returns[i]
		if r.All || slices.ContainsFunc(r.Offsets, c.pending.Has) {
			e.applyReturns()
			return
		}
	}
}

// drawTurn draws the next turn at the tail, under the row's lock.
func (e *edit) drawTurn() (Turn, Time) {
	f := &e.row.Frontier
	f.LastTurn = max(OwnTurn(e.row.Log.Head), f.LastTurn) + 1
	e.moved = true
	return f.LastTurn, e.row.Log.HeadAt
}

// applyReturns turns what came back in this pass into waiting batches: one row per number of
// attempts, due second and kept turn.
func (e *edit) applyReturns() {
	if len(e.returns) == 0 {
		return
	}
	slices.SortStableFunc(e.returns, func(a, b comeback) int {
		return cmp.Or(cmp.Compare(a.due.Second(), b.due.Second()), cmp.Compare(a.attempts, b.attempts),
			cmpBool(a.keep, b.keep), cmpBool(a.resting, b.resting), cmp.Compare(a.turn, b.turn), cmp.Compare(a.pending[0].First, b.pending[0].First))
	})
	for i := 0; i < len(e.returns); {
		c := e.returns[i]
		j := i + 1
		for ; j < len(e.returns) && e.joins(&c, &e.returns[j]); j++ {
			c.pending = c.pending.Union(e.returns[j].pending)
			c.held = c.held.Plus(e.returns[j].held)
			c.due = max(c.due, e.returns[j].due)
		}
		e.putWaiting(c)
		i = j
	}
	e.returns = nil
}

func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// joins reports whether d may share a row with c. What keeps an old id until due joins only what has its own turn.
func (e *edit) joins(c, d *comeback) bool {
	if c.attempts != d.attempts || c.keep != d.keep || c.resting != d.resting || c.due.Second() != d.due.Second() {
		return false
	}
	later := c.due > e.now
	if (c.keep || later) && c.turn != d.turn {
		return false
	}
	first, last := min(c.pending[0].First, d.pending[0].First), max(c.pending[len(c.pending)-1].Last, d.pending[len(d.pending)-1].Last)
	return last-first < MaxBatchSpan && (c.due > e.now) == (d.due > e.now)
}

// putWaiting writes a waiting batch for c, joined to one of the same due second and attempts where that keeps all ids.
func (e *edit) putWaiting(c comeback) {
	b := Batch{
		First: c.pending[0].First, Last: c.pending[len(c.pending)-1].Last, Pending: c.pending, State: BatchWaiting,
		Attempts: c.attempts, Turn: c.turn, TurnAt: c.turnAt, Held: c.held,
	}
	e.wait(&b, c.due, c.keep)
	if b.Redraw && b.Turn == 0 {
		for i := range e.batches {
			w := &e.batches[i]
			if w.State == BatchWaiting && w.Redraw && w.Turn == 0 && w.Attempts == b.Attempts && w.Until.Second() == b.Until.Second() &&
				max(w.Last, b.Last)-min(w.First, b.First) < MaxBatchSpan && w.Last <= e.row.Frontier.Offset {
				w.Pending, w.Held = w.Pending.Union(b.Pending), w.Held.Plus(b.Held)
				w.First, w.Last, w.Until, w.dirty = min(w.First, b.First), max(w.Last, b.Last), max(w.Until, b.Until), true
				return
			}
		}
	}
	e.batches[e.put(b)].resting = c.resting
}

// wait has a batch wait from due on, with the turn that it has or a new one, drawn when it is due.
func (e *edit) wait(b *Batch, due Time, keep bool) {
	b.Until, b.Redraw = due, !keep && due > e.now
	if due > e.now {
		return
	}
	b.Until = SinceEver
	if !keep {
		b.Turn, b.TurnAt = e.drawTurn()
	}
}

// giveBack has what is left of an exclusive batch wait where it was.
func (b *editBatch) giveBack() {
	b.State, b.Until, b.Exclusive, b.Redraw, b.Lease, b.dirty = BatchWaiting, SinceEver, false, false, uuid.UUID{}, true
}

// comeBack takes offsets out of batch i and has them return. A batch above the frontier keeps
// what it covers: it comes back whole, in place.
func (e *edit) comeBack(i int, rs Runs, due Time, attempts int32, keep bool) {
	b := &e.batches[i]
	if b.Last > e.row.Frontier.Offset {
		e.comeBackAbove(i, rs, due, attempts, keep)
		return
	}
	c := comeback{pending: rs, attempts: attempts, due: due, turn: b.Turn, turnAt: b.TurnAt, keep: keep, resting: !keep && b.Until > e.now}
	c.held = e.takeOut(i, rs)
	e.returns = append(e.returns, c)
}

// comeBackAbove splits off what returns from a batch that covers offsets above the frontier.
func (e *edit) comeBackAbove(i int, rs Runs, due Time, attempts int32, keep bool) {
	b := e.batches[i].Batch
	w := b
	w.Pending, w.Held = rs, e.takeOut(i, rs)
	w.State, w.Attempts, w.Exclusive, w.Lease, w.Protocol = BatchWaiting, attempts, false, uuid.UUID{}, 0
	e.wait(&w, due, keep)
	if len(e.batches[i].Pending) == 0 {
		w.ID = e.batches[i].ID
		e.batches[i].Batch, e.batches[i].dirty = w, true
		return
	}
	// The part that stays keeps the coverage; the part that returns covers nothing of its own.
	w.First, w.Last, w.Covered = rs[0].First, rs[len(rs)-1].Last, Totals{}
	e.put(w)
}

// expiry is what the rules of a queue say of a lease that ran out.
type expiry struct {
	// dead is called for messages whose deliveries are used up; it returns whether they are gone from the row.
	limit func(b *Batch) int32
	delay func(b *Batch) Time
	dead  func(e *edit, rs Runs, b *Batch)
	note  func(b *Batch, n int64)
}

// resolve settles what time has decided: leases past their deadline come back or die, retries for later
// that are due draw their turn. In due order.
func (e *edit) resolve(x expiry) {
	var due []int64
	for i := range e.batches {
		b := &e.batches[i]
		if b.Until <= e.now && (b.State == BatchLeased || b.State == BatchWaiting && b.Redraw) {
			due = append(due, b.ID)
		}
	}
	if len(due) == 0 {
		return
	}
	slices.SortStableFunc(due, func(a, b int64) int {
		return cmp.Compare(e.batches[e.index(a)].Until, e.batches[e.index(b)].Until)
	})
	for _, id := range due {
		i := e.index(id)
		b := &e.batches[i]
		if len(b.Pending) == 0 {
			b.Redraw, b.dirty = false, true
			if b.State == BatchLeased && b.Last <= e.row.Frontier.Offset {
				e.drop(i)
			}
			continue
		}
		e.resolveOne(i, x)
	}
	e.applyReturns()
	e.tidy()
}

func (e *edit) resolveOne(i int, x expiry) {
	b := &e.batches[i]
	switch {
	case b.State == BatchWaiting:
		e.wait(&b.Batch, b.Until, false)
		b.dirty = true
	case b.Exclusive:
		x.note(&b.Batch, b.Pending.Count())
		b.giveBack()
	default:
		x.note(&b.Batch, b.Pending.Count())
		if limit := x.limit(&b.Batch); limit > 0 && b.Attempts >= limit {
			copied, rs := b.Batch, b.Pending
			e.takeOut(i, rs)
			x.dead(e, rs, &copied)
			return
		}
		e.comeBack(i, b.Pending, x.delay(&b.Batch), b.Attempts, false)
	}
}

// index returns the index of the batch with an id, or -1.
func (e *edit) index(id int64) int {
	for i := range e.batches {
		if e.batches[i].ID == id {
			return i
		}
	}
	return -1
}

// release gives offsets of a lease back unused: no attempt is counted and every turn is kept.
func (e *edit) release(lease uuid.UUID, rs Runs) {
	for i := len(e.batches) - 1; i >= 0; i-- {
		b := &e.batches[i]
		if b.State != BatchLeased || b.Lease != lease {
			continue
		}
		back := b.Pending.Minus(b.Pending.Minus(rs))
		if len(back) == 0 {
			continue
		}
		attempts := b.Attempts
		if !b.Exclusive {
			attempts--
		}
		e.comeBack(i, back, e.now, attempts, true)
	}
	e.applyReturns()
	e.tidy()
}
