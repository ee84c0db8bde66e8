package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Meeting checks that requests that meet in one pass have the effect that they would have one after the other.
func Meeting(t *testing.T, open Open) {
	cases(t, open, map[string]func(*rig){
		"a retry and an acknowledgement":            meetRetryAck,
		"a retry and a completion":                  meetRetryComplete,
		"a retry and a completion without lease":    meetRetryLeaseless,
		"a retry and a delay":                       meetRetryDelay,
		"a retry and a claim":                       meetRetryClaim,
		"an expired lease and a claim":              meetExpiryClaim,
		"two acknowledgements of one message":       meetTwoAcks,
		"a seek and an acknowledgement":             meetSeekAck,
		"an extension and an acknowledgement":       meetExtend,
		"a failure and a completion of one message": meetNackAck,
	})
}

// inOrder runs settlements that meet in one pass in this order.
func (r *rig) inOrder(queue string, run ...func()) {
	r.t.Helper()
	require.NoError(r.t, r.Pause(context.Background(), queue, true))
	done := make(chan struct{}, len(run))
	for i, f := range run {
		go func() {
			f()
			done <- struct{}{}
		}()
		r.eventually(func() bool {
			s, err := r.QueueStats(context.Background(), queue, "")
			require.NoError(r.t, err)
			return s.SettlesWaiting == i+1
		}, "the settlement does not wait")
	}
	require.NoError(r.t, r.Pause(context.Background(), queue, false))
	for range run {
		<-done
	}
}

// pulled makes a Cloudflare queue with n messages that are all leased.
func (r *rig) pulled(n int) batch {
	r.t.Helper()
	r.queue("q", core.ProtocolCloudflare, cloudflare(10, time.Minute))
	r.push("q", 1, n)
	return r.pull("q", n)
}

func meetRetryAck(r *rig) {
	b := r.pulled(2)
	token := r.token("q", b.at(r.t, 1))
	var got []core.MessageSettled
	r.inOrder("q",
		func() { r.settle("q", core.MessageSettlement{MessageToken: token, Outcome: core.OutcomeRetry}) },
		func() { got = r.settle("q", core.MessageSettlement{MessageToken: token}) },
	)
	require.True(r.t, got[0].Counted)
	require.EqualValues(r.t, 1, r.pending("q", ""))
	require.Empty(r.t, r.pull("q", 10).offsets(), "what was acknowledged is not delivered again")
}

func meetRetryDelay(r *rig) {
	b := r.pulled(2)
	token := r.token("q", b.at(r.t, 1))
	r.inOrder("q",
		func() { r.settle("q", core.MessageSettlement{MessageToken: token, Outcome: core.OutcomeRetry}) },
		func() {
			r.settle("q", core.MessageSettlement{MessageToken: token, Outcome: core.OutcomeRetry, Delay: 10 * time.Second})
		},
	)
	require.Empty(r.t, r.pull("q", 10).offsets())
	r.clock.Advance(10 * time.Second)
	require.Equal(r.t, []int64{1}, r.pull("q", 10).offsets())
}

func meetRetryComplete(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Hour, 24*time.Hour))
	r.push("q", 1, 2)
	b := r.lease("q", 2)
	var err error
	r.inOrder("q",
		func() { require.NoError(r.t, r.retry("q", 0, b.at(r.t, 1))) },
		func() { err = r.complete("q", b.at(r.t, 1)) },
	)
	require.Equal(r.t, core.CodeNoMessage, core.CodeOf(err))
	require.Equal(r.t, []int64{1}, r.lease("q", 10).offsets())
}

func meetRetryLeaseless(r *rig) {
	b := r.pulled(2)
	token := r.token("q", b.at(r.t, 1))
	var a core.Acked
	r.inOrder("q",
		func() { r.settle("q", core.MessageSettlement{MessageToken: token, Outcome: core.OutcomeRetry}) },
		func() { a = r.ack("q", "", uuid.UUID{}, "m1", core.AckCompleted) },
	)
	require.NoError(r.t, a.Err)
	require.False(r.t, a.Noop)
	require.Empty(r.t, r.pull("q", 10).offsets())
}

// meetRetryClaim shows that what is retried cannot be leased before the next pass, whatever else happens in this one.
func meetRetryClaim(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, 24*time.Hour))
	r.push("q", 1, 1)
	require.Len(r.t, r.lease("q", 1).offsets(), 1)
	r.clock.Advance(30 * time.Second)
	r.push("q", 2, 3)
	b := r.lease("q", 2)
	require.NoError(r.t, r.Pause(context.Background(), "q", true))
	c := r.park(waitingLease("q", 1, time.Hour))
	d := r.park(waitingLease("q", 1, time.Hour))
	done := make(chan error, 1)
	go func() { done <- r.retry("q", 0, b.at(r.t, 3)) }()
	r.eventually(func() bool {
		s, err := r.QueueStats(context.Background(), "q", "")
		require.NoError(r.t, err)
		return s.SettlesWaiting == 1
	}, "the settlement does not wait")
	r.clock.Advance(30 * time.Second)
	require.NoError(r.t, r.Pause(context.Background(), "q", false))
	require.NoError(r.t, <-done)
	require.Equal(r.t, []string{"m1"}, c.names())
	require.Equal(r.t, []string{"m3"}, d.names())
}

func meetExpiryClaim(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, 24*time.Hour))
	r.push("q", 1, 2)
	b := r.lease("q", 1)
	r.clock.Advance(time.Minute)
	c := r.lease("q", 2)
	require.Equal(r.t, []int64{2, 1}, c.offsets(), "what ran out goes to the tail, and can be claimed in the pass that finds it")
	require.Equal(r.t, core.CodeNoMessage, core.CodeOf(r.complete("q", b.at(r.t, 1))))
}

func meetTwoAcks(r *rig) {
	r.push("q", 1, 3)
	b := r.pop("q", "", 3)
	var first, second core.Acked
	r.inOrder("q",
		func() { first = r.ack("q", "", b.lease, "m3", core.AckCompleted) },
		func() { second = r.ack("q", "", b.lease, "m3", core.AckCompleted) },
	)
	require.True(r.t, first.Released)
	require.Equal(r.t, core.CodeLeaseLost, core.CodeOf(second.Err))
}

func meetSeekAck(r *rig) {
	r.push("q", 1, 3)
	b := r.pop("q", "g", 3)
	var a core.Acked
	r.inOrder("q",
		func() {
			_, err := r.Seek(context.Background(), core.SeekParams{Queue: "q", Group: "g", At: 1})
			require.NoError(r.t, err)
		},
		func() { a = r.ack("q", "g", b.lease, "m3", core.AckCompleted) },
	)
	require.Equal(r.t, core.CodeLeaseLost, core.CodeOf(a.Err))
	require.Equal(r.t, "F=0", r.show("q", "g"))
}

func meetExtend(r *rig) {
	r.push("q", 1, 2)
	b := r.pop("q", "", 2)
	var a core.Acked
	r.inOrder("q",
		func() { a = r.ack("q", "", b.lease, "m2", core.AckCompleted) },
		func() { r.ack("q", "", b.lease, "m1", core.AckCompleted) },
	)
	require.True(r.t, a.Released)
	x, err := r.Extend(context.Background(), core.ExtendParams{Lease: b.lease, For: time.Hour})
	require.NoError(r.t, err)
	require.Zero(r.t, x.Renewed, "a lease that was released is not extended")
}

func meetNackAck(r *rig) {
	r.push("q", 1, 2)
	b := r.pop("q", "", 2)
	var a core.Acked
	r.inOrder("q",
		func() { r.ack("q", "", b.lease, "m1", core.AckFailed) },
		func() { a = r.ack("q", "", uuid.UUID{}, "m1", core.AckCompleted) },
	)
	require.NoError(r.t, a.Err)
	require.Equal(r.t, []string{"m2"}, r.pop("q", "", 10).names())
}
