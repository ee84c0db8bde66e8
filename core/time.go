package core

import (
	"time"
)

// Time is a moment in microseconds since the Unix epoch, UTC. Zero means "none".
// It is the resolution that all three protocols can show and both stores can sort.
type Time int64

// TimeOf converts a time.Time, cutting what is below a microsecond.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixMicro())
}

// Std converts to time.Time in UTC; zero becomes the zero time.Time.
func (t Time) Std() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(t)).UTC()
}

// Add returns t moved by d, at microsecond resolution.
func (t Time) Add(d time.Duration) Time { return t + Time(d/time.Microsecond) }

// Sub returns t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t-u) * time.Microsecond }

// Milli returns milliseconds since the Unix epoch.
func (t Time) Milli() int64 { return int64(t) / 1000 }

// Second returns whole seconds since the Unix epoch.
func (t Time) Second() int64 { return int64(t) / 1_000_000 }

// Clock tells the engine's time and wakes it. One clock serves one store: deadlines,
// due times, windows and retention are compared with it alone.
type Clock interface {
	// Now returns the current time; it never goes back.
	Now() Time
	// AfterFunc calls f once, in its own goroutine, when Now has reached at. The returned
	// function cancels the call; it reports whether the call had not begun.
	AfterFunc(at Time, f func()) (stop func() bool)
}

// SystemClock is wall time at its creation plus monotonic time since, so that a
// later step of the wall clock does not expire leases or bend windows.
type SystemClock struct {
	start time.Time
	wall  Time
}

// NewSystemClock returns a clock that starts at the current wall time.
func NewSystemClock() *SystemClock {
	now := time.Now() //nolint:forbidigo // the one place where wall time enters the engine
	return &SystemClock{start: now, wall: TimeOf(now)}
}

// Now implements Clock.
func (c *SystemClock) Now() Time { return c.wall.Add(time.Since(c.start)) }

// AfterFunc implements Clock.
func (c *SystemClock) AfterFunc(at Time, f func()) func() bool {
	d := at.Sub(c.Now())
	if d < 0 {
		d = 0
	}
	return time.AfterFunc(d, f).Stop
}
