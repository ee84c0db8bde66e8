package queen_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
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
	// Two calls that share a commit are no second copy either.
	b.dead(t, "same", "a", "g", "x")
	id := uuid.MustParse(b.letters(t, "?queue=same")[0].ID)
	if b.remote == nil {
		twice, err := b.engine.ReplayDeadLetters(t.Context(), []uuid.UUID{id, id}, nil)
		require.NoError(t, err)
		assert.NotZero(t, twice[0])
		assert.Zero(t, twice[1])
	} else { // how they meet is up to the server
		var status [2]int
		var calls sync.WaitGroup
		for i := range status {
			calls.Go(func() {
				if r, err := b.send(t.Context(), http.MethodPost, "/api/v1/dlq/"+id.String()+"/replay", ""); err == nil {
					status[i] = r.status
				}
			})
		}
		calls.Wait()
		assert.ElementsMatch(t, []int{200, 404}, status[:])
	}
	assert.Len(t, b.pop(t, "/queue/same?consumerGroup=g&batch=9").Messages, 1)
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
	for _, query := range []string{"?consumerGroup=g", "?queue=", "?queue=&consumerGroup=g", "?partition=a"} {
		assert.Equal(t, `400 {"success":false,"error":"queue is required"}`, purge(query), "an empty name is not all of them")
	}
	assert.Equal(t, `200 {"success":true,"queue":"none","consumerGroup":null,"deleted":0}`, purge("?queue=none"))
	assert.Equal(t, `200 {"success":true,"queue":"q","consumerGroup":"h","deleted":1}`, purge("?queue=q&consumerGroup=h"))
	assert.Equal(t, `200 {"success":true,"queue":"q","consumerGroup":null,"deleted":2}`, purge("?queue=q&to=2026-01-02T03:04:10Z"))
	assert.Equal(t, `200 {"success":true,"queue":"q","consumerGroup":null,"deleted":2}`, purge("?queue=q&partition=c"))
	assert.Len(t, b.letters(t, ""), 1)
}
