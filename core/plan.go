package core

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"
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
		if pl.busy && len(g.ready) > 0 {
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
	e.takeRows(g, &pl, rows, now)
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
			kept := g.ready[:0]
			for _, h := range g.ready {
				switch {
				case !h.claimable(now):
					h.queued = false
				case len(pl.rows) < rows:
					h.queued = false
					pl.rows = append(pl.rows, h)
				default:
					kept = append(kept, h)
				}
			}
			clear(g.ready[len(kept):])
			g.ready = kept
		}
	}
}

// open reports whether claims on the queue may be served now.
func (en *entry) open() bool {
	return !en.held && !en.q().Options.DeliveryPaused && !en.gone.Load()
}

// takeClaims moves live claims of a group into the plan; it returns how many messages they want and how many rows they may use.
func (e *Engine) takeClaims(g *group, pl *plan) (want, rows int) {
	kept := g.waiting[:0]
	for i, c := range g.waiting {
		if len(pl.claims) >= maxPlanClaims || rows >= maxPlanRows && c.part == nil {
			kept = append(kept, g.waiting[i:]...)
			break
		}
		if c.state.Load() >= claimDone {
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
func (e *Engine) takeRows(g *group, pl *plan, rows int, now Time) {
	named, general, dealt := map[*part]bool{}, false, 0
	for _, c := range pl.claims {
		if c.part != nil {
			named[c.part] = true
			continue
		}
		general = true
		if c.dealt() {
			dealt++
		}
	}
	rows = min(rows, maxPlanRows)
	if dealt > 0 {
		slices.SortStableFunc(g.ready, func(a, b *hint) int { return cmp.Compare(b.unleased(), a.unleased()) })
	}
	kept := g.ready[:0]
	for _, h := range g.ready {
		switch {
		case !h.claimable(now):
			h.queued = false
			if h.visibleAt > now {
				e.offer(h)
			}
		case named[h.part], general && len(pl.rows) < rows:
			h.queued = false
			pl.rows = append(pl.rows, h)
		default:
			kept = append(kept, h)
		}
	}
	clear(g.ready[len(kept):])
	g.ready = kept
}

// serve gives the claims of a plan what its rows have.
func (p *pass) serve(pl *plan) {
	rows := make([]*edit, 0, len(pl.rows))
	for _, h := range pl.rows {
		ed := p.edit(RowKey{h.part.Key, pl.group.name})
		if ed == nil {
			continue
		}
		if !ed.row.Exists {
			first := ed.row.Log.Start
			if at, ok := pl.seeds[h.part.Key]; ok {
				first = at
			}
			ed.begin(first)
		}
		ed.resolve(p.expiry(h.part.Key))
		rows = append(rows, ed)
	}
	var dealt []*claimReq
	for _, c := range pl.claims {
		c.got, c.lease = nil, uuid.UUID{}
		if c.dealt() {
			dealt = append(dealt, c)
		}
	}
	if len(dealt) > 0 {
		p.deal(dealt, rows)
	}
	for _, c := range pl.claims {
		if !c.dealt() && len(rows) > 0 {
			rows = p.serveOne(c, rows)
		}
	}
}

// serveOne gives one claim what it may have, and returns the rows that may have something for the next.
func (p *pass) serveOne(c *claimReq, rows []*edit) []*edit {
	left, bytes := int64(c.p.Messages), c.bytes
	if c.p.Exclusive && !c.p.AutoAck {
		c.lease = NewMessageID(p.now)
	}
	kept := rows[:0:0]
	for i, ed := range rows {
		if left <= 0 || bytes <= 0 && len(c.got) > 0 || c.p.Partitions > 0 && len(c.got) >= c.p.Partitions {
			return append(kept, rows[i:]...)
		}
		if !p.mayTake(c, ed) {
			kept = append(kept, ed)
			continue
		}
		n, size := p.take(c, ed, left, bytes)
		left, bytes = left-n, bytes-size
		if n > 0 && !c.p.Exclusive || n > 0 && c.p.AutoAck {
			kept = append(kept, ed)
		}
	}
	return kept
}

// mayTake reports whether a row is in the scope of a claim.
func (p *pass) mayTake(c *claimReq, ed *edit) bool {
	if c.part != nil {
		return c.part.Key == ed.row.Key.Partition
	}
	pt := p.e.cat.partByKey(ed.row.Key.Partition)
	return pt != nil && (c.entry == nil || c.entry == pt.entry)
}

// take claims from one row for one claim.
func (p *pass) take(c *claimReq, ed *edit, left, bytes int64) (n, size int64) {
	if ed.exclusive() != nil {
		p.inVain(ed)
		return 0, 0
	}
	q := p.queue(ed.row.Key.Partition)
	w := want{
		messages: left, bytes: bytes, until: p.now.Add(c.leaseFor(q)), lease: c.lease, protocol: c.p.Protocol,
		autoAck: c.p.AutoAck, notAfter: q.hiddenBefore(p.now), anyOrder: c.p.Protocol == ProtocolCloudflare,
	}
	var got []taken
	var gone Runs
	if c.p.Exclusive {
		var t taken
		if t, gone = ed.takeExclusive(w); len(t.runs) > 0 {
			got = []taken{t}
			if c.p.AutoAck {
				p.freeSources(ed, t.runs)
			}
		}
	} else {
		got, gone = ed.takeShared(w)
	}
	p.expired(ed, gone)
	for _, t := range got {
		n += t.runs.Count()
		size += ed.totals(t.runs).Bytes
	}
	if n > 0 {
		c.got = append(c.got, gotRow{p.e.cat.partByKey(ed.row.Key.Partition), got})
	} else {
		p.inVain(ed)
	}
	return n, size
}

// inVain notes that a claim found nothing in a row, whatever was remembered of it.
func (p *pass) inVain(ed *edit) {
	if p.vain == nil {
		p.vain = map[RowKey]bool{}
	}
	p.vain[ed.row.Key] = true
}

// deal serves claims that take from a single partition each (Querator): every claim goes to the row with the most unleased
// messages, then each row deals one message at a time: how many each claim gets is dealt, and contiguous ranges are cut in arrival order.
func (p *pass) deal(claims []*claimReq, rows []*edit) {
	left := make([]int64, 0, len(rows))
	free := rows[:0:0]
	for _, ed := range rows {
		if n := ed.available(); n > 0 && ed.exclusive() == nil {
			free, left = append(free, ed), append(left, n)
		} else {
			p.inVain(ed)
		}
	}
	if len(free) == 0 {
		return
	}
	have := slices.Clone(left)
	assigned := make([][]*claimReq, len(free))
	for _, c := range claims {
		best := -1
		for i := range free {
			if p.mayTake(c, free[i]) && (best < 0 || left[i] > left[best] || left[i] == left[best] && p.ordinal(free[i]) < p.ordinal(free[best])) {
				best = i
			}
		}
		if best >= 0 {
			assigned[best] = append(assigned[best], c)
			left[best] -= int64(c.p.Messages)
		}
	}
	for i, ed := range free {
		shares := dealOut(have[i], assigned[i])
		for j, c := range assigned[i] {
			if shares[j] > 0 {
				p.take(c, ed, shares[j], c.bytes)
			}
		}
	}
}

func (p *pass) ordinal(ed *edit) int32 {
	if pt := p.e.cat.partByKey(ed.row.Key.Partition); pt != nil {
		return pt.Ordinal
	}
	return 0
}

// dealOut deals n messages one at a time in arrival order, skipping claims that have what they asked for.
func dealOut(n int64, claims []*claimReq) []int64 {
	shares := make([]int64, len(claims))
	for n > 0 {
		gave := false
		for i, c := range claims {
			if n > 0 && shares[i] < int64(c.p.Messages) {
				shares[i]++
				n--
				gave = true
			}
		}
		if !gave {
			break
		}
	}
	return shares
}

// putBack returns the rows and claims of a plan whose commit failed.
func (e *Engine) putBack(pl *plan) {
	for _, h := range pl.rows {
		e.offer(h)
	}
	e.returnClaims(pl)
	if len(pl.group.waiting) > 0 && len(pl.group.ready) > 0 {
		e.active[pl.group] = struct{}{}
	}
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
	back := make([]*claimReq, 0, len(pl.claims)+len(pl.group.waiting))
	for _, c := range pl.claims {
		for _, g := range c.got {
			gave[g.part.Key] = true
		}
		if len(c.got) > 0 {
			e.unpark(c)
			c.finish()
			continue
		}
		if c.backToWaiting() {
			back = append(back, c)
		}
	}
	for _, h := range pl.rows {
		switch {
		case p.edits[RowKey{h.part.Key, pl.group.name}] == nil:
			e.retrySoon(h)
		case p.vain[RowKey{h.part.Key, pl.group.name}] && !gave[h.part.Key]:
			h.dry = true
		}
	}
	pl.group.waiting = append(back, pl.group.waiting...)
	if len(pl.group.waiting) > 0 && len(pl.group.ready) > 0 {
		e.active[pl.group], e.again = struct{}{}, true
	}
}
