package sqlite

import (
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"github.com/leasehold/leasehold/core"
)

// chunkLen is how many segments one chunk of the index holds at most.
const chunkLen = 256

// index says where a partition's segments lie: twelve bytes for each. What a start left on disk is loaded when the
// partition is first touched.
type index struct {
	// loaded tells that chunks is all of the index and not only what came since the start.
	loaded bool
	// written is the last offset that the index on disk covers.
	written int64
	// unloadedExpires is the earliest expiry in what is not loaded.
	unloadedExpires core.Time
	chunks          []*chunk
	// dropped are block rows whose chunks are empty now.
	dropped []int64
}

// chunk is up to chunkLen segments. A full one is a row of segment_blocks, the last one is the tail in partition_logs.
type chunk struct {
	block   int64 // row of segment_blocks, 0 for one that has none yet
	dirty   bool
	expires core.Time // the earliest expiry in it, 0 is none
	first   int64     // base of entry.first
	row     int64     // base of entry.row
	entries []entry
}

type entry struct{ first, row, count uint32 }

// place is where a segment lies.
type place struct{ row, first, count int64 }

func (p place) last() int64 { return p.first + p.count - 1 }

func (c *chunk) at(i int) place {
	e := c.entries[i]
	return place{row: c.row + int64(e.row), first: c.first + int64(e.first), count: int64(e.count)}
}

func (c *chunk) last() int64 { return c.at(len(c.entries) - 1).last() }

// takes reports whether a segment can be added to the chunk.
func (c *chunk) takes(p place) bool {
	return c.block == 0 && len(c.entries) < chunkLen && p.row-c.row <= math.MaxUint32 && p.first-c.first <= math.MaxUint32
}

// add puts a segment at the end.
func (x *index) add(p place, expires core.Time) {
	var c *chunk
	if n := len(x.chunks); n > 0 && x.chunks[n-1].takes(p) {
		c = x.chunks[n-1]
	} else {
		c = &chunk{first: p.first, row: p.row}
		x.chunks = append(x.chunks, c)
	}
	//nolint:gosec // takes has compared them
	c.entries = append(c.entries, entry{uint32(p.first - c.first), uint32(p.row - c.row), uint32(p.count)})
	c.dirty = true
	c.expires = earlier(c.expires, expires)
}

// minExpires returns the earliest expiry of all segments, 0 when none expires.
func (x *index) minExpires() core.Time {
	least := x.unloadedExpires
	for _, c := range x.chunks {
		least = earlier(least, c.expires)
	}
	return least
}

func earlier(a, b core.Time) core.Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// covers reports whether what is in memory holds every segment from an offset on.
func (x *index) covers(from int64) bool { return x.loaded || from > x.written }

// find returns the segments that hold offsets from to to, at most limit (0 is no limit).
func (x *index) find(from, to int64, limit int) []place {
	var out []place
	at := sort.Search(len(x.chunks), func(i int) bool { return x.chunks[i].last() >= from })
	for _, c := range x.chunks[at:] {
		i := sort.Search(len(c.entries), func(i int) bool { return c.at(i).last() >= from })
		for ; i < len(c.entries); i++ {
			p := c.at(i)
			if p.first > to || limit > 0 && len(out) == limit {
				return out
			}
			out = append(out, p)
		}
	}
	return out
}

// search returns the chunk and the entry of the segment that begins at an offset, or false.
func (x *index) search(first int64) (c *chunk, i int, ok bool) {
	at := sort.Search(len(x.chunks), func(i int) bool { return x.chunks[i].last() >= first })
	if at == len(x.chunks) {
		return nil, 0, false
	}
	c = x.chunks[at]
	i = sort.Search(len(c.entries), func(i int) bool { return c.at(i).first >= first })
	return c, i, i < len(c.entries) && c.at(i).first == first
}

// clone returns a copy that can be changed while others read this one.
func (x *index) clone() *index {
	c := *x
	c.chunks = slices.Clone(x.chunks)
	return &c
}

// remove takes the segment that begins at an offset out of an index that was cloned, and returns where it lay.
func (x *index) remove(first int64) (place, bool) {
	old, i, ok := x.search(first)
	if !ok {
		return place{}, false
	}
	p, at := old.at(i), slices.Index(x.chunks, old)
	if len(old.entries) == 1 {
		if old.block != 0 {
			x.dropped = append(slices.Clip(x.dropped), old.block)
		}
		x.chunks = slices.Delete(x.chunks, at, at+1)
		return p, true
	}
	c := *old
	c.entries = slices.Delete(slices.Clone(old.entries), i, i+1)
	c.dirty = true
	x.chunks[at] = &c
	return p, true
}

// rows returns the row ids of all segments.
func (x *index) rows() []int64 {
	var out []int64
	for _, c := range x.chunks {
		for i := range c.entries {
			out = append(out, c.at(i).row)
		}
	}
	return out
}

// firstPlace returns where the first segment lies.
func (x *index) firstPlace() (place, bool) {
	if len(x.chunks) == 0 {
		return place{}, false
	}
	return x.chunks[0].at(0), true
}

// isTail reports whether the chunk at an index is the one that still grows.
func (x *index) isTail(i int) bool {
	return i == len(x.chunks)-1 && x.chunks[i].block == 0 && len(x.chunks[i].entries) < chunkLen
}

// encode writes a chunk's places: per segment the gap to the one before it, in offsets and in rows, and its length.
func (c *chunk) encode() []byte {
	buf := make([]byte, 0, 4*len(c.entries)+16)
	var last, row int64
	for i := range c.entries {
		p := c.at(i)
		buf = binary.AppendUvarint(buf, uint64(p.first-last)) //nolint:gosec // ascending
		buf = binary.AppendUvarint(buf, uint64(p.row-row))    //nolint:gosec // ascending
		buf = binary.AppendUvarint(buf, uint64(p.count))      //nolint:gosec // positive
		last, row = p.last(), p.row
	}
	return buf
}

// decodeChunk reads what encode wrote; nil for an empty one.
func decodeChunk(buf []byte) (*chunk, error) {
	damaged := core.Errorf(core.CodeFormat, "read segment index", "a block is damaged")
	var c *chunk
	var last, row int64
	for len(buf) > 0 {
		var v [3]int64
		for i := range v {
			u, n := binary.Uvarint(buf)
			if n <= 0 || u > math.MaxInt64/4 {
				return nil, damaged
			}
			v[i], buf = int64(u), buf[n:]
		}
		p := place{first: last + v[0], row: row + v[1], count: v[2]}
		if c == nil {
			c = &chunk{first: p.first, row: p.row}
		}
		first, at := p.first-c.first, p.row-c.row
		if first > math.MaxUint32 || at > math.MaxUint32 || p.count == 0 || p.count > math.MaxUint32 {
			return nil, damaged
		}
		c.entries = append(c.entries, entry{uint32(first), uint32(at), uint32(p.count)}) //nolint:gosec // compared above
		last, row = p.last(), p.row
	}
	if c != nil {
		c.entries = slices.Clip(c.entries)
	}
	return c, nil
}
