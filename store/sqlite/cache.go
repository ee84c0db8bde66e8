package sqlite

import (
	"sync"
	"sync/atomic"

	"github.com/leasehold/leasehold/core"
)

// cached is a segment in memory. Its body is missing when it was read for its header only and is large.
type cached struct {
	row    int64
	bare   core.SegmentHeader // without Messages
	count  int
	header []byte
	body   []byte
	// decoded is made when somebody first asks: what nobody reads costs no decoding.
	decoded atomic.Pointer[core.SegmentHeader]
}

// overhead is what a cached segment and a decoded message take beside their bytes.
const (
	segmentOverhead = 256
	messageOverhead = 80
)

func (c *cached) size() int64 {
	return int64(len(c.header)+len(c.body)+c.count*messageOverhead) + segmentOverhead
}

// segment returns the decoded header. Everybody shares it.
func (c *cached) segment() (*core.SegmentHeader, error) {
	if h := c.decoded.Load(); h != nil {
		return h, nil
	}
	ms, err := core.DecodeHeaders(c.header, c.count)
	if err != nil {
		return nil, err
	}
	h := c.bare
	h.Messages = ms
	c.decoded.Store(&h)
	return &h, nil
}

// cache holds the newest segments that were appended or read, the oldest leaving first.
type cache struct {
	mu    sync.Mutex
	max   int64
	bytes int64
	rows  map[int64]*cached
	// order is a ring of row ids by age; those that were removed meanwhile are passed over.
	order []int64
	head  int
}

func newCache(limit int64) *cache { return &cache{max: limit, rows: map[int64]*cached{}} }

func (c *cache) get(row int64) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rows[row]
}

func (c *cache) put(list ...*cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range list {
		if old := c.rows[e.row]; old != nil {
			c.bytes -= old.size()
		} else {
			c.order = append(c.order, e.row)
		}
		c.rows[e.row] = e
		c.bytes += e.size()
	}
	for c.bytes > c.max && c.head < len(c.order) {
		c.drop(c.order[c.head])
		c.head++
	}
	if c.head > 1024 && c.head > len(c.order)/2 {
		c.order = append(c.order[:0], c.order[c.head:]...)
		c.head = 0
	}
}

func (c *cache) remove(rows []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, row := range rows {
		c.drop(row)
	}
}

func (c *cache) drop(row int64) {
	if e := c.rows[row]; e != nil {
		c.bytes -= e.size()
		delete(c.rows, row)
	}
}
