package core

import (
	"context"
	"time"
)

// SettleItems settles messages of a shared claim, all or nothing (Querator). CodeNoMessage or CodeNotLeased with the item's index.
// An item named twice counts once.
func (e *Engine) SettleItems(ctx context.Context, x SettleItemsParams) error {
	_, err := anew(e, func() (struct{}, error) { return struct{}{}, e.settleItemsOnce(ctx, x) })
	return err
}

func (e *Engine) settleItemsOnce(ctx context.Context, x SettleItemsParams) error {
	pt, err := e.partAt(ctx, "settle", x.Queue, x.Ordinal)
	if err != nil {
		return err
	}
	key := RowKey{pt.Key, QueueModeGroup}
	req := RowRequest{Key: key, Must: true}
	for i := range x.Items {
		req.Offsets = append(req.Offsets, x.Items[i].Offset)
	}
	op := &opReq{entry: pt.entry, rows: []RowRequest{req}}
	op.apply = func(p *pass) error {
		ed := p.edit(key)
		if ed == nil {
			return Errorf(CodeConflict, "settle", "the partition is busy")
		}
		return p.settleItems(ed, x.Items)
	}
	return e.submit(op)
}

func (p *pass) settleItems(ed *edit, items []ItemSettlement) error {
	seen := make(map[int64]bool, len(items))
	for i := range items {
		if _, code := ed.find(items[i].ItemRef); code != CodeInternal {
			return &Error{Code: code, Op: "settle", Item: i}
		}
	}
	q := p.queue(ed.row.Key.Partition)
	for i := range items {
		it := &items[i]
		if seen[it.Offset] {
			continue
		}
		seen[it.Offset] = true
		at := ed.holder(it.Offset)
		rs := Runs{{it.Offset, it.Offset}}
		switch it.Outcome {
		case OutcomeDone:
			ed.settle(at, rs)
			p.count(ProtocolQuerator, q, "done", 1)
		case OutcomeDead:
			b := ed.batches[at].Batch
			ed.takeOut(at, rs)
			p.toDeadQueue(ed, rs, &b)
		default:
			ed.retry(at, it.Offset, max(it.Due, p.now), false, p.limits(ed.row.Key.Partition))
			p.count(ProtocolQuerator, q, "retry", 1)
		}
	}
	return ed.err
}

// SettleMessages settles messages one by one and permissively (Cloudflare).
func (e *Engine) SettleMessages(ctx context.Context, queue string, items []MessageSettlement) ([]MessageSettled, error) {
	return anew(e, func() ([]MessageSettled, error) { return e.settleMessagesOnce(ctx, queue, items) })
}

func (e *Engine) settleMessagesOnce(ctx context.Context, queue string, items []MessageSettlement) ([]MessageSettled, error) {
	en, err := e.queue(ctx, "settle", queue)
	if err != nil {
		return nil, err
	}
	out := make([]MessageSettled, len(items))
	rows := map[PartitionKey]int{}
	parts := make([]*part, len(items))
	op := &opReq{entry: en}
	for i := range items {
		p, err := e.partition(ctx, items[i].Partition)
		if err != nil {
			return nil, err
		}
		if p == nil || p.entry != en {
			continue
		}
		parts[i] = p
		at, ok := rows[p.Key]
		if !ok {
			at = len(op.rows)
			rows[p.Key] = at
			op.rows = append(op.rows, RowRequest{Key: RowKey{p.Key, QueueModeGroup}, Must: true})
		}
		op.rows[at].Offsets = append(op.rows[at].Offsets, items[i].Offset)
	}
	op.apply = func(p *pass) error {
		for i := range items {
			if items[i].Outcome != OutcomeRetry {
				out[i] = p.settleMessage(parts[i], &items[i])
			}
		}
		for i := range items {
			if items[i].Outcome == OutcomeRetry {
				out[i] = p.settleMessage(parts[i], &items[i])
			}
		}
		return nil
	}
	if err := e.submit(op); err != nil {
		return nil, err
	}
	return out, nil
}

// settleMessage applies one Cloudflare settlement; the caller has ordered acknowledgements before retries.
func (p *pass) settleMessage(pt *part, it *MessageSettlement) MessageSettled {
	if pt == nil {
		return MessageSettled{Code: CodeNoMessage}
	}
	ed := p.edit(RowKey{pt.Key, QueueModeGroup})
	if ed == nil {
		return MessageSettled{Code: CodeNoMessage}
	}
	h := ed.header(it.Offset)
	if h != nil && h.ID != it.Message {
		return MessageSettled{Code: CodeNoMessage}
	}
	q := pt.entry.q()
	if it.Outcome != OutcomeRetry {
		if ed.done(it.Offset) {
			p.count(ProtocolCloudflare, q, "done", 1)
		}
		return MessageSettled{Counted: true}
	}
	delay := it.Delay
	if delay < 0 {
		delay = 0
		if c := q.Options.Cloudflare; c != nil && c.Consumer != nil {
			delay = time.Duration(c.Consumer.RetryDelaySeconds) * time.Second
		}
	}
	code := ed.retryMessage(it.Offset, it.Lease, delay, it.KeepAttempts, p.limits(pt.Key))
	if code == CodeInternal {
		p.count(ProtocolCloudflare, q, "retry", 1)
	}
	return MessageSettled{Counted: code == CodeInternal, Code: code}
}

// Purge deletes all messages of a queue, leased and delayed ones included.
func (e *Engine) Purge(ctx context.Context, name string) error {
	var err error
	if err := e.look(ctx); err != nil {
		return err
	}
	cerr := e.call(func() {
		en := e.cat.byName(name)
		if en == nil {
			err = noQueue("purge", name)
			return
		}
		var keys []PartitionKey
		for _, p := range en.partitions() {
			keys = append(keys, p.Key)
		}
		now := max(e.clock.Now(), e.notBefore)
		_, err = e.store.Update(context.WithoutCancel(ctx), UpdateParams{Commit: newCommit(), Now: now}, func(Tx) (*ChangeSet, error) {
			return &ChangeSet{Purge: keys}, nil
		})
		if err == nil {
			err = e.reload(ctx, en)
		}
	})
	if cerr != nil {
		return cerr
	}
	return WrapError(CodeInternal, "purge", err)
}

// reload reads the logs and rows of a queue again after a change that went round the passes.
func (e *Engine) reload(ctx context.Context, en *entry) error {
	logs, err := e.store.Partitions(context.WithoutCancel(ctx), en.q().ID)
	if err != nil {
		return err
	}
	for i := range logs {
		if p := e.cat.partByKey(logs[i].Key); p != nil {
			p.log = logs[i].Log
		}
	}
	for name, g := range en.groups {
		delete(en.groups, name)
		fresh, err := e.groupOf(context.WithoutCancel(ctx), en, name)
		if err != nil {
			en.groups[name] = g
			return err
		}
		fresh.waiting, fresh.clients = g.waiting, g.clients
		for _, c := range fresh.waiting {
			for i := range c.groups {
				if c.groups[i] == g {
					c.groups[i] = fresh
				}
			}
		}
		delete(e.active, g)
		g.waiting = nil
		e.rejoin(context.WithoutCancel(ctx), fresh)
		e.recheck(fresh)
	}
	en.changes.Add(1)
	return e.refreshDue(ctx)
}

// SeekParams are the arguments of Engine.Seek.
type SeekParams struct {
	Queue string
	// Partition limits the seek to one partition by name; "" is all.
	Partition string
	// Group is the consumer group; "" means QueueModeGroup.
	Group string
	// ToEnd places the group after the last message; otherwise before the first one appended at or after At.
	ToEnd bool
	At    Time
}

// Seek drops what a group holds and moves its frontier, in the partitions named. It returns how many were moved.
func (e *Engine) Seek(ctx context.Context, x SeekParams) (int, error) {
	return anew(e, func() (int, error) { return e.seekOnce(ctx, x) })
}

func (e *Engine) seekOnce(ctx context.Context, x SeekParams) (int, error) {
	en, err := e.queue(ctx, "seek", x.Queue)
	if err != nil {
		return 0, err
	}
	if x.Group == "" {
		x.Group = QueueModeGroup
	}
	parts := en.partitions()
	if x.Partition != "" {
		p, err := e.partNamed(ctx, en, x.Partition)
		if err != nil {
			return 0, err
		}
		if p == nil {
			return 0, Errorf(CodeNoPartition, "seek", "queue %q has no partition %q", x.Queue, x.Partition)
		}
		parts = []*part{p}
	}
	first := make(map[PartitionKey]int64, len(parts))
	op := &opReq{entry: en}
	for _, p := range parts {
		if !x.ToEnd {
			at, err := e.store.Locate(ctx, p.Key, x.At)
			if err != nil {
				return 0, WrapError(CodeInternal, "seek", err)
			}
			first[p.Key] = at
		}
		op.rows = append(op.rows, RowRequest{Key: RowKey{p.Key, x.Group}, Must: true})
	}
	op.apply = func(p *pass) error {
		for _, pt := range parts {
			ed := p.edit(RowKey{pt.Key, x.Group})
			if ed == nil {
				continue
			}
			if x.ToEnd {
				ed.seek(ed.row.Log.Head + 1)
			} else {
				ed.seek(first[pt.Key])
			}
		}
		return nil
	}
	if err := e.submit(op); err != nil {
		return 0, err
	}
	return len(parts), nil
}
