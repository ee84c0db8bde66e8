package querator_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/kapetan-io/querator"
	pb "github.com/kapetan-io/querator/proto"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/querator"
)

// crowd is many clients at one queue of two partitions.
type crowd struct {
	*fixture
	client *client.Client
	want   int64
	held   sync.Map
	done   atomic.Int64
}

// finish completes an item that must not have been handed out before.
func (c *crowd) finish(ref, id string, partition int32) {
	if _, twice := c.held.LoadOrStore(ref, id); twice {
		assert.Fail(c.t, "handed out twice", ref)
	}
	req := &pb.QueueCompleteRequest{QueueName: "q", Partition: partition, RequestTimeout: "1m", Ids: []string{id}}
	if err := c.client.QueueComplete(c.t.Context(), req); err != nil {
		c.t.Error(err)
	}
	c.done.Add(1)
}

func (c *crowd) produce(who, requests, batch int) {
	for r := range requests {
		req := &pb.QueueProduceRequest{QueueName: "q", RequestTimeout: "1m"}
		for i := range batch {
			req.Items = append(req.Items, &pb.QueueProduceItem{Reference: fmt.Sprintf("%d-%d-%d", who, r, i), Utf8: "x"})
		}
		assert.NoError(c.t, c.client.QueueProduce(c.t.Context(), req))
	}
}

// lease consumes with the official client, in protobuf.
func (c *crowd) lease(who string) {
	for c.done.Load() < c.want {
		var res pb.QueueLeaseResponse
		req := &pb.QueueLeaseRequest{QueueName: "q", ClientId: who, BatchSize: 5, RequestTimeout: "1s"}
		if err := c.client.QueueLease(c.t.Context(), req, &res); err != nil {
			continue
		}
		for _, it := range res.Items {
			c.finish(it.Reference, it.Id, res.Partition)
		}
	}
}

// reserve consumes in JSON by the older names.
func (c *crowd) reserve(who string) {
	for c.done.Load() < c.want {
		a := c.post("/v1/queue.reserve", leaseBody("q", who, 5, "1s"))
		if a.status != http.StatusOK {
			continue
		}
		var res struct {
			Partition int32
			Items     []struct{ ID, Reference string }
		}
		if err := json.Unmarshal([]byte(a.body), &res); err != nil {
			c.t.Error(err)
			return
		}
		for _, it := range res.Items {
			c.finish(it.Reference, it.ID, res.Partition)
		}
	}
}

// Producers and consumers of both families at once: every item is handed out once and completed
// once.
func TestManyClientsOfBothFamilies(t *testing.T) {
	const producers, requests, batch, consumers = 4, 25, 8, 6
	f := newFixture(t, querator.Options{})
	f.ok("/v1/queues.create", `{"queue_name":"q","lease_timeout":"24h","expire_timeout":"48h","requested_partitions":2}`)
	c := &crowd{fixture: f, client: f.official(), want: producers * requests * batch}
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() { c.produce(p, requests, batch) })
	}
	for n := range consumers {
		wg.Go(func() {
			if n%2 == 0 {
				c.lease(strconv.Itoa(n))
			} else {
				c.reserve(strconv.Itoa(n))
			}
		})
	}
	finished := make(chan struct{})
	go func() {
		wg.Wait()
		close(finished)
	}()
	// The clock ends the last waits; it runs too slowly for a lease to expire.
	for ended := false; !ended; {
		select {
		case <-finished:
			ended = true
		case <-time.After(time.Millisecond):
			f.clock.Advance(10 * time.Millisecond)
		}
	}
	require.Equal(t, c.want, c.done.Load())
	require.NotContains(t, f.ok("/v1/queue.stats", `{"queue_name":"q"}`).body, `"total"`)
}

// A request that comes in the moment in which a queue is released is not held for ever.
func TestNothingIsLeftBehindWhenAPausedQueueIsReleased(t *testing.T) {
	f := newFixture(t, querator.Options{})
	for round := range 200 {
		name := fmt.Sprintf("q%d", round)
		f.create(name)
		f.pause(name, true)
		waiter := f.later(t.Context(), "/v1/queue.lease", leaseBody(name, "c", 1, "1m"))
		f.waiting(name, 1)
		produced := f.later(t.Context(), "/v1/queue.produce", `{"queue_name":"`+name+`","request_timeout":"1m","items":[{"utf8":"x"}]}`)
		f.pause(name, false)
		require.Equal(t, 200, soon(t, produced).status)
		require.Len(t, soon(t, waiter).items(t), 1)
	}
}
