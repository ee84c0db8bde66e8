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
func slot(us uint64) int {
	if us < 1<<subBits {
		return int(us)
	}
	shift := bits.Len64(us) - subBits - 1
	if shift >= octaves {
		return len((*histogram)(nil).counts) - 1
	}
	return (shift+1)<<subBits | int(us>>shift)&(1<<subBits-1)
}

// value is the lowest value in µs of a slot.
func value(slot int) uint64 {
	shift := slot>>subBits - 1
	if shift <= 0 {
		return uint64(slot)
	}
	return (1<<subBits | uint64(slot)&(1<<subBits-1)) << shift
}

func (h *histogram) add(d time.Duration) {
	h.counts[slot(uint64(max(0, d.Microseconds())))]++
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
	rank := uint64(q * float64(h.n))
	var seen uint64
	for i, n := range h.counts {
		if seen += uint64(n); n > 0 && seen > rank || seen == h.n && h.n > 0 {
			return float64(value(i)) / 1000
		}
	}
	return 0
}
