package bench

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"
)

// unlimited is the limit of a run that only its time ends.
const unlimited = math.MaxInt64

const (
	// ahead is how many batches per client producers may be ahead of
	// consumers when both run at once.
	ahead = 8
	// patience is how long a request may go on after a run has ended.
	patience = 60 * time.Second
	// fillClients fill a backlog, singleClients one that is pushed in small requests.
	fillClients, singleClients = 8, 128
)

// fleet are the clients of one load at one server, kept from run to run.
type fleet struct {
	load      load
	process   *process // nil if it cannot be watched
	floor     bool
	rate      float64 // messages per second of an open loop; 0 is a closed loop
	producers []*client
	consumers []*client
}

// newFleet makes the clients that a load needs; they connect on first use.
func newFleet(d dialect, s *spec, l load, p *process, rate float64) *fleet {
	f := &fleet{load: l, process: p, rate: rate}
	for i := range l.clients {
		if l.kind == kindPush || l.kind == kindBoth {
			f.producers = append(f.producers, newClient(d, s, i, l.clients))
		}
		if l.kind != kindPush {
			f.consumers = append(f.consumers, newClient(d, s, i, l.clients))
		}
	}
	return f
}

func (f *fleet) clients() []*client {
	return append(append([]*client(nil), f.producers...), f.consumers...)
}

func (f *fleet) close() {
	for _, cl := range f.clients() {
		cl.c.close()
	}
}

// outcome is what one run showed. Rates are per second, times in ms.
type outcome struct {
	perSecond, pushedPerSecond float64
	push, settle               histogram
	// added and removed are all messages that went through the queue, with
	// those that were too late to be counted.
	added, removed     int64
	empty, failures    int64
	failure            error
	cpuMicros, written float64 // of the server, per message; 0 if not known
	ownMicros          float64 // CPU of the generator, per message
	rss                int64
}

// run drives the clients for that long, or until they have settled limit
// messages.
func (f *fleet) run(length time.Duration, limit int64) (*outcome, error) {
	all := f.clients()
	for _, cl := range all {
		cl.reset()
		if err := errors.Join(cl.c.dial(), cl.c.until(time.Now().Add(length+patience))); err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
	}
	start := time.Now()
	d := &drive{end: start.Add(length), stop: make(chan struct{}), dry: make(chan time.Time, 1)}
	d.left.Store(limit)
	if f.rate > 0 {
		d.arrival = &arrivals{start: start, every: time.Duration(float64(time.Second) * float64(f.load.batch) / f.rate)}
	} else if f.load.kind == kindBoth {
		d.gate = newGate(ahead*f.load.clients, f.floor)
	}
	self := &process{pid: os.Getpid()}
	before, _ := f.process.usage()
	own, _ := self.usage()
	var done sync.WaitGroup
	for _, cl := range f.producers {
		done.Go(func() { cl.produce(d) })
	}
	for _, cl := range f.consumers {
		done.Go(func() { cl.consume(d) })
	}
	select {
	case <-time.After(time.Until(d.end)):
	case at := <-d.dry:
		length = at.Sub(start)
	}
	after, watched := f.process.usage()
	ownAfter, _ := self.usage()
	close(d.stop)
	done.Wait()
	o := f.sum(length)
	if watched {
		o.rss = after.rss
		o.cpuMicros = share(float64((after.cpu - before.cpu).Microseconds()), o.perSecond*length.Seconds())
		o.written = share(float64(after.written-before.written), o.perSecond*length.Seconds())
	}
	o.ownMicros = share(float64((ownAfter.cpu - own.cpu).Microseconds()), o.perSecond*length.Seconds())
	if o.perSecond == 0 && o.failure != nil {
		return nil, o.failure
	}
	return o, nil
}

// sum adds up what the clients counted.
func (f *fleet) sum(length time.Duration) *outcome {
	o := &outcome{}
	var pushed, settled int64
	for _, cl := range f.producers {
		o.push.merge(&cl.latency)
		pushed += cl.messages
		o.added += cl.messages + cl.late
	}
	for _, cl := range f.consumers {
		o.settle.merge(&cl.latency)
		settled += cl.messages
		o.removed += cl.messages + cl.late
		o.empty += cl.empty
	}
	o.failures, o.failure = failed(f.clients())
	o.pushedPerSecond = float64(pushed) / length.Seconds()
	o.perSecond = float64(settled) / length.Seconds()
	if f.load.kind == kindPush {
		o.perSecond = o.pushedPerSecond
	}
	return o
}

// latency is the histogram that a load is judged by: of settling where nothing
// else happens, else of pushing.
func (o *outcome) latency(k kind) *histogram {
	if k == kindSettle || k == kindFail {
		return &o.settle
	}
	return &o.push
}

// fill pushes at least n messages, as fast as it can, in batches of s.batch
// and evenly over the queues, and returns how many it pushed.
func fill(d dialect, s *spec, n int64) (int64, error) {
	count := fillClients
	if s.batch < 10 {
		count = singleClients
	}
	clients := make([]*client, count)
	requests := (n + int64(s.batch) - 1) / int64(s.batch)
	round := int64(max(s.queues, count))
	var done sync.WaitGroup
	for i := range clients {
		cl := newClient(d, s, i, count)
		clients[i] = cl
		done.Go(func() {
			defer cl.c.close()
			for first := int64(i); cl.failure == nil; first += round {
				for l := range int64(len(cl.lanes)) {
					request := first + l*int64(count)
					if request >= requests || cl.failure != nil {
						return
					}
					cl.fillOnce(request / int64(max(1, s.queues)))
				}
			}
		})
	}
	done.Wait()
	var pushed int64
	for _, cl := range clients {
		pushed += cl.messages
	}
	if _, err := failed(clients); err != nil {
		return pushed, fmt.Errorf("fill: %w", err)
	}
	return pushed, nil
}

// fillOnce pushes one batch of a fill, to the partition whose turn it is, so
// that each gets its share.
func (cl *client) fillOnce(turn int64) {
	if t := cl.lanes[cl.lane].push; t.partitions > 1 {
		t.partition = uint64(turn) % t.partitions //nolint:gosec // not negative
	}
	n, err := cl.pushOnce()
	if err != nil {
		cl.failures, cl.failure = 1, err
		return
	}
	cl.messages += int64(n)
}
