package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// pushTo pushes one message to a partition of q at one of the engines.
func pushTo(r *rig, i int, partition, name string) {
	r.t.Helper()
	out, err := r.engine(r.t, i).Push(context.Background(), core.PushParams{
		Protocol: core.ProtocolQueen, Create: true,
		Items: []core.PushItem{{Queue: "q", Partition: partition, NewMessage: core.NewMessage{TransactionID: name, Payload: []byte("1")}}},
	})
	require.NoError(r.t, err)
	require.Equal(r.t, core.PushQueued, out[0].Status)
}

// popFor pops without waiting at one of the engines, for a group and from a partition ("" for any).
func popFor(r *rig, i int, group, partition string) []string {
	r.t.Helper()
	c, err := r.engine(r.t, i).Claim(context.Background(), core.ClaimParams{
		Protocol: core.ProtocolQueen, Exclusive: true, Queue: "q", Group: group, Partition: partition, Messages: 10, Create: true,
	})
	require.NoError(r.t, err)
	return batch{c.Lease, c}.names()
}

// sharePartition pops by name from a partition that the other engine has just made.
func sharePartition(r *rig) {
	pushTo(r, 0, "", "first")
	require.Equal(r.t, []string{"first"}, popFor(r, 1, "", ""))
	for i := range 10 {
		name := fmt.Sprint("p", i)
		pushTo(r, i%2, name, name)
		require.Equal(r.t, []string{name}, popFor(r, (i+1)%2, "g", name))
	}
}

// shareGroupAnew pops for a group that an engine knows of a queue that the other one has deleted and made again.
func shareGroupAnew(r *rig) {
	for i := range 10 {
		pushTo(r, i%2, "", fmt.Sprint("old", i))
		require.Equal(r.t, []string{fmt.Sprint("old", i)}, popFor(r, (i+1)%2, "g", ""))
		require.NoError(r.t, r.engine(r.t, i%2).DeleteQueue(context.Background(), "q", true))
		pushTo(r, i%2, "", fmt.Sprint("new", i))
		require.Equal(r.t, []string{fmt.Sprint("new", i)}, popFor(r, (i+1)%2, "g", ""))
		require.NoError(r.t, r.engine(r.t, (i+1)%2).DeleteQueue(context.Background(), "q", true))
	}
}

// shareTransaction pushes in transactions to a queue that the other engine has deleted, and perhaps made again.
func shareTransaction(r *rig) {
	item := func(name string) core.PushItem {
		return core.PushItem{Queue: "q", NewMessage: core.NewMessage{TransactionID: name, Payload: []byte("1")}}
	}
	for i := range 10 {
		pushTo(r, i%2, "", "old")
		require.Equal(r.t, []string{"old"}, popFor(r, (i+1)%2, "", ""))
		require.NoError(r.t, r.engine(r.t, i%2).DeleteQueue(context.Background(), "q", true))
		if i%3 > 0 {
			pushTo(r, i%2, "", "new")
		}
		_, err := r.engine(r.t, (i+1)%2).Transact(context.Background(), core.TransactParams{Pushes: []core.PushItem{item("one"), item("new")}})
		if i%3 > 0 {
			require.Equal(r.t, core.CodeDuplicate, core.CodeOf(err), "%v", err)
			require.Equal(r.t, []string{"new"}, popFor(r, i%2, "", ""), "all or nothing")
		} else {
			require.NoError(r.t, err)
			require.Equal(r.t, []string{"one", "new"}, popFor(r, i%2, "", ""))
		}
		require.NoError(r.t, r.engine(r.t, (i+1)%2).DeleteQueue(context.Background(), "q", true))
	}
}

// shareAckTwice acknowledges messages of one transaction id, one at each engine.
func shareAckTwice(r *rig) {
	for i := range 4 {
		q := core.Queue{Name: "q", Origin: core.ProtocolQueen}
		q.Options.Queen = core.ImplicitQueen()
		q.Options.Queen.DedupWindowSeconds = 0
		_, err := r.engine(r.t, 0).CreateQueue(context.Background(), q, 1)
		require.NoError(r.t, err)
		for _, name := range []string{"x", "y", "x"} {
			pushTo(r, i%2, "", name)
		}
		b := popAt(r, i/2)
		require.Equal(r.t, []string{"x", "y", "x"}, b.names())
		ackAt(r, i%2, b, "x")
		out, err := r.engine(r.t, (i+1)%2).Ack(context.Background(), []core.Ack{{Partition: b.Partitions[0].Partition.ID, TransactionID: "x", Lease: b.lease}})
		require.NoError(r.t, err)
		require.True(r.t, out[0].Released, "the first of them is settled, so it is the second: %+v", out[0])
		require.NoError(r.t, r.engine(r.t, 1).DeleteQueue(context.Background(), "q", true))
	}
}

// shareDelayed pushes for later to a queue that the other engine has made anew.
func shareDelayed(r *rig) {
	for i := range 6 {
		q := core.Queue{Name: "q", Origin: core.ProtocolQuerator}
		_, err := r.engine(r.t, i%2).CreateQueue(context.Background(), q, 1)
		require.NoError(r.t, err)
		pushTo(r, (i+1)%2, "0", "old")
		require.NoError(r.t, r.engine(r.t, i%2).DeleteQueue(context.Background(), "q", true))
		_, err = r.engine(r.t, i%2).CreateQueue(context.Background(), q, 1)
		require.NoError(r.t, err)
		out, err := r.engine(r.t, (i+1)%2).Push(context.Background(), core.PushParams{Protocol: core.ProtocolQuerator, Items: []core.PushItem{{
			Queue: "q", NewMessage: core.NewMessage{TransactionID: "later", Payload: []byte("1"), Due: r.clock.Now().Add(time.Minute)},
		}}})
		require.NoError(r.t, err)
		require.Equal(r.t, core.PushQueued, out[0].Status)
		r.clock.Advance(time.Minute)
		r.eventually(func() bool { return slices.Equal([]string{"later"}, popFor(r, i%2, "", "")) }, "the message never comes")
		require.NoError(r.t, r.engine(r.t, i%2).DeleteQueue(context.Background(), "q", true))
	}
}

// shareInTurn pushes and pops one message after the other, each at either engine, in partitions that both have had messages of.
func shareInTurn(r *rig) {
	dice := rand.New(rand.NewPCG(1, 2))
	for i := range 400 {
		name := fmt.Sprint("m", i)
		a, b := dice.IntN(2), dice.IntN(2)
		pushTo(r, a, fmt.Sprint("p", i%10), name)
		c, err := r.engine(r.t, b).Claim(context.Background(), core.ClaimParams{
			Protocol: core.ProtocolQueen, Exclusive: true, Queue: "q", Messages: 10, Create: true, AutoAck: true,
		})
		require.NoError(r.t, err)
		require.Equal(r.t, []string{name}, batch{c.Lease, c}.names(), "pushed at %d, popped at %d", a, b)
	}
}

// shareRead settles messages within their claims just before a sweep: it leaves them, since they may be on their way to a client of the
// other engine, and the next sweep deletes them.
func shareRead(r *rig) {
	r.queue("q", core.ProtocolCloudflare)
	for i := range 4 {
		_, err := r.engine(r.t, i/2).Push(context.Background(), core.PushParams{
			Protocol: core.ProtocolCloudflare, Items: []core.PushItem{{Queue: "q", NewMessage: core.NewMessage{Payload: []byte("1")}}},
		})
		require.NoError(r.t, err)
	}
	r.sweep("q")
	r.advance(4*time.Second, "q")
	for i := range 4 {
		c, err := r.engine(r.t, i%2).Claim(context.Background(), core.ClaimParams{
			Protocol: core.ProtocolQueen, Exclusive: true, AutoAck: true, Queue: "q", Messages: 1,
		})
		require.NoError(r.t, err)
		require.Len(r.t, batch{c.Lease, c}.offsets(), 1)
	}
	r.advance(1500*time.Millisecond, "q")
	require.EqualValues(r.t, 1, r.log("q").Start)
	r.sweep("q")
	require.EqualValues(r.t, 5, r.log("q").Start)
}
