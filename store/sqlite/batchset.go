package sqlite

import (
	"cmp"
	"slices"
	"sort"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// batchSet holds the batches of one row. A row may have very many where all deliveries fail, so nothing that a claim asks
// for looks at all of them. It gives the same answers as core.SelectBatches. The zero value is empty.
type batchSet struct {
	byID map[int64]*core.Batch
	// byFirst has all, leased and waiting those of a state by time, turns the waiting ones by turn, redraws those waiting
	// ones by time that a sweep has to look at.
	byFirst, leased, waiting, turns, redraws []*core.Batch
	// exclusive is the batch under the exclusive lease.
	exclusive *core.Batch
	// pendingLeased and pendingWaiting count the messages pending in batches of a state.
	pendingLeased, pendingWaiting int64
}

func (s *batchSet) len() int { return len(s.byFirst) }

func (s *batchSet) get(id int64) *core.Batch { return s.byID[id] }

func compareFirst(a, b *core.Batch) int {
	return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.ID, b.ID))
}

func compareUntil(a, b *core.Batch) int {
	return cmp.Or(cmp.Compare(a.Until, b.Until), compareFirst(a, b))
}

func compareTurn(a, b *core.Batch) int {
	return cmp.Or(cmp.Compare(a.FirstTurn(), b.FirstTurn()), compareFirst(a, b))
}

func insert(list []*core.Batch, b *core.Batch, order func(a, b *core.Batch) int) []*core.Batch {
	at, _ := slices.BinarySearchFunc(list, b, order)
	return slices.Insert(list, at, b)
}

func take(list []*core.Batch, b *core.Batch, order func(a, b *core.Batch) int) []*core.Batch {
	at, _ := slices.BinarySearchFunc(list, b, order)
	return slices.Delete(list, at, at+1)
}

// put inserts a batch or replaces the one with its id.
func (s *batchSet) put(b *core.Batch) {
	s.remove(b.ID)
	if s.byID == nil {
		s.byID = map[int64]*core.Batch{}
	}
	s.byID[b.ID] = b
	s.byFirst = insert(s.byFirst, b, compareFirst)
	s.file(b, insert, 1)
	if b.State == core.BatchLeased && b.Exclusive {
		s.exclusive = b
	}
}

// remove takes a batch out.
func (s *batchSet) remove(id int64) {
	b := s.byID[id]
	if b == nil {
		return
	}
	delete(s.byID, id)
	s.byFirst = take(s.byFirst, b, compareFirst)
	s.file(b, take, -1)
	if s.exclusive == b {
		s.exclusive = nil
	}
}

// file changes the lists of the batch's state.
func (s *batchSet) file(b *core.Batch, change func([]*core.Batch, *core.Batch, func(a, b *core.Batch) int) []*core.Batch, sign int64) {
	switch b.State {
	case core.BatchLeased:
		s.leased = change(s.leased, b, compareUntil)
		s.pendingLeased += sign * b.Pending.Count()
	case core.BatchWaiting:
		s.waiting = change(s.waiting, b, compareUntil)
		s.turns = change(s.turns, b, compareTurn)
		s.pendingWaiting += sign * b.Pending.Count()
		if b.Redraw {
			s.redraws = change(s.redraws, b, compareUntil)
		}
	case core.BatchEmpty:
	}
}

// nextResolve returns when the row next needs a sweep, 0 for never.
func (s *batchSet) nextResolve() core.Time {
	return earlier(firstUntil(s.leased), firstUntil(s.redraws))
}

// firstUntil returns the earliest time other than none in a list by time.
func firstUntil(list []*core.Batch) core.Time {
	for _, b := range list {
		if b.Until != 0 {
			return b.Until
		}
	}
	return 0
}

// load returns the batches that a request asks for and sums up the others, as core.SelectBatches does.
func (s *batchSet) load(req *core.RowRequest, f *core.Frontier, now core.Time) ([]core.Batch, core.Rest) {
	if s.len() == 0 {
		return nil, core.Rest{}
	}
	picked := s.byFirst
	if !req.All {
		picked = s.pick(req, f, now)
	}
	out := make([]core.Batch, len(picked))
	rest := core.Rest{Leased: s.pendingLeased, Waiting: s.pendingWaiting}
	for i, b := range picked {
		out[i] = *b
		switch b.State {
		case core.BatchLeased:
			rest.Leased -= b.Pending.Count()
		case core.BatchWaiting:
			rest.Waiting -= b.Pending.Count()
		case core.BatchEmpty:
		}
	}
	if len(picked) < s.len() {
		rest.NextUntil = earlier(firstMissing(s.leased, picked), firstMissing(s.waiting, picked))
	}
	return out, rest
}

// firstMissing returns the earliest time other than none in a list by time that is not among the picked, which are by first.
func firstMissing(list, picked []*core.Batch) core.Time {
	for _, b := range list {
		if _, found := slices.BinarySearchFunc(picked, b, compareFirst); !found && b.Until != 0 {
			return b.Until
		}
	}
	return 0
}

func (s *batchSet) pick(req *core.RowRequest, f *core.Frontier, now core.Time) []*core.Batch {
	var out []*core.Batch
	if s.exclusive != nil {
		out = append(out, s.exclusive)
	}
	for _, b := range s.byFirst[s.from(f.Offset+2-core.MaxBatchSpan):] {
		if b.Last > f.Offset {
			out = append(out, b)
		}
	}
	for _, off := range req.Offsets {
		for _, b := range s.byFirst[s.from(off+1-core.MaxBatchSpan):] {
			if b.First > off {
				break
			}
			if b.Last >= off {
				out = append(out, b)
			}
		}
	}
	if req.Lease != uuid.Nil {
		for _, b := range s.leased {
			if b.Lease == req.Lease {
				out = append(out, b)
			}
		}
	}
	out = append(out, s.due(req.Due, now)...)
	slices.SortFunc(out, compareFirst)
	return slices.Compact(out)
}

// from returns the index of the first batch that begins at or after an offset.
func (s *batchSet) from(off int64) int {
	return sort.Search(len(s.byFirst), func(i int) bool { return s.byFirst[i].First >= off })
}

// due returns up to n leased batches past their deadline, by deadline, and up to n waiting ones past their due time, by turn.
func (s *batchSet) due(n int, now core.Time) []*core.Batch {
	var out []*core.Batch
	for _, b := range s.leased[:min(max(n, 0), len(s.leased))] {
		if b.Until > now {
			break
		}
		out = append(out, b)
	}
	if n <= 0 || len(s.waiting) == 0 || s.waiting[0].Until > now {
		return out // nothing waits that is due
	}
	for _, b := range s.turns {
		if b.Until > now {
			continue
		}
		out = append(out, b)
		if n--; n == 0 {
			break
		}
	}
	return out
}
