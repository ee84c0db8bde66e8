package queen_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ackRules are §6.6 and §6.8.
var ackRules = []rule{
	{covers: "6.6.1", run: ruleAckNoRow},
	{covers: "6.6.2", run: ruleAckWrongLease},
	{covers: "6.6.3, 8.1 TestAckUnknownTxnMustFail, 8.1 TestNackBelowCursorIsRejected, 8.1 TestAckBelowCursorIsNoopFlagged", run: ruleAckResolution},
	{covers: "6.6.4", run: ruleAckStrength},
	{covers: "6.6.5, 6.6 last completes, 8.1 TestImplicitAckCompletesBatch", run: ruleAckGaps},
	{covers: "6.6.6", run: ruleAckReleases},
	{covers: "6.6.7, 6.6 no delay", run: ruleAckRetry},
	{covers: "6.6.8", run: ruleAckFailedOncePerCall},
	{covers: "6.6.9, 6.13 deadLetterQueue, 6.13 dlqAfterMaxRetries", run: ruleAckDead},
	{covers: "6.6.10, 8.1 TestNackNotSkippedByLaterAckSameCall, 8.1 TestRetryNotSkippedByLaterAckSameCall", run: ruleAckAbove},
	{covers: "6.6 error text", run: ruleAckErrorText},
	{covers: "6.6 limits, 6.13 retryLimit, 8.2 dlq.js, 8.1 TestDLQ", run: ruleAckLimits},
	{covers: "6.6 all nacked", run: ruleAckAllNacked},
	{covers: "6.6 lease-less, 8.1 TestLeaselessAckAfterExpiry", run: ruleAckLeaseless},
	{covers: "6.6 leaseReleased", run: ruleAckReleased},
	{covers: "6.8 key", run: ruleDedupKey},
	{covers: "6.8 window, 6.13 dedupWindowSeconds", run: ruleDedupWindow},
	{covers: "6.8 first wins", run: ruleDedupFirst},
	{covers: "6.8 ack window", run: ruleAckWindow},
	{covers: "6.8 off", run: ruleDedupOff},
	{covers: "8.1 TestDlqStatusBypassesRetries", run: sdkDlqStatus},
	{covers: "8.1 TestRetryStatusBudgetFreeAndDlqByDefault", run: sdkRetryThenDlq},
	{covers: "8.1 TestEachStopsBatchAfterNack, 8.1 TestEachManualAckStopsOnHandlerError", run: sdkEach},
}

func success(items []acked) (out []bool) {
	for _, a := range items {
		out = append(out, a.Success)
	}
	return out
}

func texts(items []acked) (out []string) {
	for _, a := range items {
		out = append(out, a.text())
	}
	return out
}

func ruleAckNoRow(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	p := b.pop(t, "/queue/q")
	assert.Equal(t, []string{noConsumer, noConsumer}, texts(b.ack(t, "stranger", p.PartitionID, "", "1=completed", "1=failed")))
	assert.Equal(t, []string{noConsumer}, texts(b.ack(t, "", "0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90", "", "1=completed")))
}

func ruleAckWrongLease(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1", "2")
	p := b.pop(t, "/queue/q?batch=2&leaseSeconds=9")
	for _, lease := range []string{nobody, "x", "0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90"} {
		assert.Equal(t, []string{leaseLost, leaseLost}, texts(b.ack(t, "", p.PartitionID, lease, "1=completed", "2=dlq")), lease)
	}
	assert.Empty(t, b.letters(t, ""), "nothing changed")
	b.clock.Advance(9 * time.Second)
	assert.Equal(t, []string{leaseLost}, texts(b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed")), "not live any more")
	assert.Equal(t, []string{"1", "2"}, b.pop(t, "/queue/q?batch=2").ids())
}

func ruleAckResolution(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1", "2", "3", "4")
	p := b.pop(t, "/queue/q?batch=4")
	b.ack(t, "", p.PartitionID, p.LeaseID, "2=completed")
	out := b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed", "2=failed", "ghost=completed", "ghost=failed", "1=retry", "2=dlq", "3=completed")
	assert.Equal(t, []string{"", committed, unresolvable, unresolvable, committed, committed, ""}, texts(out))
	assert.Equal(t, []bool{true, false, false, false, false, false, false}, []bool{out[0].Noop, out[1].Noop, out[2].Noop, out[3].Noop, out[4].Noop, out[5].Noop, out[6].Noop})
	assert.Contains(t, out[1].text(), "committed")
	assert.Contains(t, out[2].text(), "unresolv")
	assert.False(t, out[6].LeaseReleased, "failed items do not end the lease")
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, "4=completed")[0].LeaseReleased)
}

func ruleAckStrength(t *testing.T, b *broker) {
	t.Helper()
	for i, statuses := range [][]string{{"1=retry", "1=failed"}, {"1=failed", "1=retry", "1=dlq"}, {"2=dlq", "1=retry"}} {
		queue := fmt.Sprint("q", i)
		b.configure(t, queue, `"retryLimit":9`)
		b.pushIDs(t, queue, "a", "1", "2")
		p := b.pop(t, "/queue/"+queue+"?batch=2")
		b.ack(t, "", p.PartitionID, p.LeaseID, statuses...)
	}
	assert.Len(t, b.letters(t, ""), 1, "dlq over failed over retry on one offset; the lowest offset decides")
	assert.Equal(t, "q1", b.letters(t, "")[0].Queue)
	assert.Equal(t, []string{"1", "2"}, b.pop(t, "/queue/q2?batch=2").ids())
}

func ruleAckGaps(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1", "2", "3", "4", "5")
	p := b.pop(t, "/queue/q?batch=5")
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, "5=completed")[0].LeaseReleased)
	b.clock.Advance(time.Hour)
	assert.Empty(t, b.pop(t, "/queue/q").Messages)
	b.pushIDs(t, "q", "a", "6", "7", "8")
	p = b.pop(t, "/queue/q?batch=5")
	b.ack(t, "", p.PartitionID, p.LeaseID, "7=completed")
	b.clock.Advance(time.Hour)
	assert.Equal(t, []string{"8"}, b.pop(t, "/queue/q").ids())
}

func ruleAckReleases(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"retryLimit":1`)
	b.pushIDs(t, "q", "a", "1", "2", "3")
	p := b.pop(t, "/queue/q?batch=2")
	b.ack(t, "", p.PartitionID, p.LeaseID, "1=failed")
	p = b.pop(t, "/queue/q?batch=2")
	assert.False(t, b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed")[0].LeaseReleased)
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, "2=completed")[0].LeaseReleased)
	p = b.pop(t, "/queue/q?batch=2")
	assert.False(t, b.ack(t, "", p.PartitionID, p.LeaseID, "3=failed")[0].DLQ, "the counter began again")
}

func ruleAckRetry(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"retryLimit":0,"retryDelay":60000`)
	b.pushIDs(t, "q", "a", "1", "2", "3")
	for range 5 {
		p := b.pop(t, "/queue/q?batch=3")
		require.Equal(t, []string{"1", "2", "3"}, p.ids(), "at once, whatever retryDelay says")
		a := b.ack(t, "", p.PartitionID, p.LeaseID, "1=retry")[0]
		assert.Equal(t, []bool{true, true, false}, []bool{a.Success, a.LeaseReleased, a.DLQ})
	}
	p := b.pop(t, "/queue/q?batch=3")
	b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed", "2=retry", "3=completed")
	assert.Equal(t, []string{"2", "3"}, b.pop(t, "/queue/q?batch=3").ids())
	assert.Empty(t, b.letters(t, ""))
}

func ruleAckFailedOncePerCall(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"retryLimit":2`)
	b.pushIDs(t, "q", "a", "1", "2", "3")
	for i := range 3 {
		p := b.pop(t, "/queue/q?batch=3")
		require.Equal(t, []string{"1", "2", "3"}, p.ids())
		out := b.ack(t, "", p.PartitionID, p.LeaseID, "1=failed", "2=failed", "3=failed")
		assert.Equal(t, i == 2, out[0].DLQ, "three items in a call are one charge")
		assert.False(t, out[1].DLQ || out[2].DLQ)
	}
	assert.Equal(t, 2, b.letters(t, "")[0].RetryCount)
}

func ruleAckDead(t *testing.T, b *broker) {
	t.Helper()
	for _, c := range []struct {
		options string
		dead    bool
	}{
		{`"deadLetterQueue":true,"dlqAfterMaxRetries":false`, true},
		{`"deadLetterQueue":false,"dlqAfterMaxRetries":true`, true},
		{`"deadLetterQueue":false,"dlqAfterMaxRetries":false`, false},
		{``, true},
	} {
		b.configure(t, "q", strings.TrimSuffix(`"retryLimit":0,`+c.options, ","))
		for _, status := range []string{"failed", "dlq"} {
			b.pushIDs(t, "q", "a", status+"1", status+"2")
			p := b.pop(t, "/queue/q?batch=2")
			before := len(b.letters(t, ""))
			a := b.ack(t, "", p.PartitionID, p.LeaseID, p.ids()[0]+"="+status)[0]
			assert.Equal(t, []bool{true, true, c.dead}, []bool{a.Success, a.LeaseReleased, a.DLQ}, c.options)
			assert.Len(t, b.letters(t, ""), before+map[bool]int{true: 1}[c.dead])
			rest := b.pop(t, "/queue/q?batch=2&autoAck=true")
			assert.Equal(t, p.ids()[1:], rest.ids(), "one message only; the rest redelivers")
		}
		b.do(t, "DELETE", "/api/v1/resources/queues/q", "")
	}
}

func ruleAckAbove(t *testing.T, b *broker) {
	t.Helper()
	for _, status := range []string{"failed", "retry"} {
		b.pushIDs(t, status, "a", "1", "2", "3")
		p := b.pop(t, "/queue/"+status+"?batch=3")
		out := b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed", "2="+status, "3=completed")
		assert.Equal(t, []bool{true, true, true}, success(out))
		assert.Equal(t, []string{"2", "3"}, b.pop(t, "/queue/"+status+"?batch=3").ids())
	}
}

func ruleAckErrorText(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"retryLimit":1`)
	ack := func(items string) {
		b.post(t, "/api/v1/ack/batch", `{"acknowledgments":[`+items+`]}`, 200)
	}
	item := func(p popped, id, status, more string) string {
		return `{"transactionId":"` + id + `","partitionId":"` + p.PartitionID + `","leaseId":"` + p.LeaseID + `","status":"` + status + `"` + more + `}`
	}
	b.pushIDs(t, "q", "a", "1", "2", "3", "4")
	p := b.pop(t, "/queue/q?batch=4")
	ack(item(p, "1", "failed", ""))
	p = b.pop(t, "/queue/q?batch=4")
	ack(item(p, "2", "failed", `,"error":"second"`) + "," + item(p, "1", "failed", `,"error":"own"`))
	p = b.pop(t, "/queue/q?batch=4")
	ack(item(p, "2", "dlq", ``) + "," + item(p, "3", "failed", `,"error":"first of the call"`))
	p = b.pop(t, "/queue/q?batch=4")
	ack(item(p, "3", "dlq", `,"error":null`))
	got := map[string]string{}
	for _, l := range b.letters(t, "") {
		got[l.TransactionID] = fmt.Sprint(l.ErrorMessage, " ", l.RetryCount)
	}
	assert.Equal(t, map[string]string{"1": "own 1", "2": "first of the call 0", "3": "Retries exhausted 0"}, got)
}

func ruleAckLimits(t *testing.T, b *broker) {
	t.Helper()
	for _, limit := range []int{0, 1, 5} {
		queue := fmt.Sprint("q", limit)
		b.configure(t, queue, fmt.Sprintf(`"retryLimit":%d`, limit))
		b.pushIDs(t, queue, "a", "1")
		for i := range limit + 1 {
			p := b.pop(t, "/queue/"+queue)
			require.Equal(t, []string{"1"}, p.ids(), "%d redeliveries", i)
			assert.Equal(t, i == limit, b.ack(t, "", p.PartitionID, p.LeaseID, "1=failed")[0].DLQ)
		}
		assert.Empty(t, b.pop(t, "/queue/"+queue).Messages)
		l := b.letters(t, "?queue="+queue)
		require.Len(t, l, 1)
		assert.Equal(t, []any{"because", limit}, []any{l[0].ErrorMessage, l[0].RetryCount})
	}
	b.pushIDs(t, "implicit", "a", "1")
	for i := range 4 {
		p := b.pop(t, "/queue/implicit")
		assert.Equal(t, i == 3, b.ack(t, "", p.PartitionID, p.LeaseID, "1=failed")[0].DLQ, "the default is 3")
	}
}

func ruleAckAllNacked(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"retryLimit":1`)
	b.pushIDs(t, "q", "a", "1", "2", "3")
	left := []string{"1", "2", "3"}
	for calls := 1; len(left) > 0; calls++ {
		require.LessOrEqual(t, calls, 6)
		p := b.pop(t, "/queue/q?batch=3")
		require.Equal(t, left, p.ids())
		items := make([]string, 0, len(left))
		for _, id := range left {
			items = append(items, id+"=failed")
		}
		if b.ack(t, "", p.PartitionID, p.LeaseID, items...)[0].DLQ {
			assert.Equal(t, 0, calls%2, "each has a budget of its own")
			left = left[1:]
		}
	}
	assert.Len(t, b.letters(t, ""), 3)
}

func ruleAckLeaseless(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1", "2", "3", "4")
	p := b.pop(t, "/queue/q?batch=2&leaseSeconds=5")
	a := b.ack(t, "", p.PartitionID, "", "1=completed")[0]
	assert.True(t, a.Success && !a.Noop)
	b.clock.Advance(5 * time.Second)
	for _, status := range []string{"failed", "retry", "dlq"} {
		a = b.ack(t, "", p.PartitionID, "", "2="+status)[0]
		assert.Equal(t, []any{false, leaseLost}, []any{a.Success, a.text()}, status)
	}
	assert.True(t, b.ack(t, "", p.PartitionID, "", "3=completed")[0].Success, "any time, and it moves the cursor")
	assert.Equal(t, []string{"4"}, b.pop(t, "/queue/q?batch=9").ids())
	assert.True(t, b.ack(t, "", p.PartitionID, "", "3=completed")[0].Noop)
	// With a live lease on the row a negative answer works without naming it.
	a = b.ack(t, "", p.PartitionID, "", "4=failed")[0]
	assert.True(t, a.Success && a.LeaseReleased, a.text())
}

func ruleAckReleased(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"retryLimit":1`)
	released := func(ids ...string) bool {
		p := b.pop(t, "/queue/q?batch=2")
		out := b.ack(t, "", p.PartitionID, p.LeaseID, ids...)
		return out[0].LeaseReleased
	}
	b.pushIDs(t, "q", "a", "1", "2", "3")
	assert.True(t, released("1=retry"))
	assert.True(t, released("1=failed"))
	assert.True(t, released("1=failed"), "dead")
	assert.True(t, released("3=completed"), "full")
	b.pushIDs(t, "q", "a", "4", "5")
	assert.False(t, released("4=completed"), "partial")
	assert.False(t, released("x=completed"), "there was none")
}
