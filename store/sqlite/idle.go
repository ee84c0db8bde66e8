package sqlite

import (
	"context"
	"database/sql"
	"slices"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// RemoveIdle implements core.Idler.
func (s *Store) RemoveIdle(ctx context.Context, p core.RemoveIdleParams) ([]core.PartitionKey, error) {
	const op = "remove idle partitions"
	if err := s.enterWriting(ctx, op); err != nil {
		return nil, err
	}
	defer s.leaveWriting()
	q := s.state.queues[p.Queue]
	if q == nil {
		return nil, nil
	}
	var list []*partition
	var keys []core.PartitionKey
	for _, key := range p.Partitions {
		part := s.state.partitions[key]
		if part == nil || part.Queue != q.ID || slices.Contains(keys, key) {
			continue
		}
		idle, err := s.db.idle(part, p.Since)
		if err != nil {
			return nil, classify(op, err)
		}
		if idle {
			list, keys = append(list, part), append(keys, key)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	err := s.commit(&transaction{
		op: op, id: uuid.New(),
		write: func(db *database) error { return deletePartitions(db, list) },
		apply: func(st *state) {
			st.forgetPartitions(list)
			q.remove(list)
		},
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(keys)
	return keys, nil
}

// idle reports whether nothing is in a partition and nothing happened to it after a time. Rows and batches are in the file at every
// moment, whatever memory has read of them.
func (d *database) idle(p *partition, since core.Time) (bool, error) {
	if p.log.Start <= p.log.Head || p.log.HeadAt > since || p.CreatedAt > since {
		return false, nil
	}
	busy := true
	err := d.query(`SELECT EXISTS (SELECT 1 FROM frontiers f WHERE f.partition = ?1 AND (f.moved AND f.moved_at > ?2 OR EXISTS (SELECT 1 FROM batches b WHERE b.frontier = f.id)))
		OR EXISTS (SELECT 1 FROM schedule WHERE partition = ?1) OR EXISTS (SELECT 1 FROM dead_letters WHERE queue = ?3 AND partition = ?1)`,
		func(r *sql.Rows) error { return r.Scan(&busy) }, int64(p.Key), int64(since), p.Queue[:])
	return !busy, err
}

// remove takes partitions out of the queue's list, which readers may hold as it was.
func (q *queue) remove(list []*partition) {
	q.partitions = slices.DeleteFunc(slices.Clone(q.partitions), func(p *partition) bool { return slices.Contains(list, p) })
	for _, p := range list {
		delete(q.byName, p.Name)
	}
}
