package bench

import (
	"math/bits"
	"time"
)

const (
	// subBits gives 64 steps between a power of two and the next: values are
	// kept to 1.6%.
	subBits = 6
	// octaves reaches from 1 µs to over an hour.
	octaves = 32
)

// histogram counts latencies in µs, without allocating. The zero value is empty.
type histogram struct {
	counts [(octaves + 1) << subBits]uint32
	n      uint64
}

// slot is the index of a value in µs.
func slot(us uint64) uint64 {
	if us < 1<<subBits {
		return us
	}
	if us >= 1<<(subBits+octaves) {
		return (octaves+1)<<subBits - 1
	}
	shift := uint64(bits.Len64(us>>subBits)) - 1 //nolint:gosec // a small number
	return (shift+1)<<subBits | us>>shift&(1<<subBits-1)
}

// value is the lowest value in µs of a slot.
func value(slot uint64) uint64 {
	octave := slot >> subBits
	if octave <= 1 {
		return slot
	}
	return (1<<subBits | slot&(1<<subBits-1)) << (octave - 1)
}

func (h *histogram) add(d time.Duration) {
	us := uint64(max(0, d.Microseconds()))
	h.counts[slot(us)]++
	h.n++
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
}

// quantile returns the latency that the share q of all did not exceed, in ms;
// 0 for an empty histogram.
func (h *histogram) quantile(q float64) float64 {
	rank := min(uint64(q*float64(h.n)), h.n-1)
	var seen, i uint64
	for _, n := range h.counts {
		if seen += uint64(n); seen > rank && h.n > 0 {
			return float64(value(i)) / 1000
		}
		i++
	}
	return 0
}
