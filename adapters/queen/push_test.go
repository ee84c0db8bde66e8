package queen_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
)

func TestPushAnswersAnArrayInRequestOrder(t *testing.T) {
	b := newBroker(t, queen.Options{})
	r := b.do(t, http.MethodPost, "/api/v1/push", `{"items":[]}`)
	assert.Equal(t, http.StatusCreated, r.status)
	assert.Equal(t, "[]", r.body)

	out := b.push(t, `{"items":[{"queue":"a","payload":1},{"queue":"b","partition":"x","payload":2,"transactionId":"t"},{"queue":"a","payload":3}]}`)
	require.Len(t, out, 3)
	for i, p := range out {
		assert.Equal(t, i, p.Index)
		assert.Equal(t, "queued", p.Status)
		id, err := uuid.Parse(p.MessageID)
		require.NoError(t, err)
		assert.EqualValues(t, 7, id.Version())
	}
	assert.Equal(t, out[0].MessageID, out[0].TransactionID, "a made id is the message's")
	assert.Equal(t, "t", out[1].TransactionID)
	assert.Equal(t, "b", out[1].QueueName)

	p := b.pop(t, "/queue/a?batch=10")
	assert.Equal(t, []string{out[0].TransactionID, out[2].TransactionID}, p.ids())
	assert.Equal(t, "Default", p.Partition)
}

func TestPushDeduplicates(t *testing.T) {
	b := newBroker(t, queen.Options{})
	first := b.push(t, `{"items":[{"queue":"q","payload":1,"transactionId":"t"},{"queue":"q","payload":2,"transactionId":"t"},
		{"queue":"q","partition":"other","payload":3,"transactionId":"t"},{"queue":"r","payload":4,"transactionId":"t"}]}`)
	assert.Equal(t, "queued", first[0].Status)
	assert.Equal(t, "duplicate", first[1].Status)
	assert.Equal(t, first[0].MessageID, first[1].MessageID, "the winner's id")
	assert.Equal(t, "queued", first[2].Status, "another partition")
	assert.Equal(t, "queued", first[3].Status, "another queue")

	b.clock.Advance(3599 * time.Second)
	again := b.push(t, `{"items":[{"queue":"q","payload":1,"transactionId":"t"}]}`)
	assert.Equal(t, "duplicate", again[0].Status)
	assert.Equal(t, first[0].MessageID, again[0].MessageID)
	b.clock.Advance(2 * time.Second)
	again = b.push(t, `{"items":[{"queue":"q","payload":1,"transactionId":"t"}]}`)
	assert.Equal(t, "queued", again[0].Status, "the window is over")
}

func TestPushDedupWindowIsAnOption(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"off","options":{"dedupWindowSeconds":0}}`)
	b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"short","options":{"dedupWindowSeconds":10}}`)
	both := `{"items":[{"queue":"off","payload":1,"transactionId":"t"},{"queue":"short","payload":1,"transactionId":"t"}]}`
	b.push(t, both)
	out := b.push(t, both)
	assert.Equal(t, "queued", out[0].Status)
	assert.Equal(t, "duplicate", out[1].Status)
	b.clock.Advance(11 * time.Second)
	assert.Equal(t, "queued", b.push(t, both)[1].Status)
}

func TestPushFirstWinsUnderConcurrency(t *testing.T) {
	b := newBroker(t, queen.Options{})
	results := make([]pushedItem, 8)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() { results[i] = b.push(t, `{"items":[{"queue":"q","payload":1,"transactionId":"same"}]}`)[0] })
	}
	all.Wait()
	queued := 0
	for _, p := range results {
		if p.Status == "queued" {
			queued++
		}
		assert.Equal(t, results[0].MessageID, p.MessageID)
	}
	assert.Equal(t, 1, queued)
	assert.Len(t, b.pop(t, "/queue/q?batch=10").Messages, 1)
}

func TestPayloadsComeBackByteForByte(t *testing.T) {
	b := newBroker(t, queen.Options{})
	payloads := []string{
		`{ "b":1.50, "a" : "<&>" }`, `12345678901234567890123`, `9007199254740993`, `{"a":1,"a":2}`, `null`, `""`, `{}`, `[]`,
		`"\u0000\ud83d\ude00\/é"`, "[1,\n\t2 ]", `1e400`, `-0.0`, `"\ud800"`, `"` + strings.Repeat("x", 1<<20) + `"`, "\"\u2028\"",
	}
	items := make([]string, 0, len(payloads))
	for _, p := range payloads {
		items = append(items, `{"queue":"q","payload":`+p+`}`)
	}
	b.push(t, `{"items":[`+strings.Join(items, ",")+`]}`)
	r := b.do(t, http.MethodGet, "/api/v1/pop/queue/q?batch=100", "")
	require.Equal(t, http.StatusOK, r.status)
	for _, p := range payloads {
		assert.Contains(t, r.body, `"data":`+p+`,"producerSub"`)
	}
}

func TestPushMakesQueuesFromDottedNames(t *testing.T) {
	b := newBroker(t, queen.Options{})
	long := strings.Repeat("n", 300)
	b.push(t, `{"items":[{"queue":"billing.invoice.eu","payload":1,"producerSub":"me"},{"queue":"plain","payload":1},{"queue":"`+long+`","payload":1}]}`)
	r := b.do(t, http.MethodGet, "/api/v1/resources/queues", "")
	assert.Contains(t, r.body, `"name":"billing.invoice.eu","namespace":"billing","task":"invoice"`)
	assert.Contains(t, r.body, `"name":"plain","namespace":"plain","task":""`)
	assert.Contains(t, r.body, `"name":"`+long+`"`)
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/resources/queues/plain", "").body, `"leaseTime":60,"retryLimit":3`)
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/pop/queue/billing.invoice.eu", "").body, `"producerSub":null`)
}
