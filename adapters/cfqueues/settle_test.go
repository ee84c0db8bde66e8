package cfqueues_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
)

func TestAttemptsCountEveryDelivery(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", `"max_retries":5`)
	h.push(path, "a")
	m := h.one(path)
	id := m.ID
	assert.Equal(t, 1, m.Attempts)
	h.retry(path, nil, m.LeaseID).is(t, 0, 1, 0)
	m = h.one(path)
	assert.Equal(t, 2, m.Attempts)
	h.clock.Advance(30 * time.Second)
	m = h.one(path)
	assert.Equal(t, 3, m.Attempts)
	assert.Equal(t, id, m.ID)
}

func TestDeliveriesAreMaxRetriesPlusOne(t *testing.T) {
	for _, retries := range []int{0, 1, 3} {
		for _, end := range []string{"retry", "expiry", "retry with delay"} {
			t.Run(fmt.Sprintf("%d by %s", retries, end), func(t *testing.T) { deliveries(t, retries, end) })
		}
	}
}

func deliveries(t *testing.T, retries int, end string) {
	t.Helper()
	h := start(t, cfqueues.Options{})
	var q queue
	h.ok("POST", "/queues", `{"queue_name":"jobs"}`, &q)
	h.consume("jobs", fmt.Sprintf(`"max_retries":%d`, retries), "dlq")
	h.consume("dlq", "", "")
	h.push("/queues/jobs", "poison")
	pushed := h.clock.Now().Milli()
	var last message
	for i := range retries + 1 {
		last = h.one("/queues/jobs")
		assert.Equal(t, i+1, last.Attempts)
		switch end {
		case "retry":
			h.retry("/queues/jobs", nil, last.LeaseID).is(t, 0, 1, 0)
		case "retry with delay":
			h.retry("/queues/jobs", seconds(40), last.LeaseID).is(t, 0, 1, 0)
			if i < retries {
				assert.Empty(t, h.pull("/queues/jobs", ""))
			}
			h.clock.Advance(40 * time.Second)
		default:
			h.clock.Advance(30 * time.Second)
		}
	}
	assert.Empty(t, h.pull("/queues/jobs", ""))
	assert.Equal(t, counts{}, h.backlog("/queues/jobs"))
	m := h.one("/queues/dlq")
	assert.Equal(t, "poison", m.Body)
	assert.Equal(t, 1, m.Attempts, "a dead letter starts again")
	assert.Equal(t, last.ID, m.ID)
	assert.Equal(t, pushed, m.TimestampMS)
	assert.Equal(t, "text", m.Metadata["CF-Content-Type"])
	// The lease of the life before means nothing to the dead letter queue, and the
	// message is gone from its own.
	h.ack("/queues/dlq", last.LeaseID).is(t, 0, 0, 1)
	h.retry("/queues/jobs", nil, last.LeaseID).is(t, 0, 0, 1)
	assert.EqualValues(t, 1, h.backlog("/queues/dlq").BacklogCount)
}

func TestWithoutDeadLetterQueueTheMessageIsDeleted(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", `"max_retries":0`)
	h.push(path, "a", "b")
	ms := h.pull(path, "")
	require.Len(t, ms, 2)
	h.retry(path, nil, ms[0].LeaseID).is(t, 0, 1, 0)
	h.clock.Advance(30 * time.Second)
	assert.Empty(t, h.pull(path, ""))
	assert.Equal(t, counts{}, h.backlog(path))
}

func TestDelayOfRetryPrecedence(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", `"retry_delay":20,"max_retries":100,"visibility_timeout_ms":43200000`)
	h.push(path, "own 5", "own 0", "default", "acked")
	ms := h.pull(path, "")
	require.Len(t, ms, 4)
	a := h.settle(path, []string{ms[3].LeaseID}, []string{ms[0].LeaseID}, seconds(5))
	a.is(t, 1, 1, 0)
	h.retry(path, seconds(0), ms[1].LeaseID).is(t, 0, 1, 0)
	h.retry(path, nil, ms[2].LeaseID).is(t, 0, 1, 0)
	assert.EqualValues(t, 3, h.backlog(path).BacklogCount)
	assert.Equal(t, []string{"own 0"}, bodies(h.pull(path, "")))
	h.clock.Advance(5*time.Second - time.Microsecond)
	assert.Empty(t, h.pull(path, ""))
	h.clock.Advance(time.Microsecond)
	got := h.pull(path, "")
	assert.Equal(t, []string{"own 5"}, bodies(got))
	assert.Equal(t, 2, got[0].Attempts)
	h.clock.Advance(15*time.Second - time.Microsecond)
	assert.Empty(t, h.pull(path, ""))
	h.clock.Advance(time.Microsecond)
	assert.Equal(t, []string{"default"}, bodies(h.pull(path, "")))
}

func TestRetryDelayHoldsForExpiryToo(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", `"retry_delay":20,"visibility_timeout_ms":1000`)
	h.push(path, "a")
	h.one(path)
	h.clock.Advance(time.Second)
	assert.Empty(t, h.pull(path, ""))
	h.clock.Advance(20*time.Second - time.Microsecond)
	assert.Empty(t, h.pull(path, ""))
	h.clock.Advance(time.Microsecond)
	assert.Equal(t, 2, h.one(path).Attempts)
}

func TestAckAfterExpiryIsAccepted(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	h.push(path, "expired", "leased again")
	first := h.pull(path, "")
	h.clock.Advance(30 * time.Second)
	h.ack(path, first[0].LeaseID).is(t, 1, 0, 0)
	second := h.pull(path, "")
	assert.Equal(t, []string{"leased again"}, bodies(second), "what was acknowledged late is not delivered")
	h.ack(path, first[1].LeaseID).is(t, 1, 0, 0)
	h.ack(path, second[0].LeaseID).is(t, 1, 0, 0)
	h.clock.Advance(time.Hour)
	assert.Empty(t, h.pull(path, ""))
	assert.Equal(t, counts{}, h.backlog(path))
}

func TestSecondAckIsASuccess(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	h.push(path, "a", "b")
	ms := h.pull(path, "")
	h.ack(path, ms[0].LeaseID).is(t, 1, 0, 0)
	h.ack(path, ms[0].LeaseID, ms[0].LeaseID).is(t, 2, 0, 0)
	h.retry(path, nil, ms[0].LeaseID).is(t, 0, 0, 1)
	h.settle(path, []string{ms[1].LeaseID}, []string{ms[1].LeaseID}, nil).is(t, 1, 0, 1)
	assert.Equal(t, counts{}, h.backlog(path))
	h.clock.Advance(time.Hour)
	assert.Empty(t, h.pull(path, ""))
}

func TestStaleRetryDelaysWhatWaits(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", `"max_retries":10`)
	h.push(path, "a")
	first := h.one(path)
	h.clock.Advance(30 * time.Second)
	h.retry(path, seconds(10), first.LeaseID).is(t, 0, 1, 0)
	assert.Empty(t, h.pull(path, ""))
	h.clock.Advance(10 * time.Second)
	second := h.one(path)
	assert.Equal(t, 2, second.Attempts, "a stale retry does not count as a delivery")
	h.retry(path, seconds(10), first.LeaseID).is(t, 0, 0, 1)
	h.clock.Advance(29 * time.Second)
	assert.Empty(t, h.pull(path, ""), "the lease of the other consumer stands")
	h.ack(path, second.LeaseID).is(t, 1, 0, 0)
}

func TestForeignLeaseIDsWarn(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path, other := h.make("jobs", ""), h.make("other", "")
	h.push(path, "a")
	m := h.one(path)
	const jwe = "eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2Q0JDLUhTNTEyIn0..Q8p21d7dceR6vUfwftONdQ.JVqZgAS-Zk7MqmqccYtTHeeMElNHaOMigeWdb8LyMOg.T2_HV99CYzGaQuhTyW8RsgbnpTRZHRM6N7UoSaAKeK0"
	a := h.settle(other, []string{m.LeaseID, jwe, "", strings.Repeat("é", 1000)}, []string{"x", m.LeaseID}, nil)
	a.is(t, 0, 0, 5)
	assert.Contains(t, a.Warnings, m.LeaseID)
	h.settle(path, []string{jwe, m.LeaseID}, []string{jwe}, nil).is(t, 1, 0, 1)

	h2 := start(t, cfqueues.Options{})
	path2 := h2.make("jobs", "")
	h2.push(path2, "b")
	h2.ack(path2, m.LeaseID).is(t, 0, 0, 1)
	assert.EqualValues(t, 1, h2.backlog(path2).BacklogCount)
}

func TestMixedAcknowledgement(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	for range 100 {
		h.push(path, "x")
	}
	ms := h.pull(path, `{"batch_size":100}`)
	require.Len(t, ms, 100)
	var acks []string
	for i, m := range ms {
		if i != 50 && i != 7 {
			acks = append(acks, m.LeaseID)
		}
	}
	h.settle(path, acks, []string{ms[50].LeaseID}, seconds(0)).is(t, 98, 1, 0)
	h.retry(path, seconds(10), ms[7].LeaseID).is(t, 0, 1, 0)
	assert.Equal(t, ms[50].ID, h.one(path).ID)
	h.ack(path, ms[7].LeaseID).is(t, 1, 0, 0)
	h.clock.Advance(15 * time.Second)
	assert.Empty(t, h.pull(path, ""))
}

func TestLeaseSurvivesTheDeletionOfTheConsumer(t *testing.T) {
	h := start(t, cfqueues.Options{})
	h.ok("POST", "/queues", `{"queue_name":"jobs"}`, nil)
	c := h.consume("jobs", "", "")
	h.push("/queues/jobs", "a")
	m := h.one("/queues/jobs")
	h.ok("DELETE", "/queues/jobs/consumers/"+c.ConsumerID, "", nil)
	h.ack("/queues/jobs", m.LeaseID).is(t, 1, 0, 0)
	assert.Equal(t, counts{}, h.backlog("/queues/jobs"))
}

// The bodies of the vendor's own page, with the ids that it shows.
func TestAckBodiesOfTheDocumentation(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	javascript := `{"acks":[{"lease_id":"lease_id1"},{"lease_id":"lease_id2"},{"lease_id":"etc"}],"retries":[{"lease_id":"lease_id4"}]}`
	python := `{"acks": [{"lease_id": "lease_id1"}, {"lease_id": "lease_id2"}, {"lease_id": "etc"}], "retries": [{"lease_id": "lease_id4"}]}`
	delayed := `{
"acks": [
{ "lease_id": "lease_id1" },
{ "lease_id": "lease_id2" },
{ "lease_id": "lease_id3" }
],
"retries": [{ "lease_id": "lease_id4", "delay_seconds": 600 }]
}`
	for _, body := range []string{javascript, python, delayed} {
		var a acked
		h.ok("POST", path+"/messages/ack", body, &a)
		a.is(t, 0, 0, 4)
		h.push(path, "1", "2", "3", "4")
		ms := h.pull(path, "")
		require.Len(t, ms, 4)
		ids := strings.NewReplacer("lease_id1", ms[0].LeaseID, "lease_id2", ms[1].LeaseID, "lease_id3", ms[2].LeaseID, "etc", ms[2].LeaseID, "lease_id4", ms[3].LeaseID)
		var b acked
		h.ok("POST", path+"/messages/ack", ids.Replace(body), &b)
		b.is(t, 3, 1, 0)
		h.clock.Advance(10 * time.Minute)
		m := h.one(path)
		assert.Equal(t, "4", m.Body)
		h.ack(path, m.LeaseID).is(t, 1, 0, 0)
	}
}

// Consumers that pull at the same time never hold the same message.
func TestConcurrentPullsAreDisjoint(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", `"visibility_timeout_ms":43200000`)
	const total, workers = 400, 4
	for i := range total / 100 {
		var b strings.Builder
		for j := range 100 {
			fmt.Fprintf(&b, `,{"content_type":"text","body":"%d"}`, i*100+j)
		}
		h.ok("POST", path+"/messages/batch", `{"messages":[`+b.String()[1:]+`]}`, nil)
	}
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				w := httptest.NewRecorder()
				r := httptest.NewRequest("POST", base+path+"/messages/pull", strings.NewReader(`{"batch_size":7}`))
				h.handler.ServeHTTP(w, r)
				var p struct{ Result pulled }
				if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || len(p.Result.Messages) == 0 {
					return
				}
				mu.Lock()
				for _, m := range p.Result.Messages {
					seen[m.Body]++
					assert.Equal(t, 1, m.Attempts)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	assert.Len(t, seen, total)
	for body, n := range seen {
		assert.Equal(t, 1, n, body)
	}
}
