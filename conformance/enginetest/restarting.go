package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Restarting checks that what was answered survives the engine, and that what came due in between happens after the start.
func Restarting(t *testing.T, open Open) {
	cases(t, open, map[string]func(*rig){
		"leases stay":                            restartLeases,
		"leases that ran out meanwhile":          restartExpired,
		"delayed messages and retries meanwhile": restartDue,
		"messages that expired meanwhile":        restartStale,
		"ids of items and tokens stay valid":     restartIDs,
		"counts and options":                     restartCounts,
		"requests that a closing engine holds":   restartHeld,
		"the secret":                             restartSecret,
	})
}

// after stops the engine, lets time pass and starts another over the same store.
func (r *rig) after(d time.Duration) {
	r.t.Helper()
	r.stop()
	r.clock.Advance(d)
	r.start()
}

func restartLeases(r *rig) {
	r.push("q", 1, 4)
	b := r.pop("q", "", 2)
	r.after(time.Second)
	require.Empty(r.t, r.pop("q", "", 2).names())
	require.Equal(r.t, core.CodeLeaseLost, core.CodeOf(r.ack("q", "", uuid.New(), "m1", core.AckCompleted).Err))
	require.True(r.t, r.ack("q", "", b.lease, "m2", core.AckCompleted).Released)
	require.Equal(r.t, []string{"m3", "m4"}, r.pop("q", "", 2).names())
}

func restartExpired(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, 24*time.Hour))
	r.push("q", 1, 2)
	b := r.lease("q", 2)
	r.after(2 * time.Minute)
	c := r.begin(waitingLease("q", 10, time.Hour))
	a := c.answer()
	require.NoError(r.t, a.err)
	require.Equal(r.t, []string{"m1", "m2"}, a.names())
	require.EqualValues(r.t, 2, a.at(r.t, 1).Attempt)
	require.Equal(r.t, core.CodeNoMessage, core.CodeOf(r.complete("q", b.at(r.t, 1))))
}

func restartDue(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Hour, 24*time.Hour))
	r.push("q", 1, 1)
	require.NoError(r.t, r.retry("q", r.Now().Add(20*time.Second), r.lease("q", 1).at(r.t, 1)))
	r.pushAt("q", "late", r.Now().Add(10*time.Second))
	r.after(time.Second)
	c := r.park(waitingLease("q", 10, time.Hour))
	c.waits("q")
	c.cancel()
	require.Equal(r.t, core.CodeCanceled, c.code())
	r.after(time.Minute)
	r.eventually(func() bool {
		s, err := r.QueueStats(context.Background(), "q", "")
		require.NoError(r.t, err)
		return s.Total.Unleased() == 2 && s.Total.Later.Messages == 0
	}, "what came due meanwhile is missing")
	require.ElementsMatch(r.t, []string{"m1", "late"}, r.lease("q", 10).names())
}

func restartStale(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Hour, time.Minute))
	r.push("q", 1, 2)
	require.Len(r.t, r.lease("q", 1).names(), 1)
	r.after(time.Hour)
	require.Empty(r.t, r.lease("q", 10).names())
	r.settleDown("q")
	require.Zero(r.t, r.pending("q", ""))
	require.EqualValues(r.t, 3, r.log("q").Start)
}

func restartIDs(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Hour, 24*time.Hour), cloudflare(3, time.Hour))
	r.push("q", 1, 4)
	b := r.lease("q", 2)
	c := r.pull("q", 2)
	require.NoError(r.t, r.retry("q", 0, b.at(r.t, 1)))
	d := r.lease("q", 1)
	require.Equal(r.t, []int64{1}, d.offsets())
	r.after(time.Second)
	require.Equal(r.t, core.CodeNoMessage, core.CodeOf(r.complete("q", b.at(r.t, 1))))
	require.NoError(r.t, r.complete("q", d.at(r.t, 1), b.at(r.t, 2)))
	require.True(r.t, r.settle("q", core.MessageSettlement{MessageToken: r.token("q", c.at(r.t, 3))})[0].Counted)
	require.True(r.t, r.settle("q", core.MessageSettlement{MessageToken: r.token("q", c.at(r.t, 4)), Outcome: core.OutcomeRetry})[0].Counted)
	require.Equal(r.t, []int64{4}, r.pull("q", 10).offsets())
}

func restartCounts(r *rig) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(3, time.Hour), func(o *core.QueueOptions) { o.DeliveryPaused = true })
	r.push("q", 1, 5)
	r.pushAt("q", "late", r.Now().Add(time.Hour))
	before, err := r.QueueStats(context.Background(), "q", "")
	require.NoError(r.t, err)
	r.after(time.Second)
	s, err := r.QueueStats(context.Background(), "q", "")
	require.NoError(r.t, err)
	require.Equal(r.t, before.Total.Pending, s.Total.Pending)
	require.Equal(r.t, before.Total.OldestAt, s.Total.OldestAt)
	_, err = r.Claim(context.Background(), waitingPop("q", "", 1, 0))
	require.Equal(r.t, core.CodePaused, core.CodeOf(err))
}

func restartHeld(r *rig) {
	r.push("q", 1, 1)
	b := r.pop("q", "", 1)
	part := r.partition("q").ID
	require.NoError(r.t, r.Pause(context.Background(), "q", true))
	c := r.park(waitingPop("q", "g", 1, time.Hour))
	errs := make(chan error, 2)
	go func() {
		_, err := r.pushNamed(false, "late")
		errs <- err
	}()
	go func() {
		out, err := r.Ack(context.Background(), []core.Ack{{Partition: part, TransactionID: "m1", Lease: b.lease}})
		if err == nil {
			err = out[0].Err
		}
		errs <- err
	}()
	r.eventually(func() bool {
		s, err := r.QueueStats(context.Background(), "q", "")
		require.NoError(r.t, err)
		return s.PushesWaiting == 1 && s.SettlesWaiting == 1
	}, "the requests are not held")
	r.stop()
	require.Equal(r.t, core.CodeClosed, c.code())
	for range 2 {
		require.Equal(r.t, core.CodeClosed, core.CodeOf(<-errs))
	}
	r.start()
	require.EqualValues(r.t, 1, r.pending("q", ""))
	require.True(r.t, r.ack("q", "", b.lease, "m1", core.AckCompleted).Released)
}

func restartSecret(r *rig) {
	secret := r.Secret()
	require.Len(r.t, secret, 32)
	r.after(time.Second)
	require.Equal(r.t, secret, r.Secret())
}
