package core

import (
	"encoding/binary"
	"slices"
)

// Run is a closed interval of offsets.
type Run struct{ First, Last int64 }

// Len returns the number of offsets in the run.
func (r Run) Len() int64 { return r.Last - r.First + 1 }

// Runs is a set of offsets as ascending, disjoint, non-adjacent runs.
type Runs []Run

// Count returns the number of offsets in the set.
func (rs Runs) Count() int64 {
	var n int64
	for _, r := range rs {
		n += r.Len()
	}
	return n
}

// Has reports whether off is in the set.
func (rs Runs) Has(off int64) bool {
	i := rs.search(off)
	return i < len(rs) && rs[i].First <= off
}

// search returns the index of the first run whose last offset is at or above off.
func (rs Runs) search(off int64) int {
	lo, hi := 0, len(rs)
	for lo < hi {
		if mid := (lo + hi) / 2; rs[mid].Last < off {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// Add returns the set with all offsets of r in it. The receiver is not changed.
func (rs Runs) Add(r Run) Runs {
	if n := len(rs); n > 0 && rs[n-1].Last+1 == r.First {
		out := slices.Clone(rs)
		out[n-1].Last = r.Last
		return out
	}
	out := make(Runs, 0, len(rs)+1)
	i := 0
	for ; i < len(rs) && rs[i].Last+1 < r.First; i++ {
		out = append(out, rs[i])
	}
	for ; i < len(rs) && rs[i].First <= r.Last+1; i++ {
		r.First = min(r.First, rs[i].First)
		r.Last = max(r.Last, rs[i].Last)
	}
	out = append(out, r)
	return append(out, rs[i:]...)
}

// Union returns the set of offsets that are in either set.
func (rs Runs) Union(other Runs) Runs {
	if len(rs) == 0 {
		return slices.Clone(other)
	}
	out := rs
	for _, r := range other {
		out = out.Add(r)
	}
	return out
}

// Remove returns the set without the offsets of r. The receiver is not changed.
func (rs Runs) Remove(r Run) Runs {
	out := make(Runs, 0, len(rs)+1)
	for _, x := range rs {
		if x.Last < r.First || x.First > r.Last {
			out = append(out, x)
			continue
		}
		if x.First < r.First {
			out = append(out, Run{x.First, r.First - 1})
		}
		if x.Last > r.Last {
			out = append(out, Run{r.Last + 1, x.Last})
		}
	}
	return out
}

// Minus returns the set without any offset of other.
func (rs Runs) Minus(other Runs) Runs {
	out := rs
	for _, r := range other {
		out = out.Remove(r)
	}
	return out
}

// Upto returns the part of the set at or below off.
func (rs Runs) Upto(off int64) Runs {
	i := rs.search(off)
	out := slices.Clone(rs[:i])
	if i < len(rs) && rs[i].First <= off {
		out = append(out, Run{rs[i].First, off})
	}
	return out
}

// Above returns the part of the set above off.
func (rs Runs) Above(off int64) Runs {
	i := rs.search(off + 1)
	out := slices.Clone(rs[i:])
	if len(out) > 0 && out[0].First <= off {
		out[0].First = off + 1
	}
	return out
}

// Take returns the first n offsets of the set, and the rest.
func (rs Runs) Take(n int64) (taken, rest Runs) {
	for i, r := range rs {
		if n <= 0 {
			return taken, append(rest, rs[i:]...)
		}
		if r.Len() <= n {
			taken = append(taken, r)
			n -= r.Len()
			continue
		}
		taken = append(taken, Run{r.First, r.First + n - 1})
		rest = append(rest, Run{r.First + n, r.Last})
		return taken, append(rest, rs[i+1:]...)
	}
	return taken, rest
}

// Offsets calls f for each offset in ascending order until f returns false.
func (rs Runs) Offsets(f func(int64) bool) {
	for _, r := range rs {
		for o := r.First; o <= r.Last; o++ {
			if !f(o) {
				return
			}
		}
	}
}

// AppendBinary appends the set relative to base (at or below its first offset) to buf.
func (rs Runs) AppendBinary(buf []byte, base int64) []byte {
	at := base
	for _, r := range rs {
		buf = binary.AppendUvarint(buf, uint64(r.First-at))
		buf = binary.AppendUvarint(buf, uint64(r.Last-r.First))
		at = r.Last
	}
	return buf
}

// DecodeRuns reads what AppendBinary wrote with the same base.
func DecodeRuns(buf []byte, base int64) (Runs, error) {
	var out Runs
	at := base
	for len(buf) > 0 {
		gap, n := binary.Uvarint(buf)
		if n <= 0 {
			return nil, Errorf(CodeFormat, "decode runs", "truncated gap")
		}
		buf = buf[n:]
		length, n := binary.Uvarint(buf)
		if n <= 0 {
			return nil, Errorf(CodeFormat, "decode runs", "truncated length")
		}
		buf = buf[n:]
		r := Run{at + int64(gap), at + int64(gap) + int64(length)}
		out = append(out, r)
		at = r.Last
	}
	return out, nil
}
