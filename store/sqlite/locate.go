package sqlite

import (
	"context"
	"database/sql"
	"sort"

	"github.com/leasehold/leasehold/core"
)

// Locate implements core.Log. Append times never decrease, so a few probes find the place.
func (s *Store) Locate(ctx context.Context, key core.PartitionKey, t core.Time) (int64, error) {
	const op = "locate"
	if err := s.enter(ctx, op); err != nil {
		return 0, err
	}
	defer s.life.RUnlock()
	s.writing.Lock() // so that nothing is deleted between two probes
	defer s.writing.Unlock()
	db, st, err := s.view(op)
	if err != nil {
		return 0, err
	}
	p := st.partitions[key]
	switch {
	case p == nil:
		return 0, core.Errorf(core.CodeNoPartition, op, "partition %d does not exist", key)
	case t > p.log.HeadAt:
		return p.log.Head + 1, nil
	}
	if err := s.loadIndex(key); err != nil {
		return 0, classify(op, err)
	}
	var failed error
	before := func(at place) bool {
		list, err := segmentsAt(db, st.cache, key, []place{at})
		if err != nil || len(list) == 0 {
			failed = err
			return true
		}
		return list[0].bare.AppendedAt < t
	}
	n := sort.Search(len(p.chunks), func(i int) bool { return !before(p.chunks[i].at(len(p.chunks[i].entries) - 1)) })
	if failed != nil {
		return 0, classify(op, failed)
	}
	if n == len(p.chunks) {
		return p.log.Head + 1, nil
	}
	c := p.chunks[n]
	i := sort.Search(len(c.entries), func(i int) bool { return !before(c.at(i)) })
	return c.at(min(i, len(c.entries)-1)).first, classify(op, failed)
}

// Source implements core.Log.
func (s *Store) Source(ctx context.Context, key core.PartitionKey, id string) (int64, error) {
	const op = "source"
	if err := s.enter(ctx, op); err != nil {
		return 0, err
	}
	defer s.life.RUnlock()
	db, err := s.reading(op)
	if err != nil {
		return 0, err
	}
	var off int64
	err = db.query("SELECT offset FROM sources WHERE partition = ? AND source_id = ?",
		func(r *sql.Rows) error { return r.Scan(&off) }, int64(key), []byte(id))
	return off, classify(op, err)
}

// loadIndex reads what a start left of a partition's index on disk. The caller holds s.writing.
func (s *Store) loadIndex(key core.PartitionKey) error {
	p := s.state.partitions[key]
	if p == nil || p.loaded {
		return nil
	}
	var chunks []*chunk
	const query = `SELECT id, min_expires, entries FROM segment_blocks WHERE partition = ?1
		UNION ALL SELECT 0, tail_expires, tail FROM partition_logs WHERE partition = ?1`
	err := s.db.query(query, func(r *sql.Rows) error {
		var id int64
		var expires core.Time
		var entries sql.RawBytes
		if err := r.Scan(&id, &expires, &entries); err != nil {
			return err
		}
		c, err := decodeChunk(entries)
		if c != nil {
			c.block, c.expires = id, expires
			chunks = append(chunks, c)
		}
		return err
	}, int64(key))
	if err != nil {
		return err
	}
	sort.Slice(chunks, func(i, j int) bool { return chunks[i].first < chunks[j].first })
	s.mu.Lock()
	defer s.mu.Unlock()
	newer := p.chunks
	p.chunks, p.loaded, p.unloadedExpires = chunks, true, 0
	for _, c := range newer {
		for i := range c.entries {
			p.add(c.at(i), c.expires)
		}
	}
	return nil
}
