package queen

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/core"
)

// tally sums queues under a name, for namespaces, tasks and the overview.
type tally struct {
	counts
	queues, partitions int
	bytes              int64
	oldest             core.Time
}

func (t *tally) add(q *queueView) {
	t.counts.add(q.counts)
	t.queues++
	t.partitions += len(q.stats.Partitions)
	t.bytes += q.bytes
	if at := q.stats.Total.OldestAt; at != 0 && (t.oldest == 0 || at < t.oldest) {
		t.oldest = at
	}
}

func tallyBy(queues []queueView, name func(*queueView) string) map[string]*tally {
	out := map[string]*tally{}
	for i := range queues {
		key := name(&queues[i])
		if key == "" {
			continue
		}
		if out[key] == nil {
			out[key] = &tally{}
		}
		out[key].add(&queues[i])
	}
	return out
}

// namespaces answers GET /api/v1/resources/namespaces: those that queues have, by name.
func (s *server) namespaces(c *gin.Context) error {
	return s.tallies(c, "namespaces", "namespace", func(q *queueView) string { return q.Options.Namespace })
}

// tasks answers GET /api/v1/resources/tasks: those that queues have, by name.
func (s *server) tasks(c *gin.Context) error {
	return s.tallies(c, "tasks", "task", func(q *queueView) string { return q.Options.Task })
}

func (s *server) tallies(c *gin.Context, list, key string, name func(*queueView) string) error {
	queues, err := s.queuesOf(c.Request.Context(), &view{})
	if err != nil {
		return err
	}
	by := tallyBy(queues, name)
	out := make([]dict, 0, len(by))
	now := s.engine.Now()
	for _, n := range slices.Sorted(maps.Keys(by)) {
		t := by[n]
		out = append(out, dict{
			key: n, "queues": t.queues, "partitions": t.partitions,
			"messages":         dict{"total": t.total, "pending": t.pending, "processing": t.processing, "deadLetter": t.dead},
			"oldestAgeSeconds": age(t.oldest, now),
		})
	}
	return answerJSON(c.Writer, dict{list: out})
}

// queueDepth answers GET /api/v1/resources/queues/:queue/depth: what each group has not settled.
func (s *server) queueDepth(c *gin.Context) error {
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
	groups, err := s.groupsOf(ctx, q)
	if err != nil {
		return err
	}
	now := s.engine.Now()
	list := make([]dict, 0, len(groups))
	for i := range groups {
		t := &groups[i].stats.Total
		list = append(list, dict{
			"consumerGroup": groups[i].name, "depth": t.Pending.Messages, "pending": t.Pending.Messages - t.Leased.Messages,
			"processing": t.Leased.Messages, "oldestAgeSeconds": age(t.OldestAt, now),
		})
	}
	return answerJSON(c.Writer, dict{
		"queue": q.Name, "depth": one.pending + one.processing, "pending": one.pending, "processing": one.processing,
		"delayed": one.stats.Total.Scheduled.Messages, "deadLetter": one.dead, "oldestAgeSeconds": one.oldestAge(now), "consumerGroups": list,
	})
}

// overview answers GET /api/v1/resources/overview.
func (s *server) overview(c *gin.Context) error {
	ctx := c.Request.Context()
	queues, err := s.queuesOf(ctx, &view{})
	if err != nil {
		return err
	}
	var sum tally
	var done int64
	for i := range queues {
		sum.add(&queues[i])
		done += queues[i].settled()
	}
	rates, err := s.rates(ctx)
	if err != nil {
		return err
	}
	total, err := s.o.Meter.clusterTotals(ctx)
	if err != nil {
		return err
	}
	lag, err := s.lagSummary(ctx, queues)
	if err != nil {
		return err
	}
	now := s.engine.Now()
	return answerJSON(c.Writer, dict{
		"queues": len(queues), "partitions": sum.partitions,
		"namespaces": len(tallyBy(queues, func(q *queueView) string { return q.Options.Namespace })),
		"tasks":      len(tallyBy(queues, func(q *queueView) string { return q.Options.Task })),
		"messages": dict{
			"total": sum.total, "pending": sum.pending, "processing": sum.processing, "completed": done,
			"failed": total[figureFailed], "deadLetter": sum.dead,
		},
		"retainedBytes": sum.bytes, "oldestAgeSeconds": age(sum.oldest, now), "lag": lag,
		"throughput": dict{
			"ingestedPerSecond": perSecond(rates.sum[figurePushed], rates.over), "processedPerSecond": perSecond(rates.sum[figureDone], rates.over),
		},
		"timestamp": stamp(now), "statsAge": 0,
	})
}

// lately are the figures of the last minute or two.
type lately struct {
	sum    figures
	queues map[string]figures
	over   time.Duration
}

// rates reads the figures of the minute that runs and of the one before it.
func (s *server) rates(ctx context.Context) (lately, error) {
	now := s.engine.Now()
	from := core.Time((now.Second()/60 - 1) * 60 * 1_000_000)
	out := lately{queues: map[string]figures{}, over: now.Sub(from)}
	points, err := s.o.Meter.history(ctx, span{from: from, to: now, bucket: time.Minute})
	for i := range points {
		out.sum.add(&points[i].figures)
		f := out.queues[points[i].queue]
		f.add(&points[i].figures)
		out.queues[points[i].queue] = f
	}
	return out, err
}

// lagSummary sums up how far groups are behind, over each partition of each.
func (s *server) lagSummary(ctx context.Context, queues []queueView) (dict, error) {
	var offsets, seconds []float64
	now := s.engine.Now()
	for i := range queues {
		groups, err := s.groupsOf(ctx, &queues[i].Queue)
		if err != nil {
			return nil, err
		}
		for j := range groups {
			for k := range groups[j].stats.Partitions {
				p := &groups[j].stats.Partitions[k]
				offsets = append(offsets, float64(lagOf(p)))
				seconds = append(seconds, age(p.OldestAt, now))
			}
		}
	}
	return dict{"offset": spread(offsets), "time": spread(seconds)}, nil
}

// spread describes a set of numbers.
func spread(list []float64) dict {
	if len(list) == 0 {
		return dict{"min": 0, "max": 0, "avg": 0, "median": 0}
	}
	slices.SortFunc(list, cmp.Compare[float64])
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return dict{"min": list[0], "max": list[len(list)-1], "avg": sum / float64(len(list)), "median": list[len(list)/2]}
}
