package core

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// pass is one Update being decided: settlements, then claims, then what comes back.
type pass struct {
	e     *Engine
	tx    Tx
	now   Time
	edits map[RowKey]*edit
	order []*edit
	cs    *ChangeSet
	// trial is the request being tried, nil between requests.
	trial *trial
	// vain are rows in which a claim found nothing.
	vain map[RowKey]bool
	// counts are settlements by outcome, for metrics.
	counts map[countKey]int
	// placed says where the segments of the change set went, once it is committed.
	placed []Placed
	// fresh are the transaction ids that this pass pushes.
	fresh map[freshKey]uuid.UUID
}

type countKey struct {
	protocol Protocol
	queue    string
	outcome  string
}

func (p *pass) count(proto Protocol, q *Queue, outcome string, n int64) {
	if n > 0 {
		if p.counts == nil {
			p.counts = map[countKey]int{}
		}
		p.counts[countKey{proto, q.Name, outcome}] += int(n)
	}
}

// edit returns a locked row, or nil where another replica holds it or its partition is gone.
func (p *pass) edit(key RowKey) *edit {
	if ed := p.edits[key]; ed != nil {
		if t := p.trial; t != nil {
			if _, ok := t.saved[ed]; !ok {
				if t.saved == nil {
					t.saved = map[*edit]snapshot{}
				}
				t.saved[ed] = ed.snapshot()
			}
		}
		return ed
	}
	row := p.tx.Row(key)
	if row == nil {
		return nil
	}
	ed := newEdit(row, p.tx, p.now)
	p.edits[key] = ed
	p.order = append(p.order, ed)
	return ed
}

// trial is what attempt needs to undo a request that fails.
type trial struct {
	saved                                                   map[*edit]snapshot
	segments, sources, schedule, unschedule, letters, drops int
	registers, unregisters, records, order                  int
	// fresh are the transaction ids that the request pushes.
	fresh []freshKey
}

// attempt runs fn; if it fails, no row and no part of the change set that fn wrote stays.
func (p *pass) attempt(fn func() error) error {
	cs := p.cs
	p.trial = &trial{
		segments: len(cs.Segments), sources: len(cs.FreeSources), schedule: len(cs.Schedule), unschedule: len(cs.Unschedule),
		letters: len(cs.DeadLetters), drops: len(cs.DropDeadLetters), registers: len(cs.Register), unregisters: len(cs.Unregister),
		records: len(cs.Records), order: len(p.order),
	}
	counts := p.counts
	p.counts = nil
	err := fn()
	if err == nil {
		for k, n := range p.counts {
			counts[k] += n
		}
	} else {
		p.undo(p.trial)
	}
	p.counts, p.trial = counts, nil
	return err
}

func (p *pass) undo(t *trial) {
	for _, k := range t.fresh {
		delete(p.fresh, k)
	}
	for ed, s := range t.saved {
		ed.rollback(s)
	}
	for _, ed := range p.order[t.order:] {
		delete(p.edits, ed.row.Key)
	}
	p.order = p.order[:t.order]
	cs := p.cs
	cs.Segments, cs.FreeSources = cs.Segments[:t.segments], cs.FreeSources[:t.sources]
	cs.Schedule, cs.Unschedule = cs.Schedule[:t.schedule], cs.Unschedule[:t.unschedule]
	cs.DeadLetters, cs.DropDeadLetters = cs.DeadLetters[:t.letters], cs.DropDeadLetters[:t.drops]
	cs.Register, cs.Unregister, cs.Records = cs.Register[:t.registers], cs.Unregister[:t.unregisters], cs.Records[:t.records]
}

// queue returns the queue of a row's partition.
func (p *pass) queue(key PartitionKey) *Queue {
	if pt := p.e.cat.partByKey(key); pt != nil {
		return pt.entry.q()
	}
	return &Queue{}
}

// expiry returns the rules by which leases on a partition run out.
func (p *pass) expiry(key PartitionKey) expiry {
	q := p.queue(key)
	return expiry{
		limit: func(*Batch) int32 { return q.Options.MaxDeliveries },
		delay: func(b *Batch) Time {
			if b.Protocol == ProtocolCloudflare && q.Options.Cloudflare != nil && q.Options.Cloudflare.Consumer != nil {
				return b.Until.Add(time.Duration(q.Options.Cloudflare.Consumer.RetryDelaySeconds) * time.Second)
			}
			return p.now
		},
		dead: p.toDeadQueue,
		note: func(b *Batch, n int64) { p.count(b.Protocol, q, "expired", n) },
	}
}

func (p *pass) limits(key PartitionKey) sharedLimit {
	return sharedLimit{limit: p.queue(key).Options.MaxDeliveries, dead: p.toDeadQueue}
}

// toDeadQueue moves messages that left a row to the queue's dead queue, in the same change set; without one they are gone.
func (p *pass) toDeadQueue(ed *edit, rs Runs, b *Batch) {
	q := p.queue(ed.row.Key.Partition)
	p.count(b.Protocol, q, "dead", rs.Count())
	p.freeSources(ed, rs)
	if ed.row.Key.Group != QueueModeGroup || q.Options.DeadQueue == (uuid.UUID{}) {
		return
	}
	from, dead := p.e.cat.partByKey(ed.row.Key.Partition), p.e.cat.byID(q.Options.DeadQueue)
	if from == nil || dead == nil || dead.partition("") == nil {
		return
	}
	msgs, err := p.tx.Read(ed.row.Key.Partition, rs)
	if err != nil {
		ed.err = err
		return
	}
	for i := range msgs {
		p.appendDead(dead.partition(""), from, &msgs[i], b)
	}
}

func (p *pass) appendDead(target *part, from *part, m *Message, b *Batch) {
	ref := ItemRef{Offset: m.Offset, Turn: OwnTurn(m.Offset), Second: m.AppendedAt.Second()}
	if b.Turn != 0 {
		ref.Turn, ref.Second = b.Turn, b.TurnAt.Second()
	}
	n := *m
	n.Attempts, n.TransactionID, n.Hash, n.Imported = 0, "", 0, false
	if q := from.entry.q(); b.Protocol != ProtocolCloudflare && (q.Options.Querator != nil || q.Options.Cloudflare == nil) {
		n.CreatedAt = p.now
	}
	n.SourceID = p.e.opts.SourceID(p.e.secret, from.ID, ref)
	n.ExpiresAt = target.entry.q().Options.Expiry(p.now)
	seg := NewSegment{Partition: target.Key, Know: -1}
	seg.Add(&n)
	p.append(seg)
}

// spot is where a message of the change set lies: a segment, and an index in it.
type spot struct{ segment, index int }

// append adds a segment to the change set, joined to the last one of the same request where they fit, and returns where
// its first message lies. Stores join the segments of different requests.
func (p *pass) append(seg NewSegment) spot {
	from := 0
	if p.trial != nil {
		from = p.trial.segments
	}
	if n := len(p.cs.Segments); n > from {
		last := &p.cs.Segments[n-1]
		if last.Partition == seg.Partition && last.Know == seg.Know && last.Fits(&seg) {
			at := spot{n - 1, last.Count}
			last.Join(&seg)
			return at
		}
	}
	seg.Header, seg.Body, seg.Sources = slices.Clip(seg.Header), slices.Clip(seg.Body), slices.Clip(seg.Sources)
	p.cs.Segments = append(p.cs.Segments, seg)
	return spot{len(p.cs.Segments) - 1, 0}
}

// freeSources lists the source ids of messages that are settled for the reserved group.
func (p *pass) freeSources(ed *edit, rs Runs) {
	pt := p.e.cat.partByKey(ed.row.Key.Partition)
	if ed.row.Key.Group != QueueModeGroup || len(rs) == 0 || pt == nil || !pt.sources {
		return
	}
	var marked Runs
	rs.Offsets(func(off int64) bool {
		if h := ed.header(off); h != nil && h.HasSource {
			marked = marked.Add(Run{off, off})
		}
		return true
	})
	if len(marked) == 0 {
		return
	}
	msgs, err := p.tx.Read(ed.row.Key.Partition, marked)
	if err != nil {
		ed.err = err
		return
	}
	for i := range msgs {
		p.cs.FreeSources = append(p.cs.FreeSources, SourceKey{ed.row.Key.Partition, msgs[i].SourceID})
	}
}

// expired takes messages out of play that a claim passed over: those of the reserved group go to the dead queue.
func (p *pass) expired(ed *edit, rs Runs) {
	if len(rs) > 0 {
		p.toDeadQueue(ed, rs, &Batch{})
	}
}

// collect gathers what the Update has to write.
func (p *pass) collect() (*ChangeSet, error) {
	for _, ed := range p.order {
		ed.later = len(ed.returns) > 0
		ed.applyReturns()
		ed.tidy()
		for i := range ed.batches {
			ed.later = ed.later || ed.batches[i].resting
			ed.batches[i].resting = false
		}
		p.freeSources(ed, ed.freed)
		if ed.err != nil {
			return nil, ed.err
		}
		if c, ok := ed.change(); ok {
			p.cs.Rows = append(p.cs.Rows, c)
		}
	}
	return p.cs, nil
}
