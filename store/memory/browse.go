package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// Outcome implements core.Ledger.
func (s *Store) Outcome(ctx context.Context, commit uuid.UUID) (bool, error) {
	if err := s.enter(ctx, "outcome"); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	return s.commits.Has(commit), nil
}

// Rows implements core.Browser.
func (s *Store) Rows(ctx context.Context, p core.RowsParams) ([]core.RowSummary, error) {
	if err := s.enter(ctx, "rows"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	q := s.queues[p.Queue]
	if q == nil {
		return nil, nil
	}
	var out []core.RowSummary
	for _, part := range q.partitions {
		for group, r := range part.rows {
			if p.Group == "" || p.Group == group {
				out = append(out, core.Summarize(core.RowKey{Partition: part.Key, Group: group}, r.frontier, r.batches, p.Now))
			}
		}
	}
	slices.SortFunc(out, func(a, b core.RowSummary) int { return compareKeys(a.Key, b.Key) })
	return out, nil
}

func compareKeys(a, b core.RowKey) int {
	return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Group, b.Group))
}

// Batches implements core.Browser.
func (s *Store) Batches(ctx context.Context, key core.RowKey) ([]core.Batch, core.Frontier, error) {
	if err := s.enter(ctx, "batches"); err != nil {
		return nil, core.Frontier{}, err
	}
	defer s.mu.Unlock()
	p := s.partitions[key.Partition]
	if p == nil || p.rows[key.Group] == nil {
		return nil, core.Frontier{}, nil
	}
	r := p.rows[key.Group]
	out := slices.Clone(r.batches)
	for i := range out {
		out[i].Pending = slices.Clone(out[i].Pending)
	}
	return out, r.frontier, nil
}

// Scheduled implements core.Browser.
func (s *Store) Scheduled(ctx context.Context, p core.ScheduledParams) ([]core.ScheduledSegment, error) {
	if err := s.enter(ctx, "scheduled"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []core.ScheduledSegment
	for _, e := range s.schedule {
		if e.Segment.Partition == p.Partition && e.Seq > p.After && (p.Limit <= 0 || len(out) < p.Limit) {
			e.Segment = copySegment(e.Segment)
			out = append(out, e)
		}
	}
	return out, nil
}

// ScheduledTotals implements core.Browser.
func (s *Store) ScheduledTotals(ctx context.Context, id uuid.UUID) (map[core.PartitionKey]core.Totals, error) {
	if err := s.enter(ctx, "scheduled totals"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	out := map[core.PartitionKey]core.Totals{}
	for _, e := range s.schedule {
		if p := s.partitions[e.Segment.Partition]; p.Queue == id {
			out[p.Key] = out[p.Key].Plus(e.Segment.Totals)
		}
	}
	return out, nil
}

// DeadLetters implements core.Browser.
func (s *Store) DeadLetters(ctx context.Context, f core.DeadLetterFilter) ([]core.DeadLetter, int64, error) {
	if err := s.enter(ctx, "dead letters"); err != nil {
		return nil, 0, err
	}
	defer s.mu.Unlock()
	var all []core.DeadLetter
	for _, d := range s.dead {
		if matches(&d, &f) {
			all = append(all, copyDead(d))
		}
	}
	slices.SortFunc(all, func(a, b core.DeadLetter) int {
		return cmp.Or(cmp.Compare(b.FailedAt, a.FailedAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	total := int64(len(all))
	all = all[min(max(f.Offset, 0), len(all)):]
	if f.Limit > 0 {
		all = all[:min(f.Limit, len(all))]
	}
	return all, total, nil
}

func matches(d *core.DeadLetter, f *core.DeadLetterFilter) bool {
	return (f.Queue == uuid.Nil || f.Queue == d.Queue) &&
		(f.Partition == 0 || f.Partition == d.Partition) &&
		(f.Group == "" || f.Group == d.Group) &&
		(f.TransactionID == "" || f.TransactionID == d.Message.Transaction()) &&
		(f.From == 0 || d.FailedAt >= f.From) && (f.To == 0 || d.FailedAt <= f.To)
}
