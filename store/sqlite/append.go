package sqlite

import (
	"context"
	"math"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/internal/placing"
)

// Append implements core.Log.
func (s *Store) Append(ctx context.Context, p core.AppendParams) ([]core.Placed, error) {
	const op = "append"
	if err := placing.Check(op, p.Segments); err != nil {
		return nil, err
	}
	if err := s.enterWriting(ctx, op); err != nil {
		return nil, err
	}
	defer s.leaveWriting()
	if gaps := placing.Gaps(p.Segments, s.state.logOf); p.Moved != nil && len(gaps) > 0 {
		segments, err := placing.Fill(&p, gaps, s.state.logOf, s.inGap)
		if err != nil {
			return nil, err
		}
		p.Segments = segments
	}
	out, in := placing.Admit(p.Segments, s.state.logOf)
	if !in {
		return out, nil
	}
	a := &appending{
		Plan: placing.New(p.Now, p.Segments, out, s.state.logOf, nil), firstRow: s.state.nextRow, commit: p.Commit[:],
	}
	if err := s.commit(&transaction{op: op, id: p.Commit, firstRow: a.firstRow, write: a.write, apply: a.apply}); err != nil {
		return nil, err
	}
	s.behind.appended(len(a.Rows), a.Bytes)
	return out, nil
}

// inGap returns the headers in a gap; the caller holds s.writing.
func (s *Store) inGap(g placing.Gap) ([]core.SegmentHeader, error) {
	return (&tx{s: s}).Headers(g.Partition, g.From, g.To)
}

// logOf tells the log of a partition.
func (s *state) logOf(key core.PartitionKey) (core.LogState, bool) {
	if p := s.partitions[key]; p != nil {
		return p.log, true
	}
	return core.LogState{}, false
}

// appending is what a commit appends, from a row id on.
type appending struct {
	*placing.Plan
	firstRow int64
	// commit is written into the first row.
	commit []byte
}

const insertSegment = `INSERT INTO segments (id, commit_id, partition, first, count, appended_at, expires, before_messages,
	before_bytes, before_created, messages, bytes, created, header, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// write inserts the rows.
func (a *appending) write(db *database) error {
	commit := a.commit
	for i, r := range a.Rows {
		n, b, t := &r.Segment, &r.Before, &r.Segment.Totals
		err := db.exec(insertSegment, a.firstRow+int64(i), commit, int64(n.Partition), r.First, int64(n.Count), int64(r.At), int64(n.Expires),
			b.Messages, b.Bytes, b.Created, t.Messages, t.Bytes, t.Created, n.Header, n.Body)
		if err != nil {
			return err
		}
		commit = nil
		for _, src := range n.Sources {
			err := db.exec("INSERT OR REPLACE INTO sources (partition, source_id, offset) VALUES (?, ?, ?)",
				int64(n.Partition), []byte(src.SourceID), r.First+int64(src.Index))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// apply tells memory what was appended.
func (a *appending) apply(st *state) {
	list := make([]*cached, len(a.Rows))
	for i, r := range a.Rows {
		r.Own(1)
		n, row := &r.Segment, a.firstRow+int64(i)
		p := st.partitions[n.Partition]
		p.add(place{row: row, first: r.First, count: int64(n.Count)}, n.Expires)
		if n.Expires != 0 {
			st.expiries.set(p, earlier(p.expiry.at, n.Expires))
		}
		st.dirty[p] = true
		list[i] = &cached{
			row: row, count: n.Count, header: n.Header, body: n.Body,
			bare: core.SegmentHeader{Partition: p.Key, First: r.First, AppendedAt: r.At, Before: r.Before},
		}
	}
	for key, l := range a.Logs {
		st.partitions[key].log = l.State
	}
	st.nextRow += int64(len(a.Rows))
	st.cache.put(list...)
}

// fromStored reads the earliest unhandled expiry, see migrations/00001_init.sql.
func fromStored(t core.Time) core.Time {
	if t == math.MaxInt64 {
		return 0
	}
	return t
}
