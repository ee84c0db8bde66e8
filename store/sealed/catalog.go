package sealed

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// known is what the store has seen of a queue: its version, whether it is encrypted, and its partitions.
type known struct {
	version    int64
	encrypted  bool
	partitions []core.PartitionKey
}

// seals reports whether what goes into a partition is to be sealed. Without a key it is not where plaintext is allowed, and cannot be elsewhere.
func (s *store) seals(partition core.PartitionKey) (bool, error) {
	s.mu.RLock()
	queue, ok := s.partitions[partition]
	encrypted := s.o.all || ok && s.queues[queue] != nil && s.queues[queue].encrypted
	s.mu.RUnlock()
	switch {
	case !ok:
		// Every partition came through here before anybody could know its key.
		return false, core.Errorf(core.CodeInternal, "seal", "partition %d was never seen", partition)
	case !encrypted:
		return false, nil
	case !s.o.Keys.CanSeal() && s.o.AllowPlaintext:
		s.warn(queue)
		return false, nil
	}
	return true, nil
}

// warn tells once of each queue whose payloads are stored as they are.
func (s *store) warn(queue uuid.UUID) {
	if _, told := s.warned.LoadOrStore(queue, true); !told {
		s.o.Logger.Warn("an encrypted queue is stored as plaintext, since there is no key", "queue_id", queue.String())
	}
}

// learnQueue notes a queue's option. An older version than the known one changes nothing.
func (s *store) learnQueue(q *core.Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.queues[q.ID]
	if k == nil {
		k = &known{}
		s.queues[q.ID] = k
	}
	if q.Version < k.version {
		return
	}
	k.version = q.Version
	if on := q.Options.Queen.EncryptionEnabled; on != k.encrypted {
		k.encrypted = on
		if on {
			s.encrypted.Add(1)
		} else {
			s.encrypted.Add(-1)
		}
	}
}

// learnPartitions notes which queue partitions belong to.
func (s *store) learnPartitions(list []core.PartitionLog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range list {
		p := &list[i].Partition
		if _, ok := s.partitions[p.Key]; ok || p.Key == 0 {
			continue
		}
		s.partitions[p.Key] = p.Queue
		k := s.queues[p.Queue]
		if k == nil {
			k = &known{version: -1}
			s.queues[p.Queue] = k
		}
		k.partitions = append(k.partitions, p.Key)
	}
}

// maxGone is how many partitions of deleted queues are remembered at least; at most it is twice as many.
const maxGone = 100_000

// forget drops a queue that is gone. Its partitions are remembered for a while, as those of no queue: the store refuses what is
// still on its way to them.
func (s *store) forget(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.queues[id]
	if k == nil {
		return
	}
	s.outlive(k.partitions)
	if k.encrypted {
		s.encrypted.Add(-1)
	}
	delete(s.queues, id)
}

// outlive remembers partitions that are gone for a while.
func (s *store) outlive(keys []core.PartitionKey) {
	s.gone = append(s.gone, keys...)
	if over := len(s.gone) - maxGone; over > maxGone {
		for _, key := range s.gone[:over] {
			delete(s.partitions, key)
		}
		s.gone = append([]core.PartitionKey(nil), s.gone[over:]...)
	}
}

// forgetPartitions drops partitions that were removed from queues that stay.
func (s *store) forgetPartitions(keys []core.PartitionKey) {
	if len(keys) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	gone, from := map[core.PartitionKey]bool{}, map[*known]bool{}
	for _, key := range keys {
		if k := s.queues[s.partitions[key]]; k != nil {
			gone[key], from[k] = true, true
		}
	}
	for k := range from {
		k.partitions = slices.DeleteFunc(k.partitions, func(key core.PartitionKey) bool { return gone[key] })
	}
	s.outlive(slices.Collect(maps.Keys(gone)))
}

// RemoveIdle implements core.Idler.
func (s *store) RemoveIdle(ctx context.Context, p core.RemoveIdleParams) ([]core.PartitionKey, error) {
	gone, err := s.Store.RemoveIdle(ctx, p)
	s.forgetPartitions(gone)
	return gone, err
}

// Queues implements core.Catalog.
func (s *store) Queues(ctx context.Context) ([]core.Queue, error) {
	list, err := s.Store.Queues(ctx)
	for i := range list {
		s.learnQueue(&list[i])
	}
	return list, err
}

// PutQueue implements core.Catalog.
func (s *store) PutQueue(ctx context.Context, p core.PutQueueParams) (core.Queue, error) {
	q, err := s.Store.PutQueue(ctx, p)
	if err == nil {
		s.learnQueue(&q)
	}
	return q, err
}

// DeleteQueue implements core.Catalog.
func (s *store) DeleteQueue(ctx context.Context, id uuid.UUID) error {
	err := s.Store.DeleteQueue(ctx, id)
	if err == nil || core.CodeOf(err) == core.CodeNoQueue {
		s.forget(id)
	}
	return err
}

// Partitions implements core.Catalog.
func (s *store) Partitions(ctx context.Context, queue uuid.UUID) ([]core.PartitionLog, error) {
	list, err := s.Store.Partitions(ctx, queue)
	s.learnPartitions(list)
	return list, err
}

// CreatePartitions implements core.Catalog.
func (s *store) CreatePartitions(ctx context.Context, now core.Time, ps []core.Partition) ([]core.PartitionLog, error) {
	list, err := s.Store.CreatePartitions(ctx, now, ps)
	s.learnPartitions(list)
	return list, err
}
