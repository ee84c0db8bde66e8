package postgres

import (
	"container/list"
	"slices"
	"sync"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/internal/placing"
)

// cacheBytes bounds what a gateway keeps of segments, and cacheBody the size of a body that it keeps from the beginning. A larger one, up
// to keptBody, is fetched and kept when it is read from for the second time: it is being read bit by bit.
const cacheBytes, cacheBody, keptBody = 48 << 20, 64 << 10, core.MaxSegmentBytes

// segments are what a gateway remembers of segments that it wrote or read: what a segment holds never changes. Whether it still
// exists is for the database to say, every time.
type segments struct {
	mu    sync.Mutex
	bytes int
	used  list.List
	parts map[core.PartitionKey]*remembered
	// history is the database that all of it comes from.
	history string
}

// remembered are the segments of a partition, by first offset.
type remembered struct {
	firsts []int64
	at     map[int64]*list.Element
}

// segment is one of them. headers are decoded when they are wanted; a body may be missing.
type segment struct {
	bare    core.SegmentHeader
	count   int
	header  []byte
	headers []core.MessageHeader
	body    []byte
	// read tells that messages were read from it, as far as that went through the database.
	read bool
}

func (g *segment) last() int64 { return g.bare.First + int64(g.count) - 1 }

// messageHeader is about what a decoded header takes beside its text.
const messageHeader = 120

func (g *segment) size() int { return 200 + len(g.header) + len(g.body) + messageHeader*len(g.headers) }

// from forgets everything when another database has taken over.
func (c *segments) from(history string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.history != history {
		c.history, c.bytes, c.parts = history, 0, nil
		c.used.Init()
	}
}

// put remembers a segment, or more of it.
func (c *segments) put(g *segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parts == nil {
		c.parts = map[core.PartitionKey]*remembered{}
	}
	p := c.parts[g.bare.Partition]
	if p == nil {
		p = &remembered{at: map[int64]*list.Element{}}
		c.parts[g.bare.Partition] = p
	}
	if old := p.at[g.bare.First]; old != nil {
		c.bytes += g.size() - old.Value.(*segment).size() //nolint:forcetypeassert // nothing else is in it
		old.Value = g
		c.used.MoveToFront(old)
	} else {
		p.at[g.bare.First] = c.used.PushFront(g)
		i, _ := slices.BinarySearch(p.firsts, g.bare.First)
		p.firsts = slices.Insert(p.firsts, i, g.bare.First)
		c.bytes += g.size()
	}
	for c.bytes > cacheBytes {
		c.drop(c.used.Back())
	}
}

func (c *segments) drop(e *list.Element) {
	g := c.used.Remove(e).(*segment) //nolint:forcetypeassert // nothing else is in it
	c.bytes -= g.size()
	p := c.parts[g.bare.Partition]
	delete(p.at, g.bare.First)
	if i, found := slices.BinarySearch(p.firsts, g.bare.First); found {
		p.firsts = slices.Delete(p.firsts, i, i+1)
	}
	if len(p.firsts) == 0 {
		delete(c.parts, g.bare.Partition)
	}
}

// known are segments that were remembered when a statement was sent.
type known struct {
	keys, firsts         []int64
	bodyKeys, bodyFirsts []int64
	// readKeys and readFirsts are those whose bodies are worth keeping by now.
	readKeys, readFirsts []int64
	of                   map[[2]int64]*segment
}

// find returns what is remembered of stretches.
func (c *segments) find(ranges []core.HeadersParams) *known {
	k := &known{keys: []int64{}, firsts: []int64{}, bodyKeys: []int64{}, bodyFirsts: []int64{}, of: map[[2]int64]*segment{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range ranges {
		p := c.parts[r.Partition]
		if p == nil {
			continue
		}
		i, _ := slices.BinarySearch(p.firsts, r.From+1)
		for i = max(i-1, 0); i < len(p.firsts) && p.firsts[i] <= r.To; i++ {
			e := p.at[p.firsts[i]]
			g := e.Value.(*segment) //nolint:forcetypeassert // nothing else is in it
			key := [2]int64{int64(r.Partition), g.bare.First}
			if g.last() < r.From || k.of[key] != nil {
				continue
			}
			c.used.MoveToFront(e)
			k.of[key] = g
			k.keys, k.firsts = append(k.keys, key[0]), append(k.firsts, key[1])
			switch {
			case g.body != nil:
				k.bodyKeys, k.bodyFirsts = append(k.bodyKeys, key[0]), append(k.bodyFirsts, key[1])
			case g.read && g.keepable():
				k.readKeys, k.readFirsts = append(k.readKeys, key[0]), append(k.readFirsts, key[1])
			}
		}
	}
	return k
}

// whole returns the segments that hold the offsets of a stretch, with their headers; ok is false where one is not remembered.
func (c *segments) whole(partition core.PartitionKey, first, last int64) (out []*segment, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.parts[partition]
	if p == nil {
		return nil, false, nil
	}
	i, _ := slices.BinarySearch(p.firsts, first+1)
	next := first
	for i = max(i-1, 0); next <= last; i++ {
		if i == len(p.firsts) || p.firsts[i] > next {
			return nil, false, nil
		}
		e := p.at[p.firsts[i]]
		g := e.Value.(*segment) //nolint:forcetypeassert // nothing else is in it
		if g.last() < next {
			return nil, false, nil
		}
		if g.headers == nil {
			if g, err = c.decoded(e, g); err != nil {
				return nil, false, err
			}
		}
		c.used.MoveToFront(e)
		out = append(out, g)
		next = g.last() + 1
	}
	return out, true, nil
}

// decoded replaces a remembered segment by one with its headers decoded; others may be reading the old one.
func (c *segments) decoded(e *list.Element, g *segment) (*segment, error) {
	kept := *g
	var err error
	if kept.headers, err = core.DecodeHeaders(g.header, g.count); err != nil {
		return nil, err
	}
	kept.header = nil
	c.bytes += kept.size() - g.size()
	e.Value = &kept
	return &kept, nil
}

// learn returns a segment with its headers: from before, and from what the database said of it now, which is remembered.
func (c *segments) learn(k *known, said segment) (*segment, error) {
	g := &said
	if old := k.of[[2]int64{int64(said.bare.Partition), said.bare.First}]; old != nil {
		if old.headers != nil && said.body == nil && (old.read || !said.read) {
			return old, nil
		}
		kept := *old // others may be reading it
		kept.read = old.read || said.read
		if kept.body == nil {
			kept.body = said.body
		}
		g = &kept
	}
	if g.headers == nil {
		var err error
		if g.headers, err = core.DecodeHeaders(g.header, g.count); err != nil {
			return nil, err
		}
		g.header = nil
	}
	kept := *g
	if len(kept.body) > cacheBody {
		kept.body = nil
	}
	c.put(&kept)
	return g, nil
}

// keepable reports whether the body is small enough to be kept, as far as that is known.
func (g *segment) keepable() bool {
	_, size := core.BodyRange(g.headers, 0, len(g.headers)-1)
	return size > 0 && size <= keptBody
}

// keep remembers the body of a segment that was found.
func (c *segments) keep(k *known, key [2]int64, body []byte) {
	kept := *k.of[key] // others may be reading it
	kept.body = body
	k.of[key] = &kept
	k.bodyKeys, k.bodyFirsts = append(k.bodyKeys, key[0]), append(k.bodyFirsts, key[1])
	c.put(&kept)
}

// whole returns the header of a segment as others get it: they may change what they get, but not the messages' headers.
func (g *segment) whole() core.SegmentHeader {
	h := g.bare
	h.Messages = g.headers
	return h
}

// appended remembers what a commit wrote.
func (c *segments) appended(plan *placing.Plan) {
	for _, r := range plan.Rows {
		n := &r.Segment
		if len(n.Body) > cacheBody {
			continue
		}
		r.Own(1)
		c.put(&segment{
			bare:  core.SegmentHeader{Partition: n.Partition, First: r.First, AppendedAt: r.At, Before: r.Before},
			count: n.Count, header: n.Header, body: n.Body,
		})
	}
}
