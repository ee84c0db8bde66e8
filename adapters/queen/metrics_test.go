package queen_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen/spool"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/memory"
	"github.com/leasehold/leasehold/store/sqlite"
)

func TestHistoryAddsUp(t *testing.T) { overStores(t, showsHistoryAddsUp) }

func showsHistoryAddsUp(t *testing.T, d *desk) {
	t.Helper()
	for minute := range 3 {
		for i := range minute + 1 {
			d.pushIDs(t, "q", "p", strconv.Itoa(minute)+"-"+strconv.Itoa(i))
		}
		d.pushIDs(t, "other", "p", "x"+strconv.Itoa(minute))
		d.clock.Advance(time.Minute)
	}
	points := func(query string) (out []float64) {
		for _, p := range at(t, d.get(t, "/api/v1/status/analytics"+query), "dataPoints").([]any) { //nolint:forcetypeassert // at looks
			out = append(out, at(t, p, "messages").(float64)) //nolint:forcetypeassert // a number
		}
		return out
	}
	assert.Equal(t, []float64{2, 3, 4, 0}, points("?interval=minute&from=2026-01-02T03:04:00Z"))
	assert.Equal(t, []float64{1, 2, 3, 0}, points("?interval=minute&from=2026-01-02T03:04:00Z&queue=q"))
	assert.Equal(t, []float64{2, 3}, points("?interval=minute&from=2026-01-02T03:04:00Z&to=2026-01-02T03:05:00Z"))
	hours := points("")
	require.Len(t, hours, 25, "a day by the hour")
	assert.InDelta(t, 9, hours[24], 0)
	assert.InDelta(t, 9, points("?interval=day")[1], 0)
	assert.Equal(t, http.StatusBadRequest, d.do(t, http.MethodGet, "/api/v1/status/analytics?interval=week", "").status)

	ops := d.get(t, "/api/v1/analytics/queue-ops?queue=q")
	assert.Equal(t, []any{"q"}, ops["queues"])
	assert.InDelta(t, 6, at(t, ops, "totals", "pushMessages"), 0)
	assert.Len(t, ops["series"], 3)
}

func TestQueueLagTellsAgesAtDelivery(t *testing.T) {
	d := newDesk(t, memory.New())
	d.pushIDs(t, "q", "p", "a")
	d.clock.Advance(2 * time.Second)
	d.pushIDs(t, "q", "p", "b")
	d.clock.Advance(2 * time.Second)
	d.pop(t, "/queue/q?batch=10&autoAck=true")
	lag := d.list(t, "/api/v1/analytics/queue-lag")
	require.Len(t, lag, 1)
	assert.Equal(t, "q", lag[0]["queueName"])
	assert.InDelta(t, 2, lag[0]["popCount"], 0)
	assert.InDelta(t, 3000, lag[0]["avgLagMs"], 0)
	assert.InDelta(t, 4000, lag[0]["maxLagMs"], 0)
	assert.Equal(t, "2026-01-02T03:04:00.000000Z", lag[0]["bucketTime"])
}

func TestHistorySurvivesARestartAndIsSharedAndBounded(t *testing.T) {
	dir := t.TempDir()
	store, err := sqlite.Open(context.WithoutCancel(t.Context()), dir, sqlite.Options{})
	require.NoError(t, err)
	clock := coretest.New(coretest.Start)
	d := newDeskWith(t, store, clock, spool.Options{})
	d.pushIDs(t, "q", "p", "a", "b")
	d.end(t)
	require.NoError(t, store.Close())
	d.over, err = sqlite.Open(context.WithoutCancel(t.Context()), dir, sqlite.Options{})
	require.NoError(t, err)
	d.begin(t)
	d.pushIDs(t, "q", "p", "c")
	assert.InDelta(t, 3, at(t, d.get(t, "/api/v1/status/analytics?interval=minute&from=2026-01-02T03:04:00Z"), "dataPoints", 0, "messages"), 0)
	assert.InDelta(t, 3, at(t, d.get(t, "/metrics"), "messages", "total"), 0, "totals go on")

	// A second server over the same store sees what the first has written.
	d.do(t, http.MethodPost, "/api/v1/stats/refresh", "{}")
	other := newDeskWith(t, d.over, clock, spool.Options{})
	assert.InDelta(t, 3, at(t, other.get(t, "/api/v1/status/analytics?interval=minute&from=2026-01-02T03:04:00Z"), "dataPoints", 0, "messages"), 0)
	assert.Contains(t, other.do(t, http.MethodGet, "/metrics/prometheus", "").body, `queen_cluster_push_messages_total{scope="cluster"} 3`)
	other.end(t)

	// Minutes are gone after a day, and hours stay.
	clock.Advance(25 * time.Hour)
	d.do(t, http.MethodPost, "/api/v1/stats/refresh", "{}")
	records, err := d.engine.ListRecords(t.Context(), listMinutes)
	require.NoError(t, err)
	assert.Empty(t, records)
	sum := 0.0
	for _, p := range at(t, d.get(t, "/api/v1/status/analytics?from=2026-01-02T00:00:00Z"), "dataPoints").([]any) { //nolint:forcetypeassert // at looks
		sum += at(t, p, "messages").(float64) //nolint:forcetypeassert // a number
	}
	assert.InDelta(t, 3, sum, 0)
	d.end(t)
	require.NoError(t, d.over.Close())
}

func TestMetricsRoutes(t *testing.T) { overStores(t, showsMetricsRoutes) }

func showsMetricsRoutes(t *testing.T, d *desk) {
	t.Helper()
	knownLoad(t, d)
	m := d.get(t, "/metrics")
	assert.InDelta(t, 60, m["uptime"], 1)
	assert.InDelta(t, 12, at(t, m, "messages", "total"), 0)
	assert.Positive(t, at(t, m, "requests", "total"))
	assert.Positive(t, at(t, m, "memory", "rss"))
	for _, key := range []string{"poolSize", "idleConnections", "waitingRequests"} {
		assert.NotNil(t, at(t, m, "database", key))
	}
	r := d.do(t, http.MethodGet, "/metrics/prometheus", "")
	assert.Equal(t, http.StatusOK, r.status)
	assert.Equal(t, "text/plain; version=0.0.4; charset=utf-8", r.header.Get("Content-Type"))
	for _, line := range []string{
		"queen_uptime_seconds 60", "queen_file_buffer_pending 0", "queen_file_buffer_db_healthy 1", "queen_maintenance_mode_enabled 0",
		`queen_cluster_push_messages_total{scope="cluster"} 12`, `queen_cluster_pop_messages_total{scope="cluster"} 8`,
		`queen_cluster_ack_total{scope="cluster",result="success"} 3`, `queen_cluster_dlq_total{scope="cluster"} 1`,
		`queen_dlq_depth{scope="cluster"} 1`, `queen_dlq_depth_by_queue{queue="billing.invoice.eu"} 1`,
		`queen_cluster_pending_messages{scope="cluster"} 9`, `queen_queue_parked_consumers{queue="plain"} 0`,
	} {
		assert.Contains(t, r.body, line+"\n")
	}
	wellFormed(t, r.body)
}

// wellFormed checks the shape of Prometheus' text format: each family is announced once, and before its samples.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	announced := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			assert.False(t, announced[name], line)
			assert.Contains(t, []string{"gauge", "counter"}, kind)
			announced[name] = true
			continue
		}
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		name, _, _ := strings.Cut(strings.SplitN(line, " ", 2)[0], "{")
		assert.True(t, announced[name], line)
		_, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		assert.NoError(t, err, line)
	}
}

func TestInternalRoutes(t *testing.T) { overStores(t, showsInternalRoutes) }

func showsInternalRoutes(t *testing.T, d *desk) {
	t.Helper()
	exactly(t, `{"status":"ok"}`, d.do(t, http.MethodPost, "/internal/api/notify", `{"queue":"q","partition":"p"}`).body)
	exactly(t, `{"status":"ok"}`, d.do(t, http.MethodPost, "/internal/api/notify", "").body)
	assert.Equal(t, http.StatusBadRequest, d.do(t, http.MethodPost, "/internal/api/notify", `{"queue":`).status)
	for _, path := range []string{"/api/v1/system/shared-state", "/internal/api/shared-state/stats", "/internal/api/inter-instance/stats"} {
		assert.Equal(t, false, d.get(t, path)["maintenance_mode"], path)
	}
	var refreshed map[string]any
	require.NoError(t, json.Unmarshal([]byte(d.do(t, http.MethodPost, "/api/v1/stats/refresh", "").body), &refreshed))
	assert.Equal(t, true, refreshed["success"])
}
