package core

import (
	"context"

	"github.com/google/uuid"
)

// ackGroup are the acknowledgements of one call that share partition, group and lease; groups are independent.
type ackGroup struct {
	part  *part
	group string
	lease uuid.UUID
	index []int
	items []ackItem
	out   []Acked
}

type ackKey struct {
	partition uuid.UUID
	group     string
	lease     uuid.UUID
}

// Ack settles messages of exclusive claims, cumulatively (Queen's rules); one outcome per item, in order. The error is for a fault
// of the whole call.
func (e *Engine) Ack(ctx context.Context, acks []Ack) ([]Acked, error) {
	out := make([]Acked, len(acks))
	groups, err := e.groupAcks(ctx, acks, nil, out)
	if err != nil {
		return nil, err
	}
	if e.closing.Load() {
		return nil, errClosed("ack")
	}
	e.inFlight.Add(1)
	defer e.inFlight.Add(-1)
	ops := make([]*opReq, len(groups))
	for i, g := range groups {
		ops[i] = e.ackOp(g)
	}
	for i, err := range e.submitAll(ops) {
		for j, at := range groups[i].index {
			if err != nil {
				out[at] = Acked{Err: err}
			} else {
				out[at] = groups[i].out[j]
			}
		}
	}
	return out, nil
}

// submitAll runs several ops in the same Update where it can, and waits for all.
func (e *Engine) submitAll(ops []*opReq) []error {
	errs := make([]error, len(ops))
	if len(ops) == 1 {
		errs[0] = e.submit(ops[0])
		return errs
	}
	for _, op := range ops {
		op.done = make(chan struct{})
	}
	e.inbox.add(func() { e.inbox.ops = append(e.inbox.ops, ops...) })
	for i, op := range ops {
		select {
		case <-op.done:
			errs[i] = op.err
		case <-e.stopped:
			errs[i] = errClosed("submit")
			select {
			case <-op.done:
				errs[i] = op.err
			default:
			}
		}
	}
	return errs
}

// groupAcks sorts acknowledgements by row and lease, and resolves their transaction ids. What names no partition is answered in out.
func (e *Engine) groupAcks(ctx context.Context, acks []Ack, hints []uuid.UUID, out []Acked) ([]*ackGroup, error) {
	at := map[ackKey]*ackGroup{}
	var groups []*ackGroup
	for i := range acks {
		a := &acks[i]
		name := a.Group
		if name == "" {
			name = QueueModeGroup
		}
		p, err := e.partition(ctx, a.Partition)
		if err != nil {
			return nil, err
		}
		if p == nil {
			out[i] = Acked{Err: &Error{Code: CodeNoPartition, Op: "ack", Item: i}}
			continue
		}
		k := ackKey{a.Partition, name, a.Lease}
		g := at[k]
		if g == nil {
			g = &ackGroup{part: p, group: name, lease: a.Lease}
			at[k] = g
			groups = append(groups, g)
		}
		offs, err := e.resolve(ctx, p, name, a, hints)
		if CodeOf(err) == CodeNoPartition {
			out[i] = Acked{Err: &Error{Code: CodeNoPartition, Op: "ack", Item: i}}
			continue
		}
		if err != nil {
			return nil, WrapError(CodeInternal, "ack", err)
		}
		g.index = append(g.index, i)
		g.items = append(g.items, ackItem{offs, a.Status, a.Error, a.TransactionID})
	}
	return groups, nil
}

// resolve finds the offsets that an acknowledgement may mean: in what the lease is remembered to hold, else in the window.
func (e *Engine) resolve(ctx context.Context, p *part, group string, a *Ack, hints []uuid.UUID) ([]int64, error) {
	if a.Lease != (uuid.UUID{}) {
		hints = []uuid.UUID{a.Lease}
	}
	for _, lease := range hints {
		if err := e.adopt(ctx, lease, RowKey{p.Key, group}); err != nil {
			return nil, err
		}
		// Another gateway may have settled the first of several that share an id.
		all := e.shared && p.entry.q().Options.DedupWindow() <= 0
		if offs := e.leases.find(lease, p.Key, a.TransactionID, all); len(offs) > 0 {
			return offs, nil
		}
	}
	return e.candidates(ctx, p, a.TransactionID)
}

// ackOp makes the change of one group of acknowledgements.
func (e *Engine) ackOp(g *ackGroup) *opReq {
	key := RowKey{g.part.Key, g.group}
	req := RowRequest{Key: key, Must: true, Lease: g.lease}
	for i := range g.items {
		req.Offsets = append(req.Offsets, g.items[i].offsets...)
	}
	if g.lease == (uuid.UUID{}) {
		req.All = true // a lease-less completion may settle below its message in any batch
	}
	op := &opReq{entry: g.part.entry, rows: []RowRequest{req}}
	op.apply = func(p *pass) error { return p.ack(g, g.lease) }
	op.after = func(*pass) {
		for i := range g.out {
			if g.out[i].Released {
				e.leases.forget(g.lease, g.part.Key)
			}
		}
	}
	return op
}

// ack applies one group of acknowledgements to its row.
func (p *pass) ack(g *ackGroup, lease uuid.UUID) error {
	ed := p.edit(RowKey{g.part.Key, g.group})
	if ed == nil {
		g.out = failAll(make([]Acked, len(g.items)), CodeNoConsumer)
		return nil
	}
	q := g.part.entry.q()
	rules := ackRules{retryLimit: q.Options.Queen.RetryLimit, deadLetter: q.Options.Queen.DeadLetterQueue || q.Options.Queen.DLQAfterMaxRetries}
	if x := ed.exclusive(); x != nil && x.Lease == lease {
		ed.prefetch(x.First, x.Last)
		for i := range g.items {
			if len(g.items[i].offsets) == 0 {
				ed.lookUp(x, &g.items[i])
			}
		}
	}
	var dead *deadOffset
	g.out, dead = ed.ack(lease, g.items, rules)
	for i := range g.out {
		if g.out[i].Err == nil && !g.out[i].Noop {
			p.count(ProtocolQueen, q, ackOutcomes[g.items[i].status], 1)
		}
	}
	if dead == nil || !dead.keep {
		return ed.err
	}
	return p.deadLetter(g, dead)
}

var ackOutcomes = [...]string{AckCompleted: "done", AckRetry: "retry", AckFailed: "failed", AckDead: "dead"}

// deadLetter copies a message that a group gave up on.
func (p *pass) deadLetter(g *ackGroup, dead *deadOffset) error {
	msgs, err := p.tx.Read(g.part.Key, Runs{{dead.offset, dead.offset}})
	if err != nil {
		return err
	}
	if len(msgs) == 0 {
		return nil
	}
	p.cs.DeadLetters = append(p.cs.DeadLetters, DeadLetter{
		ID: NewMessageID(p.now), Queue: g.part.Queue, Partition: g.part.Key, Group: g.group, Error: dead.text,
		Retries: dead.retries, FailedAt: p.now, Message: msgs[0],
	})
	p.count(ProtocolQueen, g.part.entry.q(), "dead_letter", 1)
	return nil
}

// Extend prolongs all batches of an exclusive lease.
func (e *Engine) Extend(ctx context.Context, x ExtendParams) (Extended, error) {
	rows, err := e.rowsOf(ctx, x.Lease)
	if err != nil {
		return Extended{}, WrapError(CodeInternal, "extend", err)
	}
	if len(rows) == 0 {
		return Extended{}, nil
	}
	var out Extended
	op := &opReq{keeps: true}
	for _, k := range rows {
		op.rows = append(op.rows, RowRequest{Key: k, Must: true, Lease: x.Lease})
	}
	op.apply = func(p *pass) error {
		out = Extended{}
		for _, k := range rows {
			ed := p.edit(k)
			if ed == nil {
				continue
			}
			if until, ok := ed.extend(x.Lease, p.now.Add(x.For)); ok {
				out.Renewed++
				if out.Until == 0 || until < out.Until {
					out.Until = until
				}
				e.leases.extend(x.Lease, k.Partition, until)
			}
		}
		return nil
	}
	err = e.submit(op)
	return out, err
}

// rowsOf returns the rows in which a lease may be live. What is remembered of a lease may be a part of it where others use the store too.
func (e *Engine) rowsOf(ctx context.Context, lease uuid.UUID) ([]RowKey, error) {
	if e.shared {
		return e.others.store.Leased(ctx, lease)
	}
	if rows := e.leases.of(lease); len(rows) > 0 {
		return rows, nil
	}
	return e.exclusiveRows(ctx)
}

// exclusiveRows returns every row with a live exclusive lease, for a lease that another process gave out.
func (e *Engine) exclusiveRows(ctx context.Context) (out []RowKey, err error) {
	now := e.clock.Now()
	for _, en := range e.cat.all() {
		rows, err := e.store.Rows(ctx, RowsParams{Queue: en.q().ID, Now: now})
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if rows[i].ExclusiveUntil > now {
				out = append(out, rows[i].Key)
			}
		}
	}
	return out, nil
}
