package bench

import (
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// checkEvery is how many requests pass between two answers that are looked
	// at in full; the status of every answer is.
	checkEvery = 64
	// emptyPause keeps a consumer of a protocol without long polls from asking
	// an empty queue all the time.
	emptyPause = 2 * time.Millisecond
	// failurePause keeps a client of a failing server from doing the same.
	failurePause = 5 * time.Millisecond
)

// client is one connection with what it sends and what came of it.
type client struct {
	d       dialect
	s       *spec
	c       *conn
	lanes   []lane // the queues that it visits in turn
	lane    int
	build   builder
	asked   int
	settled int // messages for which no permit went back to the producers yet

	latency  histogram
	requests int64
	messages int64
	late     int64 // messages that were finished after the end of the run
	empty    int64
	failures int64
	failure  error
}

// lane is what a client sends to one queue.
type lane struct {
	s     *spec
	push  *template
	claim []byte
}

// newClient makes the client with that index of so many, which share the queues.
func newClient(d dialect, s *spec, index, of int) *client {
	cl := &client{d: d, s: s, c: newConn(s.host)}
	for q := index % max(1, s.queues); q < max(1, s.queues); q += of {
		one := s.of(q)
		cl.lanes = append(cl.lanes, lane{s: one, push: d.push(one, index), claim: d.claim(one, index)})
	}
	return cl
}

// next is the lane to use now.
func (cl *client) next() *lane {
	l := &cl.lanes[cl.lane]
	if cl.lane++; cl.lane == len(cl.lanes) {
		cl.lane = 0
	}
	return l
}

// reset forgets the results of the last run.
func (cl *client) reset() {
	cl.latency = histogram{}
	cl.requests, cl.messages, cl.late, cl.empty, cl.failures, cl.failure = 0, 0, 0, 0, 0, nil
}

// exchange sends a request and looks at the answer, now and then in full.
func (cl *client) exchange(op operation, request []byte, n int) error {
	status, answer, err := cl.c.do(request)
	if err != nil {
		return err
	}
	if cl.asked++; cl.asked%checkEvery == 1 || status >= 300 {
		return cl.d.check(op, status, answer, n)
	}
	return nil
}

// pushOnce pushes one batch.
func (cl *client) pushOnce() (int, error) {
	return cl.s.batch, cl.exchange(opPush, cl.next().push.next(), cl.s.batch)
}

// settleOnce claims one batch and settles it.
func (cl *client) settleOnce() (int, error) {
	l := cl.next()
	status, answer, err := cl.c.do(l.claim)
	if err != nil {
		return 0, err
	}
	request, n, err := cl.d.settle(&cl.build, l.s, status, answer)
	if n == 0 || err != nil {
		return 0, err
	}
	return n, cl.exchange(opSettle, request, n)
}

// drive is one timed run of some clients.
type drive struct {
	end     time.Time
	stop    chan struct{} // closed at the end
	arrival *arrivals     // nil for a closed loop
	gate    *gate         // nil where producers and consumers do not meet

	// left counts down the messages of a backlog; when none is left, the run
	// is over before its end.
	left atomic.Int64
	dry  chan time.Time // receives that moment
	over atomic.Bool
}

// settled takes n messages off the backlog.
func (d *drive) settled(n int, now time.Time) {
	if left := d.left.Add(-int64(n)); left <= 0 && left > -int64(n) {
		d.over.Store(true)
		d.dry <- now
	}
}

// arrivals are the moments at which an open loop sends, whatever the server does.
type arrivals struct {
	start time.Time
	every time.Duration
	next  atomic.Int64
}

// wait sleeps until the next moment that is nobody else's and returns it. The
// latency is counted from there, not from when a client was free to send: a
// stalled server is charged with all that it kept waiting.
func (a *arrivals) wait() time.Time {
	at := a.start.Add(time.Duration(a.next.Add(1)-1) * a.every)
	if d := time.Until(at); d > 0 {
		time.Sleep(d)
	}
	return at
}

// gate couples producers and consumers, so that the queue between them stays
// bounded and both sides run at the speed of the whole.
type gate struct {
	// permits are pushes that may begin.
	permits chan struct{}
	// pushed are batches that the consumers of a floor may pretend to claim;
	// nil against a server, which makes them wait by itself.
	pushed chan struct{}
}

// newGate lets producers be ahead by that many batches.
func newGate(batches int, floor bool) *gate {
	g := &gate{permits: make(chan struct{}, batches)}
	for range batches {
		g.permits <- struct{}{}
	}
	if floor {
		g.pushed = make(chan struct{}, batches)
	}
	return g
}

// produce pushes until the run ends.
func (cl *client) produce(d *drive) {
	for {
		if d.gate != nil {
			select {
			case <-d.gate.permits:
			case <-d.stop:
				return
			}
		}
		if !cl.once(d, d.arrival, cl.pushOnce) {
			return
		}
		if d.gate != nil && d.gate.pushed != nil {
			select {
			case d.gate.pushed <- struct{}{}:
			default:
			}
		}
	}
}

// consume claims and settles until the run ends.
func (cl *client) consume(d *drive) {
	arrival := d.arrival
	if d.gate != nil {
		arrival = nil
	}
	for {
		if d.gate != nil && d.gate.pushed != nil {
			select {
			case <-d.gate.pushed:
			case <-d.stop:
				return
			}
		}
		before := cl.messages
		more := cl.once(d, arrival, cl.settleOnce)
		if n := int(cl.messages - before); n > 0 {
			d.settled(n, time.Now())
		}
		if !more {
			return
		}
		if d.gate == nil {
			continue
		}
		for cl.settled += int(cl.messages - before); cl.settled >= cl.s.batch; cl.settled -= cl.s.batch {
			select {
			case d.gate.permits <- struct{}{}:
			default: // what a fill before the run left
			}
		}
	}
}

// once does one operation and says whether there may be another. What ends
// after the run does not count.
func (cl *client) once(d *drive, arrival *arrivals, do func() (int, error)) bool {
	var from time.Time
	if arrival != nil {
		from = arrival.wait()
	} else {
		from = time.Now()
	}
	if !from.Before(d.end) || d.over.Load() {
		return false
	}
	n, err := do()
	now := time.Now()
	if err == nil && (!now.Before(d.end) || d.over.Load()) {
		cl.late += int64(n)
		return false
	}
	switch {
	case err != nil:
		if cl.failures++; cl.failure == nil {
			cl.failure = err
		}
		time.Sleep(failurePause)
	case n == 0:
		cl.empty++
		if now.Sub(from) < emptyPause {
			time.Sleep(emptyPause)
		}
	default:
		cl.requests++
		cl.messages += int64(n)
		cl.latency.add(now.Sub(from))
	}
	return now.Before(d.end)
}

// failed describes the failures of a run, nil if there were none.
func failed(clients []*client) (n int64, first error) {
	for _, cl := range clients {
		n += cl.failures
		if first == nil && cl.failure != nil {
			first = fmt.Errorf("%s: %w", cl.s.host, cl.failure)
		}
	}
	return n, first
}
