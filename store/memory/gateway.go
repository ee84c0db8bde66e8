package memory

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// Gateway is a store as one of several engines sees it that share it: the model of what core.Shared promises.
type Gateway struct {
	*Store

	feed  *feed
	clock core.Clock
}

var _ core.Shared = (*Gateway)(nil)

// feed lists what the gateways of a store committed.
type feed struct {
	mu      sync.Mutex
	changes []told
	// news is closed and replaced with every change.
	news chan struct{}
}

type told struct {
	by     *Gateway
	logs   []core.PartitionKey
	rows   []core.RowKey
	queues []uuid.UUID
}

// NewShared returns the first gateway of an empty store; Another makes more of them. They share the clock that is given.
func NewShared(clock core.Clock) *Gateway {
	return &Gateway{Store: New(), feed: &feed{news: make(chan struct{})}, clock: clock}
}

// Another returns one more gateway of the store.
func (g *Gateway) Another() core.Store {
	return &Gateway{Store: g.Store, feed: g.feed, clock: g.clock}
}

// Close implements core.Store. The others go on.
func (g *Gateway) Close() error { return nil }

// Clock implements core.Shared.
func (g *Gateway) Clock() core.Clock { return g.clock }

// Recalls implements core.Shared: commits take turns.
func (*Gateway) Recalls() bool { return false }

// Alone implements core.Shared.
func (*Gateway) Alone() bool { return false }

// Await implements core.Shared: all are told of everything.
func (*Gateway) Await() {}

// Notify implements core.Shared.
func (g *Gateway) Notify(ctx context.Context, f func()) error {
	for seen := 0; ; {
		g.feed.mu.Lock()
		news, fresh := g.feed.news, slices.ContainsFunc(g.feed.changes[seen:], func(c told) bool { return c.by != g })
		seen = len(g.feed.changes)
		g.feed.mu.Unlock()
		if fresh {
			f()
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil
		}
	}
}

// Follow implements core.Shared.
func (g *Gateway) Follow(ctx context.Context, since string) (core.Followed, error) {
	g.feed.mu.Lock()
	defer g.feed.mu.Unlock()
	if err := g.enter(ctx, "follow"); err != nil {
		return core.Followed{}, err
	}
	defer g.mu.Unlock()
	out := core.Followed{Next: strconv.Itoa(len(g.feed.changes)), Catalog: g.catalog}
	if since == "" {
		return out, nil
	}
	from, err := strconv.Atoi(since)
	if err != nil || from > len(g.feed.changes) {
		out.Lost = true
		return out, nil
	}
	logs := map[core.PartitionKey]bool{}
	for _, c := range g.feed.changes[from:] {
		if c.by == g {
			continue
		}
		for _, key := range c.logs {
			p := g.partitions[key]
			switch {
			case logs[key]:
			case p == nil:
				out.Gone = append(out.Gone, key)
			default:
				out.Logs = append(out.Logs, core.PartitionLog{Partition: p.Partition, Log: p.log})
			}
			logs[key] = true
		}
		out.Rows, out.Queues = append(out.Rows, c.rows...), append(out.Queues, c.queues...)
	}
	return out, nil
}

// ReadAll implements core.Shared.
func (g *Gateway) ReadAll(ctx context.Context, ps []core.ReadParams) ([][]core.Message, error) {
	out := make([][]core.Message, len(ps))
	for i := range ps {
		got, err := g.Read(ctx, ps[i])
		if err != nil {
			return nil, err
		}
		out[i] = got
	}
	return out, nil
}

// Leased implements core.Shared.
func (g *Gateway) Leased(ctx context.Context, lease uuid.UUID) (out []core.RowKey, err error) {
	if err := g.enter(ctx, "leased"); err != nil {
		return nil, err
	}
	defer g.mu.Unlock()
	for key, p := range g.partitions {
		for name, r := range p.rows {
			for i := range r.batches {
				if b := &r.batches[i]; b.State == core.BatchLeased && b.Exclusive && b.Lease == lease {
					out = append(out, core.RowKey{Partition: key, Group: name})
				}
			}
		}
	}
	return out, nil
}

// tell lists a change, unless nothing was stored. The feed is locked from before the change, so that whoever sees the change and looks
// then finds it in the feed.
func (g *Gateway) tell(err error, c told) {
	if err != nil && core.CodeOf(err) != core.CodeUnknown {
		return
	}
	c.by = g
	g.feed.changes = append(g.feed.changes, c)
	close(g.feed.news)
	g.feed.news = make(chan struct{})
}

// Append implements core.Log.
func (g *Gateway) Append(ctx context.Context, p core.AppendParams) ([]core.Placed, error) {
	g.feed.mu.Lock()
	defer g.feed.mu.Unlock()
	out, err := g.Store.Append(ctx, p)
	g.tell(err, told{logs: segmentKeys(p.Segments)})
	return out, err
}

func segmentKeys(segments []core.NewSegment) (keys []core.PartitionKey) {
	for i := range segments {
		keys = append(keys, segments[i].Partition)
	}
	return keys
}

// Update implements core.Ledger.
func (g *Gateway) Update(ctx context.Context, p core.UpdateParams, fn func(core.Tx) (*core.ChangeSet, error)) ([]core.Placed, error) {
	g.feed.mu.Lock()
	defer g.feed.mu.Unlock()
	var wrote told
	out, err := g.Store.Update(ctx, p, func(tx core.Tx) (*core.ChangeSet, error) {
		c, err := fn(tx)
		wrote = told{}
		if err == nil && !c.Empty() {
			wrote = g.changed(c)
		}
		return c, err
	})
	if len(wrote.logs)+len(wrote.rows)+len(wrote.queues) > 0 {
		g.tell(err, wrote)
	}
	return out, err
}

// changed says what a change set changes; the store is locked.
func (g *Gateway) changed(c *core.ChangeSet) told {
	w := told{logs: append(segmentKeys(c.Segments), c.Purge...)}
	for i := range c.Rows {
		w.rows = append(w.rows, c.Rows[i].Key)
	}
	for _, key := range c.Purge {
		if p := g.partitions[key]; p != nil {
			for name := range p.rows {
				w.rows = append(w.rows, core.RowKey{Partition: key, Group: name})
			}
		}
	}
	for i := range c.Register {
		w.queues = append(w.queues, c.Register[i].Queue)
	}
	for i := range c.Unregister {
		w.queues = append(w.queues, c.Unregister[i].Queue)
	}
	return w
}

// PutQueue implements core.Catalog.
func (g *Gateway) PutQueue(ctx context.Context, p core.PutQueueParams) (core.Queue, error) {
	g.feed.mu.Lock()
	defer g.feed.mu.Unlock()
	q, err := g.Store.PutQueue(ctx, p)
	g.tell(err, told{queues: []uuid.UUID{p.Queue.ID}})
	return q, err
}

// DeleteQueue implements core.Catalog.
func (g *Gateway) DeleteQueue(ctx context.Context, id uuid.UUID) error {
	g.feed.mu.Lock()
	defer g.feed.mu.Unlock()
	err := g.Store.DeleteQueue(ctx, id)
	g.tell(err, told{queues: []uuid.UUID{id}})
	return err
}

// CreatePartitions implements core.Catalog.
func (g *Gateway) CreatePartitions(ctx context.Context, now core.Time, ps []core.Partition) ([]core.PartitionLog, error) {
	g.feed.mu.Lock()
	defer g.feed.mu.Unlock()
	out, err := g.Store.CreatePartitions(ctx, now, ps)
	keys := make([]core.PartitionKey, 0, len(out))
	for i := range out {
		keys = append(keys, out[i].Key)
	}
	g.tell(err, told{logs: keys})
	return out, err
}

// DeleteSegments implements core.Sweeping.
func (g *Gateway) DeleteSegments(ctx context.Context, now core.Time, remove, expiries []core.SegmentRef) error {
	g.feed.mu.Lock()
	defer g.feed.mu.Unlock()
	err := g.Store.DeleteSegments(ctx, now, remove, expiries)
	keys := make([]core.PartitionKey, 0, len(remove))
	for i := range remove {
		keys = append(keys, remove[i].Partition)
	}
	g.tell(err, told{logs: keys})
	return err
}
