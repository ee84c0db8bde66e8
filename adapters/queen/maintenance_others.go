package queen

import (
	"context"
	"encoding/binary"
	"strings"
	"time"

	"github.com/leasehold/leasehold/adapters/queen/spool"
	"github.com/leasehold/leasehold/core"
)

// recordHeld is the kind of records that say of which partitions a server has messages in its spool, and since when: the other servers let
// those go first. A producer that fails over to another server is kept in order so.
const recordHeld = "queen-spooled"

// DefaultHoldFor is how long a server waits for another one whose spool is not drained.
const DefaultHoldFor = time.Minute

// holder is a server that has messages of a partition in its spool.
type holder struct {
	spool string
	since core.Time
}

// patience is how long another server has not got on with its spool.
type patience struct {
	since core.Time
	left  int
}

func heldName(p partName, id string) string {
	return p.queue + separator + p.partition + separator + id
}

// remember counts a message that goes to the spool. The caller holds the lock.
func (m *Maintenance) remember(p partName) {
	if m.pending[p] == 0 {
		m.mine[p] = m.o.Clock.Now()
		m.untold[p] = struct{}{}
	}
	m.pending[p]++
	m.spooled++
}

// forget takes back one such message. The caller holds the lock.
func (m *Maintenance) forget(p partName) {
	m.spooled--
	if m.pending[p]--; m.pending[p] <= 0 {
		delete(m.pending, p)
		delete(m.mine, p)
		delete(m.untold, p)
	}
}

// tell stores which partitions are in the spool now and were not before. It is done before their first message is confirmed, and left for later
// where the store does not answer.
func (m *Maintenance) tell() {
	m.mu.Lock()
	if len(m.untold) == 0 || m.away {
		m.mu.Unlock()
		return
	}
	records := make([]core.Record, 0, len(m.untold))
	told := m.untold
	m.untold = map[partName]struct{}{}
	for p := range told {
		value := binary.BigEndian.AppendUint64(nil, uint64(m.mine[p])) //nolint:gosec // a time is not negative
		records = append(records, core.Record{Kind: recordHeld, Name: heldName(p, m.spool.ID()), Value: value})
	}
	m.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- m.put(records) }()
	var err error
	select {
	case err = <-done:
	case <-time.After(lookTimeout):
		err = errWait
	}
	if err == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range told {
		if m.pending[p] > 0 {
			m.untold[p] = struct{}{}
		}
	}
}

// put stores records in one commit.
func (m *Maintenance) put(records []core.Record) error {
	if len(records) == 0 {
		return nil
	}
	_, err := m.o.Engine.PushRecords(m.ctx, core.PushParams{Protocol: core.ProtocolQueen}, records)
	return err
}

// freed returns the partitions of which nothing is left in the spool once these messages are stored, and the records that say so.
func (m *Maintenance) freed(items []core.PushItem) (names []partName, records []core.Record) {
	counts := map[partName]int{}
	for i := range items {
		counts[nameOf(&items[i])]++
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, n := range counts {
		if m.pending[p] == n {
			names = append(names, p)
			records = append(records, core.Record{Kind: recordHeld, Name: heldName(p, m.spool.ID())})
		}
	}
	return names, records
}

// readHeld reads which partitions other servers have in their spools.
func (m *Maintenance) readHeld(ctx context.Context) error {
	if m.spool == nil {
		return nil
	}
	held, left := map[partName]holder{}, map[string]int{}
	err := m.eachHeld(ctx, func(p partName, h holder) {
		if h.spool == m.spool.ID() {
			return
		}
		left[h.spool]++
		if first, ok := held[p]; !ok || h.since < first.since {
			held[p] = h
		}
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held, m.left = held, left
	for id := range m.givenUp {
		if left[id] == 0 {
			delete(m.givenUp, id)
		}
	}
	for p, h := range held {
		if m.givenUp[h.spool] {
			delete(held, p)
		}
	}
	return nil
}

func (m *Maintenance) eachHeld(ctx context.Context, f func(partName, holder)) error {
	page := core.ListRecordsParams{Kind: recordHeld, Limit: 1000}
	for {
		list, err := m.o.Engine.ListRecords(ctx, page)
		if err != nil {
			return err
		}
		for i := range list {
			words := strings.Split(list[i].Name, separator)
			if len(words) == 3 && len(list[i].Value) == 8 {
				since := core.Time(binary.BigEndian.Uint64(list[i].Value)) //nolint:gosec // it was one
				f(partName{words[0], words[1]}, holder{words[2], since})
			}
		}
		if len(list) < page.Limit {
			return nil
		}
		page.After = list[len(list)-1].Name
	}
}

// clearTold takes back what this server said of partitions that it has nothing of, before a crash.
func (m *Maintenance) clearTold(ctx context.Context) error {
	var stale []core.Record
	told := map[partName]core.Time{}
	err := m.eachHeld(ctx, func(p partName, h holder) {
		if h.spool != m.spool.ID() {
			return
		}
		if told[p] = h.since; m.pending[p] == 0 {
			stale = append(stale, core.Record{Kind: recordHeld, Name: heldName(p, h.spool)})
		}
	})
	if err != nil {
		return err
	}
	for p := range m.pending {
		if since, ok := told[p]; ok {
			m.mine[p] = since
			delete(m.untold, p)
		}
	}
	return m.put(stale)
}

// upto returns how many of the messages may be stored before one must wait for another server that has earlier ones of its partition.
func (m *Maintenance) upto(items []core.PushItem) (int, holder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.held) == 0 {
		return len(items), holder{}
	}
	for i := range items {
		p := nameOf(&items[i])
		h, ok := m.held[p]
		if ok && (h.since < m.mine[p] || h.since == m.mine[p] && h.spool < m.spool.ID()) {
			return i, h
		}
	}
	return len(items), holder{}
}

// wait notes that another server is waited for. One that does not get on for too long is given up: its disk may be gone.
func (m *Maintenance) wait(h holder) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, left := m.o.Clock.Now(), m.left[h.spool]
	p, ok := m.waits[h.spool]
	if !ok || p.left != left {
		m.waits[h.spool] = patience{now, left}
		return errWait
	}
	if now.Sub(p.since) < m.o.HoldFor {
		return errWait
	}
	m.givenUp[h.spool] = true
	delete(m.waits, h.spool)
	for name, other := range m.held {
		if other.spool == h.spool {
			delete(m.held, name)
		}
	}
	m.o.Logger.WarnContext(m.ctx, "another server's spool is not drained and is waited for no longer; its messages may come late",
		"spool", h.spool, "partitions", left)
	return nil
}

// advance notes that records are stored.
func (m *Maintenance) advance(list []spool.Entry, items []core.PushItem, freed []partName) error {
	m.drained = list[len(list)-1].Seq
	m.mu.Lock()
	for i := range items {
		m.forget(nameOf(&items[i]))
	}
	for _, p := range freed {
		if m.pending[p] > 0 { // pushed to while the commit ran
			m.untold[p] = struct{}{}
		}
	}
	m.mu.Unlock()
	return m.spool.Drop(m.drained)
}
