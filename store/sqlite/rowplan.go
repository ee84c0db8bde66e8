package sqlite

import (
	"slices"

	"github.com/leasehold/leasehold/core"
)

// rowPlan is a row as it will be after a commit.
type rowPlan struct {
	row  *row // as it is in memory
	next row
	// moved tells that the frontier is written.
	moved bool
	// touched are the ids of batches that may differ.
	touched map[int64]struct{}
}

func newRowPlan(r *row) *rowPlan {
	return &rowPlan{row: r, next: row{key: r.key, id: r.id, exists: r.exists, frontier: r.frontier, batches: r.batches}}
}

// change takes one change of the row in.
func (r *rowPlan) change(c *core.RowChange) {
	if r.touched == nil {
		r.touched = make(map[int64]struct{}, len(c.Delete)+len(c.Put))
	}
	if c.Drop || c.DeleteAll {
		for i := range r.next.batches {
			r.touched[r.next.batches[i].ID] = struct{}{}
		}
		r.next.batches = nil
	}
	if c.Drop {
		r.next.exists, r.next.frontier = false, core.Frontier{}
		return
	}
	if c.Move {
		r.next.exists, r.next.frontier = true, c.Frontier
		r.moved = true
	}
	if len(c.Delete)+len(c.Put) == 0 {
		return
	}
	gone := make(map[int64]struct{}, len(c.Delete)+len(c.Put))
	for _, id := range c.Delete {
		gone[id] = struct{}{}
	}
	for i := range c.Put {
		gone[c.Put[i].ID] = struct{}{}
	}
	for id := range gone {
		r.touched[id] = struct{}{}
	}
	r.next.batches = merge(r.next.batches, gone, c.Put)
}

// merge returns the old batches without those that are gone, and the new ones in their places.
func merge(old []core.Batch, gone map[int64]struct{}, put []core.Batch) []core.Batch {
	put = slices.Clone(put)
	sortBatches(put)
	out := make([]core.Batch, 0, len(old)+len(put))
	for i := range old {
		if _, out := gone[old[i].ID]; out {
			continue
		}
		for len(put) > 0 && compareBatches(put[0], old[i]) < 0 {
			out = append(out, put[0])
			put = put[1:]
		}
		out = append(out, old[i])
	}
	return append(out, put...)
}

// purge leaves nothing pending and puts the frontier to the head.
func (r *rowPlan) purge(now core.Time, log *core.LogState) {
	exists, f := r.next.exists, r.next.frontier
	r.change(&core.RowChange{DeleteAll: true})
	if exists {
		f.Offset, f.Before, f.MovedAt = log.Head, log.HeadTotals, now
		r.change(&core.RowChange{Move: true, Frontier: f})
	}
}

// exclusives counts the exclusive leases that the row would have.
func (r *rowPlan) exclusives() int {
	n := 0
	for i := range r.next.batches {
		if b := &r.next.batches[i]; b.State == core.BatchLeased && b.Exclusive {
			n++
		}
	}
	return n
}

// empty reports whether nothing is left to be stored.
func (r *rowPlan) empty() bool { return !r.next.exists && len(r.next.batches) == 0 }

// pick returns those batches of a list that may differ, by id.
func (r *rowPlan) pick(list []core.Batch) map[int64]*core.Batch {
	if len(r.touched) == 0 || len(list) == 0 {
		return nil
	}
	out := make(map[int64]*core.Batch, len(r.touched))
	for i := range list {
		if _, ok := r.touched[list[i].ID]; ok {
			out[list[i].ID] = &list[i]
		}
	}
	return out
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

// write brings the file to what the plan says. A row that has no id yet gets newID.
func (r *rowPlan) write(db *database, newID func() int64) error {
	if r.row.id == 0 && r.empty() {
		return nil
	}
	before, after := r.pick(r.row.batches), r.pick(r.next.batches)
	for id := range before {
		if after[id] == nil {
			if err := db.exec("DELETE FROM batches WHERE frontier = ? AND id = ?", r.row.id, id); err != nil {
				return err
			}
		}
	}
	if err := r.writeFrontier(db, newID); err != nil || len(after) == 0 {
		return err
	}
	return r.writePuts(db, before, after)
}

func (r *rowPlan) writeFrontier(db *database, newID func() int64) error {
	switch {
	case r.empty():
		r.next.id = 0
		return db.exec("DELETE FROM frontiers WHERE id = ?", r.row.id)
	case r.row.id == 0:
		r.next.id = newID()
		return db.exec(insertFrontier, r.frontierArgs(r.next.id, int64(r.next.key.Partition), []byte(r.next.key.Group))...)
	case r.moved || r.next.exists != r.row.exists:
		return db.exec(updateFrontier, append(r.frontierArgs(), r.next.id)...)
	default:
		return nil
	}
}

// writePuts writes updates before inserts, and of the updates those first that end an exclusive lease.
func (r *rowPlan) writePuts(db *database, before, after map[int64]*core.Batch) error {
	var ends, updates, inserts []*core.Batch
	for id, b := range after {
		switch old := before[id]; {
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
	f := &r.next.frontier
	return append(before,
		r.next.exists, f.Offset, int64(f.Retries), int64(f.LastTurn), f.NextBatch, //nolint:gosec // all 64 bits, read back alike
		f.Before.Messages, f.Before.Bytes, f.Before.Created, int64(f.MovedAt),
	)
}

func (r *rowPlan) batchArgs(b *core.Batch) []any {
	h, c := &b.Held, &b.Covered
	return []any{
		b.First, b.Last, b.Pending.AppendBinary([]byte{}, b.First), int64(b.State), int64(b.Attempts),
		int64(b.Turn), int64(b.TurnAt), b.Redraw, b.Lease[:], b.Exclusive, int64(b.Protocol), int64(b.Until), //nolint:gosec // all 64 bits, read back alike
		h.Messages, h.Bytes, h.Created, c.Messages, c.Bytes, c.Created, r.next.id, b.ID,
	}
}
