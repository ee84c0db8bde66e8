package cfqueues_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
	"github.com/leasehold/leasehold/conformance/target"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/sqlite"
)

// base is what every path of the tests begins with; the account id means nothing.
const base = "/client/v4/accounts/023e105f4ecef8ad9ca31a8372d0c353"

// harness is a server whose clock the test moves, over the memory store unless
// CONFORMANCE_STORE names another. Where CONFORMANCE_TARGET_CFQUEUES names a server,
// the handler passes requests on to it, and the clock is that server's; see
// conformance/target. The engine is then an empty one of its own, and tests that
// reach into it are not for that server.
type harness struct {
	t       testing.TB
	test    *testing.T // the same, where each made it
	clock   target.Clock
	engine  *core.Engine
	handler http.Handler
	remote  *target.Remote // nil in process
	// tokens are the server's; header is sent with every request.
	tokens *cfqueues.Tokens
	header http.Header
}

func start(tb testing.TB, o cfqueues.Options) *harness {
	tb.Helper()
	return startOver(tb, target.Open(tb), o)
}

// each runs a test over every store.
func each(t *testing.T, o cfqueues.Options, test func(h *harness)) {
	t.Helper()
	run := func(t *testing.T, h *harness) {
		t.Helper()
		h.test = t
		test(h)
	}
	if !target.InProcess(target.Cfqueues) || os.Getenv(target.StoreVariable) != "" {
		t.Run(target.Label(target.Cfqueues), func(t *testing.T) { run(t, start(t, o)) })
		return
	}
	t.Run("memory", func(t *testing.T) { run(t, start(t, o)) })
	t.Run("sqlite", func(t *testing.T) {
		store, err := sqlite.Open(context.WithoutCancel(t.Context()), t.TempDir(), sqlite.Options{})
		require.NoError(t, err)
		run(t, startOver(t, store, o))
	})
}

// startOver is a server over a store, which ends with the test.
func startOver(tb testing.TB, store core.Store, o cfqueues.Options) *harness {
	tb.Helper()
	if !target.InProcess(target.Cfqueues) {
		target.RequirePlain(tb, o)
	}
	clock := coretest.New(coretest.Start)
	engine, err := core.New(tb.Context(), store, core.Options{Clock: clock})
	require.NoError(tb, err)
	tb.Cleanup(func() {
		// The test's own context has ended by now.
		assert.NoError(tb, engine.Shutdown(context.WithoutCancel(tb.Context())))
		assert.NoError(tb, store.Close())
	})
	o.Tokens = cfqueues.NewTokens(engine, "")
	h := &harness{t: tb, clock: clock, engine: engine, handler: cfqueues.New(engine, o), tokens: o.Tokens, header: http.Header{}}
	if r := target.Of(tb, target.Cfqueues); r != nil {
		h.handler, h.clock, h.remote = r.Handler(tb, ""), r.Clock(tb), r
	}
	return h
}

// answer is an envelope as a client sees it.
type answer struct {
	status  int
	header  http.Header
	raw     string
	Success bool
	Errors  []struct {
		Code    int
		Message string
	}
	Messages   []string
	Result     json.RawMessage
	ResultInfo *struct {
		Count, Page int
		PerPage     int `json:"per_page"`
		TotalCount  int `json:"total_count"`
		TotalPages  int `json:"total_pages"`
	} `json:"result_info"`
}

// send makes a request with a path as it is and checks what holds for every answer.
func (h *harness) send(method, path, body string) answer {
	h.t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for name, values := range h.header {
		r.Header[name] = values
	}
	h.handler.ServeHTTP(w, r)
	return readAnswer(h.t, w)
}

func readAnswer(tb testing.TB, w *httptest.ResponseRecorder) answer {
	tb.Helper()
	a := answer{status: w.Code, header: w.Header(), raw: w.Body.String()}
	require.NoError(tb, json.Unmarshal(w.Body.Bytes(), &a), "answer %q", a.raw)
	require.Equal(tb, "application/json", w.Header().Get("Content-Type"))
	require.NotNil(tb, a.Errors, a.raw)
	require.NotNil(tb, a.Messages, a.raw)
	require.Contains(tb, a.raw, `"result":`)
	require.Equal(tb, a.status == http.StatusOK, a.Success, a.raw)
	require.Equal(tb, a.Success, len(a.Errors) == 0, a.raw)
	if a.status >= 400 && a.status < 500 && a.status != 408 && a.status != 429 {
		require.Equal(tb, "false", a.header.Get("x-should-retry"))
	}
	return a
}

// call makes a request below the account.
func (h *harness) call(method, path, body string) answer {
	h.t.Helper()
	return h.send(method, base+path, body)
}

// ok is call for a request that has to succeed; it decodes the result.
func (h *harness) ok(method, path, body string, result any) answer {
	h.t.Helper()
	a := h.call(method, path, body)
	require.Equal(h.t, http.StatusOK, a.status, a.raw)
	if result != nil {
		h.decode(a, result)
	}
	return a
}

// decode reads the result of an answer that has to be a success.
func (h *harness) decode(a answer, result any) {
	h.t.Helper()
	require.Equal(h.t, http.StatusOK, a.status, a.raw)
	require.NoError(h.t, json.Unmarshal(a.Result, result), a.raw)
}

// refused is call for a request that has to fail.
func (h *harness) refused(method, path, body string, status, code int) answer {
	h.t.Helper()
	a := h.call(method, path, body)
	require.Equal(h.t, status, a.status, "%s %s %.200s: %s", method, path, body, a.raw)
	require.Equal(h.t, code, a.Errors[0].Code, a.raw)
	require.Equal(h.t, "null", string(a.Result))
	return a
}

// queue is a queue as the tests read it.
type queue struct {
	QueueID    string `json:"queue_id"`
	QueueName  string `json:"queue_name"`
	CreatedOn  string `json:"created_on"`
	ModifiedOn string `json:"modified_on"`
	Settings   struct {
		DeliveryDelay          *int64 `json:"delivery_delay"`
		DeliveryPaused         *bool  `json:"delivery_paused"`
		MessageRetentionPeriod *int64 `json:"message_retention_period"`
	}
	ProducersTotalCount *int `json:"producers_total_count"`
	Producers           []any
	ConsumersTotalCount *int `json:"consumers_total_count"`
	Consumers           []consumer
}

// consumer is a consumer as the tests read it.
type consumer struct {
	ConsumerID      string `json:"consumer_id"`
	Type            string
	CreatedOn       time.Time `json:"created_on"`
	QueueID         string    `json:"queue_id"`
	QueueName       string    `json:"queue_name"`
	DeadLetterQueue *string   `json:"dead_letter_queue"`
	Settings        map[string]float64
}

// message is a pulled message.
type message struct {
	ID          string
	TimestampMS int64 `json:"timestamp_ms"`
	Attempts    int
	Body        string
	LeaseID     string `json:"lease_id"`
	Metadata    map[string]string
}

type counts struct {
	BacklogCount int64 `json:"backlog_count"`
	BacklogBytes int64 `json:"backlog_bytes"`
	Oldest       int64 `json:"oldest_message_timestamp_ms"`
}

type pulled struct {
	Backlog  *int64 `json:"message_backlog_count"`
	Messages []message
	Metadata struct{ Metrics *counts }
}

type acked struct {
	AckCount   *int
	RetryCount *int
	Warnings   map[string]string
}

// make creates a queue with a pull consumer whose settings are the given members of a
// JSON object, and returns its path.
func (h *harness) make(name, settings string) string {
	h.t.Helper()
	var q queue
	h.ok("POST", "/queues", fmt.Sprintf(`{"queue_name":%q}`, name), &q)
	h.consume(q.QueueID, settings, "")
	return "/queues/" + q.QueueID
}

// consume puts a pull consumer on a queue.
func (h *harness) consume(queue, settings, dead string) consumer {
	h.t.Helper()
	var c consumer
	h.ok("POST", "/queues/"+queue+"/consumers",
		fmt.Sprintf(`{"type":"http_pull","settings":{%s},"dead_letter_queue":%q}`, settings, dead), &c)
	return c
}

// push pushes a text.
func (h *harness) push(path string, texts ...string) {
	h.t.Helper()
	for _, text := range texts {
		h.ok("POST", path+"/messages", fmt.Sprintf(`{"content_type":"text","body":%q}`, text), nil)
	}
}

// pull pulls with a body and returns the messages.
func (h *harness) pull(path, body string) []message {
	h.t.Helper()
	var p pulled
	h.ok("POST", path+"/messages/pull", body, &p)
	require.NotNil(h.t, p.Messages)
	require.NotNil(h.t, p.Backlog)
	require.NotNil(h.t, p.Metadata.Metrics)
	require.Equal(h.t, *p.Backlog, p.Metadata.Metrics.BacklogCount)
	return p.Messages
}

// one pulls exactly one message.
func (h *harness) one(path string) message {
	h.t.Helper()
	ms := h.pull(path, `{"batch_size":1}`)
	require.Len(h.t, ms, 1)
	return ms[0]
}

// bodies are the bodies of messages.
func bodies(ms []message) []string {
	out := make([]string, len(ms))
	for i := range ms {
		out[i] = ms[i].Body
	}
	return out
}

// ack acknowledges.
func (h *harness) ack(path string, leases ...string) acked {
	h.t.Helper()
	return h.settle(path, leases, nil, nil)
}

// retry gives back, with an own delay in seconds unless delay is nil.
func (h *harness) retry(path string, delay *int, leases ...string) acked {
	h.t.Helper()
	return h.settle(path, nil, leases, delay)
}

func (h *harness) settle(path string, acks, retries []string, delay *int) acked {
	h.t.Helper()
	body := map[string][]map[string]any{"acks": {}, "retries": {}}
	for _, l := range acks {
		body["acks"] = append(body["acks"], map[string]any{"lease_id": l})
	}
	for _, l := range retries {
		entry := map[string]any{"lease_id": l}
		if delay != nil {
			entry["delay_seconds"] = *delay
		}
		body["retries"] = append(body["retries"], entry)
	}
	encoded, err := json.Marshal(body)
	require.NoError(h.t, err)
	var a acked
	h.ok("POST", path+"/messages/ack", string(encoded), &a)
	require.NotNil(h.t, a.AckCount)
	require.NotNil(h.t, a.RetryCount)
	require.NotNil(h.t, a.Warnings)
	return a
}

// backlog reads the metrics of a queue.
func (h *harness) backlog(path string) counts {
	h.t.Helper()
	var c counts
	h.ok("GET", path+"/metrics", "", &c)
	return c
}

// is checks the counts of an acknowledgement.
func (a acked) is(t *testing.T, acks, retries, warnings int) {
	t.Helper()
	assert.Equal(t, acks, *a.AckCount, "acks")
	assert.Equal(t, retries, *a.RetryCount, "retries, with warnings %v", a.Warnings)
	assert.Len(t, a.Warnings, warnings)
}

func seconds(n int) *int { return &n }
