package sqlite

import (
	"container/heap"

	"github.com/leasehold/leasehold/core"
)

// heapEntry is what something that lies in a timeHeap keeps of its place.
type heapEntry struct {
	at core.Time
	// place is the index in the heap plus one; 0 is outside.
	place int
}

type heapItem interface{ entry() *heapEntry }

// timeHeap holds things by a time, the earliest first. The zero value is empty.
type timeHeap[T heapItem] struct{ items heapSlice[T] }

// set puts an item at its time, moves it there, or takes it out when the time is zero.
func (h *timeHeap[T]) set(item T, at core.Time) {
	e := item.entry()
	switch {
	case at == 0 && e.place == 0, at == e.at && e.place != 0:
	case at == 0:
		heap.Remove(&h.items, e.place-1)
	case e.place == 0:
		e.at = at
		heap.Push(&h.items, item)
	default:
		e.at = at
		heap.Fix(&h.items, e.place-1)
	}
}

// first returns the earliest time, zero when the heap is empty.
func (h *timeHeap[T]) first() core.Time {
	if len(h.items) == 0 {
		return 0
	}
	return h.items[0].entry().at
}

// upto returns the items at or before now, in no order.
func (h *timeHeap[T]) upto(now core.Time) []T { return h.items.upto(nil, 0, now) }

type heapSlice[T heapItem] []T

func (s heapSlice[T]) upto(out []T, i int, now core.Time) []T {
	if i >= len(s) || s[i].entry().at > now {
		return out
	}
	out = s.upto(append(out, s[i]), 2*i+1, now)
	return s.upto(out, 2*i+2, now)
}

// Len implements heap.Interface.
func (s heapSlice[T]) Len() int { return len(s) }

// Less implements heap.Interface.
func (s heapSlice[T]) Less(i, j int) bool { return s[i].entry().at < s[j].entry().at }

// Swap implements heap.Interface.
func (s heapSlice[T]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].entry().place, s[j].entry().place = i+1, j+1
}

// Push implements heap.Interface.
func (s *heapSlice[T]) Push(x any) {
	item := x.(T) //nolint:forcetypeassert // only timeHeap pushes
	*s = append(*s, item)
	item.entry().place = len(*s)
}

// Pop implements heap.Interface.
func (s *heapSlice[T]) Pop() any {
	old := *s
	item := old[len(old)-1]
	*s = old[:len(old)-1]
	*item.entry() = heapEntry{}
	return item
}
