package enginetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Between tests what two engines over one store owe each other beyond the rules that every suite checks with them.
func Between(t *testing.T, open Open) {
	cases(t, open, map[string]func(*rig){
		"a push is seen by the next pop elsewhere":              shareSeen,
		"a release is seen by the next pop elsewhere":           shareReleased,
		"a waiting pop elsewhere wakes":                         shareWakes,
		"a lease is extended whole elsewhere":                   shareExtended,
		"a delayed message comes once":                          shareScheduled,
		"a queue deleted elsewhere":                             shareDeleted,
		"a queue deleted and made again elsewhere":              shareRemade,
		"a queue made elsewhere at once":                        shareMade,
		"a partition made elsewhere, by its name":               sharePartition,
		"a transaction into a queue that went elsewhere":        shareTransaction,
		"two messages of one transaction id":                    shareAckTwice,
		"one after the other at either":                         shareInTurn,
		"a message for later into a queue made again elsewhere": shareDelayed,
		"a group of a queue made again elsewhere":               shareGroupAnew,
		"messages and transaction ids from both":                sharePushed,
		"options changed elsewhere hold at once":                shareConfigured,
		"single messages from both, never leased twice":         shareClaimed,
		"what a claim elsewhere has settled is left to be read": shareRead,
	})
	cases(t, meddle(open), map[string]func(*rig){
		"duplicates of what turns out to be a duplicate":    echoDuplicate,
		"duplicates of a push that fails by what is theirs": echoAtomic,
		"an id of theirs that has left the window":          echoOld,
		"a cycle and a push on its way":                     echoCycle,
		"ids of theirs before ours":                         precedeOthers,
		"ids of theirs before a commit decided twice":       precedeTwice,
		"ids of theirs before a commit that fails":          precedeInVain,
	})
}

// engine returns one of the two engines.
func (r *rig) engine(t tester, i int) *core.Engine {
	t.Helper()
	require.Len(t, r.all, 2, "the store is not shared")
	return r.all[i]
}

func pushOne(r *rig, i int, name string) {
	r.t.Helper()
	out, err := r.engine(r.t, i).Push(context.Background(), core.PushParams{
		Protocol: core.ProtocolQueen, Create: true,
		Items: []core.PushItem{{Queue: "q", NewMessage: core.NewMessage{TransactionID: name, Payload: []byte("1")}}},
	})
	require.NoError(r.t, err)
	require.Equal(r.t, core.PushQueued, out[0].Status)
}

func popAt(r *rig, i int) batch {
	r.t.Helper()
	c, err := r.engine(r.t, i).Claim(context.Background(), core.ClaimParams{
		Protocol: core.ProtocolQueen, Exclusive: true, Queue: "q", Messages: 10, Create: true,
	})
	require.NoError(r.t, err)
	return batch{c.Lease, c}
}

func ackAt(r *rig, i int, b batch, names ...string) {
	r.t.Helper()
	var acks []core.Ack
	for _, name := range names {
		acks = append(acks, core.Ack{Partition: b.Partitions[0].Partition.ID, TransactionID: name, Lease: b.lease})
	}
	out, err := r.engine(r.t, i).Ack(context.Background(), acks)
	require.NoError(r.t, err)
	for j := range out {
		require.NoError(r.t, out[j].Err)
	}
}

func shareSeen(r *rig) {
	for i := range 50 {
		name := fmt.Sprint("t", i)
		pushOne(r, i%2, name)
		b := popAt(r, (i+1)%2)
		require.Equal(r.t, []string{name}, b.names())
		ackAt(r, i%2, b, name)
	}
}

func shareReleased(r *rig) {
	pushOne(r, 0, "a")
	for i := range 20 {
		b := popAt(r, i%2)
		require.Equal(r.t, []string{"a"}, b.names())
		require.Empty(r.t, popAt(r, (i+1)%2).names(), "the partition is leased")
		out, err := r.engine(r.t, i%2).Ack(context.Background(), []core.Ack{{
			Partition: b.Partitions[0].Partition.ID, TransactionID: "a", Lease: b.lease, Status: core.AckRetry,
		}})
		require.NoError(r.t, err)
		require.NoError(r.t, out[0].Err)
		require.Equal(r.t, []string{"a"}, popAt(r, (i+1)%2).names())
		r.clock.Advance(time.Hour) // that lease runs out
	}
}

func shareWakes(r *rig) {
	pushOne(r, 0, "first")
	ackAt(r, 0, popAt(r, 1), "first")
	for i := range 10 {
		got := make(chan core.Claimed, 1)
		go func() {
			c, _ := r.all[i%2].Claim(context.Background(), waitingPop("q", "", 1, time.Hour))
			got <- c
		}()
		for {
			s, err := r.QueueStats(context.Background(), "q", "")
			require.NoError(r.t, err)
			if s.ClaimsWaiting == 1 {
				break
			}
		}
		name := fmt.Sprint("t", i)
		pushOne(r, (i+1)%2, name)
		select {
		case c := <-got:
			b := batch{c.Lease, c}
			require.Equal(r.t, []string{name}, b.names())
			ackAt(r, i%2, b, name)
		case <-time.After(10 * time.Second):
			require.Fail(r.t, "a push at another engine wakes nobody")
		}
	}
}

func shareExtended(r *rig) {
	r.pushTo("q", "a", "a", "b", "b")
	c, err := r.engine(r.t, 0).Claim(context.Background(), core.ClaimParams{Protocol: core.ProtocolQueen, Exclusive: true, Queue: "q", Messages: 10})
	require.NoError(r.t, err)
	require.Len(r.t, c.Partitions, 2)
	first := c.Partitions[0]
	ackAt(r, 1, batch{c.Lease, c}, first.Messages[0].Transaction())
	x, err := r.engine(r.t, 1).Extend(context.Background(), core.ExtendParams{Lease: c.Lease, For: time.Hour})
	require.NoError(r.t, err)
	require.Equal(r.t, 2, x.Renewed, "both partitions of the lease")
}

func shareScheduled(r *rig) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(3, 30*time.Second))
	for i := range 20 {
		_, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolCloudflare, Items: []core.PushItem{{
			Queue: "q", NewMessage: core.NewMessage{Payload: fmt.Append(nil, i), Due: r.clock.Now().Add(time.Minute)},
		}}})
		require.NoError(r.t, err)
	}
	require.Empty(r.t, r.pull("q", 100).offsets())
	r.advance(time.Minute, "q")
	require.Len(r.t, append(r.pull("q", 100).offsets(), r.pull("q", 100).offsets()...), 20)
}

func shareDeleted(r *rig) {
	for i := range 10 {
		pushOne(r, i%2, "a")
		require.NoError(r.t, r.engine(r.t, (i+1)%2).DeleteQueue(context.Background(), "q", true))
		_, err := r.engine(r.t, i%2).Push(context.Background(), core.PushParams{
			Protocol: core.ProtocolCloudflare, Items: []core.PushItem{{Queue: "q", NewMessage: core.NewMessage{Payload: []byte("1")}}},
		})
		require.Equal(r.t, core.CodeNoQueue, core.CodeOf(err))
		_, err = r.engine(r.t, i%2).Claim(context.Background(), core.ClaimParams{Protocol: core.ProtocolCloudflare, Queue: "q", Messages: 1})
		require.Equal(r.t, core.CodeNoQueue, core.CodeOf(err))
	}
}

// shareRemade deletes a queue at one engine and makes it again there; the other one uses the new one at once.
func shareRemade(r *rig) {
	for i := range 20 {
		a, b := r.engine(r.t, i%2), r.engine(r.t, (i+1)%2)
		q := core.Queue{Name: "q", Origin: core.ProtocolCloudflare}
		_, err := a.CreateQueue(context.Background(), q, 1)
		require.NoError(r.t, err)
		one := core.PushParams{Protocol: core.ProtocolCloudflare, Items: []core.PushItem{{Queue: "q", NewMessage: core.NewMessage{Payload: []byte("1")}}}}
		_, err = b.Push(context.Background(), one)
		require.NoError(r.t, err)
		require.NoError(r.t, a.DeleteQueue(context.Background(), "q", true))
		_, err = a.CreateQueue(context.Background(), q, 1)
		require.NoError(r.t, err)
		_, err = b.Push(context.Background(), one)
		require.NoError(r.t, err)
		c, err := b.Claim(context.Background(), core.ClaimParams{Protocol: core.ProtocolCloudflare, Queue: "q", Messages: 10})
		require.NoError(r.t, err)
		require.Equal(r.t, []int64{1}, batch{c.Lease, c}.offsets())
		require.NoError(r.t, b.DeleteQueue(context.Background(), "q", true))
	}
}

func shareMade(r *rig) {
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			for n := range 20 {
				out, err := r.all[i].Push(context.Background(), core.PushParams{
					Protocol: core.ProtocolQueen, Create: true,
					Items: []core.PushItem{{Queue: fmt.Sprint("q", n), NewMessage: core.NewMessage{Payload: []byte("1")}}},
				})
				if err != nil || out[0].Status != core.PushQueued {
					panic(fmt.Sprint(out, err))
				}
			}
		})
	}
	wg.Wait()
	for n := range 20 {
		require.Len(r.t, r.pop(fmt.Sprint("q", n), "", 10).offsets(), 2)
	}
}

func sharePushed(r *rig) {
	const ids = 60
	var mu sync.Mutex
	queued := map[string]int{}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for n := range ids {
				items := []core.PushItem{
					{Queue: "q", NewMessage: core.NewMessage{TransactionID: fmt.Sprint("t", n), Payload: []byte("1")}},
					{Queue: "q", NewMessage: core.NewMessage{TransactionID: fmt.Sprint("w", i, "-", n), Payload: []byte("1")}},
				}
				out, err := r.all[i%2].Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Create: true, Items: items})
				if err != nil {
					panic(err)
				}
				mu.Lock()
				for j := range out {
					if out[j].Status == core.PushQueued {
						queued[out[j].TransactionID]++
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(r.t, queued, ids+6*ids)
	for name, n := range queued {
		require.Equal(r.t, 1, n, name)
	}
	names := r.pop("q", "", 1000).names()
	require.Len(r.t, names, ids+6*ids)
	for _, name := range names {
		require.Equal(r.t, 1, queued[name], name)
	}
}

func shareConfigured(r *rig) {
	pushOne(r, 0, "a")
	for i := range 10 {
		pause := i%2 == 0
		_, err := r.engine(r.t, i%2).ConfigureQueue(context.Background(), "q", func(q *core.Queue) error {
			q.Options.DeliveryPaused = pause
			return nil
		})
		require.NoError(r.t, err)
		_, err = r.engine(r.t, (i+1)%2).Claim(context.Background(), core.ClaimParams{Protocol: core.ProtocolCloudflare, Queue: "q", Messages: 1})
		if pause {
			require.Equal(r.t, core.CodePaused, core.CodeOf(err))
		} else {
			require.NoError(r.t, err)
			r.clock.Advance(time.Hour)
		}
	}
}

// shareClaimed lets claims of both engines race for single messages: each is in one hand at a time.
func shareClaimed(r *rig) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(100, time.Hour))
	const messages = 300
	for i := range messages {
		pushOne(r, i%2, fmt.Sprint("t", i))
	}
	var mu sync.Mutex
	got := map[int64]int{}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for {
				c, err := r.all[i%2].Claim(context.Background(), core.ClaimParams{Protocol: core.ProtocolCloudflare, Queue: "q", Messages: 3})
				if err != nil {
					panic(err)
				}
				offsets := batch{c.Lease, c}.offsets()
				if len(offsets) == 0 {
					return
				}
				mu.Lock()
				for _, off := range offsets {
					got[off]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(r.t, got, messages)
	for off, n := range got {
		require.Equal(r.t, 1, n, "offset %d", off)
	}
}
