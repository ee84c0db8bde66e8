package core

import (
	"context"
	"errors"

	"github.com/google/uuid"
)

// dedupTable finds the offsets of transaction ids by hash: open addressing over two compact slices, filled from
// headers at the partition's first use. It belongs to the dispatcher. A hit is only a hint: the header decides.
type dedupTable struct {
	// empty tells that the log was empty when the partition became known, so that there is nothing to load.
	empty   bool
	loaded  bool
	loading bool
	waiters []func(error)

	keys []uint64
	offs []uint32
	base int64
	used int
	// upto is the last offset of which all before are in it, where others append too.
	upto int64
}

// dedupMark is an entry made before its commit.
type dedupMark struct {
	hash   uint64
	offset int64
}

// flightRef is a message of the commit being built.
type flightRef struct {
	id          uuid.UUID
	transaction string
	// by is the request that pushes it, as its item.
	by   *pushReq
	item int
}

// ready reports whether lookups may trust the table.
func (t *dedupTable) ready() bool { return t.loaded || t.empty }

// each calls f with every offset under a hash until f returns false.
func (t *dedupTable) each(hash uint64, f func(int64) bool) {
	if len(t.keys) == 0 {
		return
	}
	mask := len(t.keys) - 1
	for i := int(hash>>1) & mask; t.keys[i] != 0; i = (i + 1) & mask {
		if t.keys[i] == hash && t.offs[i] != 0 && !f(t.base+int64(t.offs[i])) {
			return
		}
	}
}

// add enters an offset under a hash. The slice must have room (see grow).
func (t *dedupTable) add(hash uint64, offset int64) {
	mask := len(t.keys) - 1
	i := int(hash>>1) & mask
	for t.keys[i] != 0 {
		i = (i + 1) & mask
	}
	t.keys[i], t.offs[i] = hash, uint32(offset-t.base)
	t.used++
}

// move enters an offset in the place of another.
func (t *dedupTable) move(hash uint64, from, to int64) {
	if len(t.keys) == 0 {
		return // the table was forgotten meanwhile
	}
	mask := len(t.keys) - 1
	for i := int(hash>>1) & mask; t.keys[i] != 0; i = (i + 1) & mask {
		if t.keys[i] == hash && t.base+int64(t.offs[i]) == from {
			t.offs[i] = uint32(to - t.base)
			return
		}
	}
}

// drop takes an entry out; its slot stays a tombstone until the next growth.
func (t *dedupTable) drop(hash uint64, offset int64) {
	if len(t.keys) == 0 {
		return // the table was forgotten meanwhile
	}
	mask := len(t.keys) - 1
	for i := int(hash>>1) & mask; t.keys[i] != 0; i = (i + 1) & mask {
		if t.keys[i] == hash && t.base+int64(t.offs[i]) == offset {
			t.offs[i] = 0
			return
		}
	}
}

// full reports whether the next add needs a rebuild.
func (t *dedupTable) full() bool { return (t.used+1)*4 > len(t.keys)*3 }

// newTable returns a table with room for so many entries, of offsets from one on.
func newTable(entries int, from int64) dedupTable {
	size := 16
	for size*3 < entries*4 {
		size *= 2
	}
	return dedupTable{keys: make([]uint64, size), offs: make([]uint32, size), base: max(from-1, 0)}
}

// rebuild makes a table without what lies below from; it grows only if what stays needs it.
func (t *dedupTable) rebuild(from int64) {
	old, offs, base := t.keys, t.offs, t.base
	live := 0
	for i := range old {
		if offs[i] != 0 && base+int64(offs[i]) >= from {
			live++
		}
	}
	fresh := newTable((live+1)*3/2, from)
	t.keys, t.offs, t.used, t.base = fresh.keys, fresh.offs, 0, fresh.base
	for i := range old {
		if o := base + int64(offs[i]); offs[i] != 0 && o >= from {
			t.add(old[i], o)
		}
	}
}

// insert enters an offset, dropping what has left the window when the table is full.
func (e *Engine) insert(ctx context.Context, p *part, hash uint64, offset int64) {
	e.insertFrom(ctx, p, hash, offset, func() int64 { return e.windowStart(ctx, p) })
}

func (e *Engine) insertFrom(ctx context.Context, p *part, hash uint64, offset int64, start func() int64) {
	t := &p.dedup
	if t.full() || offset-t.base > 1<<31 {
		before := t.used
		from := start()
		if e.dedupCount >= e.opts.MaxDedupEntries {
			from = max(from, offset-int64(t.used)/2)
			e.log.WarnContext(ctx, "the memory for transaction ids is used up and the deduplication window gets shorter",
				"queue", p.entry.q().Name, "partition", p.Name, "entries", e.dedupCount)
		}
		t.rebuild(from)
		e.dedupCount += t.used - before
	}
	t.add(hash, offset)
	e.dedupCount++
}

// windowStart returns the first offset whose transaction id may still matter.
func (e *Engine) windowStart(ctx context.Context, p *part) int64 {
	at, err := e.store.Locate(ctx, p.Key, e.clock.Now().Add(-p.entry.q().ageLimit()))
	if err != nil {
		return p.log.Start
	}
	return at
}

// whenLoaded reports whether the partition's table is there and lacks at most slack messages of others. If not, fn runs once their
// headers have been read elsewhere, with what went wrong about that.
func (e *Engine) whenLoaded(p *part, slack int64, fn func(error)) bool {
	if p.dedup.ready() && !e.lacks(p, slack) {
		return true
	}
	p.dedup.waiters = append(p.dedup.waiters, fn)
	if p.dedup.loading {
		return false
	}
	p.dedup.loading = true
	from, to := e.windowStart(context.Background(), p), p.log.Head
	if p.dedup.ready() {
		from = max(from, p.dedup.upto+1)
	}
	go func() {
		marks, err := e.readHashes(context.Background(), p.Key, from, to)
		e.post(func() { e.installTable(p, from, to, marks, err) })
	}()
	return false
}

// readHashes collects the hashes in a stretch of headers.
func (e *Engine) readHashes(ctx context.Context, key PartitionKey, from, to int64) ([]dedupMark, error) {
	var marks []dedupMark
	for from <= to {
		segs, err := e.store.Headers(ctx, HeadersParams{Partition: key, From: from, To: to, Limit: 256})
		if err != nil {
			return nil, err
		}
		if len(segs) == 0 {
			return marks, nil
		}
		for i := range segs {
			for j := range segs[i].Messages {
				if h := segs[i].Messages[j].Hash; h != 0 {
					marks = append(marks, dedupMark{h, segs[i].First + int64(j)})
				}
			}
		}
		from = segs[len(segs)-1].Last() + 1
	}
	return marks, nil
}

func (e *Engine) installTable(p *part, from, to int64, marks []dedupMark, err error) {
	t := &p.dedup
	t.loading = false
	if err != nil {
		e.log.Error("the transaction ids of a partition cannot be loaded", "queue", p.entry.q().Name, "partition", p.Name, "error", err)
	}
	if err == nil {
		if !t.ready() {
			t.base = max(from-1, 0)
		}
		t.loaded = true
		for _, m := range marks {
			if m.offset > t.upto {
				e.insert(context.Background(), p, m.hash, m.offset)
			}
		}
		t.upto = max(t.upto, to)
	}
	waiters := t.waiters
	t.waiters = nil
	for _, fn := range waiters {
		fn(err)
	}
	e.again = true
}

// dedup drops what was pushed before from a request. It returns false when the request is answered already, or comes
// back once a table is loaded or the commit being built has ended.
func (e *Engine) dedup(ctx context.Context, r *pushReq) bool {
	if r.delayed {
		return true // its offsets are drawn later; only Queen's pushes carry transaction ids and they are never delayed
	}
	for i := range r.groups {
		g := &r.groups[i]
		if g.hasTransactions() && !e.whenLoaded(g.part, gapUnderLock, func(err error) { e.resume(r, err) }) {
			return false
		}
	}
	for i := range r.groups {
		g := &r.groups[i]
		if g.due != 0 {
			continue
		}
		if err := e.dedupGroup(ctx, r, g); err != nil {
			e.undoDedup(r)
			if errors.Is(err, errInFlight) {
				e.later = append(e.later, r)
			} else {
				r.fail(err)
			}
			return false
		}
	}
	return true
}

// resume goes on with a push that waited for a table, or ends it when the table cannot be had.
func (e *Engine) resume(r *pushReq, err error) {
	if err != nil {
		r.fail(WrapError(CodeInternal, "push", err))
		return
	}
	e.enqueuePush(r)
}

func (g *pushGroup) hasTransactions() bool {
	for i := range g.msgs {
		if g.msgs[i].Hash != 0 {
			return true
		}
	}
	return false
}

// dedupGroup checks the messages of one group, and enters those that are new under the offsets that they will get.
func (e *Engine) dedupGroup(ctx context.Context, r *pushReq, g *pushGroup) error {
	window := g.entry.q().Options.DedupWindow()
	since := e.clock.Now().Add(-window)
	if len(g.part.flight) == 0 {
		e.flights = append(e.flights, g.part)
	}
	g.first, g.shifted = e.known(g.part)+int64(len(g.part.flight))+1, 0
	var kept []Message // set from the first duplicate on
	var items []int
	for i := range g.msgs {
		m := &g.msgs[i]
		if m.Hash != 0 && window > 0 {
			first, found, err := e.seen(g.part, m, since, e.storedHeader(ctx))
			if err != nil {
				return err
			}
			if found {
				if r.params.Atomic {
					if first.by != nil && first.by != r {
						return errInFlight
					}
					return &Error{Code: CodeDuplicate, Op: "push", Item: g.items[i]}
				}
				out := &r.out[g.items[i]]
				out.Status, out.ID = PushDuplicate, first.id
				if first.by != nil {
					r.echoes = append(r.echoes, echo{g.items[i], first.by, first.item})
				}
				if kept == nil {
					kept, items = append(make([]Message, 0, len(g.msgs)), g.msgs[:i]...), append(make([]int, 0, len(g.items)), g.items[:i]...)
				}
				continue
			}
		}
		g.part.flight = append(g.part.flight, flightRef{m.ID, m.TransactionID, r, g.items[i]})
		if m.Hash != 0 {
			off := e.known(g.part) + int64(len(g.part.flight))
			e.insert(ctx, g.part, m.Hash, off)
			g.marks = append(g.marks, dedupMark{m.Hash, off})
		}
		if kept != nil {
			kept, items = append(kept, *m), append(items, g.items[i])
		}
	}
	if kept != nil {
		g.all, g.allItems = g.msgs, g.items
		g.msgs, g.items = kept, items
		g.encode()
	}
	return nil
}

// undoDedup takes back what a request entered for a commit that does not take place.
func (e *Engine) undoDedup(r *pushReq) {
	r.echoes = nil
	for i := len(r.groups) - 1; i >= 0; i-- {
		g := &r.groups[i]
		g.undoTheirs(r)
		for _, m := range g.marks {
			g.part.dedup.drop(m.hash, m.offset)
		}
		if n := len(g.marks); n > 0 || len(g.msgs) > 0 {
			e.unflight(g)
		}
		g.marks = nil
		if g.all != nil {
			r.restore(g)
		}
	}
}

// restore brings back the duplicates of a group: what they repeat may not be stored after all.
func (r *pushReq) restore(g *pushGroup) {
	g.msgs, g.items, g.all, g.allItems = g.all, g.allItems, nil, nil
	for j, i := range g.items {
		r.out[i].Status, r.out[i].ID = PushQueued, g.msgs[j].ID
	}
	g.encode()
}

// unflight takes the messages of a group out of the commit being built. Only the newest can go without moving
// others; a request that fails is always the newest, or the whole commit fails.
func (e *Engine) unflight(g *pushGroup) {
	n := len(g.part.flight)
	for n > 0 && g.owns(g.part.flight[n-1].id) {
		n--
	}
	g.part.flight = g.part.flight[:n]
}

func (g *pushGroup) owns(id uuid.UUID) bool {
	for i := range g.msgs {
		if g.msgs[i].ID == id {
			return true
		}
	}
	return false
}

// landed forgets what was in flight after the commit.
func (e *Engine) landed() {
	for _, p := range e.flights {
		clear(p.flight) // it holds requests
		p.flight = p.flight[:0]
	}
	e.flights = e.flights[:0]
}
