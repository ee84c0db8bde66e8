package queen_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/store/memory"
)

// viewRules are the paragraphs about the dashboard and metrics.
var viewRules = []rule{
	{covers: "4 resources", run: withDesk(showsOverviewCountsWhatHappened)},
	{covers: "4 status", run: withDesk(showsStatusCountsWhatHappened)},
	{covers: "4 consumer-groups", run: withDesk(showsConsumerGroupsAndLag)},
	{covers: "4 messages", run: withDesk(showsMessagesAreListedWithTheirStatus)},
	{covers: "4 message detail", run: withDesk(showsMessageDetail)},
	{covers: "4 analytics", run: withDesk(showsHistoryAddsUp)},
	{covers: "4 free-form", run: withDesk(showsFreeFormBodies)},
	{covers: "5.1 metrics", run: withDesk(showsMetricsRoutes)},
	{covers: "5.3", run: withDesk(showsInternalRoutes)},
}

// withDesk makes a rule of a test that has a desk of its own. A remote server has none that a test could open.
func withDesk(check func(*testing.T, *desk)) func(*testing.T, *broker) {
	return func(t *testing.T, b *broker) {
		t.Helper()
		if b.remote == nil {
			check(t, newDesk(t, memory.New()))
		}
	}
}

// knownLoad makes a state of which every figure is known: at the start 10 messages in billing.invoice.eu (7 in p1, 3 in p2) and 2 in plain; 30 s
// later queue mode pops 4 of p1, completes 2 and kills 1 of them; 30 s later again it holds 2; group g has popped all of p2 and completed 1.
func knownLoad(t *testing.T, d *desk) {
	t.Helper()
	ids := func(prefix string, n int) (out []string) {
		for i := range n {
			out = append(out, prefix+strconv.Itoa(i))
		}
		return out
	}
	d.pushIDs(t, "billing.invoice.eu", "p1", ids("a", 7)...)
	d.pushIDs(t, "billing.invoice.eu", "p2", ids("b", 3)...)
	d.pushIDs(t, "plain", "Default", ids("c", 2)...)
	d.clock.Advance(30 * time.Second)
	p := d.pop(t, "/queue/billing.invoice.eu/partition/p1?batch=3")
	for _, a := range d.ack(t, "", p.PartitionID, p.LeaseID, "a0=completed", "a1=completed", "a2=dlq") {
		require.True(t, a.Success, a.text())
	}
	require.Equal(t, []string{"a3", "a4"}, d.pop(t, "/queue/billing.invoice.eu/partition/p1?batch=2").ids())
	g := d.pop(t, "/queue/billing.invoice.eu/partition/p2?batch=10&consumerGroup=g")
	for _, a := range d.ack(t, "g", g.PartitionID, g.LeaseID, "b0=completed") {
		require.True(t, a.Success, a.text())
	}
	d.clock.Advance(30 * time.Second)
}

func TestOverviewCountsWhatHappened(t *testing.T) { overStores(t, showsOverviewCountsWhatHappened) }

func showsOverviewCountsWhatHappened(t *testing.T, d *desk) {
	t.Helper()
	knownLoad(t, d)
	o := d.get(t, "/api/v1/resources/overview")
	for key, want := range map[string]float64{"queues": 2, "partitions": 3, "namespaces": 2, "tasks": 1} {
		assert.InDelta(t, want, o[key], 0, key)
	}
	for key, want := range map[string]float64{"total": 12, "pending": 7, "processing": 2, "completed": 2, "deadLetter": 1} {
		assert.InDelta(t, want, at(t, o, "messages", key), 0, key)
	}
	assert.InDelta(t, 60, o["oldestAgeSeconds"], 1)
	assert.InDelta(t, 12.0/65, at(t, o, "throughput", "ingestedPerSecond"), 0.2)
	assert.NotNil(t, at(t, o, "lag", "offset", "max"))
	assert.NotEmpty(t, o["timestamp"])

	n := d.get(t, "/api/v1/resources/namespaces")
	assert.Equal(t, "billing", at(t, n, "namespaces", 0, "namespace"))
	assert.InDelta(t, 10, at(t, n, "namespaces", 0, "messages", "total"), 0)
	assert.InDelta(t, 5, at(t, n, "namespaces", 0, "messages", "pending"), 0)
	assert.Equal(t, "plain", at(t, n, "namespaces", 1, "namespace"))
	tasks := d.get(t, "/api/v1/resources/tasks")
	assert.Equal(t, "invoice", at(t, tasks, "tasks", 0, "task"))
	assert.InDelta(t, 2, at(t, tasks, "tasks", 0, "partitions"), 0)

	depth := d.get(t, "/api/v1/resources/queues/billing.invoice.eu/depth")
	assert.InDelta(t, 7, depth["depth"], 0)
	assert.InDelta(t, 2, depth["processing"], 0)
}

func TestStatusCountsWhatHappened(t *testing.T) { overStores(t, showsStatusCountsWhatHappened) }

func showsStatusCountsWhatHappened(t *testing.T, d *desk) {
	t.Helper()
	knownLoad(t, d)
	s := d.get(t, "/api/v1/status")
	for key, want := range map[string]float64{"total": 12, "pending": 7, "processing": 2, "completed": 2, "deadLetter": 1} {
		assert.InDelta(t, want, at(t, s, "messages", key), 0, key)
	}
	assert.InDelta(t, 2, at(t, s, "leases", "active"), 0, "the one of p1, and that of g")
	assert.InDelta(t, 1, at(t, s, "deadLetterQueue", "totalMessages"), 0)
	assert.Equal(t, "because", at(t, s, "deadLetterQueue", "topErrors", 0, "error"))
	assert.NotEmpty(t, at(t, s, "timeRange", "from"))
	byName := map[string]any{}
	for _, q := range at(t, s, "queues").([]any) { //nolint:forcetypeassert // at looks
		byName[at(t, q, "name").(string)] = q //nolint:forcetypeassert // a name
	}
	b := byName["billing.invoice.eu"]
	assert.InDelta(t, 60, at(t, b, "oldestAgeSeconds"), 1)
	assert.InDelta(t, 10, at(t, b, "counts", "pushMessages"), 0)
	assert.InDelta(t, 8, at(t, b, "counts", "popMessages"), 0)
	assert.InDelta(t, 30_000, at(t, b, "counts", "maxLagMs"), 1000)

	page := d.get(t, "/api/v1/status/queues?limit=1&offset=1")
	assert.Len(t, page["queues"], 1)
	assert.InDelta(t, 2, page["total"], 0)
	assert.InDelta(t, 1, at(t, page, "pagination", "offset"), 0)
	assert.Len(t, d.get(t, "/api/v1/status/queues?namespace=billing")["queues"], 1)

	one := d.get(t, "/api/v1/status/queues/billing.invoice.eu?includePartitions=true")
	assert.Nil(t, at(t, one, "totals", "failed"))
	assert.InDelta(t, 1, at(t, one, "totals", "deadLetter"), 0)
	assert.InDelta(t, 60, at(t, one, "queue", "config", "leaseTime"), 0)
	assert.Len(t, one["partitions"], 2)
	r := d.do(t, http.MethodGet, "/api/v1/status/queues/nope", "")
	assert.Equal(t, http.StatusNotFound, r.status)
	exactly(t, `{"error":"Queue not found"}`, r.body)
	exactly(t, `{"engine":"leasehold","status":"ok"}`, d.do(t, http.MethodGet, "/status", "").body)
}

func TestConsumerGroupsAndLag(t *testing.T) { overStores(t, showsConsumerGroupsAndLag) }

func showsConsumerGroupsAndLag(t *testing.T, d *desk) {
	t.Helper()
	knownLoad(t, d)
	groups := d.list(t, "/api/v1/consumer-groups")
	require.Len(t, groups, 2)
	assert.Equal(t, "__QUEUE_MODE__", groups[0]["name"])
	g := groups[1]
	assert.Equal(t, "g", g["name"])
	assert.Equal(t, "billing.invoice.eu", g["queueName"])
	assert.InDelta(t, 9, g["totalLag"], 0, "7 of p1 and 2 of p2")
	assert.InDelta(t, 2, g["partitionsWithLag"], 0)
	assert.InDelta(t, 60, g["maxTimeLag"], 1)
	assert.Equal(t, "Stable", g["state"])

	one := d.get(t, "/api/v1/consumer-groups/g")
	var p2 any
	for _, p := range at(t, one, "billing.invoice.eu", "partitions").([]any) { //nolint:forcetypeassert // at looks
		if at(t, p, "partition") == "p2" {
			p2 = p
		}
	}
	assert.InDelta(t, 1, at(t, p2, "totalConsumed"), 0)
	assert.InDelta(t, 2, at(t, p2, "offsetLag"), 0)
	assert.InDelta(t, 60, at(t, p2, "timeLagSeconds"), 1)
	assert.Equal(t, true, at(t, p2, "leaseActive"))
	exactly(t, `{}`, d.do(t, http.MethodGet, "/api/v1/consumer-groups/nobody", "").body)

	exactly(t, `[]`, d.do(t, http.MethodGet, "/api/v1/consumer-groups/lagging", "").body)
	d.clock.Advance(241 * time.Second)
	lagging := d.list(t, "/api/v1/consumer-groups/lagging?minLagSeconds=301")
	require.Len(t, lagging, 4, "two partitions of each group")
	assert.InDelta(t, 301, lagging[0]["time_lag_seconds"], 1)
	assert.NotEmpty(t, lagging[0]["partition_id"])
	assert.Empty(t, d.list(t, "/api/v1/consumer-groups/lagging?minLagSeconds=303"))
	assert.Equal(t, "Lagging", d.list(t, "/api/v1/consumer-groups")[1]["state"])
}

func TestMessagesAreListedWithTheirStatus(t *testing.T) {
	overStores(t, showsMessagesAreListedWithTheirStatus)
}

func showsMessagesAreListedWithTheirStatus(t *testing.T, d *desk) {
	t.Helper()
	knownLoad(t, d)
	for query, want := range map[string][]string{
		"?queue=billing.invoice.eu&partition=p1":                {"a6", "a5", "a4", "a3", "a2", "a1", "a0"},
		"?queue=billing.invoice.eu&partition=p1&status=pending": {"a6", "a5"},
		"?queue=billing.invoice.eu&status=processing":           {"a4", "a3"},
		"?queue=billing.invoice.eu&status=completed":            {"a1", "a0"},
		"?ns=billing&status=dead_letter":                        {"a2"},
		"?task=invoice&partition=p1&limit=2&offset=1":           {"a5", "a4"},
		"?queue=plain":                           {"c1", "c0"},
		"?queue=plain&from=2026-01-02T03:04:36Z": {},
		"?queue=plain&to=2026-01-02T03:04:06Z&from=2026-01-02T03:00:00Z": {"c1", "c0"},
		"?queue=nope": {},
	} {
		out := d.get(t, "/api/v1/messages"+query)
		got := []string{}
		for _, m := range at(t, out, "messages").([]any) { //nolint:forcetypeassert // at looks
			got = append(got, at(t, m, "transactionId").(string)) //nolint:forcetypeassert // an id
		}
		assert.Equal(t, want, got, query)
		if !strings.Contains(query, "limit") {
			assert.InDelta(t, len(want), out["total"], 0, query)
		}
	}
	out := d.get(t, "/api/v1/messages?queue=billing.invoice.eu&partition=p1&limit=2&offset=1")
	assert.InDelta(t, 7, out["total"], 0, "of all pages")
	assert.Equal(t, "hybrid", at(t, out, "mode", "type"))
	assert.Contains(t, d.do(t, http.MethodGet, "/api/v1/messages?queue=plain", "").body, `"data":{"id":"c1"},"payload":{"id":"c1"}`)
	for _, bad := range []string{"?status=odd", "?from=yesterday", "?limit=x", "?from=2026-01-03T00:00:00Z"} {
		assert.Equal(t, http.StatusBadRequest, d.do(t, http.MethodGet, "/api/v1/messages"+bad, "").status, bad)
	}
	old := d.list(t, "/api/v1/status/queues/plain/messages?limit=1")
	require.Len(t, old, 1)
	assert.Equal(t, "c1", old[0]["transactionId"])
}

func TestMessageDetail(t *testing.T) { overStores(t, showsMessageDetail) }

func showsMessageDetail(t *testing.T, d *desk) {
	t.Helper()
	knownLoad(t, d)
	part := ""
	for _, p := range at(t, d.get(t, "/api/v1/resources/queues/billing.invoice.eu"), "partitions").([]any) { //nolint:forcetypeassert // at looks
		if at(t, p, "name") == "p1" {
			part = at(t, p, "id").(string) //nolint:forcetypeassert // an id
		}
	}

	m := d.get(t, "/api/v1/messages/"+part+"/a3")
	for _, key := range []string{
		"id", "transactionId", "partitionId", "partition", "queue", "queuePath", "namespace", "task", "status", "payload",
		"createdAt", "retryCount", "queueConfig", "consumerGroups",
	} {
		assert.Contains(t, m, key)
	}
	assert.Equal(t, "processing", m["status"])
	assert.Equal(t, "2026-01-02T03:05:35.000000Z", m["leaseExpiresAt"])
	assert.InDelta(t, 60, at(t, m, "queueConfig", "leaseTime"), 0)
	assert.Equal(t, "__QUEUE_MODE__", at(t, m, "consumerGroups", 0, "name"))
	dead := d.get(t, "/api/v1/messages/"+part+"/a2")
	assert.Equal(t, "dead_letter", dead["status"])
	assert.Equal(t, "because", dead["errorMessage"])
	assert.Equal(t, "completed", d.get(t, "/api/v1/messages/"+part+"/a1")["status"])
	d.clock.Advance(3 * time.Hour)
	assert.Equal(t, "pending", d.get(t, "/api/v1/messages/"+part+"/a3")["status"], "its id has left every window, and the message is there")
	for _, path := range []string{"/api/v1/messages/" + part + "/zz", "/api/v1/messages/nope/a1"} {
		r := d.do(t, http.MethodGet, path, "")
		assert.Equal(t, http.StatusNotFound, r.status)
		exactly(t, `{"error":"Message not found"}`, r.body)
	}
}

// freeForm are the routes whose bodies carry counts, rates, oldest age and a time range for each queue.
var freeForm = []string{
	"/api/v1/status", "/api/v1/analytics/queue-ops", "/api/v1/analytics/queue-parked-replicas", "/api/v1/analytics/retention",
	"/api/v1/analytics/system-metrics", "/api/v1/analytics/worker-metrics", "/api/v1/analytics/postgres-stats", "/api/v1/analytics/workload",
	"/api/v1/analytics/dlq-signatures", "/api/v1/analytics/partition-liveness",
}

func TestFreeFormBodiesSayWhatTheyMust(t *testing.T) { overStores(t, showsFreeFormBodies) }

func showsFreeFormBodies(t *testing.T, d *desk) {
	t.Helper()
	knownLoad(t, d)
	for _, path := range freeForm {
		body := d.get(t, path)
		assert.NotEmpty(t, at(t, body, "timeRange", "from"), path)
		assert.Equal(t, "2026-01-02T03:05:05.000000Z", at(t, body, "timeRange", "to"), path)
		key := "queueStats"
		if path == "/api/v1/status" {
			key = "queues"
		} else {
			assert.NotEmpty(t, body["points"], path)
		}
		queues := at(t, body, key).([]any) //nolint:forcetypeassert // at looks
		require.Len(t, queues, 2, path)
		for _, q := range queues {
			assert.NotEmpty(t, at(t, q, "name"), path)
			assert.NotNil(t, at(t, q, "counts", "pushMessages"), path)
			assert.NotNil(t, at(t, q, "rates", "pushPerSecond"), path)
			assert.InDelta(t, 60, at(t, q, "oldestAgeSeconds"), 1, path)
		}
		assert.Equal(t, http.StatusBadRequest, d.do(t, http.MethodGet, path+"?from=nonsense", "").status, path)
	}
}
