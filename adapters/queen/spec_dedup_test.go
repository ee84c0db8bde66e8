package queen_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func ruleDedupKey(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	b.pushIDs(t, "q", "b", "1")
	b.pushIDs(t, "r", "a", "1")
	out := b.push(t, `{"items":[{"queue":"q","partition":"a","payload":2,"transactionId":"1"}]}`)
	assert.Equal(t, "duplicate", out[0].Status)
	assert.Len(t, b.pop(t, "/queue/q?partitions=0").Messages, 2, "nothing was written")
}

func ruleDedupWindow(t *testing.T, b *broker) {
	t.Helper()
	assert.EqualValues(t, 0, b.configure(t, "none", `"dedupWindowSeconds":-5`)["dedupWindowSeconds"], "floored")
	b.configure(t, "short", `"dedupWindowSeconds":10`)
	status := func(queue string) string {
		return b.push(t, `{"items":[{"queue":"`+queue+`","payload":1,"transactionId":"1"}]}`)[0].Status
	}
	for _, queue := range []string{"none", "short", "implicit"} {
		assert.Equal(t, "queued", status(queue))
	}
	assert.Equal(t, []string{"queued", "duplicate", "duplicate"}, []string{status("none"), status("short"), status("implicit")})
	b.restart(t)
	assert.Equal(t, []string{"queued", "duplicate", "duplicate"}, []string{status("none"), status("short"), status("implicit")})
	b.clock.Advance(11 * time.Second)
	assert.Equal(t, []string{"queued", "duplicate"}, []string{status("short"), status("implicit")})
	b.clock.Advance(time.Hour)
	assert.Equal(t, "queued", status("implicit"), "the default is an hour")
}

func ruleDedupFirst(t *testing.T, b *broker) {
	t.Helper()
	out := b.push(t, `{"items":[{"queue":"q","payload":"first","transactionId":"1"},{"queue":"q","payload":"second","transactionId":"1"}]}`)
	assert.Equal(t, []string{"queued", "duplicate"}, []string{out[0].Status, out[1].Status})
	assert.Equal(t, out[0].MessageID, out[1].MessageID)
	assert.Equal(t, out[0].MessageID, b.push(t, `{"items":[{"queue":"q","payload":3,"transactionId":"1"}]}`)[0].MessageID)
	p := b.pop(t, "/queue/q?batch=9")
	require.Len(t, p.Messages, 1)
	assert.JSONEq(t, `"first"`, string(p.Messages[0].Data))
	statuses := b.pushAtOnce(t, 8, `{"items":[{"queue":"q","payload":1,"transactionId":"2"}]}`)
	assert.Equal(t, map[string]int{"queued": 1, "duplicate": 7}, statuses)
}

func ruleAckWindow(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"dedupWindowSeconds":0,"leaseTime":1000`)
	b.pushIDs(t, "q", "a", "1", "2")
	p := b.pop(t, "/queue/q?batch=2")
	b.clock.Advance(899 * time.Second)
	b.restart(t)
	assert.True(t, b.ack(t, "", p.PartitionID, "", "1=completed")[0].Success, "900 s at least")
	b.clock.Advance(100 * time.Second)
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, "2=completed")[0].LeaseReleased, "and under a lease for as long as that lives")
}

func ruleDedupOff(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"dedupWindowSeconds":0`)
	b.push(t, `{"items":[{"queue":"q","payload":1,"transactionId":"x"},{"queue":"q","payload":2,"transactionId":"y"},{"queue":"q","payload":3,"transactionId":"x"}]}`)
	p := b.pop(t, "/queue/q?batch=3")
	require.Equal(t, []string{"x", "y", "x"}, p.ids())
	a := b.ack(t, "", p.PartitionID, p.LeaseID, "x=completed")[0]
	assert.True(t, a.Success && !a.LeaseReleased, "the lowest of them")
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, "x=completed")[0].LeaseReleased, "then the next")
}

func sdkDlqStatus(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"retryLimit":5`)
	b.pushIDs(t, "q", "a", "1", "2")
	p := b.pop(t, "/queue/q?batch=2")
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, "1=dlq")[0].DLQ)
	assert.Equal(t, []string{"2"}, b.pop(t, "/queue/q?batch=2").ids())
}

func sdkRetryThenDlq(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"retryLimit":1`)
	b.pushIDs(t, "q", "a", "1")
	for range 4 {
		p := b.pop(t, "/queue/q")
		assert.False(t, b.ack(t, "", p.PartitionID, p.LeaseID, "1=retry")[0].DLQ)
	}
	for i := range 2 {
		p := b.pop(t, "/queue/q")
		assert.Equal(t, i == 1, b.ack(t, "", p.PartitionID, p.LeaseID, "1=failed")[0].DLQ)
	}
}

// sdkEach is a consumer that acks one by one and goes on after its handler failed: the lease is gone by then.
func sdkEach(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1", "2", "3")
	p := b.pop(t, "/queue/q?batch=3")
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed")[0].Success)
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, "2=failed")[0].LeaseReleased)
	a := b.ack(t, "", p.PartitionID, p.LeaseID, "3=completed")[0]
	assert.Equal(t, []any{false, leaseLost}, []any{a.Success, a.text()})
	assert.Equal(t, []string{"2", "3"}, b.pop(t, "/queue/q?batch=3").ids(), "without side effects")
}
