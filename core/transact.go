package core

import (
	"context"
	"slices"

	"github.com/google/uuid"
)

// freshKey is a transaction id that a pass pushes.
type freshKey struct {
	part        *part
	transaction string
}

// landing is a message of a transaction with the place that it will get.
type landing struct {
	part *part
	hash uint64
	at   spot
}

// Transact pushes and acknowledges, all or nothing.
func (e *Engine) Transact(ctx context.Context, x TransactParams) (Transacted, error) {
	return anew(e, func() (Transacted, error) { return e.transactOnce(ctx, x) })
}

func (e *Engine) transactOnce(ctx context.Context, x TransactParams) (Transacted, error) {
	if e.closing.Load() {
		return Transacted{}, errClosed("transact")
	}
	r, err := e.newPush(ctx, PushParams{Protocol: ProtocolQueen, Items: x.Pushes, Create: true})
	if err != nil {
		return Transacted{}, err
	}
	if err := e.readyPush(ctx, r); err != nil {
		return Transacted{}, err
	}
	acked := make([]Acked, len(x.Acks))
	groups, err := e.groupAcks(ctx, x.Acks, x.RequiredLeases, acked)
	if err != nil {
		return Transacted{}, err
	}
	for i := range acked {
		if acked[i].Err != nil {
			return Transacted{}, &Error{Code: CodeNoConsumer, Op: "transact", Item: i}
		}
	}
	op := &opReq{pushes: len(r.groups) > 0, bytes: r.bytes, also: r.entries()}
	for _, g := range groups {
		op.also = append(op.also, g.part.entry)
		req := RowRequest{Key: RowKey{g.part.Key, g.group}, Must: true, Lease: g.lease, All: g.lease == (uuid.UUID{})}
		for i := range g.items {
			req.Offsets = append(req.Offsets, g.items[i].offsets...)
		}
		op.rows = append(op.rows, req)
	}
	var lands []landing
	op.apply = func(p *pass) error {
		var err error
		if lands, err = p.pushAll(r, true); err != nil {
			p.forgetFresh(r)
			return err
		}
		for _, g := range groups {
			if err := p.ackAll(g, x.RequiredLeases); err != nil {
				p.forgetFresh(r)
				return err
			}
		}
		return nil
	}
	op.after = func(p *pass) { e.land(ctx, p, lands) }
	if err := e.submit(op); err != nil {
		if e.displaced(ctx, r, err) {
			return e.Transact(ctx, x)
		}
		return Transacted{}, err
	}
	for _, g := range groups {
		for j, i := range g.index {
			acked[i] = g.out[j]
		}
	}
	e.countPushed(r)
	return Transacted{Pushes: r.out, Acks: acked}, nil
}

// readyPush makes the partitions of a push and loads their tables, in the dispatcher.
func (e *Engine) readyPush(ctx context.Context, r *pushReq) error {
	if len(r.groups) == 0 {
		return nil
	}
	result := make(chan error, 1)
	var prepare func(error)
	prepare = func(err error) {
		if err != nil {
			result <- err
			return
		}
		ctx := context.WithoutCancel(ctx)
		err = e.place(ctx, []*pushReq{r})
		if err == nil && r.gone() {
			if e.shared {
				err = e.follow(ctx) // so that what is tried anew finds the queue that has the name now
			}
			if err == nil {
				err = Errorf(CodeDeleted, "transact", "the queue is being deleted")
			}
		}
		if err != nil {
			result <- err
			return
		}
		for i := range r.groups {
			if g := &r.groups[i]; g.hasTransactions() && !e.whenLoaded(g.part, gapUnderLock, prepare) {
				return
			}
		}
		result <- nil
	}
	e.post(func() { prepare(nil) })
	select {
	case err := <-result:
		return WrapError(CodeInternal, "transact", err)
	case <-e.stopped:
		return errClosed("transact")
	}
}

// pushAll adds the messages of a transaction to the change set. A transaction id that the log holds inside its window refuses
// the whole when refuse is set, else it is a duplicate like one that the transaction itself repeats.
func (p *pass) pushAll(r *pushReq, refuse bool) ([]landing, error) {
	var lands []landing
	if err := r.placed("transact"); err != nil {
		return nil, err
	}
	for i := range r.groups {
		g := &r.groups[i]
		q := g.entry.q()
		know := int64(-1)
		if g.hasTransactions() {
			var err error
			if !g.part.dedup.ready() {
				return nil, errForgotten
			}
			if know, err = p.catchUp(g.part); err != nil {
				return nil, err
			}
		}
		for j := range g.msgs {
			m := g.msgs[j]
			out := &r.out[g.items[j]]
			out.Status, out.ID = PushQueued, m.ID
			if m.Hash != 0 && q.Options.DedupWindow() > 0 {
				k := freshKey{g.part, m.TransactionID}
				if first, ok := p.fresh[k]; ok {
					if refuse && !r.holds(first) {
						return nil, &Error{Code: CodeDuplicate, Op: "transact", Item: g.items[j]}
					}
					out.Status, out.ID = PushDuplicate, first
					continue
				}
				first, found, err := p.e.seen(g.part, &m, p.now.Add(-q.Options.DedupWindow()), p.header)
				if err != nil {
					return nil, err
				}
				switch {
				case found && refuse:
					return nil, &Error{Code: CodeDuplicate, Op: "transact", Item: g.items[j]}
				case found:
					out.Status, out.ID = PushDuplicate, first.id
					continue
				}
				p.fresh[k] = m.ID
				if p.trial != nil {
					p.trial.fresh = append(p.trial.fresh, k)
				}
			}
			seg := NewSegment{Partition: g.part.Key, Know: know}
			seg.Add(&m)
			at := p.append(seg)
			if m.Hash != 0 {
				lands = append(lands, landing{g.part, m.Hash, at})
			}
		}
	}
	return lands, nil
}

// forgetFresh takes back the transaction ids of a request that is refused.
func (p *pass) forgetFresh(r *pushReq) {
	for i := range r.groups {
		g := &r.groups[i]
		for j := range g.msgs {
			if k := (freshKey{g.part, g.msgs[j].TransactionID}); p.fresh[k] == g.msgs[j].ID {
				delete(p.fresh, k)
			}
		}
	}
}

// header reads the segment that holds an offset inside the Update.
func (p *pass) header(partition PartitionKey, off int64) ([]SegmentHeader, error) {
	return p.tx.Headers(partition, off, off)
}

// holds reports whether a message of the request has an id.
func (r *pushReq) holds(id uuid.UUID) bool {
	for i := range r.groups {
		if r.groups[i].owns(id) {
			return true
		}
	}
	return false
}

// ackAll applies one group of acknowledgements of a transaction; any that fails refuses the whole.
func (p *pass) ackAll(g *ackGroup, required []uuid.UUID) error {
	ed := p.edit(RowKey{g.part.Key, g.group})
	if ed == nil || !ed.row.Exists {
		return &Error{Code: CodeNoConsumer, Op: "transact", Item: g.index[0]}
	}
	lease := g.lease
	if x := ed.exclusive(); lease == (uuid.UUID{}) && x != nil && len(required) > 0 {
		if !slices.Contains(required, x.Lease) {
			return &Error{Code: CodeLeaseLost, Op: "transact", Item: g.index[0]}
		}
		lease = x.Lease
	}
	if err := p.ack(g, lease); err != nil {
		return err
	}
	for i := range g.out {
		if err := g.out[i].Err; err != nil {
			return &Error{Code: CodeOf(err), Op: "transact", Item: g.index[i]}
		}
	}
	return nil
}
