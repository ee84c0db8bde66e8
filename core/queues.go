package core

import (
	"context"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

func (c *catalog) remove(en *entry) {
	en.gone.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	q := en.q()
	delete(c.names, q.Name)
	delete(c.ids, q.ID)
	c.sorted = nil
	for _, p := range en.partitions() {
		delete(c.parts, p.ID)
		delete(c.byKey, p.Key)
	}
}

func noQueue(op, name string) error { return Errorf(CodeNoQueue, op, "no queue is named %q", name) }

// Queue returns a queue by name, or CodeNoQueue.
func (e *Engine) Queue(ctx context.Context, name string) (Queue, error) {
	en, err := e.queue(ctx, "get queue", name)
	if err != nil {
		return Queue{}, err
	}
	return *en.q(), nil
}

// QueueByID returns a queue by id, or CodeNoQueue.
func (e *Engine) QueueByID(ctx context.Context, id uuid.UUID) (Queue, error) {
	en, err := e.identified(ctx, id)
	switch {
	case err != nil:
		return Queue{}, err
	case en == nil:
		return Queue{}, noQueue("get queue", id.String())
	default:
		return *en.q(), nil
	}
}

// Queues returns all queues by name in byte order.
func (e *Engine) Queues(ctx context.Context) ([]Queue, error) {
	if err := e.look(ctx); err != nil {
		return nil, err
	}
	all := e.cat.all()
	out := make([]Queue, len(all))
	for i, en := range all {
		out[i] = *en.q()
	}
	return out, nil
}

// Partitions returns the partitions of a queue by ordinal.
func (e *Engine) Partitions(ctx context.Context, name string) ([]Partition, error) {
	if err := e.look(ctx); err != nil {
		return nil, err
	}
	en := e.cat.byName(name)
	if en == nil {
		return nil, noQueue("list partitions", name)
	}
	list := en.partitions()
	out := make([]Partition, len(list))
	for i, p := range list {
		out[i] = p.Partition
	}
	return out, nil
}

// PartitionAt returns one partition of a queue by its number, or CodeNoPartition.
func (e *Engine) PartitionAt(ctx context.Context, name string, ordinal int32) (Partition, error) {
	p, err := e.partAt(ctx, "get partition", name, ordinal)
	if err != nil {
		return Partition{}, err
	}
	return p.Partition, nil
}

// PartitionByKey returns a partition and its queue's name for display, false when either is gone.
func (e *Engine) PartitionByKey(key PartitionKey) (Partition, string, bool) {
	if p := e.cat.partByKey(key); p != nil {
		return p.Partition, p.entry.q().Name, true
	}
	return Partition{}, "", false
}

// PartitionByID returns a partition and its queue's name, false when either is gone or cannot be looked for now.
func (e *Engine) PartitionByID(id uuid.UUID) (Partition, string, bool) {
	if p, err := e.partition(context.Background(), id); err == nil && p != nil {
		return p.Partition, p.entry.q().Name, true
	}
	return Partition{}, "", false
}

// CreateQueue makes a queue with so many partitions, named by its origin's rule: "0", "1", … for Querator, DefaultPartition and
// then numbers for others (0 partitions is legal: pushes make them). ID, Version and times are assigned. CodeQueueExists when
// the name is taken.
func (e *Engine) CreateQueue(ctx context.Context, q Queue, partitions int) (Queue, error) {
	var out Queue
	var err error
	if err := e.look(ctx); err != nil {
		return Queue{}, err
	}
	if cerr := e.call(func() {
		var en *entry
		if en, err = e.create(ctx, q, partitions); err == nil {
			out = *en.q()
		}
	}); cerr != nil {
		return Queue{}, cerr
	}
	return out, err
}

// create makes a queue; it runs in the dispatcher.
func (e *Engine) create(ctx context.Context, q Queue, partitions int) (*entry, error) {
	if e.cat.byName(q.Name) != nil {
		return nil, Errorf(CodeQueueExists, "create queue", "queue %q exists", q.Name)
	}
	now := e.clock.Now()
	q.ID, q.Version, q.CreatedAt, q.UpdatedAt = NewMessageID(now), 0, now, now
	if q.Options.Queen == (Queen{}) {
		q.Options.Queen = ImplicitQueen()
	}
	parts := make([]Partition, partitions)
	for i := range parts {
		name := strconv.Itoa(i)
		if i == 0 && q.Origin != ProtocolQuerator {
			name = DefaultPartition
		}
		parts[i] = Partition{ID: uuid.New(), Queue: q.ID, Name: name, Ordinal: int32(i), CreatedAt: now}
	}
	stored, err := e.store.PutQueue(ctx, PutQueueParams{Queue: q, Partitions: parts, Now: now})
	if err != nil {
		return nil, WrapError(CodeInternal, "create queue", err)
	}
	logs, err := e.store.Partitions(ctx, stored.ID)
	if err != nil {
		return nil, WrapError(CodeInternal, "create queue", err)
	}
	en := e.cat.add(&stored, logs)
	e.discover(ctx, en)
	return en, nil
}

// EnsureQueue returns a queue, making it as Queen makes it implicitly when it is missing.
func (e *Engine) EnsureQueue(ctx context.Context, name string) (Queue, error) {
	en, err := e.ensure(ctx, name)
	if err != nil {
		return Queue{}, err
	}
	return *en.q(), nil
}

func (e *Engine) ensure(ctx context.Context, name string) (*entry, error) {
	en, err := e.named(ctx, name)
	if err != nil || en != nil {
		return en, err
	}
	q := Queue{Name: name, Origin: ProtocolQueen}
	q.Options.Queen = ImplicitQueen()
	q.Options.Namespace, q.Options.Task = SplitName(name)
	if cerr := e.call(func() {
		for n := 0; n < configureTries; n++ {
			if en, err = e.cat.byName(name), nil; en != nil {
				return
			}
			en, err = e.create(context.WithoutCancel(ctx), q, 0)
			if !e.shared || CodeOf(err) != CodeQueueExists || e.readNamed(context.WithoutCancel(ctx), name) != nil {
				return
			}
			// Another gateway made it at the same moment, and may have deleted it again.
		}
	}); cerr != nil {
		return nil, cerr
	}
	return en, err
}

// SplitName derives namespace and task from a dotted queue name: the text before the first dot, and that between the first
// and the second (Queen's rule for implicit queues).
func SplitName(name string) (namespace, task string) {
	namespace, rest, _ := strings.Cut(name, ".")
	task, _, _ = strings.Cut(rest, ".")
	return namespace, task
}

// ConfigureQueue applies change to the queue's current state and stores the result, again if another change came between.
// change may alter Name and Options; an error from it ends the call with that error. A missing queue is CodeNoQueue.
func (e *Engine) ConfigureQueue(ctx context.Context, name string, change func(*Queue) error) (Queue, error) {
	var out Queue
	var err error
	if err := e.look(ctx); err != nil {
		return Queue{}, err
	}
	cerr := e.call(func() {
		ctx := context.WithoutCancel(ctx)
		out, err = e.configure(ctx, name, change)
		for n := 0; n < configureTries && e.shared && CodeOf(err) == CodeConflict && e.follow(ctx) == nil; n++ {
			out, err = e.configure(ctx, name, change)
		}
	})
	if cerr != nil {
		return Queue{}, cerr
	}
	return out, err
}

// configureTries is how often a change of a queue is made again that met another gateway's.
const configureTries = 8

func (e *Engine) configure(ctx context.Context, name string, change func(*Queue) error) (Queue, error) {
	en := e.cat.byName(name)
	if en == nil {
		return Queue{}, noQueue("configure queue", name)
	}
	q := en.q().clone()
	if err := change(&q); err != nil {
		return Queue{}, err
	}
	if q.Name != name && e.cat.byName(q.Name) != nil {
		return Queue{}, Errorf(CodeQueueExists, "configure queue", "queue %q exists", q.Name)
	}
	now := e.clock.Now()
	q.ID, q.Version, q.CreatedAt, q.UpdatedAt = en.q().ID, en.q().Version, en.q().CreatedAt, max(now, en.q().UpdatedAt+1)
	stored, err := e.store.PutQueue(ctx, PutQueueParams{Queue: q, Now: now})
	if err != nil {
		return Queue{}, WrapError(CodeInternal, "configure queue", err)
	}
	e.cat.replace(en, &stored)
	e.discover(ctx, en)
	for _, g := range en.groups {
		e.recheck(g)
	}
	return stored, nil
}

// clone returns a copy that shares no pointers.
func (q *Queue) clone() Queue {
	c := *q
	if q.Options.Querator != nil {
		v := *q.Options.Querator
		c.Options.Querator = &v
	}
	if q.Options.Cloudflare != nil {
		v := *q.Options.Cloudflare
		if v.Consumer != nil {
			w := *v.Consumer
			v.Consumer = &w
		}
		c.Options.Cloudflare = &v
	}
	return c
}

// DeleteQueue removes a queue and everything in it; waiting claims end with CodeDeleted. CodeQueueInUse when
// evenInUse is false and another queue names it as its dead queue.
func (e *Engine) DeleteQueue(ctx context.Context, name string, evenInUse bool) error {
	var err error
	if err := e.look(ctx); err != nil {
		return err
	}
	if cerr := e.call(func() { err = e.remove(context.WithoutCancel(ctx), name, evenInUse) }); cerr != nil {
		return cerr
	}
	return err
}

func (e *Engine) remove(ctx context.Context, name string, evenInUse bool) error {
	en := e.cat.byName(name)
	if en == nil {
		return noQueue("delete queue", name)
	}
	for _, other := range e.cat.all() {
		if !evenInUse && other != en && other.q().Options.DeadQueue == en.q().ID {
			return Errorf(CodeQueueInUse, "delete queue", "queue %q serves as the dead queue of %q", name, other.q().Name)
		}
	}
	if err := e.store.DeleteQueue(ctx, en.q().ID); err != nil && CodeOf(err) != CodeNoQueue {
		return WrapError(CodeInternal, "delete queue", err)
	}
	e.cat.remove(en)
	e.forget(en)
	return nil
}
