package core

import (
	"context"
	"slices"

	"github.com/google/uuid"
)

// CycleParams are the arguments of Engine.Cycle.
type CycleParams struct {
	// Partition is the source partition.
	Partition uuid.UUID
	// Group is the consumer group; "" means QueueModeGroup.
	Group string
	// Pushes are stored with the rest. A duplicate inside the deduplication window is left out and reported; it does not refuse the call:
	// a step that is run again after its answer was lost must be able to succeed.
	Pushes []PushItem
	// Records are written, or deleted where the value is nil, in order.
	Records []Record
	// Ack settles messages of the exclusive lease that it names; nil settles nothing and asks for no lease.
	Ack *CycleAck
}

// CycleAck says what becomes of an exclusive lease in a Cycle.
type CycleAck struct {
	// Lease must be live, or the whole Cycle is refused.
	Lease uuid.UUID
	// TransactionID names the last message that is done; "" leaves it to Count.
	TransactionID string
	// Count is how many messages from the front are done, where TransactionID is empty.
	Count int
	// Failed gives the whole lease back as it is, without a charge.
	Failed bool
	// Keep settles the named messages only and keeps the lease to its deadline, even when nothing is left of it; the rest comes back then, in
	// order. Otherwise the whole leased batch is settled and the lease ends.
	Keep bool
}

// Cycled is the outcome of a Cycle.
type Cycled struct {
	Pushes []Pushed
	// Settled counts the messages that the acknowledgement settled.
	Settled int
	// Released tells that the lease ended.
	Released bool
}

// Cycle pushes, writes records and settles one exclusive lease in one change set: one step of a stream processor. It is refused as a whole with
// CodeNoPartition, CodeLeaseLost, CodeUnresolvable or, where it keeps its lease and what it names is settled, CodeCommitted, and then nothing
// of it is stored. Cycles of one partition and group follow one another.
func (e *Engine) Cycle(ctx context.Context, x CycleParams) (Cycled, error) {
	return anew(e, func() (Cycled, error) { return e.cycleOnce(ctx, x) })
}

func (e *Engine) cycleOnce(ctx context.Context, x CycleParams) (Cycled, error) {
	if e.closing.Load() {
		return Cycled{}, errClosed("cycle")
	}
	pt, err := e.partition(ctx, x.Partition)
	if err != nil {
		return Cycled{}, err
	}
	if pt == nil {
		return Cycled{}, Errorf(CodeNoPartition, "cycle", "there is no partition %s", x.Partition)
	}
	if x.Group == "" {
		x.Group = QueueModeGroup
	}
	r, err := e.newPush(ctx, PushParams{Protocol: ProtocolQueen, Items: x.Pushes, Create: true})
	if err != nil {
		return Cycled{}, err
	}
	if err := e.readyPush(ctx, r); err != nil {
		return Cycled{}, err
	}
	done := ackItem{}
	req := RowRequest{Key: RowKey{pt.Key, x.Group}, Must: true}
	if a := x.Ack; a != nil {
		req.Lease = a.Lease
		done.transaction = a.TransactionID
		if a.TransactionID != "" {
			if done.offsets, err = e.resolve(ctx, pt, x.Group, &Ack{TransactionID: a.TransactionID, Lease: a.Lease}, nil); err != nil {
				return Cycled{}, WrapError(CodeInternal, "cycle", err)
			}
		}
		req.Offsets = done.offsets
	}
	var out Cycled
	var lands []landing
	op := &opReq{entry: pt.entry, also: r.entries(), rows: []RowRequest{req}, pushes: len(r.groups) > 0, bytes: r.bytes}
	op.apply = func(p *pass) (err error) {
		out = Cycled{}
		if x.Ack != nil {
			if out.Settled, out.Released, err = p.cycleAck(pt, x.Group, x.Ack, done); err != nil {
				return err
			}
		}
		if lands, err = p.pushAll(r, false); err != nil {
			p.forgetFresh(r)
			return err
		}
		p.cs.Records = append(p.cs.Records, x.Records...)
		return nil
	}
	op.after = func(p *pass) {
		e.land(ctx, p, lands)
		if out.Released {
			e.leases.forget(x.Ack.Lease, pt.Key)
		}
	}
	if err := e.submit(op); err != nil {
		if e.displaced(ctx, r, err) {
			return e.Cycle(ctx, x)
		}
		return Cycled{}, err
	}
	out.Pushes = r.out
	e.countPushed(r)
	return out, nil
}

// countPushed tells the observer what became of the messages of a push, queue by queue.
func (e *Engine) countPushed(r *pushReq) {
	for i := range r.groups {
		name := r.groups[i].entry.q().Name
		if i > 0 && r.groups[i-1].entry.q().Name == name {
			continue // counted with the group before it
		}
		queued, duplicate := 0, 0
		for _, g := range r.groups[i:] {
			if g.entry.q().Name != name {
				break
			}
			q, d := r.outcomes(&g)
			queued, duplicate = queued+q, duplicate+d
		}
		e.opts.Observer.Pushed(r.params.Protocol, name, queued, duplicate)
	}
}

// outcomes counts what became of the messages of one group.
func (r *pushReq) outcomes(g *pushGroup) (queued, duplicate int) {
	items := g.items
	switch {
	case g.allItems != nil:
		items = g.allItems
	case g.mineItems != nil:
		items = g.mineItems
	}
	for _, i := range items {
		switch r.out[i].Status {
		case PushQueued:
			queued++
		case PushDuplicate:
			duplicate++
		case PushFailed:
		}
	}
	return queued, duplicate
}

// cycleAck applies the acknowledgement of a cycle to its row; it returns how many messages it settled and whether the lease ended.
func (p *pass) cycleAck(pt *part, group string, a *CycleAck, done ackItem) (int, bool, error) {
	ed := p.edit(RowKey{pt.Key, group})
	if ed == nil || a.Lease == (uuid.UUID{}) {
		return 0, false, &Error{Code: CodeLeaseLost, Op: "cycle", Item: -1}
	}
	x := ed.exclusive()
	if x == nil || x.Lease != a.Lease {
		return 0, false, &Error{Code: CodeLeaseLost, Op: "cycle", Item: -1}
	}
	if a.Failed {
		x.giveBack()
		ed.tidy()
		return 0, true, ed.err
	}
	last, err := ed.cycleEnd(x, a, done)
	if err != nil {
		return 0, false, err
	}
	if !a.Keep {
		last = x.Last
	}
	settled := x.Pending.Upto(last)
	n := int(settled.Count())
	ed.settle(ed.index(x.ID), settled)
	x.Redraw, x.dirty = a.Keep, true
	if !a.Keep {
		ed.row.Frontier.Retries, ed.moved = 0, true
	}
	ed.tidy()
	p.count(ProtocolQueen, pt.entry.q(), "done", int64(n))
	return n, !a.Keep, ed.err
}

// cycleEnd returns the last offset that a cycle settles, one below the batch when what it names was settled before.
func (e *edit) cycleEnd(x *editBatch, a *CycleAck, done ackItem) (int64, error) {
	e.prefetch(x.First, x.Last)
	if a.TransactionID == "" {
		last := x.First - 1
		n := a.Count
		x.Pending.Offsets(func(off int64) bool {
			if n <= 0 {
				return false
			}
			last = off
			n--
			return true
		})
		return last, nil
	}
	if !slices.ContainsFunc(done.offsets, func(off int64) bool { return x.Pending.Has(off) }) {
		e.lookUp(x, &done)
	}
	off, res := e.place(x, true, &done)
	switch {
	case res.Err != nil:
		return 0, res.Err
	case off == 0 && a.Keep:
		// The same step again, sent because its answer was lost: its pushes must not be stored twice.
		return 0, &Error{Code: CodeCommitted, Op: "cycle", Item: -1}
	case off == 0:
		return x.First - 1, nil
	default:
		return off, nil
	}
}
