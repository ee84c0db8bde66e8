package bench

import (
	"context"
	"errors"
	"time"
)

// floorThen is what a gin handler with JSON in and out did, in requests per second for wrk with 32 connections, on the machine on
// which the limits in messages per second were set. The generator of this package and wrk get the same out of that handler.
const floorThen = 47_000

// referenceLength bounds how long the reference is measured in each round.
const referenceLength = time.Second

// startReference starts the HTTP floor of single pushes, which says in each round how fast the machine is at that time. It returns nil
// where nobody asked.
func (u *runner) startReference(ctx context.Context) (*fleet, func(), error) {
	if !u.cmd.Reference {
		return nil, func() {}, nil
	}
	c, err := startFloor(ctx, pushPlan())
	if err != nil {
		return nil, nil, err
	}
	s := &spec{host: c.addr, queue: "bench", batch: 1, payload: 100, partitions: 64, groups: 1}
	f, err := newFleet(queen{}, []*spec{s}, load{kind: kindPush, batch: 1, clients: 32}, watched{}, options{driver: u.cmd.Driver})
	if err != nil {
		return nil, nil, errors.Join(err, c.stop())
	}
	stop := func() {
		f.close()
		_ = c.stop()
	}
	if _, err := f.run(u.cmd.Warmup/2, unlimited); err != nil {
		stop()
		return nil, nil, err
	}
	return f, stop, nil
}

// slower is by how much the machine was slower, in the median of the rounds, than the one on which limits in messages per second were
// set; 1 where it was not, or where nobody looked.
func (r *result) slower() float64 {
	if r.ReferencePerSecond == 0 {
		return 1
	}
	return r.median(func(p pair) float64 { return min(1, p.reference/floorThen) })
}
