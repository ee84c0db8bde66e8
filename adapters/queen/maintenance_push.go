package queen

import (
	"context"
	"errors"
	"time"

	"github.com/leasehold/leasehold/adapters/queen/spool"
	"github.com/leasehold/leasehold/core"
)

// pushBuffered is the status of a message that is in the spool and not in the store yet. It stands beside the core's, which knows of no spool.
const pushBuffered = core.PushFailed + 1

// settleLimit bounds how long a push waits for the end of a drain. It is real time, since it paces the work and decides nothing.
const settleLimit = time.Second

// store pushes messages to the engine, or to the spool where they must wait there. The outcome is like Engine.Push's.
func (s *server) store(ctx context.Context, items []core.PushItem) ([]core.Pushed, error) {
	if s.o.Maintenance == nil || s.o.Maintenance.spool == nil {
		return s.engine.Push(ctx, core.PushParams{Protocol: core.ProtocolQueen, Items: items, Create: true})
	}
	return s.o.Maintenance.push(ctx, items)
}

// push stores what can be stored now and spools the rest: everything while maintenance is on or the store is away, and else what belongs to
// partitions of which something is spooled, since it must not pass that.
func (m *Maintenance) push(ctx context.Context, items []core.PushItem) ([]core.Pushed, error) {
	if m.quiet(ctx) {
		pushed, err := m.o.Engine.Push(ctx, core.PushParams{Protocol: core.ProtocolQueen, Items: items, Create: true})
		if !anyAway(pushed, err) {
			return pushed, err
		}
		if len(pushed) != len(items) {
			pushed = allFailed(len(items), err)
		}
		m.toSpool(items, m.again(ctx, items, every(len(items)), pushed), pushed)
		return pushed, nil
	}
	if err := m.check(items); err != nil {
		return nil, err
	}
	direct, spooled := m.route(ctx, items)
	out := make([]core.Pushed, len(items))
	if len(direct) > 0 {
		again, err := m.pushNow(ctx, items, direct, out)
		if err != nil {
			return nil, err
		}
		spooled = append(again, spooled...)
	}
	if len(spooled) > 0 {
		m.toSpool(items, spooled, out)
	}
	return out, nil
}

// quiet reports whether there is nothing that any push must wait for, which is nearly always.
func (m *Maintenance) quiet(ctx context.Context) bool {
	now, away := m.current(ctx)
	if now.Push || away {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spooled == 0 && len(m.held) == 0
}

func every(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// anyAway reports whether a push, or part of it, was not stored because the store is away.
func anyAway(pushed []core.Pushed, err error) bool {
	if storeAway(err) {
		return true
	}
	for i := range pushed {
		if pushed[i].Status == core.PushFailed && storeAway(pushed[i].Err) {
			return true
		}
	}
	return false
}

// check refuses what the engine would refuse whenever it came: it must not lie in the spool.
func (m *Maintenance) check(items []core.PushItem) error {
	for i := range items {
		if len(items[i].Payload) > m.o.MaxMessageBytes || len(items[i].TransactionID) > maxTransactionID {
			err := core.Errorf(core.CodeTooLarge, "push", "message %d is too large", i)
			err.Item = i
			return err
		}
	}
	return nil
}

func nameOf(it *core.PushItem) partName {
	p := partName{it.Queue, it.Partition}
	if p.partition == "" {
		p.partition = defaultPartition
	}
	return p
}

// route says which messages go to the store and which to the spool, by index. A message for a partition whose drain is about to end waits for
// that: otherwise a partition that is pushed to without pause would never be done with its spool.
func (m *Maintenance) route(ctx context.Context, items []core.PushItem) (direct, spooled []int) {
	for {
		now, away := m.current(ctx)
		m.mu.Lock()
		direct, spooled = direct[:0], spooled[:0]
		for i := range items {
			if now.Push || away || m.waiting(&items[i]) {
				spooled = append(spooled, i)
			} else {
				direct = append(direct, i)
			}
		}
		settling := m.settling
		if len(spooled) == 0 || now.Push || away || settling == nil {
			for _, i := range spooled {
				m.remember(nameOf(&items[i]))
			}
			m.mu.Unlock()
			return direct, spooled
		}
		m.mu.Unlock()
		wait, cancel := context.WithTimeout(ctx, settleLimit)
		select {
		case <-settling:
		case <-wait.Done():
			m.mu.Lock()
			if m.settling == settling {
				m.settling = nil // it takes too long; go on by the spool
			}
			m.mu.Unlock()
		}
		cancel()
	}
}

// waiting reports whether messages of a message's partition lie in a spool, this server's or another's. The caller holds the lock.
func (m *Maintenance) waiting(it *core.PushItem) bool {
	if m.spooled == 0 && len(m.held) == 0 {
		return false
	}
	p := nameOf(it)
	_, held := m.held[p]
	return held || m.pending[p] > 0
}

// pushNow pushes some of the messages to the engine. It returns those that the store did not take because it is away, which are counted as
// spooled then.
func (m *Maintenance) pushNow(ctx context.Context, items []core.PushItem, which []int, out []core.Pushed) (again []int, err error) {
	some := items
	if len(which) < len(items) {
		some = make([]core.PushItem, len(which))
		for k, i := range which {
			some[k] = items[i]
		}
	}
	pushed, err := m.o.Engine.Push(ctx, core.PushParams{Protocol: core.ProtocolQueen, Items: some, Create: true})
	if err != nil && len(pushed) != len(some) {
		if !storeAway(err) {
			return m.refused(which, len(items), out, err)
		}
		pushed = allFailed(len(some), err)
	}
	for k, i := range which {
		out[i] = pushed[k]
	}
	return m.again(ctx, items, which, out), nil
}

// again returns those messages that the store did not take because it is away, and counts them as spooled.
func (m *Maintenance) again(ctx context.Context, items []core.PushItem, which []int, out []core.Pushed) (again []int) {
	var err error
	for _, i := range which {
		if out[i].Status == core.PushFailed && storeAway(out[i].Err) {
			again, err = append(again, i), out[i].Err
		}
	}
	if len(again) == 0 {
		return nil
	}
	m.setAway(ctx, true, err)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range again {
		m.remember(nameOf(&items[i]))
	}
	return again
}

// refused reports a push that failed as a whole. Where part of the request goes to the spool, the failure is only that of the rest.
func (m *Maintenance) refused(which []int, all int, out []core.Pushed, err error) ([]int, error) {
	if len(which) == all {
		return nil, err
	}
	for _, i := range which {
		out[i] = core.Pushed{Status: core.PushFailed, Err: err}
	}
	return nil, nil
}

// storeAway reports whether an error says that the store cannot be reached and that nothing was stored.
func storeAway(err error) bool {
	if err == nil {
		return false
	}
	code := core.CodeOf(err)
	return code == core.CodeUnavailable || code == core.CodeOverloaded
}

// toSpool writes messages to the spool, which are counted as pending already, and takes back the count of those that find no room.
func (m *Maintenance) toSpool(items []core.PushItem, which []int, out []core.Pushed) {
	records := make([][]byte, len(which))
	now := m.o.Clock.Now()
	for k, i := range which {
		it := items[i]
		it.Partition = nameOf(&it).partition
		it.ID, it.CreatedAt = core.NewMessageID(now), now
		if it.TransactionID == "" {
			// The id of a message is looked for at the time that is in it, and this one gets into the log later.
			it.TransactionID = it.ID.String()
		}
		records[k] = encodeItem(&it)
		out[i] = core.Pushed{Status: pushBuffered, ID: it.ID, TransactionID: it.TransactionID}
	}
	m.tell()
	_, err := m.spool.Append(records)
	if err == nil {
		m.ring()
		return
	}
	code := core.CodeUnavailable
	if errors.Is(err, spool.ErrFull) {
		code = core.CodeFull
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range which {
		out[i] = core.Pushed{Status: core.PushFailed, Err: core.WrapError(code, "spool", err)}
		m.forget(nameOf(&items[i]))
	}
}
