package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/leasehold/leasehold/core"
)

// Due implements core.Sweeping.
func (s *Store) Due(ctx context.Context, now core.Time, limit int) ([]core.ScheduledSegment, error) {
	if err := s.enter(ctx, "due"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []core.ScheduledSegment
	for _, e := range s.schedule {
		if e.Due <= now {
			e.Segment = copySegment(e.Segment)
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b core.ScheduledSegment) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Seq, b.Seq))
	})
	return first(out, limit), nil
}

func first[T any](list []T, limit int) []T {
	if limit > 0 && len(list) > limit {
		return list[:limit]
	}
	return list
}

func earlier(a, b core.Time) core.Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// NextDue implements core.Sweeping.
func (s *Store) NextDue(ctx context.Context) (schedule, lease, expiry core.Time, err error) {
	if err := s.enter(ctx, "next due"); err != nil {
		return 0, 0, 0, err
	}
	defer s.mu.Unlock()
	for i := range s.schedule {
		schedule = earlier(schedule, s.schedule[i].Due)
	}
	for _, p := range s.partitions {
		for _, r := range p.rows {
			lease = earlier(lease, r.nextResolve())
		}
		for i := range p.segments {
			expiry = earlier(expiry, p.segments[i].expires)
		}
	}
	return schedule, lease, expiry, nil
}

// nextResolve returns when the row next needs a sweep, 0 for never.
func (r *row) nextResolve() core.Time {
	var next core.Time
	for i := range r.batches {
		if at, ok := r.batches[i].NeedsResolving(); ok {
			next = earlier(next, at)
		}
	}
	return next
}

// Expired implements core.Sweeping. The rows come by their earliest time.
func (s *Store) Expired(ctx context.Context, now core.Time, limit int) ([]core.RowKey, error) {
	if err := s.enter(ctx, "expired"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	at := map[core.RowKey]core.Time{}
	for _, p := range s.partitions {
		for group, r := range p.rows {
			if next := r.nextResolve(); next != 0 && next <= now {
				at[core.RowKey{Partition: p.Key, Group: group}] = next
			}
		}
	}
	out := slices.SortedFunc(maps.Keys(at), func(a, b core.RowKey) int {
		return cmp.Or(cmp.Compare(at[a], at[b]), compareKeys(a, b))
	})
	return first(out, limit), nil
}

// ExpiredSegments implements core.Sweeping.
func (s *Store) ExpiredSegments(ctx context.Context, now core.Time, limit int) ([]core.SegmentRef, error) {
	if err := s.enter(ctx, "expired segments"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []core.SegmentRef
	for _, key := range slices.Sorted(maps.Keys(s.partitions)) {
		for i := range s.partitions[key].segments {
			if g := &s.partitions[key].segments[i]; g.expires != 0 && g.expires <= now {
				out = append(out, g.ref())
			}
		}
	}
	return first(out, limit), nil
}

func (g *segment) ref() core.SegmentRef {
	return core.SegmentRef{Partition: g.Partition, First: g.First, Last: g.Last(), AppendedAt: g.AppendedAt, Expires: g.expires}
}

// Segments implements core.Sweeping.
func (s *Store) Segments(ctx context.Context, key core.PartitionKey, from int64, limit int) ([]core.SegmentRef, error) {
	if err := s.enter(ctx, "segments"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	p := s.partitions[key]
	if p == nil {
		return nil, nil
	}
	var out []core.SegmentRef
	for i := p.holding(from); i < len(p.segments) && (limit <= 0 || len(out) < limit); i++ {
		out = append(out, p.segments[i].ref())
	}
	return out, nil
}

// DeleteSegments implements core.Sweeping. Segments that are gone already are passed over.
func (s *Store) DeleteSegments(ctx context.Context, _ core.Time, remove, expiries []core.SegmentRef) error {
	if err := s.enter(ctx, "delete segments"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, ref := range expiries {
		if p := s.partitions[ref.Partition]; p != nil {
			for i := range p.segments {
				if p.segments[i].First == ref.First {
					p.segments[i].expires = ref.Expires
				}
			}
		}
	}
	for _, ref := range remove {
		p := s.partitions[ref.Partition]
		if p == nil {
			continue
		}
		p.segments = slices.DeleteFunc(p.segments, func(g segment) bool {
			if g.First != ref.First {
				return false
			}
			maps.DeleteFunc(p.sources, func(_ string, off int64) bool { return g.First <= off && off <= g.Last() })
			return true
		})
		p.moveStart()
	}
	return nil
}
