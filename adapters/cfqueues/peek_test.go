package cfqueues_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
	"github.com/leasehold/leasehold/core"
)

// peeked is a message that was looked at.
type peeked struct {
	message
	Ref string
}

// peek looks at messages.
func (h *harness) peek(path, body string) []peeked {
	h.t.Helper()
	var p struct{ Messages []peeked }
	h.ok("POST", path+"/messages/peek", body, &p)
	require.NotNil(h.t, p.Messages)
	return p.Messages
}

// texts are the bodies of what was peeked at.
func texts(ms []peeked) []string {
	out := make([]string, len(ms))
	for i := range ms {
		out[i] = ms[i].Body
	}
	return out
}

// drop deletes by reference and returns the warnings.
func (h *harness) drop(path string, refs ...string) map[string]string {
	h.t.Helper()
	list := make([]string, len(refs))
	for i, r := range refs {
		list[i] = fmt.Sprintf(`{"ref":%q}`, r)
	}
	var d struct {
		Errors   []struct{ Message string }
		Warnings map[string]string
	}
	h.ok("POST", path+"/messages/purge", `{"refs":[`+strings.Join(list, ",")+`]}`, &d)
	require.NotNil(h.t, d.Errors)
	require.Empty(h.t, d.Errors)
	require.NotNil(h.t, d.Warnings)
	return d.Warnings
}

func TestPeekLeasesNothing(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		path := h.make("jobs", `"batch_size":2`)
		h.push(path, "a", "b")
		h.ok("POST", path+"/messages", `{"body":{ "n" : 1 }}`, nil)
		assert.Equal(t, []string{"a", "b"}, texts(h.peek(path, "")), "the consumer's batch size is the default")
		ms := h.peek(path, `{"batch_size":100}`)
		assert.Equal(t, []string{"a", "b", "eyAibiIgOiAxIH0="}, texts(ms))
		for _, m := range ms {
			assert.Zero(t, m.Attempts)
			assert.Empty(t, m.LeaseID)
			assert.NotEmpty(t, m.Ref)
			assert.Regexp(t, "^[0-9a-f]{32}$", m.ID)
			assert.Equal(t, h.clock.Now().Milli(), m.TimestampMS)
			assert.Equal(t, "api", m.Metadata["CF-sourceMessageSource"])
		}
		pulledMessages := h.pull(path, `{"batch_size":2}`)
		assert.Equal(t, []string{"a", "b"}, bodies(pulledMessages), "what was looked at is there as before")
		assert.Equal(t, 1, pulledMessages[0].Attempts)
		assert.Equal(t, []string{"eyAibiIgOiAxIH0="}, texts(h.peek(path, "")), "what is leased is not to be had")
		h.retry(path, nil, pulledMessages[1].LeaseID)
		ms = h.peek(path, "")
		assert.Equal(t, []string{"eyAibiIgOiAxIH0=", "b"}, texts(ms))
		assert.Equal(t, 1, ms[1].Attempts)
		assert.EqualValues(t, 3, h.backlog(path).BacklogCount)
	})
}

func TestPeekShowsWhatAPullCouldGetNow(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		path := h.make("jobs", `"visibility_timeout_ms":10000`)
		h.ok("PATCH", path, `{"settings":{"message_retention_period":60}}`, nil)
		h.ok("POST", path+"/messages", `{"body":"late","content_type":"text","delay_seconds":5}`, nil)
		assert.Empty(t, h.peek(path, ""))
		h.clock.Advance(5 * time.Second)
		assert.Eventually(t, func() bool { return len(h.peek(path, "")) == 1 }, time.Second, time.Millisecond)
		h.one(path)
		assert.Empty(t, h.peek(path, ""))
		h.clock.Advance(10 * time.Second)
		assert.Eventually(t, func() bool { return len(h.peek(path, "")) == 1 }, time.Second, time.Millisecond)
		h.clock.Advance(50 * time.Second)
		assert.Empty(t, h.peek(path, ""), "retention has ended")
	})
}

// Neither a pause nor a missing consumer keeps anybody from looking: that is how one
// finds out what is in a dead letter queue.
func TestPeekNeedsNoConsumer(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		path := h.make("jobs", `"max_retries":0`)
		var list []consumer
		h.ok("GET", path+"/consumers", "", &list)
		h.ok("PUT", path+"/consumers/"+list[0].ConsumerID, `{"type":"http_pull","dead_letter_queue":"dlq","settings":{"max_retries":0}}`, nil)
		h.push(path, "poison")
		h.retry(path, nil, h.one(path).LeaseID)
		h.refused("POST", "/queues/dlq/messages/pull", "", 405, 0)
		assert.Equal(t, []string{"poison"}, texts(h.peek("/queues/dlq", "")))
		h.ok("PATCH", "/queues/dlq", `{"settings":{"delivery_paused":true}}`, nil)
		ms := h.peek("/queues/dlq", "")
		assert.Equal(t, []string{"poison"}, texts(ms))
		assert.Empty(t, h.drop("/queues/dlq", ms[0].Ref))
		assert.Empty(t, h.peek("/queues/dlq", ""))
		assert.Zero(t, h.backlog("/queues/dlq").BacklogCount)
	})
}

func TestPurgeByReference(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		path, other := h.make("jobs", ""), h.make("other", "")
		h.push(path, "a", "b", "c", "d")
		ms := h.peek(path, "")
		require.Len(t, ms, 4)
		warnings := h.drop(path, ms[2].Ref, ms[2].Ref, "garbage")
		assert.Equal(t, map[string]string{"garbage": "reference is not valid for this queue"}, warnings)
		assert.EqualValues(t, 3, h.backlog(path).BacklogCount)
		assert.Equal(t, []string{"a", "b", "d"}, bodies(h.pull(path, "")), "gone out of the middle")
		assert.Empty(t, h.drop(path, ms[0].Ref), "also when somebody has leased it by now")
		assert.EqualValues(t, 2, h.backlog(path).BacklogCount)
		assert.Empty(t, h.drop(path, ms[0].Ref), "again is fine")
		assert.Len(t, h.drop(other, ms[1].Ref), 1, "not through another queue")
		assert.EqualValues(t, 2, h.backlog(path).BacklogCount)
		h.clock.Advance(time.Minute)
		assert.ElementsMatch(t, []string{"b", "d"}, bodies(h.pull(path, "")))
		h.refused("POST", path+"/messages/purge", `{}`, 400, 10207)
		h.refused("POST", path+"/messages/purge", ``, 400, 10207)
		h.refused("POST", path+"/messages/purge", `{"refs":[{}]}`, 400, 10207)
		h.refused("POST", path+"/messages/purge", `{"refs":[{"ref":7}]}`, 400, 10207)
		h.refused("POST", path+"/messages/purge", `{"refs":"x"}`, 400, 10207)
	})
}

// A reference is no lease: it settles nothing where leases are settled.
func TestReferenceIsNoLease(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		path := h.make("jobs", "")
		h.push(path, "a")
		ref := h.peek(path, "")[0].Ref
		h.ack(path, ref).is(t, 0, 0, 1)
		h.retry(path, nil, ref).is(t, 0, 0, 1)
		h.extend(path, `"visibility_timeout_ms":1000`, ref).is(t, 0, 1)
		assert.EqualValues(t, 1, h.backlog(path).BacklogCount)
		assert.Equal(t, []string{"a"}, bodies(h.pull(path, "")))
	})
}

func TestPreview(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		path := h.make("jobs", "")
		h.push(path, "a", "b", "c")
		var p struct{ Messages []message }
		h.ok("POST", path+"/messages/preview", `{"batch_size":2}`, &p)
		assert.Equal(t, []string{"a", "b"}, bodies(p.Messages))
		leased := h.one(path)
		var w struct{ Warnings map[string]string }
		h.ok("POST", path+"/messages/preview/ack", fmt.Sprintf(
			`{"acks":[{"lease_id":%q},{"lease_id":"x"}],"retries":[{"lease_id":%q},{"lease_id":%q}]}`,
			p.Messages[1].LeaseID, leased.LeaseID, p.Messages[0].LeaseID), &w)
		assert.Equal(t, map[string]string{
			"x": "lease id is not valid for this queue", p.Messages[0].LeaseID: "message is not leased",
		}, w.Warnings)
		assert.Equal(t, []string{"c", "a"}, bodies(h.pull(path, "")), "b is gone, a was given back")
		var none struct{ Warnings map[string]string }
		h.ok("POST", path+"/messages/preview/ack", "", &none)
		assert.NotNil(t, none.Warnings)
		assert.Empty(t, none.Warnings)
	})
}

func TestPeekOverManyPartitionsAndLargeMessages(t *testing.T) {
	each(t, cfqueues.Options{Limits: cfqueues.Limits{MaxPullBytes: 1000}}, func(h *harness) {
		t := h.test
		h.make("jobs", "")
		large := strings.Repeat("x", 400)
		for i := range 5 {
			_, err := h.engine.Push(t.Context(), core.PushParams{Protocol: core.ProtocolQueen, Items: []core.PushItem{{
				Queue: "jobs", Partition: fmt.Sprint("p", i),
				NewMessage: core.NewMessage{Labels: core.Labels{ContentType: core.ContentText}, Payload: []byte(large)},
			}}})
			require.NoError(t, err)
		}
		assert.Len(t, h.peek("/queues/jobs", `{"batch_size":100}`), 2, "the byte limit of a pull holds here too")
		assert.Len(t, h.peek("/queues/jobs", `{"batch_size":1}`), 1)
		small := start(t, cfqueues.Options{})
		path := small.make("many", "")
		for i := range 37 {
			small.push(path, strconv.Itoa(i))
		}
		assert.Len(t, small.peek(path, `{"batch_size":36}`), 36)
		assert.Len(t, small.peek(path, `{"batch_size":100}`), 37)
		small.refused("POST", path+"/messages/peek", `{"batch_size":101}`, 400, 10207)
		small.refused("POST", path+"/messages/peek", `{"batch_size":0}`, 400, 10207)
		small.refused("POST", "/queues/none/messages/peek", ``, 404, 10104)
	})
}
