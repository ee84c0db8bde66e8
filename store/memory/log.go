package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/internal/placing"
)

// Append implements core.Log.
func (s *Store) Append(ctx context.Context, p core.AppendParams) ([]core.Placed, error) {
	if err := s.enter(ctx, "append"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	decoded, err := decode(p.Segments)
	if err != nil {
		return nil, err
	}
	if p.CheckCatalog && p.Catalog != s.catalog {
		return nil, core.Errorf(core.CodeConflict, "append", "queues or registrations changed")
	}
	segments, err := s.fillGaps(&p)
	if err != nil {
		return nil, err
	}
	for i := range segments {
		if segments[i].Count != p.Segments[i].Count && segments[i].Count > 0 {
			one, err := decode(segments[i : i+1])
			if err != nil {
				return nil, err
			}
			decoded[i] = one[0]
		}
	}
	out := s.place(segments)
	if !slices.ContainsFunc(out, func(p core.Placed) bool { return p.First != 0 }) {
		return out, nil
	}
	return out, s.commit(p.Commit, func() { s.append(p.Now, segments, decoded, out) })
}

// fillGaps asks Moved about the partitions whose head is not what their segments know.
func (s *Store) fillGaps(p *core.AppendParams) ([]core.NewSegment, error) {
	logs := func(key core.PartitionKey) (core.LogState, bool) {
		if part := s.partitions[key]; part != nil {
			return part.log, true
		}
		return core.LogState{}, false
	}
	gaps := placing.Gaps(p.Segments, logs)
	if p.Moved == nil || len(gaps) == 0 {
		return p.Segments, nil
	}
	return placing.Fill(p, gaps, logs, func(g placing.Gap) ([]core.SegmentHeader, error) {
		return s.headers(core.HeadersParams{Partition: g.Partition, From: g.From, To: g.To}), nil
	})
}

// decode checks segments before anything is changed.
func decode(segments []core.NewSegment) ([][]core.MessageHeader, error) {
	out := make([][]core.MessageHeader, len(segments))
	for i := range segments {
		if segments[i].Count <= 0 {
			return nil, core.Errorf(core.CodeInvalid, "append", "segment %d has no messages", i)
		}
		h, err := core.DecodeHeaders(segments[i].Header, segments[i].Count)
		if err != nil {
			return nil, fmt.Errorf("segment %d: %w", i, err)
		}
		out[i] = h
	}
	return out, nil
}

// place decides which segments go in, and leaves a mark in First of those.
func (s *Store) place(segments []core.NewSegment) []core.Placed {
	out := make([]core.Placed, len(segments))
	broken := map[int]bool{}
	for i := range segments {
		p := s.partitions[segments[i].Partition]
		if p == nil {
			out[i].Gone = true
		} else {
			out[i].Log = p.log
		}
		if p == nil || segments[i].Count == 0 || segments[i].Know >= 0 && segments[i].Know != p.log.Head {
			broken[segments[i].Group] = true
		} else {
			out[i].First = -1
		}
	}
	delete(broken, 0)
	for i := range segments {
		if broken[segments[i].Group] {
			out[i].First = 0
		}
	}
	return out
}

// append writes the segments that place let in and fills in where they went.
func (s *Store) append(now core.Time, segments []core.NewSegment, decoded [][]core.MessageHeader, out []core.Placed) {
	for i := range segments {
		if out[i].First == 0 {
			continue
		}
		n, p := &segments[i], s.partitions[segments[i].Partition]
		at := max(now, p.log.HeadAt)
		out[i].First, out[i].AppendedAt = p.log.Head+1, at
		p.segments = append(p.segments, segment{
			SegmentHeader: core.SegmentHeader{
				Partition: n.Partition, First: p.log.Head + 1, AppendedAt: at, Before: p.log.HeadTotals, Messages: decoded[i],
			},
			expires: n.Expires, body: slices.Clone(n.Body),
		})
		for _, src := range n.Sources {
			p.sources[src.SourceID] = p.log.Head + 1 + int64(src.Index)
		}
		p.log.Head += int64(n.Count)
		p.log.HeadAt = at
		p.log.HeadTotals = p.log.HeadTotals.Plus(n.Totals)
	}
	for i := range segments {
		if p := s.partitions[segments[i].Partition]; p != nil {
			out[i].Log = p.log
		}
	}
}

// Headers implements core.Log.
func (s *Store) Headers(ctx context.Context, p core.HeadersParams) ([]core.SegmentHeader, error) {
	if err := s.enter(ctx, "headers"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.headers(p), nil
}

func (s *Store) headers(p core.HeadersParams) []core.SegmentHeader {
	part := s.partitions[p.Partition]
	if part == nil || p.To < p.From {
		return nil
	}
	var out []core.SegmentHeader
	for i := part.holding(p.From); i < len(part.segments); i++ {
		g := &part.segments[i]
		if g.First > p.To || p.Limit > 0 && len(out) == p.Limit {
			break
		}
		h := g.SegmentHeader
		h.Messages = slices.Clone(h.Messages)
		out = append(out, h)
	}
	return out
}

// Read implements core.Log.
func (s *Store) Read(ctx context.Context, p core.ReadParams) ([]core.Message, error) {
	if err := s.enter(ctx, "read"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.read(p)
}

func (s *Store) read(p core.ReadParams) ([]core.Message, error) {
	part := s.partitions[p.Partition]
	if part == nil {
		return nil, nil
	}
	var out []core.Message
	var used int64
	for _, r := range p.Offsets {
		for off := r.First; off <= r.Last; off++ {
			i := part.holding(off)
			if i == len(part.segments) {
				return out, nil
			}
			g := &part.segments[i]
			if off = max(off, g.First); off > r.Last {
				break
			}
			k := int(off - g.First)
			from, to := core.BodyRange(g.Messages, k, k)
			if used += to - from; p.Bytes > 0 && used > p.Bytes && len(out) > 0 {
				return out, nil
			}
			ms, err := core.DecodeMessages(&g.SegmentHeader, k, k, slices.Clone(g.body[from:to]))
			if err != nil {
				return nil, err
			}
			out = append(out, ms...)
		}
	}
	return out, nil
}

// holding returns the index of the segment that holds an offset, or of the next one if retention took that.
func (p *partition) holding(off int64) int {
	i, _ := slices.BinarySearchFunc(p.segments, off, func(g segment, off int64) int { return cmp.Compare(g.Last(), off) })
	return i
}

// Locate implements core.Log.
func (s *Store) Locate(ctx context.Context, key core.PartitionKey, t core.Time) (int64, error) {
	const op = "locate"
	if err := s.enter(ctx, op); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	p := s.partitions[key]
	if p == nil {
		return 0, core.Errorf(core.CodeNoPartition, op, "partition %d does not exist", key)
	}
	for i := range p.segments {
		if p.segments[i].AppendedAt >= t {
			return p.segments[i].First, nil
		}
	}
	return p.log.Head + 1, nil
}

// Source implements core.Log.
func (s *Store) Source(ctx context.Context, key core.PartitionKey, id string) (int64, error) {
	if err := s.enter(ctx, "source"); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	if p := s.partitions[key]; p != nil {
		return p.sources[id], nil
	}
	return 0, nil
}
