package queen_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
)

// planeRules are the routes of messages, §3.1 to §3.5, beyond what §6 says of their meaning.
var planeRules = []rule{
	{covers: "3.1 request", run: rulePushRequest},
	{covers: "3.1 response", run: rulePushResponse},
	{covers: "3.1 limits", options: queen.Options{MaxBodyBytes: 200_000}, run: rulePushLimits},
	{covers: "3.2 defaults", run: rulePopDefaults},
	{covers: "3.2 settings", options: queen.Options{Batch: 2, SubscribeNew: true, Timeout: 2 * time.Second}, run: rulePopSettings},
	{covers: "3.2 response", run: rulePopResponse},
	{covers: "3.2 nothing", run: rulePopNothing},
	{covers: "3.2 errors", run: rulePopErrors},
	{covers: "3.2 queue row", run: rulePopCreates},
	{covers: "3.3 words", run: ruleAckWords},
	{covers: "3.3 bodies", run: ruleAckBodies},
	{covers: "3.4 extend", run: ruleExtend},
	{covers: "3.5 forms", run: ruleTransactionForms},
	{covers: "3.5 refusals", run: ruleTransactionRefusals},
	{covers: "3.11 message ids", run: ruleCycleMessageIDs},
}

func rulePushRequest(t *testing.T, b *broker) {
	t.Helper()
	b.push(t, `{"unknown":{"x":[1]},"items":[{"queue":"q","payload":null},{"queue":"q","partition":null,"transactionId":null,"traceId":null,"payload":2,"data":3,"more":true}]}`)
	p := b.pop(t, "/queue/q?batch=9")
	require.Len(t, p.Messages, 2)
	assert.Equal(t, []string{"null", "2"}, []string{string(p.Messages[0].Data), string(p.Messages[1].Data)})
	assert.Equal(t, "Default", p.Partition, "an absent or null partition")
	assert.Equal(t, p.Messages[0].ID, p.Messages[0].TransactionID, "an id is made where none was given")
	for _, bad := range []string{
		`{}`, `{"items":null}`, `{"items":{}}`, `{"items":[{}]}`, `{"items":[{"queue":"q"}]}`, `{"items":[{"queue":"q","data":1}]}`,
		`{"items":[{"queue":5,"payload":1}]}`, `{"items":[{"queue":null,"payload":1}]}`, `{"items":[{"queue":"q","partition":5,"payload":1}]}`,
		`{"items":[{"queue":"q","transactionId":5,"payload":1}]}`, `{"items":[5]}`, `{"items":[{"queue":"q","payload":1}]`, `[]x`,
		`{"items":[{"queue":"a\u001fb","payload":1}]}`, `{"items":[{"queue":"q","transactionId":"\u001f","payload":1}]}`,
	} {
		r := b.do(t, http.MethodPost, "/api/v1/push", bad)
		assert.Equal(t, 400, r.status, bad)
		assert.Contains(t, r.body, `{"error":"bad body: `, bad)
	}
	assert.Empty(t, b.pop(t, "/queue/q?batch=9").Messages, "nothing of a refused request is stored")
}

func rulePushResponse(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "Default", "old")
	r := b.do(t, http.MethodPost, "/api/v1/push",
		`{"items":[{"queue":"q","payload":1,"transactionId":"new"},{"queue":"q","payload":2,"transactionId":"old"},{"queue":"q","payload":3,"transactionId":"new"}]}`)
	assert.Equal(t, 201, r.status)
	assert.Equal(t, "application/json", r.header.Get("Content-Type"))
	match(t, "push", `[{"index":0,"message_id":"«new»","transaction_id":"new","queueName":"q","status":"queued"},`+
		`{"index":1,"message_id":"«old»","transaction_id":"old","queueName":"q","status":"duplicate"},`+
		`{"index":2,"message_id":"«new»","transaction_id":"new","queueName":"q","status":"duplicate"}]`, r.body, map[string]string{})
	p := b.pop(t, "/queue/q?batch=9")
	assert.Contains(t, r.body, `"message_id":"`+p.Messages[0].ID+`","transaction_id":"old"`, "the first message's id")
	exactly(t, `[]`, b.do(t, http.MethodPost, "/api/v1/push", `{"items":[]}`).body)
}

func rulePushLimits(t *testing.T, b *broker) {
	t.Helper()
	item := func(id string) string { return `{"items":[{"queue":"q","payload":1,"transactionId":"` + id + `"}]}` }
	assert.Equal(t, 201, b.do(t, http.MethodPost, "/api/v1/push", item(strings.Repeat("x", 65535))).status)
	assert.Equal(t, 400, b.do(t, http.MethodPost, "/api/v1/push", item(strings.Repeat("x", 65536))).status)
	r := b.do(t, http.MethodPost, "/api/v1/push", item(strings.Repeat("x", 200_000)))
	assert.Equal(t, 413, r.status)
	p := b.pop(t, "/queue/q")
	require.Len(t, p.Messages[0].TransactionID, 65535)
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, p.ids()[0]+"=completed")[0].LeaseReleased)
}

func rulePopDefaults(t *testing.T, b *broker) {
	t.Helper()
	for _, partition := range []string{"a", "b"} {
		items := make([]string, 210)
		for i := range items {
			items[i] = fmt.Sprintf(`{"queue":"q","partition":%q,"payload":%d}`, partition, i)
		}
		b.push(t, `{"items":[`+strings.Join(items, ",")+`]}`)
	}
	p := b.pop(t, "/queue/q")
	assert.Equal(t, []any{200, 1, "__QUEUE_MODE__"}, []any{len(p.Messages), p.PartitionsClaimed, p.ConsumerGroup}, "batch 200, one partition, queue mode")
	assert.Len(t, b.pop(t, "/queue/q?batch=0").Messages, 1, "below 1 acts as 1")
	assert.Empty(t, b.pop(t, "/queue/q").Messages, "both partitions are leased")
	b.clock.Advance(60*time.Second - time.Millisecond)
	assert.Empty(t, b.pop(t, "/queue/q").Messages)
	b.clock.Advance(time.Millisecond)
	p = b.pop(t, "/queue/q?batch=300&partitions=-1&leaseSeconds=-5&consumerGroup=")
	assert.Equal(t, []int{300, 2}, []int{len(p.Messages), p.PartitionsClaimed}, "the budget is the call's, over all partitions")
	assert.Len(t, b.pop(t, "/queue/q?consumerGroup=g&batch=1&subscriptionMode=from_beginning&subscriptionFrom=whenever").Messages, 1, "words that mean nothing act as all")
}

func rulePopSettings(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1", "2", "3")
	assert.Len(t, b.pop(t, "/queue/q").Messages, 2, "the server's batch")
	assert.Empty(t, b.pop(t, "/queue/q?consumerGroup=new").Messages, "the server's subscription mode")
	assert.Len(t, b.pop(t, "/queue/q?consumerGroup=old&subscriptionMode=all").Messages, 2, "a named one goes before it")
	parked := b.park(t.Context(), t, "e", "/queue/e?wait=true")
	b.clock.Advance(1900 * time.Millisecond)
	assert.Equal(t, 204, (<-parked).status, "the server's timeout, answered a little early")
}

func rulePopResponse(t *testing.T, b *broker) {
	t.Helper()
	b.push(t, `{"items":[{"queue":"ns.task","partition":"a","payload":{"n":1},"transactionId":"1"}]}`)
	message := `{"id":"«m»","transactionId":"1","traceId":null,"data":{"n":1},"producerSub":null,"createdAt":"2026-01-02T03:04:05.000000Z","partitionId":"«p»","partition":"a","leaseId":"«l»","consumerGroup":"g"}`
	for _, c := range [][2]string{{"/queue/ns.task?consumerGroup=g", "ns.task"}, {"/queue/ns.task/partition/a?consumerGroup=g", "ns.task"}, {"?namespace=ns&task=task&consumerGroup=g", ""}} {
		r := b.do(t, http.MethodGet, "/api/v1/pop"+c[0], "")
		assert.Equal(t, 200, r.status)
		known := map[string]string{}
		match(t, c[0], `{"success":true,"queue":"`+c[1]+`","partition":"a","partitionId":"«p»","leaseId":"«l»","consumerGroup":"g","messages":[`+message+`],"partitionsClaimed":1}`, r.body, known)
		b.ack(t, "g", known["p"], known["l"], "1=retry")
	}
	r := b.do(t, http.MethodGet, "/api/v1/pop/queue/ns.task?consumerGroup=g&autoAck=1", "")
	assert.Equal(t, 2, strings.Count(r.body, `"leaseId":""`), "none with autoAck")
}

func rulePopNothing(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "later", `"delayedProcessing":60`)
	b.pushIDs(t, "later", "a", "1")
	b.pushIDs(t, "leased", "a", "1")
	b.pop(t, "/queue/leased")
	b.configure(t, "empty", "")
	for _, path := range []string{"/queue/empty", "/queue/later", "/queue/leased", "/queue/unknown", "/queue/leased/partition/unknown", "?namespace=nobody", "/queue/empty?wait=true&timeout=0"} {
		r := b.do(t, http.MethodGet, "/api/v1/pop"+path, "")
		assert.Equal(t, 204, r.status, path)
		assert.Empty(t, r.body, path)
		assert.Empty(t, r.header.Get("Content-Length"), path)
	}
}

func rulePopErrors(t *testing.T, b *broker) {
	t.Helper()
	for _, path := range []string{"", "?namespace=&task=", "?consumerGroup=g"} {
		r := b.do(t, http.MethodGet, "/api/v1/pop"+path, "")
		assert.Equal(t, 400, r.status)
		exactly(t, `{"success":false,"error":"namespace or task is required","messages":[]}`, r.body)
	}
	for _, query := range []string{"batch=x", "batch=1.5", "batch=", "partitions=all", "timeout=soon", "leaseSeconds=1s", "autoAck=maybe", "wait=2", "batch=99999999999999999999", "consumerGroup=a%1fb", "batch=%zz"} {
		r := b.do(t, http.MethodGet, "/api/v1/pop/queue/q?"+query, "")
		assert.Equal(t, 400, r.status, query)
		var e struct{ Error string }
		require.NoError(t, json.Unmarshal([]byte(r.body), &e), query)
		assert.NotEmpty(t, e.Error)
	}
	assert.Equal(t, 404, b.do(t, http.MethodGet, "/api/v1/resources/queues/q", "").status, "a refused pop makes no queue")
	for _, query := range []string{"wait=False", "autoAck=TRUE", "wait=0", "unknown=x", "batch=5&batch=6"} {
		assert.Equal(t, 204, b.do(t, http.MethodGet, "/api/v1/pop/queue/q?"+query, "").status, query)
	}
}

func rulePopCreates(t *testing.T, b *broker) {
	t.Helper()
	b.pop(t, "/queue/billing.invoice.eu?consumerGroup=g&subscriptionMode=new")
	b.pop(t, "/queue/other.one/partition/p")
	r := b.do(t, http.MethodGet, "/api/v1/resources/queues/billing.invoice.eu", "")
	assert.Equal(t, 200, r.status)
	for _, want := range []string{`"namespace":"billing"`, `"task":"invoice"`, `"leaseTime":60`, `"partitions":[]`} {
		assert.Contains(t, r.body, want)
	}
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/resources/queues/other.one", "").body, `"partitions":[]`, "no partition is made")
	b.pop(t, "?namespace=nobody")
	assert.Equal(t, 404, b.do(t, http.MethodGet, "/api/v1/resources/queues/nobody", "").status, "discovery makes nothing")
	b.pushIDs(t, "billing.invoice.eu", "p", "1")
	assert.Equal(t, []string{"1"}, b.pop(t, "/queue/billing.invoice.eu?consumerGroup=g").ids(), "the group was registered before the first push")
}

func ruleAckWords(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"retryLimit":100`)
	for word, completes := range map[string]bool{
		`"completed"`: true, `"success"`: true, `"acked"`: true, `"ok"`: true, `null`: true,
		`"retry"`: false, `"failed"`: false, `"Completed"`: false, `""`: false, `"done"`: false,
	} {
		id := fmt.Sprint("w", len(word), completes, word == `""`, strings.Trim(word, `"`))
		b.pushIDs(t, "q", id, id)
		p := b.pop(t, "/queue/q/partition/"+id)
		r := b.post(t, "/api/v1/ack", `{"transactionId":"`+id+`","partitionId":"`+p.PartitionID+`","leaseId":"`+p.LeaseID+`","status":`+word+`}`, 200)
		exactly(t, `[{"index":0,"transactionId":"`+id+`","success":true,"error":null,"leaseReleased":true,"dlq":false,"noop":false}]`, r, word)
		assert.Equal(t, completes, len(b.pop(t, "/queue/q/partition/"+id).Messages) == 0, word)
	}
	b.pushIDs(t, "q", "dead", "1")
	p := b.pop(t, "/queue/q/partition/dead")
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, "1=dlq")[0].DLQ)
}

func ruleAckBodies(t *testing.T, b *broker) {
	t.Helper()
	for _, bad := range []string{``, `{}`, `[]`, `{"transactionId":"1"}`, `{"partitionId":"x"}`, `{"transactionId":5,"partitionId":"x"}`, `{"transactionId":"1","partitionId":5}`, `{"transactionId":"1","partitionId":"x","status":5}`, `{`} {
		r := b.do(t, http.MethodPost, "/api/v1/ack", bad)
		assert.Equal(t, 400, r.status, bad)
	}
	for _, bad := range []string{``, `{}`, `{"acknowledgments":null}`, `{"acknowledgments":{}}`, `{"acknowledgments":[{}]}`, `{"acknowledgments":[{"transactionId":"1"}]}`, `{"acknowledgments":[5]}`} {
		r := b.do(t, http.MethodPost, "/api/v1/ack/batch", bad)
		assert.Equal(t, 400, r.status, bad)
	}
	exactly(t, `[]`, b.post(t, "/api/v1/ack/batch", `{"acknowledgments":[]}`, 200))
	r := b.post(t, "/api/v1/ack", `{"transactionId":"1","partitionId":"nonsense"}`, 200)
	assert.Contains(t, r, `"success":false,"error":"invalid input syntax for type uuid: \"nonsense\""`)
	// The group of a batch stands at its top; one inside an item is passed over.
	b.pushIDs(t, "q", "a", "1")
	p := b.pop(t, "/queue/q?consumerGroup=g")
	item := `{"transactionId":"1","partitionId":"` + p.PartitionID + `","leaseId":"` + p.LeaseID + `","consumerGroup":"g"}`
	r = b.post(t, "/api/v1/ack/batch", `{"acknowledgments":[`+item+`]}`, 200)
	assert.Contains(t, r, `"success":false`)
	r = b.post(t, "/api/v1/ack/batch", `{"acknowledgments":[`+item+`],"consumerGroup":"g"}`, 200)
	assert.Contains(t, r, `"success":true`)
}

func ruleExtend(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	b.pushIDs(t, "q", "b", "2")
	p := b.pop(t, "/queue/q?partitions=0&leaseSeconds=100")
	at := func(seconds string) string {
		return `{"leaseId":"` + p.LeaseID + `","success":true,"renewed":2,"newExpiresAt":"` + seconds + `","expiresAt":"` + seconds + `","lease_expires_at":"` + seconds + `"}`
	}
	exactly(t, at("2026-01-02T03:05:45.000000Z"), b.post(t, "/api/v1/lease/"+p.LeaseID+"/extend", `{"seconds":1}`, 200), "never shortened")
	exactly(t, at("2026-01-02T03:07:25.000000Z"), b.post(t, "/api/v1/lease/"+p.LeaseID+"/extend", `{"seconds":200}`, 200))
	exactly(t, at("2026-01-02T03:07:25.000000Z"), b.post(t, "/api/v1/lease/"+p.LeaseID+"/extend", `{"seconds":-5}`, 200), "below 1 acts as 1")
	for _, dead := range []string{nobody, "no-uuid", "x"} {
		exactly(t, `{"leaseId":"`+dead+`","success":false,"renewed":0,"newExpiresAt":null,"expiresAt":null,"lease_expires_at":null}`, b.post(t, "/api/v1/lease/"+dead+"/extend", "", 200))
	}
}

func ruleTransactionForms(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "in", "a", "1")
	p := b.pop(t, "/queue/in?consumerGroup=g")
	r := b.post(t, "/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":"out","payload":1,"transactionId":"a"},{"queue":"out","data":null,"transactionId":"b"}]},`+
		`{"queue":"out","transactionId":"c","traceId":"tr","type":"push"},{"type":"ack","transactionId":"1","partitionId":"`+p.PartitionID+`","consumerGroup":"g"}],"requiredLeases":["`+p.LeaseID+`"]}`, 200)
	match(t, "transaction", `{"transactionId":"«t»","success":true,"results":[`+
		`{"index":0,"type":"push","success":true,"transactionId":"a","messageId":"«a»","queueName":"out"},`+
		`{"index":1,"type":"push","success":true,"transactionId":"b","messageId":"«b»","queueName":"out"},`+
		`{"index":2,"type":"push","success":true,"transactionId":"c","messageId":"«c»","queueName":"out"},`+
		`{"index":3,"type":"ack","success":true,"transactionId":"1","error":null,"dlq":false}]}`, r, map[string]string{})
	out := b.pop(t, "/queue/out?batch=9")
	require.Len(t, out.Messages, 3)
	assert.Equal(t, []string{"1", "null", "{}"}, []string{string(out.Messages[0].Data), string(out.Messages[1].Data), string(out.Messages[2].Data)})
	require.NotNil(t, out.Messages[2].TraceID)
	assert.Equal(t, "tr", *out.Messages[2].TraceID)
}

func ruleTransactionRefusals(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	p := b.pop(t, "/queue/q")
	push := `{"type":"push","queue":"out","payload":1}`
	for body, want := range map[string]struct {
		status int
		text   string
	}{
		`{}`:                               {400, "transaction requires an operations array"},
		`{"operations":"x"}`:               {400, "transaction requires an operations array"},
		`{"operations":[{"type":"kv"}]}`:   {400, "segments transaction supports only push and ack operations"},
		`{"operations":[` + push + `,{}]}`: {400, "segments transaction supports only push and ack operations"},
		tx(push, `{"type":"push","queue":"q","partition":"a","transactionId":"1"}`): {200, `QDUP duplicate messages in queue \"q\" partition \"a\"; transaction rolled back`},
		tx(push, ackOp("ghost", p.PartitionID, "")):                                 {200, "QTXN ack references unknown transactionId; transaction rolled back"},
		tx(push, ackOp("1", p.PartitionID, `,"leaseId":"`+nobody+`"`)):              {200, "invalid or expired lease; transaction rolled back"},
	} {
		r := b.do(t, http.MethodPost, "/api/v1/transaction", body)
		assert.Equal(t, want.status, r.status, body)
		match(t, body, `{"transactionId":"«t»","success":false,"error":"`+want.text+`","results":[]}`, r.body, map[string]string{})
	}
	assert.Equal(t, 204, b.do(t, http.MethodGet, "/api/v1/pop/queue/out", "").status, "nothing of any of them is there")
}

func ruleCycleMessageIDs(t *testing.T, b *broker) {
	t.Helper()
	q := b.query(t, "n")
	b.pushIDs(t, "in", "p", "1")
	p := b.pop(t, "/queue/in?consumerGroup=s")
	const mine, other = "0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90", "0198f2c1-9a7b-4d20-8e31-4c5d6e7f8a91"
	work := `,"push_items":[{"queue":"out","payload":1,"messageId":"` + mine + `"},{"queue":"out","payload":2,"messageId":"` + other + `","transactionId":"t"},{"queue":"out","payload":3,"messageId":null}]`
	require.True(t, b.cycle(t, q, p.PartitionID, work).Success)
	again := b.cycle(t, q, p.PartitionID, work)
	assert.Equal(t, []string{"duplicate", "duplicate", "queued"}, []string{again.PushResults[0].Status, again.PushResults[1].Status, again.PushResults[2].Status}, "a cycle that is sent again")
	assert.Equal(t, mine, again.PushResults[0].MessageID)
	out := b.pop(t, "/queue/out?batch=9")
	require.Len(t, out.Messages, 4)
	assert.Equal(t, []string{mine, other}, []string{out.Messages[0].ID, out.Messages[1].ID})
	assert.Equal(t, []string{mine, "t"}, out.ids()[:2])
	b.restart(t)
	assert.True(t, b.ack(t, "", out.PartitionID, out.LeaseID, mine+"=completed", "t=completed")[1].Success, "and is found by its ids")
	for _, bad := range []string{`"x"`, `""`, `"00000000-0000-0000-0000-000000000000"`, `"{` + mine + `}"`} {
		body := `{"query_id":"` + q + `","partition_id":"` + p.PartitionID + `","push_items":[{"queue":"bad","payload":1,"messageId":` + bad + `}]}`
		want := 400
		if bad == `""` {
			want = 200
		}
		assert.Equal(t, want, b.do(t, http.MethodPost, "/streams/v1/cycle", body).status, bad)
	}
}
