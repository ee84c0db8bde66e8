package bench

import (
	"fmt"
	"math"
	"os"
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
)

// fleet are the clients of one load at one server, kept from run to run.
type fleet struct {
	load      load
	watched   watched
	floor     bool
	rate      float64 // messages per second of an open loop; 0 is a closed loop
	producers []*client
	consumers []*client
	wire      wire
	seen      *deliveries // of the last run of an open loop with both sides
}

// newFleet makes the clients that a load needs and spreads them over servers, of each of which
// there is the spec; they connect on first use.
func newFleet(d dialect, specs []*spec, l load, w watched, o options) (*fleet, error) {
	f := &fleet{load: l, watched: w, rate: o.rate}
	for i := range l.clients {
		if l.kind == kindPush || l.kind == kindBoth {
			f.producers = append(f.producers, newProducer(d, specs[i%len(specs)], i, l.clients))
		}
	}
	settle := l.clients
	if l.kind == kindBoth {
		settle = l.settle
	}
	for i := range settle {
		if l.kind != kindPush {
			f.consumers = append(f.consumers, newClient(d, specs[i%len(specs)], i, settle))
		}
	}
	var err error
	f.wire, err = wireOf(o.driver, f.clients())
	return f, err
}

// options say how a fleet is driven.
type options struct {
	driver string
	rate   float64 // messages per second of an open loop; 0 is a closed loop
}

// wireOf makes a connection for each client.
func wireOf(driver string, clients []*client) (wire, error) {
	addrs := make([]string, len(clients))
	for i, cl := range clients {
		addrs[i] = cl.s.host
	}
	return newWire(driver, addrs)
}

func (f *fleet) clients() []*client {
	return append(append([]*client(nil), f.producers...), f.consumers...)
}

func (f *fleet) close() { f.wire.close() }

// outcome is what one run showed. Rates are per second, times in ms.
type outcome struct {
	perSecond, pushedPerSecond float64
	push, settle, deliver      histogram
	// added and removed are all messages that went through the queue, with
	// those that were too late to be counted.
	added, removed     int64
	empty, failures    int64
	failure            error
	cpuMicros, written float64 // of the server, per message; 0 if not known
	dbMicros           float64 // CPU of its database, per message
	ownMicros          float64 // CPU of the generator, per message
	ownPerRequest      float64 // the same, per request and answer
	rss                int64
}

// run drives the clients for that long, or until they have settled limit
// messages.
func (f *fleet) run(length time.Duration, limit int64) (*outcome, error) {
	all := f.clients()
	for _, cl := range all {
		cl.reset()
	}
	if err := f.wire.dial(); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	self := watched{servers: []*process{{pid: os.Getpid()}}}
	var before, after, own, ownAfter usage
	before, own = f.watched.usage(), self.usage()
	start := time.Now()
	d := &drive{wire: f.wire, clients: all, end: start.Add(length), left: limit, atEnd: func() {
		after, ownAfter = f.watched.usage(), self.usage()
	}}
	f.couple(d, start)
	if err := d.run(); err != nil {
		return nil, err
	}
	length = d.overAt.Sub(start)
	o := f.sum(length)
	messages := o.perSecond * length.Seconds()
	micros := func(from, to time.Duration) float64 { return share(float64((to - from).Microseconds()), messages) }
	if after.known {
		o.rss = after.rss
		o.cpuMicros, o.dbMicros = micros(before.cpu, after.cpu), micros(before.database, after.database)
		o.written = share(float64(after.written-before.written), messages)
	}
	o.ownMicros = micros(own.cpu, ownAfter.cpu)
	o.ownPerRequest = share(float64((ownAfter.cpu - own.cpu).Microseconds()), float64(d.requests))
	if o.perSecond == 0 && o.failure != nil {
		return nil, o.failure
	}
	return o, nil
}

// couple has the clients send at a rate, or wait for each other.
func (f *fleet) couple(d *drive, start time.Time) {
	if f.load.kind == kindBoth {
		d.gate = newGate(ahead*max(f.load.clients, f.load.settle), f.floor)
	}
	if f.rate <= 0 {
		return
	}
	d.arrival = &arrivals{start: start, every: time.Duration(float64(time.Second) * float64(f.load.batch) / f.rate)}
	if f.load.kind == kindBoth {
		d.gate.permits, d.gate.most = math.MaxInt, math.MaxInt
		f.seen = f.seen.next()
		d.seen = f.seen
	}
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
	if f.seen != nil {
		o.deliver = f.seen.took
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
	if k == kindPush || k == kindBoth {
		return &o.push
	}
	return &o.settle
}
