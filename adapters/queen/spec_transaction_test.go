package queen_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// transactionRules are §6.9.
var transactionRules = []rule{
	{covers: "6.9 atomic", run: ruleTxAtomic},
	{covers: "6.9 duplicate", run: ruleTxDuplicate},
	{covers: "6.9 ack rules, 8.2 semantics.js transactions", run: ruleTxAckRules},
	{covers: "6.9 guard, 8.1 TestTransactionAckUnderAnExpiredLeaseRefusesTheWholeBundle, 8.1 TestTransactionBundleOfTwoLiveLeasesCompletesBoth", run: ruleTxGuard},
	{covers: "6.9 below cursor, 8.2 transaction.js rollback", run: ruleTxBelow},
	{covers: "6.9 no row", run: ruleTxNoRow},
	{covers: "8.1 TestTransactionBasicPushAck, 8.2 complete.js", run: sdkTxBasic},
	{covers: "8.1 TestTransactionMultiplePushes", run: sdkTxPushes},
	{covers: "8.1 TestTransactionMultipleAcks", run: sdkTxAcks},
	{covers: "8.1 TestTransactionChainedProcessing", run: sdkTxChain},
	{covers: "8.1 TestTransactionWithConsumer, 8.2 transaction.js group and failed and large", run: sdkTxGroup},
	{covers: "8.1 TestTransactionEmptyCommit", run: sdkTxEmpty},
}

func tx(ops ...string) string { return `{"operations":[` + strings.Join(ops, ",") + `]}` }

func ruleTxAtomic(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "in", "a", "1", "2")
	p := b.pop(t, "/queue/in?batch=2")
	refused := b.transact(t, tx(pushOp("out", "x"), ackOp("1", p.PartitionID, ""), ackOp("ghost", p.PartitionID, "")))
	assert.False(t, refused.Success)
	assert.True(t, strings.HasSuffix(refused.Error, "transaction rolled back"))
	assert.Empty(t, b.pop(t, "/queue/out").Messages)
	assert.False(t, b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed")[0].Noop)
	parked := []<-chan result{
		b.park(t.Context(), t, "out", "/queue/out?wait=true&timeout=60000"), b.park(t.Context(), t, "out2", "/queue/out2?wait=true&timeout=60000"),
	}
	require.True(t, b.transact(t, tx(pushOp("out", "x"), pushOp("out2", "y"), ackOp("2", p.PartitionID, ""))).Success)
	assert.Equal(t, []string{"x"}, asPopped(t, <-parked[0]).ids())
	assert.Equal(t, []string{"y"}, asPopped(t, <-parked[1]).ids())
	assert.True(t, b.ack(t, "", p.PartitionID, "", "2=completed")[0].Noop)
}

func ruleTxDuplicate(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "out", "Default", "old")
	out := b.transact(t, tx(pushOp("out", "new"), pushOp("out", "old")))
	assert.Equal(t, `QDUP duplicate messages in queue "out" partition "Default"; transaction rolled back`, out.Error)
	out = b.transact(t, tx(pushOp("out", "new"), pushOp("out", "new"), pushOp("else", "old")))
	require.True(t, out.Success, "new was rolled back, so it is new: %s", out.Error)
	assert.Equal(t, []bool{false, true, false}, []bool{out.Results[0].Duplicate, out.Results[1].Duplicate, out.Results[2].Duplicate})
	assert.Equal(t, []string{"old", "new"}, b.pop(t, "/queue/out?batch=9").ids())
}

func ruleTxAckRules(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "in", `"retryLimit":1`)
	b.pushIDs(t, "in", "a", "1", "2", "3")
	p := b.pop(t, "/queue/in?batch=3")
	out := b.transact(t, tx(ackOp("2", p.PartitionID, `,"status":"failed"`), ackOp("3", p.PartitionID, "")))
	require.True(t, out.Success)
	assert.False(t, out.Results[0].DLQ, "not to the dead letters at once")
	p = b.pop(t, "/queue/in?batch=3")
	assert.Equal(t, []string{"2", "3"}, p.ids())
	assert.True(t, b.transact(t, tx(ackOp("2", p.PartitionID, `,"status":"retry"`))).Success)
	p = b.pop(t, "/queue/in?batch=3")
	out = b.transact(t, tx(ackOp("2", p.PartitionID, `,"status":"failed","error":"why"`)))
	assert.True(t, out.Results[0].DLQ, "the budget is used up")
	p = b.pop(t, "/queue/in?batch=3")
	assert.True(t, b.transact(t, tx(ackOp("3", p.PartitionID, `,"status":"dlq"`))).Results[0].DLQ)
	assert.Len(t, b.letters(t, ""), 2)
}

func ruleTxGuard(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "in", "a", "1", "2")
	b.pushIDs(t, "in", "b", "3")
	p := b.pop(t, "/queue/in/partition/a?leaseSeconds=5&batch=1")
	q := b.pop(t, "/queue/in/partition/b")
	leases := `"requiredLeases":["` + p.LeaseID + `","` + q.LeaseID + `"]`
	both := b.transact(t, `{"operations":[`+ackOp("1", p.PartitionID, "")+`,`+ackOp("3", q.PartitionID, "")+`],`+leases+`}`)
	assert.True(t, both.Success, both.Error)
	p = b.pop(t, "/queue/in/partition/a?leaseSeconds=5")
	b.clock.Advance(5 * time.Second)
	out := b.transact(t, tx(ackOp("2", p.PartitionID, `,"leaseId":"`+p.LeaseID+`"`), pushOp("out", "x")))
	assert.False(t, out.Success)
	assert.Contains(t, out.Error, "invalid or expired lease")
	assert.Contains(t, out.Error, "rolled back")
	now := b.pop(t, "/queue/in/partition/a")
	out = b.transact(t, `{"operations":[`+ackOp("2", p.PartitionID, "")+`,`+pushOp("out", "x")+`],"requiredLeases":["`+p.LeaseID+`"]}`)
	assert.False(t, out.Success, "another holds it")
	assert.Empty(t, b.pop(t, "/queue/out").Messages)
	out = b.transact(t, `{"operations":[`+ackOp("2", p.PartitionID, "")+`],"requiredLeases":["`+now.LeaseID+`"]}`)
	assert.True(t, out.Success, out.Error)
	b.pushIDs(t, "in", "a", "4")
	b.pop(t, "/queue/in/partition/a")
	assert.True(t, b.transact(t, `{"operations":[`+ackOp("4", p.PartitionID, "")+`],"requiredLeases":[]}`).Success, "no lease information, no guard")
}

func ruleTxBelow(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "in", "a", "1", "2", "3")
	p := b.pop(t, "/queue/in?batch=3")
	b.ack(t, "", p.PartitionID, p.LeaseID, "2=completed")
	assert.True(t, b.transact(t, tx(ackOp("1", p.PartitionID, ""), pushOp("out", "x"))).Success)
	out := b.transact(t, tx(ackOp("ghost", p.PartitionID, ""), pushOp("out", "y")))
	assert.Equal(t, "QTXN ack references unknown transactionId; transaction rolled back", out.Error)
	assert.False(t, b.transact(t, tx(ackOp("1", p.PartitionID, `,"status":"failed"`), pushOp("out", "z"))).Success)
	assert.Equal(t, []string{"x"}, b.pop(t, "/queue/out?batch=9").ids())
}

func ruleTxNoRow(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "in", "a", "1")
	p := b.pop(t, "/queue/in?consumerGroup=g")
	out := b.transact(t, tx(ackOp("1", p.PartitionID, `,"consumerGroup":"h"`)))
	assert.Equal(t, "consumer not found; transaction rolled back", out.Error)
	assert.Equal(t, []string{"1"}, b.pop(t, "/queue/in?consumerGroup=h").ids())
}

func sdkTxBasic(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "in", "a", "1")
	p := b.pop(t, "/queue/in")
	out := b.transact(t, `{"operations":[`+ackOp("1", p.PartitionID, `,"status":"completed"`)+`,`+pushOp("out", "2")+`],"requiredLeases":["`+p.LeaseID+`"]}`)
	require.True(t, out.Success)
	assert.Empty(t, b.pop(t, "/queue/in").Messages)
	assert.Equal(t, []string{"2"}, b.pop(t, "/queue/out").ids())
}

func sdkTxPushes(t *testing.T, b *broker) {
	t.Helper()
	ops := make([]string, 0, 30)
	for i := range 30 {
		ops = append(ops, pushOp(fmt.Sprint("out", i%3), strconv.Itoa(i)))
	}
	require.True(t, b.transact(t, tx(ops...)).Success)
	for i := range 3 {
		assert.Len(t, b.pop(t, fmt.Sprint("/queue/out", i)).Messages, 10)
	}
}

func sdkTxAcks(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "in", "a", "1", "2", "3")
	b.pushIDs(t, "in", "b", "4")
	p := b.pop(t, "/queue/in?partitions=2")
	ops := make([]string, 0, len(p.Messages))
	for _, m := range p.Messages {
		ops = append(ops, ackOp(m.TransactionID, m.PartitionID, ""))
	}
	require.True(t, b.transact(t, tx(ops...)).Success)
	b.clock.Advance(time.Hour)
	assert.Empty(t, b.pop(t, "/queue/in?partitions=2").Messages)
}

func sdkTxChain(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "s0", "a", "1", "2", "3")
	for stage := range 3 {
		for range 3 {
			p := b.pop(t, fmt.Sprintf("/queue/s%d?batch=1", stage))
			require.Len(t, p.Messages, 1)
			id := p.Messages[0].TransactionID
			require.True(t, b.transact(t, tx(ackOp(id, p.PartitionID, `,"leaseId":"`+p.LeaseID+`"`), pushOp(fmt.Sprint("s", stage+1), id))).Success)
		}
		assert.Empty(t, b.pop(t, fmt.Sprintf("/queue/s%d", stage)).Messages)
	}
	assert.Equal(t, []string{"1", "2", "3"}, b.pop(t, "/queue/s3").ids(), "in order, through all stages")
}

func sdkTxGroup(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "in", `"retryLimit":0`)
	b.pushIDs(t, "in", "a", "1", "2")
	p := b.pop(t, "/queue/in?consumerGroup=g&batch=2")
	large := strings.Repeat("x", 1<<20)
	out := b.transact(t, tx(ackOp("1", p.PartitionID, `,"consumerGroup":"g"`), `{"type":"push","queue":"out","data":{"large":"`+large+`"}}`))
	require.True(t, out.Success)
	assert.Len(t, b.pop(t, "/queue/out").Messages[0].Data, len(large)+len(`{"large":""}`))
	out = b.transact(t, tx(ackOp("2", p.PartitionID, `,"consumerGroup":"g","status":"failed"`)))
	assert.True(t, out.Success && out.Results[0].DLQ, "retryLimit 0")
	assert.Equal(t, []string{"1", "2"}, b.pop(t, "/queue/in?batch=9").ids(), "queue mode is untouched")
}

func sdkTxEmpty(t *testing.T, b *broker) {
	t.Helper()
	assert.True(t, b.transact(t, tx()).Success)
	assert.Contains(t, b.post(t, "/api/v1/transaction", `{}`, 400), `"error":"transaction requires an operations array","results":[]`)
}
