package core

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// How an engine keeps up with others that share its store, in real time: it paces the work and decides nothing.
const (
	// followEvery is how often an engine looks whether or not it was told of anything.
	followEvery = time.Second
	// followRest is the least time between looks that notifications ask for.
	followRest = 2 * time.Millisecond
	// retrySkipped is after what time a row is tried again that another gateway held.
	retrySkipped = 2 * time.Millisecond
)

// following is how far an engine has followed the others that share its store. It belongs to the dispatcher, the flags aside.
type following struct {
	store  Shared
	cursor string
	// catalog is how many changes of queues and registrations are known.
	catalog int64
	// dueAt is when the next moments are read again that others may have set; dueStale tells that they may have.
	dueAt    Time
	dueStale bool
	// failure is why the last look failed, nil after one that did not.
	failure error
	// asked is set by notifications, overdue every second, resting for a moment after each look.
	asked, overdue, resting atomic.Bool
	stop                    context.CancelFunc
}

// startFollowing notes where the log of commits stands; it comes before anything is read.
func (e *Engine) startFollowing(ctx context.Context) error {
	shared, ok := e.store.(Shared)
	if !ok {
		return nil
	}
	got, err := shared.Follow(ctx, "")
	if err != nil {
		return WrapError(CodeInternal, "follow", err)
	}
	e.shared, e.others.store, e.others.cursor, e.others.catalog = true, shared, got.Next, got.Catalog
	return nil
}

// listen wakes the dispatcher when others have committed something.
func (e *Engine) listen() {
	if !e.shared {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	e.others.stop = stop
	go e.others.tick(ctx, &e.inbox)
	go func() {
		silent := false
		for ctx.Err() == nil {
			err := e.others.store.Notify(ctx, e.notified)
			if err != nil && ctx.Err() == nil && !silent {
				silent = true
				e.log.Warn("other gateways cannot wake this one, so it looks every second", "error", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(followEvery):
			}
		}
	}()
}

func (f *following) tick(ctx context.Context, inbox *inbox) {
	t := time.NewTicker(followEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			f.overdue.Store(true)
			inbox.ring()
		}
	}
}

// notified is called when another gateway has committed something. Nobody need look while nobody waits.
func (e *Engine) notified() {
	e.others.asked.Store(true)
	if e.waiting.Load() > 0 && !e.others.resting.Load() {
		e.inbox.ring()
	}
}

// look returns when the engine knows what others had committed at the call.
func (e *Engine) look(ctx context.Context) error {
	if !e.shared {
		return nil
	}
	done := make(chan error, 1)
	e.inbox.mu.Lock()
	if e.closing.Load() {
		e.inbox.mu.Unlock()
		return errClosed("look")
	}
	e.inbox.looks = append(e.inbox.looks, done)
	e.inbox.mu.Unlock()
	e.inbox.wake()
	select {
	case err := <-done:
		return err
	case <-e.stopped:
		return errClosed("look")
	case <-ctx.Done():
		return WrapError(CodeCanceled, "look", ctx.Err())
	}
}

// followAsked looks at what others committed when somebody asked for it, or waits for it, or a second is over.
func (e *Engine) followAsked(ctx context.Context, looks []chan error) {
	f := &e.others
	if !e.shared || len(looks) == 0 && !f.overdue.Load() && (!f.asked.Load() || e.waiting.Load() == 0 || f.resting.Load()) {
		return
	}
	err := e.follow(ctx)
	for _, done := range looks {
		done <- err
	}
}

// follow brings memory up to date with what others committed. It runs in the dispatcher.
func (e *Engine) follow(ctx context.Context) error {
	e.settleAir()
	f := &e.others
	f.asked.Store(false)
	f.overdue.Store(false)
	if f.resting.CompareAndSwap(false, true) {
		time.AfterFunc(followRest, func() {
			f.resting.Store(false)
			if f.asked.Load() && e.waiting.Load() > 0 {
				e.inbox.ring()
			}
		})
	}
	got, err := f.store.Follow(ctx, f.cursor)
	if err == nil {
		err = e.learnFrom(ctx, &got)
	}
	if err != nil {
		err = WrapError(CodeInternal, "follow", err)
		if f.failure == nil {
			e.log.ErrorContext(ctx, "what other gateways committed cannot be read", "error", err)
		}
		f.failure = err
		return err
	}
	if f.failure != nil {
		e.log.InfoContext(ctx, "what other gateways committed can be read again")
	}
	f.failure, f.cursor, f.catalog = nil, got.Next, got.Catalog
	for _, c := range e.deadlines {
		c.waited = c.deadline != 0
	}
	return nil
}

// learnFrom takes over what others committed.
func (e *Engine) learnFrom(ctx context.Context, got *Followed) error {
	if got.Lost {
		e.log.WarnContext(ctx, "what other gateways committed is no longer known, so everything is read again")
		return e.readAll(ctx)
	}
	e.dropParts(got.Gone)
	if len(got.Queues) > 0 {
		if err := e.readQueues(ctx, got.Queues); err != nil {
			return err
		}
	}
	for i := range got.Logs {
		e.followLog(&got.Logs[i])
	}
	for _, key := range got.Rows {
		e.followRow(key)
	}
	f, now := &e.others, e.clock.Now()
	f.dueStale = f.dueStale || len(got.Logs)+len(got.Rows) > 0
	if f.dueStale && f.dueAt <= now {
		f.dueStale, f.dueAt = false, now.Add(followEvery)
		return e.refreshDue(ctx)
	}
	return nil
}

// followLog takes over a partition to which others appended, or which they made.
func (e *Engine) followLog(pl *PartitionLog) {
	en := e.cat.byID(pl.Queue)
	if en == nil {
		return // its queue is among those that changed, or gone again
	}
	p := e.cat.addPart(en, *pl)
	p.log, p.sources = pl.Log, true
	e.appended(p)
}

// followRow marks a row that others changed: only the store knows what it holds.
func (e *Engine) followRow(key RowKey) {
	p := e.cat.partByKey(key.Partition)
	if p == nil {
		return
	}
	p.entry.changes.Add(1)
	p.theirs.changed = e.clock.Now()
	g := p.entry.groups[key.Group]
	if g == nil {
		return
	}
	h := g.hint(p)
	h.stale, h.exists, h.dry, h.skipped, h.exclusiveUntil, h.visibleAt = true, false, false, false, 0, 0
	g.anyStale = true
	e.offer(h)
}

// readQueues reads queues again that others made, changed or deleted.
func (e *Engine) readQueues(ctx context.Context, ids []uuid.UUID) error {
	list, err := e.store.Queues(ctx)
	if err != nil {
		return err
	}
	now := make(map[uuid.UUID]*Queue, len(list))
	for i := range list {
		now[list[i].ID] = &list[i]
	}
	// What is gone goes first, since its name may have a new bearer.
	for _, id := range ids {
		if en := e.cat.byID(id); en != nil && now[id] == nil {
			e.cat.remove(en)
			e.forget(en)
		}
	}
	for _, id := range ids {
		q := now[id]
		if q == nil {
			continue
		}
		if err := e.readQueue(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// readQueue reads one of them, and makes sure that what is pushed from now on is new to the groups that were registered.
func (e *Engine) readQueue(ctx context.Context, q *Queue) error {
	regs, err := e.store.Registrations(ctx, q.ID)
	if err != nil {
		return err
	}
	for i := range regs {
		e.keepBehind(&regs[i])
	}
	en := e.cat.byID(q.ID)
	if en == nil {
		parts, err := e.store.Partitions(ctx, q.ID)
		if err != nil {
			return err
		}
		e.discover(ctx, e.cat.add(q, parts))
		return nil
	}
	if en.q().Version != q.Version {
		e.cat.replace(en, q)
		e.discover(ctx, en)
	}
	return e.reload(ctx, en)
}

// readNamed reads the queue of a name that another gateway has just made.
func (e *Engine) readNamed(ctx context.Context, name string) error {
	if err := e.follow(ctx); err != nil || e.cat.byName(name) != nil {
		return err
	}
	list, err := e.store.Queues(ctx)
	for i := range list {
		if list[i].Name == name {
			return e.readQueue(ctx, &list[i])
		}
	}
	return err
}

// readAll reads everything again, after commits that were never seen.
func (e *Engine) readAll(ctx context.Context) error {
	list, err := e.store.Queues(ctx)
	if err != nil {
		return err
	}
	ids := make([]uuid.UUID, 0, len(list))
	for i := range list {
		ids = append(ids, list[i].ID)
	}
	for _, en := range e.cat.all() {
		ids = append(ids, en.q().ID)
		for _, p := range en.partitions() {
			e.forgetTable(p)
			p.theirs.changed = e.clock.Now()
		}
	}
	if err := e.readQueues(ctx, ids); err != nil {
		return err
	}
	for _, en := range e.cat.all() {
		if err := e.readParts(ctx, en); err != nil {
			return err
		}
	}
	return nil
}

// retrySoon offers a partition again that another gateway held, within milliseconds.
func (e *Engine) retrySoon(h *hint) {
	if h.skipped {
		return
	}
	h.skipped = true
	h.group.skipped[h] = struct{}{}
	time.AfterFunc(retrySkipped, func() {
		e.post(func() {
			h.skipped = false
			delete(h.group.skipped, h)
			e.offer(h)
		})
	})
}

// lookForMore looks at what others committed before claims that do not wait are given less than they ask for: who pushed at another gateway can
// expect the next claim to bring it. It decides nothing, so it is left out while no other gateway is known of.
func (e *Engine) lookForMore(ctx context.Context, claims []*claimReq) {
	if !e.shared || !slices.ContainsFunc(claims, (*claimReq).wantsMore) || e.others.store.Alone() {
		return
	}
	_ = e.follow(ctx) // where it fails, they get what is known
}

// wantsMore reports whether a claim that does not wait asks for more than is known of, but for something that is.
func (c *claimReq) wantsMore() bool {
	if c.deadline != 0 || c.state.Load() != claimWaiting {
		return false
	}
	known, most := int64(0), int64(c.p.Messages)
	for _, g := range c.groups {
		if c.part == nil {
			known += g.ready.unleased(most)
		} else {
			known += g.hint(c.part).unleased()
		}
	}
	return 0 < known && known < most
}

// lookForEmpty looks once at what others committed before claims are told that there is nothing, at once or when their wait is over; rows
// that others held are then waited for.
func (e *Engine) lookForEmpty(ctx context.Context, now Time) {
	if !e.shared {
		return
	}
	var fresh []*claimReq
	for _, c := range e.deadlines {
		if c.deadline > now || c.looked || c.state.Load() != claimWaiting {
			continue
		}
		c.looked, fresh = true, append(fresh, c)
		for _, g := range c.groups {
			for h := range g.skipped {
				h.skipped = false
				e.offer(h)
			}
			clear(g.skipped)
		}
	}
	if len(fresh) == 0 {
		return
	}
	err := e.follow(ctx)
	if err == nil {
		e.again = true
		return
	}
	for _, c := range fresh { // whether there is nothing is not known
		e.unpark(c)
		c.fail(err)
	}
}
