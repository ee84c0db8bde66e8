package app

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasehold/leasehold/core"
)

// at is a moment that many seconds after an arbitrary one.
func at(seconds int) core.Time { return core.TimeOf(time.Unix(1_900_000_000+int64(seconds), 0)) }

// armed returns a counter of how often a timer for a moment has fired.
func armed(c core.Clock, when core.Time) (*atomic.Int32, func() bool) {
	n := &atomic.Int32{}
	return n, c.AfterFunc(when, func() { n.Add(1) })
}

func TestFrozenClockMovesOnlyWhenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newAdjustableClock(core.NewSystemClock())
		c.freeze(at(0))
		time.Sleep(time.Hour)
		assert.Equal(t, at(0), c.Now())
		c.advance(90 * time.Second)
		assert.Equal(t, at(90), c.Now())
	})
}

func TestAdvanceFiresWhatItPassesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newAdjustableClock(core.NewSystemClock())
		c.freeze(at(0))
		early, _ := armed(c, at(10))
		late, _ := armed(c, at(20))
		stopped, stop := armed(c, at(10))
		assert.True(t, stop())
		assert.False(t, stop(), "stopped before")
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Zero(t, early.Load(), "frozen")
		c.advance(10 * time.Second)
		synctest.Wait()
		assert.EqualValues(t, 1, early.Load())
		assert.Zero(t, late.Load())
		assert.Zero(t, stopped.Load())
		c.advance(time.Hour)
		synctest.Wait()
		assert.EqualValues(t, 1, early.Load())
		assert.EqualValues(t, 1, late.Load())
	})
}

func TestTimersFollowARunningClockThatIsAdvanced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newAdjustableClock(core.NewSystemClock())
		n, _ := armed(c, c.Now().Add(time.Hour))
		c.advance(59 * time.Minute)
		synctest.Wait()
		assert.Zero(t, n.Load())
		time.Sleep(61 * time.Second)
		synctest.Wait()
		assert.EqualValues(t, 1, n.Load(), "the rest of the hour has passed by itself")
	})
}

func TestUnfreezeLetsTimersRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := core.NewSystemClock()
		c := newAdjustableClock(base)
		c.freeze(base.Now().Add(-time.Hour))
		n, _ := armed(c, base.Now().Add(time.Minute))
		c.unfreeze()
		assert.Equal(t, base.Now(), c.Now())
		time.Sleep(30 * time.Second)
		synctest.Wait()
		assert.Zero(t, n.Load())
		time.Sleep(31 * time.Second)
		synctest.Wait()
		assert.EqualValues(t, 1, n.Load())
	})
}

func TestTimerOfThePastFiresAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newAdjustableClock(core.NewSystemClock())
		c.freeze(at(0))
		n, stop := armed(c, at(-1))
		synctest.Wait()
		assert.EqualValues(t, 1, n.Load())
		assert.False(t, stop())
	})
}
