package queen_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// routeRules are the routes of tier A beyond push, pop and ack.
var routeRules = []rule{
	{covers: "3.6 configure", run: ruleConfigure},
	{covers: "3.6 echo, 8.2 queue.js configure echo", run: ruleConfigureEcho},
	{covers: "3.7 delete, 8.1 TestDeleteQueue, 8.2 queue.js create and delete", run: ruleDeleteQueue},
	{covers: "3.8 list, 8.1 TestDLQWithFilters", run: ruleDeadLetterList},
	{covers: "3.8 replay, 9.15", run: ruleReplay},
	{covers: "3.8 retry", run: ruleRetry},
	{covers: "3.8 delete one", run: ruleDeleteMessage},
	{covers: "3.8 purge", run: rulePurge},
	{covers: "3.9 delete group, 9.3, 8.3 cli replay", run: ruleDeleteGroup},
	{covers: "3.9 subscription", run: ruleSubscription},
	{covers: "3.9 seek queue, 9.11, 8.3 cli seek", run: ruleSeek},
	{covers: "3.9 seek partition", run: ruleSeekPartition},
	{covers: "3.10 post, 8.2 consume.js traces", run: ruleTrace},
	{covers: "3.10 reads", run: ruleTraceReads},
}

// post sends a body and returns the answer, which must have the status.
func (b *broker) post(t *testing.T, path, body string, status int) string {
	t.Helper()
	r := b.do(t, http.MethodPost, path, body)
	require.Equal(t, status, r.status, "%s: %s", path, r.body)
	return r.body
}

// configure makes or changes a queue; options are the inside of a JSON object.
func (b *broker) configure(t *testing.T, queue, options string) map[string]any {
	t.Helper()
	var out struct {
		Configured bool
		Options    map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(b.post(t, "/api/v1/configure", `{"queue":"`+queue+`","options":{`+options+`}}`, 200)), &out))
	require.True(t, out.Configured)
	return out.Options
}

// dead makes dead letters of the messages of a partition, one each.
func (b *broker) dead(t *testing.T, queue, partition, group string, ids ...string) popped {
	t.Helper()
	b.pushIDs(t, queue, partition, ids...)
	var p popped
	for _, id := range ids {
		b.clock.Advance(time.Millisecond) // so that the list has one order
		p = b.pop(t, "/queue/"+queue+"/partition/"+partition+"?consumerGroup="+group)
		require.Equal(t, []string{id}, p.ids()[:1])
		require.True(t, b.ack(t, group, p.PartitionID, p.LeaseID, id+"=dlq")[0].DLQ)
	}
	return p
}

// letters reads the dead-letter list.
func (b *broker) letters(t *testing.T, query string) (out []struct {
	ID, TransactionID, PartitionID, Queue, Partition, ConsumerGroup, ErrorMessage, CreatedAt, FailedAt string
	RetryCount                                                                                         int
	Data                                                                                               json.RawMessage
},
) {
	t.Helper()
	r := b.do(t, http.MethodGet, "/api/v1/dlq"+query, "")
	require.Equal(t, http.StatusOK, r.status, r.body)
	list := struct {
		Messages any
		Total    *int
	}{Messages: &out}
	require.NoError(t, json.Unmarshal([]byte(r.body), &list))
	require.NotNil(t, list.Total)
	require.NotContains(t, r.body, `"messages":null`)
	return out
}

func ruleConfigure(t *testing.T, b *broker) {
	t.Helper()
	o := b.configure(t, "q", `"leaseTime":20,"retryLimit":7`)
	assert.EqualValues(t, 20, o["leaseTime"])
	o = b.configure(t, "q", `"retryLimit":null,"priority":4`)
	assert.Equal(t, []any{20.0, 3.0, 4.0}, []any{o["leaseTime"], o["retryLimit"], o["priority"]}, "merged; null restores")
	body := b.post(t, "/api/v1/configure", `{"queue":"q","namespace":"n","mode":"replace","ttl":1}`, 200)
	assert.Contains(t, body, `"namespace":"n","task":""`)
	assert.Contains(t, body, `"leaseTime":300,"retryLimit":3`)
	assert.Contains(t, body, `"ttl":1`, "options may stand at the top level")
	for _, bad := range []string{`{"queue":"q","mode":"swap"}`, `{}`, `{"queue":5}`, `{"queue":null}`, `{"queue":"q","leaseTime":"5"}`, `{"queue":"q","deadLetterQueue":1}`} {
		b.post(t, "/api/v1/configure", bad, 400)
	}
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/resources/queues/q", "").body, `"leaseTime":300`, "refusals change nothing")
	b.post(t, "/api/v1/configure", `{"queue":"php","options":[]}`, 200)
}

func ruleConfigureEcho(t *testing.T, b *broker) {
	t.Helper()
	sent := `"completedRetentionSeconds":1,"deadLetterQueue":false,"delayedProcessing":2,"dlqAfterMaxRetries":false,"encryptionEnabled":false,
		"leaseTime":3,"maxSize":4,"maxWaitTimeSeconds":5,"priority":6,"retentionEnabled":true,"retentionSeconds":7,"retryDelay":8,"retryLimit":0,"ttl":9,"windowBuffer":10`
	var want map[string]any
	require.NoError(t, json.Unmarshal([]byte("{"+sent+"}"), &want))
	require.Len(t, want, 15)
	got := b.configure(t, "q", sent)
	for key, value := range want {
		assert.Equal(t, value, got[key], key)
	}
	assert.Contains(t, b.post(t, "/api/v1/configure", `{"queue":"q"}`, 200), `"configured":true,"queueId":"`)
}

func ruleDeleteQueue(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"leaseTime":5`)
	p := b.dead(t, "q", "a", "g", "1", "2")
	r := b.do(t, http.MethodDelete, "/api/v1/resources/queues/q", "")
	assert.Equal(t, 200, r.status)
	exactly(t, `{"deleted":true,"queue":"q","existed":true}`, r.body)
	r = b.do(t, http.MethodDelete, "/api/v1/resources/queues/q", "")
	assert.Equal(t, 200, r.status)
	exactly(t, `{"deleted":false,"queue":"q","existed":false,"message":"Queue not found, nothing was deleted"}`, r.body)
	assert.Empty(t, b.letters(t, "?queue=q"))
	b.pushIDs(t, "q", "a", "1", "2") // deduplication went with the queue
	again := b.pop(t, "/queue/q?consumerGroup=g&batch=10")
	assert.Equal(t, []string{"1", "2"}, again.ids(), "cursors went too")
	assert.NotEqual(t, p.PartitionID, again.PartitionID)
}

func ruleDeadLetterList(t *testing.T, b *broker) {
	t.Helper()
	assert.JSONEq(t, `{"messages":[],"pagination":{"limit":100,"offset":0},"total":0}`, b.do(t, http.MethodGet, "/api/v1/dlq?queue=none", "").body)
	for _, at := range [][3]string{{"q", "a", "g"}, {"q", "b", "g"}, {"q", "b", "h"}, {"r", "a", "__QUEUE_MODE__"}} {
		id := at[0] + at[1] + at[2]
		b.pushIDs(t, at[0], at[1], id)
		p := b.pop(t, "/queue/"+at[0]+"/partition/"+at[1]+"?consumerGroup="+at[2]+"&batch=10")
		b.ack(t, at[2], p.PartitionID, p.LeaseID, p.ids()[len(p.Messages)-1]+"=dlq")
		b.clock.Advance(time.Second)
	}
	for query, want := range map[string][]string{
		"": {"ra__QUEUE_MODE__", "qbh", "qbg", "qag"}, "?limit=2&offset=1": {"qbh", "qbg"}, "?queue=q&consumerGroup=g": {"qbg", "qag"},
		"?partition=b": {"qbh", "qbg"}, "?consumerGroup=__QUEUE_MODE__": {"ra__QUEUE_MODE__"}, "?consumerGroup=x": {},
		"?from=2026-01-02T03:04:06Z&to=2026-01-02T03:04:07.5Z": {"qbh", "qbg"}, "?to=2026-01-02T04:04:05%2B01:00": {"qag"},
	} {
		got := []string{}
		for _, l := range b.letters(t, query) {
			got = append(got, l.TransactionID)
		}
		assert.Equal(t, want, got, query)
	}
	l := b.letters(t, "?limit=1")[0]
	assert.Equal(t, []string{"r", "a", "__QUEUE_MODE__", "because"}, []string{l.Queue, l.Partition, l.ConsumerGroup, l.ErrorMessage})
	assert.JSONEq(t, `{"id":"ra__QUEUE_MODE__"}`, string(l.Data))
}

type replayed struct {
	Success                                               bool
	Result, Queue, Partition, ConsumerGroup, DlqID, Error string
	OriginalTransactionID                                 string
	DlqRowRemoved                                         bool
	ReplayedAs                                            struct{ Message_id, Transaction_id, QueueName, Status string } //nolint:revive // the wire's names
}

func asReplayed(t *testing.T, body string) (out replayed) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(body), &out), body)
	return out
}

func ruleReplay(t *testing.T, b *broker) {
	t.Helper()
	b.dead(t, "q", "a", "g", "1", "2")
	first := b.letters(t, "?queue=q")[1]
	require.Equal(t, "1", first.TransactionID)
	// Many at once: exactly one of them moves it.
	var wg sync.WaitGroup
	answers := make([]result, 8)
	for i := range answers {
		wg.Go(func() {
			answers[i], _ = b.send(t.Context(), http.MethodPost, "/api/v1/dlq/"+first.ID+"/replay", "{}")
		})
	}
	wg.Wait()
	moved := 0
	for _, r := range answers {
		out := asReplayed(t, r.body)
		if r.status == 200 {
			moved++
			assert.Equal(t, []string{"moved", "q", "a", "g", first.ID, "1", "queued"}, []string{
				out.Result, out.Queue, out.Partition, out.ConsumerGroup, out.DlqID, out.OriginalTransactionID, out.ReplayedAs.Status,
			})
			assert.Equal(t, "dlq:"+first.ID, out.ReplayedAs.Transaction_id)
			assert.True(t, out.Success && out.DlqRowRemoved)
			continue
		}
		assert.Equal(t, 404, r.status)
		assert.Equal(t, []string{"gone", "Message not found"}, []string{out.Result, out.Error})
	}
	assert.Equal(t, 1, moved)
	require.Len(t, b.letters(t, "?queue=q"), 1)
	p := b.pop(t, "/queue/q?consumerGroup=g&batch=10")
	require.Equal(t, []string{"dlq:" + first.ID}, p.ids())
	assert.JSONEq(t, `{"id":"1"}`, string(p.Messages[0].Data))
	assert.True(t, b.ack(t, "g", p.PartitionID, p.LeaseID, p.ids()[0]+"=completed")[0].LeaseReleased)

	// The message's id is accepted as well.
	all := b.pop(t, "/queue/q?consumerGroup=other&batch=10")
	var message string
	for _, m := range all.Messages {
		if m.TransactionID == "2" {
			message = m.ID
		}
	}
	assert.Equal(t, 200, b.do(t, http.MethodPost, "/api/v1/dlq/"+message+"/replay", "").status)
	assert.Empty(t, b.letters(t, ""))
	for _, id := range []string{message, nobody, "no-id", first.ID} {
		assert.Equal(t, 404, b.do(t, http.MethodPost, "/api/v1/dlq/"+id+"/replay", "").status, id)
	}
}

func ruleRetry(t *testing.T, b *broker) {
	t.Helper()
	p := b.dead(t, "q", "a", "g", "x/1", "2")
	parked := b.park(t.Context(), t, "q", "/queue/q?consumerGroup=g&wait=true&timeout=60000")
	out := asReplayed(t, b.post(t, "/api/v1/messages/"+p.PartitionID+"/x%2F1/retry", "", 200))
	assert.Equal(t, "x/1", out.ReplayedAs.Transaction_id, "the transaction id stays")
	got := asPopped(t, <-parked)
	require.Equal(t, []string{"x/1"}, got.ids(), "a replay wakes a parked pop")
	assert.Equal(t, out.ReplayedAs.Message_id, got.Messages[0].ID)
	assert.True(t, b.ack(t, "g", got.PartitionID, got.LeaseID, "x/1=completed")[0].LeaseReleased)
	for _, path := range []string{p.PartitionID + "/x%2F1", p.PartitionID + "/none", nobody + "/2", "no-uuid/2"} {
		r := b.do(t, http.MethodPost, "/api/v1/messages/"+path+"/retry", "[]")
		assert.Equal(t, 404, r.status, path)
		assert.Contains(t, r.body, `"error":"Message not found"`)
	}
	assert.Len(t, b.letters(t, ""), 1)
}

func ruleDeleteMessage(t *testing.T, b *broker) {
	t.Helper()
	p := b.dead(t, "q", "a", "g", "1", "2")
	b.pushIDs(t, "q", "a", "live")
	r := b.do(t, http.MethodDelete, "/api/v1/messages/"+p.PartitionID+"/live", "")
	assert.Equal(t, 404, r.status)
	assert.JSONEq(t, `{"success":false,"partitionId":"`+p.PartitionID+`","transactionId":"live","error":"Message not found"}`, r.body)
	r = b.do(t, http.MethodDelete, "/api/v1/messages/"+p.PartitionID+"/1", "")
	assert.Equal(t, 200, r.status)
	assert.JSONEq(t, `{"success":true,"partitionId":"`+p.PartitionID+`","transactionId":"1","message":"Message deleted successfully"}`, r.body)
	assert.Equal(t, 404, b.do(t, http.MethodDelete, "/api/v1/messages/"+p.PartitionID+"/1", "").status)
	assert.Len(t, b.letters(t, ""), 1)
	assert.Equal(t, []string{"live"}, b.pop(t, "/queue/q?consumerGroup=g").ids())
}

func rulePurge(t *testing.T, b *broker) {
	t.Helper()
	b.dead(t, "q", "a", "g", "1", "2")
	b.dead(t, "q", "b", "h", "3")
	b.clock.Advance(time.Minute)
	b.dead(t, "q", "c", "g2", "4", "5")
	b.dead(t, "r", "a", "g", "6")
	purge := func(query string) string {
		r := b.do(t, http.MethodDelete, "/api/v1/dlq"+query, "")
		return fmt.Sprint(r.status, " ", r.body)
	}
	assert.Equal(t, `400 {"success":false,"error":"queue is required"}`, purge(""))
	assert.Equal(t, `400 {"success":false,"error":"queue is required"}`, purge("?consumerGroup=g"))
	assert.Equal(t, `200 {"success":true,"queue":"none","consumerGroup":null,"deleted":0}`, purge("?queue=none"))
	assert.Equal(t, `200 {"success":true,"queue":"q","consumerGroup":"h","deleted":1}`, purge("?queue=q&consumerGroup=h"))
	assert.Equal(t, `200 {"success":true,"queue":"q","consumerGroup":null,"deleted":2}`, purge("?queue=q&to=2026-01-02T03:04:10Z"))
	assert.Equal(t, `200 {"success":true,"queue":"q","consumerGroup":null,"deleted":2}`, purge("?queue=q&partition=c"))
	assert.Len(t, b.letters(t, ""), 1)
}

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
