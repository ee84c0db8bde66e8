package cfqueues

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// counter counts backlogs for the answers that carry one. Every push and every pull
// does, so under load the requests of a moment share one count: a request takes part
// in the first count that begins after it asked. So a push sees itself in its answer,
// and a queue is counted by one request at a time.
//
// A queue with very many leases takes longer to count than to pull from. Where a count
// was slow it is shown again for some multiple of the time it took, so that counting
// costs a bounded share of the work; the protocol calls these figures best effort.
type counter struct {
	count func(ctx context.Context, queue counted) (metrics, error)
	now   func() time.Time // the process clock; a clock that stands still reuses nothing

	mu      sync.Mutex
	running map[counted]*tally // by queue, while a count runs
	slow    map[counted]reused // by queue, what may be shown again
}

// counted is a queue whose backlog is counted; one that is made anew under an old name is another one.
type counted struct {
	id   uuid.UUID
	name string
}

func countedOf(q *core.Queue) counted { return counted{q.ID, q.Name} }

// reused is a slow count and how long it may be shown.
type reused struct {
	result metrics
	until  time.Time
}

// A count is slow from slowCount on, and is then shown again for slowFactor times as
// long as it took, at most slowMost.
const (
	slowCount  = 2 * time.Millisecond
	slowFactor = 20
	slowMost   = time.Second
)

// tally is one count, and the one after it if somebody waits for that.
type tally struct {
	done   chan struct{} // closed when result and err are set
	result metrics
	err    error
	next   *tally
}

func newCounter(count func(ctx context.Context, queue counted) (metrics, error), now func() time.Time) *counter {
	if now == nil {
		now = func() time.Time { return time.Time{} }
	}
	return &counter{count: count, now: now, running: map[counted]*tally{}, slow: map[counted]reused{}}
}

// about returns the backlog of a queue as metrics does, or a slow count of a moment ago.
func (c *counter) about(ctx context.Context, queue counted) (metrics, error) {
	c.mu.Lock()
	last, ok := c.slow[queue]
	if ok && c.now().Before(last.until) {
		c.mu.Unlock()
		return last.result, nil
	}
	delete(c.slow, queue)
	c.mu.Unlock()
	return c.metrics(ctx, queue)
}

// metrics returns the backlog of a queue as of some moment after the call began.
func (c *counter) metrics(ctx context.Context, queue counted) (metrics, error) {
	c.mu.Lock()
	now := c.running[queue]
	if now == nil {
		t := &tally{done: make(chan struct{})}
		c.running[queue] = t
		c.mu.Unlock()
		return c.run(ctx, queue, t)
	}
	if t := now.next; t != nil {
		c.mu.Unlock()
		<-t.done
		return t.result, t.err
	}
	t := &tally{done: make(chan struct{})}
	now.next = t
	c.mu.Unlock()
	<-now.done
	return c.run(ctx, queue, t)
}

// run makes a count for all who wait for it. It does not end with its request: the
// others may have time left.
func (c *counter) run(ctx context.Context, queue counted, t *tally) (metrics, error) {
	start := c.now()
	defer func() {
		end := c.now()
		c.mu.Lock()
		if took := end.Sub(start); took >= slowCount && t.err == nil {
			c.slow[queue] = reused{t.result, end.Add(min(took*slowFactor, slowMost))}
		}
		if t.next != nil {
			c.running[queue] = t.next
		} else {
			delete(c.running, queue)
		}
		c.mu.Unlock()
		close(t.done)
	}()
	t.result, t.err = c.count(context.WithoutCancel(ctx), queue)
	return t.result, t.err
}

// countQueue asks the engine for a queue's backlog.
func (s *server) countQueue(ctx context.Context, queue counted) (metrics, error) {
	stats, err := s.engine.QueueStats(ctx, queue.name, core.QueueModeGroup)
	if err != nil {
		return metrics{}, err
	}
	return showMetrics(&stats), nil
}
