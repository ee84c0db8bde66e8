package core

import (
	"container/heap"
	"context"
	"time"
)

// Bounds of what one group's claims lock in one pass.
const (
	maxPlanRows   = 256
	maxPlanClaims = 1000
)

// plan is what the waiting claims of one group try in a pass.
type plan struct {
	group  *group
	rows   []*hint
	claims []*claimReq
	seeds  map[PartitionKey]int64
	due    int
	// busy tells that a claim that waits on several queues is in the plan of another group of this pass.
	busy bool
	// must tells that rows which others hold are waited for.
	must bool
}

// plan chooses partitions for the claims of every group that has work.
func (e *Engine) plan(ctx context.Context, now Time) []plan {
	if len(e.active) == 0 {
		return nil
	}
	groups := e.active
	e.active = map[*group]struct{}{}
	out := make([]plan, 0, len(groups))
	for g := range groups {
		pl := e.planGroup(ctx, g, now)
		if pl.busy && g.ready.n > 0 {
			e.active[g] = struct{}{} // its turn comes when the other group had nothing
		}
		if len(pl.rows) == 0 {
			e.returnClaims(&pl)
			continue
		}
		out = append(out, pl)
	}
	return out
}

func (e *Engine) planGroup(ctx context.Context, g *group, now Time) plan {
	pl := plan{group: g}
	if !g.entry.open() {
		return pl
	}
	want, rows := e.takeClaims(g, &pl)
	if len(pl.claims) == 0 {
		return pl
	}
	e.takeRows(ctx, g, &pl, rows, now)
	e.takeOthers(&pl, min(rows, maxPlanRows), now)
	pl.due = min(want, 1000)
	pl.seeds = map[PartitionKey]int64{}
	for _, h := range pl.rows {
		if h.exists || h.group.reg.Start == 0 {
			continue
		}
		at, err := e.store.Locate(ctx, h.part.Key, h.group.reg.Start)
		if err != nil {
			e.log.ErrorContext(ctx, "the start of a consumer group cannot be found", "queue", g.entry.q().Name, "group", g.name, "error", err)
			continue
		}
		pl.seeds[h.part.Key] = at
	}
	return pl
}

// takeOthers adds ready partitions of the other queues that discovery claims span, in turn over the queues.
func (e *Engine) takeOthers(pl *plan, rows int, now Time) {
	for _, c := range pl.claims {
		if c.entry != nil {
			continue
		}
		for _, g := range c.groups {
			if g == pl.group || !g.entry.open() {
				continue
			}
			e.takeFirst(g, pl, rows, now)
		}
	}
}

// open reports whether claims on the queue may be served now.
func (en *entry) open() bool {
	return !en.held && !en.q().Options.DeliveryPaused && !en.gone.Load()
}

// heldBack reports whether a claim is held so that its batch can fill (Queen's minPopWaitTime): only one that waits, asks for more
// than one message and names no partition; it ends when enough is there, or after that time, and never outlives the claim's own wait.
func (e *Engine) heldBack(g *group, c *claimReq) bool {
	hold := g.entry.q().Options.Queen.MinPopWaitMillis
	if hold <= 0 || !c.p.Exclusive || c.deadline == 0 || c.p.Messages <= 1 || c.p.Partition != "" {
		return false
	}
	now := e.clock.Now()
	if c.holdUntil == 0 {
		c.holdUntil = min(now.Add(time.Duration(hold)*time.Millisecond), c.deadline-1000)
		if h := g.ready.first(); h != nil && c.holdUntil > now {
			heap.Push(&e.wakes, wake{c.holdUntil, h})
		}
	}
	if c.holdUntil <= now {
		return false
	}
	return g.ready.unleased(int64(c.p.Messages)) < int64(c.p.Messages)
}

// takeClaims moves live claims of a group into the plan; it returns how many messages they want and how many rows they may use.
func (e *Engine) takeClaims(g *group, pl *plan) (want, rows int) {
	kept := g.waiting[:0]
	for i, c := range g.waiting {
		if len(pl.claims) >= maxPlanClaims || rows >= maxPlanRows && c.part == nil {
			kept = append(kept, g.waiting[i:]...)
			break
		}
		if c.state.Load() >= claimDone || e.changed(c) {
			continue
		}
		if e.heldBack(g, c) {
			kept = append(kept, c)
			continue
		}
		if c.p.Partition != "" && c.part == nil {
			c.part = g.entry.partition(c.p.Partition)
		}
		if c.p.Partition != "" && (c.part == nil || !g.hint(c.part).queued) {
			kept = append(kept, c)
			continue
		}
		if !c.begin() {
			pl.busy = pl.busy || c.state.Load() == claimBusy
			kept = append(kept, c)
			continue
		}
		pl.claims = append(pl.claims, c)
		pl.must = pl.must || c.looked
		want += c.p.Messages
		n := c.p.Messages
		if c.p.Partitions > 0 {
			n = min(n, c.p.Partitions)
		}
		rows += n
	}
	clear(g.waiting[len(kept):])
	g.waiting = kept
	return want, rows
}

// takeRows moves ready partitions into the plan: those that claims name, then the fullest for claims that are dealt, then in turn.
func (e *Engine) takeRows(ctx context.Context, g *group, pl *plan, rows int, now Time) {
	general, dealt := false, false
	for _, c := range pl.claims {
		if c.part == nil {
			general, dealt = true, dealt || c.dealt()
		} else if h := g.hint(c.part); g.ready.take(h) {
			e.plant(pl, h, now)
		}
	}
	if dealt {
		e.refresh(ctx, g)
		g.ready.fullestFirst()
	}
	if general {
		e.takeFirst(g, pl, len(pl.rows)+min(rows, maxPlanRows), now)
	}
}

// takeFirst moves ready partitions of a group into the plan, in turn, until the plan has so many rows.
func (e *Engine) takeFirst(g *group, pl *plan, rows int, now Time) {
	for len(pl.rows) < rows {
		h := g.ready.pop()
		if h == nil {
			return
		}
		e.plant(pl, h, now)
	}
}

// plant puts a partition into the plan if it can be claimed now, or has it offered again when it shows.
func (e *Engine) plant(pl *plan, h *hint, now Time) {
	if _, away := e.air.rows[RowKey{h.part.Key, h.group.name}]; away {
		return // it is offered again when it is back
	}
	if h.claimable(now) {
		pl.rows = append(pl.rows, h)
	} else if h.visibleAt > now {
		e.offer(h)
	}
}

// inVain notes that a claim found nothing in a row, whatever was remembered of it.
func (p *pass) inVain(ed *edit) {
	if p.vain == nil {
		p.vain = map[RowKey]bool{}
	}
	p.vain[ed.row.Key] = true
}

// returnClaims puts the claims of a plan back to the front of their line.
func (e *Engine) returnClaims(pl *plan) {
	if len(pl.claims) == 0 {
		return
	}
	back := make([]*claimReq, 0, len(pl.claims)+len(pl.group.waiting))
	for _, c := range pl.claims {
		if c.backToWaiting() {
			back = append(back, c)
		}
	}
	pl.group.waiting = append(back, pl.group.waiting...)
}

// finishPlan answers the claims of a plan that got something and puts the others back in line.
func (e *Engine) finishPlan(pl *plan, p *pass, err error) {
	if err != nil {
		for _, c := range pl.claims {
			c.fail(WrapError(CodeInternal, "claim", err))
			e.unpark(c)
		}
		for _, h := range pl.rows {
			e.offer(h)
		}
		return
	}
	gave := map[PartitionKey]bool{}
	var served []*claimReq
	back := make([]*claimReq, 0, len(pl.claims)+len(pl.group.waiting))
	for _, c := range pl.claims {
		for _, g := range c.got {
			gave[g.part.Key] = true
		}
		if len(c.got) > 0 {
			e.unpark(c)
			e.answered.others++
			e.reads.begin(c)
			if e.shared {
				served = append(served, c)
			} else {
				c.finish()
			}
			continue
		}
		if c.backToWaiting() {
			back = append(back, c)
		}
	}
	e.readServed(served)
	now := e.clock.Now()
	for _, h := range pl.rows {
		key := RowKey{h.part.Key, pl.group.name}
		switch ed := p.edits[key]; {
		case ed == nil:
			e.retrySoon(h)
		case p.vain[key] && !gave[h.part.Key] && !ed.later && h.part.log.Head > ed.row.Log.Head:
			e.offer(h) // what was appended meanwhile, or by this pass
		case p.vain[key] && !gave[h.part.Key] && !ed.later:
			h.dry = ed.hiddenUntil == 0 || ed.hiddenUntil > now // what was hidden from the pass may show by now
			e.offer(h)
		}
	}
	pl.group.waiting = append(back, pl.group.waiting...)
	if len(pl.group.waiting) > 0 && pl.group.ready.n > 0 {
		e.active[pl.group], e.again = struct{}{}, true
	}
}
