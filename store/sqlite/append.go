package sqlite

import (
	"context"
	"math"

	"github.com/leasehold/leasehold/core"
)

// Append implements core.Log.
func (s *Store) Append(ctx context.Context, p core.AppendParams) ([]core.Placed, error) {
	const op = "append"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	if err := checkSegments(op, p.Segments); err != nil {
		return nil, err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.broken != nil {
		return nil, s.again(op)
	}
	out, in := s.state.admit(p.Segments)
	if !in {
		return out, nil
	}
	a := s.state.plan(p.Now, p.Segments, out, nil)
	a.rows[0].commit = p.Commit[:]
	err := s.commit(&transaction{
		op: op, id: p.Commit, firstRow: a.rows[0].row,
		write: a.write, apply: func(st *state) { a.apply(st) },
	})
	if err != nil {
		return nil, err
	}
	s.behind.appended(len(a.rows), a.bytes)
	return out, nil
}

// checkSegments refuses what cannot be a segment.
func checkSegments(op string, segments []core.NewSegment) error {
	for i := range segments {
		n := &segments[i]
		if n.Count <= 0 || n.Count > len(n.Header)/18 {
			return &core.Error{
				Code: core.CodeInvalid, Op: op, Item: i,
				Err: core.Errorf(core.CodeInvalid, "", "segment of %d messages has a header of %d bytes", n.Count, len(n.Header)),
			}
		}
	}
	return nil
}

// admit decides which segments go in, and leaves a mark in First of those; in tells that there are any.
func (s *state) admit(segments []core.NewSegment) (out []core.Placed, in bool) {
	out = make([]core.Placed, len(segments))
	var broken map[int]bool
	for i := range segments {
		n := &segments[i]
		p := s.partitions[n.Partition]
		if p != nil {
			out[i].Log = p.log
		}
		out[i].Gone = p == nil
		if p == nil || n.Know >= 0 && n.Know != p.log.Head {
			if n.Group != 0 {
				if broken == nil {
					broken = map[int]bool{}
				}
				broken[n.Group] = true
			}
			continue
		}
		out[i].First = -1
	}
	for i := range segments {
		if broken[segments[i].Group] {
			out[i].First = 0
		}
		in = in || out[i].First != 0
	}
	return out, in
}

// appending is what a commit appends: rows to be, and the logs after it.
type appending struct {
	rows  []*newRow
	logs  map[core.PartitionKey]*newLog
	bytes int
}

// newLog is a partition's log as it grows in a commit.
type newLog struct {
	log core.LogState
	// open is the row that further segments of the partition can join.
	open *newRow
}

// newRow is a row of segments: all that a commit appends to a partition, within the limits of a segment.
type newRow struct {
	row, first int64
	at         core.Time
	before     core.Totals
	commit     []byte
	seg        core.NewSegment
	owned      bool // seg's slices are ours to grow
}

// plan decides offsets, times and rows, and fills in out. logs, when given, are what purges of the same commit left.
func (s *state) plan(now core.Time, segments []core.NewSegment, out []core.Placed, logs map[core.PartitionKey]*newLog) *appending {
	a := &appending{logs: logs}
	if logs == nil {
		a.logs = make(map[core.PartitionKey]*newLog, 8)
	}
	for i := range segments {
		n := &segments[i]
		if out[i].First == 0 {
			continue
		}
		l := a.logs[n.Partition]
		if l == nil {
			l = &newLog{log: s.partitions[n.Partition].log}
			a.logs[n.Partition] = l
		}
		at := max(now, l.log.HeadAt)
		out[i].First, out[i].AppendedAt = l.log.Head+1, at
		if l.open != nil && l.open.seg.Fits(n) {
			l.open.join(n)
		} else {
			l.open = &newRow{row: s.nextRow + int64(len(a.rows)), first: l.log.Head + 1, at: at, before: l.log.HeadTotals, seg: *n}
			a.rows = append(a.rows, l.open)
		}
		a.bytes += len(n.Header) + len(n.Body)
		l.log.Head += int64(n.Count)
		l.log.HeadAt = at
		l.log.HeadTotals = l.log.HeadTotals.Plus(n.Totals)
	}
	for i := range segments {
		if l := a.logs[segments[i].Partition]; l != nil {
			out[i].Log = l.log
		}
	}
	return a
}

// own copies the bytes, which are the caller's, with room for more.
func (r *newRow) own(room int) {
	if r.owned {
		return
	}
	r.seg.Header = append(make([]byte, 0, len(r.seg.Header)*room), r.seg.Header...)
	r.seg.Body = append(make([]byte, 0, len(r.seg.Body)*room), r.seg.Body...)
	r.seg.Sources = append([]core.SegmentSource(nil), r.seg.Sources...)
	r.owned = true
}

func (r *newRow) join(n *core.NewSegment) {
	r.own(4)
	r.seg.Join(n)
}

const insertSegment = `INSERT INTO segments (id, commit_id, partition, first, count, appended_at, expires, before_messages,
	before_bytes, before_created, messages, bytes, created, header, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// write inserts the rows.
func (a *appending) write(db *database) error {
	for _, r := range a.rows {
		n, b, t := &r.seg, &r.before, &r.seg.Totals
		err := db.exec(insertSegment, r.row, r.commit, int64(n.Partition), r.first, int64(n.Count), int64(r.at), int64(n.Expires),
			b.Messages, b.Bytes, b.Created, t.Messages, t.Bytes, t.Created, n.Header, n.Body)
		if err != nil {
			return err
		}
		for _, src := range n.Sources {
			err := db.exec("INSERT OR REPLACE INTO sources (partition, source_id, offset) VALUES (?, ?, ?)",
				int64(n.Partition), []byte(src.SourceID), r.first+int64(src.Index))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// apply tells memory what was appended.
func (a *appending) apply(st *state) {
	list := make([]*cached, len(a.rows))
	for i, r := range a.rows {
		p := st.partitions[r.seg.Partition]
		p.add(place{row: r.row, first: r.first, count: int64(r.seg.Count)}, r.seg.Expires)
		if r.seg.Expires != 0 {
			st.expiries.set(p, earlier(p.expiry.at, r.seg.Expires))
		}
		st.dirty[p] = true
		r.own(1)
		list[i] = &cached{
			row: r.row, count: r.seg.Count, header: r.seg.Header, body: r.seg.Body,
			bare: core.SegmentHeader{Partition: p.Key, First: r.first, AppendedAt: r.at, Before: r.before},
		}
	}
	for key, l := range a.logs {
		st.partitions[key].log = l.log
	}
	st.nextRow += int64(len(a.rows))
	st.cache.put(list...)
}

// fromStored reads the earliest unhandled expiry, see migrations/00001_init.sql.
func fromStored(t core.Time) core.Time {
	if t == math.MaxInt64 {
		return 0
	}
	return t
}
