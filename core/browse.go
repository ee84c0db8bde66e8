package core

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"
)

// Item is a message that its group has not settled, with its place among what waits.
type Item struct {
	Message
	Turn   Turn
	TurnAt Time
	// Attempts counts deliveries so far.
	Attempts int32
	// Leased tells that a consumer holds it, until Until.
	Leased bool
	// Later tells that it is not claimable before Until: retried for later, or delayed and not yet in the log.
	Later bool
	Until Time
}

// ItemsParams are the arguments of Engine.Items.
type ItemsParams struct {
	Queue string
	// Ordinal is the partition's number.
	Ordinal int32
	// Group is the consumer group; "" means QueueModeGroup.
	Group string
	// From is the place at which the list begins, itself included; zero is the beginning.
	From ItemRef
	// Limit bounds the list.
	Limit int
	// Unleased leaves out what is leased. Later lists what is not due yet instead of the rest.
	Unleased, Later bool
}

// stretch are pending offsets that share a place or have their own turns.
type stretch struct {
	runs  Runs
	batch *Batch
}

// Items lists what a group has not settled in one partition, in the order of turns, payloads included. Nothing is leased
// and nothing counted.
func (e *Engine) Items(ctx context.Context, x ItemsParams) ([]Item, error) {
	pt, err := e.partAt(ctx, "list items", x.Queue, x.Ordinal)
	if err != nil {
		return nil, err
	}
	if x.Group == "" {
		x.Group = QueueModeGroup
	}
	items, err := e.items(ctx, pt, &x)
	return items, WrapError(CodeInternal, "list items", err)
}

func (e *Engine) items(ctx context.Context, p *part, x *ItemsParams) ([]Item, error) {
	var log LogState
	if err := e.call(func() { log = p.log }); err != nil {
		return nil, err
	}
	batches, f, err := e.store.Batches(ctx, RowKey{p.Key, x.Group})
	if err != nil {
		return nil, err
	}
	places := x.places(stretches(log, f, batches, x))
	var wanted Runs
	for i := range places {
		wanted = wanted.Add(Run{places[i].Offset, places[i].Offset})
	}
	msgs, err := e.store.Read(ctx, ReadParams{Partition: p.Key, Offsets: wanted})
	if err != nil {
		return nil, err
	}
	out := make([]Item, 0, len(msgs))
	for i := range places {
		it := &places[i]
		at, ok := slices.BinarySearchFunc(msgs, it.Offset, func(m Message, off int64) int { return cmp.Compare(m.Offset, off) })
		if !ok {
			continue
		}
		it.Message = msgs[at]
		if it.Turn == OwnTurn(it.Offset) {
			it.TurnAt = it.AppendedAt
		}
		if it.Attempts < 0 {
			it.Attempts = it.MessageHeader.Attempts
		}
		out = append(out, *it)
	}
	return out, nil
}

// stretches returns what is pending for a list: in batches, and in the log above the frontier.
func stretches(log LogState, f Frontier, batches []Batch, x *ItemsParams) (out []stretch) {
	for i := range batches {
		b := &batches[i]
		later := b.State == BatchWaiting && b.Redraw
		if len(b.Pending) > 0 && later == x.Later && (b.State != BatchLeased || !x.Unleased) {
			out = append(out, stretch{b.Pending, b})
		}
	}
	first := max(f.Offset+1, log.Start)
	if x.Later || first > log.Head {
		return out
	}
	rest := Runs{{first, log.Head}}
	for i := range batches {
		if b := &batches[i]; b.Last > f.Offset {
			rest = rest.Remove(Run{b.First, b.Last})
		}
	}
	return append(out, stretch{rest, nil})
}

// places puts pending offsets in the order of turns, from x.From on, at most x.Limit of them.
func (x *ItemsParams) places(from []stretch) []Item {
	var out []Item
	for _, s := range from {
		n := 0
		s.runs.Offsets(func(off int64) bool {
			it := Item{Turn: OwnTurn(off), Attempts: -1}
			it.Offset = off
			if b := s.batch; b != nil {
				it.Attempts, it.Leased, it.Later = b.Attempts, b.State == BatchLeased, b.State == BatchWaiting && b.Redraw
				if it.Leased || it.Later {
					it.Until = b.Until
				}
				if b.Turn != 0 {
					it.Turn, it.TurnAt = b.Turn, b.TurnAt
				}
			}
			if it.Turn < x.From.Turn || it.Turn == x.From.Turn && off < x.From.Offset {
				return true
			}
			out = append(out, it)
			n++
			return n < x.Limit
		})
	}
	slices.SortFunc(out, func(a, b Item) int { return cmp.Or(cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Offset, b.Offset)) })
	if len(out) > x.Limit {
		out = out[:x.Limit]
	}
	slices.SortStableFunc(out, func(a, b Item) int { return cmp.Or(cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Offset, b.Offset)) })
	return out
}

// MessageOf returns the newest message of a partition with a transaction id that the acknowledgement window holds, false when there is none.
func (e *Engine) MessageOf(ctx context.Context, partition uuid.UUID, transaction string) (Message, bool, error) {
	p, err := e.partition(ctx, partition)
	if err != nil || p == nil {
		return Message{}, false, err
	}
	offs, err := e.candidates(ctx, p, transaction)
	if err != nil || len(offs) == 0 {
		return Message{}, false, WrapError(CodeInternal, "find message", err)
	}
	off := offs[len(offs)-1]
	msgs, err := e.store.Read(ctx, ReadParams{Partition: p.Key, Offsets: Runs{{off, off}}})
	if err != nil || len(msgs) == 0 {
		return Message{}, false, WrapError(CodeInternal, "find message", err)
	}
	return msgs[0], true, nil
}

// ScheduledItem is a delayed message that is not in the log yet.
type ScheduledItem struct {
	Message
	// Seq and Index name it: the sequence of its push and its index in it.
	Seq   int64
	Index int
	Due   Time
}

// ScheduledItems lists delayed messages of a partition in order of arrival, from sequence after (exclusive) on, at most
// limit pushes of them.
func (e *Engine) ScheduledItems(ctx context.Context, queue string, ordinal int32, after int64, limit int) ([]ScheduledItem, error) {
	pt, err := e.partAt(ctx, "list scheduled", queue, ordinal)
	if err != nil {
		return nil, err
	}
	segs, err := e.store.Scheduled(ctx, ScheduledParams{Partition: pt.Key, After: after, Limit: limit})
	if err != nil {
		return nil, WrapError(CodeInternal, "list scheduled", err)
	}
	var out []ScheduledItem
	for i := range segs {
		s := &segs[i]
		headers, err := DecodeHeaders(s.Segment.Header, s.Segment.Count)
		if err != nil {
			return nil, err
		}
		h := SegmentHeader{Partition: pt.Key, Messages: headers}
		msgs, err := DecodeMessages(&h, 0, len(headers)-1, s.Segment.Body)
		if err != nil {
			return nil, err
		}
		for j := range msgs {
			out = append(out, ScheduledItem{Message: msgs[j], Seq: s.Seq, Index: j, Due: s.Due})
		}
	}
	return out, nil
}
