package queen

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/core"
)

// chart is the history that a body shows.
type chart struct {
	span
	points  []point
	buckets map[core.Time]*figures
	queues  map[string]figures
	sum     figures
}

func (h *chart) minutes() int { return int(h.bucket / time.Minute) }

// over is how long the chart's time is.
func (h *chart) over() time.Duration { return max(h.to.Sub(h.from), time.Second) }

// historyOf reads the history of the queues that a query asks for: those in the list, or, where the query filters nothing, all of them, those
// that are gone included.
func (s *server) historyOf(ctx context.Context, v *view, queues []queueView) (*chart, error) {
	h := &chart{span: newSpan(v.from, v.to), buckets: map[core.Time]*figures{}, queues: map[string]figures{}}
	points, err := s.o.Meter.history(ctx, h.span)
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for i := range queues {
		wanted[queues[i].Name] = true
	}
	all := !v.hasQueue && v.namespace == "" && v.task == ""
	for i := range points {
		p := &points[i]
		if !all && !wanted[p.queue] {
			continue
		}
		h.points = append(h.points, *p)
		if h.buckets[p.at] == nil {
			h.buckets[p.at] = &figures{}
		}
		h.buckets[p.at].add(&p.figures)
		f := h.queues[p.queue]
		f.add(&p.figures)
		h.queues[p.queue] = f
		h.sum.add(&p.figures)
	}
	return h, nil
}

// throughput shows the buckets summed over queues.
func (h *chart) throughput() []dict {
	out := make([]dict, 0, len(h.buckets))
	for _, at := range slices.Sorted(maps.Keys(h.buckets)) {
		f := h.buckets[at]
		one := countDict(f)
		maps.Copy(one, rateDict(f, h.bucket))
		maps.Copy(one, dict{
			"timestamp": stamp(at), "ingested": f[figurePushed], "processed": f[figureDone], "dlqCount": f[figureDead],
			"ingestedPerSecond": perSecond(f[figurePushed], h.bucket), "processedPerSecond": perSecond(f[figureDone], h.bucket),
		})
		out = append(out, one)
	}
	return out
}

// series shows each queue in each bucket.
func (h *chart) series() []dict {
	out := make([]dict, 0, len(h.points))
	for i := range h.points {
		p := &h.points[i]
		one := countDict(&p.figures)
		maps.Copy(one, rateDict(&p.figures, h.bucket))
		maps.Copy(one, dict{"bucket": stamp(p.at), "bucketTime": stamp(p.at), "queueName": p.queue})
		out = append(out, one)
	}
	return out
}

// body reads what every analytics route shows: the time range, the points, and the queues with counts, rates and oldest age.
func (s *server) chartBody(c *gin.Context) (dict, *chart, []queueView, error) {
	v, err := s.parseView(c.Request, maxDLQLimit, time.Hour)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx := c.Request.Context()
	queues, err := s.queuesOf(ctx, &v)
	if err != nil {
		return nil, nil, nil, err
	}
	h, err := s.historyOf(ctx, &v, queues)
	if err != nil {
		return nil, nil, nil, err
	}
	list := make([]dict, 0, len(queues))
	now := s.engine.Now()
	for i := range queues {
		list = append(list, queues[i].summary(h.queues[queues[i].Name], h.over(), now))
	}
	points := h.throughput()
	return dict{
		"timeRange": v.timeRange(), "bucketMinutes": h.minutes(), "pointCount": len(points), "points": points, "queueStats": list,
		"totals": countDict(&h.sum), "rates": rateDict(&h.sum, h.over()),
	}, h, queues, nil
}

// analytics answers GET /api/v1/status/analytics: messages pushed by minute, hour or day.
func (s *server) analytics(c *gin.Context) error {
	v, err := s.parseView(c.Request, maxDLQLimit, 24*time.Hour)
	if err != nil {
		return err
	}
	widths := map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}
	if v.interval == "" {
		v.interval = "hour"
	}
	width := widths[v.interval]
	if width == 0 {
		return queryError("interval", "minute, hour or day")
	}
	queues, err := s.queuesOf(c.Request.Context(), &v)
	if err != nil {
		return err
	}
	h := span{from: v.from, to: v.to, bucket: width}
	points, err := s.o.Meter.history(c.Request.Context(), h)
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for i := range queues {
		wanted[queues[i].Name] = true
	}
	all := !v.hasQueue && v.namespace == "" && v.task == ""
	sums := map[core.Time]int64{}
	for i := range points {
		if all || wanted[points[i].queue] {
			sums[points[i].at] += points[i].figures[figurePushed]
		}
	}
	step := core.Time(width.Microseconds())
	out := []dict{}
	for at := h.start(v.from); at <= v.to && len(out) < maxDLQLimit; at += step {
		out = append(out, dict{"timestamp": stamp(at), "messages": sums[at]})
	}
	return answerJSON(c.Writer, dict{"dataPoints": out, "interval": v.interval, "from": stamp(v.from), "to": stamp(v.to)})
}

// queueLag answers GET /api/v1/analytics/queue-lag: an array of how old messages were when they were popped.
func (s *server) queueLag(c *gin.Context) error {
	_, h, _, err := s.chartBody(c)
	if err != nil {
		return err
	}
	out := make([]dict, 0, len(h.points))
	for i := range h.points {
		f := &h.points[i].figures
		out = append(out, dict{
			"bucketTime": stamp(h.points[i].at), "queueName": h.points[i].queue, "popCount": f[figurePopped],
			"avgLagMs": ratio(f[figureLag], f[figureLagged]), "maxLagMs": f[figureLagMax],
		})
	}
	return answerJSON(c.Writer, out)
}

// queueOps answers GET /api/v1/analytics/queue-ops: every queue in every bucket.
func (s *server) queueOps(c *gin.Context) error {
	body, h, _, err := s.chartBody(c)
	if err != nil {
		return err
	}
	body["queues"] = slices.Sorted(maps.Keys(h.queues))
	body["series"] = h.series()
	return answerJSON(c.Writer, body)
}

// queueParked answers GET /api/v1/analytics/queue-parked-replicas: the consumers that wait at this server now.
func (s *server) queueParked(c *gin.Context) error {
	body, _, queues, err := s.chartBody(c)
	if err != nil {
		return err
	}
	series := []dict{}
	now := s.engine.Now()
	for i := range queues {
		series = append(series, dict{"bucket": stamp(now), "queueName": queues[i].Name, "parkedCount": queues[i].stats.ClaimsWaiting})
	}
	body["series"], body["replicas"] = series, []string{s.gateway()}
	return answerJSON(c.Writer, body)
}

// retention answers GET /api/v1/analytics/retention. What retention deletes is not counted; what is kept is.
func (s *server) retention(c *gin.Context) error {
	body, _, queues, err := s.chartBody(c)
	if err != nil {
		return err
	}
	var kept tally
	for i := range queues {
		kept.add(&queues[i])
	}
	body["series"] = []dict{}
	body["totals"] = dict{
		"retainedMessages": kept.total, "retainedBytes": kept.bytes,
		"completedRetentionMsgs": 0, "eventCount": 0, "evictionMsgs": 0, "retentionMsgs": 0, "totalMsgs": 0,
	}
	return answerJSON(c.Writer, body)
}

// systemMetrics answers GET /api/v1/analytics/system-metrics: this server's process as it is now.
func (s *server) systemMetrics(c *gin.Context) error {
	body, _, _, err := s.chartBody(c)
	if err != nil {
		return err
	}
	p := readProcess()
	now := dict{
		"timestamp": stamp(s.engine.Now()), "gateway": s.gateway(), "memoryRssBytes": p.resident, "heapBytes": p.heap,
		"goroutines": p.goroutines, "cpuUserMicroseconds": p.user.Microseconds(), "cpuSystemMicroseconds": p.system.Microseconds(),
	}
	body["replicas"], body["replicaCount"] = []dict{{"serverId": s.gateway(), "dataPoints": []dict{now}}}, 1
	body["points"], body["pointCount"] = []dict{now}, 1
	return answerJSON(c.Writer, body)
}

// workerMetrics answers GET /api/v1/analytics/worker-metrics.
func (s *server) workerMetrics(c *gin.Context) error {
	body, h, queues, err := s.chartBody(c)
	if err != nil {
		return err
	}
	list := []dict{}
	for _, name := range slices.Sorted(maps.Keys(h.queues)) {
		f := h.queues[name]
		one := countDict(&f)
		one["queueName"] = name
		list = append(list, one)
	}
	var sum tally
	for i := range queues {
		sum.add(&queues[i])
	}
	body["queues"], body["workers"], body["timeSeries"] = list, []dict{{"workerId": 0, "gateway": s.gateway()}}, body["points"]
	body["summary"] = dict{
		"pendingMessages": sum.pending, "totalPushMessages": h.sum[figurePushed], "totalPopMessages": h.sum[figurePopped],
		"totalAckSuccess": h.sum[figureDone], "totalAckFailed": h.sum[figureFailed], "totalDlq": h.sum[figureDead],
	}
	return answerJSON(c.Writer, body)
}

// databaseStats answers GET /api/v1/analytics/postgres-stats. What only PostgreSQL's own views know is not asked.
func (s *server) databaseStats(c *gin.Context) error {
	body, _, queues, err := s.chartBody(c)
	if err != nil {
		return err
	}
	var bytes int64
	for i := range queues {
		bytes += queues[i].bytes
	}
	body["database"], body["healthy"], body["retainedBytes"] = "leasehold", s.engine.Ready(c.Request.Context()) == nil, bytes
	return answerJSON(c.Writer, body)
}

// workload answers GET /api/v1/analytics/workload: queues by how much goes through them.
func (s *server) workload(c *gin.Context) error {
	body, h, _, err := s.chartBody(c)
	if err != nil {
		return err
	}
	body["queues"] = body["queueStats"]
	body["series"] = h.series()
	return answerJSON(c.Writer, body)
}

// deadSignatures answers GET /api/v1/analytics/dlq-signatures: what messages died of.
func (s *server) deadSignatures(c *gin.Context) error {
	body, _, queues, err := s.chartBody(c)
	if err != nil {
		return err
	}
	dead, err := s.deadSummary(c.Request.Context(), queues)
	if err != nil {
		return err
	}
	body["signatures"], body["total"] = dead["topErrors"], dead["totalMessages"]
	return answerJSON(c.Writer, body)
}

// partitionLiveness answers GET /api/v1/analytics/partition-liveness: when each partition was written and read last.
func (s *server) partitionLiveness(c *gin.Context) error {
	body, _, queues, err := s.chartBody(c)
	if err != nil {
		return err
	}
	parts := []dict{}
	now := s.engine.Now()
	for i := range queues {
		for j := range queues[i].stats.Partitions {
			p := &queues[i].stats.Partitions[j]
			parts = append(parts, dict{
				"queueName": queues[i].Name, "partition": p.Partition.Name, "partitionId": p.Partition.ID, "pending": lagOf(p),
				"lastPushedAt": stamp(p.Log.HeadAt), "lastConsumedAt": stamp(p.MovedAt), "oldestAgeSeconds": age(p.OldestAt, now),
			})
		}
	}
	body["partitions"] = parts
	return answerJSON(c.Writer, body)
}
