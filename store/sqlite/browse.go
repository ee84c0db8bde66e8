package sqlite

import (
	"context"
	"database/sql"
	"strings"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/internal/placing"
)

// Rows implements core.Browser. What is not in memory is read from the file, so that looking at a queue does not load it.
func (s *Store) Rows(ctx context.Context, p core.RowsParams) ([]core.RowSummary, error) {
	const op = "rows"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	s.mu.RLock()
	db, st, err := s.view(op)
	if err != nil {
		s.mu.RUnlock()
		return nil, err
	}
	held, all := st.heldRows(p.Queue, p.Group)
	s.mu.RUnlock()
	if all {
		out := make([]core.RowSummary, len(held))
		for i := range held {
			out[i] = held[i].summary(p.Now)
		}
		return out, nil
	}
	where, args := " WHERE p.queue = ?", []any{p.Queue[:]}
	if p.Group != "" {
		where, args = where+" AND f.grp = ?", append(args, []byte(p.Group))
	}
	list, err := db.rowsWhere(where, args)
	out := make([]core.RowSummary, len(list))
	for i, l := range list {
		out[i] = core.Summarize(l.key, l.frontier, l.list, p.Now)
	}
	return out, classify(op, err)
}

// storedRow is a row as a management call reads it.
type storedRow struct {
	row
	list []core.Batch
}

// rowsWhere reads rows with their batches in one snapshot, by partition and group.
func (d *database) rowsWhere(where string, args []any) (out []*storedRow, err error) {
	d.inUse.RLock()
	defer d.inUse.RUnlock()
	ctx := context.Background()
	tx, err := d.readers.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // it only read
	byID := map[int64]*storedRow{}
	const join = " FROM frontiers f JOIN partitions p ON p.key = f.partition"
	//nolint:gosec // where is one of two constants
	query := `SELECT f.partition, f.id, f.grp, f.moved, f.offset, f.retries, f.last_turn, f.next_batch,
		f.before_messages, f.before_bytes, f.before_created, f.moved_at` + join + where + " ORDER BY f.partition, f.grp"
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	err = each(rows, func(r *sql.Rows) error {
		l := &storedRow{}
		var key core.PartitionKey
		err := scanFrontier(r, &l.row, &key)
		l.key.Partition = key
		byID[l.id] = l
		out = append(out, l)
		return err
	})
	if err != nil {
		return nil, err
	}
	rows, err = tx.QueryContext(ctx, selectBatches+" WHERE frontier IN (SELECT f.id"+join+where+") ORDER BY first, id", args...)
	if err != nil {
		return nil, err
	}
	err = each(rows, func(r *sql.Rows) error {
		id, b, err := scanBatch(r)
		if l := byID[id]; l != nil {
			l.list = append(l.list, b)
		}
		return err
	})
	return out, err
}

// Batches implements core.Browser.
func (s *Store) Batches(ctx context.Context, key core.RowKey) ([]core.Batch, core.Frontier, error) {
	const op = "batches"
	if err := s.enter(ctx, op); err != nil {
		return nil, core.Frontier{}, err
	}
	defer s.life.RUnlock()
	db, err := s.reading(op)
	if err != nil {
		return nil, core.Frontier{}, err
	}
	list, err := db.rowsWhere(" WHERE f.partition = ? AND f.grp = ?", []any{int64(key.Partition), []byte(key.Group)})
	if err != nil || len(list) == 0 {
		return nil, core.Frontier{}, classify(op, err)
	}
	return list[0].list, list[0].frontier, nil
}

const selectSchedule = "SELECT seq, due, partition, count, messages, bytes, created, expires, sources, header, body FROM schedule"

func (d *database) scheduled(where string, args ...any) ([]core.ScheduledSegment, error) {
	var out []core.ScheduledSegment
	err := d.query(selectSchedule+where, func(r *sql.Rows) error {
		e := core.ScheduledSegment{Segment: core.NewSegment{Know: -1}}
		var sources sql.RawBytes
		n, t := &e.Segment, &e.Segment.Totals
		err := r.Scan(&e.Seq, &e.Due, &n.Partition, &n.Count, &t.Messages, &t.Bytes, &t.Created, &n.Expires, &sources, &n.Header, &n.Body)
		if err != nil {
			return err
		}
		n.Sources, err = placing.DecodeSources(sources)
		out = append(out, e)
		return err
	}, args...)
	return out, err
}

// limited turns a limit of which 0 is none into what SQL understands.
func limited(n int) int64 {
	if n <= 0 {
		return -1
	}
	return int64(n)
}

// Scheduled implements core.Browser.
func (s *Store) Scheduled(ctx context.Context, p core.ScheduledParams) ([]core.ScheduledSegment, error) {
	const op = "scheduled"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	db, err := s.reading(op)
	if err != nil {
		return nil, err
	}
	out, err := db.scheduled(" WHERE partition = ? AND seq > ? ORDER BY seq LIMIT ?", int64(p.Partition), p.After, limited(p.Limit))
	return out, classify(op, err)
}

// Due implements core.Sweeping.
func (s *Store) Due(ctx context.Context, now core.Time, limit int) ([]core.ScheduledSegment, error) {
	const op = "due"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	db, err := s.reading(op)
	if err != nil {
		return nil, err
	}
	out, err := db.scheduled(" WHERE due <= ? ORDER BY due, seq LIMIT ?", int64(now), limited(limit))
	return out, classify(op, err)
}

// ScheduledTotals implements core.Browser. A queue is counted once, and then kept count of.
func (s *Store) ScheduledTotals(ctx context.Context, id uuid.UUID) (map[core.PartitionKey]core.Totals, error) {
	const op = "scheduled totals"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	s.mu.RLock()
	_, st, err := s.view(op)
	if err != nil {
		s.mu.RUnlock()
		return nil, err
	}
	out, known := st.scheduled.of(st.queues[id])
	s.mu.RUnlock()
	if known {
		return out, nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.broken != nil {
		return nil, s.again(op)
	}
	if out, err = s.db.scheduledTotals(id); err != nil {
		return nil, classify(op, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.queues[id] != nil {
		s.state.scheduled.learn(id, out)
	}
	return out, nil
}

// scheduledTotals sums up what is scheduled of a queue.
func (d *database) scheduledTotals(id uuid.UUID) (map[core.PartitionKey]core.Totals, error) {
	out := map[core.PartitionKey]core.Totals{}
	err := d.query(`SELECT s.partition, sum(s.messages), sum(s.bytes), sum(s.created) FROM schedule s
		JOIN partitions p ON p.key = s.partition WHERE p.queue = ? GROUP BY s.partition`, func(r *sql.Rows) error {
		var key core.PartitionKey
		var t core.Totals
		err := r.Scan(&key, &t.Messages, &t.Bytes, &t.Created)
		out[key] = t
		return err
	}, id[:])
	return out, err
}

const selectDeadLetters = "SELECT id, queue, partition, grp, error, retries, failed_at, offset, appended_at, header, body FROM dead_letters"

func scanDeadLetter(r *sql.Rows) (core.DeadLetter, error) {
	var d core.DeadLetter
	var group, text, header sql.RawBytes
	var body []byte
	h := core.SegmentHeader{}
	err := r.Scan((*blobID)(&d.ID), (*blobID)(&d.Queue), &d.Partition, &group, &text, &d.Retries, &d.FailedAt,
		&h.First, &h.AppendedAt, &header, &body)
	if err != nil {
		return d, err
	}
	d.Group, d.Error = string(group), string(text)
	if h.Messages, err = core.DecodeHeaders(header, 1); err != nil {
		return d, err
	}
	ms, err := core.DecodeMessages(&h, 0, 0, body)
	if err != nil {
		return d, err
	}
	d.Message = ms[0]
	return d, nil
}

// DeadLetters implements core.Browser.
func (s *Store) DeadLetters(ctx context.Context, f core.DeadLetterFilter) ([]core.DeadLetter, int64, error) {
	const op = "dead letters"
	if err := s.enter(ctx, op); err != nil {
		return nil, 0, err
	}
	defer s.life.RUnlock()
	db, err := s.reading(op)
	if err != nil {
		return nil, 0, err
	}
	where, args := deadLetterConditions(&f)
	var total int64
	err = db.query("SELECT count(*) FROM dead_letters"+where, func(r *sql.Rows) error { return r.Scan(&total) }, args...)
	if err != nil {
		return nil, 0, classify(op, err)
	}
	var out []core.DeadLetter
	args = append(args, limited(f.Limit), int64(max(f.Offset, 0)))
	err = db.query(selectDeadLetters+where+" ORDER BY failed_at DESC, id LIMIT ? OFFSET ?", func(r *sql.Rows) error {
		d, err := scanDeadLetter(r)
		out = append(out, d)
		return err
	}, args...)
	return out, total, classify(op, err)
}

func deadLetterConditions(f *core.DeadLetterFilter) (where string, args []any) {
	var list []string
	add := func(wanted bool, condition string, arg any) {
		if wanted {
			list, args = append(list, condition), append(args, arg)
		}
	}
	add(f.Queue != uuid.Nil, "queue = ?", f.Queue[:])
	add(f.Partition != 0, "partition = ?", int64(f.Partition))
	add(f.Group != "", "grp = ?", []byte(f.Group))
	add(f.TransactionID != "", "transaction_id = ?", []byte(f.TransactionID))
	add(f.From != 0, "failed_at >= ?", int64(f.From))
	add(f.To != 0, "failed_at <= ?", int64(f.To))
	if len(list) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(list, " AND "), args
}
