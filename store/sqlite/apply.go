package sqlite

import (
	"database/sql"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/internal/placing"
)

// purging is a partition that a change set purges.
type purging struct {
	part *partition
	log  core.LogState
	rows []int64
}

// planPurge empties a partition: its segments, the state of all groups, its schedule and source ids.
func (u *update) planPurge(t *tx, key core.PartitionKey, logs map[core.PartitionKey]core.LogState) error {
	part := u.s.state.partitions[key]
	if _, twice := logs[key]; part == nil || twice {
		return nil
	}
	if err := u.s.loadIndex(key); err != nil {
		return err
	}
	if err := u.s.loadRows(part); err != nil {
		return err
	}
	p := &purging{part: part, log: part.log, rows: part.index.rows()}
	p.log.Start, p.log.StartTotals = p.log.Head+1, p.log.HeadTotals
	logs[key] = p.log
	u.purged = append(u.purged, p)
	for group, r := range part.rows {
		plan := t.plans[core.RowKey{Partition: key, Group: group}]
		if plan == nil {
			plan = newRowPlan(r)
		}
		plan.purge(u.now, &p.log)
		u.rows = append(u.rows, plan)
	}
	return nil
}

// write runs the statements of the change set.
func (u *update) write(db *database) error {
	for _, p := range u.purged {
		if err := p.write(db); err != nil {
			return err
		}
	}
	for _, key := range u.c.FreeSources {
		err := db.exec("DELETE FROM sources WHERE partition = ? AND source_id = ?", int64(key.Partition), []byte(key.SourceID))
		if err != nil {
			return err
		}
	}
	if err := u.appended.write(db); err != nil {
		return err
	}
	next := u.s.state.nextFrontier
	for _, r := range u.rows {
		err := r.write(db, func() int64 { next++; return next - 1 })
		if err != nil {
			return err
		}
	}
	if err := u.writeSchedule(db); err != nil {
		return err
	}
	if err := u.writeDeadLetters(db); err != nil {
		return err
	}
	for i := range u.c.Records {
		r := u.c.Records[i]
		r.At = u.now
		if err := writeRecord(db, &r); err != nil {
			return err
		}
	}
	return u.writeRegistrations(db)
}

func (p *purging) write(db *database) error {
	if err := deleteSegmentRows(db, p.rows); err != nil {
		return err
	}
	key := int64(p.part.Key)
	for _, query := range []string{
		"DELETE FROM sources WHERE partition = ?", "DELETE FROM schedule WHERE partition = ?",
		"DELETE FROM segment_blocks WHERE partition = ?",
	} {
		if err := db.exec(query, key); err != nil {
			return err
		}
	}
	return writeLogRow(db, p.part.Key, &p.log, p.log.Head, 0, 0, nil)
}

func deleteSegmentRows(db *database, rows []int64) error {
	for _, id := range rows {
		if err := db.exec("DELETE FROM segments WHERE id = ?", id); err != nil {
			return err
		}
	}
	return nil
}

// taken is what a delayed segment leaves behind that is no longer scheduled.
type taken struct {
	key    core.PartitionKey
	totals core.Totals
}

func (u *update) writeSchedule(db *database) error {
	u.unscheduled = u.unscheduled[:0]
	for _, seq := range u.c.Unschedule {
		var gone taken
		err := db.returning("DELETE FROM schedule WHERE seq = ? RETURNING partition, messages, bytes, created", func(r *sql.Rows) error {
			return r.Scan(&gone.key, &gone.totals.Messages, &gone.totals.Bytes, &gone.totals.Created)
		}, seq)
		if err != nil {
			return err
		}
		u.unscheduled = append(u.unscheduled, gone)
	}
	if len(u.c.Schedule) == 0 {
		return nil
	}
	seq := u.lastSeq
	for i := range u.c.Schedule {
		e := &u.c.Schedule[i]
		n, t := &e.Segment, &e.Segment.Totals
		seq++
		err := db.exec(`INSERT INTO schedule (seq, due, partition, count, messages, bytes, created, expires, sources, header, body)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, seq, int64(e.Due), int64(n.Partition), int64(n.Count),
			t.Messages, t.Bytes, t.Created, int64(n.Expires), placing.EncodeSources(n.Sources), n.Header, n.Body)
		if err != nil {
			return err
		}
	}
	return db.exec("UPDATE meta SET value = ? WHERE name = 'schedule_seq'", seq)
}

func (u *update) writeDeadLetters(db *database) error {
	for _, id := range u.c.DropDeadLetters {
		if err := db.exec("DELETE FROM dead_letters WHERE id = ?", id[:]); err != nil {
			return err
		}
	}
	for i := range u.c.DeadLetters {
		d := &u.c.DeadLetters[i]
		m := d.Message
		var n core.NewSegment
		n.Add(&m)
		err := db.exec(`INSERT OR REPLACE INTO dead_letters (id, queue, partition, grp, error, retries, failed_at, transaction_id,
			offset, appended_at, header, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			d.ID[:], d.Queue[:], int64(d.Partition), []byte(d.Group), []byte(d.Error), int64(d.Retries), int64(d.FailedAt),
			[]byte(m.Transaction()), m.Offset, int64(m.AppendedAt), n.Header, n.Body)
		if err != nil {
			return err
		}
	}
	return nil
}

func (u *update) writeRegistrations(db *database) error {
	for _, key := range u.c.Unregister {
		if err := db.exec("DELETE FROM registrations WHERE queue = ? AND grp = ?", key.Queue[:], []byte(key.Group)); err != nil {
			return err
		}
	}
	for i := range u.c.Register {
		r := &u.c.Register[i]
		err := db.exec(`INSERT INTO registrations (queue, grp, start, created_at, mode) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			r.Queue[:], []byte(r.Group), int64(r.Start), int64(r.CreatedAt), []byte(r.Mode))
		if err != nil {
			return err
		}
	}
	return nil
}

// apply tells memory what was written.
func (u *update) apply(st *state) {
	for _, p := range u.purged {
		st.cache.remove(p.rows)
		p.part.index = index{loaded: true, written: p.log.Head}
		st.expiries.set(p.part, 0)
		delete(st.scheduled.totals, p.part.Key)
	}
	for _, gone := range u.unscheduled {
		st.scheduled.add(st.partitions[gone.key], core.Totals{}.Minus(gone.totals))
	}
	for i := range u.c.Schedule {
		seg := &u.c.Schedule[i].Segment
		st.scheduled.add(st.partitions[seg.Partition], seg.Totals)
	}
	u.appended.apply(st)
	for _, r := range u.rows {
		part, group := st.partitions[r.row.key.Partition], r.row.key.Group
		live := part.stub(group)
		gone := r.empty()
		r.apply(live)
		st.nextFrontier = max(st.nextFrontier, live.id+1)
		st.resolve.set(live, live.batches.nextResolve())
		if gone {
			delete(part.rows, group)
		}
	}
	st.lastSeq += int64(len(u.c.Schedule))
}
