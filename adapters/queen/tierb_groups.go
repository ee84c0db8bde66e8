package queen

import (
	"cmp"
	"context"
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/core"
)

// A group is behind when its oldest message waits for longer than laggingAfter seconds, and dead when it has something to do and has done
// nothing for deadAfter seconds.
const (
	laggingAfter = 300
	deadAfter    = 60
)

// groupView is a consumer group on one queue. Queue mode is one when somebody has consumed so.
type groupView struct {
	name  string
	queue *core.Queue
	stats core.QueueStats
	reg   *core.Registration
}

// lagOf counts what a group has not settled of a partition's log, leased messages included.
func lagOf(p *core.Stats) int64 { return max(p.Pending.Messages-p.Scheduled.Messages, 0) }

// groupsOf returns the groups of a queue with their figures, by name. A queue that is gone has none.
func (s *server) groupsOf(ctx context.Context, q *core.Queue) ([]groupView, error) {
	names, err := s.engine.Groups(ctx, q.Name)
	if err == nil {
		var regs []core.Registration
		if regs, err = s.engine.Registrations(ctx, q.Name); err == nil {
			return s.groupViews(ctx, q, names, regs)
		}
	}
	if isGone(err) {
		return nil, nil
	}
	return nil, err
}

func (s *server) groupViews(ctx context.Context, q *core.Queue, names []string, regs []core.Registration) ([]groupView, error) {
	out := make([]groupView, 0, len(names))
	for _, name := range names {
		stats, err := s.engine.QueueStats(ctx, q.Name, name)
		if isGone(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		g := groupView{name: name, queue: q, stats: stats}
		for i := range regs {
			if regs[i].Group == name {
				g.reg = &regs[i]
			}
		}
		out = append(out, g)
	}
	return out, nil
}

// allGroups returns the groups of all queues, by queue.
func (s *server) allGroups(ctx context.Context) ([]groupView, error) {
	queues, err := s.engine.Queues(ctx)
	if err != nil {
		return nil, err
	}
	var out []groupView
	for i := range queues {
		groups, err := s.groupsOf(ctx, &queues[i])
		if err != nil {
			return nil, err
		}
		out = append(out, groups...)
	}
	return out, nil
}

// consumerGroups answers GET /api/v1/consumer-groups: an array with one entry for each group and queue.
func (s *server) consumerGroups(c *gin.Context) error {
	groups, err := s.allGroups(c.Request.Context())
	if err != nil {
		return err
	}
	out := make([]dict, 0, len(groups))
	now := s.engine.Now()
	for i := range groups {
		out = append(out, groups[i].show(now))
	}
	return answerJSON(c.Writer, out)
}

func (g *groupView) show(now core.Time) dict {
	cursors, behind, members := 0, 0, 0
	var lag int64
	var worst float64
	var moved core.Time
	for i := range g.stats.Partitions {
		p := &g.stats.Partitions[i]
		if p.MovedAt != 0 {
			cursors++
			moved = max(moved, p.MovedAt)
		}
		if n := lagOf(p); n > 0 {
			behind++
			lag += n
			worst = max(worst, age(p.OldestAt, now))
		}
		if p.ExclusiveUntil > now {
			members++
		}
	}
	out := dict{
		"name": g.name, "topics": []string{g.queue.Name}, "queueName": g.queue.Name, "members": members, "partitionCursors": cursors,
		"partitionsWithLag": behind, "totalLag": lag, "maxTimeLag": int64(worst), "storage": "segments", "state": "Stable",
		"subscriptionMode": nil, "subscriptionTimestamp": nil, "subscriptionCreatedAt": nil,
	}
	switch {
	case worst > laggingAfter:
		out["state"] = "Lagging"
	case lag > 0 && members == 0 && age(moved, now) > deadAfter:
		out["state"] = "Dead"
	}
	if g.reg != nil {
		out["subscriptionMode"] = g.reg.StartMode()
		out["subscriptionTimestamp"] = stamp(g.reg.Start)
		out["subscriptionCreatedAt"] = stamp(g.reg.CreatedAt)
	}
	return out
}

// laggingGroups answers GET /api/v1/consumer-groups/lagging: an array with one entry for each group and partition whose oldest message waits
// for minLagSeconds or more, the oldest first.
func (s *server) laggingGroups(c *gin.Context) error {
	v, err := s.parseView(c.Request, maxDLQLimit, 0)
	if err != nil {
		return err
	}
	groups, err := s.allGroups(c.Request.Context())
	if err != nil {
		return err
	}
	type row struct {
		age  float64
		show dict
	}
	var rows []row
	now := s.engine.Now()
	for i := range groups {
		g := &groups[i]
		for j := range g.stats.Partitions {
			p := &g.stats.Partitions[j]
			lag, old := lagOf(p), age(p.OldestAt, now)
			if lag == 0 || old < float64(v.minLag) {
				continue
			}
			rows = append(rows, row{old, dict{
				"consumer_group": g.name, "queue_name": g.queue.Name, "partition_name": p.Partition.Name, "partition_id": p.Partition.ID,
				"worker_id": nil, "offset_lag": lag, "time_lag_seconds": int64(old), "lag_hours": float64(int64(old/36+0.5)) / 100,
				"oldest_unconsumed_at": stamp(p.OldestAt), "last_consumed_at": stamp(p.MovedAt),
			}})
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.age, a.age) })
	out := make([]dict, 0, len(rows))
	for i := range rows {
		out = append(out, rows[i].show)
	}
	return answerJSON(c.Writer, out)
}

// consumerGroup answers GET /api/v1/consumer-groups/:group: an object by queue, empty for a group that nobody knows.
func (s *server) consumerGroup(c *gin.Context) error {
	name, err := pathName(c, "group")
	if err != nil {
		return err
	}
	groups, err := s.allGroups(c.Request.Context())
	if err != nil {
		return err
	}
	out := dict{}
	now := s.engine.Now()
	for i := range groups {
		g := &groups[i]
		if g.name != name {
			continue
		}
		parts := make([]dict, 0, len(g.stats.Partitions))
		for j := range g.stats.Partitions {
			p := &g.stats.Partitions[j]
			parts = append(parts, dict{
				"partition": p.Partition.Name, "partitionId": p.Partition.ID, "workerId": nil, "lastConsumedAt": stamp(p.MovedAt),
				"totalConsumed": consumed(p), "offsetLag": lagOf(p), "timeLagSeconds": int64(age(p.OldestAt, now)),
				"leaseActive": p.ExclusiveUntil > now, "leaseExpiresAt": stamp(p.ExclusiveUntil),
			})
		}
		out[g.queue.Name] = dict{"partitions": parts}
	}
	return answerJSON(c.Writer, out)
}

// consumed counts what a group has settled of a partition since the partition's beginning; what a subscription skipped counts as settled.
func consumed(p *core.Stats) int64 {
	if p.MovedAt == 0 {
		return 0
	}
	return max(p.Log.HeadTotals.Messages-lagOf(p), 0)
}
