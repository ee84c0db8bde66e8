package app

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasehold/leasehold/core"
)

// scrape returns what m shows.
func scrape(m *metrics) string {
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func TestMetricsOfEvents(t *testing.T) {
	m := newMetrics(10)
	m.Pushed(core.ProtocolQueen, "q", 3, 1)
	m.ClaimedMessages(core.ProtocolQuerator, "q", 2)
	m.ClaimedMessages(core.ProtocolQuerator, "q", 0)
	m.Settled(core.ProtocolCloudflare, "q", "done", 2)
	m.Settled(core.ProtocolQueen, "q", "dead", 1)
	m.Committed("append", 5, 9, 2*time.Millisecond)
	m.Commit("append", time.Millisecond, 1000, 1, nil)
	m.Call("read", time.Millisecond, core.Errorf(core.CodeUnavailable, "read", "gone"))
	m.ObserveRequest("queen", "/api/v1/push", "POST", 201, time.Millisecond, 10, 20)
	m.ObserveRequest("queen", "unmatched", "BREW", 404, time.Millisecond, 0, 0)
	got := scrape(m)
	for _, line := range []string{
		`leasehold_messages_in_total{protocol="queen",queue="q"} 3`,
		`leasehold_messages_duplicate_total{protocol="queen",queue="q"} 1`,
		`leasehold_messages_out_total{protocol="querator",queue="q"} 2`,
		`leasehold_claims_total{protocol="querator",queue="q",result="messages"} 1`,
		`leasehold_claims_total{protocol="querator",queue="q",result="empty"} 1`,
		`leasehold_settlements_total{outcome="done",protocol="cfqueues",queue="q"} 2`,
		`leasehold_dead_letters_total{protocol="queen",queue="q"} 1`,
		`leasehold_commit_duration_seconds_count{kind="append"} 1`,
		`leasehold_commit_requests_sum{kind="append"} 5`,
		`leasehold_commit_messages_sum{kind="append"} 9`,
		`leasehold_store_commit_size_bytes_sum{operation="append"} 1000`,
		`leasehold_store_errors_total{code="unavailable",operation="read"} 1`,
		`leasehold_http_requests_total{method="POST",protocol="queen",route="/api/v1/push",status="201"} 1`,
		`leasehold_http_requests_total{method="other",protocol="queen",route="unmatched",status="404"} 1`,
		`leasehold_http_request_bytes_total{protocol="queen"} 10`,
		`leasehold_http_response_bytes_total{protocol="queen"} 20`,
	} {
		assert.Contains(t, got, line+"\n")
	}
}

func TestQueuesBeyondTheBoundAreSummed(t *testing.T) {
	m := newMetrics(2)
	for _, q := range []string{"a", "b", "c", "d", "c"} {
		m.Pushed(core.ProtocolQueen, q, 1, 0)
	}
	list := []core.Gauge{
		{Queue: "a", Depth: 1, OldestAt: at(0)},
		{Queue: "c", Depth: 10, Bytes: 5, OldestAt: at(50), Leases: 1, ClaimsWaiting: 2},
		{Queue: "d", Depth: 20, Bytes: 6, OldestAt: at(40), Leases: 3, ClaimsWaiting: 4},
	}
	m.watch(func(context.Context) ([]core.Gauge, error) { return list, nil }, func() core.Time { return at(60) }, time.Now)
	got := scrape(m)
	for _, line := range []string{
		`leasehold_messages_in_total{protocol="queen",queue="a"} 1`,
		`leasehold_messages_in_total{protocol="queen",queue="_other"} 3`,
		`leasehold_queue_messages{queue="a"} 1`,
		`leasehold_queue_oldest_message_age_seconds{queue="a"} 60`,
		`leasehold_queue_messages{queue="_other"} 30`,
		`leasehold_queue_size_bytes{queue="_other"} 11`,
		`leasehold_queue_oldest_message_age_seconds{queue="_other"} 20`,
		`leasehold_queue_leases{queue="_other"} 4`,
		`leasehold_queue_waiting_consumers{queue="_other"} 6`,
	} {
		assert.Contains(t, got, line+"\n")
	}
	assert.NotContains(t, got, `queue="c"`)
}

func TestLabelOfAQueueThatIsGoneIsFreeAfterAWhile(t *testing.T) {
	m := newMetrics(1)
	now := time.Unix(0, 0)
	list := []core.Gauge{{Queue: "old"}}
	m.watch(func(context.Context) ([]core.Gauge, error) { return list, nil }, func() core.Time { return at(0) }, func() time.Time { return now })
	m.Pushed(core.ProtocolQueen, "old", 1, 0)
	scrape(m)
	list = []core.Gauge{{Queue: "new"}}
	scrape(m)
	now = now.Add(30 * time.Second)
	assert.Contains(t, scrape(m), `queue="old"`, "it may be back in a moment")
	now = now.Add(31 * time.Second)
	// A scrape reads counters and gauges side by side, so the next one shows it.
	scrape(m)
	got := scrape(m)
	assert.NotContains(t, got, `queue="old"`)
	assert.Contains(t, got, `leasehold_queue_messages{queue="new"} 0`)
}

func TestQueueNamesOfAnyBytesAreLegalLabels(t *testing.T) {
	m := newMetrics(10)
	m.watch(func(context.Context) ([]core.Gauge, error) {
		return []core.Gauge{{Queue: "\xff\x00\"\n"}, {Queue: strings.Repeat("é", 400)}}, nil
	}, func() core.Time { return 0 }, time.Now)
	got := scrape(m)
	assert.Contains(t, got, "leasehold_queue_messages{queue=\"\uFFFD\x00\\\"\\n\"} 0")
	assert.Contains(t, got, strings.Repeat("é", 100)+"…")
	assert.NotContains(t, got, strings.Repeat("é", 101))
}

func TestScrapeShowsTheRestWhenTheEngineFails(t *testing.T) {
	m := newMetrics(10)
	m.Pushed(core.ProtocolQueen, "q", 1, 0)
	m.watch(func(context.Context) ([]core.Gauge, error) {
		return nil, core.Errorf(core.CodeUnavailable, "gauges", "gone")
	}, func() core.Time { return 0 }, time.Now)
	assert.Contains(t, scrape(m), `leasehold_messages_in_total{protocol="queen",queue="q"} 1`)
}
