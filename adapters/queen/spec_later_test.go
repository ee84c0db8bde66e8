package queen_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
)

// laterRules are features of later releases that today's SDKs send.
var laterRules = []rule{
	{covers: "later deliveryAttempt, 9.2", options: queen.Options{DeliveryAttempt: true}, run: ruleDeliveryAttempt},
	{covers: "later deliveryAttempt", run: ruleNoDeliveryAttempt},
	{covers: "later conflation", run: ruleConflation},
	{covers: "later autopilot", run: ruleAutopilot},
	{covers: "later unknown families", run: ruleUnknownFamilies},
}

// attempts reads the delivery attempts of a pop by transaction id.
func (b *broker) attempts(t *testing.T, path string) (p popped, out map[string]int) {
	t.Helper()
	r := b.do(t, http.MethodGet, "/api/v1/pop"+path, "")
	p = asPopped(t, r)
	var list struct {
		Messages []struct {
			TransactionID   string
			DeliveryAttempt int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.body), &list))
	out = map[string]int{}
	for _, m := range list.Messages {
		out[m.TransactionID] = m.DeliveryAttempt
	}
	return p, out
}

func ruleDeliveryAttempt(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1", "2")
	_, attempts := b.attempts(t, "/queue/q?batch=2")
	assert.Equal(t, map[string]int{"1": 1, "2": 1}, attempts)
	b.clock.Advance(time.Minute) // the worker crashed
	p, attempts := b.attempts(t, "/queue/q?batch=2")
	assert.Equal(t, []string{"1", "2"}, p.ids(), "the same messages, in the same order")
	assert.Equal(t, map[string]int{"1": 1, "2": 1}, attempts, "a lease that ran out is no failure")
	b.ack(t, "", p.PartitionID, p.LeaseID, "1=failed")
	b.pushIDs(t, "q", "a", "3")
	p, attempts = b.attempts(t, "/queue/q?batch=3")
	assert.Equal(t, map[string]int{"1": 2, "2": 2, "3": 1}, attempts)
	b.ack(t, "", p.PartitionID, p.LeaseID, "1=failed")
	_, attempts = b.attempts(t, "/queue/q?batch=1&autoAck=true")
	assert.Equal(t, map[string]int{"1": 3}, attempts)
	_, attempts = b.attempts(t, "/queue/q?batch=3&consumerGroup=g")
	assert.Equal(t, map[string]int{"1": 1, "2": 1, "3": 1}, attempts, "each group counts its own")
}

func ruleNoDeliveryAttempt(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	r := b.do(t, http.MethodGet, "/api/v1/pop/queue/q", "")
	var p struct{ Messages []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(r.body), &p))
	assert.Len(t, p.Messages[0], 10, "exactly ten keys")
}

type conflated struct {
	popped
	Conflation, ConflationConflict bool
}

func (b *broker) conflate(t *testing.T, query string) (out conflated) {
	t.Helper()
	r := b.do(t, http.MethodGet, "/api/v1/pop/queue/q?"+query, "")
	if r.status != http.StatusNoContent {
		require.Equal(t, 200, r.status, r.body)
		require.NoError(t, json.Unmarshal([]byte(r.body), &out))
		require.NotContains(t, r.body, `"messages":null`)
	}
	return out
}

func ruleConflation(t *testing.T, b *broker) {
	t.Helper()
	const with = "consumerGroup=g&batch=200&conflation=true"
	out := b.conflate(t, with)
	assert.True(t, out.Conflation && !out.ConflationConflict && out.Success, "the echo is on an empty answer too")
	for i := range 20 {
		b.pushIDs(t, "q", "a", fmt.Sprint("a", i))
		b.pushIDs(t, "q", "b", fmt.Sprint("b", i))
	}
	out = b.conflate(t, with)
	require.Equal(t, []string{"a19"}, out.ids()[:1])
	assert.Len(t, out.Messages, 1, "the newest one, of one partition")
	b.pushIDs(t, "q", "a", "a20", "a21")
	assert.Equal(t, []string{"b19"}, b.conflate(t, with).ids())
	assert.Empty(t, b.conflate(t, with).Messages, "both are leased")
	assert.True(t, b.ack(t, "g", out.PartitionID, out.LeaseID, "a19=completed")[0].LeaseReleased, "what was pushed meanwhile stays pending")
	next := b.conflate(t, with+"&partitions=0&leaseSeconds=5")
	assert.Equal(t, []string{"a21"}, next.ids())

	// A failed or lost delivery comes back, unless something newer has come.
	b.ack(t, "g", next.PartitionID, next.LeaseID, "a21=retry")
	next = b.conflate(t, with+"&leaseSeconds=5")
	assert.Equal(t, []string{"a21"}, next.ids())
	b.pushIDs(t, "q", "a", "a22")
	b.clock.Advance(5 * time.Second)
	next = b.conflate(t, with)
	assert.Equal(t, []string{"a22"}, next.ids())
	b.ack(t, "g", next.PartitionID, next.LeaseID, "a22=completed")
	b.clock.Advance(time.Hour)
	assert.Equal(t, []string{"b19"}, b.conflate(t, with).ids(), "nothing old comes back")

	// What the group's first contact said holds, for everybody.
	assert.Equal(t, 204, b.do(t, http.MethodGet, "/api/v1/pop/queue/q?consumerGroup=g", "").status, "a bare 204 for who does not ask")
	b.pushIDs(t, "q", "a", "a23", "a24")
	silent := b.conflate(t, "consumerGroup=g&batch=200")
	assert.Equal(t, []string{"a24"}, silent.ids())
	assert.True(t, silent.Conflation && silent.ConflationConflict)
	b.restart(t)
	assert.True(t, b.conflate(t, with).Conflation)
	all := b.conflate(t, "consumerGroup=audit&batch=200&partitions=0")
	assert.Len(t, all.Messages, 45)
	all = b.conflate(t, "consumerGroup=audit&batch=200&conflation=true")
	assert.True(t, !all.Conflation && all.ConflationConflict)

	// The retry budget holds while values overtake each other.
	b.configure(t, "q", `"retryLimit":1`)
	b.conflate(t, "consumerGroup=h&conflation=true&partitions=0&subscriptionMode=new")
	b.pushIDs(t, "q", "c", "c1", "c2")
	for i := range 2 {
		p := b.conflate(t, "consumerGroup=h")
		require.Equal(t, []string{fmt.Sprint("c", 2+i)}, p.ids())
		b.pushIDs(t, "q", "c", fmt.Sprint("c", 3+i))
		assert.Equal(t, i == 1, b.ack(t, "h", p.PartitionID, p.LeaseID, p.ids()[0]+"=failed")[0].DLQ)
	}
	assert.Equal(t, []string{"c4"}, b.conflate(t, "consumerGroup=h").ids())
	for _, bad := range []string{"conflation=true", "conflation=true&consumerGroup=", "conflation=true&consumerGroup=g&autoAck=true", "conflation=maybe&consumerGroup=g"} {
		assert.Equal(t, 400, b.do(t, http.MethodGet, "/api/v1/pop/queue/q?"+bad, "").status, bad)
	}
	assert.Equal(t, 204, b.do(t, http.MethodGet, "/api/v1/pop/queue/none?consumerGroup=x", "").status, "a bare 204 for everybody else")
	b.do(t, http.MethodDelete, "/api/v1/consumer-groups/g", "")
	assert.False(t, b.conflate(t, "consumerGroup=g").Conflation, "a deleted group may choose again")
}

func ruleAutopilot(t *testing.T, b *broker) {
	t.Helper()
	for i := range 15 {
		b.pushIDs(t, "q", fmt.Sprint("p", i), strconv.Itoa(i))
	}
	r := b.do(t, http.MethodGet, "/api/v1/pop/queue/q?autopilot=true", "")
	assert.Contains(t, r.body, `"partitionsClaimed":10,"autopilot":{"partitions":10,"batch":200}}`)
	r = b.do(t, http.MethodGet, "/api/v1/pop/queue/q?autopilot=true&partitions=2&consumerGroup=g", "")
	assert.Contains(t, r.body, `"partitionsClaimed":2,"autopilot":{"partitions":2,"batch":200}}`, "what the client chose is kept")
	r = b.do(t, http.MethodGet, "/api/v1/pop/queue/q?autopilot=true&batch=3&consumerGroup=h", "")
	assert.Contains(t, r.body, `"partitionsClaimed":3,"autopilot":{"partitions":10,"batch":3}}`)
	r = b.do(t, http.MethodGet, "/api/v1/pop/queue/q?autopilot=false&consumerGroup=i", "")
	assert.NotContains(t, r.body, "autopilot")
	assert.Contains(t, r.body, `"partitionsClaimed":1}`)
}

func ruleUnknownFamilies(t *testing.T, b *broker) {
	t.Helper()
	for _, target := range [][2]string{
		{"GET", "/api/v1/kv/x"},
		{"POST", "/api/v1/kv/put"},
		{"POST", "/api/v1/timers"},
		{"DELETE", "/api/v1/timers/1"},
		{"POST", "/api/v1/ephemeral/q/publish"},
		{"GET", "/api/v1/ephemeral/q"},
		{"GET", "/api/v1/fetch"},
		{"GET", "/api/v1/partitions/changed"},
		{"GET", "/api/v1/resources/kv/x"},
		{"GET", "/api/v1/system/kv-timers"},
		{"DELETE", "/api/v1/queues/q/clear"},
		{"GET", "/api/v1/resources/partitions"},
		{"POST", "/api/v1/messages/p/t/dlq"},
		{"POST", "/api/v1/stream/poll"},
		{"POST", "/api/v1/consumer-groups/replay"},
		{"POST", "/api/login"},
	} {
		r := b.do(t, target[0], target[1], "")
		assert.Equal(t, 404, r.status, target)
		exactly(t, `{"error":"Not Found","code":"no_such_route"}`, r.body, target)
	}
}
