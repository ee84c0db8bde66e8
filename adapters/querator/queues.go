package querator

import (
	"sort"
	"strings"

	"github.com/google/uuid"

	basepb "github.com/leasehold/leasehold/adapters/querator/pb/base"
	leasepb "github.com/leasehold/leasehold/adapters/querator/pb/lease"
	"github.com/leasehold/leasehold/core"
)

// queueInfo is queues.info.
func queueInfo(c *call) (reply, error) {
	var m basepb.InfoRequest
	if err := c.decode(&m); err != nil {
		return nil, err
	}
	q, err := c.lookup(m.QueueName)
	if err != nil {
		return nil, err
	}
	r := c.describe(&q, func(id uuid.UUID) string {
		dead, err := c.engine.QueueByID(c.ctx, id)
		if err != nil {
			return ""
		}
		return dead.Name
	})
	return &r, nil
}

// The bounds of queues.list.
const (
	defaultListLimit = 1000
	maxListLimit     = 65_536
)

// listQueues is queues.list: by name, from the pivot on.
func listQueues(c *call) (reply, error) {
	m, err := c.decodeList()
	if err != nil {
		return nil, err
	}
	limit, err := listLimit(m.Limit)
	if err != nil {
		return nil, err
	}
	if strings.Contains(m.Pivot, "~") {
		return nil, hasCharacter("pivot", m.Pivot, "~")
	}
	namespace := m.Namespace
	if namespace == "" {
		namespace = systemNamespace
	}
	if err := c.inScope(namespace); err != nil {
		return nil, err
	}
	all, err := c.engine.Queues(c.ctx)
	if err != nil {
		return nil, c.failed(operation{}, err)
	}
	names := make(map[uuid.UUID]string, len(all))
	for i := range all {
		names[all[i].ID] = all[i].Name
	}
	first := sort.Search(len(all), func(i int) bool { return all[i].Name >= m.Pivot })
	r := &listReply{}
	for i := first; i < len(all) && len(r.items) < limit; i++ {
		if namespaceOf(&all[i]) != namespace {
			continue
		}
		r.items = append(r.items, c.describe(&all[i], func(id uuid.UUID) string { return names[id] }))
	}
	return r, nil
}

// decodeList reads queues.list; only L2 knows namespaces.
func (c *call) decodeList() (*leasepb.ListRequest, error) {
	m := &leasepb.ListRequest{}
	if c.dialect.gen == L2 {
		return m, c.decode(m)
	}
	var old basepb.ListRequest
	err := c.decode(&old)
	m.Pivot, m.Limit = old.Pivot, old.Limit
	return m, err
}

// deleteQueue is queues.delete. Waiting leases of the queue end with it, and its items are gone.
func deleteQueue(c *call) (reply, error) {
	var m basepb.DeleteRequest
	if err := c.decode(&m); err != nil {
		return nil, err
	}
	if err := c.checkName(m.QueueName); err != nil {
		return nil, err
	}
	if q, err := c.engine.Queue(c.ctx, m.QueueName); err == nil {
		if err := c.inScope(namespaceOf(&q)); err != nil {
			return nil, err
		}
	}
	// force never did anything: a queue that is another one's dead queue could always go.
	err := c.engine.DeleteQueue(c.ctx, m.QueueName, true)
	if core.CodeOf(err) == core.CodeNoQueue && err != nil && c.dialect.gen != L2 {
		return okReply{}, nil
	}
	if err != nil {
		return nil, c.failed(operation{queue: m.QueueName}, err)
	}
	return okReply{}, nil
}

// describe makes the reply about a queue. deadName finds the name of its dead queue.
func (c *call) describe(q *core.Queue, deadName func(uuid.UUID) string) infoReply {
	o := &q.Options
	r := infoReply{
		dialect: c.dialectFor(q), auto: c.auto(), named: c.named, name: q.Name,
		created: q.CreatedAt.Std(), updated: q.UpdatedAt.Std(),
		maxAttempts: o.MaxDeliveries, namespace: namespaceOf(q), partitions: 1,
	}
	if o.DeadQueue != uuid.Nil {
		r.deadQueue = deadName(o.DeadQueue)
	}
	if s := o.Querator; s != nil {
		if r.deadQueue == "" {
			r.deadQueue = s.DeadName
		}
		r.reference, r.lease, r.expire, r.partitions = s.Reference, s.LeaseTimeout, s.ExpireTimeout, s.Partitions
		return r
	}
	r.lease = defaultLease
	if ps, err := c.engine.Partitions(c.ctx, q.Name); err == nil {
		r.partitions = clampInt32(int64(len(ps)))
	}
	return r
}
