package bench

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// ahead is how many batches per client producers may be ahead of
	// consumers when both run at once.
	ahead = 8
	// patience is how long a request may go on after a run has ended.
	patience = 60 * time.Second
	// fillClients fill a backlog.
	fillClients = 8
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
		if l.kind != kindSettle {
			f.producers = append(f.producers, newClient(d, s, i))
		}
		if l.kind != kindPush {
			f.consumers = append(f.consumers, newClient(d, s, i))
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
	settled                    int64
	empty, failures            int64
	failure                    error
	cpuMicros, written         float64 // per message; NaN-free, see watched
	watched                    bool
	rss                        int64
}

// run drives the clients for that long.
func (f *fleet) run(length time.Duration) (*outcome, error) {
	all := f.clients()
	for _, cl := range all {
		cl.reset()
		if err := errors.Join(cl.c.dial(), cl.c.until(time.Now().Add(length+patience))); err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
	}
	start := time.Now()
	d := &drive{end: start.Add(length), stop: make(chan struct{})}
	if f.rate > 0 {
		d.arrival = &arrivals{start: start, every: time.Duration(float64(time.Second) * float64(f.load.batch) / f.rate)}
	} else if f.load.kind == kindBoth {
		d.gate = newGate(ahead*f.load.clients, f.floor)
	}
	before, watched := f.process.usage()
	var done sync.WaitGroup
	for _, cl := range f.producers {
		done.Go(func() { cl.produce(d) })
	}
	for _, cl := range f.consumers {
		done.Go(func() { cl.consume(d) })
	}
	time.Sleep(time.Until(d.end))
	after, still := f.process.usage()
	close(d.stop)
	done.Wait()
	o := f.sum(length)
	if o.watched = watched && still; o.watched {
		o.charge(before, after, length)
	}
	if o.perSecond == 0 && o.failure != nil {
		return nil, o.failure
	}
	return o, nil
}

// sum adds up what the clients counted.
func (f *fleet) sum(length time.Duration) *outcome {
	o := &outcome{}
	var pushed int64
	for _, cl := range f.producers {
		o.push.merge(&cl.latency)
		pushed += cl.messages
	}
	for _, cl := range f.consumers {
		o.settle.merge(&cl.latency)
		o.settled += cl.messages
		o.empty += cl.empty
	}
	o.failures, o.failure = failed(f.clients())
	o.pushedPerSecond = float64(pushed) / length.Seconds()
	o.perSecond = float64(o.settled) / length.Seconds()
	if f.load.kind == kindPush {
		o.perSecond = o.pushedPerSecond
	}
	return o
}

// charge divides what the server used by the messages that were finished.
func (o *outcome) charge(before, after usage, length time.Duration) {
	o.rss = after.rss
	if messages := o.perSecond * length.Seconds(); messages > 0 {
		o.cpuMicros = float64((after.cpu - before.cpu).Microseconds()) / messages
		o.written = float64(after.written-before.written) / messages
	}
}

// latency is the histogram that a load is judged by: of settling where nothing
// else happens, else of pushing.
func (o *outcome) latency(k kind) *histogram {
	if k == kindSettle {
		return &o.settle
	}
	return &o.push
}

// fill pushes n messages, as fast as it can, in batches of s.batch.
func fill(d dialect, s *spec, n int) error {
	clients := make([]*client, fillClients)
	var done sync.WaitGroup
	for i := range clients {
		cl := newClient(d, s, i)
		clients[i] = cl
		share := (n + fillClients - 1) / fillClients
		done.Go(func() {
			defer cl.c.close()
			for sent := 0; sent < share && cl.failures == 0; {
				got, err := cl.pushOnce()
				if sent += got; err != nil {
					cl.failures, cl.failure = 1, err
				}
			}
		})
	}
	done.Wait()
	_, err := failed(clients)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	return nil
}
