package core

import (
	"container/heap"
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// The states of a claim.
const (
	claimWaiting int32 = iota
	claimBusy
	claimDone
	claimEnded
)

// claimReq is a claim that waits for the dispatcher, then perhaps for messages.
type claimReq struct {
	p     ClaimParams
	entry *entry
	part  *part
	bytes int64
	// deadline is when the wait ends.
	deadline Time
	groups   []*group
	state    atomic.Int32
	done     chan struct{}
	err      error
	lease    uuid.UUID
	got      []gotRow
	// size are the bytes of got; read are the messages of got, one list for each stretch, where they were read for the whole pass.
	size   int64
	read   [][]Message
	index  int
	parked bool
	// waited tells that it was in line for a while: where gateways share a store, when the engine last looked at what others did.
	waited bool
	// looked tells that the engine looked at what others committed for a claim that does not wait.
	looked bool
	// after is the last commit that was on its way when a claim that does not wait first got nothing, 0 before.
	after uint64
	// holdUntil is when a claim that lets its batch fill is served whatever is there; 0 before anything was.
	holdUntil Time
	now       Time
	// newest and disagrees are what the answer says of the group's NewestOnly.
	newest, disagrees bool
}

// nothing is the answer without messages.
func (c *claimReq) nothing() Claimed { return Claimed{NewestOnly: c.newest, Disagrees: c.disagrees} }

// gotRow is what a claim got from one partition.
type gotRow struct {
	part  *part
	taken []taken
}

// dealt reports whether the claim takes from one partition only and shares it fairly (Querator).
func (c *claimReq) dealt() bool { return !c.p.Exclusive && c.p.Partitions == 1 }

// begin takes the claim into a pass; false when it has ended.
func (c *claimReq) begin() bool { return c.state.CompareAndSwap(claimWaiting, claimBusy) }

func (c *claimReq) backToWaiting() bool { return c.state.CompareAndSwap(claimBusy, claimWaiting) }

// finish answers a claim that was in a pass.
func (c *claimReq) finish() {
	c.state.Store(claimDone)
	close(c.done)
}

// fail ends a claim with an error unless it has ended.
func (c *claimReq) fail(err error) {
	if c.state.CompareAndSwap(claimWaiting, claimDone) || c.state.CompareAndSwap(claimBusy, claimDone) {
		c.err, c.got = err, nil
		close(c.done)
	}
}

// leaseFor returns how long the claim holds messages of a queue.
func (c *claimReq) leaseFor(q *Queue) time.Duration {
	if c.p.Lease > 0 {
		return c.p.Lease
	}
	return q.leaseTime(c.p.Protocol)
}

// leaseTime returns the queue's own lease time for a protocol, or the protocol's default.
func (q *Queue) leaseTime(p Protocol) time.Duration {
	o := &q.Options
	switch {
	case p == ProtocolQuerator && o.Querator != nil && o.Querator.LeaseTimeout > 0:
		return o.Querator.LeaseTimeout
	case p == ProtocolCloudflare && o.Cloudflare != nil && o.Cloudflare.Consumer != nil && o.Cloudflare.Consumer.VisibilityMillis > 0:
		return time.Duration(o.Cloudflare.Consumer.VisibilityMillis) * time.Millisecond
	case p == ProtocolCloudflare:
		return 30 * time.Second
	case p == ProtocolQueen && o.Queen.LeaseTimeSeconds > 0:
		return time.Duration(o.Queen.LeaseTimeSeconds) * time.Second
	default:
		return QueenImplicitLeaseSeconds * time.Second
	}
}

// Claim leases messages, waiting for them when asked to. If ctx ends, nothing stays leased.
func (e *Engine) Claim(ctx context.Context, p ClaimParams) (Claimed, error) {
	c, err := e.newClaim(ctx, p)
	if err != nil || c == nil {
		return Claimed{}, err
	}
	e.inFlight.Add(1)
	defer e.inFlight.Add(-1)
	e.enqueueClaim(c)
	defer e.reads.end(c)
	select {
	case <-c.done:
	case <-e.stopped:
		if c.state.CompareAndSwap(claimWaiting, claimEnded) {
			return Claimed{}, errClosed("claim")
		}
		<-c.done
	case <-ctx.Done():
		if c.state.CompareAndSwap(claimWaiting, claimEnded) {
			_ = e.call(func() { e.unpark(c) }) // so that who asks next no longer sees it; a closing engine forgets it anyway
			return Claimed{}, WrapError(CodeCanceled, "claim", ctx.Err())
		}
		e.post(func() { e.cancel(c, ctx.Err()) })
		<-c.done
	}
	if e.shared && !c.waited && CodeOf(c.err) == CodeDeleted {
		p.Wait = min(p.Wait, max(c.deadline.Sub(e.clock.Now()), 0))
		// Deleted by another gateway, perhaps before it came; the name may have a new bearer.
		if out, err := e.Claim(ctx, p); c.deadline == 0 || CodeOf(err) != CodeNoQueue {
			return out, err
		}
	}
	if c.err != nil {
		return c.nothing(), c.err
	}
	if ctx.Err() != nil {
		e.giveBack(c)
		return Claimed{}, WrapError(CodeCanceled, "claim", ctx.Err())
	}
	out, err := e.deliver(ctx, c)
	e.reads.end(c)
	if left := c.deadline.Sub(e.clock.Now()); CodeOf(err) == CodeNothing && left > 0 {
		p.Wait = left // what it got was deleted before it could be read, so it waits on
		return e.Claim(ctx, p)
	}
	return out, err
}

// newClaim checks the arguments and finds the queue; a nil claim without error is one that cannot match anything.
func (e *Engine) newClaim(ctx context.Context, p ClaimParams) (*claimReq, error) {
	if e.closing.Load() {
		return nil, errClosed("claim")
	}
	if p.Messages < 1 {
		return nil, Errorf(CodeInvalid, "claim", "a claim must ask for at least one message")
	}
	if p.Group == "" {
		p.Group = QueueModeGroup
	}
	c := &claimReq{p: p, bytes: p.Bytes, done: make(chan struct{}), index: -1}
	if c.bytes <= 0 {
		c.bytes = e.opts.MaxClaimBytes
	}
	if p.Queue == "" && (p.Namespace != "" || p.Task != "") {
		return c, nil
	}
	if p.Create {
		en, err := e.ensure(ctx, p.Queue)
		if err != nil {
			return nil, err
		}
		c.entry = en
		return c, nil
	}
	en, err := e.queue(ctx, "claim", p.Queue)
	c.entry = en
	return c, err
}

// accept takes a claim into its groups' lines.
func (e *Engine) accept(ctx context.Context, c *claimReq) {
	c.now = e.clock.Now()
	if c.state.Load() != claimWaiting {
		return
	}
	if e.closing.Load() {
		c.fail(errClosed("claim"))
		return
	}
	if c.p.Wait > 0 {
		if e.waiting.Load() >= int64(e.opts.MaxWaiting) {
			c.fail(Errorf(CodeOverloaded, "claim", "too many claims are waiting"))
			return
		}
		c.deadline = c.now.Add(c.p.Wait)
	}
	entries := []*entry{c.entry}
	if c.entry == nil {
		entries = e.matching(c)
		if c.deadline != 0 || e.shared {
			e.discovery[c] = struct{}{}
		}
	}
	for _, en := range entries {
		if err := e.join(ctx, c, en); err != nil {
			c.fail(err)
			return
		}
	}
	c.parked, c.waited = true, c.deadline != 0 && !e.shared
	e.waiting.Add(1)
	for _, g := range c.groups {
		g.entry.claimsWaiting.Add(1)
	}
	heap.Push(&e.deadlines, c)
}

// matching returns the queues that a discovery claim spans.
func (e *Engine) matching(c *claimReq) []*entry {
	var out []*entry
	for _, en := range e.cat.all() {
		if c.matches(en.q()) {
			out = append(out, en)
		}
	}
	return out
}

func (c *claimReq) matches(q *Queue) bool {
	return (c.p.Namespace == "" || c.p.Namespace == q.Options.Namespace) && (c.p.Task == "" || c.p.Task == q.Options.Task)
}

// join puts a claim into the line of its group on one queue, registering a group that is new there.
func (e *Engine) join(ctx context.Context, c *claimReq, en *entry) error {
	if en.gone.Load() {
		return Errorf(CodeDeleted, "claim", "the queue is being deleted")
	}
	if e.shared && c.entry != nil && (en.q().Options.DeliveryPaused || c.p.Partition != "" && en.partition(c.p.Partition) == nil) {
		if err := e.follow(ctx); err != nil { // another gateway may have resumed it, or made the partition
			return err
		}
		if en.gone.Load() {
			return Errorf(CodeDeleted, "claim", "the queue is being deleted")
		}
	}
	if en.q().Options.DeliveryPaused && c.entry != nil {
		return Errorf(CodePaused, "claim", "delivery of queue %q is paused", en.q().Name)
	}
	g, err := e.groupOf(ctx, en, c.p.Group)
	if err != nil {
		return err
	}
	if c.p.Client != "" {
		if other := g.clients[c.p.Client]; other != nil && other.state.Load() <= claimBusy {
			return Errorf(CodeDuplicateClient, "claim", "client %q is waiting already", c.p.Client)
		}
		g.clients[c.p.Client] = c
	}
	if !g.registered {
		if err := e.register(ctx, g, c); err != nil {
			return err
		}
	}
	c.tell(g)
	if c.p.Partition != "" {
		if c.part = en.partition(c.p.Partition); c.part == nil && c.deadline == 0 && !e.shared {
			return nil
		}
	}
	c.groups = append(c.groups, g)
	g.line(c)
	if g.ready.n > 0 {
		e.active[g] = struct{}{}
	}
	return nil
}

// tell notes what the answer says of a group's NewestOnly.
func (c *claimReq) tell(g *group) {
	c.newest = c.newest || g.reg.NewestOnly()
	c.disagrees = c.disagrees || g.reg.NewestOnly() != c.p.NewestOnly
}

// rejoin has the claims that are new meet a group as it turned out to be when it was read again: another gateway may have deleted it before they came.
func (e *Engine) rejoin(ctx context.Context, g *group) {
	for _, c := range g.waiting {
		if c.waited || c.entry == nil || c.state.Load() != claimWaiting {
			continue
		}
		if !g.registered {
			if err := e.register(ctx, g, c); err != nil {
				e.unpark(c)
				c.fail(err)
				continue
			}
		}
		c.newest, c.disagrees = false, false
		c.tell(g)
	}
}

// register writes the registration of a group at its first contact with a queue.
func (e *Engine) register(ctx context.Context, g *group, c *claimReq) error {
	r := Registration{Queue: g.entry.q().ID, Group: g.name, CreatedAt: c.now, Mode: "all"}
	switch {
	case c.p.SubscribeFrom != 0:
		r.Start, r.Mode = c.p.SubscribeFrom, "timestamp"
	case c.p.SubscribeNew:
		r.Start, r.Mode = e.afterEverything(g.entry, c.now), "new"
	}
	r.setMode(r.Mode, c.p.NewestOnly)
	_, err := e.store.Update(ctx, UpdateParams{Commit: newCommit(), Now: c.now}, func(Tx) (*ChangeSet, error) {
		return &ChangeSet{Register: []Registration{r}}, nil
	})
	if err != nil && (!e.shared || CodeOf(err) != CodeNoQueue) {
		return WrapError(CodeInternal, "register group", err)
	}
	if !e.shared {
		g.registered, g.reg = true, r
		return nil
	}
	regs, err := e.store.Registrations(ctx, r.Queue) // another gateway may have registered it before
	for i := range regs {
		if regs[i].Group == r.Group {
			g.registered, g.reg = true, regs[i]
			return nil
		}
	}
	if err == nil || CodeOf(err) == CodeNoQueue { // another gateway has deleted the queue; its name may have a new bearer
		if err = e.follow(ctx); err == nil {
			return Errorf(CodeDeleted, "claim", "the queue is being deleted")
		}
	}
	return WrapError(CodeInternal, "register group", err)
}

// afterEverything returns a time above the append time of every message of a queue, and keeps later appends from lying below it.
func (e *Engine) afterEverything(en *entry, now Time) Time {
	at := now
	for _, p := range en.partitions() {
		at = max(at, p.log.HeadAt+1)
	}
	e.notBefore = max(e.notBefore, at)
	return at
}

// changed ends a claim whose caller decided by what a queue no longer is; it reports whether it did.
func (e *Engine) changed(c *claimReq) bool {
	if c.entry == nil {
		return false
	}
	err := c.p.Known.check("claim", c.entry.q())
	if err != nil {
		e.unpark(c)
		c.fail(err)
	}
	return err != nil
}

// cancel ends a claim whose client left while it was in a pass, if that pass gave it nothing.
func (e *Engine) cancel(c *claimReq, cause error) {
	if c.state.Load() == claimWaiting {
		e.unpark(c)
		c.fail(WrapError(CodeCanceled, "claim", cause))
	}
}

func (c *claimReq) queueName() string {
	if c.entry != nil {
		return c.entry.q().Name
	}
	return ""
}
