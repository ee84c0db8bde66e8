package app

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/leasehold/leasehold/core"
)

// scrapeTimeout bounds how long a scrape waits for the queues' figures.
const scrapeTimeout = 10 * time.Second

// metrics collects what the engine, the store and the listeners report. It
// implements core.Observer, observe.Recorder and the adapters' observer.
type metrics struct {
	registry *prometheus.Registry
	queues   *labels

	in, duplicates, out, claims, settled, dead *prometheus.CounterVec

	commitSeconds, commitRequests, commitMessages *prometheus.HistogramVec
	storeSeconds, storeBytes                      *prometheus.HistogramVec
	storeErrors                                   *prometheus.CounterVec

	requests *series[requestKey, requestMetrics]
	calls    *series[string, prometheus.Observer]
	commits  *series[string, [3]prometheus.Observer]
}

// requestKey are the labels of an HTTP request.
type requestKey struct {
	protocol, route, method string
	status                  int
}

// requestMetrics are what one HTTP request counts for.
type requestMetrics struct {
	requests, in, out prometheus.Counter
	seconds           prometheus.Observer
}

// newMetrics registers every metric. At most limit queues get figures of
// their own.
func newMetrics(limit int) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.queues = newLabels(limit, m.forget)
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.messageMetrics()
	m.commitMetrics()
	m.httpMetrics()
	return m
}

func (m *metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

func (m *metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(h)
	return h
}

func (m *metrics) messageMetrics() {
	m.in = m.counter("leasehold_messages_in_total", "Messages stored.", "protocol", "queue")
	m.duplicates = m.counter("leasehold_messages_duplicate_total", "Messages dropped since their transaction id was seen inside the window.", "protocol", "queue")
	m.out = m.counter("leasehold_messages_out_total", "Messages handed to consumers, redeliveries included.", "protocol", "queue")
	m.claims = m.counter("leasehold_claims_total", "Claims by what they ended with: messages or empty.", "protocol", "queue", "result")
	m.settled = m.counter("leasehold_settlements_total", "Messages settled or given back, by outcome.", "protocol", "queue", "outcome")
	m.dead = m.counter("leasehold_dead_letters_total", "Messages that became dead letters or moved to a dead queue.", "protocol", "queue")
}

func (m *metrics) commitMetrics() {
	seconds := []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}
	counts := prometheus.ExponentialBuckets(1, 4, 9)
	m.commitSeconds = m.histogram("leasehold_commit_duration_seconds", "Time of a fused commit, as the engine waited for it.", seconds, "kind")
	m.commitRequests = m.histogram("leasehold_commit_requests", "Requests fused into one commit.", counts, "kind")
	m.commitMessages = m.histogram("leasehold_commit_messages", "Messages in one commit.", counts, "kind")
	m.storeSeconds = m.histogram("leasehold_store_call_duration_seconds", "Time of a call of the store.", seconds, "operation")
	m.storeBytes = m.histogram("leasehold_store_commit_size_bytes", "Bytes of messages that one commit of the store appended.", prometheus.ExponentialBuckets(256, 4, 10), "operation")
	m.storeErrors = m.counter("leasehold_store_errors_total", "Failed calls of the store.", "operation", "code")
	m.calls = newSeries(func(op string) prometheus.Observer { return m.storeSeconds.WithLabelValues(op) })
	m.commits = newSeries(func(kind string) [3]prometheus.Observer {
		return [3]prometheus.Observer{m.commitSeconds.WithLabelValues(kind), m.commitRequests.WithLabelValues(kind), m.commitMessages.WithLabelValues(kind)}
	})
}

func (m *metrics) httpMetrics() {
	seconds := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30, 120}
	requests := m.counter("leasehold_http_requests_total", "Requests by route and status; 499 is a client that left.", "protocol", "route", "method", "status")
	took := m.histogram("leasehold_http_request_duration_seconds", "Time of a request, waiting for messages included.", seconds, "protocol", "route")
	in := m.counter("leasehold_http_request_bytes_total", "Bytes of request bodies.", "protocol")
	out := m.counter("leasehold_http_response_bytes_total", "Bytes of answers' bodies.", "protocol")
	m.requests = newSeries(func(k requestKey) requestMetrics {
		return requestMetrics{
			requests: requests.WithLabelValues(k.protocol, k.route, k.method, strconv.Itoa(k.status)),
			in:       in.WithLabelValues(k.protocol), out: out.WithLabelValues(k.protocol),
			seconds: took.WithLabelValues(k.protocol, k.route),
		}
	})
}

// forget drops the figures of a queue that is gone.
func (m *metrics) forget(label string) {
	match := prometheus.Labels{"queue": label}
	for _, c := range []*prometheus.CounterVec{m.in, m.duplicates, m.out, m.claims, m.settled, m.dead} {
		c.DeletePartialMatch(match)
	}
}

// Pushed implements core.Observer.
func (m *metrics) Pushed(p core.Protocol, queue string, queued, duplicate int) {
	q := m.queues.of(queue)
	m.in.WithLabelValues(p.String(), q).Add(float64(queued))
	if duplicate > 0 {
		m.duplicates.WithLabelValues(p.String(), q).Add(float64(duplicate))
	}
}

// ClaimedMessages implements core.Observer.
func (m *metrics) ClaimedMessages(p core.Protocol, queue string, messages int) {
	q, result := m.queues.of(queue), "empty"
	if messages > 0 {
		result = "messages"
		m.out.WithLabelValues(p.String(), q).Add(float64(messages))
	}
	m.claims.WithLabelValues(p.String(), q, result).Inc()
}

// Settled implements core.Observer.
func (m *metrics) Settled(p core.Protocol, queue, outcome string, messages int) {
	q := m.queues.of(queue)
	m.settled.WithLabelValues(p.String(), q, outcome).Add(float64(messages))
	if outcome == "dead" {
		m.dead.WithLabelValues(p.String(), q).Add(float64(messages))
	}
}

// Committed implements core.Observer.
func (m *metrics) Committed(kind string, requests, messages int, took time.Duration) {
	c := m.commits.of(kind)
	c[0].Observe(took.Seconds())
	c[1].Observe(float64(requests))
	c[2].Observe(float64(messages))
}

// Commit implements observe.Recorder.
func (m *metrics) Commit(op string, took time.Duration, bytes int64, _ int, err error) {
	m.Call(op, took, err)
	if err == nil && bytes > 0 {
		m.storeBytes.WithLabelValues(op).Observe(float64(bytes))
	}
}

// Call implements observe.Recorder.
func (m *metrics) Call(op string, took time.Duration, err error) {
	m.calls.of(op).Observe(took.Seconds())
	if err != nil {
		m.storeErrors.WithLabelValues(op, core.CodeOf(err).String()).Inc()
	}
}

// ObserveRequest is what the adapters report of each request.
func (m *metrics) ObserveRequest(protocol, route, method string, status int, took time.Duration, in, out int64) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
	default:
		// A client may send any word, and each would be a series of its own.
		method = "other"
	}
	r := m.requests.of(requestKey{protocol, route, method, status})
	r.requests.Inc()
	r.seconds.Observe(took.Seconds())
	r.in.Add(float64(in))
	r.out.Add(float64(out))
}

// handler answers a scrape.
func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// gauges asks the engine for the queues' figures at each scrape.
type gauges struct {
	m      *metrics
	source func(context.Context) ([]core.Gauge, error)
	// clock is the engine's, against which ages are told; now the process's.
	clock func() core.Time
	now   func() time.Time

	depth, bytes, age, leases, waiting *prometheus.Desc
}

// watch adds the queues' figures to what a scrape shows.
func (m *metrics) watch(source func(context.Context) ([]core.Gauge, error), clock func() core.Time, now func() time.Time) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"queue"}, nil)
	}
	m.registry.MustRegister(&gauges{
		m: m, source: source, clock: clock, now: now,
		depth:   desc("leasehold_queue_messages", "Messages that the default group has not settled, leased and delayed ones included."),
		bytes:   desc("leasehold_queue_size_bytes", "Payload bytes of those messages."),
		age:     desc("leasehold_queue_oldest_message_age_seconds", "Age of the oldest of those messages; 0 when there is none."),
		leases:  desc("leasehold_queue_leases", "Live leases."),
		waiting: desc("leasehold_queue_waiting_consumers", "Claims that wait for messages."),
	})
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.depth, g.bytes, g.age, g.leases, g.waiting} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	list, err := g.source(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(g.depth, err)
		return
	}
	sums, exist := map[string]*core.Gauge{}, make(map[string]bool, len(list))
	for i := range list {
		exist[list[i].Queue] = true
	}
	g.m.queues.exist(exist, g.now())
	for i := range list {
		label := g.m.queues.of(list[i].Queue)
		sum := sums[label]
		if sum == nil {
			sum = &core.Gauge{Queue: label}
			sums[label] = sum
		}
		add(sum, &list[i])
	}
	now := g.clock()
	for label, s := range sums {
		age := 0.0
		if s.OldestAt != 0 && s.OldestAt < now {
			age = now.Sub(s.OldestAt).Seconds()
		}
		for d, v := range map[*prometheus.Desc]float64{
			g.depth: float64(s.Depth), g.bytes: float64(s.Bytes), g.age: age,
			g.leases: float64(s.Leases), g.waiting: float64(s.ClaimsWaiting),
		} {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, label)
		}
	}
}

// add sums the figures of queues that share a label; the oldest message is
// the oldest of them all.
func add(sum, g *core.Gauge) {
	sum.Depth += g.Depth
	sum.Bytes += g.Bytes
	sum.Leases += g.Leases
	sum.ClaimsWaiting += g.ClaimsWaiting
	if g.OldestAt != 0 && (sum.OldestAt == 0 || g.OldestAt < sum.OldestAt) {
		sum.OldestAt = g.OldestAt
	}
}
