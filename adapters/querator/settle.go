package querator

import (
	"strconv"

	"google.golang.org/protobuf/types/known/timestamppb"

	basepb "github.com/leasehold/leasehold/adapters/querator/pb/base"
	leasepb "github.com/leasehold/leasehold/adapters/querator/pb/lease"
	reservepb "github.com/leasehold/leasehold/adapters/querator/pb/reserve"
	"github.com/leasehold/leasehold/core"
)

// complete is queue.complete. Any holder of an id may complete the item, all of them or none.
func complete(c *call) (reply, error) {
	m, err := c.decodeComplete()
	if err != nil {
		return nil, err
	}
	q, p, err := c.lookupPartition(m.QueueName, m.Partition)
	if err != nil {
		return nil, err
	}
	c.adopt(&q)
	wait, err := parseTimeout(m.RequestTimeout)
	switch n := len(m.Ids); {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, errNoIDs
	case n > c.o.MaxCompleteBatch:
		return nil, batchTooLarge("ids", "max_complete_batch_size", strconv.Itoa(c.o.MaxCompleteBatch), strconv.Itoa(n))
	case wait > maxTimeout:
		return nil, timeoutTooLong(wait, c.dialect.over)
	case wait == 0:
		return nil, errTimeoutRequired
	case wait < 0:
		// There is no minimum, but a time that is over before it begins cannot be met.
		return nil, timeoutTooShort(wait)
	}
	items := make([]givenBack, len(m.Ids))
	for i, id := range m.Ids {
		items[i].id = id
	}
	return c.settle(&q, p, "completed", items, core.SettleItemsParams{Queue: m.QueueName, Ordinal: m.Partition, Wait: wait})
}

// decodeComplete reads the body.
func (c *call) decodeComplete() (*basepb.CompleteRequest, error) {
	if c.in == encodeJSON {
		if m, ok := fastComplete(c.body); ok {
			return m, nil
		}
	}
	m := &basepb.CompleteRequest{}
	return m, c.decode(m)
}

// givenBack is one item of a retry, or of a completion without anything but its id.
type givenBack struct {
	id   string
	at   *timestamppb.Timestamp
	dead bool
	// retry is false for a completion.
	retry bool
}

// retryRequest is queue.retry and queue.defer.
type retryRequest struct {
	queue     string
	partition int32
	items     []givenBack
}

// retry is queue.retry, and queue.defer of the reserve family: each item goes back to the queue,
// now or later, or to the dead queue.
func retry(c *call) (reply, error) {
	req, err := c.decodeRetry()
	if err != nil {
		return nil, err
	}
	q, p, err := c.lookupPartition(req.queue, req.partition)
	if err != nil {
		return nil, err
	}
	switch n := len(req.items); {
	case n == 0:
		return nil, errNoItems
	case n > c.o.MaxCompleteBatch:
		return nil, batchTooLarge("items", "max_complete_batch_size", strconv.Itoa(c.o.MaxCompleteBatch), strconv.Itoa(n))
	}
	act := "retried"
	if c.dialect.reserve() {
		act = "deferred"
	}
	return c.settle(&q, p, act, req.items, core.SettleItemsParams{Queue: req.queue, Ordinal: req.partition})
}

// decodeRetry reads the body: the families are the same in protobuf.
func (c *call) decodeRetry() (*retryRequest, error) {
	if c.dialect.reserve() {
		var m reservepb.DeferRequest
		if err := c.decode(&m); err != nil {
			return nil, err
		}
		req := &retryRequest{queue: m.QueueName, partition: m.Partition, items: make([]givenBack, len(m.Items))}
		for i, it := range m.Items {
			req.items[i] = givenBack{id: it.Id, at: it.EnqueueAt, dead: it.Dead, retry: true}
		}
		return req, nil
	}
	var m leasepb.RetryRequest
	if err := c.decode(&m); err != nil {
		return nil, err
	}
	req := &retryRequest{queue: m.QueueName, partition: m.Partition, items: make([]givenBack, len(m.Items))}
	for i, it := range m.Items {
		req.items[i] = givenBack{id: it.Id, at: it.RetryAt, dead: it.Dead, retry: true}
	}
	return req, nil
}

// lookupPartition finds a queue and one of its partitions by number.
func (c *call) lookupPartition(name string, number int32) (core.Queue, core.Partition, error) {
	q, err := c.lookup(name)
	if err != nil {
		return core.Queue{}, core.Partition{}, err
	}
	p, err := c.engine.PartitionAt(c.ctx, name, number)
	if err != nil {
		return core.Queue{}, core.Partition{}, c.failed(operation{queue: name, partition: strconv.Itoa(int(number))}, err)
	}
	return q, p, nil
}

// lookAgain finds a queue and one of its partitions as other gateways have left them, and whether the partition is another one than before.
func (c *call) lookAgain(name string, number int32, before core.Partition) (q core.Queue, p core.Partition, changed bool) {
	if c.engine.Refresh(c.ctx) != nil {
		return q, p, false
	}
	q, p, err := c.lookupPartition(name, number)
	return q, p, err == nil && p.ID != before.ID
}

// settle reads the ids and settles their items, all or none.
func (c *call) settle(q *core.Queue, p core.Partition, act string, items []givenBack, params core.SettleItemsParams) (reply, error) {
	if err := c.rooms.enter(q.ID); err != nil {
		return nil, err
	}
	defer c.rooms.leave(q.ID)
	now := c.engine.Now()
	params.Items = make([]core.ItemSettlement, len(items))
	ids := make([]string, len(items))
	for i := range items {
		it, out := &items[i], &params.Items[i]
		place, ok, err := c.ids.parse(it.id, p.ID)
		if err != nil {
			return nil, malformedID(it.id, err)
		}
		if !ok {
			// Another gateway may have made the queue anew, and leased the item from that.
			if again, now, changed := c.lookAgain(params.Queue, params.Ordinal, p); changed {
				return c.settle(&again, now, act, items, params)
			}
			return nil, noItem(it.id)
		}
		ids[i] = it.id
		out.ItemRef = core.ItemRef{Offset: place.offset, Turn: core.Turn(place.turn), Second: place.second}
		switch {
		case !it.retry:
			out.Outcome = core.OutcomeDone
		case it.dead:
			out.Outcome = core.OutcomeDead
		default:
			out.Outcome = core.OutcomeRetry
			if out.Due, err = dueAt(it.at, now); err != nil {
				return nil, err
			}
		}
	}
	if err := c.engine.SettleItems(c.ctx, params); err != nil {
		o := operation{queue: params.Queue, partition: strconv.Itoa(int(params.Ordinal)), act: act, ids: ids}
		return nil, c.failed(o, err)
	}
	return okReply{}, nil
}
