package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"

	"github.com/leasehold/leasehold/core"
)

// NextDue implements core.Sweeping.
func (s *Store) NextDue(ctx context.Context) (schedule, lease, expiry core.Time, err error) {
	const op = "next due"
	if err := s.enter(ctx, op); err != nil {
		return 0, 0, 0, err
	}
	defer s.life.RUnlock()
	s.mu.RLock()
	db, st, err := s.view(op)
	if err == nil {
		lease, expiry = st.resolve.first(), st.expiries.first()
	}
	s.mu.RUnlock()
	if err != nil {
		return 0, 0, 0, err
	}
	err = db.query("SELECT coalesce(min(due), 0) FROM schedule", func(r *sql.Rows) error { return r.Scan(&schedule) })
	return schedule, lease, expiry, classify(op, err)
}

// Expired implements core.Sweeping. The rows come by their earliest time.
func (s *Store) Expired(ctx context.Context, now core.Time, limit int) ([]core.RowKey, error) {
	const op = "expired"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, st, err := s.view(op)
	if err != nil {
		return nil, err
	}
	rows := st.resolve.upto(now)
	slices.SortFunc(rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.resolve.at, b.resolve.at), cmp.Compare(a.key.Partition, b.key.Partition),
			cmp.Compare(a.key.Group, b.key.Group))
	})
	out := make([]core.RowKey, 0, len(rows))
	for _, r := range rows {
		if limit > 0 && len(out) == limit {
			break
		}
		out = append(out, r.key)
	}
	return out, nil
}

// ExpiredSegments implements core.Sweeping.
func (s *Store) ExpiredSegments(ctx context.Context, now core.Time, limit int) ([]core.SegmentRef, error) {
	const op = "expired segments"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	db, st, err := s.view(op)
	if err != nil {
		return nil, err
	}
	parts := st.expiries.upto(now)
	slices.SortFunc(parts, func(a, b *partition) int { return cmp.Compare(a.Key, b.Key) })
	var out []core.SegmentRef
	for _, p := range parts {
		if err := s.loadIndex(p.Key); err != nil {
			return nil, classify(op, err)
		}
		for _, c := range slices.Clone(p.chunks) {
			if c.expires == 0 || c.expires > now {
				continue
			}
			refs, err := db.refs(p.Key, c.places())
			if err != nil {
				return nil, classify(op, err)
			}
			s.refresh(p, c, refs)
			for _, ref := range refs {
				if ref.Expires == 0 || ref.Expires > now {
					continue
				}
				if out = append(out, ref.SegmentRef); limit > 0 && len(out) == limit {
					return out, nil
				}
			}
		}
	}
	return out, nil
}

// refresh notes the earliest expiry of a chunk anew: what is on disk may be older than the last deletion.
func (s *Store) refresh(p *partition, c *chunk, refs []stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.expires = earliest(refs)
	s.state.expiries.set(p, p.minExpires())
}

func earliest(refs []stored) core.Time {
	var least core.Time
	for i := range refs {
		least = earlier(least, refs[i].Expires)
	}
	return least
}

func (c *chunk) places() []place {
	out := make([]place, len(c.entries))
	for i := range out {
		out[i] = c.at(i)
	}
	return out
}

// stored is a segment with its row id.
type stored struct {
	core.SegmentRef
	row int64
}

// refs reads what a sweep needs of segments. Those deleted meanwhile are missing.
func (d *database) refs(key core.PartitionKey, places []place) ([]stored, error) {
	ids := make([]int64, len(places))
	for i := range places {
		ids[i] = places[i].row
	}
	out := make([]stored, 0, len(ids))
	err := d.rowsIn(&d.reads.refs, ids, func(r *sql.Rows) error {
		var ref stored
		var count int64
		err := r.Scan(&ref.row, &ref.Partition, &ref.First, &count, &ref.AppendedAt, &ref.Expires)
		ref.Last, ref.Expires = ref.First+count-1, fromStored(ref.Expires)
		if ref.Partition == key {
			out = append(out, ref)
		}
		return err
	})
	return out, err
}

// Segments implements core.Sweeping.
func (s *Store) Segments(ctx context.Context, key core.PartitionKey, from int64, limit int) ([]core.SegmentRef, error) {
	const op = "segments"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	db, _, places, err := s.find(op, core.HeadersParams{Partition: key, From: from, To: math.MaxInt64, Limit: limit}, false)
	if err != nil || len(places) == 0 {
		return nil, err
	}
	list, err := db.refs(key, places)
	out := make([]core.SegmentRef, len(list))
	for i := range list {
		out[i] = list[i].SegmentRef
	}
	return out, classify(op, err)
}
