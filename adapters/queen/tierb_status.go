package queen

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/core"
)

// topErrors is how many kinds of dead letters the summary names, and deadSample how many dead letters it looks at.
const (
	topErrors  = 10
	deadSample = 1000
)

// statusSummary answers GET /api/v1/status: the dashboard's first page.
func (s *server) statusSummary(c *gin.Context) error {
	v, err := s.parseView(c.Request, maxDLQLimit, time.Hour)
	if err != nil {
		return err
	}
	ctx := c.Request.Context()
	queues, err := s.queuesOf(ctx, &v)
	if err != nil {
		return err
	}
	hist, err := s.historyOf(ctx, &v, queues)
	if err != nil {
		return err
	}
	dead, err := s.deadSummary(ctx, queues)
	if err != nil {
		return err
	}
	var sum tally
	var settled int64
	var leases leaseCount
	list := make([]dict, 0, len(queues))
	now := s.engine.Now()
	for i := range queues {
		q := &queues[i]
		sum.add(q)
		settled += q.settled()
		held, err := s.leasesOf(ctx, &q.Queue)
		if err != nil {
			return err
		}
		leases.add(&held)
		list = append(list, q.summary(hist.queues[q.Name], hist.over(), now))
	}
	f := &hist.sum
	return answerJSON(c.Writer, dict{
		"timeRange": v.timeRange(), "bucketMinutes": hist.minutes(), "pointCount": len(hist.buckets), "queues": list,
		"messages": dict{
			"total": sum.total, "pending": sum.pending, "processing": sum.processing, "completed": settled, "failed": f[figureFailed],
			"deadLetter": sum.dead, "oldestAgeSeconds": age(sum.oldest, now),
			"requests":        dict{"push": f[figurePushCalls], "pop": f[figurePops] + f[figureEmpty]},
			"batchEfficiency": dict{"push": ratio(f[figurePushed]+f[figureDuplicates], f[figurePushCalls]), "pop": ratio(f[figurePopped], f[figurePops])},
		},
		"leases":          dict{"active": leases.active, "partitionsWithLeases": leases.partitions, "totalBatchSize": leases.messages, "totalAcked": f[figureDone]},
		"deadLetterQueue": dead,
		"errors":          dict{"ackFailed": f[figureFailed], "dbErrors": 0, "dlqMessages": f[figureDead]},
		"throughput":      hist.throughput(),
		"rates":           rateDict(f, hist.over()), "statsAge": 0,
	})
}

// leaseCount are the live leases of all groups.
type leaseCount struct{ active, partitions, messages int64 }

func (n *leaseCount) add(m *leaseCount) {
	n.active += m.active
	n.partitions += m.partitions
	n.messages += m.messages
}

func (s *server) leasesOf(ctx context.Context, q *core.Queue) (n leaseCount, err error) {
	groups, err := s.groupsOf(ctx, q)
	leased := map[core.PartitionKey]bool{}
	for i := range groups {
		for j := range groups[i].stats.Partitions {
			if p := &groups[i].stats.Partitions[j]; p.Leases > 0 {
				n.active += p.Leases
				n.messages += p.Leased.Messages
				leased[p.Partition.Key] = true
			}
		}
	}
	n.partitions = int64(len(leased))
	return n, err
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(int64(float64(a)/float64(b)*100+0.5)) / 100
}

// summary is a queue as the free-form bodies show it.
func (q *queueView) summary(f figures, over time.Duration, now core.Time) dict {
	return dict{
		"id": q.ID, "name": q.Name, "queueName": q.Name, "namespace": q.Options.Namespace, "task": q.Options.Task,
		"partitions": len(q.stats.Partitions), "messages": q.messages(), "totalConsumed": q.settled(), "retainedBytes": q.bytes,
		"oldestAgeSeconds": q.oldestAge(now), "rates": rateDict(&f, over), "counts": countDict(&f),
		"leases": q.stats.Total.Leases, "parkedConsumers": q.stats.ClaimsWaiting,
	}
}

// rateDict shows what happened per second.
func rateDict(f *figures, over time.Duration) dict {
	return dict{
		"pushPerSecond": perSecond(f[figurePushed], over), "popPerSecond": perSecond(f[figurePopped], over),
		"ackPerSecond": perSecond(f[figureDone], over), "emptyPerSecond": perSecond(f[figureEmpty], over),
		"failedPerSecond": perSecond(f[figureFailed], over),
	}
}

// countDict shows what happened in all.
func countDict(f *figures) dict {
	return dict{
		"pushMessages": f[figurePushed], "pushRequests": f[figurePushCalls], "duplicates": f[figureDuplicates],
		"popMessages": f[figurePopped], "popCount": f[figurePops], "popEmpty": f[figureEmpty],
		"ackSuccess": f[figureDone], "ackFailed": f[figureFailed], "retried": f[figureRetried], "expired": f[figureExpired],
		"deadLetters": f[figureDead], "avgLagMs": ratio(f[figureLag], f[figureLagged]), "maxLagMs": f[figureLagMax],
	}
}

// deadSummary sums up the dead letters of queues: how many there are, and what they died of.
func (s *server) deadSummary(ctx context.Context, queues []queueView) (dict, error) {
	var total int64
	partitions := map[core.PartitionKey]bool{}
	errors := map[string]int{}
	for i := range queues {
		if queues[i].dead == 0 {
			continue
		}
		list, n, err := s.engine.DeadLetters(ctx, core.DeadLetterFilter{Queue: queues[i].ID, Limit: deadSample})
		if err != nil {
			return nil, err
		}
		total += n
		for j := range list {
			partitions[list[j].Partition] = true
			errors[list[j].Error]++
		}
	}
	return dict{"totalMessages": total, "affectedPartitions": len(partitions), "topErrors": topOf(errors)}, nil
}

func topOf(errors map[string]int) []dict {
	out := make([]dict, 0, len(errors))
	for text, n := range errors {
		out = append(out, dict{"error": text, "count": n})
	}
	slices.SortFunc(out, func(a, b dict) int {
		m, _ := a["count"].(int)
		n, _ := b["count"].(int)
		x, _ := a["error"].(string)
		y, _ := b["error"].(string)
		return cmp.Or(cmp.Compare(n, m), cmp.Compare(x, y))
	})
	return out[:min(len(out), topErrors)]
}

// statusQueues answers GET /api/v1/status/queues, newest first.
func (s *server) statusQueues(c *gin.Context) error {
	v, err := s.parseView(c.Request, 100, time.Hour)
	if err != nil {
		return err
	}
	queues, err := s.queuesOf(c.Request.Context(), &v)
	if err != nil {
		return err
	}
	out := []dict{}
	now := s.engine.Now()
	for _, q := range page(queues, v.pageParams) {
		out = append(out, dict{
			"id": q.ID, "name": q.Name, "namespace": q.Options.Namespace, "task": q.Options.Task, "createdAt": stamp(q.CreatedAt),
			"partitions": len(q.stats.Partitions), "messages": q.messages(), "oldestAgeSeconds": q.oldestAge(now),
		})
	}
	return answerJSON(c.Writer, dict{"queues": out, "pagination": v.show(), "total": len(queues)})
}

// statusQueue answers GET /api/v1/status/queues/:queue.
func (s *server) statusQueue(c *gin.Context) error {
	name, err := pathName(c, "queue")
	if err != nil {
		return err
	}
	ctx := c.Request.Context()
	q, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	one, err := s.viewOf(ctx, q)
	if err != nil {
		return err
	}
	dead, err := s.deadByPartition(ctx, q, one.stats.Partitions)
	if err != nil {
		return err
	}
	now := s.engine.Now()
	parts := make([]dict, 0, len(one.stats.Partitions))
	for i := range one.stats.Partitions {
		p := &one.stats.Partitions[i]
		pv := queueView{counts: countsOf(p, retained(p).Messages)}
		pv.dead = dead[p.Partition.Key]
		parts = append(parts, dict{
			"id": p.Partition.ID, "name": p.Partition.Name, "createdAt": stamp(p.Partition.CreatedAt), "messages": pv.messages(), "stats": pv.messages(),
			"cursor":        dict{"totalConsumed": consumed(p), "batchesConsumed": 0},
			"oldestMessage": stamp(p.OldestAt), "newestMessage": stamp(p.Log.HeadAt), "lastActivity": stamp(max(p.Log.HeadAt, p.MovedAt)),
			"oldestAgeSeconds": age(p.OldestAt, now),
		})
	}
	o := &q.Options.Queen
	totals := one.messages()
	totals["messages"] = one.messages()
	return answerJSON(c.Writer, dict{
		"queue": dict{
			"id": q.ID, "name": q.Name, "namespace": q.Options.Namespace, "task": q.Options.Task, "createdAt": stamp(q.CreatedAt), "priority": o.Priority,
			"config": dict{
				"leaseTime": o.LeaseTimeSeconds, "retryLimit": o.RetryLimit, "retryDelay": o.RetryDelayMillis, "ttl": o.TTLSeconds,
				"maxQueueSize": o.MaxSize, "deadLetterQueue": o.DeadLetterQueue, "dlqAfterMaxRetries": o.DLQAfterMaxRetries,
				"delayedProcessing": o.DelayedProcessingSeconds, "windowBuffer": o.WindowBufferSeconds, "dedupWindowSeconds": o.DedupWindowSeconds,
				"retentionEnabled": o.RetentionEnabled, "retentionSeconds": o.RetentionSeconds, "completedRetentionSeconds": o.CompletedSeconds,
				"maxWaitTimeSeconds": o.MaxWaitSeconds, "encryptionEnabled": o.EncryptionEnabled,
			},
		},
		"partitions": parts, "totals": totals, "oldestAgeSeconds": one.oldestAge(now),
	})
}

// refreshStats answers POST /api/v1/stats/refresh. Figures are read when they are asked for, so there is nothing to refresh but the history.
func (s *server) refreshStats(c *gin.Context) error {
	if s.o.Meter != nil && s.o.Meter.records != nil {
		if err := s.o.Meter.Flush(c.Request.Context()); err != nil {
			return err
		}
	}
	queues, err := s.engine.Queues(c.Request.Context())
	if err != nil {
		return err
	}
	return answerJSON(c.Writer, dict{"success": true, "queue": dict{"queuesUpdated": len(queues)}, "timestamp": stamp(s.engine.Now())})
}

// plainStatus answers GET /status.
func (s *server) plainStatus(c *gin.Context) error {
	return answerJSON(c.Writer, dict{"status": "ok", "engine": "leasehold"})
}
