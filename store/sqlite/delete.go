package sqlite

import (
	"context"
	"math"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// deletion is what DeleteSegments does to one partition.
type deletion struct {
	part    *partition
	log     core.LogState
	index   *index
	rows    []int64
	runs    []core.Run
	expires map[int64]core.Time // by row
}

// DeleteSegments implements core.Sweeping. Segments that are gone already are passed over.
func (s *Store) DeleteSegments(ctx context.Context, _ core.Time, remove, expiries []core.SegmentRef) error {
	const op = "delete segments"
	if err := s.enterWriting(ctx, op); err != nil {
		return err
	}
	defer s.leaveWriting()
	list, err := s.planDeletions(remove, expiries)
	if err != nil {
		return classify(op, err)
	}
	for key, d := range list {
		if len(d.rows)+len(d.expires) == 0 {
			delete(list, key)
		} else if err := d.finish(s); err != nil {
			return classify(op, err)
		}
	}
	if len(list) == 0 {
		return nil
	}
	err = s.commit(&transaction{
		op: op, id: uuid.New(),
		write: func(db *database) error {
			for _, d := range list {
				if err := d.write(db, s.state); err != nil {
					return err
				}
			}
			return nil
		},
		apply: func(st *state) {
			for _, d := range list {
				d.part.log, d.part.index = d.log, *d.index
				st.cache.remove(d.rows)
				st.expiries.set(d.part, d.part.minExpires())
				delete(st.dirty, d.part)
			}
		},
	})
	if err == nil {
		s.behind.appended(0, 4096*len(list))
	}
	return err
}

func (s *Store) planDeletions(remove, expiries []core.SegmentRef) (map[core.PartitionKey]*deletion, error) {
	list := map[core.PartitionKey]*deletion{}
	find := func(ref *core.SegmentRef) (*deletion, error) {
		if d := list[ref.Partition]; d != nil {
			return d, nil
		}
		p := s.state.partitions[ref.Partition]
		if p == nil {
			return nil, nil //nolint:nilnil // a partition that is gone has nothing to delete
		}
		if err := s.loadIndex(ref.Partition); err != nil {
			return nil, err
		}
		d := &deletion{part: p, log: p.log, index: p.clone(), expires: map[int64]core.Time{}}
		list[ref.Partition] = d
		return d, nil
	}
	for i := range expiries {
		d, err := find(&expiries[i])
		if err != nil {
			return nil, err
		}
		if d == nil {
			continue
		}
		if c, at, ok := d.index.search(expiries[i].First); ok {
			d.expires[c.at(at).row] = expiries[i].Expires
		}
	}
	for i := range remove {
		d, err := find(&remove[i])
		if err != nil {
			return nil, err
		}
		if d == nil {
			continue
		}
		if p, ok := d.index.remove(remove[i].First); ok {
			d.rows = append(d.rows, p.row)
			d.runs = append(d.runs, core.Run{First: p.first, Last: p.last()})
			delete(d.expires, p.row)
		}
	}
	return list, nil
}

// finish decides the log's new start and the earliest expiries that are left.
func (d *deletion) finish(s *Store) error {
	if err := d.findExpiries(s.db); err != nil || len(d.rows) == 0 {
		return err
	}
	p, ok := d.index.firstPlace()
	if !ok {
		d.log.Start, d.log.StartTotals = d.log.Head+1, d.log.HeadTotals
		return nil
	}
	if p.first == d.log.Start {
		return nil
	}
	list, err := segmentsAt(s.db, s.state.cache, d.part.Key, []place{p})
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return core.Errorf(core.CodeFormat, "delete segments", "segment row %d of partition %d is missing", p.row, d.part.Key)
	}
	d.log.Start, d.log.StartTotals = p.first, list[0].bare.Before
	return nil
}

// findExpiries notes the earliest expiry of those chunks anew in which it may have changed.
func (d *deletion) findExpiries(db *database) error {
	same := make(map[*chunk]bool, len(d.part.chunks))
	for _, c := range d.part.chunks {
		same[c] = true
	}
	for i, c := range d.index.chunks {
		if same[c] && !d.hasExpiry(c) || c.expires == 0 && len(d.expires) == 0 {
			continue
		}
		refs, err := db.refs(d.part.Key, c.places())
		if err != nil {
			return err
		}
		for k := range refs {
			if at, ok := d.expires[refs[k].row]; ok {
				refs[k].Expires = at
			}
		}
		copied := *c
		copied.expires, copied.dirty = earliest(refs), true
		d.index.chunks[i] = &copied
	}
	return nil
}

// hasExpiry reports whether a segment of the chunk gets another expiry.
func (d *deletion) hasExpiry(c *chunk) bool {
	if len(d.expires) == 0 {
		return false
	}
	for i := range c.entries {
		if _, ok := d.expires[c.at(i).row]; ok {
			return true
		}
	}
	return false
}

func (d *deletion) write(db *database, st *state) error {
	if err := deleteSegmentRows(db, d.rows); err != nil {
		return err
	}
	for _, run := range d.runs {
		err := db.exec("DELETE FROM sources WHERE partition = ? AND offset BETWEEN ? AND ?", int64(d.part.Key), run.First, run.Last)
		if err != nil {
			return err
		}
	}
	for id, at := range d.expires {
		if at == 0 {
			at = math.MaxInt64
		}
		if err := db.exec("UPDATE segments SET expires = ? WHERE id = ?", int64(at), id); err != nil {
			return err
		}
	}
	return st.writeIndex(db, d.part.Key, &d.log, d.index)
}
