package memory

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// Update implements core.Ledger. Nobody else writes while fn runs.
func (s *Store) Update(ctx context.Context, p core.UpdateParams, fn func(core.Tx) (*core.ChangeSet, error)) ([]core.Placed, error) {
	const op = "update"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for attempt := 0; ; attempt++ {
		tx := s.load(p)
		c, err := fn(tx)
		if err != nil {
			return nil, err
		}
		if c.Empty() {
			return nil, nil
		}
		decoded, err := decode(c.Segments)
		if err != nil {
			return nil, err
		}
		out := s.place(c.Segments)
		if err := leftOut(out); err != nil {
			if core.CodeOf(err) == core.CodeConflict && attempt == 0 {
				continue
			}
			return nil, err
		}
		if err := s.check(tx, c); err != nil {
			return nil, err
		}
		return out, s.commit(p.Commit, func() {
			s.purge(p.Now, c.Purge)
			s.free(c.FreeSources)
			s.append(p.Now, c.Segments, decoded, out)
			s.apply(p.Now, c)
			if len(c.Register)+len(c.Unregister) > 0 {
				s.catalog++
			}
		})
	}
}

func leftOut(placed []core.Placed) error {
	for i := range placed {
		switch {
		case placed[i].Gone:
			return &core.Error{Code: core.CodeNoPartition, Op: "update", Item: i}
		case placed[i].First == 0:
			return &core.Error{Code: core.CodeConflict, Op: "update", Item: i}
		}
	}
	return nil
}

// load copies the rows that an Update asks for.
func (s *Store) load(p core.UpdateParams) *tx {
	t := &tx{s: s, rows: map[core.RowKey]*core.Row{}}
	requests := map[core.RowKey]core.RowRequest{}
	for _, r := range p.Rows {
		if had, twice := requests[r.Key]; twice {
			r = merge(had, r)
		}
		requests[r.Key] = r
	}
	for key, req := range requests {
		part := s.partitions[key.Partition]
		if part == nil {
			t.rows[key] = nil
			continue
		}
		out := &core.Row{Key: key, Log: part.log}
		if r := part.rows[key.Group]; r != nil {
			out.Exists, out.Frontier = r.exists, r.frontier
			out.Batches, out.Rest = core.SelectBatches(r.batches, req, r.frontier, p.Now)
			for i := range out.Batches {
				out.Batches[i].Pending = slices.Clone(out.Batches[i].Pending)
			}
		}
		t.rows[key] = out
	}
	return t
}

// merge makes one request of two for the same row. Two different leases load everything, which is more than asked.
func merge(a, b core.RowRequest) core.RowRequest {
	a.Must = a.Must || b.Must
	a.All = a.All || b.All || a.Lease != uuid.Nil && b.Lease != uuid.Nil && a.Lease != b.Lease
	a.Offsets = append(slices.Clone(a.Offsets), b.Offsets...)
	a.Due = max(a.Due, b.Due)
	if a.Lease == uuid.Nil {
		a.Lease = b.Lease
	}
	return a
}

// tx is what fn of an Update sees. The store is locked while it lives.
type tx struct {
	s    *Store
	rows map[core.RowKey]*core.Row
}

// Row implements core.Tx.
func (t *tx) Row(key core.RowKey) *core.Row { return t.rows[key] }

// Headers implements core.Tx.
func (t *tx) Headers(p core.PartitionKey, first, last int64) ([]core.SegmentHeader, error) {
	return t.s.headers(core.HeadersParams{Partition: p, From: first, To: last}), nil
}

// Read implements core.Tx.
func (t *tx) Read(p core.PartitionKey, offsets core.Runs) ([]core.Message, error) {
	return t.s.read(core.ReadParams{Partition: p, Offsets: offsets})
}

// Log implements core.Tx.
func (t *tx) Log(p core.PartitionKey) (core.LogState, bool) {
	if part := t.s.partitions[p]; part != nil {
		return part.log, true
	}
	return core.LogState{}, false
}

// DeadLetter implements core.Tx.
func (t *tx) DeadLetter(id uuid.UUID) (core.DeadLetter, bool, error) {
	d, ok := t.s.dead[id]
	return copyDead(d), ok, nil
}

// Prefetch implements core.Tx.
func (t *tx) Prefetch(ranges []core.HeadersParams) ([][]core.SegmentHeader, error) {
	out := make([][]core.SegmentHeader, len(ranges))
	for i := range ranges {
		out[i] = t.s.headers(ranges[i])
	}
	return out, nil
}

// Catalog implements core.Tx.
func (t *tx) Catalog() int64 { return t.s.catalog }

// Recalled implements core.TxEntries.
func (*tx) Recalled() bool { return false }

// Scheduled implements core.Tx.
func (t *tx) Scheduled(seqs []int64) ([]int64, error) {
	there := make(map[int64]bool, len(t.s.schedule))
	for i := range t.s.schedule {
		there[t.s.schedule[i].Seq] = true
	}
	return slices.DeleteFunc(slices.Clone(seqs), func(seq int64) bool { return !there[seq] }), nil
}

func copyDead(d core.DeadLetter) core.DeadLetter {
	d.Message.Payload = slices.Clone(d.Message.Payload)
	return d
}

// check refuses a change set that cannot be applied whole.
func (s *Store) check(t *tx, c *core.ChangeSet) error {
	const op = "update"
	for i := range c.Rows {
		key := c.Rows[i].Key
		if _, asked := t.rows[key]; !asked {
			return core.Errorf(core.CodeInternal, op, "row %d/%q is written but was not locked", key.Partition, key.Group)
		}
		part := s.partitions[key.Partition]
		if part == nil {
			return core.Errorf(core.CodeNoPartition, op, "partition %d does not exist", key.Partition)
		}
		old := part.rows[key.Group]
		if slices.Contains(c.Purge, key.Partition) {
			old = nil
		}
		if exclusives(change(old, &c.Rows[i])) > 1 {
			return core.Errorf(core.CodeConflict, op, "row %d/%q would have two exclusive leases", key.Partition, key.Group)
		}
	}
	for i := range c.Schedule {
		seg := &c.Schedule[i].Segment
		if s.partitions[seg.Partition] == nil {
			return core.Errorf(core.CodeNoPartition, op, "partition %d does not exist", seg.Partition)
		}
		if _, err := decode([]core.NewSegment{*seg}); err != nil {
			return err
		}
	}
	for i := range c.DeadLetters {
		if s.partitions[c.DeadLetters[i].Partition] == nil {
			return core.Errorf(core.CodeNoPartition, op, "partition %d does not exist", c.DeadLetters[i].Partition)
		}
	}
	for i := range c.Register {
		if s.queues[c.Register[i].Queue] == nil {
			return core.Errorf(core.CodeNoQueue, op, "queue %s does not exist", c.Register[i].Queue)
		}
	}
	return nil
}

func exclusives(r *row) int {
	n := 0
	for i := range r.batches {
		if b := &r.batches[i]; b.State == core.BatchLeased && b.Exclusive {
			n++
		}
	}
	return n
}
