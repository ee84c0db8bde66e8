package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/leasehold/leasehold/core"
)

// fusedClients and fusedPartitions are the loads of single messages that commits fuse.
const fusedClients, fusedPartitions = 32, 64

// belowHTTP are the bars of the engine and its store alone, on PostgreSQL.
func (b *barsCmd) belowHTTP() []bar {
	return []bar{
		{name: "push:100x8 at the store, of COPY", limit: 1.1, measure: b.copied},
		{name: "claim and settle 1x32, shared, 1 partition, of unfused", limit: 6, measure: b.fused(false)},
		{name: "claim and settle 1x32, exclusive, 64 partitions, of unfused", limit: 6, measure: b.fused(true)},
	}
}

// turns measures two rates in turns and returns the median of the first, of the second.
func (b *barsCmd) turns(log io.Writer, what [2]string, measure [2]func(length time.Duration) (float64, error)) (float64, error) {
	for _, m := range measure {
		if _, err := m(b.Warmup); err != nil {
			return 0, fmt.Errorf("warm up: %w", err)
		}
	}
	length := time.Duration(b.Seconds * float64(time.Second))
	ratios := make([]float64, b.Runs)
	for i := range ratios {
		var v [2]float64
		for k := range v {
			at := (i + k) % 2
			var err error
			if v[at], err = measure[at](length); err != nil {
				return 0, fmt.Errorf("%s: %w", what[at], err)
			}
		}
		ratios[i] = share(v[0], v[1])
		_, _ = fmt.Fprintf(log, "round %d of %d: %s %.0f/s, %s %.0f/s (%.2f ×)\n", i+1, b.Runs, what[0], v[0], what[1], v[1], ratios[i])
	}
	return median(ratios), nil
}

// copied measures what the store appends next to COPY of the same bytes.
func (b *barsCmd) copied(ctx context.Context, log io.Writer) (ratio float64, err error) {
	l, err := openLocal(ctx, b.Store)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.close(ctx)) }()
	load := load{kind: kindPush, batch: 100, clients: 8}
	const payload = 100
	parts, _, err := l.queue(ctx, core.ProtocolQueen, fusedPartitions, 0, payload)
	if err != nil {
		return 0, err
	}
	pushed := func(length time.Duration) (float64, error) { return l.appendFor(ctx, parts, load, payload, length) }
	copied := func(length time.Duration) (float64, error) {
		return durabilityFloor("", l.database, load, payload, length)
	}
	return b.turns(log, [2]string{"pushed", "copied"}, [2]func(time.Duration) (float64, error){pushed, copied})
}

// backlogPerSecond is more than the consumers of single messages take in a second.
const backlogPerSecond = 30_000

// fused returns what measures consumers of single messages whose claims and settlements share commits, next to such that make commits
// of their own.
func (b *barsCmd) fused(exclusive bool) func(context.Context, io.Writer) (float64, error) {
	return func(ctx context.Context, log io.Writer) (ratio float64, err error) {
		l, err := openLocal(ctx, b.Store)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, l.close(ctx)) }()
		origin, partitions := core.ProtocolQuerator, 1
		if exclusive {
			origin, partitions = core.ProtocolQueen, fusedPartitions
		}
		run := func(fused bool) func(time.Duration) (float64, error) {
			return func(length time.Duration) (float64, error) {
				c := &consumers{l: l, exclusive: exclusive}
				var err error
				if c.parts, c.queue, err = l.queue(ctx, origin, partitions, int(length.Seconds()*backlogPerSecond)/partitions+core.MaxSegmentMessages, 100); err != nil {
					return 0, err
				}
				next := c.alone
				if fused {
					next = c.fused
				}
				return repeat(fusedClients, length, func(client, round int) (int, error) { return 1, next(ctx, client, round) })
			}
		}
		return b.turns(log, [2]string{"fused", "unfused"}, [2]func(time.Duration) (float64, error){run(true), run(false)})
	}
}
