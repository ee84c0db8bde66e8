package bench

import (
	"container/heap"
	"time"
)

// drive is one timed run of some clients, all from the goroutine that calls it.
type drive struct {
	wire    wire
	clients []*client // by the index of their connections
	end     time.Time // zero for a run that lasts until its clients have nothing more to do
	arrival *arrivals // nil for a closed loop
	gate    *gate     // nil where producers and consumers do not meet
	left    int64     // messages of a backlog; when all are settled, the run is over before its end

	over   bool // nothing begins any more, and what ends does not count
	overAt time.Time
	atEnd  func() // called once, as soon as the run is over
	active int    // clients with a request under way
	// requests counts those that were sent.
	requests int64
	due      dueHeap
	seen     *deliveries // nil where nobody asks how long deliveries took
}

// arrivals are the moments at which an open loop sends, whatever the server does.
type arrivals struct {
	start time.Time
	every time.Duration
	next  int64
}

// take returns the next moment, which is then nobody else's. The latency is
// counted from there, not from when a client was free to send: a stalled
// server is charged with all that it kept waiting.
func (a *arrivals) take() time.Time {
	at := a.start.Add(time.Duration(a.next) * a.every)
	a.next++
	return at
}

// gate couples producers and consumers, so that the queue between them stays
// bounded and both sides run at the speed of the whole.
type gate struct {
	// permits are pushes that may begin.
	permits, most int
	// floor has consumers wait for pushes; a server makes them wait by itself.
	floor bool
	// pushed are batches that the consumers of a floor may pretend to claim.
	pushed    int
	producers []*client // wait for a permit
	consumers []*client // wait for a push
}

// newGate lets producers be ahead by that many batches.
func newGate(batches int, floor bool) *gate {
	return &gate{permits: batches, most: batches, floor: floor}
}

// enter lets a client begin, or keeps it until another one makes that possible.
func (g *gate) enter(cl *client) bool {
	switch {
	case cl.pushes && g.permits > 0:
		g.permits--
	case cl.pushes:
		g.producers = append(g.producers, cl)
		return false
	case !g.floor:
	case g.pushed > 0:
		g.pushed--
	default:
		g.consumers = append(g.consumers, cl)
		return false
	}
	return true
}

// dueHeap has the client first that is to go on first.
type dueHeap []*client

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].wakeAt.Before(h[j].wakeAt) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(*client)) }
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	cl := (*h)[last]
	*h = (*h)[:last]
	return cl
}

// run drives until the end and then until no request is under way, for at most patience.
func (d *drive) run() error {
	now := time.Now()
	for i, cl := range d.clients {
		cl.index = i
		d.begin(cl, now)
	}
	for {
		if now = time.Now(); !d.end.IsZero() && !now.Before(d.end) {
			d.finish(d.end)
		}
		for !d.over && len(d.due) > 0 && !now.Before(d.due[0].wakeAt) {
			d.wake(heap.Pop(&d.due).(*client), now)
		}
		switch {
		case d.active == 0 && (d.over || d.end.IsZero() && len(d.due) == 0):
			d.finish(now)
			return nil
		case d.over && now.Sub(d.overAt) > patience:
			d.abandon()
			return nil
		}
		if err := d.wire.wait(d.next(now), d.reply); err != nil {
			return err
		}
	}
}

// next is until when there is nothing to do but to wait for answers.
func (d *drive) next(now time.Time) time.Time {
	switch {
	case d.over:
		return d.overAt.Add(patience + time.Millisecond)
	case len(d.due) > 0 && (d.end.IsZero() || d.due[0].wakeAt.Before(d.end)):
		return d.due[0].wakeAt
	case d.end.IsZero():
		return now.Add(patience)
	}
	return d.end
}

// finish ends the run.
func (d *drive) finish(at time.Time) {
	if d.over {
		return
	}
	d.over, d.overAt = true, at
	if d.atEnd != nil {
		d.atEnd()
	}
}

// abandon fails what is still not answered.
func (d *drive) abandon() {
	for _, cl := range d.clients {
		if cl.phase == phaseAnswer || cl.phase == phaseSettle {
			cl.fail(errSilent)
		}
	}
}

func (cl *client) fail(err error) {
	if cl.failures++; cl.failure == nil {
		cl.failure = err
	}
}

// begin starts the client's next operation, as soon as it may.
func (d *drive) begin(cl *client, now time.Time) {
	cl.phase = phaseBegin
	switch {
	case d.over:
		return
	case cl.more != nil && (cl.failure != nil || !cl.more()):
		return
	case d.gate != nil && !d.gate.enter(cl):
		return
	}
	d.enter(cl, now)
}

// enter starts an operation that the gate let through, or waits until it is due.
func (d *drive) enter(cl *client, now time.Time) {
	cl.from = now
	if d.arrival != nil && (cl.pushes || d.gate == nil) {
		cl.from = d.arrival.take()
		if cl.from.After(now) {
			cl.phase = phaseDue
			d.later(cl, cl.from)
			return
		}
	}
	d.send(cl)
}

// later has a client go on at that time.
func (d *drive) later(cl *client, at time.Time) {
	cl.wakeAt = at
	heap.Push(&d.due, cl)
}

func (d *drive) wake(cl *client, now time.Time) {
	if cl.phase == phaseDue {
		d.send(cl)
		return
	}
	d.begin(cl, now)
}

// send sends the first request of an operation.
func (d *drive) send(cl *client) {
	cl.phase = phaseAnswer
	d.active++
	if d.seen != nil && cl.pushes {
		cl.current().push.mark = d.seen.push(cl.from, cl.s.batch)
	}
	d.requests++
	d.wire.send(cl.index, cl.request())
}

// reply takes an answer in.
func (d *drive) reply(r reply) {
	cl := d.clients[r.conn]
	if d.seen != nil && cl.phase == phaseAnswer && !cl.pushes && r.err == nil && !d.over {
		d.seen.deliver(cl.d, r.body)
	}
	request, n, err := cl.answered(r)
	if request != nil {
		d.requests++
		d.wire.send(cl.index, request)
		return
	}
	d.active--
	cl.turn()
	d.done(cl, n, err, time.Now())
}

// done counts an operation and begins the next one.
func (d *drive) done(cl *client, n int, err error, now time.Time) {
	switch {
	case err != nil:
		cl.fail(err)
		d.pause(cl, now.Add(failurePause))
		return
	case d.over || !d.end.IsZero() && !now.Before(d.end):
		cl.late += int64(n)
		cl.phase = phaseBegin
		return
	case n == 0:
		cl.empty++
		if now.Sub(cl.from) < emptyPause {
			d.pause(cl, now.Add(emptyPause))
			return
		}
	default:
		cl.requests++
		cl.messages += int64(n)
		cl.latency.add(now.Sub(cl.from))
		d.passed(cl, n, now)
	}
	d.begin(cl, now)
}

// pause has a client begin its next operation a little later.
func (d *drive) pause(cl *client, until time.Time) {
	if cl.phase = phaseBegin; !d.over {
		d.later(cl, until)
	}
}

// passed lets others go on after n messages went through.
func (d *drive) passed(cl *client, n int, now time.Time) {
	if !cl.pushes {
		if d.left -= int64(n); d.left <= 0 {
			d.finish(now)
		}
	}
	g := d.gate
	switch {
	case g == nil:
	case cl.pushes && g.floor:
		g.pushed++
		if len(g.consumers) > 0 {
			d.admit(&g.consumers, now)
		}
	case !cl.pushes:
		for cl.settled += n; cl.settled >= cl.s.batch; cl.settled -= cl.s.batch {
			g.permits = min(g.most, g.permits+1) // more is what a fill before the run left
			if len(g.producers) > 0 {
				d.admit(&g.producers, now)
			}
		}
	}
}

// admit lets the client through that waited longest.
func (d *drive) admit(waiting *[]*client, now time.Time) {
	cl := (*waiting)[0]
	*waiting = (*waiting)[:copy(*waiting, (*waiting)[1:])]
	if d.over || !d.gate.enter(cl) {
		return
	}
	d.enter(cl, now)
}
