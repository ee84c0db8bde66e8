package blackbox

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// backWithin is how long after its database's start a server may need to work again, which the database's own recovery is a part of.
const backWithin = 15 * time.Second

// databaseRound kills the database under load while the server lives, and now and then the server too. What was acknowledged stays; what was
// under way may have happened or not.
func (c *crash) databaseRound(t *testing.T, round int) {
	t.Helper()
	l := c.load(fmt.Sprintf("d%d", round))
	l.faulty = true
	loading, stop := context.WithCancel(t.Context())
	defer stop()
	wait := l.run(loading)
	time.Sleep(time.Duration(300+l.dice.upTo(900)) * time.Millisecond) // load, for a while
	c.at.database.Kill(t)
	c.outages++
	time.Sleep(time.Duration(l.dice.upTo(700)) * time.Millisecond) // requests meet the outage
	both := l.dice.within(30)
	if both {
		stop()
		c.server.Kill(t)
		wait()
		c.server.forgive()
	}
	c.at.database.Start(t)
	began := time.Now()
	if both {
		l.Conn.Close()
		c.restart(t)
		c.server.spoolEmpty(t)
		return
	}
	done := func() int64 { return l.requests.Load() - l.failures.Load() }
	before := done()
	require.Eventually(t, func() bool { return done() > before+100 }, backWithin, 10*time.Millisecond, "the server does not go on by itself")
	c.back = append(c.back, time.Since(began))
	time.Sleep(time.Duration(l.dice.upTo(300)) * time.Millisecond) // load, for a while more
	stop()
	wait()
	l.Conn.Close()
	c.server.spoolEmpty(t)
	assert.LessOrEqual(t, c.server.forgive(), 2, "one line tells of an outage, and one more of a database that takes no connection yet")
}

// mean returns the average, 0 of none.
func mean(of []time.Duration) time.Duration {
	sum := time.Duration(0)
	for _, d := range of {
		sum += d
	}
	return sum / time.Duration(max(len(of), 1))
}
