package core

import (
	"cmp"
	"slices"
)

// readyList are the partitions of a group that may have something claimable, in the order in which they are tried. Taking one
// costs the same however many there are: what is taken from the middle leaves a stale entry that is skipped later.
type readyList struct {
	list []*hint
	// n counts the partitions in it, stale entries left out.
	n int
}

// push puts a partition at the end, unless it is in the list.
func (l *readyList) push(h *hint) {
	if h.queued {
		return
	}
	if len(l.list) > 2*l.n+64 {
		l.compact()
	}
	h.queued = true
	l.list = append(l.list, h)
	l.n++
}

// take takes a partition out wherever it stands; it reports whether it was in the list.
func (l *readyList) take(h *hint) bool {
	if !h.queued {
		return false
	}
	h.queued = false
	l.n--
	return true
}

// pop takes the first partition, nil when there is none.
func (l *readyList) pop() *hint {
	for len(l.list) > 0 {
		h := l.list[0]
		l.list[0] = nil
		l.list = l.list[1:]
		if l.take(h) {
			return h
		}
	}
	l.list = nil
	return nil
}

// first returns the first partition without taking it, nil when there is none.
func (l *readyList) first() *hint {
	for _, h := range l.list {
		if h.queued {
			return h
		}
	}
	return nil
}

// compact drops stale entries.
func (l *readyList) compact() {
	kept := make([]*hint, 0, l.n)
	for _, h := range l.list {
		if h.queued {
			h.queued = false // so that a second entry of the same partition is dropped
			kept = append(kept, h)
		}
	}
	for _, h := range kept {
		h.queued = true
	}
	l.list = kept
}

// maxSorted bounds how many partitions are put in order for claims that want the fullest one.
const maxSorted = 1024

// fullestFirst puts the partitions with the most unleased messages first. A list of very many stays in turn: there is always a
// full one near the front, and sorting all of it in every pass would cost more than it gives.
func (l *readyList) fullestFirst() {
	if l.n > maxSorted {
		return
	}
	l.compact()
	slices.SortStableFunc(l.list, func(a, b *hint) int { return cmp.Compare(b.unleased(), a.unleased()) })
}

// unleased estimates how many messages wait in the first partitions of the list, up to enough.
func (l *readyList) unleased(enough int64) (n int64) {
	for _, h := range l.list {
		if n >= enough {
			return n
		}
		if h.queued {
			n += h.unleased()
		}
	}
	return n
}
