package querator

import (
	"encoding/json"
	"math"
	"time"

	"github.com/leasehold/leasehold/core"
)

// given tells which members of a queue's record a request sets.
type given struct {
	deadQueue, reference, maxAttempts bool
}

// updateQueue is queues.update. JSON sets the members that it has, protobuf cannot tell absent from
// zero: there the dead queue, the reference and the attempts are replaced by whatever they say.
// Timeouts and the number of partitions are set only by what is not zero; items that are leased or
// queued keep the deadlines that they have.
func updateQueue(c *call) (reply, error) {
	req, err := c.decodeCreate()
	if err != nil {
		return nil, err
	}
	lease, expire, err := c.checkNameAndTimeouts(req)
	if err != nil {
		return nil, err
	}
	q, err := c.engine.Queue(c.ctx, req.name)
	if err != nil {
		return nil, c.noQueueToUpdate(req.name, err)
	}
	if req.made == "" {
		c.adopt(&q)
	}
	if err := c.inScope(namespaceOf(&q)); err != nil {
		return nil, err
	}
	u := &update{createRequest: req, given: c.given(), lease: lease, expire: expire}
	if u.given.deadQueue {
		if u.dead, err = c.checkDeadQueue(req); err != nil {
			return nil, err
		}
	}
	if _, err := c.engine.ConfigureQueue(c.ctx, req.name, func(q *core.Queue) error { return c.merge(u, q) }); err != nil {
		return nil, c.noQueueToUpdate(req.name, err)
	}
	return okReply{}, nil
}

// update is what a request sets of a queue's record.
type update struct {
	*createRequest
	given
	lease, expire time.Duration
	dead          deadQueue
}

// noQueueToUpdate words the failure of an update: all generations but the newest answered an
// unknown queue in another way than everywhere else.
func (c *call) noQueueToUpdate(name string, err error) error {
	if core.CodeOf(err) == core.CodeNoQueue && c.dialect.gen != L2 {
		return errNoQueueToUpdate
	}
	return c.failed(operation{queue: name}, err)
}

// given tells which members the body sets.
func (c *call) given() given {
	if c.in == encodeProtobuf {
		return given{deadQueue: true, reference: true, maxAttempts: true}
	}
	// The body was decoded before, strictly; here only the names count.
	var names map[string]json.RawMessage
	_ = json.Unmarshal(c.body, &names)
	has := func(keys ...string) bool {
		for _, k := range keys {
			if v, ok := names[k]; ok && string(v) != "null" {
				return true
			}
		}
		return false
	}
	return given{
		deadQueue: has("dead_queue", "deadQueue"), reference: has("reference"), maxAttempts: has("max_attempts", "maxAttempts"),
	}
}

// merge puts what the request sets into a queue's record, and checks the outcome. The record that
// q shared before is left as it was.
func (c *call) merge(u *update, q *core.Queue) error {
	// In a queue of another protocol nothing expires until somebody says so.
	s := core.Querator{LeaseTimeout: defaultLease, Partitions: 1, Family: string(u.made)}
	if q.Options.Querator != nil {
		s = *q.Options.Querator
	}
	q.Options.Querator = &s
	if u.lease != 0 {
		s.LeaseTimeout = u.lease
	}
	if u.expire != 0 {
		s.ExpireTimeout = u.expire
	}
	if u.given.reference {
		s.Reference = u.createRequest.reference
	}
	if u.given.maxAttempts {
		q.Options.MaxDeliveries = u.createRequest.maxAttempts
	}
	if u.given.deadQueue {
		u.dead.set(&q.Options)
	}
	// No partition is made or taken away: the number is a wish, as it was in the originals.
	if u.partitions != 0 {
		s.Partitions = u.partitions
	}
	expire := s.ExpireTimeout
	if expire == 0 {
		expire = math.MaxInt64
	}
	if s.LeaseTimeout > expire && expire > 0 {
		return leaseOverExpire(c.dialect, s.LeaseTimeout, expire)
	}
	return c.checkRecord(&createRequest{
		reference: s.Reference, maxAttempts: q.Options.MaxDeliveries, partitions: s.Partitions,
	}, s.LeaseTimeout, expire)
}
