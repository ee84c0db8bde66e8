// Package placing decides where the segments of a commit go. It is what stores that keep a row per commit and partition
// share; the memory model has its own.
package placing

import (
	"github.com/leasehold/leasehold/core"
)

// Logs tells the log of a partition, false where it is gone.
type Logs func(core.PartitionKey) (core.LogState, bool)

// Check refuses what cannot be a segment with CodeInvalid and the index of the segment.
func Check(op string, segments []core.NewSegment) error {
	const smallest = 18 // bytes of a message's header
	for i := range segments {
		if n := &segments[i]; n.Count <= 0 || n.Count > len(n.Header)/smallest {
			err := core.Errorf(core.CodeInvalid, op, "a segment of %d messages has a header of %d bytes", n.Count, len(n.Header))
			err.Item = i
			return err
		}
	}
	return nil
}

// Admit decides which segments go in, and leaves a mark in First of those; in tells that there are any.
func Admit(segments []core.NewSegment, logs Logs) (out []core.Placed, in bool) {
	out = make([]core.Placed, len(segments))
	var broken map[int]bool
	for i := range segments {
		n := &segments[i]
		log, ok := logs(n.Partition)
		out[i].Log, out[i].Gone = log, !ok
		if ok && n.Count > 0 && (n.Know < 0 || n.Know == log.Head) {
			out[i].First = -1
			continue
		}
		if n.Group != 0 {
			if broken == nil {
				broken = map[int]bool{}
			}
			broken[n.Group] = true
		}
	}
	for i := range segments {
		if broken[segments[i].Group] {
			out[i].First = 0
		}
		in = in || out[i].First != 0
	}
	return out, in
}

// AllIn returns the error of an Update whose segments are not all admitted: CodeNoPartition or CodeConflict, with the index.
func AllIn(op string, placed []core.Placed) error {
	for i := range placed {
		switch {
		case placed[i].Gone:
			return &core.Error{Code: core.CodeNoPartition, Op: op, Item: i}
		case placed[i].First == 0:
			return &core.Error{Code: core.CodeConflict, Op: op, Item: i}
		}
	}
	return nil
}

// Plan is what a commit appends: the rows to be, and the logs after it.
type Plan struct {
	Rows []*Row
	Logs map[core.PartitionKey]*Log
	// Bytes are the bytes of all headers and bodies.
	Bytes int
}

// Log is a partition's log as it grows in a commit.
type Log struct {
	State core.LogState
	// open is the row that further segments of the partition can join.
	open *Row
}

// Row is all that a commit appends to a partition, within the limits of a segment.
type Row struct {
	First   int64
	At      core.Time
	Before  core.Totals
	Segment core.NewSegment
	owned   bool // the segment's slices are ours to grow
}

// New decides offsets, times and rows of the admitted segments and fills in where they went. purged are the logs that
// purges of the same commit left, by partition; it may be nil.
func New(now core.Time, segments []core.NewSegment, placed []core.Placed, logs Logs, purged map[core.PartitionKey]core.LogState) *Plan {
	p := &Plan{Logs: make(map[core.PartitionKey]*Log, 8)}
	for key, log := range purged {
		p.Logs[key] = &Log{State: log}
	}
	for i := range segments {
		if placed[i].First != 0 {
			p.add(now, &segments[i], &placed[i], logs)
		}
	}
	for i := range segments {
		if l := p.Logs[segments[i].Partition]; l != nil {
			placed[i].Log = l.State
		}
	}
	return p
}

func (p *Plan) add(now core.Time, n *core.NewSegment, placed *core.Placed, logs Logs) {
	l := p.Logs[n.Partition]
	if l == nil {
		state, _ := logs(n.Partition)
		l = &Log{State: state}
		p.Logs[n.Partition] = l
	}
	at := max(now, l.State.HeadAt)
	placed.First, placed.AppendedAt = l.State.Head+1, at
	if l.open != nil && l.open.Segment.Fits(n) {
		l.open.Own(4)
		l.open.Segment.Join(n)
	} else {
		l.open = &Row{First: l.State.Head + 1, At: at, Before: l.State.HeadTotals, Segment: *n}
		p.Rows = append(p.Rows, l.open)
	}
	p.Bytes += len(n.Header) + len(n.Body)
	l.State.Head += int64(n.Count)
	l.State.HeadAt = at
	l.State.HeadTotals = l.State.HeadTotals.Plus(n.Totals)
}

// Own copies the bytes, which are the caller's, with room times as much capacity.
func (r *Row) Own(room int) {
	if r.owned {
		return
	}
	r.Segment.Header = append(make([]byte, 0, len(r.Segment.Header)*room), r.Segment.Header...)
	r.Segment.Body = append(make([]byte, 0, len(r.Segment.Body)*room), r.Segment.Body...)
	r.Segment.Sources = append([]core.SegmentSource(nil), r.Segment.Sources...)
	r.owned = true
}
