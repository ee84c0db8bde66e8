package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// Queues implements core.Catalog.
func (s *Store) Queues(ctx context.Context) ([]core.Queue, error) {
	if err := s.enter(ctx, "queues"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	out := make([]core.Queue, 0, len(s.queues))
	for _, q := range s.queues {
		out = append(out, q.value())
	}
	slices.SortFunc(out, func(a, b core.Queue) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// PutQueue implements core.Catalog.
func (s *Store) PutQueue(ctx context.Context, p core.PutQueueParams) (core.Queue, error) {
	const op = "put queue"
	if err := s.enter(ctx, op); err != nil {
		return core.Queue{}, err
	}
	defer s.mu.Unlock()
	options, err := encodeOptions(&p.Queue.Options)
	if err != nil {
		return core.Queue{}, err
	}
	old := s.queues[p.Queue.ID]
	switch {
	case p.Queue.Version == 0 && old != nil:
		return core.Queue{}, core.Errorf(core.CodeQueueExists, op, "queue %s exists", p.Queue.ID)
	case p.Queue.Version != 0 && old == nil:
		return core.Queue{}, core.Errorf(core.CodeNoQueue, op, "queue %s does not exist", p.Queue.ID)
	case old != nil && old.Version != p.Queue.Version:
		return core.Queue{}, core.Errorf(core.CodeConflict, op, "queue %s moved to version %d", p.Queue.ID, old.Version)
	}
	for id, q := range s.queues {
		if id != p.Queue.ID && q.Name == p.Queue.Name {
			return core.Queue{}, core.Errorf(core.CodeQueueExists, op, "the name is taken")
		}
	}
	q := old
	if q == nil {
		q = &queue{registrations: map[string]core.Registration{}}
		s.queues[p.Queue.ID] = q
	}
	created := cmp.Or(q.CreatedAt, p.Queue.CreatedAt, p.Now)
	q.Queue, q.options = p.Queue, options
	q.CreatedAt, q.UpdatedAt = created, cmp.Or(p.Now, p.Queue.UpdatedAt)
	q.Version++
	s.catalog++
	for _, part := range p.Partitions {
		part.Queue = q.ID
		s.createPartition(q, part, p.Now)
	}
	return q.value(), nil
}

// createPartition returns the partition of that name, made if need be.
func (s *Store) createPartition(q *queue, p core.Partition, now core.Time) *partition {
	for _, have := range q.partitions {
		if have.Name == p.Name {
			return have
		}
	}
	s.lastKey++
	p.Key, p.Ordinal, p.CreatedAt = s.lastKey, 0, cmp.Or(p.CreatedAt, now)
	if n := len(q.partitions); n > 0 {
		p.Ordinal = q.partitions[n-1].Ordinal + 1
	}
	made := &partition{Partition: p, log: core.LogState{Start: 1}, rows: map[string]*row{}, sources: map[string]int64{}}
	q.partitions = append(q.partitions, made)
	s.partitions[p.Key] = made
	return made
}

// DeleteQueue implements core.Catalog.
func (s *Store) DeleteQueue(ctx context.Context, id uuid.UUID) error {
	const op = "delete queue"
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	q := s.queues[id]
	if q == nil {
		return core.Errorf(core.CodeNoQueue, op, "queue %s does not exist", id)
	}
	for _, p := range q.partitions {
		delete(s.partitions, p.Key)
	}
	delete(s.queues, id)
	s.catalog++
	s.schedule = slices.DeleteFunc(s.schedule, func(e core.ScheduledSegment) bool {
		return s.partitions[e.Segment.Partition] == nil
	})
	for dead, d := range s.dead {
		if d.Queue == id {
			delete(s.dead, dead)
		}
	}
	return nil
}

// Partitions implements core.Catalog.
func (s *Store) Partitions(ctx context.Context, id uuid.UUID) ([]core.PartitionLog, error) {
	if err := s.enter(ctx, "partitions"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []core.PartitionLog
	if q := s.queues[id]; q != nil {
		for _, p := range q.partitions {
			out = append(out, core.PartitionLog{Partition: p.Partition, Log: p.log})
		}
	}
	return out, nil
}

// CreatePartitions implements core.Catalog.
func (s *Store) CreatePartitions(ctx context.Context, now core.Time, ps []core.Partition) ([]core.PartitionLog, error) {
	if err := s.enter(ctx, "create partitions"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	out := make([]core.PartitionLog, len(ps))
	for i, want := range ps {
		if q := s.queues[want.Queue]; q != nil {
			p := s.createPartition(q, want, now)
			out[i] = core.PartitionLog{Partition: p.Partition, Log: p.log}
		}
	}
	return out, nil
}

// Registrations implements core.Catalog.
func (s *Store) Registrations(ctx context.Context, id uuid.UUID) ([]core.Registration, error) {
	if err := s.enter(ctx, "registrations"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []core.Registration
	if q := s.queues[id]; q != nil {
		for _, r := range q.registrations {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b core.Registration) int { return cmp.Compare(a.Group, b.Group) })
	return out, nil
}
