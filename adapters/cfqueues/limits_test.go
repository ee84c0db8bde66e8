package cfqueues_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
)

func TestRatesAreOffByDefault(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	batch := `{"messages":[` + strings.TrimSuffix(strings.Repeat(`{"body":1},`, 100), ",") + `]}`
	for range 60 {
		h.ok("POST", path+"/messages/batch", batch, nil)
	}
	for range 1300 {
		h.ok("GET", path, "", nil)
	}
}

func TestMessagesPerSecond(t *testing.T) {
	each(t, cfqueues.Options{Rates: cfqueues.Rates{MessagesPerSecond: 10}}, func(h *harness) {
		t := h.test
		path, other := h.make("jobs", ""), h.make("other", "")
		for range 10 {
			h.push(path, "a")
		}
		a := h.refused("POST", path+"/messages", `{"body":1}`, 429, 10250)
		assert.Equal(t, "true", a.header.Get("x-should-retry"))
		assert.Equal(t, "1", a.header.Get("retry-after"))
		assert.Equal(t, "100", a.header.Get("retry-after-ms"))
		assert.EqualValues(t, 10, h.backlog(path).BacklogCount, "nothing was stored")
		h.push(other, "each queue has its own")
		h.clock.Advance(100 * time.Millisecond)
		h.push(path, "k")
		h.refused("POST", path+"/messages", `{"body":1}`, 429, 10250)

		assert.Len(t, h.pull(path, `{"batch_size":100}`), 11, "pulls are counted apart, and a whole batch goes through")
		h.refused("POST", path+"/messages/pull", ``, 429, 10250)
		h.clock.Advance(time.Second)
		assert.Empty(t, h.pull(path, ""))
	})
}

func TestRequestsPerFiveMinutes(t *testing.T) {
	each(t, cfqueues.Options{Rates: cfqueues.Rates{RequestsPerFiveMinutes: 5}}, func(h *harness) {
		t := h.test
		path := h.make("jobs", "") // two requests
		for range 3 {
			h.ok("GET", path, "", nil)
		}
		a := h.refused("GET", path, "", 429, 971)
		assert.Equal(t, "60", a.header.Get("retry-after"))
		for range 10 {
			h.push(path, "message routes are exempt")
			h.pull(path, "")
		}
		h.as(h.token(true, true))
		h.ok("GET", path, "", nil)
		h.clock.Advance(5 * time.Minute)
		for range 5 {
			h.ok("GET", path, "", nil)
		}
		h.refused("GET", path, "", 429, 971)
		h.as(h.token(true, true))
		h.ok("GET", path, "", nil)
	})
}

func TestFullQueueTakesNoMore(t *testing.T) {
	each(t, cfqueues.Options{Limits: cfqueues.Limits{MaxBacklogBytes: 10}}, func(h *harness) {
		t := h.test
		path := h.make("jobs", "")
		h.push(path, "12345", "67890")
		a := h.refused("POST", path+"/messages", `{"body":1}`, 429, 10251)
		assert.Equal(t, "5", a.header.Get("retry-after"))
		h.refused("POST", path+"/messages/batch", `{"messages":[{"body":1}]}`, 429, 10251)
		ms := h.pull(path, `{"batch_size":1}`)
		h.ack(path, ms[0].LeaseID)
		h.push(path, "room again")
	})
}

func TestNumberOfQueues(t *testing.T) {
	h := start(t, cfqueues.Options{Limits: cfqueues.Limits{MaxQueues: 2}})
	h.make("a", "")
	h.make("b", "")
	a := h.refused("POST", "/queues", `{"queue_name":"c"}`, 400, 11010)
	assert.Contains(t, a.Errors[0].Message, "at most 2 queues")
	h.ok("DELETE", "/queues/a", "", nil)
	h.make("c", "")
}

// Every limit is a setting, and the error names the value that holds.
func TestLimitsAreSettings(t *testing.T) {
	h := start(t, cfqueues.Options{Limits: cfqueues.Limits{
		MaxMessageBytes: 10, MaxBatchBytes: 15, MaxBatchMessages: 2, MaxPullMessages: 3, MaxRetries: 1,
		MaxVisibilityTimeout: time.Second, MaxDelay: time.Minute, MinRetention: time.Second, MaxRetention: time.Hour, MaxWait: time.Second,
	}})
	var q queue
	h.ok("POST", "/queues", `{"queue_name":"jobs","settings":{"message_retention_period":1}}`, &q)
	h.ok("PATCH", "/queues/jobs", `{"settings":{"message_retention_period":null}}`, &q)
	assert.EqualValues(t, 3600, *q.Settings.MessageRetentionPeriod, "the default obeys the bound")
	h.consume("jobs", `"batch_size":3,"max_retries":1,"visibility_timeout_ms":1000`, "")
	for _, r := range []struct {
		method, path, body string
		status, code       int
		text               string
	}{
		{"POST", "/messages", `{"body":"12345678901","content_type":"text"}`, 413, 10204, "limit of 10"},
		{"POST", "/messages", `{"body":1,"delay_seconds":61}`, 400, 10203, "60"},
		{"POST", "/messages/batch", `{"messages":[{"body":12345678},{"body":12345678}]}`, 413, 10205, "15"},
		{"POST", "/messages/batch", `{"messages":[{"body":1},{"body":1},{"body":1}]}`, 413, 10206, "2"},
		{"POST", "/messages/batch", `{"messages":[{"body":1}],"delay_seconds":61}`, 400, 10202, "60"},
		{"POST", "/messages/pull", `{"batch_size":4}`, 400, 10207, "3"},
		{"POST", "/messages/pull", `{"visibility_timeout_ms":1001}`, 400, 10207, "1000"},
		{"POST", "/messages/pull", `{"wait_ms":1001}`, 400, 10207, "1000"},
		{"PATCH", "", `{"settings":{"message_retention_period":3601}}`, 400, 100128, "3600"},
		{"PATCH", "", `{"settings":{"delivery_delay":61}}`, 400, 100128, "60"},
	} {
		a := h.refused(r.method, "/queues/jobs"+r.path, r.body, r.status, r.code)
		assert.Contains(t, a.Errors[0].Message, r.text)
	}
}

func TestStrictAndLenient(t *testing.T) {
	strict := start(t, cfqueues.Options{StrictJSONPush: true})
	path := strict.make("jobs", "")
	for _, body := range []string{`"x"`, `1`, `true`, `null`} {
		strict.refused("POST", path+"/messages", fmt.Sprintf(`{"body":%s}`, body), 400, 10207)
	}
	strict.ok("POST", path+"/messages", `{"body":[1]}`, nil)

	lenient := start(t, cfqueues.Options{Lenient: true})
	path = lenient.make("jobs", "")
	lenient.ok("POST", path+"/messages", `{}`, nil)
	lenient.ok("POST", path+"/messages/batch", `{}`, nil)
	lenient.ok("POST", path+"/messages/batch", `{"messages":[]}`, nil)
	assert.Equal(t, []string{"bnVsbA=="}, bodies(lenient.pull(path, "")))
	lenient.ok("POST", path+"/purge", `{}`, nil)
	lenient.refused("POST", path+"/messages", `{`, 400, 10208)
	lenient.ok("POST", "/queues", `{"queue_name":"other"}`, nil)
	lenient.ok("POST", "/queues/other/consumers", `{"type":"worker","settings":{}}`, nil)
	lenient.ok("POST", subscriptions, fmt.Sprintf(`{"source":{"type":"r2"},"destination":{"queue_id":%q}}`, path[len("/queues/"):]), nil)
}

func TestImplicitConsumer(t *testing.T) {
	each(t, cfqueues.Options{ImplicitHTTPPull: true}, func(h *harness) {
		t := h.test
		h.ok("POST", "/queues", `{"queue_name":"jobs"}`, nil)
		h.push("/queues/jobs", "1", "2", "3", "4", "5", "6")
		ms := h.pull("/queues/jobs", "")
		require.Len(t, ms, 5)
		h.retry("/queues/jobs", nil, ms[0].LeaseID).is(t, 0, 1, 0)
		h.clock.Advance(30 * time.Second)
		assert.Len(t, h.pull("/queues/jobs", `{"batch_size":100}`), 6)
	})
}
