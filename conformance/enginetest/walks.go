package enginetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Walks runs the eight walks through the model: each shows the delivery state after every step.
func Walks(t *testing.T, open Open) {
	for name, walk := range map[string]func(*testing.T, Open){
		"partial acknowledgement and expiry": walkPartialAck,
		"a failure below a completion":       walkNackBelowDone,
		"expiry to the tail":                 walkExpiryToTail,
		"a mixed batch of tokens":            walkMixedBatch,
		"across protocols":                   walkAcross,
		"deleted ahead of the frontier":      walkDeletedAhead,
		"imported as leased":                 walkImported,
		"seek under a lease":                 walkSeek,
	} {
		t.Run(name, func(t *testing.T) { walk(t, open) })
	}
}

func walkPartialAck(t *testing.T, open Open) {
	r := newRig(t, open)
	r.push("q", 1, 5)
	b := r.pop("q", "", 5)
	require.Equal(t, "F=5 leased-x[1-5] 1-5", r.show("q", ""))
	a := r.ack("q", "", b.lease, "m3", core.AckCompleted)
	require.NoError(t, a.Err)
	require.False(t, a.Released)
	require.Equal(t, "F=5 leased-x[4-5] 4-5", r.show("q", ""))
	r.clock.Advance(61 * time.Second)
	r.push("q", 6, 6)
	c := r.pop("q", "", 10)
	require.Equal(t, []string{"m4", "m5", "m6"}, c.names())
	require.Equal(t, "F=6 leased-x[4-6] 4-6", r.show("q", ""))
	require.NotEqual(t, b.lease, c.lease)
}

func walkNackBelowDone(t *testing.T, open Open) {
	r := newRig(t, open)
	r.push("q", 1, 5)
	part := r.partition("q").ID
	attempt := func() []core.Acked {
		b := r.pop("q", "", 5)
		first := b.names()[0]
		acks := []core.Ack{{Partition: part, TransactionID: "m2", Lease: b.lease, Status: core.AckFailed, Error: "boom"}}
		for i := 3; i <= 5; i++ {
			acks = append(acks, core.Ack{Partition: part, TransactionID: fmt.Sprintf("m%d", i), Lease: b.lease})
		}
		if first == "m1" {
			acks = append(acks, core.Ack{Partition: part, TransactionID: "m1", Lease: b.lease})
		}
		out, err := r.Ack(context.Background(), acks)
		require.NoError(t, err)
		for i := range out {
			require.NoError(t, out[i].Err)
			require.True(t, out[i].Released)
		}
		return out
	}
	attempt()
	require.Equal(t, "F=5 waiting[2-5] 2-5", r.show("q", ""))
	attempt()
	attempt()
	out := attempt()
	require.True(t, out[0].Dead)
	require.False(t, out[1].Dead)
	require.Equal(t, "F=5 waiting[3-5] 3-5", r.show("q", ""))
	letters, n, err := r.DeadLetters(context.Background(), core.DeadLetterFilter{Limit: 10})
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Equal(t, "m2", letters[0].Message.TransactionID)
	require.Equal(t, "boom", letters[0].Error)
	require.EqualValues(t, 3, letters[0].Retries)
	require.Equal(t, []string{"m3", "m4", "m5"}, r.pop("q", "", 5).names())
}

// querator gives a queue Querator's lease and expire timeouts.
func querator(lease, expire time.Duration) func(*core.QueueOptions) {
	return func(o *core.QueueOptions) {
		o.Querator = &core.Querator{LeaseTimeout: lease, ExpireTimeout: expire, Partitions: 1}
	}
}

func walkExpiryToTail(t *testing.T, open Open) {
	r := newRig(t, open)
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, 24*time.Hour))
	r.push("q", 1, 3)
	b := r.lease("q", 3)
	require.Equal(t, []int64{1, 2, 3}, b.offsets())
	require.EqualValues(t, 1, b.at(t, 1).Attempt)
	require.NoError(t, r.complete("q", b.at(t, 2)))
	require.Equal(t, "F=3 leased-s[1-3] 1,3", r.show("q", ""))
	r.clock.Advance(61 * time.Second)
	r.push("q", 4, 4)
	c := r.lease("q", 3)
	require.Equal(t, []string{"m1", "m3", "m4"}, c.names())
	require.EqualValues(t, 2, c.at(t, 1).Attempt)
	require.EqualValues(t, 1, c.at(t, 4).Attempt)
	require.NotEqual(t, item(b.at(t, 1)), item(c.at(t, 1)))
	_, batches := r.state("q", "")
	require.Len(t, batches, 2)
	require.Equal(t, core.CodeNoMessage, core.CodeOf(r.complete("q", b.at(t, 1))))
	require.NoError(t, r.complete("q", c.at(t, 1), c.at(t, 3), c.at(t, 4)))
	require.Equal(t, "F=4", r.show("q", ""))
}

// cloudflare gives a queue a pull consumer.
func cloudflare(retries int32, visibility time.Duration) func(*core.QueueOptions) {
	return func(o *core.QueueOptions) {
		o.MaxDeliveries = retries + 1
		o.Cloudflare = &core.Cloudflare{Consumer: &core.CloudflareConsumer{ID: "c", Type: "http_pull", BatchSize: 5, VisibilityMillis: visibility.Milliseconds()}}
	}
}

func walkMixedBatch(t *testing.T, open Open) {
	r := newRig(t, open)
	r.queue("q", core.ProtocolCloudflare, cloudflare(3, 30*time.Second))
	r.push("q", 1, 100)
	b := r.pull("q", 100)
	require.Len(t, b.offsets(), 100)
	require.Equal(t, "F=100 leased-s[1-100] 1-100", r.show("q", ""))
	var items []core.MessageSettlement
	for o := int64(1); o <= 100; o++ {
		s := core.MessageSettlement{MessageToken: r.token("q", b.at(t, o))}
		switch o {
		case 50:
			s.Outcome = core.OutcomeRetry
		case 7:
			s.Outcome, s.Delay = core.OutcomeRetry, 10*time.Second
		}
		items = append(items, s)
	}
	for i, s := range r.settle("q", items...) {
		require.True(t, s.Counted, "item %d", i)
	}
	require.Equal(t, "F=100 waiting[7] 7 waiting[50] 50", r.show("q", ""))
	require.True(t, r.settle("q", core.MessageSettlement{MessageToken: r.token("q", b.at(t, 12))})[0].Counted)
	require.Equal(t, "F=100 waiting[7] 7 waiting[50] 50", r.show("q", ""))
	require.Equal(t, []int64{50}, r.pull("q", 10).offsets())
	r.clock.Advance(10 * time.Second)
	require.Equal(t, []int64{7}, r.pull("q", 10).offsets())
	require.True(t, r.settle("q", core.MessageSettlement{MessageToken: r.token("q", b.at(t, 7))})[0].Counted)
	require.Equal(t, "F=100 leased-s[50] 50", r.show("q", ""))
}

func walkAcross(t *testing.T, open Open) {
	r := newRig(t, open)
	r.queue("q", core.ProtocolCloudflare, cloudflare(3, 30*time.Second))
	r.push("q", 1, 20)
	b := r.pull("q", 10)
	require.Len(t, b.offsets(), 10)
	x := r.pop("q", "", 5)
	require.Equal(t, []int64{11, 12, 13, 14, 15}, x.offsets())
	require.Equal(t, "F=15 leased-s[1-10] 1-10 leased-x[11-15] 11-15", r.show("q", ""))
	require.Empty(t, r.pull("q", 10).offsets())
	for o := int64(1); o <= 10; o++ {
		if o != 3 {
			r.settle("q", core.MessageSettlement{MessageToken: r.token("q", b.at(t, o))})
		}
	}
	r.clock.Advance(31 * time.Second)
	require.True(t, r.ack("q", "", x.lease, "m15", core.AckCompleted).Released)
	r.push("q", 21, 21)
	y := r.pop("q", "", 10)
	require.Equal(t, []int64{16, 17, 18, 19, 20}, y.offsets())
	require.True(t, r.ack("q", "", y.lease, "m20", core.AckCompleted).Released)
	z := r.pop("q", "", 10)
	require.Equal(t, []int64{3}, z.offsets())
	require.True(t, r.ack("q", "", z.lease, "m3", core.AckCompleted).Released)
	require.Equal(t, []int64{21}, r.pop("q", "", 10).offsets())
}

func walkDeletedAhead(t *testing.T, open Open) {
	r := newRig(t, open)
	r.queue("q", core.ProtocolCloudflare, cloudflare(3, 30*time.Second))
	r.push("q", 1, 12)
	require.Len(t, r.pull("q", 5).offsets(), 5)
	msgs, err := r.store.Read(context.Background(), core.ReadParams{Partition: r.partition("q").Key, Offsets: core.Runs{{First: 9, Last: 9}}})
	require.NoError(t, err)
	r.settle("q", core.MessageSettlement{MessageToken: core.MessageToken{Partition: r.partition("q").ID, Offset: 9, Message: msgs[0].ID}})
	require.Equal(t, "F=5 leased-s[1-5] 1-5 empty[9]", r.show("q", ""))
	require.Equal(t, []int64{6, 7, 8, 10}, r.pull("q", 4).offsets())
	require.Equal(t, "F=10 leased-s[1-5] 1-5 leased-s[6-10] 6-8,10", r.show("q", ""))
}

func walkImported(t *testing.T, open Open) {
	r := newRig(t, open)
	r.queue("q", core.ProtocolQuerator, querator(time.Minute, 24*time.Hour))
	r.push("q", 1, 20)
	require.Len(t, r.lease("q", 10).offsets(), 10)
	until := r.Now().Add(time.Hour)
	got, err := r.Import(context.Background(), "q", 0, []core.ImportItem{{NewMessage: core.NewMessage{Payload: []byte("x")}, Attempts: 1, LeasedUntil: until}})
	require.NoError(t, err)
	at := got[0].ItemRef
	require.Equal(t, "F=10 leased-s[1-10] 1-10 leased-s[21] 21", r.show("q", ""))
	require.NoError(t, r.SettleItems(context.Background(), core.SettleItemsParams{Queue: "q", Items: []core.ItemSettlement{{ItemRef: at}}}))
	require.Equal(t, "F=10 leased-s[1-10] 1-10 empty[21]", r.show("q", ""))
	require.Len(t, r.lease("q", 100).offsets(), 10)
	require.Equal(t, "F=21 leased-s[1-10] 1-10 leased-s[11-20] 11-20", r.show("q", ""))
}

func walkSeek(t *testing.T, open Open) {
	r := newRig(t, open)
	r.push("q", 1, 50)
	a := r.pop("q", "", 40)
	require.True(t, r.ack("q", "", a.lease, "m40", core.AckCompleted).Released)
	b := r.pop("q", "", 10)
	require.Equal(t, "F=50 leased-x[41-50] 41-50", r.show("q", ""))
	n, err := r.Seek(context.Background(), core.SeekParams{Queue: "q", Group: core.QueueModeGroup, At: 1})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, "F=0", r.show("q", ""))
	require.Equal(t, core.CodeLeaseLost, core.CodeOf(r.ack("q", "", b.lease, "m45", core.AckCompleted).Err))
	require.Equal(t, "F=0", r.show("q", ""))
	got := make(chan []int64, 2)
	for range 2 {
		go func() {
			c, _ := r.Claim(context.Background(), core.ClaimParams{Protocol: core.ProtocolQueen, Exclusive: true, Queue: "q", Messages: 10, Partitions: 1})
			got <- batch{uuid.UUID{}, c}.offsets()
		}()
	}
	first, second := <-got, <-got
	require.Equal(t, 10, len(first)+len(second), "exactly one of two gets the batch")
	require.Equal(t, "F=10 leased-x[1-10] 1-10", r.show("q", ""))
}
