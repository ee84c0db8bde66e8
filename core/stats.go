package core

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// statsFresh is how long figures of a queue with many partitions are kept.
const (
	statsFresh      = time.Second
	statsPartitions = 64
)

// statsCache keeps the figures of a queue's groups.
type statsCache struct {
	mu   sync.Mutex
	sets map[string]cachedStats
}

type cachedStats struct {
	at    Time
	stats QueueStats
}

// gaugeCache keeps what metrics showed last.
type gaugeCache struct {
	mu     sync.Mutex
	at     Time
	gauges []Gauge
}

// QueueStats counts a queue for a group ("" is QueueModeGroup). Figures of queues with many partitions may lag by a second.
func (e *Engine) QueueStats(ctx context.Context, name, group string) (QueueStats, error) {
	en, err := e.queue(ctx, "queue stats", name)
	if err != nil {
		return QueueStats{}, err
	}
	if group == "" {
		group = QueueModeGroup
	}
	now := e.clock.Now()
	many := len(en.partitions()) > statsPartitions
	if many {
		en.stats.mu.Lock()
		c, ok := en.stats.sets[group]
		en.stats.mu.Unlock()
		if ok && now > c.at && now < c.at.Add(statsFresh) {
			return c.stats, nil
		}
	}
	s, err := e.countQueue(ctx, en, group, now)
	if err != nil {
		return QueueStats{}, WrapError(CodeInternal, "queue stats", err)
	}
	if many {
		en.stats.mu.Lock()
		if en.stats.sets == nil {
			en.stats.sets = map[string]cachedStats{}
		}
		en.stats.sets[group] = cachedStats{now, s}
		en.stats.mu.Unlock()
	}
	return s, nil
}

// countQueue sums up what a group has not settled, without a scan: differences of running totals, and what batches say.
// It is one moment's picture when no commit comes between its reads, which it tries for a few times.
func (e *Engine) countQueue(ctx context.Context, en *entry, group string, now Time) (QueueStats, error) {
	for range 2 {
		before, quiet := e.commits.Load(), e.running.Load() == 0
		out, err := e.readCounts(ctx, en, group, now)
		if err != nil || quiet && e.commits.Load() == before {
			return out, err
		}
	}
	return e.readCounts(ctx, en, group, now)
}

func (e *Engine) readCounts(ctx context.Context, en *entry, group string, now Time) (QueueStats, error) {
	id := en.q().ID
	parts, err := e.store.Partitions(ctx, id)
	if err != nil {
		return QueueStats{}, err
	}
	rows, err := e.store.Rows(ctx, RowsParams{Queue: id, Group: group, Now: now})
	if err != nil {
		return QueueStats{}, err
	}
	scheduled, err := e.store.ScheduledTotals(ctx, id)
	if err != nil {
		return QueueStats{}, err
	}
	start, err := e.groupStart(ctx, id, group)
	if err != nil {
		return QueueStats{}, err
	}
	byPart := make(map[PartitionKey]*RowSummary, len(rows))
	for i := range rows {
		byPart[rows[i].Key.Partition] = &rows[i]
	}
	out := QueueStats{Partitions: make([]Stats, len(parts))}
	for i := range parts {
		s := e.countPartition(ctx, &parts[i], byPart[parts[i].Key], start)
		s.Scheduled = scheduled[parts[i].Key]
		s.Pending = s.Pending.Plus(s.Scheduled)
		out.Partitions[i] = s
		out.Total.add(&s)
	}
	out.ClaimsWaiting = int(en.claimsWaiting.Load())
	out.PushesWaiting, out.SettlesWaiting = int(en.heldCount[0].Load()), int(en.heldCount[1].Load())
	out.InFlight = out.ClaimsWaiting + out.PushesWaiting + out.SettlesWaiting
	return out, nil
}

func (t *Stats) add(s *Stats) {
	t.Pending, t.Leased = t.Pending.Plus(s.Pending), t.Leased.Plus(s.Leased)
	t.Later, t.Scheduled = t.Later.Plus(s.Later), t.Scheduled.Plus(s.Scheduled)
	t.Leases += s.Leases
	if s.OldestAt != 0 && (t.OldestAt == 0 || s.OldestAt < t.OldestAt) {
		t.OldestAt = s.OldestAt
	}
}

// groupStart returns where a group begins in partitions in which it has no row; 0 is the log's start.
func (e *Engine) groupStart(ctx context.Context, queue uuid.UUID, group string) (Time, error) {
	if group == QueueModeGroup {
		return 0, nil
	}
	regs, err := e.store.Registrations(ctx, queue)
	for i := range regs {
		if regs[i].Group == group {
			return regs[i].Start, err
		}
	}
	return 0, err
}

// beginning returns the first offset appended at or after start, and the totals before it.
func (e *Engine) beginning(ctx context.Context, p *PartitionLog, start Time) (int64, Totals) {
	first, err := e.store.Locate(ctx, p.Key, start)
	if err != nil || first <= p.Log.Start {
		return p.Log.Start, p.Log.StartTotals
	}
	if segs, err := e.store.Headers(ctx, HeadersParams{Partition: p.Key, From: first, To: first, Limit: 1}); err == nil && len(segs) > 0 {
		return first, segs[0].TotalsUpto(first - 1)
	}
	return p.Log.Head + 1, p.Log.HeadTotals
}

// countPartition counts one partition; a group without a row there has before it what its registration says.
func (e *Engine) countPartition(ctx context.Context, p *PartitionLog, r *RowSummary, start Time) Stats {
	s := Stats{Partition: p.Partition, Log: p.Log}
	from, oldest := p.Log.StartTotals, p.Log.Start
	if r == nil && start != 0 {
		oldest, from = e.beginning(ctx, p, start)
	}
	if r != nil {
		if r.Frontier.Offset >= p.Log.Start {
			from, oldest = r.Frontier.Before, r.Frontier.Offset+1
		}
		s.Leased, s.Leases, s.Retries, s.ExclusiveUntil = r.Leased, r.Leases, r.Frontier.Retries, r.ExclusiveUntil
		s.MovedAt = r.Frontier.MovedAt
		s.Pending = r.Leased.Plus(r.Waiting).Minus(r.CoveredAbove)
		if r.OldestPending > 0 {
			oldest = min(oldest, r.OldestPending)
		}
		s.Later = r.Later
		if n := r.Leased.Messages; n > 0 {
			s.MeanLeaseLeft = time.Duration(r.LeaseLeft/n) * time.Millisecond
		}
	}
	s.Pending = s.Pending.Plus(p.Log.HeadTotals.Minus(from))
	if s.Pending.Messages > 0 && oldest <= p.Log.Head {
		segs, err := e.store.Headers(ctx, HeadersParams{Partition: p.Key, From: oldest, To: p.Log.Head, Limit: 1})
		if err == nil && len(segs) > 0 {
			s.OldestAt = segs[0].Messages[max(0, oldest-segs[0].First)].CreatedAt
		}
	}
	return s
}

// Gauges returns the figures of all queues for metrics; it may scan and is cached for a second.
func (e *Engine) Gauges(ctx context.Context) ([]Gauge, error) {
	e.gauges.mu.Lock()
	defer e.gauges.mu.Unlock()
	now := e.clock.Now()
	if e.gauges.gauges != nil && now > e.gauges.at && now < e.gauges.at.Add(statsFresh) {
		return e.gauges.gauges, nil
	}
	out := []Gauge{}
	for _, en := range e.cat.all() {
		s, err := e.QueueStats(ctx, en.q().Name, QueueModeGroup)
		if CodeOf(err) == CodeNoQueue {
			continue
		}
		if err != nil {
			return nil, err
		}
		t := &s.Total
		out = append(out, Gauge{
			Queue: en.q().Name, Depth: t.Pending.Messages, Bytes: t.Pending.Bytes, OldestAt: t.OldestAt, Leases: t.Leases,
			ClaimsWaiting: s.ClaimsWaiting,
		})
	}
	e.gauges.at, e.gauges.gauges = now, out
	return out, nil
}

// DeadLetters returns dead letters of exclusive groups, newest failure first, and how many match in all.
func (e *Engine) DeadLetters(ctx context.Context, f DeadLetterFilter) ([]DeadLetter, int64, error) {
	out, n, err := e.store.DeadLetters(ctx, f)
	return out, n, WrapError(CodeInternal, "dead letters", err)
}
