package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Clocks tests two engines over one store of which one has a clock that is a little behind the other's: what one of them brought back is
// there for both.
func Clocks(t *testing.T, open Open) {
	cases(t, open, map[string]func(*rig){
		"a failed message comes before the next one":          func(r *rig) { behindOther(r, failElsewhere) },
		"a released message comes before the next one":        func(r *rig) { behindOther(r, releaseElsewhere) },
		"a message whose lease ran out comes before the next": func(r *rig) { behindOther(r, expireElsewhere) },
		"what a step gave back comes before the next one":     func(r *rig) { behindOther(r, stepElsewhere) },
		"a retried item can be leased":                        behindRetry,
	})
}

// behind is a clock that is behind another one.
type behind struct {
	core.Clock
	by time.Duration
}

// Now implements core.Clock.
func (b behind) Now() core.Time { return b.Clock.Now().Add(-b.by) }

// AfterFunc implements core.Clock.
func (b behind) AfterFunc(at core.Time, f func()) func() bool {
	return b.Clock.AfterFunc(at.Add(b.by), f)
}

// lease is how long the claims of these tests hold, lag how far the second engine's clock is behind.
const lease, lag = 10 * time.Second, time.Second

// late starts the second engine again with a clock that is behind the first one's.
func (r *rig) late() {
	r.t.Helper()
	r.engine(r.t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(r.t, r.all[1].Shutdown(ctx))
	e, err := core.New(context.Background(), r.store.(Sharing).Another(), core.Options{Clock: behind{r.clock, lag}}) //nolint:forcetypeassert // r.engine found two
	require.NoError(r.t, err)
	r.all[1] = e
}

// firstAt pops one message at an engine.
func firstAt(r *rig, i int) batch {
	r.t.Helper()
	c, err := r.engine(r.t, i).Claim(context.Background(), core.ClaimParams{
		Protocol: core.ProtocolQueen, Exclusive: true, Queue: "q", Messages: 1, Lease: lease, Create: true,
	})
	require.NoError(r.t, err)
	return batch{c.Lease, c}
}

// behindOther brings a message back at the first engine and claims at the second, each time right after.
func behindOther(r *rig, back func(*rig, batch)) {
	r.late()
	pushOne(r, 0, "a")
	pushOne(r, 0, "b")
	b := firstAt(r, 0)
	require.Equal(r.t, []string{"a"}, b.names())
	back(r, b)
	require.Equal(r.t, []string{"a"}, firstAt(r, 1).names())
}

func failElsewhere(r *rig, b batch) { settleElsewhere(r, b, core.AckFailed) }

func releaseElsewhere(r *rig, b batch) { settleElsewhere(r, b, core.AckRetry) }

func settleElsewhere(r *rig, b batch, status core.AckStatus) {
	r.t.Helper()
	out, err := r.engine(r.t, 0).Ack(context.Background(), []core.Ack{{
		Partition: b.Partitions[0].Partition.ID, TransactionID: "a", Lease: b.lease, Status: status,
	}})
	require.NoError(r.t, err)
	require.NoError(r.t, out[0].Err)
}

// expireElsewhere has the first engine see the deadline, which the second one's clock has not reached.
func expireElsewhere(r *rig, b batch) {
	r.t.Helper()
	r.clock.Advance(lease + lag/2)
	out, err := r.engine(r.t, 0).Ack(context.Background(), []core.Ack{{
		Partition: b.Partitions[0].Partition.ID, TransactionID: "a", Lease: b.lease,
	}})
	require.NoError(r.t, err)
	require.Equal(r.t, core.CodeLeaseLost, core.CodeOf(out[0].Err))
}

func stepElsewhere(r *rig, b batch) {
	r.t.Helper()
	_, err := r.engine(r.t, 0).Cycle(context.Background(), core.CycleParams{
		Partition: b.Partitions[0].Partition.ID, Ack: &core.CycleAck{Lease: b.lease, Failed: true},
	})
	require.NoError(r.t, err)
}

// behindRetry gives an item of a shared lease back at the first engine; the second one finds it.
func behindRetry(r *rig) {
	r.late()
	r.queue("q", core.ProtocolQuerator)
	pushOne(r, 0, "a")
	one := core.ClaimParams{Protocol: core.ProtocolQuerator, Queue: "q", Messages: 1, Lease: lease}
	c, err := r.engine(r.t, 0).Claim(context.Background(), one)
	require.NoError(r.t, err)
	d := batch{c.Lease, c}.at(r.t, 1)
	require.NoError(r.t, r.engine(r.t, 0).SettleItems(context.Background(), core.SettleItemsParams{
		Queue: "q", Items: []core.ItemSettlement{{ItemRef: item(d), Outcome: core.OutcomeRetry}},
	}))
	c, err = r.engine(r.t, 1).Claim(context.Background(), one)
	require.NoError(r.t, err)
	require.Equal(r.t, []int64{1}, batch{c.Lease, c}.offsets())
}
