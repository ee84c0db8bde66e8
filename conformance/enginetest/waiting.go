package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Waking checks that everything that can make something claimable wakes a claim that waits, at that moment.
func Waking(t *testing.T, open Open) {
	cases(t, open, map[string]func(*rig){
		"a push":                               wakePush,
		"a push to a partition that is new":    wakeNewPartition,
		"a push to a queue that a pop made":    wakeCreated,
		"an acknowledgement that leaves more":  wakeAck,
		"a failed delivery":                    wakeNack,
		"a retry of a shared delivery":         wakeRetry,
		"a shared settlement frees nothing":    wakeNothing,
		"a delayed push that comes due":        wakeSchedule,
		"a retry for later that comes due":     wakeRetryLater,
		"the end of an exclusive lease":        wakeExclusiveExpiry,
		"the end of a shared lease":            wakeSharedExpiry,
		"a seek":                               wakeSeek,
		"a seek under a live lease":            wakeSeekLease,
		"a purge keeps claims waiting":         wakePurge,
		"the end of a delay that hides":        wakeHidden,
		"an option that hid messages":          wakeConfigure,
		"delivery that goes on":                wakeUnpaused,
		"a message that moves to a dead queue": wakeDeadQueue,
		"a transaction":                        wakeTransaction,
		"messages given back by a client":      wakeRelease,
		"a group that is registered":           wakeRegistered,
	})
	for name, run := range map[string]func(*rig, *hooked){
		"an acknowledgement, by its own commit":            wakeFused,
		"an acknowledgement, after one that is not stored": wakeRefused,
	} {
		t.Run(name, func(t *testing.T) {
			var h *hooked
			r := newRig(t, hook(open, &h))
			run(r, h)
		})
	}
}

func wakePush(r *rig) {
	r.queue("q", core.ProtocolQueen)
	c := r.park(waitingPop("q", "", 10, time.Minute))
	r.push("q", 1, 3)
	require.Equal(r.t, []string{"m1", "m2", "m3"}, c.names())
	require.Zero(r.t, r.claimsWaiting("q", ""))
}

func wakeNewPartition(r *rig) {
	r.queue("q", core.ProtocolQueen)
	c := r.park(waitingPop("q", "", 10, time.Minute))
	p := waitingPop("q", "", 10, time.Minute)
	p.Partition = "later"
	var d *parked
	if len(r.all) < 2 { // there is no line over two gateways
		d = r.park(p)
	}
	out, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: []core.PushItem{
		{Queue: "q", Partition: "later", NewMessage: core.NewMessage{TransactionID: "a"}},
	}})
	require.NoError(r.t, err)
	require.Equal(r.t, core.PushQueued, out[0].Status)
	require.Equal(r.t, []string{"a"}, c.names())
	if d == nil {
		return
	}
	d.waits("q")
	d.cancel()
	require.Equal(r.t, core.CodeCanceled, d.code())
}

func wakeCreated(r *rig) {
	c := r.park(waitingPop("made by a pop", "workers", 10, time.Minute))
	r.push("made by a pop", 1, 1)
	require.Equal(r.t, []string{"m1"}, c.names())
}

func wakeAck(r *rig) {
	r.push("q", 1, 5)
	b := r.pop("q", "", 2)
	c := r.park(waitingPop("q", "", 10, time.Minute))
	require.False(r.t, r.ack("q", "", b.lease, "m1", core.AckCompleted).Released)
	c.waits("q")
	require.True(r.t, r.ack("q", "", b.lease, "m2", core.AckCompleted).Released)
	require.Equal(r.t, []string{"m3", "m4", "m5"}, c.names())
}

// wakeFused has a claim wait for a partition that is leased: what ends the lease and what the claim gets is one commit.
func wakeFused(r *rig, h *hooked) {
	r.push("q", 1, 5)
	b := r.pop("q", "", 2)
	for _, end := range []struct {
		name   string
		status core.AckStatus
	}{{"m2", core.AckCompleted}, {"m3", core.AckFailed}} {
		c := r.park(waitingPop("q", "", 2, time.Minute))
		before := h.updates.Load()
		require.True(r.t, r.ack("q", "", b.lease, end.name, end.status).Released)
		next := c.answer()
		require.NoError(r.t, next.err)
		require.Equal(r.t, []string{"m3", "m4"}, next.names())
		r.settleDown("q")
		require.Equal(r.t, before+1, h.updates.Load())
		b = next.batch
	}
}

// wakeRefused has the commit fail that would end a lease: the lease is held, and claims wait for its end as before.
func wakeRefused(r *rig, h *hooked) {
	r.push("q", 1, 5)
	b := r.pop("q", "", 2)
	c := r.park(waitingPop("q", "", 10, time.Minute))
	h.set(func(h *hooked) { h.onUpdate = away })
	out, err := r.Ack(context.Background(), []core.Ack{{
		Partition: r.partition("q").ID, TransactionID: "m2", Lease: b.lease, Status: core.AckCompleted,
	}})
	require.NoError(r.t, err)
	require.Equal(r.t, core.CodeUnavailable, core.CodeOf(out[0].Err))
	require.Equal(r.t, core.CodeUnavailable, c.code())
	h.set(func(h *hooked) { h.onUpdate = nil })
	c = r.park(waitingPop("q", "", 10, time.Minute))
	c.waits("q")
	before := h.updates.Load()
	c.waits("q")
	require.Equal(r.t, before, h.updates.Load(), "a claim that waits is not tried over and over")
	require.True(r.t, r.ack("q", "", b.lease, "m2", core.AckCompleted).Released)
	require.Equal(r.t, []string{"m3", "m4", "m5"}, c.names())
}

func wakeNack(r *rig) {
	r.push("q", 1, 2)
	b := r.pop("q", "", 2)
	c := r.park(waitingPop("q", "", 10, time.Minute))
	require.True(r.t, r.ack("q", "", b.lease, "m1", core.AckFailed).Released)
	require.Equal(r.t, []string{"m1", "m2"}, c.names())
}

func wakeRetry(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, time.Hour))
	r.push("q", 1, 2)
	b := r.lease("q", 2)
	c := r.park(waitingLease("q", 10, time.Minute))
	require.NoError(r.t, r.retry("q", 0, b.at(r.t, 2)))
	require.Equal(r.t, []string{"m2"}, c.names())
}

// retry gives items of partition 0 back, to be claimable again at due.
func (r *rig) retry(queue string, due core.Time, ds ...core.Delivery) error {
	var items []core.ItemSettlement
	for _, d := range ds {
		items = append(items, core.ItemSettlement{ItemRef: item(d), Outcome: core.OutcomeRetry, Due: due})
	}
	return r.SettleItems(context.Background(), core.SettleItemsParams{Queue: queue, Items: items})
}

func wakeNothing(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, time.Hour))
	r.push("q", 1, 2)
	b := r.lease("q", 2)
	c := r.park(waitingLease("q", 10, time.Second))
	require.NoError(r.t, r.complete("q", b.at(r.t, 1), b.at(r.t, 2)))
	c.waits("q")
	r.clock.Advance(time.Second)
	require.Equal(r.t, core.CodeNothing, c.code())
}

func wakeSchedule(r *rig) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(3, time.Minute))
	p := core.ClaimParams{Protocol: core.ProtocolCloudflare, Queue: "q", Messages: 10, Wait: time.Hour}
	c := r.park(p)
	r.pushAt("q", "later", r.Now().Add(20*time.Second))
	r.pushAt("q", "sooner", r.Now().Add(10*time.Second))
	c.waits("q")
	r.clock.Advance(10*time.Second - time.Microsecond)
	c.waits("q")
	r.clock.Advance(time.Microsecond)
	require.Equal(r.t, []string{"sooner"}, c.names())
	c = r.park(p)
	r.clock.Advance(10 * time.Second)
	require.Equal(r.t, []string{"later"}, c.names())
}

// pushAt stores a message whose id is its name, to be delivered from due on.
func (r *rig) pushAt(queue, name string, due core.Time) {
	r.t.Helper()
	out, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolCloudflare, Items: []core.PushItem{
		{Queue: queue, NewMessage: core.NewMessage{TransactionID: name, Payload: []byte(name), Due: due}},
	}})
	require.NoError(r.t, err)
	require.Equal(r.t, core.PushQueued, out[0].Status)
}

func wakeRetryLater(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Hour, 24*time.Hour))
	r.push("q", 1, 2)
	b := r.lease("q", 2)
	require.NoError(r.t, r.retry("q", r.Now().Add(30*time.Second), b.at(r.t, 1)))
	c := r.park(waitingLease("q", 10, time.Minute))
	r.clock.Advance(30*time.Second - time.Microsecond)
	c.waits("q")
	r.clock.Advance(time.Microsecond)
	require.Equal(r.t, []string{"m1"}, c.names())
}

func wakeExclusiveExpiry(r *rig) {
	r.push("q", 1, 2)
	require.Len(r.t, r.pop("q", "", 1).names(), 1)
	c := r.park(waitingPop("q", "", 10, time.Hour))
	r.clock.Advance(60*time.Second - time.Microsecond)
	c.waits("q")
	r.clock.Advance(time.Microsecond)
	require.Equal(r.t, []string{"m1", "m2"}, c.names())
}

func wakeSharedExpiry(r *rig) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(3, 30*time.Second))
	r.push("q", 1, 2)
	require.Len(r.t, r.pull("q", 5).names(), 2)
	c := r.park(core.ClaimParams{Protocol: core.ProtocolCloudflare, Queue: "q", Messages: 10, Wait: time.Hour})
	r.clock.Advance(30*time.Second - time.Microsecond)
	c.waits("q")
	r.clock.Advance(time.Microsecond)
	a := c.answer()
	require.Equal(r.t, []string{"m1", "m2"}, a.names())
	require.EqualValues(r.t, 2, a.at(r.t, 1).Attempt)
}

func wakeSeek(r *rig) {
	r.push("q", 1, 3)
	b := r.pop("q", "g", 10)
	require.True(r.t, r.ack("q", "g", b.lease, "m3", core.AckCompleted).Released)
	c := r.park(waitingPop("q", "g", 10, time.Hour))
	_, err := r.Seek(context.Background(), core.SeekParams{Queue: "q", Group: "g", At: 1})
	require.NoError(r.t, err)
	require.Equal(r.t, []string{"m1", "m2", "m3"}, c.names())
}

func wakeSeekLease(r *rig) {
	r.push("q", 1, 3)
	require.Len(r.t, r.pop("q", "g", 2).names(), 2)
	c := r.park(waitingPop("q", "g", 10, time.Hour))
	_, err := r.Seek(context.Background(), core.SeekParams{Queue: "q", Group: "g", At: 1})
	require.NoError(r.t, err)
	require.Equal(r.t, []string{"m1", "m2", "m3"}, c.names())
}

func wakePurge(r *rig) {
	r.push("q", 1, 3)
	require.Len(r.t, r.pop("q", "", 2).names(), 2)
	c := r.park(waitingPop("q", "", 10, time.Hour))
	require.NoError(r.t, r.Purge(context.Background(), "q"))
	c.waits("q")
	r.push("q", 4, 4)
	require.Equal(r.t, []string{"m4"}, c.names())
}

func delayed(seconds int64) func(*core.QueueOptions) {
	return func(o *core.QueueOptions) { o.Queen.DelayedProcessingSeconds = seconds }
}

func wakeHidden(r *rig) {
	r.queue("q", core.ProtocolQueen, delayed(2))
	r.push("q", 1, 1)
	r.clock.Advance(time.Second)
	r.push("q", 2, 2)
	require.Empty(r.t, r.pop("q", "", 10).names())
	c := r.park(waitingPop("q", "", 10, time.Hour))
	r.clock.Advance(time.Second - time.Microsecond)
	c.waits("q")
	r.clock.Advance(time.Microsecond)
	a := c.answer()
	require.Equal(r.t, []string{"m1"}, a.names())
	require.True(r.t, r.ack("q", "", a.lease, "m1", core.AckCompleted).Released)
	c = r.park(waitingPop("q", "", 10, time.Hour))
	r.clock.Advance(time.Second)
	require.Equal(r.t, []string{"m2"}, c.names())
}

func (r *rig) configure(queue string, change func(*core.QueueOptions)) {
	r.t.Helper()
	_, err := r.ConfigureQueue(context.Background(), queue, func(q *core.Queue) error {
		change(&q.Options)
		return nil
	})
	require.NoError(r.t, err)
}

func wakeConfigure(r *rig) {
	r.queue("q", core.ProtocolQueen, delayed(3600))
	r.push("q", 1, 1)
	c := r.park(waitingPop("q", "", 10, time.Minute))
	r.configure("q", delayed(0))
	require.Equal(r.t, []string{"m1"}, c.names())
}

func wakeUnpaused(r *rig) {
	r.queue("q", core.ProtocolQueen)
	c := r.park(waitingPop("q", "", 10, time.Minute))
	r.configure("q", func(o *core.QueueOptions) { o.DeliveryPaused = true })
	r.push("q", 1, 1)
	c.waits("q")
	_, err := r.Claim(context.Background(), waitingPop("q", "", 1, 0))
	require.Equal(r.t, core.CodePaused, core.CodeOf(err))
	r.configure("q", func(o *core.QueueOptions) { o.DeliveryPaused = false })
	require.Equal(r.t, []string{"m1"}, c.names())
}

func wakeDeadQueue(r *rig) {
	dead := r.queue("dead", core.ProtocolQuerator, querator(time.Minute, time.Hour))
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, time.Hour), func(o *core.QueueOptions) { o.DeadQueue = dead.ID })
	r.push("q", 1, 1)
	b := r.lease("q", 1)
	c := r.park(waitingLease("dead", 10, time.Minute))
	require.NoError(r.t, r.SettleItems(context.Background(), core.SettleItemsParams{Queue: "q", Items: []core.ItemSettlement{
		{ItemRef: item(b.at(r.t, 1)), Outcome: core.OutcomeDead},
	}}))
	a := c.answer()
	require.NoError(r.t, a.err)
	require.Equal(r.t, `"m1"`, string(a.at(r.t, 1).Payload))
	require.EqualValues(r.t, 1, a.at(r.t, 1).Attempt)
}

func wakeTransaction(r *rig) {
	r.queue("q", core.ProtocolQueen)
	c := r.park(waitingPop("q", "", 10, time.Minute))
	_, err := r.Transact(context.Background(), core.TransactParams{Pushes: []core.PushItem{
		{Queue: "q", NewMessage: core.NewMessage{TransactionID: "t1"}}, {Queue: "q", NewMessage: core.NewMessage{TransactionID: "t2"}},
	}})
	require.NoError(r.t, err)
	require.Equal(r.t, []string{"t1", "t2"}, c.names())
}

func wakeRelease(r *rig) {
	r.push("q", 1, 2)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := r.Claim(ctx, waitingPop("q", "", 2, time.Minute))
	require.Equal(r.t, core.CodeCanceled, core.CodeOf(err))
	c := r.begin(waitingPop("q", "", 10, time.Minute))
	require.Equal(r.t, []string{"m1", "m2"}, c.names())
}

func wakeRegistered(r *rig) {
	r.push("q", 1, 1)
	p := waitingPop("q", "fresh", 10, time.Minute)
	p.SubscribeNew = true
	c := r.park(p)
	r.push("q", 2, 2)
	require.Equal(r.t, []string{"m2"}, c.names())
}
