package core

import (
	"container/heap"
	"context"
	"slices"
)

// line puts a claim at the end of the group's line. Ended claims are cleared out whenever the line has doubled.
func (g *group) line(c *claimReq) {
	if len(g.waiting) >= max(64, g.compactAt) {
		g.waiting = slices.DeleteFunc(g.waiting, func(c *claimReq) bool { return c.state.Load() >= claimDone })
		g.compactAt = 2 * len(g.waiting)
	}
	g.waiting = append(g.waiting, c)
}

// discover lets discovery claims that wait see a queue that is new or changed.
func (e *Engine) discover(ctx context.Context, en *entry) {
	for c := range e.discovery {
		if c.state.Load() != claimWaiting || !c.matches(en.q()) {
			continue
		}
		known := false
		for _, g := range c.groups {
			known = known || g.entry == en
		}
		if known {
			continue
		}
		err := e.join(ctx, c, en)
		if err == nil {
			en.claimsWaiting.Add(1)
		} else {
			e.log.WarnContext(ctx, "a waiting claim cannot be shown a queue", "queue", en.q().Name, "error", err)
		}
	}
}

// unpark forgets a claim that has ended.
func (e *Engine) unpark(c *claimReq) {
	if !c.parked {
		return
	}
	c.parked = false
	e.waiting.Add(-1)
	delete(e.discovery, c)
	if c.index >= 0 {
		heap.Remove(&e.deadlines, c.index)
	}
	for _, g := range c.groups {
		g.entry.claimsWaiting.Add(-1)
		if c.p.Client != "" && g.clients[c.p.Client] == c {
			delete(g.clients, c.p.Client)
		}
	}
}

// expireWaiting answers the claims whose wait is over, and those that did not want to wait and got nothing.
func (e *Engine) expireWaiting(ctx context.Context, now Time) {
	e.lookForEmpty(ctx, now)
	for len(e.deadlines) > 0 {
		c := e.deadlines[0]
		if c.state.Load() > claimBusy {
			e.unpark(c)
			continue
		}
		if c.state.Load() == claimBusy {
			return // what it gets is on its way
		}
		if c.deadline > now || (c.deadline == 0 || c.looked) && (e.mayGet(c) || e.mayLand(c)) {
			return
		}
		if e.changed(c) {
			continue
		}
		e.unpark(c)
		e.opts.Observer.ClaimedMessages(c.p.Protocol, c.queueName(), 0)
		switch {
		case c.looked && c.entry != nil && c.entry.q().Options.DeliveryPaused:
			c.fail(Errorf(CodePaused, "claim", "delivery of queue %q is paused", c.queueName()))
		case e.others.failure != nil:
			c.fail(e.others.failure)
		case c.deadline == 0:
			c.fail(nil)
		default:
			c.fail(Errorf(CodeNothing, "claim", "nothing to claim"))
		}
	}
}

// mayGet reports whether another pass may still find something for a claim that does not wait.
func (e *Engine) mayGet(c *claimReq) bool {
	for _, g := range c.groups {
		if c.part == nil && c.p.Partition != "" {
			c.part = g.entry.partition(c.p.Partition) // another gateway may have made it
		}
		if c.part == nil && c.p.Partition != "" {
			continue
		}
		if _, ok := e.active[g]; ok && (c.part == nil || g.hint(c.part).queued) {
			e.again = true
			return true
		}
	}
	return false
}

// endWaiting answers everything that waits when the server shuts down.
func (e *Engine) endWaiting() {
	for len(e.deadlines) > 0 {
		c := e.deadlines[0]
		e.unpark(c)
		c.fail(errClosed("claim"))
	}
	for _, en := range e.cat.all() {
		e.failHeld(en, errClosed("hold"))
	}
}

// forget ends everything that waits on a queue that is gone.
func (e *Engine) forget(en *entry) {
	err := Errorf(CodeDeleted, "claim", "the queue is being deleted")
	for _, g := range en.groups {
		for _, c := range g.waiting {
			if c.entry != nil {
				c.fail(err)
				e.unpark(c)
			}
		}
		delete(e.active, g)
	}
	e.failHeld(en, err)
}

func (e *Engine) failHeld(en *entry, err error) {
	for _, r := range en.heldPushes {
		r.fail(err)
	}
	for _, op := range en.heldOps {
		op.err = err
		if op.done != nil {
			close(op.done)
		}
	}
	en.heldPushes, en.heldOps = nil, nil
	en.heldCount[0].Store(0)
	en.heldCount[1].Store(0)
}

// deadlineHeap orders parked claims by the end of their wait; those that do not wait come first.
type deadlineHeap []*claimReq

func (d deadlineHeap) Len() int           { return len(d) }
func (d deadlineHeap) Less(i, j int) bool { return d[i].deadline < d[j].deadline }
func (d deadlineHeap) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

// Push implements heap.Interface.
func (d *deadlineHeap) Push(x any) {
	c := x.(*claimReq)
	c.index = len(*d)
	*d = append(*d, c)
}

// Pop implements heap.Interface.
func (d *deadlineHeap) Pop() any {
	old := *d
	c := old[len(old)-1]
	old[len(old)-1] = nil
	c.index = -1
	*d = old[:len(old)-1]
	return c
}

func (d deadlineHeap) next() Time {
	for _, c := range d {
		return c.deadline
	}
	return 0
}

// awaitOthers has other gateways tell of their commits while a claim is left waiting, after every turn and so at least every second.
func (e *Engine) awaitOthers() {
	if e.shared && e.waiting.Load() > 0 {
		e.others.store.Await()
	}
}
