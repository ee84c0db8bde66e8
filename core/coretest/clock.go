// Package coretest has what tests of the core, the stores and the adapters share: a clock that the test moves, and
// factories for messages and segments.
package coretest

import (
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/core"
)

// Start is the moment at which clocks of tests begin unless they say otherwise.
var Start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Clock is a core.Clock that stands still until a test moves it. It may be used from any goroutine.
type Clock struct {
	mu     sync.Mutex
	now    core.Time
	timers []*timer
}

type timer struct {
	at core.Time
	f  func()
}

// New returns a clock that shows t.
func New(t time.Time) *Clock { return &Clock{now: core.TimeOf(t)} }

// Now implements core.Clock.
func (c *Clock) Now() core.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc implements core.Clock. A moment that has passed calls f at once.
func (c *Clock) AfterFunc(at core.Time, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at <= c.now {
		go f()
		return func() bool { return false }
	}
	t := &timer{at: at, f: f}
	c.timers = append(c.timers, t)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.timers, t)
		if i < 0 {
			return false
		}
		c.timers = slices.Delete(c.timers, i, i+1)
		return true
	}
}

// Advance moves the clock by d and calls what has come due, each in its own goroutine.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move(c.now.Add(d))
}

// Set moves the clock to t. A clock never goes back: an earlier t changes nothing.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move(core.TimeOf(t))
}

// Timers returns how many calls are waiting for their time.
func (c *Clock) Timers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

// Next returns the moment of the earliest waiting call, zero when there is none.
func (c *Clock) Next() core.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	var next core.Time
	for _, t := range c.timers {
		if next == 0 || t.at < next {
			next = t.at
		}
	}
	return next
}

func (c *Clock) move(to core.Time) {
	if to <= c.now {
		return
	}
	c.now = to
	var due []*timer
	c.timers = slices.DeleteFunc(c.timers, func(t *timer) bool {
		if t.at > to {
			return false
		}
		due = append(due, t)
		return true
	})
	slices.SortStableFunc(due, func(a, b *timer) int { return int(a.at - b.at) })
	for _, t := range due {
		go t.f()
	}
}
