package sqlite

import (
	"slices"

	"github.com/leasehold/leasehold/core"
)

// rowPlan is what a commit does to a row. Memory learns of it after the commit.
type rowPlan struct {
	row *row
	// id is the row of frontiers that it has or gets.
	id       int64
	exists   bool
	frontier core.Frontier
	// moved tells that the frontier is written, cleared that all batches go that the file has.
	moved, cleared bool
	// final is what single batches become; nil is deleted.
	final map[int64]*core.Batch
}

func newRowPlan(r *row) *rowPlan {
	return &rowPlan{row: r, id: r.id, exists: r.exists, frontier: r.frontier}
}

// change takes one change of the row in.
func (r *rowPlan) change(c *core.RowChange) {
	if c.Drop || c.DeleteAll {
		r.cleared, r.final = true, nil
	}
	if c.Drop {
		r.exists, r.frontier = false, core.Frontier{}
		return
	}
	if c.Move {
		r.exists, r.frontier, r.moved = true, c.Frontier, true
	}
	if r.final == nil {
		r.final = make(map[int64]*core.Batch, len(c.Delete)+len(c.Put))
	}
	for _, id := range c.Delete {
		r.final[id] = nil
	}
	for i := range c.Put {
		b := c.Put[i]
		r.final[b.ID] = &b
	}
}

// purge leaves nothing pending and puts the frontier to the head.
func (r *rowPlan) purge(now core.Time, log *core.LogState) {
	c := core.RowChange{DeleteAll: true, Move: r.exists, Frontier: r.frontier}
	c.Frontier.Offset, c.Frontier.Before, c.Frontier.MovedAt = log.Head, log.HeadTotals, now
	r.change(&c)
}

// before returns a batch as the file has it when single batches are written, nil when it does not have it.
func (r *rowPlan) before(id int64) *core.Batch {
	if r.cleared {
		return nil
	}
	return r.row.batches.get(id)
}

// twoExclusives reports whether the row would have more than one exclusive lease.
func (r *rowPlan) twoExclusives() bool {
	n := 0
	if held := r.row.batches.exclusive; held != nil && !r.cleared {
		if _, changed := r.final[held.ID]; !changed {
			n++
		}
	}
	for _, b := range r.final {
		if b != nil && b.State == core.BatchLeased && b.Exclusive {
			n++
		}
	}
	return n > 1
}

// empty reports whether nothing is left to be stored.
func (r *rowPlan) empty() bool {
	if r.exists {
		return false
	}
	left := 0
	if !r.cleared {
		left = r.row.batches.len()
	}
	for id, b := range r.final {
		if r.before(id) != nil {
			left--
		}
		if b != nil {
			left++
		}
	}
	return left == 0
}

// apply brings a row in memory to what was written.
func (r *rowPlan) apply(live *row) {
	live.id, live.exists, live.frontier = r.id, r.exists, r.frontier
	if r.cleared {
		live.batches = batchSet{}
	}
	for id, b := range r.final {
		if b == nil {
			live.batches.remove(id)
		} else {
			live.batches.put(b)
		}
	}
}

const insertFrontier = `INSERT INTO frontiers (id, partition, grp, moved, offset, retries, last_turn, next_batch,
	before_messages, before_bytes, before_created, moved_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

const updateFrontier = `UPDATE frontiers SET moved = ?, offset = ?, retries = ?, last_turn = ?, next_batch = ?,
	before_messages = ?, before_bytes = ?, before_created = ?, moved_at = ? WHERE id = ?`

const insertBatch = `INSERT INTO batches (first, last, pending, state, attempts, turn, turn_at, redraw, lease, exclusive,
	protocol, until, held_messages, held_bytes, held_created, covered_messages, covered_bytes, covered_created, frontier, id)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

const updateBatch = `UPDATE batches SET first = ?, last = ?, pending = ?, state = ?, attempts = ?, turn = ?, turn_at = ?,
	redraw = ?, lease = ?, exclusive = ?, protocol = ?, until = ?, held_messages = ?, held_bytes = ?, held_created = ?,
	covered_messages = ?, covered_bytes = ?, covered_created = ? WHERE frontier = ? AND id = ?`

// write brings the file to what the plan says: deletes before updates before inserts. A row without an id gets newID.
func (r *rowPlan) write(db *database, newID func() int64) error {
	if r.id == 0 && r.empty() {
		return nil
	}
	if r.cleared && r.row.batches.len() > 0 {
		if err := db.exec("DELETE FROM batches WHERE frontier = ?", r.id); err != nil {
			return err
		}
	}
	for id, b := range r.final {
		if b == nil && r.before(id) != nil {
			if err := db.exec("DELETE FROM batches WHERE frontier = ? AND id = ?", r.id, id); err != nil {
				return err
			}
		}
	}
	if err := r.writeFrontier(db, newID); err != nil {
		return err
	}
	return r.writePuts(db)
}

func (r *rowPlan) writeFrontier(db *database, newID func() int64) error {
	switch {
	case r.empty():
		old := r.id
		r.id = 0
		return db.exec("DELETE FROM frontiers WHERE id = ?", old)
	case r.id == 0:
		r.id = newID()
		return db.exec(insertFrontier, r.frontierArgs(r.id, int64(r.row.key.Partition), []byte(r.row.key.Group))...)
	case r.moved || r.exists != r.row.exists:
		return db.exec(updateFrontier, append(r.frontierArgs(), r.id)...)
	default:
		return nil
	}
}

// writePuts writes updates before inserts, and of the updates those first that end an exclusive lease.
func (r *rowPlan) writePuts(db *database) error {
	var ends, updates, inserts []*core.Batch
	for id, b := range r.final {
		if b == nil {
			continue
		}
		switch old := r.before(id); {
		case old == nil:
			inserts = append(inserts, b)
		case old.Exclusive && !b.Exclusive || old.State != b.State:
			ends = append(ends, b)
		default:
			updates = append(updates, b)
		}
	}
	slices.SortFunc(ends, func(a, b *core.Batch) int { return int(b.State) - int(a.State) })
	for _, b := range append(ends, updates...) {
		if err := db.exec(updateBatch, r.batchArgs(b)...); err != nil {
			return err
		}
	}
	for _, b := range inserts {
		if err := db.exec(insertBatch, r.batchArgs(b)...); err != nil {
			return err
		}
	}
	return nil
}

func (r *rowPlan) frontierArgs(before ...any) []any {
	f := &r.frontier
	return append(before,
		r.exists, f.Offset, int64(f.Retries), int64(f.LastTurn), f.NextBatch, //nolint:gosec // all 64 bits, read back alike
		f.Before.Messages, f.Before.Bytes, f.Before.Created, int64(f.MovedAt),
	)
}

func (r *rowPlan) batchArgs(b *core.Batch) []any {
	h, c := &b.Held, &b.Covered
	return []any{
		b.First, b.Last, b.Pending.AppendBinary([]byte{}, b.First), int64(b.State), int64(b.Attempts),
		int64(b.Turn), int64(b.TurnAt), b.Redraw, b.Lease[:], b.Exclusive, int64(b.Protocol), int64(b.Until), //nolint:gosec // all 64 bits, read back alike
		h.Messages, h.Bytes, h.Created, c.Messages, c.Bytes, c.Created, r.id, b.ID,
	}
}
