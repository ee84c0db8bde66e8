package core

import (
	"strings"
)

// newestMark ends the mode of a registration whose group gets only the newest message of each partition.
const newestMark = "+newest"

// NewestOnly reports whether the group gets only the newest message of each partition (Queen's conflation); it is fixed by the
// group's first contact with the queue.
func (r *Registration) NewestOnly() bool { return strings.HasSuffix(r.Mode, newestMark) }

// StartMode returns what the group asked for at its first contact: "all", "new" or "timestamp".
func (r *Registration) StartMode() string { return strings.TrimSuffix(r.Mode, newestMark) }

// setMode changes where the group begins and keeps the rest.
func (r *Registration) setMode(mode string, newest bool) {
	if r.Mode = mode; newest {
		r.Mode += newestMark
	}
}

// newestOnly reports whether a row's group gets only the newest message of each partition.
func (p *pass) newestOnly(ed *edit) bool {
	pt := p.e.cat.partByKey(ed.row.Key.Partition)
	if pt == nil {
		return false
	}
	g := pt.entry.groups[ed.row.Key.Group]
	return g != nil && g.reg.NewestOnly()
}

// takeNewest claims the newest visible message for an exclusive claim and settles what came before it: a group that wants the
// last value only has no use for the rest, whatever becomes of the delivery.
func (e *edit) takeNewest(w want) taken {
	if e.exclusive() != nil {
		return taken{}
	}
	got := taken{upto: e.row.Frontier.Offset, retries: e.row.Frontier.Retries, counted: 1}
	off := e.newestInLog(&w)
	if off > 0 {
		got.attempts = e.header(off).Attempts
	} else if i := e.newestWaiting(); i >= 0 {
		b := &e.batches[i]
		off, got.attempts = b.Pending[len(b.Pending)-1].Last, b.Attempts
	}
	h := e.header(off)
	if off == 0 || h == nil || e.err != nil {
		return taken{}
	}
	for i := range e.batches {
		if b := &e.batches[i]; b.ready(e.now) {
			e.settle(i, b.Pending)
		}
	}
	if f := e.row.Frontier.Offset; off > f {
		e.freed = e.freed.Union(Runs{{f + 1, off}})
		e.setFrontier(off)
	}
	e.freed = e.freed.Remove(Run{off, off})
	got.runs = Runs{{off, off}}
	if w.autoAck {
		return got
	}
	e.put(Batch{
		First: off, Last: off, Pending: got.runs, State: BatchLeased, Attempts: got.attempts, Lease: w.lease, Exclusive: true,
		Protocol: w.protocol, Until: w.until, Held: h.Of(),
	})
	got.lease, got.until = w.lease, w.until
	return got
}

// newestInLog returns the highest offset above the frontier that may be delivered, 0 when there is none.
func (e *edit) newestInLog(w *want) int64 {
	f, log := &e.row.Frontier, &e.row.Log
	if w.window > 0 && e.buffering(w.window) {
		return 0
	}
	for off := log.Head; off > f.Offset && off >= log.Start && e.err == nil; {
		s := e.segment(off)
		switch {
		case s == nil:
			off--
			continue
		case w.notAfter != 0 && s.AppendedAt > w.notAfter:
			e.hiddenUntil = s.AppendedAt.Add(e.now.Sub(w.notAfter))
			off = s.First - 1
			continue
		}
		if e.covered(off) == nil && !s.Messages[off-s.First].Expired(e.now) {
			return off
		}
		off--
	}
	return 0
}

// newestWaiting returns the claimable waiting batch that holds the highest pending message that still exists, or -1.
func (e *edit) newestWaiting() int {
	at, highest := -1, int64(0)
	for i := range e.batches {
		b := &e.batches[i]
		if !b.ready(e.now) {
			continue
		}
		if last := b.Pending[len(b.Pending)-1].Last; last > highest && e.header(last) != nil {
			at, highest = i, last
		}
	}
	return at
}
