package core

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// inbox is where requests wait for the dispatcher.
type inbox struct {
	mu     sync.Mutex
	signal chan struct{}
	pushes []*pushReq
	ops    []*opReq
	claims []*claimReq
	calls  []*callReq
	// looks wait for the dispatcher to follow what others committed.
	looks []chan error
	// want is how many requests the dispatcher waits for while it lets a commit fill; 0 when it does not.
	want int
	// wantPushes and wantOthers are how many of either kind it waits for while commits are on their way.
	wantPushes, wantOthers expected
	// apart tells that it waits for them apart.
	apart bool
	// urgent ends that wait whatever is there.
	urgent atomic.Bool
}

// callReq is a function that the dispatcher runs between commits.
type callReq struct {
	fn   func()
	done chan struct{}
}

// opReq is a change that shares an Update with others: settlements, seeks, transactions, sweeps.
type opReq struct {
	rows  []RowRequest
	entry *entry
	// also are further queues that the op cannot do without.
	also []*entry
	// apply runs inside the Update, possibly more than once; it must change nothing when it returns an error.
	apply func(p *pass) error
	// after runs in the dispatcher once the commit is durable.
	after func(p *pass)
	err   error
	done  chan struct{}
	// finish, where set, answers the op in the dispatcher in place of done.
	finish func(error)
	// pushes tells that the op pushes, so that it has to know what became of all pushes before it.
	pushes bool
	// keeps tells that the op ends no lease.
	keeps bool
	bytes int
	// commit is the id of the commit that the op was in, set before it is answered.
	commit uuid.UUID
	// due is where a sweep keeps its next moment; nil for requests.
	due *Time
}

// gone reports whether a queue that the op cannot do without has been deleted.
func (op *opReq) gone() bool {
	return op.entry != nil && op.entry.gone.Load() || slices.ContainsFunc(op.also, func(en *entry) bool { return en.gone.Load() })
}

// wake has the dispatcher take a turn now.
func (b *inbox) wake() {
	b.urgent.Store(true)
	b.ring()
}

// ring has the dispatcher take a turn, at the latest when it has let a commit fill.
func (b *inbox) ring() {
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

func (b *inbox) pending() int { return len(b.pushes) + len(b.ops) + len(b.claims) }

// add puts requests in by fn and rings when the dispatcher does not wait for more.
func (b *inbox) add(fn func()) {
	b.mu.Lock()
	fn()
	enough := b.enough() && (b.want == 0 || b.pending() >= b.want)
	b.mu.Unlock()
	if enough {
		b.ring()
	}
}

// fillLimit is how long a commit is let fill at the most. It is real time, since it paces the work and decides nothing.
const fillLimit = time.Millisecond

// answered counts the requests that were answered in a turn, by kind.
type answered struct{ pushes, others int }

// want is how many of the clients in circulation a commit waits for. One commit for nearly all costs the least; where pushes and others are
// answered by the same one, fewer are enough: while the last ones are awaited, and again while the commit is made, a core would be idle.
func (a answered) want(circulating int) int {
	if a.pushes > 0 && a.others > 0 {
		return circulating * 7 / 10
	}
	return enoughOf(circulating)
}

// enoughOf is how many of the requests in circulation a commit waits for: all but the last tenth, so all of a few.
func enoughOf(circulating int) int { return circulating - circulating/10 }

// fill waits until so many requests are there: those of the clients whose answers to the last commit are still on their way. It
// reports false when the limit came first.
func (b *inbox) fill(want int, timer *time.Timer) bool {
	ready := func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.pending() >= want || b.urgent.Load() {
			b.want = 0
			return true
		}
		b.want = want
		return false
	}
	if ready() {
		return true
	}
	timer.Reset(fillLimit)
	defer timer.Stop()
	for {
		select {
		case <-b.signal:
			if ready() {
				return true
			}
		case <-timer.C:
			b.mu.Lock()
			b.want = 0
			b.mu.Unlock()
			return false
		}
	}
}

// drained is what one turn of the dispatcher works on.
type drained struct {
	pushes []*pushReq
	ops    []*opReq
	claims []*claimReq
	calls  []*callReq
	looks  []chan error
}

// drain takes what fits in one commit; what is left wakes the dispatcher again. Pushes and others are left where they are not asked for.
func (b *inbox) drain(maxRequests, maxBytes int, pushes, others bool) drained {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.urgent.Store(false)
	var d drained
	d.calls, b.calls = b.calls, nil
	d.looks, b.looks = b.looks, nil
	if pushes {
		b.drainPushes(&d, maxRequests, maxBytes)
	}
	if others {
		d.claims, b.claims = b.claims, nil
		b.drainOps(&d, maxRequests, maxBytes)
	}
	if pushes && len(b.pushes) > 0 || others && len(b.ops) > 0 {
		b.wake()
	}
	return d
}

func (b *inbox) drainPushes(d *drained, maxRequests, maxBytes int) {
	n, size := 0, 0
	for n < len(b.pushes) && n < maxRequests && (n == 0 || size+b.pushes[n].bytes <= maxBytes) {
		size += b.pushes[n].bytes
		n++
	}
	d.pushes, b.pushes = b.pushes[:n:n], b.pushes[n:]
	if len(b.pushes) == 0 {
		b.pushes = nil
	}
}

func (b *inbox) drainOps(d *drained, maxRequests, maxBytes int) {
	n, size := 0, 0
	for n < len(b.ops) && n < maxRequests && (n == 0 || size+b.ops[n].bytes <= maxBytes) {
		size += b.ops[n].bytes
		n++
	}
	d.ops, b.ops = b.ops[:n:n], b.ops[n:]
	if len(b.ops) == 0 {
		b.ops = nil
	}
}

func (e *Engine) enqueuePush(r *pushReq) {
	e.inbox.add(func() { e.inbox.pushes = append(e.inbox.pushes, r) })
}

func (e *Engine) enqueueOp(r *opReq) {
	e.inbox.add(func() { e.inbox.ops = append(e.inbox.ops, r) })
}

func (e *Engine) enqueueClaim(r *claimReq) {
	e.inbox.add(func() { e.inbox.claims = append(e.inbox.claims, r) })
}

// errClosed is the answer to requests that meet a server shutting down.
func errClosed(op string) error { return Errorf(CodeClosed, op, "the server is shutting down") }

// call runs fn in the dispatcher and waits for it, so that fn may use what the dispatcher owns.
func (e *Engine) call(fn func()) error {
	r := &callReq{fn: fn, done: make(chan struct{})}
	e.inbox.mu.Lock()
	if e.closing.Load() {
		e.inbox.mu.Unlock()
		return errClosed("call")
	}
	e.inbox.calls = append(e.inbox.calls, r)
	e.inbox.mu.Unlock()
	e.inbox.wake()
	select {
	case <-r.done:
		return nil
	case <-e.stopped:
		return errClosed("call")
	}
}

// post runs fn in the dispatcher without waiting for it.
func (e *Engine) post(fn func()) {
	e.inbox.mu.Lock()
	e.inbox.calls = append(e.inbox.calls, &callReq{fn: fn, done: make(chan struct{})})
	e.inbox.mu.Unlock()
	e.inbox.wake()
}

// submit runs op in the next Update and waits for its commit. A caller that goes away does not stop it.
func (e *Engine) submit(op *opReq) error {
	if e.closing.Load() {
		return errClosed("submit")
	}
	e.inFlight.Add(1)
	defer e.inFlight.Add(-1)
	op.done = make(chan struct{})
	e.enqueueOp(op)
	select {
	case <-op.done:
		return op.err
	case <-e.stopped:
		select {
		case <-op.done:
			return op.err
		default:
			return errClosed("submit")
		}
	}
}

// run is the dispatcher. A lone request waits for nobody. Where many clients work at once, their next requests arrive while the
// answers to the last ones are sent; waiting a moment for them makes one commit of what would be two half-filled ones.
func (e *Engine) run() {
	defer close(e.stopped)
	timer := time.NewTimer(fillLimit)
	timer.Stop()
	rhythm := 0
	for {
		<-e.inbox.signal
		filled := e.air.open || rhythm < 2 || e.inbox.fill(e.answered.want(rhythm), timer)
		e.answered = answered{}
		e.turn(context.Background())
		rhythm = e.answered.pushes + e.answered.others
		if filled {
			// In circulation are those whose answers are on their way, and those that came while the commit ran.
			e.inbox.mu.Lock()
			rhythm += e.inbox.pending()
			e.inbox.mu.Unlock()
		}
		if e.closing.Load() && e.idle() {
			e.settleAir()
			e.endWaiting()
			e.turn(context.Background())
			return
		}
	}
}

func (e *Engine) idle() bool {
	e.inbox.mu.Lock()
	defer e.inbox.mu.Unlock()
	return len(e.inbox.pushes)+len(e.inbox.ops)+len(e.air.flights)+len(e.air.held) == 0
}

// turn is one round of the dispatcher: calls, pushes, then one Update for everything else.
func (e *Engine) turn(ctx context.Context) {
	if e.timer != nil && e.clock.Now() >= e.timerAt {
		e.timer()
		e.timer = nil
	}
	e.again = false
	e.landArrived()
	if len(e.doubted) > 0 || e.nextDue() <= e.clock.Now() || e.closing.Load() {
		e.settleAir()
	}
	e.clearDoubts(ctx)
	all := !e.air.open || e.closing.Load()
	pushes := all || e.air.room(true) && e.inbox.due(true)
	others := all || e.air.room(false) && (e.inbox.due(false) || len(e.active)+len(e.air.held) > 0 || e.again)
	d := e.inbox.drain(e.opts.MaxCommitRequests, e.opts.MaxCommitBytes, pushes, others)
	if len(d.calls)+len(d.looks) > 0 {
		e.settleAir()
	}
	e.followAsked(ctx, d.looks)
	for _, c := range d.calls {
		c.fn()
		close(c.done)
	}
	for _, c := range d.claims {
		e.accept(ctx, c)
	}
	e.lookForMore(ctx, d.claims)
	due := e.dueOps(ctx)
	if len(due) > 0 && len(d.pushes)+len(d.claims) > 0 {
		// What came back by its deadline stands before what is pushed after it, and claims that came after it may have it.
		e.updateOnly(ctx, due)
		due = nil
	}
	ops := append(e.admitOps(d.ops), due...)
	e.rides = e.mayRide(ops)
	e.commitPushes(ctx, e.admitPushes(d.pushes))
	e.rides = false
	ops, e.riding = append(e.riding, ops...), nil
	if len(e.extraOps) > 0 {
		e.settleAir()
		ops = append(ops, e.extraOps...)
		e.extraOps = nil
	}
	now := e.clock.Now() // what is due by now is tried before a wait is over by now
	if others || len(ops) > 0 || len(e.air.flights) == 0 {
		e.update(ctx, ops)
	}
	e.expireWaiting(ctx, now)
	e.awaitOthers()
	if (e.again || len(e.active) > 0) && e.air.room(false) {
		e.inbox.ring() // what this turn committed may be for claims that wait
	}
	e.arm()
}

// nextDue returns the next moment at which a sweep has something to do, or a time that never comes.
func (e *Engine) nextDue() Time {
	next := Time(math.MaxInt64)
	for _, t := range []Time{e.scheduleAt, e.leaseAt, e.expiryAt, e.retainAt} {
		if t != 0 {
			next = min(next, t)
		}
	}
	return next
}

// arm sets the timer for the next moment at which time alone changes something.
func (e *Engine) arm() {
	next := Time(0)
	for _, t := range []Time{e.scheduleAt, e.leaseAt, e.expiryAt, e.retainAt, e.deadlines.next(), e.wakes.next()} {
		if t != 0 && (next == 0 || t < next) {
			next = t
		}
	}
	if next == e.timerAt && e.timer != nil {
		return
	}
	if e.timer != nil {
		e.timer()
		e.timer = nil
	}
	e.timerAt = next
	if next != 0 {
		e.timer = e.clock.AfterFunc(next, e.inbox.wake)
	}
}
