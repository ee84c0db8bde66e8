package queen_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
)

const (
	leaseLost    = "invalid or expired lease"
	committed    = "already committed: the cursor moved past this message before this ack"
	unresolvable = "unresolvable: transaction not in the ack window (hash purged or never pushed); if leased, the message redelivers"
	noConsumer   = "consumer not found"
	nobody       = "00000000-0000-0000-0000-000000000000"
)

func TestAckIsCumulative(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "Default", "1", "2", "3", "4", "5")
	p := b.pop(t, "/queue/q?batch=5")
	a := b.ack(t, "", p.PartitionID, p.LeaseID, "3=completed")[0]
	assert.Equal(t, acked{TransactionID: "3", Success: true}, a, "the lease stays")
	a = b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed")[0]
	assert.True(t, a.Success && a.Noop)
	a = b.ack(t, "", p.PartitionID, p.LeaseID, "2=failed")[0]
	assert.False(t, a.Success)
	assert.Equal(t, committed, a.text())
	a = b.ack(t, "", p.PartitionID, p.LeaseID, "5=ok")[0]
	assert.Equal(t, acked{TransactionID: "5", Success: true, LeaseReleased: true}, a)
	assert.Empty(t, b.pop(t, "/queue/q").Messages)
	a = b.ack(t, "", p.PartitionID, p.LeaseID, "5=completed")[0]
	assert.Equal(t, leaseLost, a.text(), "the lease went with the batch")
}

func TestAckItemErrors(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "Default", "1", "2", "3")
	p := b.pop(t, "/queue/q?batch=3")
	ghosts := b.ack(t, "", p.PartitionID, p.LeaseID, "ghost=completed", "ghost=failed", "1=completed")
	assert.Equal(t, []string{unresolvable, unresolvable, ""}, []string{ghosts[0].text(), ghosts[1].text(), ghosts[2].text()})
	assert.True(t, ghosts[2].Success, "a failed item does not disturb the others")

	for _, lease := range []string{nobody, "not-a-uuid", "0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90"} {
		a := b.ack(t, "", p.PartitionID, lease, "2=completed", "3=failed")
		assert.Equal(t, []string{leaseLost, leaseLost}, []string{a[0].text(), a[1].text()}, lease)
		assert.False(t, a[0].Success || a[0].LeaseReleased || a[0].Noop || a[0].DLQ)
	}
	assert.Equal(t, noConsumer, b.ack(t, "stranger", p.PartitionID, "", "2=completed")[0].text())
	assert.Equal(t, noConsumer, b.ack(t, "", "0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90", "", "2=completed")[0].text())
	assert.Equal(t, unresolvable, b.ack(t, "", p.PartitionID, p.LeaseID, `a\u001fb=completed`)[0].text())
	assert.Equal(t, `invalid input syntax for type uuid: "p-1"`, b.ack(t, "", "p-1", "", "2=completed")[0].text())
	a := b.ack(t, "", p.PartitionID, p.LeaseID, "3=completed")[0]
	assert.True(t, a.Success && a.LeaseReleased, "the lease survived all of it")
}

func TestAckOfOneCallAboveAFailure(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "Default", "1", "2", "3", "4", "5")
	p := b.pop(t, "/queue/q?batch=5")
	for i, a := range b.ack(t, "", p.PartitionID, p.LeaseID, "5=completed", "2=failed", "3=completed") {
		assert.True(t, a.Success && a.LeaseReleased, i)
	}
	p = b.pop(t, "/queue/q?batch=5")
	assert.Equal(t, []string{"2", "3", "4", "5"}, p.ids(), "what lies below the failure is settled, what lies above is not")
	b.ack(t, "", p.PartitionID, p.LeaseID, "3=completed", "4=retry", "5=completed")
	p = b.pop(t, "/queue/q?batch=5")
	assert.Equal(t, []string{"4", "5"}, p.ids(), "the gap below a completion is complete")
}

func TestAckRetryBudget(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"q","options":{"retryLimit":2}}`)
	b.pushIDs(t, "q", "Default", "1", "2")
	for range 5 {
		p := b.pop(t, "/queue/q?batch=2")
		require.Equal(t, []string{"1", "2"}, p.ids())
		assert.False(t, b.ack(t, "", p.PartitionID, p.LeaseID, "1=retry")[0].DLQ, "a retry is free")
	}
	for range 2 {
		p := b.pop(t, "/queue/q?batch=2")
		a := b.ack(t, "", p.PartitionID, p.LeaseID, "1=failed", "2=failed")
		assert.False(t, a[0].DLQ || a[1].DLQ)
	}
	p := b.pop(t, "/queue/q?batch=2")
	a := b.ack(t, "", p.PartitionID, p.LeaseID, "1=failed", "2=failed")
	assert.True(t, a[0].DLQ)
	assert.False(t, a[1].DLQ, "only the first")
	assert.Equal(t, []string{"2"}, b.pop(t, "/queue/q?batch=2").ids(), "the rest has a fresh budget")

	var list struct {
		Messages []struct {
			TransactionID, ErrorMessage, Queue, Partition, ConsumerGroup string
			RetryCount                                                   int
		}
		Total int
	}
	r := b.do(t, http.MethodGet, "/api/v1/dlq?queue=q", "")
	require.NoError(t, json.Unmarshal([]byte(r.body), &list))
	require.Equal(t, 1, list.Total)
	assert.Equal(t, 2, list.Messages[0].RetryCount)
	assert.Equal(t, "because", list.Messages[0].ErrorMessage)
	assert.Equal(t, "__QUEUE_MODE__", list.Messages[0].ConsumerGroup)
}

func TestAckToDeadLettersAtOnce(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "Default", "1", "2")
	p := b.pop(t, "/queue/q?batch=2")
	r := b.do(t, http.MethodPost, "/api/v1/ack", `{"transactionId":"1","partitionId":"`+p.PartitionID+`","leaseId":"`+p.LeaseID+`","status":"dlq"}`)
	exactly(t, `[{"index":0,"transactionId":"1","success":true,"error":null,"leaseReleased":true,"dlq":true,"noop":false}]`, r.body)
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/dlq", "").body, `"errorMessage":"Retries exhausted","retryCount":0`)

	b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"q","options":{"deadLetterQueue":false,"dlqAfterMaxRetries":false}}`)
	p = b.pop(t, "/queue/q?batch=2")
	require.Equal(t, []string{"2"}, p.ids())
	a := b.ack(t, "", p.PartitionID, p.LeaseID, "2=dlq")[0]
	assert.True(t, a.Success && a.LeaseReleased && !a.DLQ, "dropped the same way")
	assert.Empty(t, b.pop(t, "/queue/q").Messages)
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/dlq", "").body, `"total":1`)
}

func TestAckStrengthOnOneMessage(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "Default", "1")
	p := b.pop(t, "/queue/q")
	a := b.ack(t, "", p.PartitionID, p.LeaseID, "1=retry", "1=dlq", "1=failed", "1=completed")
	assert.True(t, a[0].Success && a[3].Success)
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/dlq", "").body, `"total":1`, "dlq is the strongest")
	assert.Empty(t, b.pop(t, "/queue/q").Messages)
}

func TestAckWarnsOfWordsThatItDoesNotKnow(t *testing.T) {
	var log bytes.Buffer
	b := newBroker(t, queen.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	b.pushIDs(t, "q", "Default", "1")
	p := b.pop(t, "/queue/q")
	b.ack(t, "", p.PartitionID, p.LeaseID, "1=failed")
	assert.NotContains(t, log.String(), "unknown status")
	p = b.pop(t, "/queue/q")
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, "1=")[0].LeaseReleased, "the empty word is a failure")
	assert.Contains(t, log.String(), "unknown status")
}

func TestAckWithoutALease(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "Default", "1", "2", "3")
	p := b.pop(t, "/queue/q?batch=2")
	b.clock.Advance(61 * time.Second)
	assert.Equal(t, leaseLost, b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed")[0].text(), "expired")
	for _, status := range []string{"failed", "retry", "dlq"} {
		a := b.ack(t, "", p.PartitionID, "", "1="+status)[0]
		assert.Equal(t, leaseLost, a.text(), "%s needs a live lease", status)
	}
	a := b.ack(t, "", p.PartitionID, "", "1=completed")[0]
	assert.True(t, a.Success && !a.LeaseReleased, "works after expiry too")
	assert.Equal(t, []string{"2", "3"}, b.pop(t, "/queue/q?batch=5").ids())
}

func TestAckOfServerMadeIDs(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.push(t, `{"items":[{"queue":"q","payload":1},{"queue":"q","payload":2}]}`)
	p := b.pop(t, "/queue/q?batch=2")
	a := b.ack(t, "", p.PartitionID, p.LeaseID, p.Messages[1].TransactionID+"=completed")[0]
	assert.True(t, a.Success && a.LeaseReleased)
}

func TestAckGroupsAreIndependent(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "a", "a1")
	b.pushIDs(t, "q", "b", "b1")
	p := b.pop(t, "/queue/q?partitions=2&consumerGroup=g")
	require.Len(t, p.Messages, 2)
	list := `{"transactionId":"` + p.Messages[0].TransactionID + `","partitionId":"` + p.Messages[0].PartitionID + `","leaseId":"` + p.LeaseID + `"},
		{"transactionId":"` + p.Messages[1].TransactionID + `","partitionId":"` + p.Messages[1].PartitionID + `","leaseId":"` + nobody + `","consumerGroup":"x"}`
	r := b.do(t, http.MethodPost, "/api/v1/ack/batch", `{"consumerGroup":"g","acknowledgments":[`+list+`]}`)
	var out []acked
	require.NoError(t, json.Unmarshal([]byte(r.body), &out))
	assert.True(t, out[0].Success && out[0].LeaseReleased)
	assert.Equal(t, leaseLost, out[1].text())
	assert.Equal(t, []int{0, 1}, []int{out[0].Index, out[1].Index})
}

func TestExtend(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "a", "a1")
	b.pushIDs(t, "q", "b", "b1")
	p := b.pop(t, "/queue/q?partitions=2")
	r := b.do(t, http.MethodPost, "/api/v1/lease/"+p.LeaseID+"/extend", `{"seconds":120}`)
	assert.Equal(t, `{"leaseId":"`+p.LeaseID+`","success":true,"renewed":2,"newExpiresAt":"2026-01-02T03:06:05.000000Z","expiresAt":"2026-01-02T03:06:05.000000Z","lease_expires_at":"2026-01-02T03:06:05.000000Z"}`, r.body)
	r = b.do(t, http.MethodPost, "/api/v1/lease/"+p.LeaseID+"/extend", `{"seconds":1}`)
	assert.Contains(t, r.body, `"newExpiresAt":"2026-01-02T03:06:05.000000Z"`, "never shorter")
	b.clock.Advance(119 * time.Second)
	assert.Empty(t, b.pop(t, "/queue/q").Messages)
	b.clock.Advance(time.Second)
	for _, lease := range []string{p.LeaseID, nobody, "x%2Fy"} {
		r = b.do(t, http.MethodPost, "/api/v1/lease/"+lease+"/extend", "")
		assert.Equal(t, http.StatusOK, r.status)
		assert.Contains(t, r.body, `"success":false,"renewed":0,"newExpiresAt":null,"expiresAt":null,"lease_expires_at":null}`)
	}
	assert.Contains(t, r.body, `"leaseId":"x/y"`)
}
