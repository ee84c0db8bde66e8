package postgres

import (
	"maps"
	"sync"
	"time"

	"github.com/leasehold/leasehold/core"
)

// recalls switches all of it on.
const recalls = true

const (
	// recalledMost bounds the rows and the logs that a gateway remembers.
	recalledMost = 200_000
	// distrustFor is how long what another gateway changed is read again each time, in case it goes on.
	distrustFor = time.Second
)

// recollection is what a gateway remembers of rows and logs, as it wrote or read them last. Another gateway may have changed them since,
// so a commit that builds on it says what it builds on, and the database refuses it when that is no longer so.
type recollection struct {
	mono core.Clock

	mu sync.Mutex
	// history is the database that all of it comes from; nothing is remembered before it is known.
	history string
	// catalog is the last number of changes of queues and registrations, at the time when it was asked for.
	catalog int64
	// until is up to when nothing is built on it: a connection broke, and may not be the only one.
	until core.Time
	rows  map[core.RowKey]recalledRow
	logs  map[core.PartitionKey]recalledLog
}

// recalledRow is a row with all its batches, by first offset. Its version is the transaction that wrote it last: whatever changes
// batches writes their frontier too.
type recalledRow struct {
	version  uint32
	exists   bool
	frontier core.Frontier
	batches  []core.Batch
	// foreign is when another gateway was seen to change it; refused tells that a commit was refused that built on it, or on others beside it.
	foreign core.Time
	refused bool
}

type recalledLog struct {
	state   core.LogState
	foreign core.Time
	refused bool
}

func newRecollection(mono core.Clock) *recollection {
	m := &recollection{mono: mono}
	m.clear()
	return m
}

func (m *recollection) clear() {
	m.rows, m.logs = map[core.RowKey]recalledRow{}, map[core.PartitionKey]recalledLog{}
}

// from forgets everything when another database has taken over.
func (m *recollection) from(history string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.history != history {
		m.history = history
		m.clear()
	}
}

// is reports whether a database is the one that all of it comes from.
func (m *recollection) is(history string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.history == history
}

// doubt has nothing built on it for a while.
func (m *recollection) doubt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until = m.mono.Now().Add(distrustFor)
	m.clear()
}

// trusted reports whether something that others changed then may be built on by now.
func (m *recollection) trusted(foreign core.Time) bool {
	now := m.mono.Now()
	return now >= m.until && (foreign == 0 || now >= foreign.Add(distrustFor))
}

// room makes room for one more in a map; which one goes does not matter.
func room[K comparable, V any](of map[K]V) {
	if len(of) >= recalledMost {
		for k := range of {
			delete(of, k)
			return
		}
	}
}

// keepRow remembers a row as this gateway read or wrote it. before is the version on which that was built.
func (m *recollection) keepRow(key core.RowKey, r recalledRow, before uint32) {
	old, known := m.rows[key]
	if !known {
		room(m.rows)
	}
	r.foreign = old.foreign
	if known && old.version != before {
		r.foreign = m.mono.Now()
	}
	m.rows[key] = r
}

// keepLog remembers a log as it is after a commit of this gateway; before is the head on which that was built.
func (m *recollection) keepLog(key core.PartitionKey, state core.LogState, before int64) {
	old, known := m.logs[key]
	if !known {
		room(m.logs)
	}
	if known && state.Head < old.state.Head {
		return // a later one was remembered first
	}
	foreign := old.foreign
	if known && old.state.Head != before {
		foreign = m.mono.Now()
	}
	state.Start, state.StartTotals = laterStart(&state, &old.state)
	m.logs[key] = recalledLog{state: state, foreign: foreign}
}

// readLog remembers a log as it was read outside of a commit that appends to it.
func (m *recollection) readLog(key core.PartitionKey, state core.LogState) {
	old, known := m.logs[key]
	if known {
		m.keepLog(key, state, old.state.Head)
		return
	}
	room(m.logs)
	m.logs[key] = recalledLog{state: state}
}

func laterStart(a, b *core.LogState) (int64, core.Totals) {
	if a.Start < b.Start {
		return b.Start, b.StartTotals
	}
	return a.Start, a.StartTotals
}

// keepLogs remembers what a commit appended.
func (s *Store) keepLogs(after, before logs) {
	m := s.recall
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, state := range after {
		m.keepLog(key, state, before[key].Head)
	}
}

// forget drops what is remembered of partitions, with the rows of all groups.
func (m *recollection) forget(keys []int64) {
	if len(keys) == 0 {
		return
	}
	gone := make(map[core.PartitionKey]bool, len(keys))
	for _, key := range keys {
		gone[core.PartitionKey(key)] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.logs, func(key core.PartitionKey, _ recalledLog) bool { return gone[key] })
	maps.DeleteFunc(m.rows, func(key core.RowKey, _ recalledRow) bool { return gone[key.Partition] })
}

// refuse has rows, or the logs of segments, read again before anything builds on them.
func (m *recollection) refuse(requests []core.RowRequest, segments []core.NewSegment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range requests {
		if row, known := m.rows[requests[i].Key]; known {
			row.refused = true
			m.rows[requests[i].Key] = row
		}
	}
	for i := range segments {
		if log, known := m.logs[segments[i].Partition]; known {
			log.refused = true
			m.logs[segments[i].Partition] = log
		}
	}
}

// followed takes note of what others changed.
func (m *recollection) followed(f *core.Followed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.mono.Now()
	for _, key := range f.Rows {
		if _, known := m.rows[key]; known {
			m.rows[key] = recalledRow{foreign: now}
		}
	}
	for i := range f.Logs {
		key, state := f.Logs[i].Key, f.Logs[i].Log
		old, known := m.logs[key]
		switch {
		case !known:
		case state.Head < old.state.Head: // older than what this gateway wrote meanwhile
			old.state.Start, old.state.StartTotals = laterStart(&old.state, &state)
			m.logs[key] = old
		default:
			if state.Head > old.state.Head {
				old.foreign = now
			}
			m.logs[key] = recalledLog{state: state, foreign: old.foreign}
		}
	}
	m.catalog = f.Catalog
}

// recallRows returns what is remembered of all rows that are asked for, false when something of it has to be read.
func (m *recollection) recallRows(requests []core.RowRequest, now core.Time) (*recalled, bool) {
	if !recalls {
		return nil, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &recalled{
		history: m.history, catalog: m.catalog, now: now, rows: make(map[core.RowKey]*core.Row, len(requests)),
		known: make(map[core.RowKey]recalledRow, len(requests)), logs: make(logs, len(requests)),
	}
	for i := range requests {
		key := requests[i].Key
		row, known := m.rows[key]
		log, have := m.logs[key.Partition]
		if !known || !have || row.version == 0 || row.refused || !m.trusted(row.foreign) {
			return nil, false
		}
		r.known[key], r.logs[key.Partition] = row, log.state
		loaded := &core.Row{Key: key, Exists: row.exists, Frontier: row.frontier, Log: log.state}
		loaded.Batches, loaded.Rest = core.SelectBatches(row.batches, requests[i], row.frontier, now)
		r.rows[key] = loaded
	}
	return r, true
}

// recallLogs returns what is remembered of all logs that segments go to, false when something of it has to be read.
func (m *recollection) recallLogs(segments []core.NewSegment) (found logs, history string, ok bool) {
	if !recalls {
		return nil, "", false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found = make(logs, len(segments))
	for i := range segments {
		key := segments[i].Partition
		log, known := m.logs[key]
		if !known || log.refused || !m.trusted(log.foreign) {
			return nil, "", false
		}
		found[key] = log.state
	}
	return found, m.history, true
}
