package postgres

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/core"
)

const (
	// clockProbes set the clock; the quickest of them counts.
	clockProbes = 3
	// clockStep is from which difference on a setting is worth a line in the log.
	clockStep = time.Second
)

// clock is the database's clock, carried on by this process's monotonic one. It never goes back: where the database's is set
// back, it goes at half the speed until the two meet.
type clock struct {
	mono core.Clock
	log  *slog.Logger

	mu sync.Mutex
	// ahead is how far the database's clock is ahead of mono; extra how much more this clock shows, as of the moment at.
	ahead, extra time.Duration
	at           core.Time
	timers       map[*clockTimer]struct{}
}

// clockTimer is a call of AfterFunc that has not begun.
type clockTimer struct {
	at    core.Time
	f     func()
	timer *time.Timer
}

func newClock(mono core.Clock, log *slog.Logger) *clock {
	return &clock{mono: mono, log: log, timers: map[*clockTimer]struct{}{}}
}

// Now implements core.Clock.
func (c *clock) Now() core.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now(c.mono.Now())
}

// now returns the time at a moment of mono.
func (c *clock) now(mono core.Time) core.Time {
	return mono.Add(c.ahead + c.left(mono))
}

// left returns how much more than the database's clock this one shows.
func (c *clock) left(mono core.Time) time.Duration {
	return max(c.extra-mono.Sub(c.at)/2, 0)
}

// set takes note of what the database's clock showed at a moment of mono.
func (c *clock) set(database, mono core.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.at == 0
	shown := c.now(mono)
	c.ahead, c.at, c.extra = database.Sub(mono), mono, 0
	if first {
		return
	}
	step := database.Sub(shown)
	c.extra = max(-step, 0)
	if step.Abs() >= clockStep {
		c.log.Warn("the clock of the database was set, or another database has taken over", "step", step)
	}
	if step > 0 {
		for t := range c.timers {
			t.timer.Reset(c.until(t.at))
		}
	}
}

// until returns how long to wait for a moment of this clock, or a little less.
func (c *clock) until(at core.Time) time.Duration {
	return max(at.Sub(c.now(c.mono.Now())), 0)
}

// AfterFunc implements core.Clock.
func (c *clock) AfterFunc(at core.Time, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &clockTimer{at: at, f: f}
	c.timers[t] = struct{}{}
	t.timer = time.AfterFunc(c.until(at), func() { c.fire(t) })
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waiting := c.timers[t]
		delete(c.timers, t)
		t.timer.Stop()
		return waiting
	}
}

// fire calls a timer's function, or waits on where the clock has not reached its moment.
func (c *clock) fire(t *clockTimer) {
	c.mu.Lock()
	_, waiting := c.timers[t]
	left := c.until(t.at)
	if waiting && left > 0 {
		t.timer.Reset(left)
	}
	if left <= 0 {
		delete(c.timers, t)
	}
	c.mu.Unlock()
	if waiting && left <= 0 {
		t.f()
	}
}

// setClock sets the clock by the database's.
func (s *Store) setClock(ctx context.Context, conn *pgxpool.Conn) error {
	var best time.Duration
	var database, mono core.Time
	for i := range clockProbes + 1 { // the first one prepares the statement
		var t core.Time
		sent := s.mono.Now()
		if err := conn.QueryRow(ctx, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").Scan(&t); err != nil {
			return err
		}
		if took := s.mono.Now().Sub(sent); i > 0 && (best == 0 || took < best) {
			best, database, mono = took, t, sent.Add(took/2)
		}
	}
	s.clock.set(database, mono)
	return nil
}

// Recalls implements core.Shared.
func (*Store) Recalls() bool { return recalls }

// Clock implements core.Shared.
func (s *Store) Clock() core.Clock { return s.clock }
