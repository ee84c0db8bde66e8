package sqlite

import (
	"sync"
	"sync/atomic"

	"github.com/leasehold/leasehold/core"
)

// cached is a segment in memory. A large body is missing until somebody reads a message of it.
type cached struct {
	row    int64
	bare   core.SegmentHeader // without Messages
	count  int
	header []byte
	body   []byte
	// decoded is made when somebody first asks: what nobody reads costs no decoding.
	decoded atomic.Pointer[core.SegmentHeader]
	// late is a body that was read after the rest; reading is held by who reads it.
	late    atomic.Pointer[[]byte]
	reading sync.Mutex
	// counted is what the cache counts it for, under the cache's lock.
	counted int64
}

// overhead is what a cached segment and a decoded message take beside their bytes.
const (
	segmentOverhead = 256
	messageOverhead = 80
)

func (c *cached) size() int64 {
	return int64(len(c.header)+len(c.bodyBytes())+c.count*messageOverhead) + segmentOverhead
}

// bodyBytes returns the body, nil where it is not in memory.
func (c *cached) bodyBytes() []byte {
	if late := c.late.Load(); late != nil {
		return *late
	}
	return c.body
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
			c.bytes -= old.counted
		} else {
			c.order = append(c.order, e.row)
		}
		c.rows[e.row] = e
		e.counted = e.size()
		c.bytes += e.counted
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
		c.bytes -= e.counted
		delete(c.rows, row)
	}
}
