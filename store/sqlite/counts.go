package sqlite

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// heldRow is a row of memory as a count takes it: batches are replaced and never changed, so the list of them may be looked
// at after s.mu is free.
type heldRow struct {
	key      core.RowKey
	frontier core.Frontier
	batches  []*core.Batch
}

// heldRows returns the rows of a queue, of one group or of all where group is "", by partition and group. It reports false
// when some of the queue's delivery state is not in memory. The caller holds s.mu.
func (s *state) heldRows(id uuid.UUID, group string) ([]heldRow, bool) {
	q := s.queues[id]
	if q == nil {
		return nil, true
	}
	for _, p := range q.partitions {
		if !p.rowsLoaded {
			return nil, false
		}
	}
	var out []heldRow
	take := func(r *row) {
		if r != nil && r.id != 0 {
			out = append(out, heldRow{r.key, r.frontier, slices.Clone(r.batches.byFirst)})
		}
	}
	for _, p := range q.partitions {
		if group != "" {
			take(p.rows[group])
			continue
		}
		for _, r := range p.rows {
			take(r)
		}
	}
	slices.SortFunc(out, func(a, b heldRow) int {
		return cmp.Or(cmp.Compare(a.key.Partition, b.key.Partition), cmp.Compare(a.key.Group, b.key.Group))
	})
	return out, true
}

// summary sums the row up.
func (r *heldRow) summary(now core.Time) core.RowSummary {
	list := make([]core.Batch, len(r.batches))
	for i, b := range r.batches {
		list[i] = *b
	}
	return core.Summarize(r.key, r.frontier, list, now)
}

// scheduled is what memory knows of the schedule: how much of each partition is in it, kept only for queues that were
// asked for, since a start does not read the schedule.
type scheduled struct {
	known  map[uuid.UUID]bool
	totals map[core.PartitionKey]core.Totals
}

// of returns the totals of a queue's partitions that have any, or false when the queue was not counted yet.
func (s *scheduled) of(q *queue) (map[core.PartitionKey]core.Totals, bool) {
	if q != nil && !s.known[q.ID] {
		return nil, false
	}
	out := map[core.PartitionKey]core.Totals{}
	if q == nil || len(s.totals) == 0 {
		return out, true
	}
	for _, p := range q.partitions {
		if t, ok := s.totals[p.Key]; ok {
			out[p.Key] = t
		}
	}
	return out, true
}

// learn takes in what the file says of a queue.
func (s *scheduled) learn(id uuid.UUID, totals map[core.PartitionKey]core.Totals) {
	if s.known == nil {
		s.known, s.totals = map[uuid.UUID]bool{}, map[core.PartitionKey]core.Totals{}
	}
	s.known[id] = true
	for key, t := range totals {
		s.totals[key] = t
	}
}

// add changes the totals of a partition by what came or went; of a queue that was not counted yet nothing is kept.
func (s *scheduled) add(p *partition, t core.Totals) {
	if p == nil || !s.known[p.Queue] {
		return
	}
	if t = s.totals[p.Key].Plus(t); t.Messages == 0 {
		delete(s.totals, p.Key)
	} else {
		s.totals[p.Key] = t
	}
}

// forget drops a queue that is gone.
func (s *scheduled) forget(q *queue) {
	delete(s.known, q.ID)
	for _, p := range q.partitions {
		delete(s.totals, p.Key)
	}
}
