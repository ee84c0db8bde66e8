package cfqueues_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
)

const fixedID = "023e105f4ecef8ad9ca31a8372d0c353"

// readConsumer reads a consumer back, which Terraform does after every change.
func (h *harness) readConsumer(path string) consumer {
	h.t.Helper()
	var c consumer
	h.ok("GET", path, "", &c)
	return c
}

func TestConsumerIsReplaced(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		var q queue
		h.ok("POST", "/queues", `{"queue_name":"jobs"}`, &q)
		made := h.consume(q.QueueID, `"batch_size":10,"max_retries":4,"retry_delay":7,"visibility_timeout_ms":1000`, "jobs-dlq")
		path := "/queues/jobs/consumers/" + made.ConsumerID
		h.clock.Advance(time.Hour)
		var c consumer
		h.ok("PUT", path, `{"dead_letter_queue":null,"settings":{"batch_size":10,"max_retries":6},"type":"http_pull"}`, &c)
		assert.Equal(t, made.ConsumerID, c.ConsumerID)
		assert.Equal(t, made.CreatedOn, c.CreatedOn)
		assert.Empty(t, *c.DeadLetterQueue, "null takes the dead letter queue away")
		assert.Equal(t, map[string]float64{"batch_size": 10, "max_retries": 6, "retry_delay": 0, "visibility_timeout_ms": 30000}, c.Settings,
			"what is left out goes back to its default")
		assert.Equal(t, c, h.readConsumer(path))
		h.ok("DELETE", "/queues/jobs-dlq", "", nil)

		h.ok("PUT", path, `{"type":"http_pull","dead_letter_queue":"later"}`, &c)
		assert.Equal(t, "later", *c.DeadLetterQueue)
		h.ok("GET", "/queues/later", "", nil)
		assert.InDelta(t, 3, c.Settings["max_retries"], 0)
	})
}

func TestReplacingMakesTheConsumerThatIsMissing(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		h.ok("POST", "/queues", `{"queue_name":"jobs"}`, nil)
		path := "/queues/jobs/consumers/"
		h.refused("PUT", path+"nonsense", `{"type":"http_pull"}`, 404, 11002)
		var c consumer
		h.ok("PUT", path+fixedID, `{"type":"http_pull"}`, &c)
		assert.Equal(t, fixedID, c.ConsumerID)
		assert.Equal(t, c, h.readConsumer(path+fixedID))
		a := h.refused("PUT", path+"00000000000000000000000000000001", `{"type":"http_pull"}`, 400, 11004)
		assert.Contains(t, a.Errors[0].Message, fixedID, "the error names who is in the way")
		assert.Empty(t, h.pull("/queues/jobs", ""))
		h.ok("DELETE", path+fixedID, "", nil)
		h.refused("DELETE", path+fixedID, "", 404, 11002)
		h.refused("POST", "/queues/jobs/messages/pull", "", 405, 0)
	})
}

// A replacement that is refused leaves everything as it was, and makes no queue.
func TestBadReplacementChangesNothing(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		h.ok("POST", "/queues", `{"queue_name":"jobs"}`, nil)
		made := h.consume("jobs", `"batch_size":10`, "")
		path := "/queues/jobs/consumers/" + made.ConsumerID
		for body, code := range map[string]int{
			`{}`: 10026, `{"type":"x"}`: 10026, `{"type":null}`: 10026, `{"type":1}`: 10207, `[]`: 10207, `{`: 10208, ``: 10208,
			`{"type":"worker","script_name":"s","dead_letter_queue":"new"}`:                      100127,
			`{"type":"http_pull","dead_letter_queue":"jobs"}`:                                    100127,
			`{"type":"http_pull","dead_letter_queue":"Not Legal"}`:                               11003,
			`{"type":"http_pull","dead_letter_queue":"new","settings":{"batch_size":101}}`:       100127,
			`{"type":"http_pull","dead_letter_queue":"new","settings":{"max_retries":-1}}`:       100127,
			`{"type":"http_pull","dead_letter_queue":"new","settings":{"retry_delay":86401}}`:    100127,
			`{"type":"http_pull","dead_letter_queue":"new","settings":{"max_concurrency":1000}}`: 100127,
		} {
			h.refused("PUT", path, body, 400, code)
		}
		h.refused("PUT", "/queues/none/consumers/"+made.ConsumerID, `{"type":"http_pull"}`, 404, 11000)
		assert.Equal(t, made, h.readConsumer(path))
		h.refused("GET", "/queues/new", "", 404, 11000)
	})
}

// What counts deliveries belongs to the message: another consumer goes on counting.
func TestReplacingAConsumerKeepsAttemptsAndLeases(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		path := h.make("jobs", `"max_retries":5`)
		h.push(path, "a", "b")
		ms := h.pull(path, "")
		var list []consumer
		h.ok("GET", path+"/consumers", "", &list)
		h.ok("DELETE", path+"/consumers/"+list[0].ConsumerID, "", nil)
		h.ack(path, ms[1].LeaseID).is(t, 1, 0, 0)
		h.retry(path, nil, ms[0].LeaseID).is(t, 0, 1, 0)
		h.consume(path[len("/queues/"):], "", "")
		m := h.one(path)
		assert.Equal(t, "a", m.Body)
		assert.Equal(t, 2, m.Attempts)
	})
}

// worker is a worker consumer as the tests read it.
type worker struct {
	ConsumerID  string `json:"consumer_id"`
	Type        string
	Script      *string
	ScriptName  *string `json:"script_name"`
	Environment *string
	Settings    map[string]any
}

func TestWorkerConsumersAreStoredWhereSwitchedOn(t *testing.T) {
	each(t, cfqueues.Options{InertWorkerConsumers: true}, func(h *harness) {
		t := h.test
		h.ok("POST", "/queues", `{"queue_name":"jobs"}`, nil)
		var w worker
		h.ok("POST", "/queues/jobs/consumers", `{"type":"worker","script_name":"mailer","environment_name":"","dead_letter_queue":"dlq","settings":{"batch_size":50,"max_concurrency":10,"max_retries":3,"max_wait_time_ms":5000,"retry_delay":10}}`, &w)
		assert.Equal(t, []string{"worker", "mailer", "mailer", ""}, []string{w.Type, *w.Script, *w.ScriptName, *w.Environment})
		assert.Equal(t, map[string]any{"batch_size": 50., "max_concurrency": 10., "max_retries": 3., "max_wait_time_ms": 5000., "retry_delay": 10.}, w.Settings)
		h.push("/queues/jobs", "a")
		h.refused("POST", "/queues/jobs/messages/pull", "", 405, 0)
		path := "/queues/jobs/consumers/" + w.ConsumerID
		h.ok("PUT", path, `{"type":"worker","script":"other"}`, &w)
		assert.Equal(t, map[string]any{"batch_size": 10., "max_concurrency": nil, "max_retries": 3., "max_wait_time_ms": 5000., "retry_delay": 0.}, w.Settings)
		h.refused("PUT", path, `{"type":"worker","settings":{"max_wait_time_ms":60001}}`, 400, 100127)
		h.refused("PUT", path, `{"type":"worker","settings":{"max_concurrency":0}}`, 400, 100127)

		var c consumer
		h.ok("PUT", path, `{"type":"http_pull"}`, &c)
		assert.Equal(t, w.ConsumerID, c.ConsumerID, "the type may change")
		require.NotContains(t, c.Settings, "max_wait_time_ms")
		assert.Equal(t, []string{"a"}, bodies(h.pull("/queues/jobs", "")))
	})
}
