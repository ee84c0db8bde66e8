package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Buffering checks the options by which Queen withholds messages so that batches fill.
func Buffering(t *testing.T, open Open) {
	cases(t, open, map[string]func(*rig){
		"a window after the first unseen message":  bufferWindow,
		"a window that a trickle does not extend":  bufferTrickle,
		"a window that is full":                    bufferFull,
		"a window does not withhold what was out":  bufferRedelivery,
		"a hold for a batch that does not fill":    holdUnderfull,
		"a hold that ends when the batch is full":  holdFull,
		"a hold within the claim's own wait":       holdDeadline,
		"a hold for nobody else":                   holdOthers,
		"a hold whose first message another takes": holdTaken,
		"a delay of a message that is too young":   delayYoung,
	})
	for name, option := range map[string]func(*core.QueueOptions){"a delay": delayed(2), "a window": windowed(2)} {
		t.Run(name+" that ends while a claim looks", func(t *testing.T) {
			var h *hooked
			showMeanwhile(newRig(t, hook(open, &h)), h, option)
		})
	}
}

// showMeanwhile has a message that is hidden from a claim show before the pass is over that found it hidden.
func showMeanwhile(r *rig, h *hooked, option func(*core.QueueOptions)) {
	r.queue("q", core.ProtocolQueen, option)
	r.push("q", 1, 1)
	reached, release := h.hold()
	c := r.begin(waitingPop("q", "", 10, time.Minute))
	<-reached
	r.clock.Advance(2 * time.Second)
	release()
	require.Equal(r.t, []string{"m1"}, c.names())
}

func windowed(seconds int64) func(*core.QueueOptions) {
	return func(o *core.QueueOptions) { o.Queen.WindowBufferSeconds = seconds }
}

func bufferWindow(r *rig) {
	r.queue("q", core.ProtocolQueen, windowed(2))
	r.push("q", 1, 3)
	require.Empty(r.t, r.pop("q", "", 10).names())
	c := r.park(waitingPop("q", "", 10, time.Minute))
	r.clock.Advance(2*time.Second - time.Microsecond)
	c.waits("q")
	r.clock.Advance(time.Microsecond)
	require.Equal(r.t, []string{"m1", "m2", "m3"}, c.names())
	require.Equal(r.t, []string{"m1", "m2", "m3"}, r.pop("q", "late", 10).names(), "the window is the messages', not the group's")
}

func bufferTrickle(r *rig) {
	r.queue("q", core.ProtocolQueen, windowed(2))
	c := r.park(waitingPop("q", "", 100, time.Minute))
	for i := 1; i <= 4; i++ {
		r.push("q", i, i)
		c.waits("q")
		r.clock.Advance(500 * time.Millisecond)
	}
	require.Equal(r.t, []string{"m1", "m2", "m3", "m4"}, c.names())
}

func bufferFull(r *rig) {
	r.queue("q", core.ProtocolQueen, windowed(60))
	c := r.park(waitingPop("q", "", 1000, time.Hour))
	r.push("q", 1, 99)
	c.waits("q")
	r.push("q", 100, 100)
	require.Len(r.t, c.names(), 100)
}

func bufferRedelivery(r *rig) {
	r.queue("q", core.ProtocolQueen, windowed(2))
	r.push("q", 1, 2)
	r.clock.Advance(2 * time.Second)
	b := r.pop("q", "", 10)
	require.Len(r.t, b.names(), 2)
	r.push("q", 3, 3)
	require.True(r.t, r.ack("q", "", b.lease, "m1", core.AckFailed).Released)
	require.Equal(r.t, []string{"m1", "m2"}, r.pop("q", "", 10).names())
}

func holding(millis int64) func(*core.QueueOptions) {
	return func(o *core.QueueOptions) { o.Queen.MinPopWaitMillis = millis }
}

func holdUnderfull(r *rig) {
	r.queue("q", core.ProtocolQueen, holding(500))
	c := r.park(waitingPop("q", "", 10, time.Minute))
	r.push("q", 1, 1)
	c.waits("q")
	r.clock.Advance(300 * time.Millisecond)
	r.push("q", 2, 2)
	c.waits("q")
	r.clock.Advance(200*time.Millisecond - time.Microsecond)
	c.waits("q")
	r.clock.Advance(time.Microsecond)
	require.Equal(r.t, []string{"m1", "m2"}, c.names())
}

func holdFull(r *rig) {
	r.queue("q", core.ProtocolQueen, holding(60_000))
	c := r.park(waitingPop("q", "", 3, time.Hour))
	r.push("q", 1, 2)
	c.waits("q")
	r.push("q", 3, 4)
	require.Equal(r.t, []string{"m1", "m2", "m3"}, c.names())
}

func holdDeadline(r *rig) {
	r.queue("q", core.ProtocolQueen, holding(60_000))
	c := r.park(waitingPop("q", "", 3, time.Second))
	r.push("q", 1, 1)
	c.waits("q")
	r.clock.Advance(time.Second - 2*time.Millisecond)
	c.waits("q")
	r.clock.Advance(2 * time.Millisecond)
	require.Equal(r.t, []string{"m1"}, c.names(), "the end of the wait delivers what is there")
}

func holdOthers(r *rig) {
	r.queue("q", core.ProtocolQueen, holding(60_000))
	r.push("q", 1, 4)
	require.Equal(r.t, []string{"m1"}, r.claim(waitingPop("q", "one", 1, time.Hour)).names(), "a batch of one is full")
	require.Len(r.t, r.claim(waitingPop("q", "none", 10, 0)).names(), 4, "who does not wait is not held")
	named := waitingPop("q", "named", 10, time.Hour)
	named.Partition = core.DefaultPartition
	require.Len(r.t, r.claim(named).names(), 4)
	require.Len(r.t, r.lease("q", 10).names(), 4, "other protocols do not know it")
}

func holdTaken(r *rig) {
	r.queue("q", core.ProtocolQueen, holding(500))
	c := r.park(waitingPop("q", "", 10, time.Minute))
	r.push("q", 1, 1)
	c.waits("q")
	other := waitingPop("q", "", 10, 0)
	other.Partition = core.DefaultPartition
	require.Equal(r.t, []string{"m1"}, r.claim(other).names())
	_, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: []core.PushItem{
		{Queue: "q", Partition: "other", NewMessage: core.NewMessage{TransactionID: "m2"}},
	}})
	require.NoError(r.t, err)
	c.waits("q")
	r.clock.Advance(500 * time.Millisecond)
	require.Equal(r.t, []string{"m2"}, c.names())
}

func delayYoung(r *rig) {
	r.queue("q", core.ProtocolQueen, delayed(2))
	r.push("q", 1, 1)
	r.clock.Advance(time.Second)
	r.push("q", 2, 2)
	r.clock.Advance(time.Second)
	b := r.pop("q", "", 10)
	require.Equal(r.t, []string{"m1"}, b.names(), "a young message hides what is behind it, not what is before")
	require.True(r.t, r.ack("q", "", b.lease, "m1", core.AckRetry).Released)
	require.Equal(r.t, []string{"m1"}, r.pop("q", "", 10).names())
}
