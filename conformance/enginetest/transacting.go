package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Transactions checks that pushes and acknowledgements of one call happen together or not at all.
func Transactions(t *testing.T, open Open) {
	cases(t, open, map[string]func(*rig){
		"all of it":                              transactAll,
		"nothing with an id that cannot be":      transactUnresolvable,
		"nothing with a duplicate":               transactDuplicate,
		"the first of two with one id":           transactRepeated,
		"nothing with a lease that is over":      transactLease,
		"leases that must be the live ones":      transactRequired,
		"acknowledgements over several queues":   transactQueues,
		"a failed delivery and a dead letter":    transactDead,
		"what is settled already":                transactNoop,
		"pushes after a refused one":             transactAfterRefusal,
		"ids are remembered":                     transactRemembered,
		"a group that never came":                transactStranger,
		"refused ones leave what others changed": transactMixed,
	})
}

func (r *rig) transact(x core.TransactParams) (core.Transacted, error) {
	return r.Transact(context.Background(), x)
}

func transactAll(r *rig) {
	r.push("q", 1, 3)
	b := r.pop("q", "", 3)
	part := r.partition("q").ID
	out, err := r.transact(core.TransactParams{
		Pushes: []core.PushItem{
			{Queue: "next", NewMessage: core.NewMessage{TransactionID: "x"}}, {Queue: "next", Partition: "p", NewMessage: core.NewMessage{Payload: []byte("y")}},
		},
		Acks: []core.Ack{{Partition: part, TransactionID: "m2", Lease: b.lease}},
	})
	require.NoError(r.t, err)
	require.Len(r.t, out.Pushes, 2)
	require.NotZero(r.t, out.Pushes[1].ID)
	require.Len(r.t, out.Acks, 1)
	require.False(r.t, out.Acks[0].Released)
	require.Equal(r.t, "F=3 leased-x[3] 3", r.show("q", ""))
	require.EqualValues(r.t, 2, r.pending("next", ""))
}

func transactUnresolvable(r *rig) {
	r.push("q", 1, 3)
	b := r.pop("q", "", 3)
	part := r.partition("q").ID
	_, err := r.transact(core.TransactParams{
		Pushes: named("x", "x"),
		Acks: []core.Ack{
			{Partition: part, TransactionID: "m1", Lease: b.lease}, {Partition: part, TransactionID: "no", Lease: b.lease},
		},
	})
	require.Equal(r.t, core.CodeUnresolvable, core.CodeOf(err))
	require.Equal(r.t, 1, core.ItemOf(err))
	require.Equal(r.t, "F=3 leased-x[1-3] 1-3", r.show("q", ""))
	require.EqualValues(r.t, 3, r.pending("q", ""))
	require.Equal(r.t, "+", r.statuses("x"))
}

func transactDuplicate(r *rig) {
	r.push("q", 1, 3)
	b := r.pop("q", "", 3)
	_, err := r.transact(core.TransactParams{
		Pushes: append(named("x", "x"), named("m2", "again")...),
		Acks:   []core.Ack{{Partition: r.partition("q").ID, TransactionID: "m3", Lease: b.lease}},
	})
	require.Equal(r.t, core.CodeDuplicate, core.CodeOf(err))
	require.Equal(r.t, 1, core.ItemOf(err))
	require.Equal(r.t, "F=3 leased-x[1-3] 1-3", r.show("q", ""))
	require.Equal(r.t, "+", r.statuses("x"))
}

func transactRepeated(r *rig) {
	out, err := r.transact(core.TransactParams{Pushes: append(named("x", "first"), named("x", "second")...)})
	require.NoError(r.t, err)
	require.Equal(r.t, core.PushQueued, out.Pushes[0].Status)
	require.Equal(r.t, core.PushDuplicate, out.Pushes[1].Status)
	require.Equal(r.t, out.Pushes[0].ID, out.Pushes[1].ID)
	require.Equal(r.t, []string{"first"}, r.pop("q", "", 10).payloads())
}

func transactLease(r *rig) {
	r.push("q", 1, 3)
	part := r.partition("q").ID
	b := r.pop("q", "", 3)
	ack := core.TransactParams{Pushes: named("x", "x"), Acks: []core.Ack{{Partition: part, TransactionID: "m3", Lease: b.lease}}}
	r.clock.Advance(time.Minute)
	_, err := r.transact(ack)
	require.Equal(r.t, core.CodeLeaseLost, core.CodeOf(err))
	c := r.pop("q", "", 3)
	_, err = r.transact(ack)
	require.Equal(r.t, core.CodeLeaseLost, core.CodeOf(err))
	ack.Acks[0].Lease = c.lease
	out, err := r.transact(ack)
	require.NoError(r.t, err)
	require.True(r.t, out.Acks[0].Released)
	require.EqualValues(r.t, 1, r.pending("q", ""))
}

func transactRequired(r *rig) {
	r.push("q", 1, 4)
	part := r.partition("q").ID
	b := r.pop("q", "", 2)
	ack := core.TransactParams{Acks: []core.Ack{{Partition: part, TransactionID: "m1"}}, RequiredLeases: []uuid.UUID{uuid.New()}}
	_, err := r.transact(ack)
	require.Equal(r.t, core.CodeLeaseLost, core.CodeOf(err))
	ack.RequiredLeases = []uuid.UUID{uuid.New(), b.lease}
	_, err = r.transact(ack)
	require.NoError(r.t, err)
	require.Equal(r.t, "F=2 leased-x[2] 2", r.show("q", ""))
	ack.RequiredLeases, ack.Acks[0].TransactionID = nil, "m2"
	_, err = r.transact(ack)
	require.NoError(r.t, err, "with no lease named at all the acknowledgement is lease-less")
	require.Equal(r.t, "F=2", r.show("q", ""))
	c := r.pop("q", "", 2)
	r.clock.Advance(2 * time.Minute)
	ack.RequiredLeases, ack.Acks[0].TransactionID = []uuid.UUID{c.lease}, "m4"
	_, err = r.transact(ack)
	require.NoError(r.t, err, "no lease is live")
	require.Equal(r.t, "F=4", r.show("q", ""))
}

func transactQueues(r *rig) {
	r.push("q", 1, 2)
	r.push("p", 1, 2)
	b, c := r.pop("q", "", 2), r.pop("p", "g", 2)
	acks := []core.Ack{
		{Partition: r.partition("q").ID, TransactionID: "m2", Lease: b.lease},
		{Partition: r.partition("p").ID, TransactionID: "m2", Lease: uuid.New(), Group: "g"},
	}
	_, err := r.transact(core.TransactParams{Acks: acks})
	require.Equal(r.t, core.CodeLeaseLost, core.CodeOf(err))
	require.Equal(r.t, 1, core.ItemOf(err))
	require.Equal(r.t, "F=2 leased-x[1-2] 1-2", r.show("q", ""))
	acks[1].Lease = c.lease
	out, err := r.transact(core.TransactParams{Acks: acks})
	require.NoError(r.t, err)
	require.True(r.t, out.Acks[0].Released)
	require.True(r.t, out.Acks[1].Released)
	require.Equal(r.t, "F=2", r.show("p", "g"))
}

func transactDead(r *rig) {
	r.queue("q", core.ProtocolQueen, func(o *core.QueueOptions) { o.Queen.RetryLimit = 1 })
	r.push("q", 1, 2)
	part := r.partition("q").ID
	for i := range 2 {
		b := r.pop("q", "", 2)
		out, err := r.transact(core.TransactParams{
			Acks: []core.Ack{{Partition: part, TransactionID: "m1", Lease: b.lease, Status: core.AckFailed, Error: "no"}},
		})
		require.NoError(r.t, err)
		require.True(r.t, out.Acks[0].Released)
		require.Equal(r.t, i == 1, out.Acks[0].Dead)
	}
	letters, n, err := r.DeadLetters(context.Background(), core.DeadLetterFilter{Limit: 10})
	require.NoError(r.t, err)
	require.EqualValues(r.t, 1, n)
	require.Equal(r.t, "no", letters[0].Error)
	require.EqualValues(r.t, 1, letters[0].Retries)

	b := r.pop("q", "", 2)
	_, err = r.transact(core.TransactParams{Acks: []core.Ack{
		{Partition: part, TransactionID: "m2", Lease: b.lease, Status: core.AckDead}, {Partition: part, TransactionID: "no", Lease: b.lease},
	}})
	require.Equal(r.t, core.CodeUnresolvable, core.CodeOf(err))
	_, n, err = r.DeadLetters(context.Background(), core.DeadLetterFilter{Limit: 10})
	require.NoError(r.t, err)
	require.EqualValues(r.t, 1, n, "a refused transaction writes no dead letter")
	require.Equal(r.t, "F=2 leased-x[2] 2", r.show("q", ""))
}

func transactNoop(r *rig) {
	r.push("q", 1, 3)
	b := r.pop("q", "", 3)
	part := r.partition("q").ID
	require.NoError(r.t, r.ack("q", "", b.lease, "m2", core.AckCompleted).Err)
	out, err := r.transact(core.TransactParams{Pushes: named("x", "x"), Acks: []core.Ack{{Partition: part, TransactionID: "m1", Lease: b.lease}}})
	require.NoError(r.t, err)
	require.True(r.t, out.Acks[0].Noop)
	_, err = r.transact(core.TransactParams{Acks: []core.Ack{{Partition: part, TransactionID: "m1", Lease: b.lease, Status: core.AckRetry}}})
	require.Equal(r.t, core.CodeCommitted, core.CodeOf(err))
	require.Equal(r.t, "F=3 leased-x[3] 3", r.show("q", ""))
}

// transactAfterRefusal has a refused transaction and another with the same id arrive together: whichever the engine
// takes first, the good one is applied.
func transactAfterRefusal(r *rig) {
	r.push("q", 1, 1)
	b := r.pop("q", "", 1)
	part := r.partition("q").ID
	run := func(x core.TransactParams) <-chan core.Code {
		code := make(chan core.Code, 1)
		go func() {
			_, err := r.transact(x)
			code <- core.CodeOf(err)
		}()
		return code
	}
	refused := run(core.TransactParams{Pushes: named("x", "1"), Acks: []core.Ack{{Partition: part, TransactionID: "no", Lease: b.lease}}})
	good := run(core.TransactParams{Pushes: named("x", "2")})
	require.Contains(r.t, []core.Code{core.CodeUnresolvable, core.CodeDuplicate}, <-refused)
	require.Equal(r.t, core.CodeInternal, <-good, "no error")
	require.EqualValues(r.t, 2, r.pending("q", ""))
}

func transactRemembered(r *rig) {
	_, err := r.transact(core.TransactParams{Pushes: append(named("x", "1"), named("y", "2")...)})
	require.NoError(r.t, err)
	require.Equal(r.t, "d+d", r.statuses("y", "z", "x"))
	_, err = r.transact(core.TransactParams{Pushes: named("y", "3")})
	require.Equal(r.t, core.CodeDuplicate, core.CodeOf(err))
	r.restart()
	_, err = r.transact(core.TransactParams{Pushes: named("x", "3")})
	require.Equal(r.t, core.CodeDuplicate, core.CodeOf(err))
	b := r.pop("q", "", 10)
	require.Equal(r.t, []string{"1", "2", "z"}, b.payloads())
	require.False(r.t, r.ack("q", "", b.lease, "y", core.AckCompleted).Released)
	require.Equal(r.t, "F=3 leased-x[3] 3", r.show("q", ""))
}

func transactStranger(r *rig) {
	r.push("q", 1, 1)
	part := r.partition("q").ID
	for _, a := range []core.Ack{{Partition: part, TransactionID: "m1", Group: "g"}, {Partition: uuid.New(), TransactionID: "m1"}} {
		_, err := r.transact(core.TransactParams{Pushes: named("x", "x"), Acks: []core.Ack{a}})
		require.Equal(r.t, core.CodeNoConsumer, core.CodeOf(err))
		require.Equal(r.t, 0, core.ItemOf(err))
	}
	require.EqualValues(r.t, 1, r.pending("q", ""))
}

// transactMixed refuses a transaction in a pass that has changed the same rows before it.
func transactMixed(r *rig) {
	r.push("q", 1, 4)
	b := r.pop("q", "", 4)
	part := r.partition("q").ID
	require.NoError(r.t, r.Pause(context.Background(), "q", true))
	acked := make(chan core.Acked, 1)
	go func() {
		out, err := r.Ack(context.Background(), []core.Ack{{Partition: part, TransactionID: "m2", Lease: b.lease}})
		if err == nil {
			acked <- out[0]
		}
	}()
	r.eventually(func() bool {
		s, err := r.QueueStats(context.Background(), "q", "")
		require.NoError(r.t, err)
		return s.SettlesWaiting == 1
	}, "the acknowledgement does not wait")
	refused := make(chan error, 1)
	go func() {
		_, err := r.transact(core.TransactParams{Acks: []core.Ack{
			{Partition: part, TransactionID: "m3", Lease: b.lease}, {Partition: part, TransactionID: "no", Lease: b.lease},
		}})
		refused <- err
	}()
	require.NoError(r.t, r.Pause(context.Background(), "q", false))
	require.NoError(r.t, (<-acked).Err)
	require.Equal(r.t, core.CodeUnresolvable, core.CodeOf(<-refused))
	require.Equal(r.t, "F=4 leased-x[3-4] 3-4", r.show("q", ""))
}
