package queen_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
)

type transacted struct {
	TransactionID string
	Success       bool
	Error         string
	Results       []struct {
		Index                          int
		Type, TransactionID, MessageID string
		Success, Duplicate, DLQ        bool
		QueueName                      string
		Error                          *string
	}
}

func (b *broker) transact(t *testing.T, body string) transacted {
	t.Helper()
	r := b.do(t, http.MethodPost, "/api/v1/transaction", body)
	require.Equal(t, http.StatusOK, r.status, r.body)
	var out transacted
	require.NoError(t, json.Unmarshal([]byte(r.body), &out), r.body)
	require.NotNil(t, out.Results)
	require.NotEmpty(t, out.TransactionID)
	return out
}

func ackOp(id, partitionID, more string) string {
	return `{"type":"ack","transactionId":"` + id + `","partitionId":"` + partitionID + `"` + more + `}`
}

func pushOp(queue, id string) string {
	return `{"type":"push","items":[{"queue":"` + queue + `","transactionId":"` + id + `","payload":{"from":"tx"}}]}`
}

func TestTransactionFlattensItsOperations(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "in", "Default", "1")
	p := b.pop(t, "/queue/in")
	out := b.transact(t, `{"operations":[
		{"type":"push","items":[{"queue":"out","transactionId":"a","payload":1},{"queue":"out","transactionId":"a","payload":2},{"queue":"out","data":{ "x":1 },"traceId":"tr"}]},
		`+ackOp("1", p.PartitionID, "")+`,{"type":"push","queue":"out","partition":"Default"}]}`)
	require.True(t, out.Success)
	require.Len(t, out.Results, 5)
	for i, r := range out.Results {
		assert.Equal(t, i, r.Index)
		assert.True(t, r.Success)
	}
	assert.False(t, out.Results[0].Duplicate)
	assert.True(t, out.Results[1].Duplicate, "the first of the bundle wins")
	assert.Equal(t, out.Results[0].MessageID, out.Results[1].MessageID)
	assert.Equal(t, "ack", out.Results[3].Type)
	assert.Equal(t, "out", out.Results[4].QueueName)

	got := b.pop(t, "/queue/out?batch=10")
	require.Len(t, got.Messages, 3)
	assert.Equal(t, "a", got.Messages[0].TransactionID)
	assert.Equal(t, `{ "x":1 }`, string(got.Messages[1].Data))
	require.NotNil(t, got.Messages[1].TraceID)
	assert.Equal(t, "tr", *got.Messages[1].TraceID)
	assert.Equal(t, `{}`, string(got.Messages[2].Data))
	b.clock.Advance(time.Hour)
	assert.Empty(t, b.pop(t, "/queue/in").Messages)
}

func TestTransactionIsAllOrNothing(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "in", "Default", "1", "2")
	b.pushIDs(t, "out", "x", "taken")
	p := b.pop(t, "/queue/in?batch=2")
	live := `"leaseId":"` + p.LeaseID + `"`
	for name, c := range map[string]struct{ ops, want string }{
		"a duplicate": {
			ackOp("1", p.PartitionID, ","+live) + `,{"type":"push","queue":"out","partition":"x","transactionId":"taken","payload":1}`,
			`QDUP duplicate messages in queue "out" partition "x"; transaction rolled back`,
		},
		"an unknown message":     {pushOp("out", "new") + "," + ackOp("ghost", p.PartitionID, ""), "QTXN ack references unknown transactionId; transaction rolled back"},
		"a lease that is not":    {pushOp("out", "new") + "," + ackOp("1", p.PartitionID, `,"leaseId":"`+nobody+`"`), "invalid or expired lease; transaction rolled back"},
		"a lease of no shape":    {pushOp("out", "new") + "," + ackOp("1", p.PartitionID, `,"leaseId":"x"`), "invalid or expired lease; transaction rolled back"},
		"a group without a row":  {pushOp("out", "new") + "," + ackOp("1", p.PartitionID, `,"consumerGroup":"stranger"`), "consumer not found; transaction rolled back"},
		"a partition of no uuid": {pushOp("out", "new") + "," + ackOp("1", "p", ""), `invalid input syntax for type uuid: "p"; transaction rolled back`},
	} {
		out := b.transact(t, `{"operations":[`+c.ops+`]}`)
		assert.False(t, out.Success, name)
		assert.Equal(t, c.want, out.Error, name)
		assert.Empty(t, out.Results, name)
	}
	assert.Equal(t, []string{"taken"}, b.pop(t, "/queue/out?partitions=0").ids(), "no push was left behind")
	a := b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed")[0]
	assert.True(t, a.Success && !a.Noop, "no ack was left behind")
}

func TestTransactionRequiredLeases(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "in", "a", "a1", "a2")
	b.pushIDs(t, "in", "b", "b1")
	pa := b.pop(t, "/queue/in/partition/a?batch=1")
	pb := b.pop(t, "/queue/in/partition/b")
	other := b.transact(t, `{"operations":[`+ackOp("a1", pa.PartitionID, "")+`],"requiredLeases":["`+pb.LeaseID+`"]}`)
	assert.Equal(t, "invalid or expired lease; transaction rolled back", other.Error, "the live lease is not in the list")
	odd := b.transact(t, `{"operations":[`+ackOp("a1", pa.PartitionID, "")+`],"requiredLeases":["odd"]}`)
	assert.False(t, odd.Success)
	both := b.transact(t, `{"operations":[`+ackOp("a1", pa.PartitionID, "")+`,`+ackOp("b1", pb.PartitionID, "")+`],"requiredLeases":["`+pa.LeaseID+`","`+pb.LeaseID+`"]}`)
	assert.True(t, both.Success, both.Error)

	// A worker whose lease has gone to another must not settle that one's batch.
	stale := b.pop(t, "/queue/in/partition/a")
	require.Equal(t, []string{"a2"}, stale.ids())
	b.clock.Advance(time.Minute)
	fresh := b.pop(t, "/queue/in/partition/a")
	require.Equal(t, []string{"a2"}, fresh.ids())
	out := b.transact(t, `{"operations":[`+ackOp("a2", pa.PartitionID, "")+`,`+pushOp("out", "twice")+`],"requiredLeases":["`+stale.LeaseID+`"]}`)
	assert.False(t, out.Success)
	assert.Contains(t, out.Error, leaseLost)
	assert.Contains(t, out.Error, "rolled back")
	none := b.transact(t, `{"operations":[`+ackOp("a2", pa.PartitionID, "")+`],"requiredLeases":[]}`)
	assert.True(t, none.Success, "an empty list asks for nothing")
}

func TestTransactionAcksFollowTheAckRules(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"in","options":{"retryLimit":0}}`)
	b.pushIDs(t, "in", "Default", "1", "2", "3", "4")
	p := b.pop(t, "/queue/in?batch=4")
	out := b.transact(t, `{"operations":[`+ackOp("2", p.PartitionID, `,"status":"completed"`)+`,`+ackOp("3", p.PartitionID, `,"status":"failed","error":"in tx"`)+`]}`)
	require.True(t, out.Success, out.Error)
	assert.False(t, out.Results[0].DLQ)
	assert.True(t, out.Results[1].DLQ)
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/dlq?queue=in", "").body, `"errorMessage":"in tx"`)
	p = b.pop(t, "/queue/in?batch=4")
	assert.Equal(t, []string{"4"}, p.ids())
	out = b.transact(t, `{"operations":[`+ackOp("1", p.PartitionID, "")+`,`+pushOp("out", "x")+`]}`)
	assert.True(t, out.Success, "a completion below the cursor is no failure: %s", out.Error)
}

func TestTransactionWakesAParkedPop(t *testing.T) {
	b := newBroker(t, queen.Options{})
	parked := b.park(t.Context(), t, "out", "/queue/out?wait=true&timeout=30000")
	b.transact(t, `{"operations":[`+pushOp("out", "x")+`]}`)
	assert.Equal(t, []string{"x"}, asPopped(t, <-parked).ids())
}

func TestTransactionRefusals(t *testing.T) {
	b := newBroker(t, queen.Options{})
	for body, want := range map[string]string{
		`{}`:                                "transaction requires an operations array",
		``:                                  "transaction requires an operations array",
		`{"operations":[{"type":"bogus"}]}`: "segments transaction supports only push and ack operations",
		`{"operations":[{"type":"push","queue":"q","payload":1},{"type":"push","queue":5}]}`: "bad body: operations[1]: queue must be a string",
	} {
		r := b.do(t, http.MethodPost, "/api/v1/transaction", body)
		assert.Equal(t, http.StatusBadRequest, r.status, body)
		assert.Contains(t, r.body, `"success":false,"error":"`+want+`","results":[]}`, body)
	}
	r := b.do(t, http.MethodPost, "/api/v1/transaction", `{"operations":`)
	assert.Equal(t, http.StatusBadRequest, r.status)
	exactly(t, `{"error":"bad body: unexpected end of body, expected a value"}`, r.body)
	exactly(t, `{"queues":[]}`, b.do(t, http.MethodGet, "/api/v1/resources/queues", "").body, "nothing was made")
	assert.True(t, b.transact(t, `{"operations":[]}`).Success)
}
