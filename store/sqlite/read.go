package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/core"
)

// smallBody is the size in bytes up to which a body is read together with its header.
const smallBody = "16384"

// readStatements are the prepared reads of segments. Those by many row ids exist in three widths.
type readStatements struct {
	segments, headers, refs [len(widths)]*sql.Stmt
	part, whole             *sql.Stmt
}

var widths = [...]int{1, 8, 64}

// The columns that reads of segments return.
const (
	headerColumns  = "id, partition, first, count, appended_at, before_messages, before_bytes, before_created, header"
	segmentColumns = headerColumns + ", CASE WHEN length(body) <= " + smallBody + " THEN body END"
	refColumns     = "id, partition, first, count, appended_at, expires"
)

func (r *readStatements) prepare(ctx context.Context, db *sql.DB) (err error) {
	for i, n := range widths {
		if r.segments[i], err = byID(ctx, db, segmentColumns, n); err != nil { //nolint:sqlclosecheck // close does
			return err
		}
		if r.headers[i], err = byID(ctx, db, headerColumns+", NULL", n); err != nil { //nolint:sqlclosecheck // close does
			return err
		}
		if r.refs[i], err = byID(ctx, db, refColumns, n); err != nil { //nolint:sqlclosecheck // close does
			return err
		}
	}
	if r.part, err = db.PrepareContext(ctx, "SELECT substr(body, ?, ?) FROM segments WHERE id = ?"); err != nil {
		return err
	}
	r.whole, err = db.PrepareContext(ctx, "SELECT body FROM segments WHERE id = ?")
	return err
}

// byID prepares a read of columns by n row ids.
func byID(ctx context.Context, db *sql.DB, columns string, n int) (*sql.Stmt, error) {
	query := "SELECT " + columns + " FROM segments WHERE id IN (?" + strings.Repeat(",?", n-1) + ") ORDER BY id"
	return db.PrepareContext(ctx, query)
}

func (r *readStatements) close() {
	for _, s := range slices.Concat(r.segments[:], r.headers[:], r.refs[:], []*sql.Stmt{r.part, r.whole}) {
		if s != nil {
			_ = s.Close() // the connections go right after
		}
	}
}

// rowsIn runs a read by row ids, in as few statements as the widths allow.
func (d *database) rowsIn(statements *[len(widths)]*sql.Stmt, ids []int64, scan func(*sql.Rows) error) error {
	d.inUse.RLock()
	defer d.inUse.RUnlock()
	for len(ids) > 0 {
		w := 0
		for w < len(widths)-1 && len(ids) > widths[w] {
			w++
		}
		args := make([]any, widths[w])
		for i := range args {
			args[i] = ids[min(i, len(ids)-1)] // the last one again and again fills the width
		}
		rows, err := statements[w].QueryContext(context.Background(), args...)
		if err != nil {
			return err
		}
		if err := each(rows, scan); err != nil {
			return err
		}
		ids = ids[min(widths[w], len(ids)):]
	}
	return nil
}

// segmentsAt returns the segments at the given places, from the cache or the file. Those deleted meanwhile are missing.
func segmentsAt(db *database, c *cache, key core.PartitionKey, places []place) ([]*cached, error) {
	out := make([]*cached, 0, len(places))
	var missing []int64
	for _, p := range places {
		if e := c.get(p.row); e != nil {
			out = append(out, e)
		} else {
			out = append(out, nil)
			missing = append(missing, p.row)
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	found := make(map[int64]*cached, len(missing))
	statements, scan := &db.reads.segments, len(missing) > widths[len(widths)-1]
	if scan { // somebody looks at a whole log: that is no reason to read its bodies, or to keep it
		statements = &db.reads.headers
	}
	err := db.rowsIn(statements, missing, func(r *sql.Rows) error {
		e := &cached{}
		b := &e.bare
		err := r.Scan(&e.row, &b.Partition, &b.First, &e.count, &b.AppendedAt, &b.Before.Messages, &b.Before.Bytes,
			&b.Before.Created, &e.header, &e.body)
		if b.Partition == key {
			found[e.row] = e
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	kept := out[:0]
	for i, p := range places {
		e := out[i]
		if e == nil {
			e = found[p.row]
		}
		if e != nil {
			kept = append(kept, e)
		}
	}
	if !scan {
		for _, e := range found {
			c.put(e)
		}
	}
	return kept, nil
}

// wholeBody is the size in bytes up to which a body is kept whole once a message of it is wanted: SQLite reads all of a value
// to return a part of it, and who comes next most often wants the next part. A segment is larger only with one large message.
const wholeBody = 1 << 20

// bodyOf returns the records from index i to index j of a segment, or false when it was deleted meanwhile.
func (d *database) bodyOf(c *cache, e *cached, h *core.SegmentHeader, i, j int) ([]byte, bool, error) {
	from, to := core.BodyRange(h.Messages, i, j)
	body := e.bodyBytes()
	if body == nil {
		if _, all := core.BodyRange(h.Messages, 0, len(h.Messages)-1); all > wholeBody {
			return d.part(d.reads.part, from+1, to-from, e.row)
		}
		var ok bool
		var err error
		if body, ok, err = d.readLate(c, e); !ok || err != nil {
			return nil, ok, err
		}
	}
	if to > int64(len(body)) {
		return nil, false, core.Errorf(core.CodeFormat, "read", "the body at row %d is cut short", e.row)
	}
	return body[from:to:to], true, nil
}

// readLate reads a body into a segment that is in memory without it. Those who want it at the same time share one read.
func (d *database) readLate(c *cache, e *cached) ([]byte, bool, error) {
	e.reading.Lock()
	defer e.reading.Unlock()
	if body := e.bodyBytes(); body != nil {
		return body, true, nil
	}
	body, ok, err := d.part(d.reads.whole, e.row)
	if ok && err == nil {
		e.late.Store(&body)
		c.put(e)
	}
	return body, ok, err
}

// part runs a read of one value, or reports false where the row is gone.
func (d *database) part(s *sql.Stmt, args ...any) (body []byte, ok bool, err error) {
	d.inUse.RLock()
	defer d.inUse.RUnlock()
	err = s.QueryRowContext(context.Background(), args...).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	return body, err == nil, err
}

// Headers implements core.Log.
func (s *Store) Headers(ctx context.Context, p core.HeadersParams) ([]core.SegmentHeader, error) {
	const op = "headers"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	db, c, places, err := s.find(op, p, false)
	if err != nil {
		return nil, err
	}
	out, err := headersAt(db, c, p.Partition, places)
	return out, classify(op, err)
}

func headersAt(db *database, c *cache, key core.PartitionKey, places []place) ([]core.SegmentHeader, error) {
	if len(places) == 0 {
		return nil, nil
	}
	list, err := segmentsAt(db, c, key, places)
	if err != nil {
		return nil, err
	}
	out := make([]core.SegmentHeader, len(list))
	for i, e := range list {
		h, err := e.segment()
		if err != nil {
			return nil, err
		}
		out[i] = *h
	}
	return out, nil
}

// find looks up where segments lie and what to read them with. writing tells that the caller holds s.writing.
func (s *Store) find(op string, p core.HeadersParams, writing bool) (*database, *cache, []place, error) {
	s.mu.RLock()
	db, st, err := s.view(op)
	if err != nil {
		s.mu.RUnlock()
		return nil, nil, nil, err
	}
	part := st.partitions[p.Partition]
	if part == nil || p.To < p.From || part.covers(p.From) {
		var places []place
		if part != nil && p.From <= p.To {
			places = part.find(p.From, p.To, p.Limit)
		}
		s.mu.RUnlock()
		return db, st.cache, places, nil
	}
	s.mu.RUnlock()
	if !writing {
		s.writing.Lock()
		defer s.writing.Unlock()
	}
	if err := s.loadIndex(p.Partition); err != nil {
		return nil, nil, nil, classify(op, err)
	}
	return s.find(op, p, true)
}

// Read implements core.Log.
func (s *Store) Read(ctx context.Context, p core.ReadParams) ([]core.Message, error) {
	const op = "read"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	return s.read(op, p, false)
}

func (s *Store) read(op string, p core.ReadParams, writing bool) ([]core.Message, error) {
	r := reader{limit: p.Bytes}
	for _, run := range p.Offsets {
		for from := run.First; from <= run.Last; {
			// A run may span far more than the budget holds, so it is looked up piece by piece.
			q := core.HeadersParams{Partition: p.Partition, From: from, To: run.Last, Limit: 64}
			db, c, places, err := s.find(op, q, writing)
			if err != nil {
				return nil, err
			}
			if len(places) == 0 {
				break
			}
			list, err := segmentsAt(db, c, p.Partition, places)
			if err != nil {
				return nil, classify(op, err)
			}
			for _, e := range list {
				if full, err := r.take(db, c, e, run); full || err != nil {
					return r.out, classify(op, err)
				}
			}
			from = places[len(places)-1].last() + 1
		}
	}
	return r.out, nil
}

// reader collects messages up to a limit of bytes of records.
type reader struct {
	out         []core.Message
	used, limit int64
}

// take reads the messages of a segment that lie in a run; full tells that the next one would exceed the limit.
func (r *reader) take(db *database, c *cache, e *cached, run core.Run) (full bool, err error) {
	h, err := e.segment()
	if err != nil {
		return false, err
	}
	i := int(max(run.First-h.First, 0))
	j := int(min(run.Last-h.First, int64(len(h.Messages))-1))
	last := i - 1
	for k := i; k <= j; k++ {
		from, to := core.BodyRange(h.Messages[k:], 0, 0)
		if r.limit > 0 && r.used+to-from > r.limit && (len(r.out) > 0 || last >= i) {
			full = true
			break
		}
		r.used += to - from
		last = k
	}
	if last < i {
		return full, nil
	}
	body, ok, err := db.bodyOf(c, e, h, i, last)
	if err != nil || !ok {
		return full, err
	}
	ms, err := core.DecodeMessages(h, i, last, body)
	r.out = append(r.out, ms...)
	return full, err
}
