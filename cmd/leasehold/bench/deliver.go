package bench

import "time"

// markDigits is the width of the number that a push writes into its messages.
const markDigits = 12

// marker is a dialect whose messages carry the number of their push, and give it back.
type marker interface {
	// marks calls see with the number of each message of an answer to claim that has one.
	marks(answer []byte, see func(mark uint64))
}

// deliveries measure how long messages take from when their push was due until a consumer has
// them. Those of an earlier run are known by their numbers and left out.
type deliveries struct {
	first uint64 // number of the first push of the run
	due   []time.Time
	took  histogram
	now   time.Time
}

// push notes a push that was due at that time and returns its number.
func (s *deliveries) push(due time.Time, _ int) uint64 {
	s.due = append(s.due, due)
	return s.first + uint64(len(s.due)) - 1
}

// deliver looks at what a consumer received.
func (s *deliveries) deliver(d dialect, answer []byte) {
	if m, ok := d.(marker); ok {
		s.now = time.Now()
		m.marks(answer, s.see)
	}
}

func (s *deliveries) see(mark uint64) {
	if mark -= s.first; mark < uint64(len(s.due)) {
		s.took.add(s.now.Sub(s.due[mark]))
	}
}

// next is for the run after this one.
func (s *deliveries) next() *deliveries {
	if s == nil {
		return &deliveries{}
	}
	return &deliveries{first: s.first + uint64(len(s.due))}
}
