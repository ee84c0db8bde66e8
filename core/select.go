package core

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// FirstTurn returns the turn at which the batch's first pending message is served.
func (b *Batch) FirstTurn() Turn {
	if b.Turn == 0 && len(b.Pending) > 0 {
		return OwnTurn(b.Pending[0].First)
	}
	return b.Turn
}

// SelectBatches returns those of a row's batches that a request asks to load, by first offset and then by id, and sums up
// the others. It says what the fields of RowRequest mean, for stores that hold a row's batches in memory. The answer shares
// the batches' pending sets.
func SelectBatches(all []Batch, req RowRequest, f Frontier, now Time) ([]Batch, Rest) {
	if len(all) == 0 {
		return nil, Rest{}
	}
	picked := pickBatches(all, &req, &f, now)
	out := make([]Batch, len(picked))
	for i, b := range picked {
		out[i] = *b
	}
	var rest Rest
	if len(out) == len(all) {
		return out, rest
	}
	for i := range all {
		b := &all[i]
		if _, loaded := slices.BinarySearchFunc(picked, b, byFirst); !loaded {
			rest.add(b)
		}
	}
	return out, rest
}

func pickBatches(all []Batch, req *RowRequest, f *Frontier, now Time) []*Batch {
	var picked, leased, waiting []*Batch
	for i := range all {
		b := &all[i]
		if wanted(b, req, f) {
			picked = append(picked, b)
		}
		if req.Due <= 0 || b.Until > now {
			continue
		}
		switch b.State {
		case BatchLeased:
			leased = insertBounded(leased, b, req.Due, byDeadline)
		case BatchWaiting:
			waiting = insertBounded(waiting, b, req.Due, byTurn)
		case BatchEmpty:
		}
	}
	picked = append(append(picked, leased...), waiting...)
	slices.SortFunc(picked, byFirst)
	return slices.Compact(picked)
}

func (r *Rest) add(b *Batch) {
	switch b.State {
	case BatchLeased:
		r.Leased += b.Pending.Count()
	case BatchWaiting:
		r.Waiting += b.Pending.Count()
	case BatchEmpty:
		return
	}
	r.NextUntil = earlier(r.NextUntil, b.Until)
}

// earlier returns the earlier of two times of which zero is none.
func earlier(a, b Time) Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// NeedsResolving returns when a sweep has something to do about the batch whether or not anybody claims: the deadline of a
// lease, or the due time of a waiting batch that draws a new turn; false is never.
func (b *Batch) NeedsResolving() (Time, bool) {
	return b.Until, b.State == BatchLeased || b.State == BatchWaiting && b.Redraw
}

// Summarize returns the figures of a row at now.
func Summarize(key RowKey, f Frontier, batches []Batch, now Time) RowSummary {
	s := RowSummary{Key: key, Frontier: f, Batches: int64(len(batches))}
	for i := range batches {
		b := &batches[i]
		if b.First > f.Offset {
			s.CoveredAbove = s.CoveredAbove.Plus(b.Covered)
		}
		if len(b.Pending) > 0 && (s.OldestPending == 0 || b.Pending[0].First < s.OldestPending) {
			s.OldestPending = b.Pending[0].First
		}
		switch b.State {
		case BatchLeased:
			s.Leases++
			s.Leased = s.Leased.Plus(b.Held)
			s.NextLease = earlier(s.NextLease, b.Until)
			s.LeaseLeft += b.Held.Messages * max(b.Until-now, 0).Milli()
			if b.Exclusive {
				s.ExclusiveUntil = b.Until
			}
		case BatchWaiting:
			s.Waiting = s.Waiting.Plus(b.Held)
			if b.Until > now {
				s.Later = s.Later.Plus(b.Held)
			}
			s.NextWaiting = earlier(s.NextWaiting, b.Until)
		case BatchEmpty:
		}
	}
	return s
}

// wanted reports whether a batch is loaded whatever is due.
func wanted(b *Batch, req *RowRequest, f *Frontier) bool {
	if req.All || b.Last > f.Offset || b.State == BatchLeased && b.Exclusive {
		return true
	}
	if req.Lease != uuid.Nil && b.State == BatchLeased && b.Lease == req.Lease {
		return true
	}
	return slices.ContainsFunc(req.Offsets, func(off int64) bool { return b.First <= off && off <= b.Last })
}

// insertBounded keeps the first n of what it was given, in order: a row may have very many due batches and few are wanted.
func insertBounded(list []*Batch, b *Batch, n int, order func(a, b *Batch) int) []*Batch {
	if len(list) == n {
		if order(b, list[n-1]) >= 0 {
			return list
		}
		list = list[:n-1]
	}
	at, _ := slices.BinarySearchFunc(list, b, order)
	return slices.Insert(list, at, b)
}

func byDeadline(a, b *Batch) int { return cmp.Or(cmp.Compare(a.Until, b.Until), byFirst(a, b)) }

func byTurn(a, b *Batch) int {
	return cmp.Or(cmp.Compare(a.FirstTurn(), b.FirstTurn()), byFirst(a, b))
}

func byFirst(a, b *Batch) int {
	return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.ID, b.ID))
}
