package core

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
)

// alone runs an op in an Update of its own, from the caller's goroutine.
func (e *Engine) alone(ctx context.Context, op *opReq) error {
	op.done = make(chan struct{})
	if err := e.call(func() { e.updateOnly(context.WithoutCancel(ctx), []*opReq{op}) }); err != nil {
		return err
	}
	<-op.done
	return op.err
}

// ClearParams are the arguments of Engine.Clear.
type ClearParams struct {
	Queue string
	// Queued settles what is due and not leased for the reserved group. Scheduled deletes delayed pushes and retries for later.
	Queued, Scheduled bool
}

// Clear empties a queue for the reserved group and leaves what is leased (Querator's queue.clear without destructive; Purge is
// the destructive one).
func (e *Engine) Clear(ctx context.Context, x ClearParams) error {
	en, err := e.queue(ctx, "clear", x.Queue)
	if err != nil {
		return err
	}
	// It bears no entry: a queue whose deliveries are held can be cleared.
	op := &opReq{after: e.afterSweep}
	var seqs []int64
	for _, p := range en.partitions() {
		op.rows = append(op.rows, RowRequest{Key: RowKey{p.Key, QueueModeGroup}, Must: true, All: true})
		if !x.Scheduled {
			continue
		}
		for after := int64(0); ; {
			segs, err := e.store.Scheduled(ctx, ScheduledParams{Partition: p.Key, After: after, Limit: sweepDue})
			if err != nil {
				return WrapError(CodeInternal, "clear", err)
			}
			if len(segs) == 0 {
				break
			}
			for i := range segs {
				seqs = append(seqs, segs[i].Seq)
			}
			after = segs[len(segs)-1].Seq
		}
	}
	op.apply = func(p *pass) error {
		p.cs.Unschedule = append(p.cs.Unschedule, seqs...)
		for _, r := range op.rows {
			if ed := p.edit(r.Key); ed != nil {
				ed.clear(x.Queued, x.Scheduled)
			}
		}
		return nil
	}
	return e.submit(op)
}

// clear settles what waits: due batches and the log, or retries for later.
func (e *edit) clear(queued, later bool) {
	if queued {
		e.begin(e.row.Log.Start)
	}
	for i := range e.batches {
		b := &e.batches[i]
		if b.State == BatchWaiting && (b.Redraw && later || !b.Redraw && queued) {
			e.settle(i, b.Pending)
		}
	}
	if f := e.row.Frontier.Offset; queued && f < e.row.Log.Head {
		rest := Runs{{f + 1, e.row.Log.Head}}
		for i := range e.batches {
			if b := &e.batches[i]; b.Last > f {
				rest = rest.Minus(b.Pending)
			}
		}
		e.freed = e.freed.Union(rest)
		e.setFrontier(e.row.Log.Head)
	}
	e.tidy()
}

// ImportItem is a message to import with the state that it had elsewhere.
type ImportItem struct {
	NewMessage
	Attempts int32
	// ExpiresAt is taken as given; zero is the queue's rule.
	ExpiresAt Time
	// LeasedUntil imports the message as leased until then; zero is not leased.
	LeasedUntil Time
}

// Imported is the outcome of one ImportItem.
type Imported struct {
	// Skipped tells that a live message with the same source id is there already; nothing was written.
	Skipped bool
	ItemRef
	CreatedAt Time
}

// Import appends messages as given to one partition, all or none, and returns their places in order.
func (e *Engine) Import(ctx context.Context, queue string, ordinal int32, items []ImportItem) ([]Imported, error) {
	return anew(e, func() ([]Imported, error) { return e.importOnce(ctx, queue, ordinal, items) })
}

func (e *Engine) importOnce(ctx context.Context, queue string, ordinal int32, items []ImportItem) ([]Imported, error) {
	pt, err := e.partAt(ctx, "import", queue, ordinal)
	if err != nil {
		return nil, err
	}
	key := RowKey{pt.Key, QueueModeGroup}
	out := make([]Imported, len(items))
	sources := map[string]bool{}
	for i := range items {
		id := items[i].SourceID
		if id == "" {
			continue
		}
		at, err := e.store.Source(ctx, pt.Key, id)
		if err != nil {
			return nil, WrapError(CodeInternal, "import", err)
		}
		out[i].Skipped = at != 0 || sources[id]
		sources[id] = true
	}
	op := &opReq{entry: pt.entry, rows: []RowRequest{{Key: key, Must: true}}}
	op.apply = func(p *pass) error {
		ed := p.edit(key)
		if ed == nil {
			return Errorf(CodeConflict, "import", "the partition is busy")
		}
		p.importAll(ed, pt, items, out)
		return nil
	}
	if err := e.alone(ctx, op); err != nil {
		return nil, err
	}
	return out, nil
}

// importAll appends the items that are not skipped; those given as leased become batches above the frontier.
func (p *pass) importAll(ed *edit, pt *part, items []ImportItem, out []Imported) {
	ed.begin(ed.row.Log.Start)
	off, at := ed.row.Log.Head, max(p.now, p.e.notBefore, ed.row.Log.HeadAt)
	for i := range items {
		it := &items[i]
		if out[i].Skipped {
			continue
		}
		off++
		m := Message{
			MessageHeader: MessageHeader{ID: NewMessageID(p.now), Attempts: it.Attempts, CreatedAt: p.now, ExpiresAt: it.ExpiresAt},
			Labels:        it.Labels, Payload: it.Payload,
		}
		if m.ExpiresAt == 0 {
			m.ExpiresAt = pt.entry.q().Options.Expiry(p.now)
		}
		seg := NewSegment{Partition: pt.Key, Know: ed.row.Log.Head}
		seg.Add(&m)
		p.append(seg)
		out[i].ItemRef, out[i].CreatedAt = ItemRef{Offset: off, Turn: OwnTurn(off), Second: at.Second()}, p.now
		if it.LeasedUntil != 0 {
			ed.put(Batch{
				First: off, Last: off, Pending: Runs{{off, off}}, State: BatchLeased, Attempts: it.Attempts, Lease: uuid.New(),
				Protocol: ProtocolQuerator, Until: it.LeasedUntil, Held: m.Of(), Covered: m.Of(),
			})
		}
	}
}

// ExtendMessages moves the deadlines of single messages of shared leases to now + d; their leases keep their ids. One outcome per
// token: CodeNoMessage for what is gone, CodeNotLeased for what that lease no longer holds.
func (e *Engine) ExtendMessages(ctx context.Context, queue string, tokens []MessageToken, d time.Duration) ([]MessageSettled, error) {
	return anew(e, func() ([]MessageSettled, error) { return e.extendMessagesOnce(ctx, queue, tokens, d) })
}

func (e *Engine) extendMessagesOnce(ctx context.Context, queue string, tokens []MessageToken, d time.Duration) ([]MessageSettled, error) {
	en, err := e.queue(ctx, "extend", queue)
	if err != nil {
		return nil, err
	}
	out := make([]MessageSettled, len(tokens))
	op := &opReq{entry: en}
	for i := range tokens {
		p, err := e.partition(ctx, tokens[i].Partition)
		if err != nil {
			return nil, err
		}
		if p != nil && p.entry == en {
			op.rows = append(op.rows, RowRequest{Key: RowKey{p.Key, QueueModeGroup}, Must: true, Offsets: []int64{tokens[i].Offset}})
		}
	}
	op.apply = func(p *pass) error {
		for i := range tokens {
			out[i] = MessageSettled{Code: CodeNoMessage}
			pt := e.cat.part(tokens[i].Partition)
			if pt == nil || pt.entry != en {
				continue
			}
			if ed := p.edit(RowKey{pt.Key, QueueModeGroup}); ed != nil {
				code := ed.extendMessage(&tokens[i], p.now.Add(d))
				out[i] = MessageSettled{Counted: code == CodeInternal, Code: code}
			}
		}
		return nil
	}
	if err := e.submit(op); err != nil {
		return nil, err
	}
	return out, nil
}

// extendMessage moves one message of a shared lease to a row with the new deadline, under the same lease.
func (e *edit) extendMessage(t *MessageToken, until Time) Code {
	if h := e.header(t.Offset); h == nil || h.ID != t.Message {
		return CodeNoMessage
	}
	i := e.holder(t.Offset)
	if i < 0 {
		return CodeNoMessage
	}
	b := &e.batches[i]
	if b.State != BatchLeased || b.Exclusive || b.Lease != t.Lease || b.Until <= e.now {
		return CodeNotLeased
	}
	if b.Until == until {
		return CodeInternal
	}
	moved := b.Batch
	rs := Runs{{t.Offset, t.Offset}}
	held := e.takeOut(i, rs)
	for j := range e.batches {
		c := &e.batches[j]
		if c.State == BatchLeased && c.Lease == t.Lease && c.Until == until && c.Turn == moved.Turn && c.Attempts == moved.Attempts &&
			max(c.Last, t.Offset)-min(c.First, t.Offset) < MaxBatchSpan {
			c.Pending, c.Held, c.dirty = c.Pending.Union(rs), c.Held.Plus(held), true
			c.First, c.Last = min(c.First, t.Offset), max(c.Last, t.Offset)
			return CodeInternal
		}
	}
	moved.First, moved.Last, moved.Pending, moved.Held, moved.Until, moved.Covered = t.Offset, t.Offset, rs, held, until, Totals{}
	e.put(moved)
	return CodeInternal
}

// Replayed is a dead letter that went back to its partition.
type Replayed struct {
	// Was is the dead letter.
	Was DeadLetter
	// ID and TransactionID are those of the new message.
	ID            uuid.UUID
	TransactionID string
}

// ReplayDeadLetters appends dead letters to their partitions again, outside deduplication, and removes their rows, in one commit.
// A dead letter that is gone has a zero Replayed. rename, where it is not nil, makes the transaction id of a replayed message, which
// otherwise keeps its own.
func (e *Engine) ReplayDeadLetters(ctx context.Context, ids []uuid.UUID, rename func(*DeadLetter) string) ([]Replayed, error) {
	out := make([]Replayed, len(ids))
	var lands []landing
	op := &opReq{}
	op.apply = func(p *pass) error {
		lands = lands[:0]
		for i, id := range ids {
			out[i] = Replayed{}
			d, ok, err := p.tx.DeadLetter(id)
			if err != nil {
				return err
			}
			pt := e.cat.partByKey(d.Partition)
			if !ok || pt == nil || slices.Contains(p.cs.DropDeadLetters, id) {
				continue
			}
			m := d.Message
			if rename != nil {
				m.TransactionID = rename(&d)
				m.Hash = HashTransaction(m.TransactionID)
			}
			m.ID, m.CreatedAt, m.Attempts = NewMessageID(p.now), p.now, 0
			m.ExpiresAt = pt.entry.q().Options.Expiry(p.now)
			seg := NewSegment{Partition: pt.Key, Know: -1}
			seg.Add(&m)
			at := p.append(seg)
			if m.Hash != 0 {
				lands = append(lands, landing{pt, m.Hash, at})
			}
			p.cs.DropDeadLetters = append(p.cs.DropDeadLetters, id)
			out[i] = Replayed{Was: d, ID: m.ID, TransactionID: m.Transaction()}
		}
		return nil
	}
	op.after = func(p *pass) { e.land(ctx, p, lands) }
	if err := e.submit(op); err != nil {
		return nil, err
	}
	return out, nil
}

// land enters the transaction ids of a change set under the offsets that they got.
func (e *Engine) land(ctx context.Context, p *pass, lands []landing) {
	for _, l := range lands {
		if l.at.segment >= len(p.placed) {
			return // the commit's answer is lost; the queue is read again
		}
		if first := p.placed[l.at.segment].First; first > 0 && l.part.dedup.ready() {
			e.insert(ctx, l.part, l.hash, first+int64(l.at.index))
		}
	}
}

// DropDeadLetters deletes dead letters and returns how many of them were there.
func (e *Engine) DropDeadLetters(_ context.Context, ids []uuid.UUID) (int, error) {
	dropped := 0
	op := &opReq{apply: func(p *pass) error {
		dropped = 0
		for _, id := range ids {
			_, ok, err := p.tx.DeadLetter(id)
			if err != nil {
				return err
			}
			if ok && !slices.Contains(p.cs.DropDeadLetters, id) {
				p.cs.DropDeadLetters = append(p.cs.DropDeadLetters, id)
				dropped++
			}
		}
		return nil
	}}
	return dropped, e.submit(op)
}
