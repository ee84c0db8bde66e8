package queen

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

// gateway names this server among those that share a store.
func (s *server) gateway() string {
	if s.o.Meter == nil {
		return "leasehold"
	}
	return s.o.Meter.o.Gateway
}

// uptime is how long the meter has been counting.
func (s *server) uptime() time.Duration {
	if s.o.Meter == nil {
		return 0
	}
	return s.engine.Now().Sub(s.o.Meter.started)
}

// metrics answers GET /metrics, which is JSON in this protocol (§5.1).
func (s *server) metrics(c *gin.Context) error {
	rates, err := s.rates(c.Request.Context())
	if err != nil {
		return err
	}
	p, total, up := readProcess(), s.o.Meter.totals(), s.uptime()
	requests := int64(0)
	if s.o.Meter != nil {
		requests = s.o.Meter.requests.Load()
	}
	return answerJSON(c.Writer, dict{
		"uptime":   int64(up.Seconds()),
		"requests": dict{"total": requests, "rate": perSecond(requests, up)},
		"messages": dict{"total": total[figurePushed], "rate": perSecond(rates.sum[figurePushed], rates.over)},
		"database": dict{"poolSize": 0, "idleConnections": 0, "waitingRequests": 0},
		"memory":   dict{"rss": p.resident, "heapTotal": p.heap, "heapUsed": p.heap, "external": 0, "arrayBuffers": 0},
		"cpu":      dict{"user": p.user.Microseconds(), "system": p.system.Microseconds()},
	})
}

// exposition writes Prometheus' text format. Families have the names of the original where they mean the same.
type exposition struct{ b []byte }

func (x *exposition) family(name, kind, help string) {
	x.b = append(x.b, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

// sample writes one line; labels are pairs of name and value.
func (x *exposition) sample(name string, value float64, labels ...string) {
	x.b = append(x.b, name...)
	for i := 0; i+1 < len(labels); i += 2 {
		if i == 0 {
			x.b = append(x.b, '{')
		} else {
			x.b = append(x.b, ',')
		}
		x.b = append(x.b, labels[i]+`="`...)
		x.b = append(x.b, labelEscapes.Replace(labels[i+1])+`"`...)
	}
	if len(labels) > 0 {
		x.b = append(x.b, '}')
	}
	x.b = strconv.AppendFloat(append(x.b, ' '), value, 'f', -1, 64)
	x.b = append(x.b, '\n')
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (x *exposition) one(name, kind, help string, value float64, labels ...string) {
	x.family(name, kind, help)
	x.sample(name, value, labels...)
}

// prometheus answers GET /metrics/prometheus. What cannot be read of the store is left out, since a scrape that fails shows nothing at all.
func (s *server) prometheus(c *gin.Context) error {
	x := &exposition{b: make([]byte, 0, 8192)}
	s.exposeProcess(x)
	s.exposeSpool(x)
	ctx := c.Request.Context()
	if err := s.exposeTotals(ctx, x); err != nil {
		s.logger.WarnContext(ctx, "the totals of a scrape cannot be read", "error", err)
	}
	if err := s.exposeQueues(ctx, x); err != nil {
		s.logger.WarnContext(ctx, "the queues of a scrape cannot be read", "error", err)
	}
	h := c.Writer.Header()
	h.Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	c.Writer.WriteHeader(http.StatusOK)
	_, _ = c.Writer.Write(x.b) // the client has gone; nobody is left to tell
	return nil
}

func (s *server) exposeProcess(x *exposition) {
	p := readProcess()
	x.one("queen_uptime_seconds", "gauge", "Seconds since this server began to count.", s.uptime().Seconds())
	x.one("queen_cpu_user_microseconds_total", "counter", "User CPU time of the process.", float64(p.user.Microseconds()))
	x.one("queen_cpu_system_microseconds_total", "counter", "System CPU time of the process.", float64(p.system.Microseconds()))
	x.one("queen_process_resident_memory_bytes", "gauge", "Resident memory of the process.", float64(p.resident))
	x.one("queen_process_virtual_memory_bytes", "gauge", "Virtual memory of the process.", float64(p.virtual))
}

func (s *server) exposeTotals(ctx context.Context, x *exposition) error {
	f, err := s.o.Meter.clusterTotals(ctx)
	if err != nil {
		return err
	}
	scope := []string{"scope", "cluster"}
	x.one("queen_cluster_push_requests_total", "counter", "Pushes, over all servers.", float64(f[figurePushCalls]), scope...)
	x.one("queen_cluster_pop_requests_total", "counter", "Pops, by partition that delivered, and those that ended empty, over all servers.", float64(f[figurePops]+f[figureEmpty]), scope...)
	x.one("queen_cluster_push_messages_total", "counter", "Messages pushed and stored, over all servers.", float64(f[figurePushed]), scope...)
	x.one("queen_cluster_pop_messages_total", "counter", "Messages delivered, redeliveries included, over all servers.", float64(f[figurePopped]), scope...)
	x.one("queen_cluster_ack_messages_total", "counter", "Messages settled or given back, over all servers.", float64(f[figureDone]+f[figureFailed]+f[figureRetried]), scope...)
	x.family("queen_cluster_ack_total", "counter", "Messages acknowledged, by result, over all servers.")
	x.sample("queen_cluster_ack_total", float64(f[figureDone]), "scope", "cluster", "result", "success")
	x.sample("queen_cluster_ack_total", float64(f[figureFailed]), "scope", "cluster", "result", "failed")
	x.one("queen_cluster_dlq_total", "counter", "Messages that became dead letters, over all servers.", float64(f[figureDead]), scope...)
	return nil
}

func (s *server) exposeQueues(ctx context.Context, x *exposition) error {
	queues, err := s.queuesOf(ctx, &view{})
	if err != nil {
		return err
	}
	rates, err := s.rates(ctx)
	if err != nil {
		return err
	}
	var sum tally
	for i := range queues {
		sum.add(&queues[i])
	}
	x.one("queen_cluster_pending_messages", "gauge", "Messages that queue mode has not settled.", float64(sum.pending+sum.processing), "scope", "cluster")
	x.one("queen_dlq_depth", "gauge", "Dead letters.", float64(sum.dead), "scope", "cluster")
	x.family("queen_dlq_depth_by_queue", "gauge", "Dead letters of a queue.")
	for i := range queues {
		if queues[i].dead > 0 {
			x.sample("queen_dlq_depth_by_queue", float64(queues[i].dead), "queue", queues[i].Name)
		}
	}
	x.family("queen_queue_parked_consumers", "gauge", "Pops that wait at this server.")
	for i := range queues {
		x.sample("queen_queue_parked_consumers", float64(queues[i].stats.ClaimsWaiting), "queue", queues[i].Name)
	}
	exposeRates(x, &rates)
	return nil
}

// exposeRates shows what happened to each queue lately, as a rate per minute.
func exposeRates(x *exposition, rates *lately) {
	names := slices.Sorted(maps.Keys(rates.queues))
	perMinute := func(name string, value func(f *figures) int64, labels ...string) {
		for _, q := range names {
			f := rates.queues[q]
			x.sample(name, float64(value(&f))*60/rates.over.Seconds(), append([]string{"queue", q}, labels...)...)
		}
	}
	for _, fam := range []struct {
		name, help string
		figure     int
	}{
		{"queen_queue_push_requests_per_minute", "Pushes to a queue per minute.", figurePushCalls},
		{"queen_queue_push_messages_per_minute", "Messages pushed to a queue per minute.", figurePushed},
		{"queen_queue_pop_messages_per_minute", "Messages delivered from a queue per minute.", figurePopped},
		{"queen_queue_pop_empty_per_minute", "Pops of a queue per minute that ended empty.", figureEmpty},
	} {
		x.family(fam.name, "gauge", fam.help)
		perMinute(fam.name, func(f *figures) int64 { return f[fam.figure] })
	}
	x.family("queen_queue_ack_per_minute", "gauge", "Messages of a queue acknowledged per minute, by result.")
	perMinute("queen_queue_ack_per_minute", func(f *figures) int64 { return f[figureDone] }, "result", "success")
	perMinute("queen_queue_ack_per_minute", func(f *figures) int64 { return f[figureFailed] }, "result", "failed")
	x.family("queen_queue_pop_lag_milliseconds", "gauge", "How old messages were when they were delivered.")
	for _, q := range names {
		f := rates.queues[q]
		x.sample("queen_queue_pop_lag_milliseconds", ratio(f[figureLag], f[figureLagged]), "queue", q, "stat", "avg")
		x.sample("queen_queue_pop_lag_milliseconds", float64(f[figureLagMax]), "queue", q, "stat", "max")
	}
}
