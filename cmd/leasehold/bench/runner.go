package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// durableLength bounds how long the durability floor is measured per round.
	durableLength = 2 * time.Second
	// settleTime lets a server finish what a fill left it to do.
	settleTime = 300 * time.Millisecond
	// reserve is by how much a backlog is filled beyond what a run should take.
	reserve = 1.3
)

// runner measures one load after the other.
type runner struct {
	cmd     *runCmd
	d       dialect
	scratch string
	target  *target // the server
	compare *target // nil without --compare
	// database is that of a server that was started on one, else nil.
	database *database
	log      io.Writer
	// alive is an error when a server that was started has ended by itself.
	alive func() error
}

// run measures all loads and writes the report.
func (r *runCmd) run(ctx context.Context, stdout, stderr io.Writer) error {
	results, err := r.results(ctx, stderr)
	if err != nil {
		return err
	}
	return report(results, r.JSON, stdout, stderr)
}

// results measures all loads; log is told how it goes.
func (r *runCmd) results(ctx context.Context, log io.Writer) (results []result, err error) {
	loads, err := r.check()
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp(r.Scratch, "leasehold-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	u := &runner{cmd: r, d: dialects[r.Protocol], scratch: scratch, log: log}
	if r.Encoding == "protobuf" {
		u.d = queratorProto{}
	}
	stop, err := u.connect(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return nil, err
	}
	for _, l := range loads {
		res, err := u.measure(ctx, l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l, err)
		}
		results = append(results, *res)
	}
	return results, nil
}

// measure runs one load.
func (u *runner) measure(ctx context.Context, l load) (*result, error) {
	run := fmt.Sprintf("b%x", time.Now().UnixNano()&0xffffffff)
	for _, t := range u.targets() {
		t.spec = u.spec(t.hosts[0], l, run)
		t.filled, t.settled, t.peak = 0, 0, 0
		if err := u.prepare(t, l); err != nil {
			return nil, err
		}
		defer t.fleet.close()
	}
	floor, stop, err := u.startFloor(ctx, l)
	if err != nil {
		return nil, err
	}
	defer stop()
	reference, stopReference, err := u.startReference(ctx)
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	defer stopReference()
	for _, t := range u.targets() {
		if err := u.warm(t, l); err != nil {
			return nil, fmt.Errorf("warm up: %w", err)
		}
	}
	if floor != nil {
		if _, err := floor.run(u.cmd.Warmup/2, unlimited); err != nil {
			return nil, fmt.Errorf("warm up HTTP floor: %w", err)
		}
	}
	res := newResult(u.cmd, l)
	for i := range u.cmd.Runs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := errors.Join(u.round(l, floor, reference, i, res), u.alive()); err != nil {
			return nil, err
		}
	}
	if !u.cmd.Spawn {
		u.clean(u.target)
	}
	if u.compare != nil {
		u.clean(u.compare)
	}
	return res, nil
}

// spec is what a load's requests to one server have in common.
func (u *runner) spec(host string, l load, run string) spec {
	return spec{
		host: host, queue: fmt.Sprintf("bench-%s-%s-%d-%d", run, l.kind, l.batch, l.clients), batch: l.batch,
		queues: u.cmd.Queues, fails: l.kind == kindFail, takes: l.kind == kindTake, marks: u.cmd.marks(l), payload: u.cmd.Payload, partitions: u.cmd.Partitions, groups: u.cmd.Groups, names: u.cmd.IDs,
		delay: u.cmd.Delay, account: u.cmd.Account, run: run, headers: u.cmd.Header,
	}
}

// prepare makes the queue and the clients.
func (u *runner) prepare(t *target, l load) error {
	c := newConn(t.spec.host)
	defer c.close()
	for q := range max(1, t.spec.queues) {
		if err := u.d.create(c, t.spec.of(q)); err != nil {
			return fmt.Errorf("create queue: %w", err)
		}
	}
	var err error
	t.fleet, err = newFleet(u.d, t.specs(), l, t.watched, u.cmd.options())
	return err
}

// clean deletes the queue of a load from a server that stays.
func (u *runner) clean(t *target) {
	c := newConn(t.spec.host)
	defer c.close()
	for q := range max(1, t.spec.queues) {
		if err := u.d.drop(c, t.spec.of(q)); err != nil {
			_, _ = fmt.Fprintf(u.log, "queue %s stays: %v\n", t.spec.of(q).queue, err)
		}
	}
}

// startFloor starts the HTTP floor of a load and makes its clients.
func (u *runner) startFloor(ctx context.Context, l load) (*fleet, func(), error) {
	if !u.cmd.Floors {
		return nil, func() {}, nil
	}
	sample := u.target.spec
	sample.takes = false // a claim answers much the same without a settlement
	plan, err := sampleAnswers(u.d, sample, u.cmd.Protocol)
	if err != nil {
		return nil, nil, err
	}
	c, err := startFloor(ctx, plan)
	if err != nil {
		return nil, nil, err
	}
	s := u.target.spec
	s.host = c.addr
	f, err := newFleet(u.d, []*spec{&s}, l, watched{servers: []*process{c.process()}}, u.cmd.options())
	if err != nil {
		return nil, nil, errors.Join(err, c.stop())
	}
	f.floor = true
	return f, func() {
		f.close()
		_ = c.stop()
	}, nil
}

// warm runs a load unmeasured, to learn how fast the server is.
func (u *runner) warm(t *target, l load) error {
	t.peak = 30_000
	if l.batch > 1 {
		t.peak = 150_000
	}
	o, err := u.runTarget(t, l, u.cmd.Warmup)
	if err != nil {
		return err
	}
	t.peak = o.perSecond
	return nil
}

// runTarget fills what the load needs and runs it.
func (u *runner) runTarget(t *target, l load, length time.Duration) (*outcome, error) {
	groups := int64(u.cmd.Groups)
	level, limit := int64(u.cmd.Backlog), int64(unlimited)
	consumes := l.kind == kindSettle || l.kind == kindTake || l.kind == kindFail
	if consumes && level == 0 {
		// So many that each client finds a full batch in some partition.
		level = int64(4 * l.batch * max(u.cmd.Partitions*u.cmd.Queues, l.clients))
		level += int64(reserve*t.peak*length.Seconds()) / groups
	}
	waiting := t.filled - t.settled/groups
	if missing := level - waiting; missing > 0 && (l.kind != kindPush || waiting == 0) {
		if err := u.fill(t, missing); err != nil {
			return nil, err
		}
		waiting = t.filled - t.settled/groups
	}
	if l.kind == kindSettle || l.kind == kindTake {
		limit = waiting * groups
	}
	o, err := t.fleet.run(length, limit)
	if err != nil {
		return nil, err
	}
	if l.kind == kindFail {
		o.removed = 0 // all of it waits again
	}
	t.settled += o.removed
	t.filled += o.added
	t.peak = max(t.peak, o.perSecond)
	return o, nil
}

// fill adds messages to a queue.
func (u *runner) fill(t *target, n int64) error {
	s := t.spec
	s.batch, s.names, s.marks, s.delay = min(u.cmd.FillBatch, max(1, int(n)/u.cmd.Queues)), false, false, 0
	pushed, err := fill(u.d, &s, u.cmd.Driver, n)
	t.filled += pushed
	time.Sleep(settleTime)
	return err
}

// round is one measurement of everything, in an order that changes.
func (u *runner) round(l load, floor, reference *fleet, i int, res *result) error {
	length := time.Duration(u.cmd.Seconds * float64(time.Second))
	var p pair
	steps := []func() error{func() (err error) {
		p.server, err = u.runTarget(u.target, l, length)
		return err
	}}
	if floor != nil {
		steps = append(steps, func() (err error) {
			p.floor, err = floor.run(length, unlimited)
			return err
		}, func() (err error) {
			p.durable, err = durabilityFloor(u.scratch, u.database, l, u.cmd.Payload, min(length, durableLength))
			return err
		})
	}
	if reference != nil {
		steps = append(steps, func() error {
			o, err := reference.run(min(length, referenceLength), unlimited)
			if err == nil {
				p.reference = o.perSecond
			}
			return err
		})
	}
	if u.compare != nil {
		steps = append(steps, func() (err error) {
			p.compare, err = u.runTarget(u.compare, l, length)
			return err
		})
	}
	for j := range steps {
		if i%2 == 1 {
			j = len(steps) - 1 - j
		}
		if err := steps[j](); err != nil {
			return err
		}
	}
	res.add(p)
	_, _ = fmt.Fprintf(u.log, "%s round %d of %d: %s\n", l, i+1, u.cmd.Runs, p)
	return nil
}
