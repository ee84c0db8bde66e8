package queen

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/adapters/queen/spool"
	"github.com/leasehold/leasehold/core"
)

// errWait tells the drain to wait until something changes.
var errWait = errors.New("the store is away")

// load reads how far the spool was drained and counts what is left.
func (m *Maintenance) load(ctx context.Context) error {
	if m.spool == nil {
		return nil
	}
	raw, err := m.o.Engine.Record(ctx, recordDrained, m.spool.ID())
	if err != nil {
		return err
	}
	if len(raw) == 8 {
		m.drained = binary.BigEndian.Uint64(raw)
	}
	if err := m.spool.Drop(m.drained); err != nil {
		return core.WrapError(core.CodeInternal, "open spool", err)
	}
	for after := m.drained; ; {
		list, err := m.spool.Read(after, drainMessages, drainBytes)
		if err != nil {
			return core.WrapError(core.CodeFormat, "open spool", err)
		}
		if len(list) == 0 {
			break
		}
		for i := range list {
			it, err := decodeItem(list[i].Data)
			if err == nil {
				m.remember(nameOf(&it))
			} else {
				m.spooled++
			}
		}
		after = list[len(list)-1].Seq
	}
	if m.spooled > 0 {
		m.o.Logger.InfoContext(ctx, "the spool holds messages from before", "messages", m.spooled)
	}
	return m.clearTold(ctx)
}

// drain is the goroutine that stores what is spooled, in order.
func (m *Maintenance) drain() {
	defer close(m.ended)
	if m.spool == nil {
		<-m.ctx.Done()
		return
	}
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.wake:
		}
		for m.mayDrain() {
			m.tell()
			if err := m.drainSome(); err != nil {
				if m.ctx.Err() == nil && !errors.Is(err, errWait) {
					m.o.Logger.WarnContext(m.ctx, "the spool cannot be drained now", "error", err)
				}
				break
			}
		}
		m.settled()
	}
}

// mayDrain reports whether there is something to store and nothing against it. While the rest fits in one commit, pushes to its partitions wait
// for that commit.
func (m *Maintenance) mayDrain() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now.Push || m.away || m.spooled == 0 || m.ctx.Err() != nil {
		return false
	}
	if m.spooled <= drainMessages && m.settling == nil {
		m.settling = make(chan struct{})
	}
	return true
}

// settled lets pushes go on that waited for the end of the drain.
func (m *Maintenance) settled() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.settling != nil {
		close(m.settling)
		m.settling = nil
	}
}

// drainSome stores one batch.
func (m *Maintenance) drainSome() error {
	list, err := m.spool.Read(m.drained, drainMessages, drainBytes)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errWait // what is counted is still on its way to the disk
	}
	items, bad := make([]core.PushItem, 0, len(list)), -1
	for i := range list {
		it, err := decodeItem(list[i].Data)
		if err != nil {
			bad = i
			break
		}
		items = append(items, it)
	}
	if bad == 0 {
		return m.skip(&list[0], core.Errorf(core.CodeFormat, "drain", "the record is no message"))
	}
	n, other := m.upto(items)
	if n == 0 {
		return m.wait(other)
	}
	return m.storeBatch(list[:n], items[:n])
}

// storeBatch stores messages together with the number of the last one, so that after a crash the store itself says how far it came. What fails
// because of what is in it is tried in halves; the message at fault is set aside.
func (m *Maintenance) storeBatch(list []spool.Entry, items []core.PushItem) error {
	last := list[len(list)-1].Seq
	freed, records := m.freed(items)
	done, err := m.o.Engine.PushRecords(m.ctx, core.PushParams{Protocol: core.ProtocolQueen, Items: items, Create: true}, append(records, m.position(last)))
	if err != nil && core.CodeOf(err) == core.CodeUnknown {
		err = m.resolve(done.Commit)
	}
	switch code := core.CodeOf(err); {
	case err == nil:
		return m.advance(list, items, freed)
	case storeAway(err):
		m.setAway(m.ctx, true, err)
		return errWait
	case code == core.CodeClosed, code == core.CodeCanceled, code == core.CodeUnknown, code == core.CodeFull, code == core.CodeReadOnly,
		code == core.CodeConflict, code == core.CodeDeleted, code == core.CodeLocked:
		return err // it is the store's trouble, and passes
	case len(list) == 1:
		return m.skip(&list[0], err)
	}
	half := len(list) / 2
	return m.storeBatch(list[:half], items[:half]) // the rest comes with the next batch
}

// resolve finds out what became of a commit whose answer was lost: nil when it took place, CodeUnavailable when it did not and never will.
func (m *Maintenance) resolve(commit uuid.UUID) error {
	for {
		took, err := m.o.Engine.Outcome(m.ctx, commit)
		switch {
		case err == nil && took:
			return nil
		case err == nil:
			return core.Errorf(core.CodeUnavailable, "drain", "the commit did not take place")
		case core.CodeOf(err) == core.CodeClosed || m.ctx.Err() != nil:
			return err
		}
		m.setAway(m.ctx, true, err)
		if err := m.pause(); err != nil {
			return err
		}
	}
}

// pause waits for the next look at the store.
func (m *Maintenance) pause() error {
	select {
	case <-m.wake:
		return nil
	case <-m.ctx.Done():
		return context.Cause(m.ctx)
	}
}

// position is the record that says how far the spool is drained.
func (m *Maintenance) position(seq uint64) core.Record {
	return core.Record{Kind: recordDrained, Name: m.spool.ID(), Value: binary.BigEndian.AppendUint64(nil, seq)}
}

// skip sets a record aside and goes on behind it. It is set aside before the position is stored: a crash between the two loses nothing.
func (m *Maintenance) skip(e *spool.Entry, why error) error {
	if err := m.setAside(e, why); err != nil {
		return err
	}
	var items []core.PushItem
	if it, err := decodeItem(e.Data); err == nil {
		items = append(items, it)
	}
	freed, records := m.freed(items)
	if err := m.put(append(records, m.position(e.Seq))); err != nil {
		return err
	}
	if len(items) == 0 {
		m.mu.Lock()
		m.spooled--
		m.mu.Unlock()
	}
	return m.advance([]spool.Entry{*e}, items, freed)
}
