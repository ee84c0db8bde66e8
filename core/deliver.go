package core

import (
	"context"
	"slices"
	"sync"

	"github.com/google/uuid"
)

// deliver reads what a claim got.
func (e *Engine) deliver(ctx context.Context, c *claimReq) (Claimed, error) {
	out := Claimed{Lease: c.lease, NewestOnly: c.newest, Disagrees: c.disagrees, Partitions: make([]ClaimedPartition, 0, len(c.got))}
	n := 0
	for _, g := range c.got {
		cp := ClaimedPartition{Queue: g.part.entry.q(), Partition: g.part.Partition}
		for _, t := range g.taken {
			msgs, err := e.taken(ctx, c, g.part.Key, t.runs)
			if err != nil {
				e.giveBack(c)
				return Claimed{}, WrapError(CodeInternal, "read claimed messages", err)
			}
			cp.Messages = slices.Grow(cp.Messages, len(msgs))
			for i := range msgs {
				cp.Messages = append(cp.Messages, t.delivery(&msgs[i]))
			}
		}
		if len(cp.Messages) == 0 {
			continue
		}
		n += len(cp.Messages)
		e.opts.Observer.ClaimedMessages(c.p.Protocol, cp.Queue.Name, len(cp.Messages))
		if c.p.Exclusive && !c.p.AutoAck {
			e.leases.remember(c.lease, RowKey{g.part.Key, c.p.Group}, g.taken[0].until, cp.Messages)
		}
		out.Partitions = append(out.Partitions, cp)
	}
	if n == 0 && c.deadline != 0 && len(c.got) > 0 {
		return c.nothing(), Errorf(CodeNothing, "claim", "what was claimed no longer exists")
	}
	return out, nil
}

// taken returns the messages of a stretch that a claim got.
func (e *Engine) taken(ctx context.Context, c *claimReq, key PartitionKey, runs Runs) ([]Message, error) {
	if len(c.read) == 0 {
		return e.store.Read(ctx, ReadParams{Partition: key, Offsets: runs, Leased: true})
	}
	msgs := c.read[0]
	c.read = c.read[1:]
	return msgs, nil
}

func (t *taken) delivery(m *Message) Delivery {
	d := Delivery{Message: *m, Attempt: t.attempts + t.counted, Turn: t.turn, TurnAt: t.turnAt, Lease: t.lease, Until: t.until}
	if m.Offset <= t.upto {
		d.Attempt += t.retries
	}
	if d.Turn == 0 {
		d.Turn, d.TurnAt = OwnTurn(m.Offset), m.AppendedAt
	}
	return d
}

// giveBack returns what a claim got for a client that is gone: at once, without counting an attempt.
func (e *Engine) giveBack(c *claimReq) {
	if c.p.AutoAck {
		return
	}
	for _, g := range c.got {
		key := RowKey{g.part.Key, c.p.Group}
		req := RowRequest{Key: key, Must: true}
		for _, t := range g.taken {
			req.Offsets = append(req.Offsets, t.runs[0].First, t.runs[len(t.runs)-1].Last)
		}
		op := &opReq{entry: g.part.entry, rows: []RowRequest{req}}
		op.apply = func(p *pass) error {
			if ed := p.edit(key); ed != nil {
				for _, t := range g.taken {
					ed.release(t.lease, t.runs)
					p.count(c.p.Protocol, g.part.entry.q(), "released", t.runs.Count())
				}
			}
			return nil
		}
		if err := e.submit(op); err != nil {
			e.log.Warn("messages of a client that left wait for their lease to end", "queue", g.part.entry.q().Name, "error", err)
		}
	}
}

// leaseIndex remembers which transaction ids lie where in the batches that this process gave out, so that an
// acknowledgement finds its offset without reading headers. It is a shortcut: what it does not know is looked up.
type leaseIndex struct {
	mu   sync.Mutex
	rows map[leaseKey]*leaseRefs
}

type leaseKey struct {
	lease     uuid.UUID
	partition PartitionKey
}

type leaseRefs struct {
	group string
	until Time
	refs  []leaseRef
	last  int
}

type leaseRef struct {
	id          uuid.UUID
	transaction string
	offset      int64
}

func (x *leaseIndex) init() { x.rows = map[leaseKey]*leaseRefs{} }

func (x *leaseIndex) remember(lease uuid.UUID, row RowKey, until Time, msgs []Delivery) {
	refs := make([]leaseRef, len(msgs))
	for i := range msgs {
		refs[i] = leaseRef{msgs[i].ID, msgs[i].TransactionID, msgs[i].Offset}
	}
	x.add(lease, row, until, refs)
}

func (x *leaseIndex) add(lease uuid.UUID, row RowKey, until Time, refs []leaseRef) {
	x.mu.Lock()
	x.rows[leaseKey{lease, row.Partition}] = &leaseRefs{group: row.Group, until: until, refs: refs}
	x.mu.Unlock()
}

// has reports whether a lease on a partition is remembered.
func (x *leaseIndex) has(lease uuid.UUID, partition PartitionKey) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.rows[leaseKey{lease, partition}] != nil
}

// find returns the offset of a transaction id in a lease, none when it is not remembered. It looks on from the last one
// found, since consumers settle in order. With all it returns every offset that has the id, ascending.
func (x *leaseIndex) find(lease uuid.UUID, partition PartitionKey, transaction string, all bool) (found []int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.rows[leaseKey{lease, partition}]
	if r == nil {
		return nil
	}
	id, err := uuid.Parse(transaction)
	if all {
		r.last = 0
	}
	for n := range r.refs {
		i := (r.last + n) % len(r.refs)
		ref := &r.refs[i]
		if ref.transaction == transaction && transaction != "" || ref.transaction == "" && err == nil && ref.id == id {
			found = append(found, ref.offset)
			if all {
				continue
			}
			r.last = i + 1
			break
		}
	}
	return found
}

func (x *leaseIndex) forget(lease uuid.UUID, partition PartitionKey) {
	x.mu.Lock()
	delete(x.rows, leaseKey{lease, partition})
	x.mu.Unlock()
}

// extend keeps what is remembered of a lease for longer.
func (x *leaseIndex) extend(lease uuid.UUID, partition PartitionKey, until Time) {
	x.mu.Lock()
	if r := x.rows[leaseKey{lease, partition}]; r != nil {
		r.until = max(r.until, until)
	}
	x.mu.Unlock()
}

// of returns the rows under which a lease is remembered.
func (x *leaseIndex) of(lease uuid.UUID) (rows []RowKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for k, r := range x.rows {
		if k.lease == lease {
			rows = append(rows, RowKey{k.partition, r.group})
		}
	}
	return rows
}

// sweep drops what is remembered of leases that ended a while ago.
func (x *leaseIndex) sweep(now Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for k, r := range x.rows {
		if r.until+60_000_000 < now {
			delete(x.rows, k)
		}
	}
}
