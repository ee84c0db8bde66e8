package queen_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func ruleDeleteGroup(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	b.pushIDs(t, "r", "a", "2")
	read := func(group, query string) []string {
		return append(b.pop(t, "/queue/q?autoAck=true&batch=10&consumerGroup="+group+query).ids(), b.pop(t, "/queue/r?autoAck=true&batch=10&consumerGroup="+group+query).ids()...)
	}
	require.Equal(t, []string{"1", "2"}, read("g", ""))
	require.Empty(t, read("g", ""))
	r := b.do(t, http.MethodDelete, "/api/v1/consumer-groups/g/queues/q", "")
	exactly(t, `{"success":true,"consumerGroup":"g","queueName":"q","deletedPartitions":1,"metadataDeleted":true}`, r.body)
	assert.Equal(t, []string{"1"}, read("g", ""), "replays on that queue, at once")
	r = b.do(t, http.MethodDelete, "/api/v1/consumer-groups/g?deleteMetadata=true", "")
	exactly(t, `{"success":true,"consumerGroup":"g","deletedPartitions":2,"metadataDeleted":true}`, r.body)
	assert.Equal(t, []string{"1", "2"}, read("g", ""))

	// Without the metadata the start point stays.
	b.clock.Advance(time.Minute)
	require.Empty(t, read("new", "&subscriptionMode=new"))
	b.clock.Advance(time.Minute)
	b.pushIDs(t, "q", "a", "3")
	require.Equal(t, []string{"3"}, read("new", ""))
	r = b.do(t, http.MethodDelete, "/api/v1/consumer-groups/new?deleteMetadata=false", "")
	assert.Contains(t, r.body, `"metadataDeleted":false`)
	assert.Equal(t, []string{"3"}, read("new", ""))
	b.do(t, http.MethodDelete, "/api/v1/consumer-groups/new", "")
	assert.Equal(t, []string{"1", "3", "2"}, read("new", ""), "a first contact again")

	for _, path := range []string{"nobody", "g/queues/none", "a%2Fb"} {
		r = b.do(t, http.MethodDelete, "/api/v1/consumer-groups/"+path, "")
		assert.Equal(t, 200, r.status)
		assert.Contains(t, r.body, `"deletedPartitions":0`)
	}
	assert.Equal(t, 400, b.do(t, http.MethodDelete, "/api/v1/consumer-groups/g?deleteMetadata=maybe", "").status)
	// A lease of a deleted group is over, and PHP writes a space as a plus.
	p := b.pop(t, "/queue/q?consumerGroup=a%20b")
	assert.Contains(t, b.do(t, http.MethodDelete, "/api/v1/consumer-groups/a+b", "").body, `"deletedPartitions":1`)
	assert.False(t, b.ack(t, "a b", p.PartitionID, p.LeaseID, "1=completed")[0].Success)
}

func ruleSubscription(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	require.Equal(t, []string{"1"}, b.pop(t, "/queue/q?consumerGroup=g&autoAck=true").ids())
	b.clock.Advance(time.Minute)
	b.pushIDs(t, "q", "late", "2")
	b.clock.Advance(time.Minute)
	body := b.post(t, "/api/v1/consumer-groups/g/subscription", `{"subscriptionTimestamp":"2026-01-02T03:05:30Z"}`, 200)
	exactly(t, `{"success":true,"consumerGroup":"g","newTimestamp":"2026-01-02T03:05:30Z","rowsUpdated":1}`, body)
	assert.Empty(t, b.pop(t, "/queue/q?consumerGroup=g").Messages, "the untouched partition begins later now")
	b.pushIDs(t, "q", "late", "3")
	b.pushIDs(t, "q", "a", "4")
	assert.ElementsMatch(t, []string{"3", "4"}, b.pop(t, "/queue/q?consumerGroup=g&partitions=0").ids(), "the touched one goes on")
	assert.Contains(t, b.post(t, "/api/v1/consumer-groups/none/subscription", `{"subscriptionTimestamp":"2026-01-02T03:05:30+02:00"}`, 200), `"rowsUpdated":0`)
	for _, bad := range []string{``, `{}`, `{"subscriptionTimestamp":null}`, `{"subscriptionTimestamp":"soon"}`, `{"subscriptionTimestamp":5}`} {
		b.post(t, "/api/v1/consumer-groups/g/subscription", bad, 400)
	}
}

func ruleSeek(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"retryLimit":1`)
	b.pushIDs(t, "q", "a", "1", "2")
	b.clock.Advance(time.Minute)
	b.pushIDs(t, "q", "a", "3")
	b.pushIDs(t, "q", "b", "4")
	const path = "/api/v1/consumer-groups/g/queues/q/seek"
	p := b.pop(t, "/queue/q/partition/a?consumerGroup=g&batch=10")
	body := b.post(t, path, `{"toEnd":true}`, 200)
	exactly(t, `{"success":true,"consumerGroup":"g","queueName":"q","seekToEnd":true,"targetTimestamp":null,"partitionsUpdated":2}`, body)
	assert.Equal(t, leaseLost, b.ack(t, "g", p.PartitionID, p.LeaseID, "1=completed")[0].text(), "a seek ends the lease")
	assert.Empty(t, b.pop(t, "/queue/q?consumerGroup=g&partitions=0").Messages)

	parked := b.park(t.Context(), t, "q", "/queue/q?consumerGroup=g&partitions=0&batch=10&wait=true&timeout=60000")
	body = b.post(t, path, `{"timestamp":"2026-01-02T03:05:05Z"}`, 200)
	assert.Contains(t, body, `"seekToEnd":false,"targetTimestamp":"2026-01-02T03:05:05Z"`)
	assert.ElementsMatch(t, []string{"3", "4"}, asPopped(t, <-parked).ids(), "woken, and no watermark hides the backlog")
	b.post(t, path, `{"timestamp":"1970-01-01T00:00:00Z"}`, 200)
	got := b.pop(t, "/queue/q/partition/a?consumerGroup=g&batch=10")
	assert.Equal(t, []string{"1", "2", "3"}, got.ids(), "the beginning")
	b.post(t, path, `{"timestamp":"2030-01-01T00:00:00+01:00"}`, 200)
	assert.Empty(t, b.pop(t, "/queue/q?consumerGroup=g").Messages, "nothing is that late: the end")

	// The retry counter begins again.
	b.post(t, path, `{"timestamp":"1970-01-01T00:00:00Z"}`, 200)
	for range 3 {
		p = b.pop(t, "/queue/q/partition/a?consumerGroup=g")
		assert.False(t, b.ack(t, "g", p.PartitionID, p.LeaseID, "1=failed")[0].DLQ)
		b.post(t, path, `{"timestamp":"1970-01-01T00:00:00Z"}`, 200)
	}
	// A group without a cursor gets one.
	b.post(t, "/api/v1/consumer-groups/fresh/queues/q/seek", `{"toEnd":true}`, 200)
	assert.Empty(t, b.pop(t, "/queue/q?consumerGroup=fresh&partitions=0").Messages)
	for _, bad := range []string{``, `{}`, `[]`, `{"toEnd":false}`, `{"toEnd":null,"timestamp":null}`} {
		assert.Contains(t, b.post(t, path, bad, 400), `"error":"Must specify toEnd=true or a timestamp"`)
	}
	b.post(t, path, `{"timestamp":"yesterday"}`, 400)
	b.configure(t, "empty", "")
	for _, queue := range []string{"none", "empty"} {
		body = b.post(t, "/api/v1/consumer-groups/g/queues/"+queue+"/seek", `{"toEnd":true}`, 404)
		assert.JSONEq(t, `{"success":false,"error":"Queue not found or has no partitions","consumerGroup":"g","queueName":"`+queue+`","partitionsUpdated":0}`, body)
	}
	assert.NotContains(t, b.do(t, http.MethodGet, "/api/v1/resources/queues", "").body, `"none"`)
}

func ruleSeekPartition(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a b", "1", "2")
	b.pushIDs(t, "q", "c", "3")
	const base = "/api/v1/consumer-groups/g/queues/q/partitions/"
	for _, body := range []string{"", "{}", "[]", `{"toEnd":true}`} {
		exactly(t, `{"success":true,"consumerGroup":"g","queueName":"q","partitionName":"a b","seekToEnd":true,"targetTimestamp":null,"updated":true}`,
			b.post(t, base+"a+b/seek", body, 200), "a plus is a space where nothing has the plus")
	}
	assert.Equal(t, []string{"3"}, b.pop(t, "/queue/q?consumerGroup=g&partitions=0").ids(), "the other partition is untouched")
	b.post(t, base+"a%20b/seek", `{"timestamp":"1970-01-01T00:00:00Z"}`, 200)
	assert.Equal(t, []string{"1", "2"}, b.pop(t, "/queue/q?consumerGroup=g&partitions=0&batch=10").ids())
	for _, path := range []string{base + "none/seek", "/api/v1/consumer-groups/g/queues/none/partitions/c/seek"} {
		exactly(t, `{"success":false,"error":"Partition not found"}`, b.post(t, path, "", 404))
	}
}

func ruleTrace(t *testing.T, b *broker) {
	t.Helper()
	pid := "0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90"
	good := `{"transactionId":"t","partitionId":"` + pid + `","data":{"b":1,"a":10000000000000000001}`
	body := b.post(t, "/api/v1/traces", good+"}", 201)
	known := map[string]string{}
	match(t, "trace", `{"success":true,"traceId":"«id»"}`, body, known)
	r := b.do(t, http.MethodGet, "/api/v1/traces/"+pid+"/t", "")
	match(t, "read", `{"traces":[{"id":"«id»","event_type":"info","data":{"b":1,"a":10000000000000000001},"consumer_group":"__QUEUE_MODE__","worker_id":null,"created_at":"2026-01-02T03:04:05.000000Z","trace_names":[]}]}`, r.body, known)
	for _, names := range []string{`null`, `"one"`, `[]`, `["one","two","one"]`} {
		b.post(t, "/api/v1/traces", good+`,"consumerGroup":null,"eventType":null,"traceNames":`+names+`}`, 201)
	}
	b.post(t, "/api/v1/traces", `{"transactionId":"php","partitionId":"`+pid+`","data":[]}`, 201)
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/traces/"+pid+"/php", "").body, `"data":{}`)
	for bad, want := range map[string]string{
		`{}`: "transactionId and partitionId are required", ``: "transactionId and partitionId are required",
		`{"transactionId":"t","data":{}}`:                               "transactionId and partitionId are required",
		`{"transactionId":"t","partitionId":"` + pid + `"}`:             "data is required",
		`{"transactionId":"t","partitionId":"` + pid + `","data":null}`: "data is required",
		`{"transactionId":"t","partitionId":"p","data":{}}`:             "partitionId must be a UUID",
		good + `,"traceNames":5}`:                                       "bad body: traceNames must be a string",
		`{"transactionId":`:                                             "bad body: unexpected end of body, expected a value",
	} {
		assert.Equal(t, `{"error":"`+want+`"}`, b.post(t, "/api/v1/traces", bad, 400), bad)
	}
}

func ruleTraceReads(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "p", "1", "2")
	p := b.pop(t, "/queue/q?batch=2")
	trace := func(id, names string) {
		b.clock.Advance(time.Second)
		b.post(t, "/api/v1/traces", `{"transactionId":"`+id+`","partitionId":"`+p.PartitionID+`","data":{"n":"`+id+`"},"eventType":"step","consumerGroup":"g","traceNames":`+names+`}`, 201)
	}
	trace("1", `["x","y"]`)
	trace("1", `["x"]`)
	trace("2", `"x"`)
	trace("gone", `["by-name"]`)
	read := func(path string) (out struct {
		Traces     []map[string]any
		TraceNames []map[string]any `json:"trace_names"`
		Total      int
		Pagination map[string]int
	},
	) {
		r := b.do(t, http.MethodGet, "/api/v1/traces/"+path, "")
		require.Equal(t, 200, r.status, r.body)
		require.NoError(t, json.Unmarshal([]byte(r.body), &out))
		return out
	}
	assert.Len(t, read(p.PartitionID+"/1").Traces, 2)
	assert.Empty(t, read(p.PartitionID+"/none").Traces)
	exactly(t, `{"traces":[]}`, b.do(t, http.MethodGet, "/api/v1/traces/no-uuid/1", "").body)
	named := read("by-name/x?limit=2")
	assert.Equal(t, 3, named.Total)
	assert.Equal(t, map[string]int{"limit": 2, "offset": 0}, named.Pagination)
	require.Len(t, named.Traces, 2)
	assert.Equal(t, []any{"2", "q", "p", p.PartitionID, map[string]any{"id": "2"}}, []any{
		named.Traces[0]["transaction_id"], named.Traces[0]["queue_name"], named.Traces[0]["partition_name"], named.Traces[0]["partition_id"], named.Traces[0]["message_payload"],
	}, "newest first, with its message")
	assert.Len(t, read("by-name/x?offset=2").Traces, 1)
	gone := read("by-name/by-name")
	require.Len(t, gone.Traces, 1)
	assert.Nil(t, gone.Traces[0]["message_payload"])
	names := read("names?limit=2")
	assert.Equal(t, 3, names.Total)
	require.Len(t, names.TraceNames, 2)
	assert.Equal(t, []any{"by-name", 1.0, 1.0}, []any{names.TraceNames[0]["trace_name"], names.TraceNames[0]["trace_count"], names.TraceNames[0]["message_count"]})
	assert.Equal(t, []any{"x", 3.0, 2.0, "2026-01-02T03:04:08.000000Z"}, []any{
		names.TraceNames[1]["trace_name"], names.TraceNames[1]["trace_count"], names.TraceNames[1]["message_count"], names.TraceNames[1]["last_seen"],
	})
	assert.Equal(t, 400, b.do(t, http.MethodGet, "/api/v1/traces/names?limit=x", "").status)
	b.restart(t)
	assert.Equal(t, 3, read("by-name/x").Total)
	// Traces have an age limit.
	b.clock.Advance(8 * 24 * time.Hour)
	require.Eventually(t, func() bool { return read("names").Total == 0 }, 5*time.Second, time.Millisecond)
	assert.Empty(t, read(p.PartitionID+"/1").Traces)
}
