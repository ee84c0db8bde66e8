package core

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Idler removes partitions that nobody uses any more.
type Idler interface {
	// RemoveIdle removes, in one commit, those of the named partitions of a queue that are idle, with the rows of every group, and returns
	// their keys in order. A partition is idle when its log is empty, nothing of it is scheduled, no dead letter and no batch is left of it, and it
	// was made, appended to and claimed from or moved in by a seek at Since or before. One that somebody else is changing, or that is gone,
	// is passed over; an unknown queue has none. Keys of removed partitions are never given out again, and an ordinal only once
	// no partition with a higher one is left.
	RemoveIdle(ctx context.Context, p RemoveIdleParams) ([]PartitionKey, error)
}

// RemoveIdleParams are the arguments of Idler.RemoveIdle.
type RemoveIdleParams struct {
	Queue      uuid.UUID
	Partitions []PartitionKey
	Since      Time
}

const (
	// idleBatch bounds how many partitions one sweep looks at.
	idleBatch = 256
	// idleEvery is how long the sweep rests when it has looked at all of them.
	idleEvery = time.Hour
)

// idleSweep is how far the sweep for idle partitions has come. It belongs to the dispatcher.
type idleSweep struct {
	// at is when it goes on.
	at Time
	// queue and ordinal are where it goes on, "" and 0 at the beginning.
	queue   string
	ordinal int32
	// doubted are queues of which a commit whose answer is lost may have removed partitions.
	doubted map[*entry]struct{}
}

// removeIdle removes the partitions of Queen's queues that have been empty and unused for as long as Options.PartitionIdle says, a bounded
// number at a time. What a group had reached there goes with them: nothing is left to deliver, and a partition that is made again
// begins where the group's registration says.
func (e *Engine) removeIdle(ctx context.Context, now Time) {
	s := &e.thin
	for en := range s.doubted {
		if en.gone.Load() || e.readParts(ctx, en) == nil {
			delete(s.doubted, en)
		}
	}
	if e.opts.PartitionIdle < 0 || now < s.at {
		return
	}
	since := now.Add(-e.opts.PartitionIdle)
	left := idleBatch
	for _, en := range e.cat.all() {
		if en.q().Name < s.queue || !e.mayThin(en) {
			continue
		}
		from := int32(0)
		if en.q().Name == s.queue {
			from = s.ordinal
		}
		look := e.idleOf(en, from, since, left)
		if err := e.dropIdle(ctx, en, e.withoutState(ctx, en, look), since); err != nil {
			e.log.ErrorContext(ctx, "idle partitions cannot be removed", "queue", en.q().Name, "error", err)
		}
		if left -= len(look); left <= 0 {
			s.queue, s.ordinal = en.q().Name, look[len(look)-1].Ordinal+1 // the rest comes with the next sweep
			return
		}
	}
	s.at, s.queue, s.ordinal = now.Add(idleEvery), "", 0
}

// mayThin reports whether partitions of a queue may go: those of a queue that another protocol numbers or configured, or that takes
// in another queue's dead messages, stay.
func (e *Engine) mayThin(en *entry) bool {
	o := &en.q().Options
	if en.q().Origin != ProtocolQueen || o.Querator != nil || o.Cloudflare != nil {
		return false
	}
	return !slices.ContainsFunc(e.cat.all(), func(other *entry) bool { return other.q().Options.DeadQueue == en.q().ID })
}

// idleOf returns up to limit partitions of a queue, by ordinal from one on, that look idle. It knows this gateway's memory only: the store
// decides.
func (e *Engine) idleOf(en *entry, from int32, since Time, limit int) (look []*part) {
	for _, p := range en.partitions() {
		if len(look) < limit && p.Ordinal >= from && p.log.Start > p.log.Head && p.log.HeadAt <= since && p.CreatedAt <= since && !p.dedup.loading {
			look = append(look, p)
		}
	}
	return look
}

// withoutState returns the keys of those partitions of which no stream processor keeps anything. Where that cannot be read there are none.
func (e *Engine) withoutState(ctx context.Context, en *entry, look []*part) (keys []PartitionKey) {
	var queries []StreamQuery
	if len(look) > 0 {
		err := e.eachRecord(ctx, recordStreamQuery, "", func(r *Record) {
			var q StreamQuery
			if json.Unmarshal(r.Value, &q) == nil && q.Source == en.q().Name {
				queries = append(queries, q)
			}
		})
		if err != nil {
			e.log.ErrorContext(ctx, "the stream processors of a queue cannot be read", "queue", en.q().Name, "error", err)
			return nil
		}
	}
	for _, p := range look {
		kept := slices.ContainsFunc(queries, func(q StreamQuery) bool {
			list, err := e.store.ListRecords(ctx, ListRecordsParams{Kind: recordStreamState, Prefix: statePrefix(q.ID, p.ID), Limit: 1})
			return err != nil || len(list) > 0
		})
		if !kept {
			keys = append(keys, p.Key)
		}
	}
	return keys
}

func (e *Engine) dropIdle(ctx context.Context, en *entry, keys []PartitionKey, since Time) error {
	if len(keys) == 0 {
		return nil
	}
	gone, err := e.store.RemoveIdle(ctx, RemoveIdleParams{Queue: en.q().ID, Partitions: keys, Since: since})
	if CodeOf(err) == CodeUnknown {
		if e.thin.doubted == nil {
			e.thin.doubted = map[*entry]struct{}{}
		}
		e.thin.doubted[en] = struct{}{}
	}
	if err != nil || len(gone) == 0 {
		return err
	}
	e.dropParts(gone)
	e.log.InfoContext(ctx, "idle partitions were removed", "queue", en.q().Name, "partitions", len(gone))
	return nil
}

// dropParts forgets partitions that the store no longer has. Whoever still holds one sees it by its mark.
func (e *Engine) dropParts(keys []PartitionKey) {
	gone := map[*entry][]*part{}
	for _, key := range keys {
		if p := e.cat.partByKey(key); p != nil {
			gone[p.entry] = append(gone[p.entry], p)
		}
	}
	for en, parts := range gone {
		for _, p := range parts {
			p.gone.Store(true)
			e.forgetTable(p)
		}
		e.cat.dropParts(en, parts)
		en.changes.Add(1)
		for _, g := range en.groups {
			g.dropParts(parts)
		}
	}
}

// dropParts takes partitions out of the catalogue. The list is made anew, since readers hold the one that was.
func (c *catalog) dropParts(en *entry, parts []*part) {
	en.mu.Lock()
	for _, p := range parts {
		if en.names[p.Name] == p {
			delete(en.names, p.Name)
		}
	}
	list := make([]*part, 0, len(en.list))
	for _, p := range en.list {
		if !p.gone.Load() {
			list = append(list, p)
		}
	}
	en.list = list
	en.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range parts {
		delete(c.parts, p.ID)
		delete(c.byKey, p.Key)
	}
}

// dropParts forgets what is remembered of partitions that are gone. Claims that wait for one by name wait for the next of that name.
func (g *group) dropParts(parts []*part) {
	for _, p := range parts {
		h := g.hints[p.Key]
		if h == nil {
			continue
		}
		g.ready.take(h)
		delete(g.skipped, h)
		delete(g.hints, p.Key)
	}
	for _, c := range g.waiting {
		if c.part != nil && c.part.gone.Load() {
			c.part = nil
		}
	}
}

// at returns the partition with an ordinal, nil when there is none. Ordinals ascend along the list and may have gaps.
func (en *entry) at(ordinal int32) *part {
	list := en.partitions()
	i, ok := slices.BinarySearchFunc(list, ordinal, func(p *part, n int32) int { return cmp.Compare(p.Ordinal, n) })
	if !ok {
		return nil
	}
	return list[i]
}

// forgetGone has the partition of the group found again by its name when it was removed since.
func (g *pushGroup) forgetGone() {
	if g.part != nil && g.part.gone.Load() {
		g.part = nil
	}
}

// errPartGone refuses a request whose partition was removed after it was found; it is made again from its beginning.
func errPartGone(op string) error { return Errorf(CodeNoPartition, op, "the partition was removed") }

// placed reports an error when a partition of the request was removed after it was found, or the options of a queue changed after they were read.
func (r *pushReq) placed(op string) error {
	for i := range r.groups {
		if p := r.groups[i].part; p != nil && p.gone.Load() {
			return errPartGone(op)
		}
	}
	if r.outdated() {
		return Errorf(CodeConflict, op, "the options of the queue changed")
	}
	return nil
}

// refusedByPlace reports whether an error is one of placed.
func refusedByPlace(err error) bool {
	return CodeOf(err) == CodeNoPartition || CodeOf(err) == CodeConflict
}

// failOrAgain ends a push with an error, or sends it again when it met a partition that was removed under it, options that changed under it,
// or a queue that another gateway deleted: its name may have a new bearer.
func (e *Engine) failOrAgain(r *pushReq, err error) {
	if CodeOf(err) == CodeNoPartition && e.shared {
		_ = e.follow(context.Background()) // another gateway removed it; where this fails, so did the push
	}
	if refusedByPlace(err) && r.placed("push") != nil || e.shared && CodeOf(err) == CodeDeleted {
		go e.repush(r)
		return
	}
	r.fail(err)
}

// errForgotten refuses a request whose partition's transaction ids were forgotten after they were loaded, since a lost answer put them in doubt.
var errForgotten = errors.New("the transaction ids of the partition have to be loaded again")

// displaced reports whether a request failed because a partition of its pushes was removed, its transaction ids were forgotten, or options changed, under
// it, so that it is to be made again.
func (e *Engine) displaced(ctx context.Context, r *pushReq, err error) bool {
	if errors.Is(err, errForgotten) {
		return true
	}
	if !refusedByPlace(err) {
		return false
	}
	_ = e.look(ctx) // another gateway may have removed it
	return r.placed("push") != nil
}

// repushLost sends those messages of a push again that met a removed partition, while others were stored, and those that repeat one that was not
// stored in the end; it reports whether there were any.
func (e *Engine) repushLost(ctx context.Context, r *pushReq) bool {
	if e.shared {
		_ = e.follow(ctx) // where it fails they are refused
	}
	for i := range r.groups {
		if g := &r.groups[i]; len(g.items) > 0 && r.out[g.items[0]].Status == PushFailed && !g.part.gone.Load() && !g.entry.gone.Load() {
			_ = e.readParts(ctx, g.entry) // its removal was not heard of: the answer to it was lost
		}
	}
	if r.lost && r.nowhere() {
		return false
	}
	lost := slices.Clone(r.unheard)
	for i := range r.groups {
		g := &r.groups[i]
		if !g.part.gone.Load() || g.entry.gone.Load() {
			continue
		}
		for _, n := range g.items {
			if r.out[n].Status == PushFailed {
				lost = append(lost, n)
			}
		}
	}
	if len(lost) == 0 {
		return false
	}
	slices.Sort(lost)
	p := r.params
	p.Items = nil
	for _, n := range lost {
		p.Items = append(p.Items, r.params.Items[n])
	}
	e.countPushed(r)
	go func() {
		defer close(r.done)
		out, err := e.Push(context.WithoutCancel(ctx), p)
		for k, n := range lost {
			if err != nil {
				r.out[n].Err = err
			} else {
				r.out[n] = out[k]
			}
		}
	}()
	return true
}

// readParts brings the partitions of a queue up to date with the store's list of them.
func (e *Engine) readParts(ctx context.Context, en *entry) error {
	list, err := e.store.Partitions(ctx, en.q().ID)
	if err != nil {
		return err
	}
	there := make(map[PartitionKey]bool, len(list))
	for i := range list {
		there[list[i].Key] = true
	}
	var gone []PartitionKey
	for _, p := range en.partitions() {
		if !there[p.Key] {
			gone = append(gone, p.Key)
		}
	}
	e.dropParts(gone)
	for i := range list {
		e.cat.addPart(en, list[i])
	}
	return nil
}
