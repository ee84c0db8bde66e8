package querator

import (
	"bytes"

	basepb "github.com/leasehold/leasehold/adapters/querator/pb/base"
	leasepb "github.com/leasehold/leasehold/adapters/querator/pb/lease"
	reservepb "github.com/leasehold/leasehold/adapters/querator/pb/reserve"
	"github.com/leasehold/leasehold/core"
)

// clearRequest is queue.clear in any generation.
type clearRequest struct {
	name string
	// queue empties what is queued and not leased, scheduled what is for later; destructive makes
	// queue empty everything. again is the flag for retries, which never did anything.
	queue, scheduled, destructive, again bool
}

// clearQueue is queue.clear, in all partitions of the queue.
func clearQueue(c *call) (reply, error) {
	req, err := c.decodeClear()
	if err != nil {
		return nil, err
	}
	q, err := c.lookup(req.name)
	if err != nil {
		return nil, err
	}
	c.adopt(&q)
	switch {
	case !req.queue && !req.scheduled && !req.again:
		return nil, nothingToClear(c.dialect)
	case req.queue && req.destructive:
		err = c.engine.Purge(c.ctx, req.name)
	case req.queue || req.scheduled:
		err = c.engine.Clear(c.ctx, core.ClearParams{Queue: req.name, Queued: req.queue, Scheduled: req.scheduled})
	}
	if err != nil {
		return nil, c.failed(operation{queue: req.name}, err)
	}
	return okReply{}, nil
}

// decodeClear reads the body. An Auto listener takes the older flags where the body has them: all
// generations number them alike.
func (c *call) decodeClear() (*clearRequest, error) {
	switch g := c.dialect.gen; {
	case g == R1 || g == R2:
		return c.decodeClearReserve()
	case g == L1 || c.auto() && c.in == encodeProtobuf:
		var m leasepb.ClearRequestL1
		err := c.decode(&m)
		return &clearRequest{m.QueueName, m.Queue, m.Scheduled, m.Destructive, m.Retry}, err
	case c.auto() && (bytes.Contains(c.body, []byte(`"Queue"`)) || bytes.Contains(c.body, []byte(`"defer"`))):
		if req, err := c.decodeClearReserve(); err == nil {
			return req, nil
		}
	}
	var m leasepb.ClearRequest
	err := c.decode(&m)
	return &clearRequest{m.QueueName, m.Queue, m.Scheduled, m.Destructive, false}, err
}

func (c *call) decodeClearReserve() (*clearRequest, error) {
	var m reservepb.ClearRequest
	err := c.decode(&m)
	return &clearRequest{m.QueueName, m.Queue, m.Scheduled, m.Destructive, m.Defer}, err
}

// reloadQueue is queue.reload. There is nothing to read again: what is counted is counted where it
// is stored.
func reloadQueue(c *call) (reply, error) {
	var m basepb.ReloadRequest
	if err := c.decode(&m); err != nil {
		return nil, err
	}
	if _, err := c.lookup(m.QueueName); err != nil {
		return nil, err
	}
	return okReply{}, nil
}
