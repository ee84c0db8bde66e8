package queen_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
)

// sdkRules are the upstream tests of push, pop and consume, by what each verifies.
var sdkRules = []rule{
	{covers: "8.1 TestCreateQueue, 8.1 TestConfigureQueue", run: sdkConfigure},
	{covers: "8.1 TestPushMessage, 8.1 TestPushMessageWithTransactionID", run: sdkPush},
	{covers: "8.1 TestPushDuplicateMessage, 8.2 push.js dedup", run: sdkPushDuplicate},
	{covers: "8.1 TestPushBufferedMessage, 8.2 push.js buffering", run: sdkPushBuffered},
	{covers: "8.1 TestPushLargePayload, 8.2 push.js sizes", run: sdkPushLarge},
	{covers: "8.1 TestPushNullPayload, 8.1 TestPushEmptyPayload, 8.2 push.js null and empty", run: sdkPushNull},
	{covers: "8.1 TestPushToPartition", run: sdkPushToPartition},
	{covers: "8.1 TestPushMultipleMessages, 8.2 push.js concurrency", run: sdkPushMany},
	{covers: "8.2 push.js bad traceId", run: sdkPushTraceID},
	{covers: "8.1 TestPopEmptyQueue, 8.3 cli empty", run: sdkPopEmpty},
	{covers: "8.1 TestPopNonEmptyQueue", run: sdkPopNonEmpty},
	{covers: "8.1 TestPopWithWait, 8.2 pop.js empty and wait and ack", run: sdkPopWait},
	{covers: "8.1 TestPopWithAck", run: sdkPopAck},
	{covers: "8.1 TestPopBatch", run: sdkPopBatch},
	{covers: "8.1 TestConsumer, 8.2 consume.js order", run: sdkConsumer},
	{covers: "8.1 TestConsumerWithPartition", run: sdkConsumerPartition},
	{covers: "8.1 TestConsumerBatchConsume", run: sdkConsumerBatch},
	{covers: "8.1 TestConsumerGroup, 8.2 consume.js groups", run: sdkConsumerGroup},
	{covers: "8.1 TestConsumerConcurrency, 8.2 load.js", run: sdkConsumerConcurrency},
	{covers: "8.1 TestConsumerIdleTimeout, 8.3 cli tail", run: sdkConsumerIdle},
	{covers: "8.1 TestSubscriptionModeNew, 8.1 TestSubscriptionFromNow", run: sdkSubscriptionNew},
	{covers: "8.1 TestSubscriptionModeAll, 8.1 TestSubscriptionFromTimestamp", run: sdkSubscriptionAll},
	{covers: "8.1 TestDLQQuery", run: sdkDLQQuery},
	{covers: "8.1 TestDocsExamples", run: sdkDocs},
	{covers: "8.1 TestProducerSubBodyIgnoredWithoutAuth, 9.5", run: sdkProducerSub},
	{
		covers:  "8.1 TestProducerSubStampedFromJwt, 8.1 TestProducerSubSpoofingIgnoredWithJwt, 8.2 auth.js, 5.4 subject",
		options: queen.Options{Auth: queen.Auth{Secret: []byte(secretKey)}}, run: ruleProducerSub,
	},
	{covers: "8.2 consume.js manual ack", run: sdkManualAck},
	{covers: "8.2 consume.js retries", run: sdkRetries},
	{covers: "8.2 bootstrap.js", run: sdkBootstrap},
	{covers: "8.3 python extend", run: sdkPythonExtend},
	{covers: "8.3 cli dlq", run: sdkDrain},
}

func sdkConfigure(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "created", "")
	o := b.configure(t, "configured", `"leaseTime":60,"retryLimit":5,"priority":10`)
	assert.Equal(t, []any{60.0, 5.0, 10.0}, []any{o["leaseTime"], o["retryLimit"], o["priority"]})
}

func sdkPush(t *testing.T, b *broker) {
	t.Helper()
	out := b.push(t, `{"items":[{"queue":"q","payload":{"a":1}}]}`)
	assert.Equal(t, "queued", out[0].Status)
	assert.NotEmpty(t, out[0].TransactionID)
	b.pushIDs(t, "q", "Default", "mine")
	assert.Equal(t, []string{out[0].TransactionID, "mine"}, b.pop(t, "/queue/q?batch=2").ids())
}

func sdkPushDuplicate(t *testing.T, b *broker) {
	t.Helper()
	body := func(partition string) string {
		return `{"items":[{"queue":"q","partition":"` + partition + `","payload":1,"transactionId":"t"}]}`
	}
	assert.Equal(t, "queued", b.push(t, body("a"))[0].Status)
	assert.Equal(t, "duplicate", b.push(t, body("a"))[0].Status)
	assert.Equal(t, "queued", b.push(t, body("b"))[0].Status)
	assert.Equal(t, map[string]int{"queued": 1, "duplicate": 7}, b.pushAtOnce(t, 8, body("c")))
	assert.Len(t, b.pop(t, "/queue/q?partitions=0").Messages, 3)
}

func sdkPushBuffered(t *testing.T, b *broker) {
	t.Helper()
	items := make([]string, 100)
	for i := range items {
		items[i] = fmt.Sprintf(`{"queue":"q","partition":"Default","payload":{"i":%d},"transactionId":"t%d"}`, i, i)
	}
	for _, p := range b.push(t, `{"items":[`+strings.Join(items, ",")+`]}`) {
		assert.Equal(t, "queued", p.Status)
	}
	assert.Len(t, b.pop(t, "/queue/q?batch=200").Messages, 100)
}

func sdkPushLarge(t *testing.T, b *broker) {
	t.Helper()
	for i, size := range []int{1, 1000, 1 << 20, 5 << 20} {
		payload := `"` + strings.Repeat("x", size) + `"`
		assert.Equal(t, "queued", b.push(t, fmt.Sprintf(`{"items":[{"queue":"q%d","payload":%s}]}`, i, payload))[0].Status)
		got := b.pop(t, fmt.Sprint("/queue/q", i)).Messages[0].Data
		require.Len(t, got, len(payload))
		require.Equal(t, sha256.Sum256([]byte(payload)), sha256.Sum256(got), "%d bytes came back changed", size)
	}
}

func sdkPushNull(t *testing.T, b *broker) {
	t.Helper()
	b.push(t, `{"items":[{"queue":"q","payload":null},{"queue":"q","payload":{}},{"queue":"q","payload":[]},{"queue":"q","payload":""},{"queue":"q","payload":0},{"queue":"q","payload":false}]}`)
	got := make([]string, 0, 6)
	for _, m := range b.pop(t, "/queue/q?batch=9").Messages {
		got = append(got, string(m.Data))
	}
	assert.Equal(t, []string{"null", "{}", "[]", `""`, "0", "false"}, got)
	assert.Equal(t, 400, b.do(t, http.MethodPost, "/api/v1/push", `{"items":[{"queue":"q"}]}`).status)
	assert.Empty(t, b.push(t, `{"items":[]}`))
}

func sdkPushToPartition(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "p-1", "1")
	b.pushIDs(t, "q", "p-2", "2")
	p := b.pop(t, "/queue/q/partition/p-2?batch=9")
	assert.Equal(t, []string{"2"}, p.ids())
	assert.Equal(t, "p-2", p.Messages[0].Partition)
}

func sdkPushMany(t *testing.T, b *broker) {
	t.Helper()
	assert.Equal(t, map[string]int{"queued": 60}, b.pushAtOnce(t, 20, `{"items":[{"queue":"q","payload":1},{"queue":"q","payload":2},{"queue":"q","payload":3}]}`))
	p := b.pop(t, "/queue/q?batch=100")
	assert.Len(t, p.Messages, 60)
	for i, m := range p.Messages { // each push stays together in its order
		assert.Equal(t, strconv.Itoa(1+i%3), string(m.Data))
	}
}

func sdkPushTraceID(t *testing.T, b *broker) {
	t.Helper()
	for _, id := range []string{`"not-a-uuid"`, `null`, `5`, `"0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90"`, `"\ud800"`} {
		assert.Equal(t, "queued", b.push(t, `{"items":[{"queue":"q","payload":1,"traceId":`+id+`}]}`)[0].Status, id)
	}
	p := b.pop(t, "/queue/q?batch=9")
	require.Len(t, p.Messages, 5)
	require.NotNil(t, p.Messages[3].TraceID)
	assert.Equal(t, "0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90", *p.Messages[3].TraceID)
	assert.Nil(t, p.Messages[1].TraceID)
}

func sdkPopEmpty(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", "")
	r := b.do(t, http.MethodGet, "/api/v1/pop/queue/q?batch=1&wait=false&timeout=30000", "")
	assert.Equal(t, 204, r.status)
	assert.Empty(t, r.body)
	assert.Empty(t, r.header.Get("Content-Length"))
}

func sdkPopNonEmpty(t *testing.T, b *broker) {
	t.Helper()
	for i := range 20 {
		b.pushIDs(t, fmt.Sprint("q", i), "Default", "1")
		assert.Equal(t, []string{"1"}, b.pop(t, fmt.Sprintf("/queue/q%d?batch=1&wait=false&timeout=30000", i)).ids(), "directly after the push")
	}
}

func sdkPopWait(t *testing.T, b *broker) {
	t.Helper()
	parked := b.park(t.Context(), t, "q", "/queue/q?batch=1&wait=true&timeout=30000")
	b.pushIDs(t, "q", "Default", "1")
	p := asPopped(t, <-parked)
	assert.Equal(t, []string{"1"}, p.ids())
	r := b.post(t, "/api/v1/ack", `{"transactionId":"1","partitionId":"`+p.PartitionID+`","leaseId":"`+p.LeaseID+`","status":"completed","error":null}`, 200)
	exactly(t, `[{"index":0,"transactionId":"1","success":true,"error":null,"leaseReleased":true,"dlq":false,"noop":false}]`, r)
	assert.Empty(t, b.pop(t, "/queue/q?batch=1&wait=false").Messages)
}

func sdkPopAck(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "Default", "1")
	p := b.pop(t, "/queue/q?batch=1")
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed")[0].Success)
	b.clock.Advance(time.Hour)
	assert.Empty(t, b.pop(t, "/queue/q?batch=1").Messages)
}

func sdkPopBatch(t *testing.T, b *broker) {
	t.Helper()
	b.numbers(t, "a", 10)
	assert.Len(t, b.pop(t, "/queue/in?batch=5").Messages, 5)
}

func sdkDLQQuery(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", "")
	exactly(t, `{"messages":[],"pagination":{"limit":10,"offset":0},"total":0}`, b.do(t, http.MethodGet, "/api/v1/dlq?queue=q&limit=10", "").body)
}

// sdkDocs is the example of the pop routes' page.
func sdkDocs(t *testing.T, b *broker) {
	t.Helper()
	b.push(t, `{"items":[{"queue":"orders.created","partition":"customer-42","transactionId":"order-8891-created","payload":{"orderId": 8891, "total": 4200}}]}`)
	r := b.do(t, http.MethodGet, "/api/v1/pop/queue/orders.created?consumerGroup=billing&batch=50&partitions=4&wait=true&timeout=10000&leaseSeconds=120", "")
	match(t, "page", `{"success":true,"queue":"orders.created","partition":"customer-42","partitionId":"«p»","leaseId":"«l»","consumerGroup":"billing","messages":[{"id":"«m»","transactionId":"order-8891-created","traceId":null,"data":{"orderId": 8891, "total": 4200},"producerSub":null,"createdAt":"2026-01-02T03:04:05.000000Z","partitionId":"«p»","partition":"customer-42","leaseId":"«l»","consumerGroup":"billing"}],"partitionsClaimed":1}`, r.body, map[string]string{})
	b.clock.Advance(119 * time.Second)
	assert.Empty(t, b.pop(t, "/queue/orders.created?consumerGroup=billing").Messages)
}

func sdkProducerSub(t *testing.T, b *broker) {
	t.Helper()
	b.push(t, `{"items":[{"queue":"q","payload":1,"producerSub":"someone"},{"queue":"q","payload":2,"producerSub":{"x":1}}]}`)
	assert.Equal(t, 2, strings.Count(b.do(t, http.MethodGet, "/api/v1/pop/queue/q", "").body, `"producerSub":null`))
}

func sdkPythonExtend(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	p := b.pop(t, "/queue/q?leaseSeconds=1")
	for _, body := range []string{"", "{}", "[]", "null", `{"seconds":null}`, "nonsense"} {
		r := b.post(t, "/api/v1/lease/"+p.LeaseID+"/extend", body, 200)
		var out map[string]any
		require.NoError(t, json.Unmarshal([]byte(r), &out), "an object: %s", r)
		assert.Equal(t, []any{true, "2026-01-02T03:05:05.000000Z"}, []any{out["success"], out["newExpiresAt"]}, "60 s: %q", body)
	}
}

// sdkDrain lists, pushes again and deletes, as queenctl's drain does.
func sdkDrain(t *testing.T, b *broker) {
	t.Helper()
	b.dead(t, "q", "a", "g", "1", "2", "3")
	for _, l := range b.letters(t, "?queue=q&limit=100") {
		b.push(t, `{"items":[{"queue":"back","partition":"`+l.Partition+`","payload":`+string(l.Data)+`,"transactionId":"`+l.TransactionID+`"}]}`)
		assert.Equal(t, 200, b.do(t, http.MethodDelete, "/api/v1/messages/"+l.PartitionID+"/"+l.TransactionID, "").status)
	}
	assert.Empty(t, b.letters(t, ""))
	assert.ElementsMatch(t, []string{"1", "2", "3"}, b.pop(t, "/queue/back").ids())
}
