package core

import (
	"slices"
)

// edit is a row being changed inside one Update. It holds the invariant of the model: at or
// below the frontier, whatever is not pending in a batch is settled; above it, whatever no
// batch covers is waiting its turn.
type edit struct {
	row *Row
	tx  Tx
	now Time

	batches []editBatch
	// deleted are ids that were loaded and are gone.
	deleted  []int64
	moved    bool
	dropAll  bool
	segments []SegmentHeader
	// returns collects what comes back in this pass, to be joined into few rows.
	returns []comeback
	// open are the shared leases granted in this pass.
	open []*grant
	err  error
	// freed are offsets that this pass settled, for their source ids.
	freed Runs
	// later tells that something came back after the claims of the pass, for those of the next.
	later bool
	// began tells that the row did not exist before; it is written only once something is claimed or settled.
	began bool
	start int64
	// keep writes the row even so, as a seek asks for.
	keep bool
	// hiddenUntil is when the next message of the log stops being hidden by a delay, 0 when it is not.
	hiddenUntil Time
}

type editBatch struct {
	Batch
	dirty, fresh bool
	// resting tells that a request of this pass gave it back.
	resting bool
}

func newEdit(row *Row, tx Tx, now Time) *edit {
	e := &edit{row: row, tx: tx, now: now, batches: make([]editBatch, len(row.Batches))}
	for i := range row.Batches {
		e.batches[i].Batch = row.Batches[i]
	}
	if f := &row.Frontier; row.Exists && f.Offset < row.Log.Start-1 {
		f.Offset, f.Before = row.Log.Start-1, row.Log.StartTotals
	}
	return e
}

// begin places the frontier of a row that does not exist yet just before first.
func (e *edit) begin(first int64) {
	if e.row.Exists {
		return
	}
	first = min(max(first, e.row.Log.Start), e.row.Log.Head+1)
	e.row.Exists, e.began = true, true
	e.setFrontier(first - 1)
	e.start = first - 1
}

// setFrontier moves the frontier to off with the exact totals there.
func (e *edit) setFrontier(off int64) {
	f := &e.row.Frontier
	f.Offset, f.MovedAt = off, e.now
	e.moved = true
	log := &e.row.Log
	switch {
	case off >= log.Head:
		f.Before = log.HeadTotals
	case off < log.Start:
		f.Before = log.StartTotals
	default:
		if s := e.segment(off + 1); s != nil {
			f.Before = s.TotalsUpto(off)
		} else if s := e.segment(off); s != nil {
			f.Before = s.TotalsUpto(off)
		}
	}
}

// advance moves the frontier over one message that directly follows it.
func (e *edit) advance(h *MessageHeader) {
	f := &e.row.Frontier
	f.Offset++
	f.MovedAt = e.now
	e.moved = true
	if h != nil {
		f.Before = f.Before.Plus(h.Of())
	}
}

// snapshot is what rollback needs to undo the changes since.
type snapshot struct {
	frontier Frontier
	exists   bool
	batches  []editBatch
	deleted  int
	moved    bool
	dropAll  bool
	returns  int
	open     int
	freed    Runs
}

func (e *edit) snapshot() snapshot {
	return snapshot{
		e.row.Frontier, e.row.Exists, slices.Clone(e.batches), len(e.deleted), e.moved, e.dropAll, len(e.returns), len(e.open), e.freed,
	}
}

func (e *edit) rollback(s snapshot) {
	e.row.Frontier, e.row.Exists, e.batches, e.moved, e.dropAll = s.frontier, s.exists, s.batches, s.moved, s.dropAll
	e.freed = s.freed
	e.deleted, e.returns, e.open = e.deleted[:s.deleted], e.returns[:s.returns], e.open[:s.open]
}

// segment returns the header of the segment that holds off, or nil when it is deleted.
func (e *edit) segment(off int64) *SegmentHeader {
	if off < e.row.Log.Start || off > e.row.Log.Head {
		return nil
	}
	if s := e.loaded(off); s != nil {
		return s
	}
	e.load(off, off)
	return e.loaded(off)
}

func (e *edit) loaded(off int64) *SegmentHeader {
	i, ok := slices.BinarySearchFunc(e.segments, off, func(s SegmentHeader, off int64) int {
		switch {
		case s.Last() < off:
			return -1
		case s.First > off:
			return 1
		default:
			return 0
		}
	})
	if !ok {
		return nil
	}
	return &e.segments[i]
}

// load fetches the headers over first to last that are not there yet.
func (e *edit) load(first, last int64) {
	got, err := e.tx.Headers(e.row.Key.Partition, first, last)
	if err != nil {
		e.err = err
		return
	}
	e.know(got)
}

// know takes in headers.
func (e *edit) know(got []SegmentHeader) {
	if n := len(e.segments); n == 0 || (len(got) > 0 && got[0].First > e.segments[n-1].First) {
		e.segments = append(e.segments, got...)
		return
	}
	for i := range got {
		at, ok := slices.BinarySearchFunc(e.segments, got[i].First, func(s SegmentHeader, first int64) int {
			return int(s.First - first)
		})
		if !ok {
			e.segments = slices.Insert(e.segments, at, got[i])
		}
	}
}

// prefetch loads the headers over a stretch at once when its ends are missing.
func (e *edit) prefetch(first, last int64) {
	first, last = max(first, e.row.Log.Start), min(last, e.row.Log.Head)
	if first <= last && (e.loaded(first) == nil || e.loaded(last) == nil) {
		e.load(first, last)
	}
}

// header returns the header of the message at off, or nil when it no longer exists.
func (e *edit) header(off int64) *MessageHeader {
	s := e.segment(off)
	if s == nil {
		return nil
	}
	return &s.Messages[off-s.First]
}

// totals sums the messages of a set that still exist.
func (e *edit) totals(rs Runs) Totals {
	var t Totals
	for _, r := range rs {
		e.prefetch(r.First, r.Last)
		for o := r.First; o <= r.Last; o++ {
			if h := e.header(o); h != nil {
				t = t.Plus(h.Of())
			}
		}
	}
	return t
}

// put adds a batch under a new id and returns its index.
func (e *edit) put(b Batch) int {
	f := &e.row.Frontier
	b.ID = f.NextBatch
	f.NextBatch++
	e.moved = true
	e.batches = append(e.batches, editBatch{Batch: b, dirty: true, fresh: true})
	return len(e.batches) - 1
}

// drop removes the batch at index i from the row.
func (e *edit) drop(i int) {
	if !e.batches[i].fresh {
		e.deleted = append(e.deleted, e.batches[i].ID)
	}
	e.batches = slices.Delete(e.batches, i, i+1)
}

// holder returns the index of the batch in which off is pending, or -1.
func (e *edit) holder(off int64) int {
	for i := range e.batches {
		if b := &e.batches[i]; b.First <= off && off <= b.Last && b.Pending.Has(off) {
			return i
		}
	}
	return -1
}

// covered returns the batch whose range covers off above the frontier, or nil.
func (e *edit) covered(off int64) *editBatch {
	for i := range e.batches {
		if b := &e.batches[i]; b.First <= off && off <= b.Last && b.Last > e.row.Frontier.Offset {
			return b
		}
	}
	return nil
}

// takeOut removes offsets from the pending set of batch i and returns the totals that left with
// them. The batch stays, even with nothing pending, until tidy.
func (e *edit) takeOut(i int, rs Runs) Totals {
	b := &e.batches[i]
	rest := b.Pending.Minus(rs)
	gone := b.Held
	if len(rest) > 0 {
		if gone = e.totals(rs); gone.Messages < rs.Count() { // some no longer exist, and their sizes are not known
			gone = b.Held.Minus(e.totals(rest))
		}
	}
	b.Pending, b.Held, b.dirty = rest, b.Held.Minus(gone), true
	return gone
}

// dropMissing settles what is pending and no longer exists.
func (e *edit) dropMissing() {
	for i := range e.batches {
		b := &e.batches[i]
		if len(b.Pending) == 0 {
			continue
		}
		e.prefetch(b.First, b.Last)
		var missing Runs
		b.Pending.Offsets(func(off int64) bool {
			if e.header(off) == nil && e.err == nil {
				missing = missing.Add(Run{off, off})
			}
			return true
		})
		if len(missing) > 0 {
			e.takeOut(i, missing)
		}
	}
	e.tidy()
}

// tidy restores the short forms: batches with nothing pending go or turn empty, empty ones that
// touch the frontier move it and go, adjacent ones join, ranges at or below the frontier shrink to what is pending.
func (e *edit) tidy() {
	f := &e.row.Frontier
	for i := 0; i < len(e.batches); {
		b := &e.batches[i]
		switch {
		case b.Last < e.row.Log.Start, len(b.Pending) == 0 && b.Last <= f.Offset && b.State != BatchLeased:
			e.drop(i)
			continue
		case len(b.Pending) == 0 && b.State == BatchLeased && !b.keepsLease(e.now) && b.Last <= f.Offset:
			e.drop(i)
			continue
		case len(b.Pending) == 0 && b.State != BatchEmpty && b.Last > f.Offset && !b.keepsLease(e.now):
			*b = editBatch{Batch: Batch{ID: b.ID, First: b.First, Last: b.Last, State: BatchEmpty, Covered: b.Covered}, dirty: true, fresh: b.fresh}
		case len(b.Pending) > 0 && b.Last <= f.Offset:
			first, last := b.Pending[0].First, b.Pending[len(b.Pending)-1].Last
			if (first != b.First || last != b.Last) && b.dirty {
				b.First, b.Last = first, last
			}
		}
		i++
	}
	e.joinEmpty()
}

// keepsLease reports whether an exclusive lease lives on with nothing pending, as a stream cycle
// that keeps its lease asks for.
func (b *editBatch) keepsLease(now Time) bool { return b.Exclusive && b.Redraw && b.Until > now }

// joinEmpty moves the frontier over empty batches that touch it, and joins adjacent ones.
func (e *edit) joinEmpty() {
	slices.SortFunc(e.batches, func(a, b editBatch) int { return int(a.First - b.First) })
	f := &e.row.Frontier
	prev := -1
	for i := 0; i < len(e.batches); {
		b := &e.batches[i]
		if b.State != BatchEmpty {
			i++
			continue
		}
		if b.First <= f.Offset+1 {
			if b.Last > f.Offset {
				e.setFrontier(b.Last)
			}
			e.drop(i)
			prev = -1
			continue
		}
		if prev >= 0 && e.batches[prev].Last+1 == b.First && b.Last-e.batches[prev].First < MaxBatchSpan {
			p := &e.batches[prev]
			p.Last, p.Covered, p.dirty = b.Last, p.Covered.Plus(b.Covered), true
			e.drop(i)
			continue
		}
		prev = i
		i++
	}
}

// untouched reports whether the row began in this pass and nothing came of it: it is not written then, and begins again.
func (e *edit) untouched() bool {
	return e.began && e.row.Frontier.Offset == e.start && len(e.batches) == 0 && !e.keep
}

// change returns what the Update has to write of the row, and whether that is anything.
func (e *edit) change() (RowChange, bool) {
	c := RowChange{Key: e.row.Key, Move: e.moved, Frontier: e.row.Frontier, DeleteAll: e.dropAll}
	if !e.dropAll {
		c.Delete = e.deleted
	}
	for i := range e.batches {
		if e.batches[i].dirty {
			c.Put = append(c.Put, e.batches[i].Batch)
		}
	}
	if e.untouched() {
		return c, false
	}
	return c, c.Move || c.DeleteAll || len(c.Delete)+len(c.Put) > 0
}
