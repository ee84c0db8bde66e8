// Package enginetest holds the tests of the engine's rules. Every test runs over every store, with a clock that it moves.
package enginetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
)

// Open makes a fresh, empty store for one test.
type Open func(t *testing.T) core.Store

// tester is what a rig needs of its test; a test of the testing package and one of rapid are both one.
type tester interface {
	require.TestingT
	Helper()
	Cleanup(f func())
}

// rig is an engine over a fresh store with a clock that the test moves.
type rig struct {
	t     tester
	clock *coretest.Clock
	store core.Store
	*engines
}

// epoch is where the tests' clocks begin.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newRig(t *testing.T, open Open, change ...func(*core.Options)) *rig {
	t.Helper()
	return rigOver(t, open(t), change...)
}

// rigOver starts an engine over a store that closes with it.
func rigOver(t tester, store core.Store, change ...func(*core.Options)) *rig {
	t.Helper()
	r := &rig{t: t, clock: coretest.New(epoch), store: store}
	r.start(change...)
	t.Cleanup(func() {
		r.stop()
		require.NoError(t, r.store.Close())
	})
	return r
}

func (r *rig) start(change ...func(*core.Options)) {
	r.t.Helper()
	o := core.Options{Clock: r.clock}
	for _, f := range change {
		f(&o)
	}
	stores := []core.Store{r.store}
	if sharing, ok := r.store.(Sharing); ok {
		stores = append(stores, sharing.Another())
	}
	r.engines = &engines{}
	for _, s := range stores {
		e, err := core.New(context.Background(), s, o)
		require.NoError(r.t, err)
		r.all = append(r.all, e)
	}
}

func (r *rig) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(r.t, r.Shutdown(ctx))
}

// queue makes a queue with one partition.
func (r *rig) queue(name string, origin core.Protocol, change ...func(*core.QueueOptions)) core.Queue {
	r.t.Helper()
	q := core.Queue{Name: name, Origin: origin}
	q.Options.Queen = core.ImplicitQueen()
	for _, f := range change {
		f(&q.Options)
	}
	q, err := r.CreateQueue(context.Background(), q, 1)
	require.NoError(r.t, err)
	return q
}

// push stores messages m<from> to m<to>, whose transaction ids and payloads are their names.
func (r *rig) push(queue string, from, to int) {
	r.t.Helper()
	var items []core.PushItem
	for i := from; i <= to; i++ {
		name := fmt.Sprintf("m%d", i)
		items = append(items, core.PushItem{Queue: queue, NewMessage: core.NewMessage{TransactionID: name, Payload: []byte(`"` + name + `"`)}})
	}
	out, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: items, Create: true})
	require.NoError(r.t, err)
	for i := range out {
		require.Equal(r.t, core.PushQueued, out[i].Status, "push of %s", out[i].TransactionID)
	}
}

// batch is what a claim got, flattened.
type batch struct {
	lease uuid.UUID
	core.Claimed
}

// names lists the transaction ids in order of delivery.
func (b batch) names() []string {
	out := []string{}
	for _, p := range b.Partitions {
		for i := range p.Messages {
			out = append(out, p.Messages[i].TransactionID)
		}
	}
	return out
}

// offsets lists the offsets in order of delivery.
func (b batch) offsets() []int64 {
	out := []int64{}
	for _, p := range b.Partitions {
		for i := range p.Messages {
			out = append(out, p.Messages[i].Offset)
		}
	}
	return out
}

// at returns the delivery of an offset.
func (b batch) at(t tester, offset int64) core.Delivery {
	t.Helper()
	for _, p := range b.Partitions {
		for i := range p.Messages {
			if p.Messages[i].Offset == offset {
				return p.Messages[i]
			}
		}
	}
	require.Failf(t, "not delivered", "offset %d", offset)
	return core.Delivery{}
}

func (r *rig) claim(p core.ClaimParams) batch {
	r.t.Helper()
	c, err := r.Claim(context.Background(), p)
	require.NoError(r.t, err)
	return batch{c.Lease, c}
}

// pop claims up to n messages exclusively, as Queen does.
func (r *rig) pop(queue, group string, n int) batch {
	r.t.Helper()
	return r.claim(core.ClaimParams{Protocol: core.ProtocolQueen, Exclusive: true, Queue: queue, Group: group, Messages: n, Partitions: 1})
}

// lease claims up to n messages from one partition, as Querator does.
func (r *rig) lease(queue string, n int) batch {
	r.t.Helper()
	return r.claim(core.ClaimParams{Protocol: core.ProtocolQuerator, Queue: queue, Messages: n, Partitions: 1})
}

// pull claims up to n messages, as Cloudflare does.
func (r *rig) pull(queue string, n int) batch {
	r.t.Helper()
	return r.claim(core.ClaimParams{Protocol: core.ProtocolCloudflare, Queue: queue, Messages: n})
}

// partition returns the only partition of a queue.
func (r *rig) partition(queue string) core.Partition {
	r.t.Helper()
	ps, err := r.Partitions(context.Background(), queue)
	require.NoError(r.t, err)
	require.Len(r.t, ps, 1)
	return ps[0]
}

// ack settles one message under a lease (or without one).
func (r *rig) ack(queue, group string, lease uuid.UUID, name string, status core.AckStatus) core.Acked {
	r.t.Helper()
	out, err := r.Ack(context.Background(), []core.Ack{{
		Partition: r.partition(queue).ID, TransactionID: name, Group: group, Lease: lease, Status: status,
	}})
	require.NoError(r.t, err)
	return out[0]
}

// state returns the frontier and the batches of a group on the only partition of a queue.
func (r *rig) state(queue, group string) (int64, []core.Batch) {
	r.t.Helper()
	if group == "" {
		group = core.QueueModeGroup
	}
	bs, f, err := r.store.Batches(context.Background(), core.RowKey{Partition: r.partition(queue).Key, Group: group})
	require.NoError(r.t, err)
	return f.Offset, bs
}

// show writes a group's state as the walks of the model do: "F=5 leased-x[1-5] 1-5".
func (r *rig) show(queue, group string) string {
	r.t.Helper()
	f, bs := r.state(queue, group)
	out := fmt.Sprintf("F=%d", f)
	for i := range bs {
		b := &bs[i]
		kind := map[core.BatchState]string{core.BatchLeased: "leased-s", core.BatchWaiting: "waiting", core.BatchEmpty: "empty"}[b.State]
		if b.State == core.BatchLeased && b.Exclusive {
			kind = "leased-x"
		}
		out += " " + kind + "["
		out += span(b.First, b.Last) + "]"
		for j, run := range b.Pending {
			sep := ","
			if j == 0 {
				sep = " "
			}
			out += sep + span(run.First, run.Last)
		}
	}
	return out
}

func span(first, last int64) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

// token names a delivered message as Cloudflare's lease id does.
func (r *rig) token(queue string, d core.Delivery) core.MessageToken {
	return core.MessageToken{Partition: r.partition(queue).ID, Offset: d.Offset, Message: d.ID, Lease: d.Lease, Attempt: d.Attempt}
}

// settle settles messages by token.
func (r *rig) settle(queue string, items ...core.MessageSettlement) []core.MessageSettled {
	r.t.Helper()
	out, err := r.SettleMessages(context.Background(), queue, items)
	require.NoError(r.t, err)
	return out
}

// item names a delivered message as Querator's item id does.
func item(d core.Delivery) core.ItemRef {
	return core.ItemRef{Offset: d.Offset, Turn: d.Turn, Second: d.TurnAt.Second()}
}

// complete settles items of partition 0.
func (r *rig) complete(queue string, ds ...core.Delivery) error {
	var items []core.ItemSettlement
	for _, d := range ds {
		items = append(items, core.ItemSettlement{ItemRef: item(d)})
	}
	return r.SettleItems(context.Background(), core.SettleItemsParams{Queue: queue, Items: items})
}
