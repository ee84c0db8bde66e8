package queen_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// streamRules are the rules of §3.11.
var streamRules = []rule{
	{covers: "3.11 queries", run: ruleStreamQueries},
	{covers: "3.11 state", run: ruleStreamState},
	{covers: "3.11 cycle", run: ruleCycle},
	{covers: "3.11 lost lease", run: ruleCycleLostLease},
	{covers: "3.11 keep lease", run: ruleCycleKeepsLease},
	{covers: "3.11 other status", run: ruleCycleOtherStatus},
}

// query registers a stream and returns its id.
func (b *broker) query(t *testing.T, name string) string {
	t.Helper()
	var out struct {
		QueryID string `json:"query_id"`
	}
	body := b.post(t, "/streams/v1/queries", `{"name":"`+name+`","source_queue":"in","sink_queue":"out","config_hash":"h"}`, 200)
	require.NoError(t, json.Unmarshal([]byte(body), &out))
	require.NotEmpty(t, out.QueryID)
	return out.QueryID
}

type cycled struct {
	Success         bool
	Error           string
	QueryID         string `json:"query_id"`
	PartitionID     string `json:"partition_id"`
	QueueName       string
	StateOpsApplied int `json:"state_ops_applied"`
	PushResults     []struct {
		Index         int
		Status        string
		MessageID     string `json:"message_id"`
		TransactionID string `json:"transaction_id"`
	} `json:"push_results"`
	AckResult *struct {
		Success       bool
		Count         int
		LeaseReleased bool `json:"lease_released"`
		DLQ           bool
	} `json:"ack_result"`
}

// cycle sends one step; more is the inside of a JSON object behind the ids.
func (b *broker) cycle(t *testing.T, query, partition, more string) (out cycled) {
	t.Helper()
	body := b.post(t, "/streams/v1/cycle", `{"query_id":"`+query+`","partition_id":"`+partition+`","consumer_group":"s"`+more+`}`, 200)
	require.NoError(t, json.Unmarshal([]byte(body), &out), body)
	assert.Equal(t, []string{query, partition}, []string{out.QueryID, out.PartitionID})
	return out
}

func cycleAckOf(p popped, id, more string) string {
	return `,"ack":{"transactionId":"` + id + `","leaseId":"` + p.LeaseID + `","status":"completed"` + more + `}`
}

func upsert(key, value string) string {
	return `{"type":"upsert","key":"` + key + `","value":` + value + `}`
}

// state reads state as key=value.
func (b *broker) state(t *testing.T, query, partition, more string) []string {
	t.Helper()
	body := b.post(t, "/streams/v1/state/get", `{"query_id":"`+query+`","partition_id":"`+partition+`"`+more+`}`, 200)
	var out struct {
		Success bool
		Rows    []struct {
			Key       string
			Value     json.RawMessage
			UpdatedAt string `json:"updated_at"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &out))
	require.True(t, out.Success)
	require.NotContains(t, body, `"rows":null`)
	list := make([]string, 0, len(out.Rows))
	for _, r := range out.Rows {
		list = append(list, r.Key+"="+string(r.Value))
		require.True(t, strings.HasSuffix(r.UpdatedAt, "Z"), r.UpdatedAt)
	}
	return list
}

func ruleStreamQueries(t *testing.T, b *broker) {
	t.Helper()
	const path = "/streams/v1/queries"
	known := map[string]string{}
	call := func(hash, more string) string {
		return `{"name":"n","source_queue":"in","config_hash":"` + hash + `"` + more + `}`
	}
	match(t, "new", `{"success":true,"query_id":"«q»","name":"n","config_hash":"a","fresh":true,"reset":false}`, b.post(t, path, call("a", ""), 200), known)
	match(t, "same", `{"success":true,"query_id":"«q»","name":"n","config_hash":"a","fresh":false,"reset":false}`, b.post(t, path, call("a", `,"sink_queue":null,"reset":true`), 200), known)
	body := b.post(t, path, call("b", `,"reset":null`), 409)
	match(t, "other", `{"success":false,"query_id":"«q»","name":"n","error":"«why»"}`, body, known)
	assert.Contains(t, known["why"], "config_hash mismatch")
	b.pushIDs(t, "in", "p", "1")
	part := b.pop(t, "/queue/in?consumerGroup=s").PartitionID
	other := b.query(t, "other")
	for _, q := range []string{known["q"], other} {
		require.True(t, b.cycle(t, q, part, `,"state_ops":[`+upsert("k", "1")+`,`+upsert("l", "2")+`]`).Success)
	}
	match(t, "reset", `{"success":true,"query_id":"«q»","name":"n","config_hash":"b","fresh":false,"reset":true}`, b.post(t, path, call("b", `,"reset":true`), 200), known)
	assert.Empty(t, b.state(t, known["q"], part, ""), "the state is wiped")
	assert.Len(t, b.state(t, other, part, ""), 2, "that of others is not")
	match(t, "after", `{"success":true,"query_id":"«q»","name":"n","config_hash":"b","fresh":false,"reset":false}`, b.post(t, path, call("b", ""), 200), known)
	for missing, body := range map[string]string{
		"name":         `{"source_queue":"in","config_hash":"a"}`,
		"source_queue": `{"name":"x","source_queue":"","config_hash":"a"}`,
		"config_hash":  `{"name":"x","source_queue":"in","config_hash":null}`,
	} {
		assert.Equal(t, `{"error":"`+missing+` is required"}`, b.post(t, path, body, 400))
	}
	b.restart(t)
	match(t, "durable", `{"success":true,"query_id":"«q»","name":"n","config_hash":"b","fresh":false,"reset":false}`, b.post(t, path, call("b", ""), 200), known)
}

func ruleStreamState(t *testing.T, b *broker) {
	t.Helper()
	q := b.query(t, "n")
	b.pushIDs(t, "in", "p", "1")
	b.pushIDs(t, "in", "r", "2")
	p, other := b.pop(t, "/queue/in/partition/p?consumerGroup=s").PartitionID, b.pop(t, "/queue/in/partition/r?consumerGroup=s").PartitionID
	out := b.cycle(t, q, p, `,"state_ops":[`+upsert("w/2", `{"windowEnd":200}`)+`,`+upsert("w/1", `{ "windowEnd":100.5,"z":1,"a":12345678901234567890}`)+`,`+
		upsert("w/3", `{"windowEnd":"100"}`)+`,`+upsert("x", `5`)+`,`+upsert("é\\u0000", `null`)+`,{"type":"upsert","key":"none"},`+upsert("gone", `1`)+`,{"type":"delete","key":"gone"},{"type":"delete","key":"never"}]`)
	require.True(t, out.Success)
	assert.Equal(t, 9, out.StateOpsApplied)
	assert.Nil(t, out.AckResult)
	all := []string{"none=null", `w/1={ "windowEnd":100.5,"z":1,"a":12345678901234567890}`, `w/2={"windowEnd":200}`, `w/3={"windowEnd":"100"}`, "x=5", "é\x00=null"}
	for _, keys := range []string{"", `,"keys":null`, `,"keys":[]`, `,"key_prefix":""`, `,"keys":null,"key_prefix":null,"ripe_at_or_before":null`} {
		assert.Equal(t, all, b.state(t, q, p, keys), "ordered by key: %s", keys)
	}
	assert.Equal(t, []string{"none=null", "x=5"}, b.state(t, q, p, `,"keys":["x","absent","none","x"]`))
	assert.Equal(t, all[1:4], b.state(t, q, p, `,"key_prefix":"w/"`))
	assert.Equal(t, all[2:3], b.state(t, q, p, `,"key_prefix":"w/","keys":["x","w/2"]`), "filters are joined by and")
	assert.Equal(t, all[1:2], b.state(t, q, p, `,"ripe_at_or_before":100.5`))
	assert.Equal(t, all[1:3], b.state(t, q, p, `,"ripe_at_or_before":200`))
	assert.Empty(t, b.state(t, q, p, `,"ripe_at_or_before":100.4`))
	assert.Empty(t, b.state(t, q, other, ""), "keyed by partition")
	assert.Empty(t, b.state(t, b.query(t, "m"), p, ""), "and by query")
	for _, bad := range []string{`{}`, `{"query_id":"` + q + `"}`, `{"query_id":"x","partition_id":"` + p + `"}`, `{"query_id":"` + q + `","partition_id":"x"}`, `{"query_id":"` + q + `","partition_id":"` + p + `","keys":5}`, `{"query_id":"` + q + `","partition_id":"` + p + `","ripe_at_or_before":"5"}`} {
		b.post(t, "/streams/v1/state/get", bad, 400)
	}
	b.restart(t)
	assert.Equal(t, all, b.state(t, q, p, ""))
}

func ruleCycle(t *testing.T, b *broker) {
	t.Helper()
	q := b.query(t, "n")
	b.pushIDs(t, "in", "p", "1", "2", "3")
	b.pushIDs(t, "out", "x", "taken")
	p := b.pop(t, "/queue/in?consumerGroup=s&batch=2")
	parked := b.park(t.Context(), t, "out", "/queue/out/partition/y?wait=true&timeout=60000")
	out := b.cycle(t, q, p.PartitionID, `,"state_ops":[`+upsert("sum", `{"n":2}`)+`],"push_items":[
		{"queue":"out","partition":"y","payload":{"total":1},"transactionId":"r1","traceId":"tr"},{"queue":"out","partition":"x","data":{ "b":1 },"transactionId":"taken"},
		{"queue":"fresh","data":[2]}],"release_lease":true`+cycleAckOf(p, "2", `,"count":2`))
	require.True(t, out.Success, out.Error)
	assert.Equal(t, "in", out.QueueName)
	assert.Equal(t, []string{"queued", "duplicate", "queued"}, []string{out.PushResults[0].Status, out.PushResults[1].Status, out.PushResults[2].Status})
	assert.Equal(t, []int{0, 1, 2}, []int{out.PushResults[0].Index, out.PushResults[1].Index, out.PushResults[2].Index})
	require.NotNil(t, out.AckResult)
	assert.Equal(t, []any{true, 2, true, false}, []any{out.AckResult.Success, out.AckResult.Count, out.AckResult.LeaseReleased, out.AckResult.DLQ})
	got := asPopped(t, <-parked)
	assert.Equal(t, []string{"r1"}, got.ids(), "a cycle wakes parked pops")
	assert.Equal(t, []string{`sum={"n":2}`}, b.state(t, q, p.PartitionID, ""))
	assert.Equal(t, []string{"3"}, b.pop(t, "/queue/in?consumerGroup=s&batch=5").ids())
	assert.JSONEq(t, `[2]`, string(b.pop(t, "/queue/fresh").Messages[0].Data))

	// Nothing but the ids is a step too, and so is everything null.
	require.True(t, b.cycle(t, q, p.PartitionID, "").Success)
	require.True(t, b.cycle(t, q, p.PartitionID, `,"state_ops":null,"push_items":null,"ack":null,"release_lease":null`).Success)
	for _, bad := range []string{
		`{}`, `{"query_id":"` + q + `","partition_id":"x"}`, `{"query_id":"` + q + `","partition_id":"` + p.PartitionID + `","state_ops":[{"type":"grow","key":"k"}]}`,
		`{"query_id":"` + q + `","partition_id":"` + p.PartitionID + `","state_ops":[{"type":"delete"}]}`,
		`{"query_id":"` + q + `","partition_id":"` + p.PartitionID + `","push_items":[{"payload":1}]}`,
	} {
		b.post(t, "/streams/v1/cycle", bad, 400)
	}
	assert.Equal(t, "query not found", b.cycle(t, nobody, p.PartitionID, "").Error)
	assert.Equal(t, "partition not found", b.cycle(t, q, "0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90", "").Error)
}

func ruleCycleLostLease(t *testing.T, b *broker) {
	t.Helper()
	q := b.query(t, "n")
	b.pushIDs(t, "in", "p", "1", "2")
	p := b.pop(t, "/queue/in?consumerGroup=s&batch=2&leaseSeconds=10")
	work := `,"state_ops":[` + upsert("k", "1") + `],"push_items":[{"queue":"out","payload":1}]`
	refused := func(why, ack string) {
		t.Helper()
		out := b.cycle(t, q, p.PartitionID, work+ack)
		assert.False(t, out.Success)
		assert.Contains(t, out.Error, why)
		assert.Nil(t, out.AckResult)
		assert.Empty(t, b.state(t, q, p.PartitionID, ""), "no state")
		assert.Empty(t, b.pop(t, "/queue/out?autoAck=true").Messages, "no push")
	}
	for _, lease := range []string{nobody, "no-uuid", "", "0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90"} {
		refused(leaseLost, cycleAckOf(popped{LeaseID: lease}, "2", ""))
	}
	refused("unresolvable", cycleAckOf(p, "ghost", ""))
	b.clock.Advance(10 * time.Second)
	refused(leaseLost, cycleAckOf(p, "2", "")) // it ran out
	again := b.pop(t, "/queue/in?consumerGroup=s&batch=2")
	assert.Equal(t, []string{"1", "2"}, again.ids(), "no cursor moved")
	refused(leaseLost, cycleAckOf(p, "2", "")) // it is another's
	assert.True(t, b.cycle(t, q, p.PartitionID, work+cycleAckOf(again, "2", "")).Success)
	refusedAgain := b.cycle(t, q, p.PartitionID, work+cycleAckOf(again, "2", ""))
	assert.False(t, refusedAgain.Success, "the same step twice is done once")
	assert.Len(t, b.pop(t, "/queue/out?batch=10").Messages, 1)
	assert.Equal(t, "consumer", strings.Fields(b.ack(t, "stranger", p.PartitionID, "", "1=completed")[0].text())[0])
}

func ruleCycleKeepsLease(t *testing.T, b *broker) {
	t.Helper()
	q := b.query(t, "n")
	b.pushIDs(t, "in", "p", "1", "2", "3", "4", "5")
	p := b.pop(t, "/queue/in?consumerGroup=s&batch=5&leaseSeconds=10")
	out := b.cycle(t, q, p.PartitionID, `,"release_lease":false`+cycleAckOf(p, "2", `,"count":2`))
	require.True(t, out.Success, out.Error)
	assert.Equal(t, []any{2, false}, []any{out.AckResult.Count, out.AckResult.LeaseReleased})
	assert.Empty(t, b.pop(t, "/queue/in?consumerGroup=s").Messages, "the lease stays")
	out = b.cycle(t, q, p.PartitionID, `,"release_lease":false,"ack":{"transactionId":null,"leaseId":"`+p.LeaseID+`","status":"completed","count":1}`)
	assert.Equal(t, 1, out.AckResult.Count, "count alone does as well")
	again := b.cycle(t, q, p.PartitionID, `,"push_items":[{"queue":"out","payload":1}],"release_lease":false`+cycleAckOf(p, "2", `,"count":2`))
	assert.False(t, again.Success, "a step that is sent again although it was done")
	assert.Contains(t, again.Error, "committed")
	assert.Empty(t, b.pop(t, "/queue/out").Messages)
	b.clock.Advance(9 * time.Second)
	assert.Empty(t, b.pop(t, "/queue/in?consumerGroup=s").Messages)
	b.clock.Advance(time.Second)
	p = b.pop(t, "/queue/in?consumerGroup=s&batch=5&leaseSeconds=10")
	assert.Equal(t, []string{"4", "5"}, p.ids(), "the rest comes back in order")

	// With nothing left the lease stays all the same, to its deadline.
	out = b.cycle(t, q, p.PartitionID, `,"release_lease":false`+cycleAckOf(p, "5", ""))
	assert.Equal(t, []any{2, false}, []any{out.AckResult.Count, out.AckResult.LeaseReleased})
	b.pushIDs(t, "in", "p", "6")
	parked := b.park(t.Context(), t, "in", "/queue/in?consumerGroup=s&wait=true&timeout=60000")
	b.clock.Advance(10 * time.Second)
	assert.Equal(t, []string{"6"}, asPopped(t, <-parked).ids())
	out = b.cycle(t, q, p.PartitionID, `,"release_lease":false`+cycleAckOf(p, "5", ""))
	assert.False(t, out.Success, "it is over now")
}

func ruleCycleOtherStatus(t *testing.T, b *broker) {
	t.Helper()
	q := b.query(t, "n")
	b.configure(t, "in", `"retryLimit":0`)
	b.pushIDs(t, "in", "p", "1", "2", "3")
	for _, status := range []string{"failed", "retry", "dlq", "nonsense"} {
		p := b.pop(t, "/queue/in?consumerGroup=s&batch=3")
		require.Equal(t, []string{"1", "2", "3"}, p.ids(), status)
		out := b.cycle(t, q, p.PartitionID, `,"state_ops":[`+upsert(status, "1")+`],"release_lease":false,"ack":{"transactionId":"2","leaseId":"`+p.LeaseID+`","status":"`+status+`"}`)
		require.True(t, out.Success)
		assert.Equal(t, []any{0, true, false}, []any{out.AckResult.Count, out.AckResult.LeaseReleased, out.AckResult.DLQ}, status)
	}
	assert.Empty(t, b.letters(t, ""), "and nothing is charged")
	assert.Len(t, b.state(t, q, b.pop(t, "/queue/in?consumerGroup=s").PartitionID, ""), 4)
}
