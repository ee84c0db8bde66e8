package sqlite

import (
	"database/sql"

	"github.com/leasehold/leasehold/core"
)

// row is the delivery state of one (partition, group).
type row struct {
	key core.RowKey
	// id is the row of frontiers, 0 where there is none yet.
	id       int64
	exists   bool
	frontier core.Frontier
	batches  batchSet
	resolve  heapEntry
}

func (r *row) entry() *heapEntry { return &r.resolve }

func (p *partition) entry() *heapEntry { return &p.expiry }

// stub returns the row of a group, made empty when it is not in memory.
func (p *partition) stub(group string) *row {
	r := p.rows[group]
	if r == nil {
		r = &row{key: core.RowKey{Partition: p.Key, Group: group}}
		if p.rows == nil {
			p.rows = map[string]*row{}
		}
		p.rows[group] = r
	}
	return r
}

const selectFrontiers = `SELECT id, grp, moved, offset, retries, last_turn, next_batch, before_messages, before_bytes,
	before_created, moved_at FROM frontiers WHERE partition = ?`

const selectBatches = `SELECT frontier, id, first, last, pending, state, attempts, turn, turn_at, redraw, lease, exclusive,
	protocol, until, held_messages, held_bytes, held_created, covered_messages, covered_bytes, covered_created
	FROM batches`

// loadRows reads the delivery state of a partition on first touch. The caller holds s.writing.
func (s *Store) loadRows(p *partition) error {
	if p.rowsLoaded {
		return nil
	}
	byID := map[int64]*row{}
	err := s.db.query(selectFrontiers, func(r *sql.Rows) error {
		var l row
		err := scanFrontier(r, &l)
		byID[l.id] = &l
		return err
	}, int64(p.Key))
	if err != nil {
		return err
	}
	err = s.db.query(selectBatches+" WHERE frontier IN (SELECT id FROM frontiers WHERE partition = ?)", func(r *sql.Rows) error {
		id, b, err := scanBatch(r)
		if l := byID[id]; l != nil {
			l.batches.put(&b)
		}
		return err
	}, int64(p.Key))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range byID {
		r := p.stub(l.key.Group)
		r.id, r.exists, r.frontier, r.batches = l.id, l.exists, l.frontier, l.batches
		s.state.resolve.set(r, r.batches.nextResolve())
	}
	p.rowsLoaded = true
	return nil
}

// scanFrontier reads a row of frontiers after columns before it; the key's partition is left to the caller.
func scanFrontier(r *sql.Rows, l *row, before ...any) error {
	var group sql.RawBytes
	var turn int64
	f := &l.frontier
	err := r.Scan(append(before, &l.id, &group, &l.exists, &f.Offset, &f.Retries, &turn, &f.NextBatch, &f.Before.Messages,
		&f.Before.Bytes, &f.Before.Created, &f.MovedAt)...)
	l.key.Group = string(group)
	f.LastTurn = core.Turn(turn) //nolint:gosec // all 64 bits, as they were written
	return err
}

func scanBatch(r *sql.Rows) (frontier int64, b core.Batch, err error) {
	var pending sql.RawBytes
	var turn int64
	h, c := &b.Held, &b.Covered
	err = r.Scan(&frontier, &b.ID, &b.First, &b.Last, &pending, &b.State, &b.Attempts, &turn, &b.TurnAt, &b.Redraw,
		(*blobID)(&b.Lease), &b.Exclusive, &b.Protocol, &b.Until, &h.Messages, &h.Bytes, &h.Created, &c.Messages, &c.Bytes, &c.Created)
	if err != nil {
		return 0, b, err
	}
	b.Turn = core.Turn(turn) //nolint:gosec // all 64 bits, as they were written
	b.Pending, err = core.DecodeRuns(pending, b.First)
	return frontier, b, err
}
