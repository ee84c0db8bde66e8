package memory

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// RemoveIdle implements core.Idler.
func (s *Store) RemoveIdle(ctx context.Context, p core.RemoveIdleParams) ([]core.PartitionKey, error) {
	if err := s.enter(ctx, "remove idle partitions"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	q := s.queues[p.Queue]
	if q == nil {
		return nil, nil
	}
	var gone []core.PartitionKey
	for _, part := range q.partitions {
		if slices.Contains(p.Partitions, part.Key) && s.idle(part, p.Since) {
			gone = append(gone, part.Key)
			delete(s.partitions, part.Key)
		}
	}
	if len(gone) > 0 {
		q.partitions = slices.DeleteFunc(slices.Clone(q.partitions), func(part *partition) bool { return s.partitions[part.Key] == nil })
		s.catalog++
		slices.Sort(gone)
	}
	return gone, nil
}

// idle reports whether nothing is in a partition and nothing happened to it after a time.
func (s *Store) idle(part *partition, since core.Time) bool {
	if part.log.Start <= part.log.Head || part.log.HeadAt > since || part.CreatedAt > since {
		return false
	}
	for _, r := range part.rows {
		if len(r.batches) > 0 || r.exists && r.frontier.MovedAt > since {
			return false
		}
	}
	for i := range s.schedule {
		if s.schedule[i].Segment.Partition == part.Key {
			return false
		}
	}
	for _, d := range s.dead {
		if d.Queue == part.Queue && d.Partition == part.Key {
			return false
		}
	}
	return true
}

// RemoveIdle implements core.Idler.
func (g *Gateway) RemoveIdle(ctx context.Context, p core.RemoveIdleParams) ([]core.PartitionKey, error) {
	g.feed.mu.Lock()
	defer g.feed.mu.Unlock()
	gone, err := g.Store.RemoveIdle(ctx, p)
	if len(gone) > 0 {
		g.tell(err, told{logs: gone, queues: []uuid.UUID{p.Queue}})
	}
	return gone, err
}
