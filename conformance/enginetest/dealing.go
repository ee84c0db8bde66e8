package enginetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Dealing checks how one pass shares messages among the claims that wait, and which partitions it chooses (the rules of
// Querator's functional tests).
func Dealing(t *testing.T, open Open) {
	cases(t, open, map[string]func(*rig){
		"one at a time in arrival order":             dealRounds,
		"what was there and what is produced":        dealPass,
		"partitions for pushes and claims":           dealPartitions,
		"many partitions for one client":             dealDrain,
		"exclusive claims take what they ask for":    dealExclusive,
		"a release lets settlements and claims meet": dealSettlements,
		"claims of one partition leave the others":   dealNamed,
		"claims that are full leave the others":      dealGeneral,
		"discovery over queues":                      dealDiscovery,
		"discovery past a queue that hides":          dealDiscoveryHidden,
		"discovery sees a queue made later":          dealDiscoveryNew,
		"a budget of bytes":                          dealBytes,
		"partitions for one pop":                     dealPop,
		"partitions in turn":                         dealTurns,
	})
}

// queratorQueue makes a queue with n partitions.
func (r *rig) queratorQueue(name string, n int) {
	r.t.Helper()
	q := core.Queue{Name: name, Origin: core.ProtocolQuerator}
	q.Options.Queen = core.ImplicitQueen()
	querator(time.Hour, 24*time.Hour)(&q.Options)
	_, err := r.CreateQueue(context.Background(), q, n)
	require.NoError(r.t, err)
}

// produce stores n messages as one Querator request.
func (r *rig) produce(queue string, n int) {
	r.t.Helper()
	items := make([]core.PushItem, n)
	for i := range items {
		items[i] = core.PushItem{Queue: queue, NewMessage: core.NewMessage{Payload: []byte("x")}}
	}
	_, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQuerator, Items: items, Spread: true, Atomic: true})
	require.NoError(r.t, err)
}

// meet lets requests meet in one pass: it pauses the queue, runs arrive, and releases it once all claims wait.
func (r *rig) meet(queue string, arrive func() []*parked) []*parked {
	r.t.Helper()
	require.NoError(r.t, r.Pause(context.Background(), queue, true))
	claims := arrive()
	require.NoError(r.t, r.Pause(context.Background(), queue, false))
	return claims
}

// sizes returns how many messages each claim got; -1 stands for an answer without messages.
func sizes(claims []*parked) []int {
	out := make([]int, len(claims))
	for i, c := range claims {
		a := c.answer()
		if out[i] = len(a.offsets()); a.err != nil {
			out[i] = -1
		}
	}
	return out
}

func (r *rig) parkLeases(queue string, sizes ...int) []*parked {
	r.t.Helper()
	out := make([]*parked, 0, len(sizes))
	for _, n := range sizes {
		out = append(out, r.park(waitingLease(queue, n, time.Minute)))
	}
	return out
}

func dealRounds(r *rig) {
	for i, c := range []struct {
		items    int
		ask, get []int
	}{
		{23, []int{20, 6, 1}, []int{16, 6, 1}},
		{35, []int{5, 10, 20}, []int{5, 10, 20}},
		{100, []int{5, 10, 20}, []int{5, 10, 20}},
		{10, []int{10, 10, 10, 10, 10}, []int{2, 2, 2, 2, 2}},
		{7, []int{10, 10, 10, 10, 10}, []int{2, 2, 1, 1, 1}},
	} {
		q := fmt.Sprint("q", i)
		r.queratorQueue(q, 1)
		claims := r.parkLeases(q, c.ask...)
		r.produce(q, c.items)
		got, next := make([]int, len(claims)), int64(1)
		for i, p := range claims {
			a := p.answer()
			require.NoError(r.t, a.err)
			for _, off := range a.offsets() {
				require.Equal(r.t, next, off, "claims get contiguous ranges in arrival order")
				next++
			}
			got[i] = len(a.offsets())
		}
		require.Equal(r.t, c.get, got)
	}
}

// dealPass has messages of an earlier push and of the pass itself dealt together.
func dealPass(r *rig) {
	r.queratorQueue("q", 1)
	r.produce("q", 3)
	claims := r.meet("q", func() []*parked {
		claims := r.parkLeases("q", 20, 6, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.produce("q", 20)
		}()
		r.eventually(func() bool {
			s, err := r.QueueStats(context.Background(), "q", "")
			require.NoError(r.t, err)
			return s.PushesWaiting == 1
		}, "the push does not wait")
		return claims
	})
	require.Equal(r.t, []int{16, 6, 1}, sizes(claims))
}

func (r *rig) perPartition(queue string) (total, leased []int64) {
	r.t.Helper()
	s, err := r.QueueStats(context.Background(), queue, "")
	require.NoError(r.t, err)
	for i := range s.Partitions {
		total, leased = append(total, s.Partitions[i].Pending.Messages), append(leased, s.Partitions[i].Leased.Messages)
	}
	return total, leased
}

func dealPartitions(r *rig) {
	r.queratorQueue("q", 2)
	r.produce("q", 10)
	r.produce("q", 11)
	total, _ := r.perPartition("q")
	require.Equal(r.t, []int64{10, 11}, total)

	r.queratorQueue("p", 2)
	for range 5 {
		r.produce("p", 10)
	}
	total, _ = r.perPartition("p")
	require.Equal(r.t, []int64{30, 20}, total)
	claims := r.meet("p", func() []*parked { return r.parkLeases("p", 5, 10, 20) })
	require.Equal(r.t, []int{5, 10, 20}, sizes(claims))
	_, leased := r.perPartition("p")
	require.Equal(r.t, []int64{15, 20}, leased)
}

func dealDrain(r *rig) {
	r.queratorQueue("q", 10)
	for range 10 {
		r.produce("q", 5)
	}
	seen := map[int32]bool{}
	for range 10 {
		b := r.lease("q", 5)
		require.Len(r.t, b.Partitions, 1)
		require.Len(r.t, b.offsets(), 5)
		seen[b.Partitions[0].Partition.Ordinal] = true
	}
	require.Len(r.t, seen, 10)
	require.Empty(r.t, r.lease("q", 5).Partitions)
}

func dealExclusive(r *rig) {
	r.queue("q", core.ProtocolQueen)
	claims := r.meet("q", func() []*parked {
		return []*parked{r.park(waitingPop("q", "", 20, time.Minute)), r.park(waitingPop("q", "", 6, time.Minute))}
	})
	r.push("q", 1, 23)
	a := claims[0].answer()
	require.Len(r.t, a.names(), 20)
	claims[1].waits("q")
	require.True(r.t, r.ack("q", "", a.lease, "m20", core.AckCompleted).Released)
	require.Len(r.t, claims[1].names(), 3)
}

// dealSettlements shows that what a settlement of a pass releases can be claimed in the same pass by the next in line.
func dealSettlements(r *rig) {
	r.push("q", 1, 4)
	b := r.pop("q", "", 2)
	part := r.partition("q").ID
	acked := make(chan core.Acked, 1)
	claims := r.meet("q", func() []*parked {
		c := r.park(waitingPop("q", "", 10, time.Minute))
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
		return []*parked{c}
	})
	require.True(r.t, (<-acked).Released)
	require.Equal(r.t, []string{"m3", "m4"}, claims[0].names())
}

// pushTo stores one message named after its partition in each of them.
func (r *rig) pushTo(queue string, partitions ...string) {
	r.t.Helper()
	for _, p := range partitions {
		_, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Create: true, Items: []core.PushItem{
			{Queue: queue, Partition: p, NewMessage: core.NewMessage{Payload: []byte(p)}},
		}})
		require.NoError(r.t, err)
	}
}

// payloads lists the payloads in order of delivery.
func (b batch) payloads() []string {
	out := []string{}
	for _, p := range b.Partitions {
		for i := range p.Messages {
			out = append(out, string(p.Messages[i].Payload))
		}
	}
	return out
}

// dealNamed has two claims compete for one partition: the one that gets nothing says nothing about other partitions.
func dealNamed(r *rig) {
	r.pushTo("q", "a", "b")
	claims := r.meet("q", func() []*parked {
		p := waitingPop("q", "", 1, time.Minute)
		p.Partition = "a"
		return []*parked{r.park(p), r.park(p)}
	})
	require.Equal(r.t, []string{"a"}, claims[0].answer().payloads())
	claims[1].waits("q")
	require.Equal(r.t, []string{"b"}, r.pop("q", "", 10).payloads())
}

// dealGeneral has a claim that names a partition end up with nothing while another is full: both say nothing about the rest.
func dealGeneral(r *rig) {
	r.pushTo("q", "a", "b", "c", "d")
	claims := r.meet("q", func() []*parked {
		named := waitingPop("q", "", 1, time.Minute)
		named.Partition = "a"
		all := waitingPop("q", "", 4, time.Minute)
		return []*parked{r.park(named), r.park(named), r.park(all)}
	})
	got := append(claims[0].answer().payloads(), claims[2].answer().payloads()...)
	claims[1].waits("q")
	for range 2 {
		got = append(got, r.pop("q", "", 1).payloads()...)
	}
	require.ElementsMatch(r.t, []string{"a", "b", "c", "d"}, got)
}

func discovery(namespace, task string, n int, wait time.Duration) core.ClaimParams {
	return core.ClaimParams{Protocol: core.ProtocolQueen, Exclusive: true, Namespace: namespace, Task: task, Messages: n, Wait: wait}
}

func dealDiscovery(r *rig) {
	r.pushTo("mail.send", "a")
	r.pushTo("mail.read", "b")
	r.pushTo("news.send", "c")
	b := r.claim(discovery("mail", "", 10, 0))
	require.ElementsMatch(r.t, []string{"a", "b"}, b.payloads())
	for _, cp := range b.Partitions {
		for i := range cp.Messages {
			require.Equal(r.t, b.lease, cp.Messages[i].Lease, "one lease covers the queues of a call")
		}
	}
	require.Equal(r.t, []string{"c"}, r.claim(discovery("", "send", 10, 0)).payloads())
	require.Empty(r.t, r.claim(discovery("mail", "send", 10, 0)).payloads())
	require.Empty(r.t, r.claim(discovery("none", "", 10, 0)).payloads())
}

func dealDiscoveryHidden(r *rig) {
	for i := range 20 {
		ns := fmt.Sprint("n", i)
		in := func(o *core.QueueOptions) { o.Namespace = ns }
		r.queue(ns+".young", core.ProtocolQueen, delayed(3600), in)
		r.queue(ns+".old", core.ProtocolQueen, in)
		r.pushTo(ns+".young", "young")
		r.pushTo(ns+".old", "old")
		require.Equal(r.t, []string{"old"}, r.claim(discovery(ns, "", 10, 0)).payloads())
	}
}

func dealDiscoveryNew(r *rig) {
	c := r.begin(discovery("late", "", 10, 3*time.Second))
	r.eventually(func() bool { return r.clock.Next() == core.TimeOf(epoch).Add(3*time.Second) }, "the discovery does not wait")
	r.pushTo("other.x", "x")
	r.pushTo("late.comer", "y")
	require.Equal(r.t, []string{"y"}, c.answer().payloads())

	d := r.begin(discovery("late", "", 10, 4*time.Second))
	r.eventually(func() bool { return r.clock.Next() == core.TimeOf(epoch).Add(4*time.Second) }, "the discovery does not wait")
	r.clock.Advance(4 * time.Second)
	require.Equal(r.t, core.CodeNothing, d.code())
}

func dealBytes(r *rig) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(3, time.Minute))
	for range 5 {
		r.pushTo("q", "0123456789")
	}
	p := core.ClaimParams{Protocol: core.ProtocolCloudflare, Queue: "q", Messages: 10, Bytes: 25}
	require.Len(r.t, r.claim(p).payloads(), 2)
	p.Bytes = 1
	require.Len(r.t, r.claim(p).payloads(), 1, "one message always fits")
	p.Bytes = 20
	require.Len(r.t, r.claim(p).payloads(), 2)
	require.Empty(r.t, r.claim(p).payloads())
}

func dealPop(r *rig) {
	r.pushTo("q", "a", "a", "b", "b", "c")
	p := waitingPop("q", "", 10, 0)
	p.Partitions = 2
	b := r.claim(p)
	require.Len(r.t, b.Partitions, 2)
	for _, cp := range b.Partitions {
		for i := range cp.Messages {
			require.Equal(r.t, b.lease, cp.Messages[i].Lease, "one lease covers the partitions of a call")
			require.Equal(r.t, cp.Partition.Name, string(cp.Messages[i].Payload))
		}
	}
	p.Partitions, p.Messages = 0, 1
	require.Len(r.t, r.claim(p).payloads(), 1)
	require.Empty(r.t, r.claim(p).payloads())
	p.Group, p.Messages = "another", 3
	require.Len(r.t, r.claim(p).payloads(), 3)
}

// dealTurns takes single messages from partitions of which one is always full: no partition starves.
func dealTurns(r *rig) {
	names := []string{"a", "b", "c", "d"}
	for range 3 {
		r.pushTo("q", names...)
	}
	seen := map[string]int{}
	for range 12 {
		p := waitingPop("q", "", 1, 0)
		p.AutoAck = true
		seen[r.claim(p).payloads()[0]]++
		if len(seen) < len(names) {
			r.pushTo("q", names[0])
		}
	}
	for _, n := range names {
		require.GreaterOrEqual(r.t, seen[n], 2, n)
	}
}
