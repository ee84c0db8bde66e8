package core

import (
	"context"
	"errors"
	"math"
	"time"
)

// An engine over a store that remembers what it wrote need not wait for a commit before it decides the next one: that one concerns other
// rows, and if what was remembered should turn out to be old, the store refuses the commit. Here is what is on its way.

const (
	// appendsInAir and updatesInAir are how many commits of either kind are on their way at once.
	appendsInAir = 1
	updatesInAir = 2
)

// errRedo ends a commit that would have to be decided again while the dispatcher does something else; it is made again when it is back.
var errRedo = errors.New("the commit has to be decided again")

// flight is a commit on its way. land runs in the dispatcher when it is back.
type flight struct {
	pushes bool
	rows   []RowRequest
	// requests are how many wait for it.
	requests int
	land     func()
	number   uint64
}

// air is what is on its way. It belongs to the dispatcher, the channel aside.
type air struct {
	// open tells that commits may be on their way while others are decided.
	open     bool
	flights  []*flight
	rows     map[RowKey]struct{}
	landings chan *flight
	launched uint64
	// rough is until when no commit is sent on its way, since others change the same rows.
	rough Time
	// held are ops about rows that are on their way.
	held []*opReq
}

func (e *Engine) openAir() {
	e.air.open = e.shared && e.others.store.Recalls()
	e.inbox.apart = e.air.open
	e.air.rows, e.air.landings = map[RowKey]struct{}{}, make(chan *flight, appendsInAir+updatesInAir)
}

// roughFor is for how long commits are made one by one after one had to be decided again.
const roughFor = time.Second

// calm reports whether commits may be sent on their way.
func (e *Engine) calm() bool { return e.air.open && e.clock.Now() >= e.air.rough }

func requestsOf(ops []*opReq, plans []plan) int {
	n := len(ops)
	for i := range plans {
		n += len(plans[i].claims)
	}
	return n
}

func (a *air) count(pushes bool) (n int) {
	for _, f := range a.flights {
		if f.pushes == pushes {
			n++
		}
	}
	return n
}

// requests are how many requests of a kind wait for what is on its way.
func (a *air) requests(pushes bool) (n int) {
	for _, f := range a.flights {
		if f.pushes == pushes {
			n += f.requests
		}
	}
	return n
}

// room reports whether one more commit of a kind may go on its way.
func (a *air) room(pushes bool) bool {
	if pushes {
		return a.count(true) < appendsInAir
	}
	return a.count(false) < updatesInAir
}

// launch notes that a commit is on its way.
func (e *Engine) launch(f *flight) {
	a := &e.air
	a.launched++
	f.number = a.launched
	a.flights = append(a.flights, f)
	for i := range f.rows {
		a.rows[f.rows[i].Key] = struct{}{}
	}
	if a.room(f.pushes) {
		e.inbox.expect(f.pushes, a.requests(f.pushes))
	} else {
		e.inbox.close(f.pushes)
	}
}

// arrive has a flight handed to the dispatcher.
func (e *Engine) arrive(f *flight) {
	e.air.landings <- f
	e.inbox.ring()
}

// landArrived takes in what has come back.
func (e *Engine) landArrived() {
	for len(e.air.flights) > 0 {
		select {
		case f := <-e.air.landings:
			e.touchDown(f)
		default:
			return
		}
	}
}

// settleAir waits until nothing is on its way, before something that looks at all there is.
func (e *Engine) settleAir() {
	for len(e.air.flights) > 0 {
		e.touchDown(<-e.air.landings)
	}
}

func (e *Engine) touchDown(f *flight) {
	a := &e.air
	for i := range a.flights {
		if a.flights[i] == f {
			a.flights = append(a.flights[:i:i], a.flights[i+1:]...)
			break
		}
	}
	for i := range f.rows {
		delete(a.rows, f.rows[i].Key)
	}
	f.land()
	for i := range f.rows {
		e.offerKey(f.rows[i].Key)
	}
	e.again = e.again || len(a.held) > 0
	e.inbox.await(f.pushes, f.requests+a.requests(f.pushes))
}

// offerKey offers the partition of a row that was on its way, since nobody could claim from it.
func (e *Engine) offerKey(key RowKey) {
	if p := e.cat.partByKey(key.Partition); p != nil {
		if g := p.entry.groups[key.Group]; g != nil {
			e.offer(g.hint(p))
		}
	}
}

// inAir reports whether a row of an op is on its way.
func (e *Engine) inAir(op *opReq) bool {
	for i := range op.rows {
		if _, ok := e.air.rows[op.rows[i].Key]; ok {
			return true
		}
	}
	return false
}

// ground returns the ops whose rows are not on their way, those that were held back first, and holds back the others.
func (e *Engine) ground(ops []*opReq) []*opReq {
	if len(e.air.held) > 0 {
		ops = append(e.air.held, ops...)
		e.air.held = nil
	}
	if len(e.air.rows) == 0 {
		return ops
	}
	free := ops[:0:0]
	for _, op := range ops {
		if e.inAir(op) {
			e.air.held = append(e.air.held, op)
		} else {
			free = append(free, op)
		}
	}
	return free
}

// mayLand reports whether a claim that does not wait has to see what was on its way when it came to nothing for the first time.
func (e *Engine) mayLand(c *claimReq) bool {
	if len(e.air.flights) == 0 {
		return false
	}
	if c.after == 0 {
		c.after = e.air.launched
	}
	for _, f := range e.air.flights {
		if f.number <= c.after {
			return true
		}
	}
	return false
}

// updateInAir sends an Update on its way when it is decided by what the store remembers; otherwise it is done when it returns.
func (e *Engine) updateInAir(ctx context.Context, ops []*opReq, plans []plan) {
	r := e.newUpdating(ops, plans)
	f := &flight{rows: r.params.Rows, requests: requestsOf(ops, plans)}
	alone, sent := len(e.air.flights) == 0, false
	decided := make(chan struct{})
	var placed []Placed
	var err error
	f.land = func() {
		if errors.Is(err, errRedo) {
			e.running.Add(-1)
			e.commits.Add(1)
			if sent {
				e.air.rough = e.clock.Now().Add(roughFor)
			}
			e.settleAir()
			e.commit(ctx, ops, plans)
			return
		}
		e.finishUpdating(ctx, r, placed, err)
	}
	go func() {
		placed, err = e.store.Update(ctx, r.params, func(tx Tx) (*ChangeSet, error) {
			if sent || !tx.Recalled() && !alone {
				return nil, errRedo
			}
			cs, err := r.decide(tx)
			if tx.Recalled() && err == nil && !r.outdated && len(cs.Segments) == 0 && !cs.Empty() {
				sent = true
				close(decided)
			}
			return cs, err
		})
		if sent {
			e.arrive(f)
		} else {
			close(decided)
		}
	}()
	<-decided
	if sent {
		e.launch(f)
	} else {
		f.land()
		e.inbox.await(false, f.requests+e.air.requests(false))
	}
}

// appendInAir sends an Append on its way.
func (e *Engine) appendInAir(ctx context.Context, a *appending) {
	f := &flight{pushes: true, requests: len(a.reqs)}
	var placed []Placed
	var err error
	f.land = func() {
		if errors.Is(err, errRedo) {
			e.air.rough = e.clock.Now().Add(roughFor)
			e.settleAir()
			a.params.Commit = newCommit()
			placed, err = e.store.Append(ctx, a.params)
		}
		e.finishAppending(ctx, a, placed, err)
	}
	params := a.params
	if params.Moved != nil {
		params.Moved = func(PartitionKey, LogState, []SegmentHeader, []int) ([]NewSegment, error) { return nil, errRedo }
	}
	e.launch(f)
	go func() {
		placed, err = e.store.Append(ctx, params)
		e.arrive(f)
	}()
}

// close has no request of a kind take a turn.
func (b *inbox) close(pushes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected(pushes).set(math.MaxInt)
}

// expect has the dispatcher begin a second commit of a kind when it would be as large as what is on its way. Two small ones cost more than one.
func (b *inbox) expect(pushes bool, away int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected(pushes).set(away)
}

// await has the next commit of a kind wait a moment for the clients of those that were answered or are on their way, and for no other
// reason. Where commits are made one by one for good, the dispatcher waits by itself.
func (b *inbox) await(pushes bool, others int) {
	if !b.apart {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.expected(pushes)
	circulating := others + b.waiting(pushes)
	x.set(enoughOf(circulating))
	if circulating < 2 || b.waiting(pushes) >= x.n {
		x.set(1)
		b.ring()
		return
	}
	turn := x.turn
	time.AfterFunc(fillLimit, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if x.turn == turn {
			x.set(1)
			b.ring()
		}
	})
}

// expected is how many requests of a kind the dispatcher waits for; turn changes whenever that is set.
type expected struct {
	n    int
	turn uint64
}

func (x *expected) set(n int) {
	x.n = max(1, n)
	x.turn++
}

func (b *inbox) expected(pushes bool) *expected {
	if pushes {
		return &b.wantPushes
	}
	return &b.wantOthers
}

func (b *inbox) waiting(pushes bool) int {
	if pushes {
		return len(b.pushes)
	}
	return len(b.ops) + len(b.claims)
}

// enough reports whether what is there is worth a turn.
func (b *inbox) enough() bool {
	return b.waiting(true) >= b.wantPushes.n || b.waiting(false) >= b.wantOthers.n
}

// due reports whether requests of a kind are there, as many as are waited for.
func (b *inbox) due(pushes bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.waiting(pushes)
	return n > 0 && n >= b.expected(pushes).n
}
