package enginetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

const (
	// idleRounds are how many pushes a producer makes at least, idleMost at most: until partitions were seen to come and go.
	idleRounds, idleMost, idleProducers, idlePartitions = 60, 1000, 4, 6
)

// idleStorm pushes in every way while partitions that were emptied by their consumer are removed under the pushes: what was answered
// is delivered, each message to whoever asks for it, and partitions do come and go.
func idleStorm(r *rig) {
	r.queue("still", core.ProtocolCloudflare)
	q := core.Queue{Name: "q", Origin: core.ProtocolQueen}
	q.Options.Queen = core.ImplicitQueen()
	retention(0, 1, 0)(&q.Options) // what is settled goes after a second
	q.Options.Queen.DedupWindowSeconds = 0
	_, err := r.CreateQueue(context.Background(), q, 0)
	require.NoError(r.t, err)
	c := &idleConsumer{r: r, got: map[string]bool{}, parts: map[uuid.UUID]bool{}}
	var pushing, consuming sync.WaitGroup
	var ended atomic.Bool
	pushed := make([][]string, idleProducers)
	for n := range pushed {
		pushing.Go(func() {
			for i := 0; i < idleRounds || i < idleMost && c.seen.Load() <= 2*idlePartitions; i++ {
				pushed[n] = append(pushed[n], r.idlePush(n, i)...)
				if i%3 == n%3 {
					time.Sleep(5 * time.Millisecond) // so that partitions become empty at times
				}
			}
		})
	}
	consuming.Go(func() {
		for !ended.Load() {
			c.take()
		}
	})
	consuming.Go(func() {
		for !ended.Load() {
			r.clock.Advance(16 * day)
			r.Wake()
			time.Sleep(time.Millisecond) // so that something else comes between two jumps
		}
	})
	pushing.Wait()
	ended.Store(true)
	consuming.Wait()
	r.clock.Advance(day)
	for empty := 0; empty < 5; empty++ {
		r.advance(2*time.Second, "still")
		if c.take() {
			empty = 0
		}
	}
	require.Empty(r.t, c.wrong)
	for n := range pushed {
		for _, id := range pushed[n] {
			require.True(r.t, c.got[id], "%s was stored and is lost", id)
		}
	}
	require.Greater(r.t, len(c.parts), idlePartitions, "no partition was removed meanwhile")
}

// idlePush pushes one or two messages to partitions in turn, in one of several ways, and returns their names.
func (r *rig) idlePush(n, i int) []string {
	e := r.next()
	item := func(k int) core.PushItem {
		id := fmt.Sprintf("%d-%d-%d", n, i, k)
		return core.PushItem{
			Queue: "q", Partition: fmt.Sprint((n + i + k) % idlePartitions), NewMessage: core.NewMessage{TransactionID: id, Payload: []byte(id)},
		}
	}
	items := []core.PushItem{item(0), item(1)}
	ctx := context.Background()
	var out []core.Pushed
	var err error
	switch i % 3 {
	case 0:
		out, err = e.Push(ctx, core.PushParams{Protocol: core.ProtocolQueen, Items: items, Create: true})
	case 1:
		items[1].Due = e.Now().Add(time.Second)
		out, err = e.Push(ctx, core.PushParams{Protocol: core.ProtocolQueen, Items: items, Create: true})
	default:
		var x core.Transacted
		x, err = e.Transact(ctx, core.TransactParams{Pushes: items})
		out = x.Pushes
	}
	if err != nil {
		panic(err)
	}
	var names []string
	for k := range out {
		if out[k].Status != core.PushQueued {
			panic(fmt.Sprint(items[k].TransactionID, " is not stored: ", out[k].Err))
		}
		names = append(names, items[k].TransactionID)
	}
	return names
}

// idleConsumer takes what there is, completes it and remembers it.
type idleConsumer struct {
	r     *rig
	got   map[string]bool // completed or not
	parts map[uuid.UUID]bool
	seen  atomic.Int64 // how many partitions
	wrong []string
}

// take reports whether there was anything.
func (c *idleConsumer) take() bool {
	p := waitingPop("q", "", 100, 0)
	p.Partitions, p.Lease = 0, 50_000*day // longer than the clock gets ahead between two answers
	got, err := c.r.Claim(context.Background(), p)
	if err != nil {
		c.wrong = append(c.wrong, err.Error())
	}
	var acks []core.Ack
	for i := range got.Partitions {
		part := got.Partitions[i].Partition.ID
		c.parts[part] = true
		c.seen.Store(int64(len(c.parts)))
		for j := range got.Partitions[i].Messages {
			id := got.Partitions[i].Messages[j].TransactionID
			if c.got[id] {
				c.wrong = append(c.wrong, id+" came again")
			}
			acks = append(acks, core.Ack{Partition: part, TransactionID: id, Lease: got.Lease})
		}
	}
	done, err := c.r.Ack(context.Background(), acks)
	if err != nil {
		c.wrong = append(c.wrong, err.Error())
	}
	for i := range done {
		if done[i].Err != nil {
			c.wrong = append(c.wrong, acks[i].TransactionID+": "+done[i].Err.Error())
			continue
		}
		c.got[acks[i].TransactionID] = true
	}
	return len(acks) > 0
}
