package enginetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Bench measures pushes, and claims with their settlement, through the engine over a store: single messages and batches of
// 100 from 32 callers. The figures are messages per second; compare them within one run only.
func Bench(b *testing.B, open func(*testing.B) core.Store) {
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprintf("push/batch=%d", size), func(b *testing.B) { benchPush(b, open, size) })
		for _, exclusive := range []bool{true, false} {
			kind := map[bool]string{true: "exclusive", false: "shared"}[exclusive]
			b.Run(fmt.Sprintf("claim+settle/%s/batch=%d", kind, size), func(b *testing.B) { benchSettle(b, open, size, exclusive) })
		}
	}
}

const benchCallers = 32

var benchPayload = []byte(`{"n":1234567890,"text":"a payload of about one hundred bytes, as a small job would carry it along"}`)

func benchEngine(b *testing.B, open func(*testing.B) core.Store) *core.Engine {
	b.Helper()
	store := open(b)
	e, err := core.New(context.Background(), store, core.Options{})
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, e.Shutdown(context.Background()))
		require.NoError(b, store.Close())
	})
	return e
}

// each runs fn b.N/size times over the callers.
func each(b *testing.B, size int, fn func(worker int) int) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for w := range benchCallers {
		wg.Go(func() {
			for left.Add(int64(-size)) > int64(-size) {
				if fn(w) == 0 {
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}

func pushItems(queue string, worker, size int) []core.PushItem {
	items := make([]core.PushItem, size)
	for i := range items {
		items[i] = core.PushItem{Queue: queue, Partition: fmt.Sprint(worker % 64), NewMessage: core.NewMessage{Payload: benchPayload}}
	}
	return items
}

func benchPush(b *testing.B, open func(*testing.B) core.Store, size int) {
	e := benchEngine(b, open)
	each(b, size, func(w int) int {
		_, err := e.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: pushItems("q", w, size), Create: true})
		if err != nil {
			b.Error(err)
		}
		return size
	})
}

func benchSettle(b *testing.B, open func(*testing.B) core.Store, size int, exclusive bool) {
	e := benchEngine(b, open)
	ctx := context.Background()
	for n := 0; n < b.N+benchCallers*size; n += 1000 {
		_, err := e.Push(ctx, core.PushParams{Protocol: core.ProtocolQueen, Items: pushItems("q", n/1000, 1000), Create: true})
		require.NoError(b, err)
	}
	each(b, size, func(int) int {
		n, err := claimAndSettle(ctx, e, size, exclusive)
		if err != nil {
			b.Error(err)
		}
		return max(n, 1)
	})
}

func claimAndSettle(ctx context.Context, e *core.Engine, size int, exclusive bool) (int, error) {
	p := core.ClaimParams{Protocol: core.ProtocolCloudflare, Queue: "q", Messages: size}
	if exclusive {
		p.Protocol, p.Exclusive, p.Partitions = core.ProtocolQueen, true, 1
	}
	c, err := e.Claim(ctx, p)
	if err != nil || len(c.Partitions) == 0 {
		return 0, err
	}
	if exclusive {
		part := &c.Partitions[0]
		last := &part.Messages[len(part.Messages)-1]
		out, err := e.Ack(ctx, []core.Ack{{Partition: part.Partition.ID, TransactionID: last.Transaction(), Lease: c.Lease}})
		if err == nil {
			err = out[0].Err
		}
		return len(part.Messages), err
	}
	var items []core.MessageSettlement
	for _, part := range c.Partitions {
		for i := range part.Messages {
			d := &part.Messages[i]
			items = append(items, core.MessageSettlement{MessageToken: core.MessageToken{Partition: part.Partition.ID, Offset: d.Offset, Message: d.ID, Lease: d.Lease}})
		}
	}
	_, err = e.SettleMessages(ctx, "q", items)
	return len(items), err
}
