package core

import (
	"context"
	"slices"
)

// Standing is where a message stands with a consumer group.
type Standing uint8

// The standings.
const (
	// StandingPending waits to be claimed, or to be claimed again.
	StandingPending Standing = iota
	// StandingLeased is in the hands of a consumer.
	StandingLeased
	// StandingSettled is behind the group.
	StandingSettled
)

// GroupView is what one group has and has not settled of a partition, as it was at one moment.
type GroupView struct {
	Group string
	// Touched tells that the group has claimed from the partition, or was placed in it.
	Touched  bool
	frontier Frontier
	batches  []Batch
}

// ViewGroup returns the view of a group on a partition, by ordinal.
func (e *Engine) ViewGroup(ctx context.Context, queue string, ordinal int32, group string) (GroupView, error) {
	p, err := e.partAt(ctx, "view group", queue, ordinal)
	if err != nil {
		return GroupView{}, err
	}
	if group == "" {
		group = QueueModeGroup
	}
	v := GroupView{Group: group}
	v.batches, v.frontier, err = e.store.Batches(ctx, RowKey{p.Key, group})
	if err != nil {
		return v, WrapError(CodeInternal, "view group", err)
	}
	v.Touched = v.frontier != (Frontier{}) || len(v.batches) > 0
	return v, nil
}

// Of returns where the message at an offset stands, and until when it is leased or waits to be due; 0 is no such time.
func (v *GroupView) Of(offset int64) (Standing, Time) {
	for i := range v.batches {
		b := &v.batches[i]
		if offset < b.First || offset > b.Last {
			continue
		}
		if b.Pending.Has(offset) {
			if b.State == BatchLeased {
				return StandingLeased, b.Until
			}
			if b.Redraw {
				return StandingPending, b.Until
			}
			return StandingPending, 0
		}
		if offset > v.frontier.Offset {
			return StandingSettled, 0
		}
	}
	if offset <= v.frontier.Offset {
		return StandingSettled, 0
	}
	return StandingPending, 0
}

// Retries returns the counter of failed deliveries of what is claimed next.
func (v *GroupView) Retries() int32 { return v.frontier.Retries }

// Groups returns the names of the groups that have touched a queue or are registered on it, in byte order.
func (e *Engine) Groups(ctx context.Context, queue string) ([]string, error) {
	en, err := e.queue(ctx, "groups", queue)
	if err != nil {
		return nil, err
	}
	rows, err := e.store.Rows(ctx, RowsParams{Queue: en.q().ID, Now: e.clock.Now()})
	if err != nil {
		return nil, WrapError(CodeInternal, "groups", err)
	}
	regs, err := e.store.Registrations(ctx, en.q().ID)
	if err != nil {
		return nil, WrapError(CodeInternal, "groups", err)
	}
	var names []string
	for i := range rows {
		names = append(names, rows[i].Key.Group)
	}
	for i := range regs {
		names = append(names, regs[i].Group)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// LogParams are the arguments of Engine.LogHeaders.
type LogParams struct {
	Queue string
	// Ordinal is the partition's number.
	Ordinal int32
	// Before bounds the offsets from above, itself excluded; 0 is the log's end.
	Before int64
	// Limit bounds how many headers are returned, at least 1.
	Limit int
}

// LogEntry is a stored message without its payload.
type LogEntry struct {
	MessageHeader
	Offset     int64
	AppendedAt Time
}

// LogHeaders returns the stored messages of a partition, settled or not, newest first. An answer that is shorter than Limit has reached the
// log's start.
func (e *Engine) LogHeaders(ctx context.Context, x LogParams) ([]LogEntry, error) {
	p, err := e.partAt(ctx, "read log", x.Queue, x.Ordinal)
	if err != nil {
		return nil, err
	}
	var log LogState
	if err := e.call(func() { log = p.log }); err != nil {
		return nil, err
	}
	last := log.Head
	if x.Before > 0 {
		last = min(last, x.Before-1)
	}
	var out []LogEntry
	for last >= log.Start && len(out) < x.Limit {
		from := max(log.Start, last-int64(x.Limit-len(out))+1)
		segs, err := e.store.Headers(ctx, HeadersParams{Partition: p.Key, From: from, To: last})
		if err != nil {
			return nil, WrapError(CodeInternal, "read log", err)
		}
		for _, s := range slices.Backward(segs) {
			for i := len(s.Messages) - 1; i >= 0; i-- {
				if off := s.First + int64(i); off >= from && off <= last {
					out = append(out, LogEntry{s.Messages[i], off, s.AppendedAt})
				}
			}
		}
		last = from - 1
	}
	return out, nil
}

// MessagesAt returns stored messages with their payloads by offset, ascending; those that are gone are missing.
func (e *Engine) MessagesAt(ctx context.Context, queue string, ordinal int32, offsets []int64) ([]Message, error) {
	p, err := e.partAt(ctx, "read messages", queue, ordinal)
	if err != nil {
		return nil, err
	}
	var wanted Runs
	for _, off := range offsets {
		wanted = wanted.Add(Run{off, off})
	}
	msgs, err := e.store.Read(ctx, ReadParams{Partition: p.Key, Offsets: wanted})
	return msgs, WrapError(CodeInternal, "read messages", err)
}

func (e *Engine) partAt(ctx context.Context, op, queue string, ordinal int32) (*part, error) {
	en, err := e.queue(ctx, op, queue)
	if err != nil {
		return nil, err
	}
	p, err := found(ctx, e, func() *part { return en.at(ordinal) })
	if err != nil || p != nil {
		return p, err
	}
	return nil, Errorf(CodeNoPartition, op, "queue %q has no partition %d", queue, ordinal)
}
