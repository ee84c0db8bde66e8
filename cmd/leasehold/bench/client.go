package bench

import (
	"fmt"
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

// phase is what a client is doing.
type phase int

const (
	phaseBegin  phase = iota // about to begin an operation
	phaseDue                 // waits for the moment at which its operation is due
	phaseAnswer              // waits for the answer to a push, a claim or a settlement
	phaseSettle              // the same, to the settlement of what it claimed
)

// client is one connection with what it sends and what came of it.
type client struct {
	d       dialect
	s       *spec
	c       *conn  // for what it does outside of a run
	pushes  bool   // it is a producer, else a consumer
	lanes   []lane // the queues that it visits in turn
	lane    int
	build   builder
	asked   int
	settled int // messages for which no permit went back to the producers yet

	// more says, in place of the end of a run, whether there is a push left to do, and prepares it.
	more func() bool

	index   int // of its connection
	phase   phase
	from    time.Time // since when the operation lasts
	wakeAt  time.Time // when it wants to go on
	claimed int       // messages that are being settled

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

// newProducer makes a client that pushes.
func newProducer(d dialect, s *spec, index, of int) *client {
	cl := newClient(d, s, index, of)
	cl.pushes = true
	return cl
}

// current is the lane of the operation under way, or of the next one.
func (cl *client) current() *lane { return &cl.lanes[cl.lane] }

// turn goes to the next lane.
func (cl *client) turn() {
	if cl.lane++; cl.lane == len(cl.lanes) {
		cl.lane = 0
	}
}

// reset forgets the results of the last run.
func (cl *client) reset() {
	cl.latency = histogram{}
	cl.requests, cl.messages, cl.late, cl.empty, cl.failures, cl.failure = 0, 0, 0, 0, 0, nil
	cl.phase = phaseBegin
}

// check looks at an answer, now and then in full.
func (cl *client) check(op operation, r reply, n int) error {
	if r.err != nil {
		return r.err
	}
	if cl.asked++; cl.asked%checkEvery == 1 || r.status >= 300 {
		return cl.d.check(op, r.status, r.body, n)
	}
	return nil
}

// request is what the operation begins with.
func (cl *client) request() []byte {
	if cl.pushes {
		return cl.current().push.next()
	}
	return cl.current().claim
}

// answered takes the reply to the last request in. It returns the next request of the
// operation, or how many messages the operation was over and how it failed.
func (cl *client) answered(r reply) (request []byte, messages int, err error) {
	switch {
	case cl.pushes:
		return nil, cl.s.batch, cl.check(opPush, r, cl.s.batch)
	case cl.phase == phaseSettle:
		return nil, cl.claimed, cl.check(opSettle, r, cl.claimed)
	case r.err != nil:
		return nil, 0, r.err
	}
	request, cl.claimed, err = cl.d.settle(&cl.build, cl.current().s, r.status, r.body)
	if err != nil || request == nil || cl.claimed == 0 {
		return nil, cl.claimed, err
	}
	cl.phase = phaseSettle
	return request, 0, nil
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
