package app

import (
	"sync"
	"time"

	"github.com/leasehold/leasehold/core"
)

// adjustableClock is the engine's clock of a server with a control listener:
// it runs like the clock below it until a test freezes it, and then moves only
// when told. Timers follow: what an advance passes fires at once.
type adjustableClock struct {
	base core.Clock

	mu     sync.Mutex
	frozen bool
	// at is the time while frozen; shift is added to base while running.
	at     core.Time
	shift  time.Duration
	timers map[*clockTimer]struct{}
}

// clockTimer is one pending AfterFunc. While the clock runs, stopBase cancels
// the timer of the clock below.
type clockTimer struct {
	at       core.Time
	f        func()
	stopBase func() bool
}

// newAdjustableClock returns a clock that runs with base until it is frozen.
func newAdjustableClock(base core.Clock) *adjustableClock {
	return &adjustableClock{base: base, timers: map[*clockTimer]struct{}{}}
}

// Now implements core.Clock.
func (c *adjustableClock) Now() core.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *adjustableClock) now() core.Time {
	if c.frozen {
		return c.at
	}
	return c.base.Now().Add(c.shift)
}

// AfterFunc implements core.Clock.
func (c *adjustableClock) AfterFunc(at core.Time, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &clockTimer{at: at, f: f}
	c.timers[t] = struct{}{}
	c.arm(t)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.take(t)
	}
}

// arm makes t fire when its time comes: at once if it has, by the clock below
// while this one runs, and by a later advance while it is frozen.
func (c *adjustableClock) arm(t *clockTimer) {
	switch {
	case t.at <= c.now():
		if c.take(t) {
			go t.f()
		}
	case !c.frozen:
		t.stopBase = c.base.AfterFunc(t.at.Add(-c.shift), func() { c.fire(t) })
	}
}

// fire runs t unless it was stopped, or re-armed by a change of the clock in
// the meantime.
func (c *adjustableClock) fire(t *clockTimer) {
	c.mu.Lock()
	run := t.at <= c.now() && c.take(t)
	c.mu.Unlock()
	if run {
		t.f()
	}
}

// take removes t from what is pending and says whether it was.
func (c *adjustableClock) take(t *clockTimer) bool {
	if _, pending := c.timers[t]; !pending {
		return false
	}
	delete(c.timers, t)
	if t.stopBase != nil {
		t.stopBase()
	}
	return true
}

// rearm arms every pending timer anew after the clock was changed.
func (c *adjustableClock) rearm() {
	for t := range c.timers {
		if t.stopBase != nil {
			t.stopBase()
			t.stopBase = nil
		}
		c.arm(t)
	}
}

// freeze stops the clock at a time, which may lie before the present one: a
// test that sets the clock knows what it does.
func (c *adjustableClock) freeze(at core.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen, c.at = true, at
	c.rearm()
}

// advance moves the clock forward, frozen or running, and fires what that
// passes.
func (c *adjustableClock) advance(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frozen {
		c.at = c.at.Add(by)
	} else {
		c.shift += by
	}
	c.rearm()
}

// unfreeze lets the clock run with the clock below again, without any shift.
func (c *adjustableClock) unfreeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen, c.shift = false, 0
	c.rearm()
}
