package target

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// patience is how long a test without a clock may let time pass, per step.
const patience = 3 * time.Second

// settled is how long a consumer gets to arrive where nobody can say that it waits.
const settled = 150 * time.Millisecond

// remoteClock moves the clocks of all replicas.
type remoteClock struct {
	tb testing.TB
	r  *Remote
}

// Clock returns the server's clock for a test.
func (r *Remote) Clock(tb testing.TB) Clock { return remoteClock{tb, r} }

// Now implements Clock.
func (c remoteClock) Now() core.Time {
	c.tb.Helper()
	if len(c.r.controls) == 0 {
		return core.TimeOf(time.Now())
	}
	now := c.r.now(c.tb, c.r.controls[0])
	return core.TimeOf(now.AddDate(0, 0, -c.r.shift.days))
}

// Advance implements Clock.
func (c remoteClock) Advance(d time.Duration) {
	c.tb.Helper()
	switch {
	case len(c.r.controls) > 0:
		c.move(d)
	case d > patience:
		c.tb.Skipf("needs a clock that can be moved: %s", d)
	default:
		time.Sleep(d)
	}
}

// Set implements Clock.
func (c remoteClock) Set(t time.Time) {
	c.tb.Helper()
	c.Advance(max(0, t.Sub(c.Now().Std())))
}

func (c remoteClock) move(d time.Duration) {
	c.tb.Helper()
	if d >= followEvery {
		c.look()
	}
	for _, control := range c.r.controls {
		c.r.call(c.tb, http.MethodPost, control+"/clock", fmt.Sprintf(`{"op":"advance","by":%q}`, d))
	}
	// What came due at one replica holds rows that a claim at another passes over: it is done when they have looked twice.
	c.look()
	c.look()
}

// followEvery is the time in which every replica looks at what the others did.
const followEvery = time.Second

// What has a replica look at what the others did: a question about a queue that it does not know.
const lookPath, lookBody = "/v1/queue.stats", `{"queue_name":"no-queue-has-this-name"}`

// look has replicas look at what the others did.
func (c remoteClock) look() {
	c.tb.Helper()
	if len(c.r.counters) < 2 {
		return
	}
	for _, counter := range c.r.counters {
		c.r.ask(c.tb, http.MethodPost, counter+lookPath, lookBody)
	}
}

// Waiting returns how many consumers are parked on a queue, on all replicas
// together, and whether the target can say so: Querator's statistics do.
func (r *Remote) Waiting(tb testing.TB, queue string) (int, bool) {
	tb.Helper()
	name, err := json.Marshal(queue)
	require.NoError(tb, err)
	sum := 0
	for _, base := range r.counters {
		var got struct {
			LogicalQueues []struct {
				LeaseWaiting   int `json:"lease_waiting"`
				ReserveWaiting int `json:"reserve_waiting"`
			} `json:"logicalQueues"`
		}
		status, text := r.ask(tb, http.MethodPost, base+"/v1/queue.stats", `{"queue_name":`+string(name)+`}`)
		if status != http.StatusOK {
			continue // there is no such queue
		}
		require.NoError(tb, json.Unmarshal(text, &got), "%s", text)
		for _, q := range got.LogicalQueues {
			sum += max(q.LeaseWaiting, q.ReserveWaiting)
		}
	}
	return sum, len(r.counters) > 0
}

// AwaitWaiting returns once n consumers are parked on a queue, or after a
// moment where the target cannot say.
func (r *Remote) AwaitWaiting(tb testing.TB, queue string, n int) {
	tb.Helper()
	for until := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		got, known := r.Waiting(tb, queue)
		switch {
		case !known:
			time.Sleep(settled)
			return
		case got == n:
			r.Waiting(tb, queue) // so that who waits has waited when its gateway looked, and ends with its queue
			return
		case time.Now().After(until):
			tb.Fatalf("%d consumers wait on %s, not %d", got, queue, n)
		}
	}
}

// Pause has all replicas hold what comes for a queue of Querator's, or lets it go on.
func (r *Remote) Pause(tb testing.TB, queue string, on bool) {
	tb.Helper()
	if len(r.controls) == 0 {
		tb.Skip("needs a control listener that holds queues")
	}
	name, err := json.Marshal(queue)
	require.NoError(tb, err)
	remoteClock{tb, r}.look() // one of them may not have met the queue yet
	for _, c := range r.controls {
		r.call(tb, http.MethodPost, c+"/pause", fmt.Sprintf(`{"queue_name":%s,"pause":%t}`, name, on))
	}
}

// Restart ends the replicas and starts them again on the same data, with their
// clocks where they were. Who runs the target does it (CONFORMANCE_OPERATOR).
func (r *Remote) Restart(tb testing.TB) {
	tb.Helper()
	if r.operator == "" {
		tb.Skip("restarts the server, which is not for the suite to do at this target")
	}
	at := r.Clock(tb).Now()
	r.call(tb, http.MethodPost, r.operator+"/restart", "")
	r.client.CloseIdleConnections()
	r.freeze(tb, at.Std())
}
