package core

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
)

// entry is a queue in memory.
type entry struct {
	queue atomic.Pointer[Queue]
	gone  atomic.Bool

	mu    sync.RWMutex
	names map[string]*part
	list  []*part

	// What follows belongs to the dispatcher.
	groups     map[string]*group
	held       bool
	heldPushes []*pushReq
	heldOps    []*opReq
	heldCount  [2]atomic.Int64
	changes    atomic.Int64
	// claimsWaiting counts parked claims, of every group.
	claimsWaiting atomic.Int64
	stats         statsCache
	// retained is the count of changes at the last retention.
	retained int64
}

func (en *entry) q() *Queue { return en.queue.Load() }

// part is a partition in memory.
type part struct {
	Partition
	entry *entry
	// gone tells that it was removed, being idle.
	gone atomic.Bool

	// What follows belongs to the dispatcher.
	log   LogState
	dedup dedupTable
	// sources tells that messages with source ids may lie here.
	sources bool
	// flight are messages of the commit being built, from log.Head+1 on; incoming counts those spread to it.
	flight   []flightRef
	incoming int64
	// theirs is what has to be known of reads at other gateways.
	theirs theirReads
}

func (en *entry) partition(name string) *part {
	en.mu.RLock()
	defer en.mu.RUnlock()
	if name == "" || name == DefaultPartition && en.q().Origin == ProtocolQuerator {
		if len(en.list) > 0 {
			return en.list[0]
		}
		return nil
	}
	return en.names[name]
}

func (en *entry) partitions() []*part {
	en.mu.RLock()
	defer en.mu.RUnlock()
	return en.list
}

// partName is the name under which a missing partition is made.
func (en *entry) partName(name string) string {
	switch {
	case name != "":
		return name
	case en.q().Origin == ProtocolQuerator:
		return "0"
	default:
		return DefaultPartition
	}
}

// catalog finds queues and partitions by name and id.
type catalog struct {
	mu     sync.RWMutex
	names  map[string]*entry
	ids    map[uuid.UUID]*entry
	parts  map[uuid.UUID]*part
	byKey  map[PartitionKey]*part
	sorted []*entry
}

func (c *catalog) load(ctx context.Context, store Store) error {
	c.names, c.ids = map[string]*entry{}, map[uuid.UUID]*entry{}
	c.parts, c.byKey = map[uuid.UUID]*part{}, map[PartitionKey]*part{}
	queues, err := store.Queues(ctx)
	if err != nil {
		return WrapError(CodeInternal, "load queues", err)
	}
	for i := range queues {
		parts, err := store.Partitions(ctx, queues[i].ID)
		if err != nil {
			return WrapError(CodeInternal, "load partitions", err)
		}
		c.add(&queues[i], parts)
	}
	return nil
}

func (c *catalog) add(q *Queue, parts []PartitionLog) *entry {
	en := &entry{names: map[string]*part{}, groups: map[string]*group{}}
	en.queue.Store(q)
	c.mu.Lock()
	c.names[q.Name], c.ids[q.ID], c.sorted = en, en, nil
	c.mu.Unlock()
	for _, p := range parts {
		c.addPart(en, p)
	}
	return en
}

// addPart makes a partition known; one that is known already is returned as it is.
func (c *catalog) addPart(en *entry, pl PartitionLog) *part {
	en.mu.Lock()
	p := en.names[pl.Name]
	if p == nil {
		p = &part{Partition: pl.Partition, entry: en, log: pl.Log}
		p.dedup.empty, p.sources = pl.Log.Head == 0, pl.Log.Head > 0
		en.names[pl.Name] = p
		en.insert(p)
	}
	en.mu.Unlock()
	c.mu.Lock()
	c.parts[p.ID], c.byKey[p.Key] = p, p
	c.mu.Unlock()
	return p
}

// insert puts a partition into the list by its ordinal. Readers hold the list as it was: what they can see of it never changes.
func (en *entry) insert(p *part) {
	if n := len(en.list); n == 0 || en.list[n-1].Ordinal < p.Ordinal {
		en.list = append(en.list, p)
		return
	}
	list := append(slices.Clip(slices.Clone(en.list)), p)
	slices.SortFunc(list, func(a, b *part) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	en.list = list
}

func (c *catalog) replace(en *entry, q *Queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := en.q(); old.Name != q.Name {
		delete(c.names, old.Name)
		c.names[q.Name], c.sorted = en, nil
	}
	en.queue.Store(q)
}

func (c *catalog) byName(name string) *entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.names[name]
}

func (c *catalog) byID(id uuid.UUID) *entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.ids[id]
}

func (c *catalog) part(id uuid.UUID) *part {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.parts[id]
}

func (c *catalog) partByKey(key PartitionKey) *part {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byKey[key]
}

// all returns the queues by name.
func (c *catalog) all() []*entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sorted == nil {
		c.sorted = make([]*entry, 0, len(c.names))
		for _, en := range c.names {
			c.sorted = append(c.sorted, en)
		}
		slices.SortFunc(c.sorted, func(a, b *entry) int { return strings.Compare(a.q().Name, b.q().Name) })
	}
	return c.sorted
}
