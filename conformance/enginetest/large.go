package enginetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Large checks what needs more than one batch, segment or sweep.
func Large(t *testing.T, open Open) {
	cases(t, open, map[string]func(*rig){
		"more messages than a batch spans":       largeBatch,
		"all deliveries failing one by one":      largeFailing,
		"more leases than a sweep resolves":      largeExpiry,
		"more delayed pushes than a sweep takes": largeSchedule,
		"more expired segments than a sweep":     largeExpired,
		"many groups on one queue":               largeGroups,
		"a message larger than a segment":        largeMessage,
		"many partitions for one claim":          largePartitions,
	})
}

// pushMany stores n messages without ids, a thousand to a request.
func (r *rig) pushMany(queue string, n int) {
	r.t.Helper()
	for n > 0 {
		items := make([]core.PushItem, min(n, 1000))
		for i := range items {
			items[i] = core.PushItem{Queue: queue, NewMessage: core.NewMessage{Payload: []byte("x")}}
		}
		_, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: items, Create: true})
		require.NoError(r.t, err)
		n -= len(items)
	}
}

func ascending(t tester, offs []int64, from, to int64) {
	t.Helper()
	require.Len(t, offs, int(to-from+1))
	for i, off := range offs {
		require.Equal(t, from+int64(i), off)
	}
}

func largeBatch(r *rig) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(3, time.Minute))
	r.pushMany("q", 10_000)
	b := r.pop("q", "g", 10_000)
	ascending(r.t, b.offsets(), 1, core.MaxBatchSpan)
	require.True(r.t, r.ack("q", "g", b.lease, b.at(r.t, core.MaxBatchSpan).ID.String(), core.AckCompleted).Released)
	ascending(r.t, r.pop("q", "g", 10).offsets(), core.MaxBatchSpan+1, core.MaxBatchSpan+10)

	ascending(r.t, r.pull("q", 10_000).offsets(), 1, 10_000)
	_, batches := r.state("q", "")
	require.LessOrEqual(r.t, len(batches), 3)
	require.Empty(r.t, r.pull("q", 10).offsets())
	r.clock.Advance(time.Minute)
	again := r.pull("q", 20_000)
	require.Len(r.t, again.offsets(), 10_000)
	require.EqualValues(r.t, 2, again.at(r.t, 9_999).Attempt)
	require.EqualValues(r.t, 10_000, r.pending("q", ""))
}

func largeFailing(r *rig) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(100, time.Minute))
	const n = 300
	r.pushMany("q", n)
	for round := range 4 {
		b := r.pull("q", n)
		require.Len(r.t, b.offsets(), n)
		var items []core.MessageSettlement
		for o := int64(1); o <= n; o++ {
			items = append(items, core.MessageSettlement{MessageToken: r.token("q", b.at(r.t, o)), Outcome: core.OutcomeRetry})
		}
		for i := 0; i < n; i += 50 {
			r.settle("q", items[i:i+50]...)
		}
		_, batches := r.state("q", "")
		require.LessOrEqual(r.t, len(batches), n/8, "round %d: failing deliveries end as a row per message", round)
	}
}

func largeExpiry(r *rig) {
	const n = 600
	r.queue("q", core.ProtocolQueen)
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint("p", i))
	}
	r.spread("q", names)
	p := waitingPop("q", "", n, 0)
	p.Partitions = 0
	got := map[string]bool{}
	for len(got) < n {
		c := r.claim(p)
		require.NotEmpty(r.t, c.Partitions)
		for _, cp := range c.Partitions {
			require.False(r.t, got[cp.Partition.Name])
			got[cp.Partition.Name] = true
		}
	}
	require.Empty(r.t, r.claim(p).Partitions)
	r.advance(time.Minute, "q")
	r.eventually(func() bool {
		s, err := r.QueueStats(context.Background(), "q", "")
		require.NoError(r.t, err)
		return s.Total.Leases == 0
	}, "leases that ran out are not resolved")
	require.EqualValues(r.t, n, r.pending("q", ""))
}

// spread stores one message in each partition, as one request.
func (r *rig) spread(queue string, names []string) {
	r.t.Helper()
	items := make([]core.PushItem, len(names))
	for i, n := range names {
		items[i] = core.PushItem{Queue: queue, Partition: n, NewMessage: core.NewMessage{Payload: []byte(n)}}
	}
	_, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: items, Create: true})
	require.NoError(r.t, err)
}

func largeSchedule(r *rig) {
	const n = 1500
	r.queue("q", core.ProtocolCloudflare, cloudflare(3, time.Minute))
	items := make([]core.PushItem, n)
	for i := range items {
		due := r.Now().Add(time.Duration(n-i) * time.Millisecond)
		items[i] = core.PushItem{Queue: "q", NewMessage: core.NewMessage{Payload: fmt.Append(nil, i), Due: due}}
	}
	_, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolCloudflare, Items: items})
	require.NoError(r.t, err)
	require.Empty(r.t, r.pull("q", 10).offsets())
	r.advance(time.Minute, "q")
	r.eventually(func() bool { return r.log("q").Head == n }, "delayed messages that are due are missing")
	b := r.pull("q", n)
	require.Len(r.t, b.offsets(), n)
	for i, p := range b.payloads() {
		require.Equal(r.t, fmt.Sprint(n-1-i), p, "in the order in which they came due")
	}
}

func largeExpired(r *rig) {
	const n = 400
	r.queue("q", core.ProtocolQuerator, querator(time.Hour, time.Minute))
	r.pushEach("q", 1, n)
	require.Len(r.t, r.lease("q", 10).offsets(), 10)
	r.advance(time.Minute, "q")
	r.eventually(func() bool { return r.log("q").Start == n+1 }, "segments that have expired are not deleted")
	require.Zero(r.t, r.pending("q", ""))
	r.pushEach("q", n+1, n+1)
	require.Equal(r.t, []int64{n + 1}, r.lease("q", 10).offsets())
}

func largeGroups(r *rig) {
	r.push("q", 1, 5)
	for i := range 60 {
		g := fmt.Sprint("g", i)
		b := r.pop("q", g, 5)
		require.Len(r.t, b.names(), 5)
		if i%2 == 0 {
			require.True(r.t, r.ack("q", g, b.lease, "m5", core.AckCompleted).Released)
		}
	}
	r.clock.Advance(time.Minute)
	r.push("q", 6, 6)
	for i := range 60 {
		require.Len(r.t, r.pop("q", fmt.Sprint("g", i), 10).names(), 1+5*(i%2))
	}
}

func largeMessage(r *rig) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(3, time.Minute))
	var items []core.PushItem
	for i, size := range []int{10, 3 << 20, 700_000, 700_000, 0, 3 << 20} {
		payload := make([]byte, size)
		for j := range payload {
			payload[j] = byte(i + j)
		}
		items = append(items, core.PushItem{Queue: "q", NewMessage: core.NewMessage{Payload: payload}})
	}
	_, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolCloudflare, Items: items, Atomic: true})
	require.NoError(r.t, err)
	b := r.pull("q", 10)
	ascending(r.t, b.offsets(), 1, int64(len(items)))
	for i := range items {
		require.Equal(r.t, items[i].Payload, append([]byte{}, b.at(r.t, int64(i+1)).Payload...))
	}
	items[0].Payload = make([]byte, 65<<20)
	_, err = r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolCloudflare, Items: items})
	require.Equal(r.t, core.CodeTooLarge, core.CodeOf(err))
	require.Equal(r.t, 0, core.ItemOf(err))
	require.EqualValues(r.t, len(items), r.pending("q", ""))
}

func largePartitions(r *rig) {
	const n = 300
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint("p", i))
	}
	r.spread("q", names)
	seen := map[string]bool{}
	for len(seen) < n {
		b := r.pull("q", n-len(seen))
		require.NotEmpty(r.t, b.payloads())
		for _, p := range b.payloads() {
			require.False(r.t, seen[p])
			seen[p] = true
		}
	}
	require.Empty(r.t, r.pull("q", 1).payloads())
	r.restart()
	require.Empty(r.t, r.pull("q", 1).payloads())
	r.clock.Advance(time.Minute)
	require.NotEmpty(r.t, r.pull("q", n).payloads())
}
