package enginetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// countingClock counts how often the engine looks at it: an engine at rest does not.
type countingClock struct {
	core.Clock
	looks atomic.Int64
}

// Now implements core.Clock.
func (c *countingClock) Now() core.Time {
	c.looks.Add(1)
	return c.Clock.Now()
}

// Resting checks that an engine in which nothing can happen before the clock moves does nothing, whatever waits in it.
func Resting(t *testing.T, open Open) {
	for name, run := range map[string]func(*rig){
		"with nothing":                          func(*rig) {},
		"with a claim on another partition":     restNamed,
		"with a claim under an exclusive lease": restLeased,
		"with hidden messages":                  restHidden,
		"with a batch that may fill":            restHeld,
		"with discovery that finds nothing":     restDiscovery,
		"with a paused queue":                   restPaused,
		"with delivery paused":                  restDelivery,
		"with retries and delays to come":       restLater,
		"with dealt claims on a leased queue":   restDealt,
		"with a group that begins later":        restFuture,
		"after a seek, a purge and a deletion":  restChanged,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, open)
			r.stop()
			clock := &countingClock{Clock: r.clock}
			r.start(func(o *core.Options) { o.Clock = clock })
			run(r)
			r.queue("other", core.ProtocolQueen)
			r.settleDown("other")
			time.Sleep(5 * time.Millisecond)
			before := clock.looks.Load()
			time.Sleep(30 * time.Millisecond)
			require.Less(t, clock.looks.Load()-before, int64(20), "the engine keeps itself busy")
		})
	}
}

func restNamed(r *rig) {
	r.pushTo("q", "a", "b")
	p := waitingPop("q", "", 5, time.Hour)
	p.Partition = "a"
	require.Len(r.t, r.claim(p).payloads(), 1)
	r.park(p)
	p.Partition = "none yet"
	r.park(p)
}

func restLeased(r *rig) {
	r.push("q", 1, 10)
	require.Len(r.t, r.pop("q", "", 5).names(), 5)
	r.park(waitingPop("q", "", 5, time.Hour))
	r.park(core.ClaimParams{Protocol: core.ProtocolCloudflare, Queue: "q", Messages: 5, Wait: time.Hour})
}

func restHidden(r *rig) {
	r.queue("q", core.ProtocolQueen, delayed(60))
	r.queue("w", core.ProtocolQueen, windowed(60))
	r.push("q", 1, 3)
	r.push("w", 1, 3)
	r.park(waitingPop("q", "", 5, time.Hour))
	r.park(waitingPop("w", "", 5, time.Hour))
}

func restHeld(r *rig) {
	r.queue("q", core.ProtocolQueen, holding(60_000))
	r.push("q", 1, 3)
	r.park(waitingPop("q", "", 5, time.Hour))
}

func restDiscovery(r *rig) {
	r.pushTo("n.a", "x")
	r.pushTo("n.b", "y")
	for range 2 {
		require.NotEmpty(r.t, r.claim(discovery("n", "", 1, time.Hour)).payloads())
	}
	r.begin(discovery("n", "", 5, time.Hour))
	r.begin(discovery("none", "", 5, time.Hour))
}

func restPaused(r *rig) {
	r.push("q", 1, 3)
	require.NoError(r.t, r.Pause(context.Background(), "q", true))
	r.park(waitingPop("q", "", 5, time.Hour))
}

func restDelivery(r *rig) {
	r.queue("q", core.ProtocolQueen)
	r.park(waitingPop("q", "", 5, time.Hour))
	r.configure("q", func(o *core.QueueOptions) { o.DeliveryPaused = true })
	r.push("q", 1, 3)
}

func restLater(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Hour, 2*time.Hour))
	r.push("q", 1, 2)
	b := r.lease("q", 2)
	require.NoError(r.t, r.retry("q", r.Now().Add(time.Minute), b.at(r.t, 1)))
	r.pushAt("q", "late", r.Now().Add(time.Minute))
	r.park(waitingLease("q", 5, time.Hour))
}

func restDealt(r *rig) {
	r.queratorQueue("q", 3)
	r.produce("q", 5)
	for _, l := range []int{2, 3} {
		require.Len(r.t, r.lease("q", l).offsets(), l)
	}
	r.parkLeases("q", 5, 5, 5)
	p := waitingLease("q", 5, time.Hour)
	p.Partition = "2"
	r.park(p)
}

func restFuture(r *rig) {
	r.push("q", 1, 3)
	p := waitingPop("q", "g", 5, time.Hour)
	p.SubscribeFrom = r.Now().Add(time.Minute)
	r.park(p)
	r.push("q", 4, 5)
}

func restChanged(r *rig) {
	ctx := context.Background()
	r.push("q", 1, 3)
	require.Len(r.t, r.pop("q", "g", 3).names(), 3)
	_, err := r.Seek(ctx, core.SeekParams{Queue: "q", Group: "g", ToEnd: true})
	require.NoError(r.t, err)
	r.park(waitingPop("q", "g", 5, time.Hour))
	require.NoError(r.t, r.Purge(ctx, "q"))
	r.push("p", 1, 1)
	require.Len(r.t, r.claim(waitingPop("p", "late", 5, time.Minute)).names(), 1)
	require.NoError(r.t, r.DeleteQueue(ctx, "p", true))
}
