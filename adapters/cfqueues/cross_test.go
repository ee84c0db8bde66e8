package cfqueues_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
	"github.com/leasehold/leasehold/core"
)

// What the other protocols push is read here, and the other way round.
func TestMessagesOfOtherProtocols(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	for _, p := range []struct {
		protocol core.Protocol
		labels   core.Labels
		payload  string
	}{
		{core.ProtocolQueen, core.Labels{ContentType: core.ContentJSON}, `{ "b":1.50, "a" : "<&>" }`},
		{core.ProtocolQuerator, core.Labels{ContentType: core.ContentBytes}, "\x00\xff"},
		{core.ProtocolQuerator, core.Labels{ContentType: core.ContentText, Encoding: "utf8"}, "héllo\n"},
		{core.ProtocolQuerator, core.Labels{ContentType: core.ContentJSON, Encoding: "json"}, `[1]`},
	} {
		_, err := h.engine.Push(t.Context(), core.PushParams{Protocol: p.protocol, Items: []core.PushItem{
			{Queue: "jobs", NewMessage: core.NewMessage{Labels: p.labels, Payload: []byte(p.payload)}},
		}})
		require.NoError(t, err)
	}
	ms := h.pull(path, "")
	require.Len(t, ms, 4)
	assert.Equal(t, []string{"eyAiYiI6MS41MCwgImEiIDogIjwmPiIgfQ==", "AP8=", "héllo\n", "WzFd"}, bodies(ms))
	for i, want := range []string{"json", "bytes", "text", "json"} {
		assert.Equal(t, map[string]string{"CF-Content-Type": want, "CF-sourceMessageSource": "api"}, ms[i].Metadata)
	}
}

func TestPushIsReadByOtherProtocols(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	h.ok("POST", path+"/messages/batch", `{"messages":[{"body":{ "a" : 1 }},{"body":"hé","content_type":"text"},{"body":"AP8=","content_type":"bytes"}]}`, nil)
	got, err := h.engine.Claim(t.Context(), core.ClaimParams{Protocol: core.ProtocolQueen, Exclusive: true, Queue: "jobs", Messages: 10, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, got.Partitions, 1)
	ms := got.Partitions[0].Messages
	require.Len(t, ms, 3)
	for i, want := range []struct {
		payload, encoding string
		contentType       core.ContentType
	}{{`{ "a" : 1 }`, "json", core.ContentJSON}, {"hé", "text", core.ContentText}, {"\x00\xff", "bytes", core.ContentBytes}} {
		assert.Equal(t, want.payload, string(ms[i].Payload))
		assert.Equal(t, want.contentType, ms[i].ContentType)
		assert.Equal(t, want.encoding, ms[i].Encoding)
	}
	assert.Empty(t, h.pull(path, ""), "an exclusive lease elsewhere is passed over")
}

func TestQueueOfAnotherProtocol(t *testing.T) {
	h := start(t, cfqueues.Options{})
	_, err := h.engine.Push(t.Context(), core.PushParams{Protocol: core.ProtocolQueen, Create: true, Items: []core.PushItem{
		{Queue: "Orders/2026 (new)", Partition: "p1", NewMessage: core.NewMessage{Payload: []byte(`1`)}},
	}})
	require.NoError(t, err)
	path := "/queues/Orders%2F2026%20(new)"
	var q queue
	h.ok("GET", path, "", &q)
	assert.Equal(t, "Orders/2026 (new)", q.QueueName)
	assert.EqualValues(t, 0, *q.Settings.DeliveryDelay)
	h.refused("POST", path+"/messages/pull", "", 405, 0)
	c := h.consume(q.QueueID, "", "")
	assert.Equal(t, "Orders/2026 (new)", c.QueueName)
	assert.Equal(t, []string{"MQ=="}, bodies(h.pull(path, "")))

	// A consumer is no retention: what only Queen configured keeps its messages.
	_, err = h.engine.Push(t.Context(), core.PushParams{Protocol: core.ProtocolQueen, Items: []core.PushItem{
		{Queue: "Orders/2026 (new)", Partition: "p1", NewMessage: core.NewMessage{Payload: []byte(`2`)}},
	}})
	require.NoError(t, err)
	h.clock.Advance(30 * 24 * time.Hour)
	assert.Contains(t, bodies(h.pull(path, "")), "Mg==")
}

func TestOptionsOfAnotherProtocolAreShown(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", `"max_retries":7`)
	var list []consumer
	read := func() int {
		h.ok("GET", path+"/consumers", "", &list)
		return int(list[0].Settings["max_retries"])
	}
	assert.Equal(t, 7, read())
	for deliveries, want := range map[int32]int{1: 0, 21: 20, 0: 100} {
		_, err := h.engine.ConfigureQueue(t.Context(), "jobs", func(q *core.Queue) error {
			q.Options.MaxDeliveries = deliveries
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, want, read())
	}
}
