package core

import (
	"container/heap"
	"context"
	"time"

	"github.com/google/uuid"
)

// group is a consumer group on one queue, as the dispatcher knows it.
type group struct {
	entry *entry
	name  string
	// registered tells that the store holds its registration; reg is what it says.
	registered bool
	reg        Registration
	hints      map[PartitionKey]*hint
	// ready are partitions that may have something claimable, in the order in which they are tried.
	ready readyList
	// waiting are claims in arrival order; ended ones are dropped when they are met.
	waiting   []*claimReq
	compactAt int
	clients   map[string]*claimReq
	// skipped are partitions that others held when a claim came.
	skipped map[*hint]struct{}
	// anyStale tells that others changed rows of the group since they were read.
	anyStale bool
}

// hint is what the dispatcher remembers of a row, to know which partitions are worth a look. It decides nothing.
type hint struct {
	group *group
	part  *part
	// exists tells that the row has a frontier.
	exists   bool
	frontier int64
	// covered counts messages above the frontier that are out of play, due what waits in batches and can be claimed.
	covered, due int64
	// leased and waiting count what is pending in batches.
	leased, waiting int64
	exclusiveUntil  Time
	// visibleAt is when the next message of the log stops being hidden by a delay; 0 is not hidden.
	visibleAt, wakeAt Time
	queued            bool
	// stale tells that another gateway changed the row, so that only a look at it shows what it holds; skipped that another held it a
	// moment ago.
	stale, skipped bool
	// dry tells that a claim found nothing although the figures promised something; the next change clears it.
	dry bool
}

// groupOf returns a group of a queue, loading it at its first use.
func (e *Engine) groupOf(ctx context.Context, en *entry, name string) (*group, error) {
	if g := en.groups[name]; g != nil {
		return g, nil
	}
	g := &group{entry: en, name: name, hints: map[PartitionKey]*hint{}, skipped: map[*hint]struct{}{}, clients: map[string]*claimReq{}}
	regs, err := e.store.Registrations(ctx, en.q().ID)
	if err != nil {
		return nil, WrapError(CodeInternal, "load group", err)
	}
	g.registered = name == QueueModeGroup
	for _, r := range regs {
		if r.Group == name {
			g.registered, g.reg = true, r
			e.keepBehind(&r)
		}
	}
	now := e.clock.Now()
	if err := e.readRows(ctx, g, now); err != nil {
		return nil, err
	}
	en.groups[name] = g
	for _, p := range en.partitions() {
		e.offer(g.hint(p))
	}
	return g, nil
}

// readRows fills the hints of a group from the store.
func (e *Engine) readRows(ctx context.Context, g *group, now Time) error {
	rows, err := e.store.Rows(ctx, RowsParams{Queue: g.entry.q().ID, Group: g.name, Now: now})
	if err != nil {
		return WrapError(CodeInternal, "load group", err)
	}
	g.anyStale = false
	for i := range rows {
		r := &rows[i]
		p := e.cat.partByKey(r.Key.Partition)
		if p == nil {
			continue
		}
		h := g.hint(p)
		h.exists, h.frontier, h.exclusiveUntil = true, r.Frontier.Offset, r.ExclusiveUntil
		h.covered, h.leased, h.waiting = r.CoveredAbove.Messages, r.Leased.Messages, r.Waiting.Messages
		h.due, h.stale = r.Waiting.Messages-r.Later.Messages, false
	}
	return nil
}

// refresh makes the figures exact by which partitions of a group are compared, where others changed them.
func (e *Engine) refresh(ctx context.Context, g *group) {
	if !g.anyStale {
		return
	}
	if err := e.readRows(ctx, g, e.clock.Now()); err != nil {
		e.log.WarnContext(ctx, "the figures of a consumer group cannot be read again", "queue", g.entry.q().Name, "group", g.name, "error", err)
	}
}

// keepBehind keeps the append times of this gateway from lying before the start of a group that another one registered for what is new.
func (e *Engine) keepBehind(r *Registration) {
	if e.shared && r.Start <= e.clock.Now().Add(time.Second) && r.Start > e.notBefore {
		e.notBefore = r.Start
	}
}

// hint returns what is remembered of a partition.
func (g *group) hint(p *part) *hint {
	h := g.hints[p.Key]
	if h == nil {
		h = &hint{group: g, part: p, frontier: p.log.Start - 1}
		g.hints[p.Key] = h
	}
	return h
}

// unleased estimates how many messages of the partition are in the log and not leased.
func (h *hint) unleased() int64 {
	return max(0, h.part.log.Head-max(h.frontier, h.part.log.Start-1)-h.covered) + h.due
}

// claimable reports whether a claim on the partition may succeed at now.
func (h *hint) claimable(now Time) bool {
	if h.part.gone.Load() || h.dry || h.skipped || h.exclusiveUntil > now {
		return false
	}
	if h.due > 0 || h.stale && h.visibleAt <= now {
		return true
	}
	return h.part.log.Head-max(h.frontier, h.part.log.Start-1)-h.covered > 0 && h.visibleAt <= now
}

// offer puts a partition into its group's ready list if a claim on it may succeed, and the group to work if one waits.
func (e *Engine) offer(h *hint) {
	now := e.clock.Now()
	if !h.claimable(now) {
		if h.visibleAt > now && h.wakeAt != h.visibleAt {
			h.wakeAt = h.visibleAt
			heap.Push(&e.wakes, wake{h.visibleAt, h})
		}
		return
	}
	h.group.ready.push(h)
	if len(h.group.waiting) > 0 {
		e.active[h.group] = struct{}{}
	}
}

// offerReleased offers the partitions whose leases the ops of a commit may end to claims that wait: they get what comes next in the same
// commit. Where a lease does not end after all, they find that in the row.
func (e *Engine) offerReleased(ops []*opReq, now Time) {
	for _, op := range ops {
		for i := range op.rows {
			key := op.rows[i].Key
			p := e.cat.partByKey(key.Partition)
			if op.keeps || op.rows[i].Lease == (uuid.UUID{}) || p == nil {
				continue
			}
			if g := p.entry.groups[key.Group]; g != nil && len(g.waiting) > 0 {
				if h := g.hint(p); h.exclusiveUntil > now {
					h.exclusiveUntil = 0
					e.offer(h)
				}
			}
		}
	}
}

// appended tells all groups of a queue that a partition has new messages.
func (e *Engine) appended(p *part) {
	p.entry.changes.Add(1)
	for _, g := range p.entry.groups {
		h := g.hint(p)
		h.dry = false
		if h.visibleAt != 0 && p.log.Head-h.frontier >= bufferFull && p.entry.q().Options.Queen.WindowBufferSeconds > 0 {
			h.visibleAt = 0 // a window buffer that is full ends early
		}
		e.offer(h)
	}
}

// recheck looks at all partitions of a group again, after an option changed.
func (e *Engine) recheck(g *group) {
	for _, p := range g.entry.partitions() {
		h := g.hint(p)
		h.visibleAt, h.dry = 0, false
		e.offer(h)
	}
	if len(g.waiting) > 0 {
		e.active[g] = struct{}{}
	}
}

// learn brings a hint up to date with a row after its commit.
func (e *Engine) learn(ed *edit) {
	p := e.cat.partByKey(ed.row.Key.Partition)
	if p == nil {
		return
	}
	p.entry.changes.Add(1)
	now := ed.now
	for i := range ed.batches {
		b := &ed.batches[i]
		if (b.State == BatchLeased || b.State == BatchWaiting && b.Redraw) && (e.leaseAt == 0 || b.Until < e.leaseAt) {
			e.leaseAt = b.Until
		}
	}
	g := p.entry.groups[ed.row.Key.Group]
	if g == nil {
		return
	}
	h := g.hint(p)
	h.exists, h.frontier = ed.row.Exists && !ed.untouched(), ed.row.Frontier.Offset
	h.covered, h.due, h.leased, h.waiting, h.exclusiveUntil = 0, 0, ed.row.Rest.Leased, ed.row.Rest.Waiting, 0
	if u := ed.row.Rest.NextUntil; u != 0 && u <= now {
		h.due = ed.row.Rest.Waiting
	}
	for i := range ed.batches {
		b := &ed.batches[i]
		n := b.Pending.Count()
		switch b.State {
		case BatchLeased:
			h.leased += n
			if b.Exclusive {
				h.exclusiveUntil = max(h.exclusiveUntil, b.Until)
			}
		case BatchWaiting:
			h.waiting += n
			if b.ready(now) {
				h.due += n
			}
		case BatchEmpty:
		}
		if b.Last > ed.row.Frontier.Offset {
			h.covered += b.Covered.Messages
		}
	}
	h.visibleAt, h.dry, h.stale, h.skipped = ed.hiddenUntil, false, false, false
	e.offer(h)
}

// wake is a moment at which a hidden partition shows.
type wake struct {
	at   Time
	hint *hint
}

type wakeHeap []wake

func (w wakeHeap) Len() int           { return len(w) }
func (w wakeHeap) Less(i, j int) bool { return w[i].at < w[j].at }
func (w wakeHeap) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }

// Push implements heap.Interface.
func (w *wakeHeap) Push(x any) { *w = append(*w, x.(wake)) }

// Pop implements heap.Interface.
func (w *wakeHeap) Pop() any {
	old := *w
	x := old[len(old)-1]
	*w = old[:len(old)-1]
	return x
}

func (w wakeHeap) next() Time {
	if len(w) == 0 {
		return 0
	}
	return w[0].at
}

// showHidden offers partitions whose delay has passed. Others of the group may be ready that a claim was held back from.
func (e *Engine) showHidden(now Time) {
	for len(e.wakes) > 0 && e.wakes[0].at <= now {
		w := heap.Pop(&e.wakes).(wake)
		w.hint.wakeAt, w.hint.dry = 0, false
		e.offer(w.hint)
		if g := w.hint.group; len(g.waiting) > 0 && g.ready.n > 0 {
			e.active[g] = struct{}{}
		}
	}
}

// hiddenBefore returns the append time after which messages of a queue are hidden from exclusive claims, 0 when none are.
func (q *Queue) hiddenBefore(now Time) Time {
	if d := q.Options.Queen.DelayedProcessingSeconds; d > 0 {
		return now.Add(-time.Duration(d) * time.Second)
	}
	return 0
}
