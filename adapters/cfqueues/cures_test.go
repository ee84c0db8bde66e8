package cfqueues_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
)

// What the vendor's users complain about, each with what is done about it. Others have a
// test where their subject is: extension of leases in extend_test.go, waiting in
// wait_test.go, missing rate limits in limits_test.go, dead letter queues that can be
// read without a consumer in peek_test.go.

// An attempt that did not happen, because the job came too early, can be given back.
func TestRetryThatKeepsAttempts(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		path := h.make("jobs", `"max_retries":1`)
		h.push(path, "not yet")
		for range 20 {
			m := h.one(path)
			require.Equal(t, 1, m.Attempts)
			var a acked
			h.ok("POST", path+"/messages/ack", fmt.Sprintf(`{"retries":[{"lease_id":%q,"delay_seconds":60,"keep_attempts":true}]}`, m.LeaseID), &a)
			a.is(t, 0, 1, 0)
			h.clock.Advance(60 * time.Second)
		}
		h.retry(path, nil, h.one(path).LeaseID)
		m := h.one(path)
		assert.Equal(t, 2, m.Attempts)
		for _, bad := range []string{`"yes"`, `1`, `{}`} {
			h.refused("POST", path+"/messages/ack", fmt.Sprintf(`{"retries":[{"lease_id":%q,"keep_attempts":%s}]}`, m.LeaseID, bad), 400, 10207)
		}
		var a acked
		h.ok("POST", path+"/messages/ack", fmt.Sprintf(`{"retries":[{"lease_id":%q,"keep_attempts":null}]}`, m.LeaseID), &a)
		a.is(t, 0, 1, 0)
		assert.Empty(t, h.pull(path, ""), "that was the last delivery")
	})
}

// JSON bodies have one encoding, which is configured and never depends on where a
// message comes from.
func TestEncodingOfJSONBodies(t *testing.T) {
	const text = `{ "b":1.50, "a":"<&>é" }`
	coded := base64.StdEncoding.EncodeToString([]byte(text))
	for _, server := range []bool{false, true} {
		each(t, cfqueues.Options{PlainJSONBodies: server}, func(h *harness) {
			t := h.test
			path := h.make("jobs", "")
			see := func() []string {
				h.ok("POST", path+"/messages", `{"body":`+text+`}`, nil)
				looked := h.peek(path, "")
				require.Len(t, looked, 1)
				m := h.one(path)
				assert.Equal(t, m.Body, looked[0].Body, "a peek shows what a pull does")
				assert.Equal(t, "json", m.Metadata["CF-Content-Type"])
				h.ack(path, m.LeaseID)
				return []string{m.Body}
			}
			byServer := map[bool][]string{false: {coded}, true: {text}}[server]
			assert.Equal(t, byServer, see())
			a := h.ok("PATCH", path, `{"settings":{"json_body_encoding":"plain"}}`, nil)
			assert.Equal(t, []string{"json_body_encoding of this queue is plain"}, a.Messages)
			assert.NotContains(t, string(a.Result), "json_body_encoding", "results carry known fields only")
			assert.Equal(t, []string{text}, see())
			h.ok("PUT", path, `{"queue_name":"jobs","settings":{"delivery_delay":0}}`, nil)
			assert.Equal(t, []string{text}, see(), "a tool that does not know the setting does not change it")
			h.ok("PATCH", path, `{"settings":{"json_body_encoding":"base64"}}`, nil)
			assert.Equal(t, []string{coded}, see())
			h.ok("PATCH", path, `{"settings":{"json_body_encoding":null}}`, nil)
			assert.Equal(t, byServer, see())
			h.refused("PATCH", path, `{"settings":{"json_body_encoding":"hex"}}`, 400, 100128)
			h.refused("PATCH", path, `{"settings":{"json_body_encoding":7}}`, 400, 10207)
			h.ok("POST", "/queues", `{"queue_name":"made-plain","settings":{"json_body_encoding":"plain"}}`, nil)
			h.consume("made-plain", "", "")
			path = "/queues/made-plain"
			assert.Equal(t, []string{text}, see())
		})
	}
}

// A JSON string, number, boolean, null or array is a message like any other.
func TestAnyJSONValueIsAMessage(t *testing.T) {
	each(t, cfqueues.Options{PlainJSONBodies: true}, func(h *harness) {
		t := h.test
		path := h.make("jobs", "")
		values := []string{`"text"`, `0`, `-1.5e3`, `true`, `null`, `[]`, `[1,"a"]`, `{}`, `""`}
		for _, v := range values {
			h.ok("POST", path+"/messages", `{"body":`+v+`}`, nil)
		}
		assert.Equal(t, values, bodies(h.pull(path, `{"batch_size":100}`)))
	})
}

// Errors say what to do about them.
func TestErrorsNameTheFix(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	for body, want := range map[string]string{
		`{"content_type":"text","body":{}}`:  `Expected string, received object at "body"`,
		`{"content_type":"json"}`:            `Required at "body"`,
		`{"content_type":"v8","body":""}`:    `cannot be produced over HTTP`,
		`{"content_type":"xml","body":""}`:   `expected "text", "json" or "bytes"`,
		`{"body":1,"delay_seconds":1000000}`: `less than or equal to 86400 at "delay_seconds"`,
	} {
		a := h.call("POST", path+"/messages", body)
		require.Equal(t, 400, a.status, body)
		assert.Contains(t, a.Errors[0].Message, want)
	}
	var list []consumer
	h.ok("GET", path+"/consumers", "", &list)
	a := h.refused("POST", path+"/consumers", `{"type":"http_pull"}`, 400, 11004)
	assert.Contains(t, a.Errors[0].Message, list[0].ConsumerID)
	assert.Contains(t, a.Errors[0].Message, "http_pull")
	assert.Contains(t, a.Errors[0].Message, "DELETE /queues/")
}

// Every read sees every write that was answered, lists included.
func TestReadsSeeWrites(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		for i := range 30 {
			name := fmt.Sprint("q", i)
			path := h.make(name, "")
			var list []queue
			h.ok("GET", "/queues?name="+name, "", &list)
			require.Len(t, list, 1)
			require.Len(t, list[0].Consumers, 1)
			h.push(path, "a")
			require.Len(t, h.pull(path, ""), 1, "a pull works right after the consumer was made")
			h.ok("DELETE", path, "", nil)
			h.ok("GET", "/queues", "", &list)
			require.Empty(t, list)
		}
	})
}

// The documented name of the timeout works, and the answer says that it is not the one
// that other servers read.
func TestDocumentedTimeoutIsTaken(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		path := h.make("jobs", "")
		h.push(path, "a")
		a := h.ok("POST", path+"/messages/pull", `{"visibility_timeout":60000}`, nil)
		require.Len(t, a.Messages, 1)
		h.clock.Advance(59999 * time.Millisecond)
		assert.Empty(t, h.pull(path, ""))
		h.clock.Advance(time.Millisecond)
		assert.Len(t, h.pull(path, ""), 1)
	})
}

// Counts are always there, and every lease id that had no effect is named with a reason
// from a short list.
func TestWarningsHaveStableWords(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		path := h.make("jobs", "")
		h.push(path, "a", "b", "c")
		ms := h.pull(path, `{"visibility_timeout_ms":1000}`)
		require.Len(t, ms, 3)
		h.ack(path, ms[0].LeaseID)
		h.clock.Advance(time.Second)
		require.Len(t, h.pull(path, ""), 2)
		a := h.settle(path, []string{ms[2].LeaseID}, []string{ms[0].LeaseID, ms[1].LeaseID, ms[2].LeaseID, "x"}, nil)
		a.is(t, 1, 0, 4)
		assert.Equal(t, map[string]string{
			"x":           "lease id is not valid for this queue",
			ms[0].LeaseID: "message no longer exists",
			ms[1].LeaseID: "message is leased by another consumer",
			ms[2].LeaseID: "message was acknowledged in the same request",
		}, a.Warnings)
	})
}

// The old paths of the vendor still work here.
func TestPathsOf2024(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	h.push(path, "a")
	var p pulled
	h.ok("POST", path+"/pull", `{}`, &p)
	require.Len(t, p.Messages, 1)
	var a acked
	h.ok("POST", path+"/ack", fmt.Sprintf(`{"acks":[{"lease_id":%q}]}`, p.Messages[0].LeaseID), &a)
	a.is(t, 1, 0, 0)
}

// wrangler sends the name with every change, also that of a queue which another protocol
// made under a name that this one would not take.
func TestChangeOfAQueueWithAForeignName(t *testing.T) {
	h := start(t, cfqueues.Options{})
	_, err := h.engine.EnsureQueue(t.Context(), "Orders_2026")
	require.NoError(t, err)
	var q queue
	h.ok("PATCH", "/queues/Orders_2026", `{"queue_name":"Orders_2026","settings":{"delivery_paused":true}}`, &q)
	assert.True(t, *q.Settings.DeliveryPaused)
	retention := *q.Settings.MessageRetentionPeriod
	h.ok("PATCH", "/queues/Orders_2026", `{"settings":{"message_retention_period":null}}`, &q)
	assert.Equal(t, retention, *q.Settings.MessageRetentionPeriod)
	for _, name := range []string{"", "A", "-a", "a-", "a_b", strings.Repeat("a", 64)} {
		for _, method := range []string{"PATCH", "PUT"} {
			h.refused(method, "/queues/Orders_2026", fmt.Sprintf(`{"queue_name":%q}`, name), 400, 11003)
		}
		h.refused("POST", "/queues", fmt.Sprintf(`{"queue_name":%q}`, name), 400, 11003)
	}
	h.refused("POST", "/queues", `{}`, 400, 11003)
	h.ok("PATCH", "/queues/Orders_2026", `{"queue_name":"orders"}`, &q)
	assert.Equal(t, "orders", q.QueueName)
}
