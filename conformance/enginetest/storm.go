package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Storm runs clients that leave at random moments beside others that settle what they get. Whatever was given to a client that
// left must come back unused: no attempt is missing, nothing stays leased, nothing is lost and nothing settled returns.
func Storm(t *testing.T, open Open) {
	t.Run("shared", func(t *testing.T) { stormShared(newRig(t, open)) })
	t.Run("exclusive", func(t *testing.T) { stormExclusive(newRig(t, open)) })
	t.Run("deletion", func(t *testing.T) { stormDeletion(newRig(t, open)) })
}

const (
	stormClients  = 6
	stormRounds   = 60
	stormMessages = 150
)

// impatient is a context that ends at a random moment, often before the answer.
func impatient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Duration(rand.IntN(1500))*time.Microsecond)
}

func (r *rig) storm(client func(round int)) {
	var wg sync.WaitGroup
	for range stormClients {
		wg.Go(func() {
			for i := range stormRounds {
				client(i)
			}
		})
	}
	wg.Go(func() {
		for i := 1; i <= stormMessages; i += 5 {
			r.push("q", i, i+4)
		}
	})
	wg.Wait()
}

func stormShared(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Hour, 24*time.Hour), cloudflare(0, time.Hour), func(o *core.QueueOptions) { o.MaxDeliveries = 0 })
	var mu sync.Mutex
	attempts, done := map[int64]int32{}, map[int64]bool{}
	var wrong []string
	take := func(d *core.Delivery, last bool) {
		mu.Lock()
		defer mu.Unlock()
		if done[d.Offset] || d.Attempt != attempts[d.Offset]+1 {
			wrong = append(wrong, fmt.Sprintf("offset %d: attempt %d after %d, settled %v", d.Offset, d.Attempt, attempts[d.Offset], done[d.Offset]))
		}
		attempts[d.Offset], done[d.Offset] = d.Attempt, last
	}
	r.storm(func(round int) {
		ctx, cancel := impatient()
		defer cancel()
		p := core.ClaimParams{Protocol: core.ProtocolCloudflare, Queue: "q", Messages: 1 + rand.IntN(8), Wait: time.Hour}
		if round%2 == 0 {
			p.Protocol, p.Partitions = core.ProtocolQuerator, 1
		}
		c, err := r.Claim(ctx, p)
		if err != nil {
			return
		}
		for _, cp := range c.Partitions {
			var items []core.MessageSettlement
			for i := range cp.Messages {
				d := &cp.Messages[i]
				s := core.MessageSettlement{MessageToken: core.MessageToken{Partition: cp.Partition.ID, Offset: d.Offset, Message: d.ID, Lease: d.Lease}}
				if rand.IntN(2) == 0 {
					s.Outcome = core.OutcomeRetry
				}
				take(d, s.Outcome == core.OutcomeDone)
				items = append(items, s)
			}
			if _, err := r.SettleMessages(context.Background(), "q", items); err != nil {
				panic(err)
			}
		}
	})
	require.Empty(r.t, wrong)
	r.stormEnd("", stormMessages-countTrue(done))
	for d := r.pull("q", stormMessages); len(d.offsets()) > 0; d = r.pull("q", stormMessages) {
		for _, cp := range d.Partitions {
			for i := range cp.Messages {
				take(&cp.Messages[i], true)
				r.settle("q", core.MessageSettlement{MessageToken: r.token("q", cp.Messages[i])})
			}
		}
	}
	require.Empty(r.t, wrong)
	require.Equal(r.t, stormMessages, countTrue(done))
}

func countTrue(m map[int64]bool) (n int) {
	for _, v := range m {
		if v {
			n++
		}
	}
	return n
}

// stormEnd checks that nothing stays leased and that what is left is all there is.
func (r *rig) stormEnd(group string, left int) {
	r.t.Helper()
	r.settleDown("q")
	s, err := r.QueueStats(context.Background(), "q", group)
	require.NoError(r.t, err)
	require.Zero(r.t, s.ClaimsWaiting)
	require.Zero(r.t, s.Total.Leased.Messages, "what is leased to nobody")
	require.EqualValues(r.t, left, s.Total.Pending.Messages)
}

func stormExclusive(r *rig) {
	r.queue("q", core.ProtocolQueen)
	part := r.partition("q").ID
	var mu sync.Mutex
	settled := int64(0)
	var wrong []string
	r.storm(func(int) {
		ctx, cancel := impatient()
		defer cancel()
		c, err := r.Claim(ctx, waitingPop("q", "g", 1+rand.IntN(8), time.Hour))
		if err != nil || len(c.Partitions) == 0 {
			return
		}
		ds := c.Partitions[0].Messages
		status := core.AckStatus(rand.IntN(2)) //nolint:gosec // completed or retry
		at := ds[rand.IntN(len(ds))]
		mu.Lock()
		for i := range ds {
			if ds[i].Offset != settled+1+int64(i) {
				wrong = append(wrong, fmt.Sprintf("offset %d at place %d behind %d", ds[i].Offset, i, settled))
			}
		}
		last := at.Offset
		if status == core.AckCompleted {
			at, last = ds[len(ds)-1], ds[len(ds)-1].Offset
		} else {
			last--
		}
		settled = max(settled, last)
		mu.Unlock()
		out, err := r.Ack(context.Background(), []core.Ack{{Partition: part, TransactionID: at.TransactionID, Group: "g", Lease: c.Lease, Status: status}})
		if err != nil || out[0].Err != nil || !out[0].Released {
			mu.Lock()
			wrong = append(wrong, fmt.Sprintf("acknowledgement of %d: %v %+v", at.Offset, err, out))
			mu.Unlock()
		}
	})
	require.Empty(r.t, wrong)
	r.stormEnd("g", stormMessages-int(settled))
	if b := r.pop("q", "g", stormMessages); settled < stormMessages {
		require.Equal(r.t, settled+1, b.offsets()[0])
		require.Len(r.t, b.offsets(), stormMessages-int(settled))
	}
}

// stormDeletion deletes and purges a queue under its clients: each call ends, with an answer that says what happened.
func stormDeletion(r *rig) {
	ctx := context.Background()
	var mu sync.Mutex
	wrong := map[string]bool{}
	check := func(what string, err error, allowed ...core.Code) {
		if err == nil || slices.Contains(allowed, core.CodeOf(err)) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		wrong[fmt.Sprint(what, ": ", err)] = true
	}
	var wg sync.WaitGroup
	for range stormClients {
		wg.Go(func() {
			for i := range stormRounds {
				if i%3 == 0 {
					_, err := r.pushNamed(false, fmt.Sprint(rand.Int64()), "")
					check("push", err, core.CodeDeleted, core.CodeConflict)
					continue
				}
				soon, cancel := impatient()
				c, err := r.Claim(soon, waitingPop("q", []string{"", "g"}[i%2], 4, time.Hour))
				cancel()
				check("claim", err, core.CodeCanceled, core.CodeDeleted, core.CodeNoQueue)
				for _, cp := range c.Partitions {
					_, err := r.Ack(ctx, []core.Ack{{Partition: cp.Partition.ID, TransactionID: cp.Messages[0].Transaction(), Lease: c.Lease, Group: []string{"", "g"}[i%2]}})
					check("acknowledgement", err, core.CodeDeleted)
				}
				_, err = r.QueueStats(ctx, "q", "")
				check("stats", err, core.CodeNoQueue)
			}
		})
	}
	wg.Go(func() {
		for range stormRounds / 3 {
			time.Sleep(time.Duration(rand.IntN(1500)) * time.Microsecond)
			if rand.IntN(2) == 0 {
				check("purge", r.Purge(ctx, "q"), core.CodeNoQueue)
			} else {
				check("deletion", r.DeleteQueue(ctx, "q", true), core.CodeNoQueue)
			}
		}
	})
	wg.Wait()
	require.Empty(r.t, wrong)
	check("deletion", r.DeleteQueue(ctx, "q", true), core.CodeNoQueue)
	require.Equal(r.t, "+", r.statuses("after"))
	require.Equal(r.t, []string{"after"}, r.pop("q", "g", 5).names())
	require.Zero(r.t, r.claimsWaiting("q", "g"))
}
