package memory

import (
	"cmp"
	"slices"

	"github.com/leasehold/leasehold/core"
)

// change returns a row as it is after a change; the row itself stays as it was.
func change(old *row, c *core.RowChange) *row {
	r := &row{}
	if c.Drop {
		return r
	}
	if old != nil {
		r.exists, r.frontier, r.batches = old.exists, old.frontier, slices.Clone(old.batches)
	}
	if c.Move {
		r.exists, r.frontier = true, c.Frontier
	}
	if c.DeleteAll {
		r.batches = nil
	}
	r.batches = slices.DeleteFunc(r.batches, func(b core.Batch) bool {
		same := func(p core.Batch) bool { return p.ID == b.ID }
		return slices.Contains(c.Delete, b.ID) || slices.ContainsFunc(c.Put, same)
	})
	for _, b := range c.Put {
		b.Pending = slices.Clone(b.Pending)
		r.batches = append(r.batches, b)
	}
	slices.SortFunc(r.batches, func(a, b core.Batch) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.ID, b.ID))
	})
	return r
}

// apply writes a change set that check let pass, segments and purges aside.
func (s *Store) apply(now core.Time, c *core.ChangeSet) {
	for _, r := range c.Records {
		r.At = now
		s.putRecord(r)
	}
	s.schedule = slices.DeleteFunc(s.schedule, func(e core.ScheduledSegment) bool {
		return slices.Contains(c.Unschedule, e.Seq)
	})
	for i := range c.Rows {
		rows := s.partitions[c.Rows[i].Key.Partition].rows
		r := change(rows[c.Rows[i].Key.Group], &c.Rows[i])
		if !r.exists && len(r.batches) == 0 {
			delete(rows, c.Rows[i].Key.Group)
		} else {
			rows[c.Rows[i].Key.Group] = r
		}
	}
	for _, e := range c.Schedule {
		s.lastSeq++
		e.Seq = s.lastSeq
		e.Segment = copySegment(e.Segment)
		e.Segment.Know, e.Segment.Group = -1, 0
		s.schedule = append(s.schedule, e)
	}
	for _, id := range c.DropDeadLetters {
		delete(s.dead, id)
	}
	for _, d := range c.DeadLetters {
		s.dead[d.ID] = copyDead(d)
	}
	for _, key := range c.Unregister {
		if q := s.queues[key.Queue]; q != nil {
			delete(q.registrations, key.Group)
		}
	}
	for _, r := range c.Register {
		q := s.queues[r.Queue]
		if _, exists := q.registrations[r.Group]; !exists {
			q.registrations[r.Group] = r
		}
	}
}

func copySegment(n core.NewSegment) core.NewSegment {
	n.Header, n.Body, n.Sources = slices.Clone(n.Header), slices.Clone(n.Body), slices.Clone(n.Sources)
	return n
}

func (s *Store) purge(now core.Time, keys []core.PartitionKey) {
	for _, key := range keys {
		p := s.partitions[key]
		if p == nil {
			continue
		}
		p.segments = nil
		clear(p.sources)
		p.moveStart()
		for group, r := range p.rows {
			r.batches = nil
			if !r.exists {
				delete(p.rows, group)
				continue
			}
			r.frontier.Offset, r.frontier.Before, r.frontier.MovedAt = p.log.Head, p.log.HeadTotals, now
		}
		s.schedule = slices.DeleteFunc(s.schedule, func(e core.ScheduledSegment) bool { return e.Segment.Partition == key })
	}
}

// moveStart puts the start of the log to its first segment.
func (p *partition) moveStart() {
	if len(p.segments) == 0 {
		p.log.Start, p.log.StartTotals = p.log.Head+1, p.log.HeadTotals
		return
	}
	p.log.Start, p.log.StartTotals = p.segments[0].First, p.segments[0].Before
}

// free frees source ids, before anything that the same change set appends takes them.
func (s *Store) free(keys []core.SourceKey) {
	for _, key := range keys {
		if p := s.partitions[key.Partition]; p != nil {
			delete(p.sources, key.SourceID)
		}
	}
}
