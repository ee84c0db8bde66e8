package app

import (
	"maps"
	"sync"
	"sync/atomic"
)

// series keeps the metrics of label values that come again and again, since finding them by their labels costs more than counting does.
// It never forgets: use it where the label values are few and stay.
type series[K comparable, V any] struct {
	find func(K) V

	adding sync.Mutex
	known  atomic.Pointer[map[K]V]
}

func newSeries[K comparable, V any](find func(K) V) *series[K, V] {
	s := &series[K, V]{find: find}
	s.known.Store(&map[K]V{})
	return s
}

// of returns the metrics of a key.
func (s *series[K, V]) of(key K) V {
	if v, ok := (*s.known.Load())[key]; ok {
		return v
	}
	s.adding.Lock()
	defer s.adding.Unlock()
	v := s.find(key)
	next := maps.Clone(*s.known.Load())
	next[key] = v
	s.known.Store(&next)
	return v
}
