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

func TestConfigureOverHTTP(t *testing.T) {
	b := newBroker(t, queen.Options{})
	options := func(r result) (out struct {
		Configured     bool
		QueueID, Queue string
		Namespace      string
		Options        map[string]any
	},
	) {
		require.Equal(t, http.StatusOK, r.status, r.body)
		require.NoError(t, json.Unmarshal([]byte(r.body), &out))
		require.True(t, out.Configured)
		return out
	}
	first := options(b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"q","namespace":"n","leaseTime":20,"retryLimit":7}`))
	merged := options(b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"q","options":{"retryLimit":null,"priority":4}}`))
	assert.Equal(t, first.QueueID, merged.QueueID)
	assert.Equal(t, "n", merged.Namespace)
	assert.EqualValues(t, 20, merged.Options["leaseTime"])
	assert.EqualValues(t, 3, merged.Options["retryLimit"])
	assert.EqualValues(t, 4, merged.Options["priority"])
	replaced := options(b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"q","mode":"replace","options":{"ttl":1}}`))
	assert.Empty(t, replaced.Namespace)
	assert.EqualValues(t, 300, replaced.Options["leaseTime"])
	assert.EqualValues(t, 0, replaced.Options["priority"])
	assert.EqualValues(t, 1, replaced.Options["ttl"])
}

func TestConfigureReplaceIsASetting(t *testing.T) {
	b := newBroker(t, queen.Options{ReplaceOptions: true})
	b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"q","leaseTime":20}`)
	assert.Contains(t, b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"q","retryLimit":1}`).body, `"leaseTime":300,"retryLimit":1`)
	b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"q","leaseTime":20}`)
	assert.Contains(t, b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"q","mode":"merge","retryLimit":1}`).body, `"leaseTime":20,"retryLimit":1`)
}

func TestConfigureReachesRunningPops(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "Default", "1")
	b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"q","options":{"leaseTime":3}}`)
	require.Len(t, b.pop(t, "/queue/q").Messages, 1)
	b.clock.Advance(3 * time.Second)
	require.Len(t, b.pop(t, "/queue/q").Messages, 1)
}

func TestQueueNumbers(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "a", "1", "2", "3", "4")
	b.pushIDs(t, "q", "b", "5")
	p := b.pop(t, "/queue/q/partition/a?batch=3")
	b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed")
	list := b.do(t, http.MethodGet, "/api/v1/resources/queues?stats=cached&limit=1", "").body
	assert.Contains(t, list, `"partitions":2,"retainedBytes":50,"segments":{},"messages":{"total":5,"pending":2,"processing":2}}`)
	detail := b.do(t, http.MethodGet, "/api/v1/resources/queues/q", "").body
	assert.Contains(t, detail, `"name":"a","createdAt":"2026-01-02T03:04:05.000000Z","stats":{"total":4,"pending":1,"processing":2,"completed":1,"failed":null,"deadLetter":0}`)
	assert.Contains(t, detail, `"totals":{"total":5,"pending":2,"processing":2,"completed":1,"failed":null,"deadLetter":0},"retainedBytes":50,"segments":{"segments":0,"messages":5}}`)

	r := b.do(t, http.MethodGet, "/api/v1/resources/queues/none", "")
	assert.Equal(t, http.StatusNotFound, r.status)
	exactly(t, `{"error":"Queue not found"}`, r.body)
}

func TestDeletedQueueStartsEmpty(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "Default", "1", "2")
	p := b.pop(t, "/queue/q?consumerGroup=g")
	b.ack(t, "g", p.PartitionID, p.LeaseID, "1=dlq")
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/dlq", "").body, `"total":1`)
	exactly(t, `{"deleted":true,"queue":"q","existed":true}`, b.do(t, http.MethodDelete, "/api/v1/resources/queues/q", "").body)
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/dlq", "").body, `"total":0`)
	assert.Equal(t, noConsumer, b.ack(t, "g", p.PartitionID, "", "2=completed")[0].text())
	b.pushIDs(t, "q", "Default", "1")
	assert.Equal(t, []string{"1"}, b.pop(t, "/queue/q?consumerGroup=g").ids())
}

func TestDeadLetterList(t *testing.T) {
	b := newBroker(t, queen.Options{})
	for _, at := range [][2]string{{"q", "a"}, {"q", "b"}, {"r", "a"}} {
		queue, partition := at[0], at[1]
		b.pushIDs(t, queue, partition, queue+partition)
		p := b.pop(t, "/queue/"+queue+"/partition/"+partition+"?consumerGroup=g"+queue)
		b.ack(t, "g"+queue, p.PartitionID, p.LeaseID, queue+partition+"=dlq")
		b.clock.Advance(time.Second)
	}
	for query, want := range map[string][]string{
		"":                        {"ra", "qb", "qa"},
		"?limit=1":                {"ra"},
		"?limit=1&offset=1":       {"qb"},
		"?offset=9":               {},
		"?limit=0":                {},
		"?queue=q":                {"qb", "qa"},
		"?queue=none":             {},
		"?queue=q&partition=a":    {"qa"},
		"?queue=q&partition=none": {},
		"?partition=a":            {"ra", "qa"},
		"?partition=a&limit=1":    {"ra"},
		"?partition=a&offset=1":   {"qa"},
		"?consumerGroup=gr":       {"ra"},
		"?consumerGroup=nobody":   {},
		"?from=2026-01-02T03:04:06Z&to=2026-01-02T03:04:06Z": {"qb"},
	} {
		var list struct {
			Messages   []struct{ TransactionID, Queue, Partition, FailedAt string }
			Pagination map[string]int
			Total      *int
		}
		r := b.do(t, http.MethodGet, "/api/v1/dlq"+query, "")
		require.Equal(t, http.StatusOK, r.status, r.body)
		require.NoError(t, json.Unmarshal([]byte(r.body), &list))
		got := make([]string, 0, len(list.Messages))
		for _, m := range list.Messages {
			got = append(got, m.TransactionID)
			assert.Equal(t, m.TransactionID, m.Queue+m.Partition)
		}
		assert.Equal(t, want, got, query)
		require.NotNil(t, list.Total)
	}
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/dlq?queue=q&limit=1", "").body, `"pagination":{"limit":1,"offset":0},"total":2}`)
	for _, query := range []string{"?limit=x", "?offset=1.5", "?from=yesterday", "?queue=%ff"} {
		assert.Equal(t, http.StatusBadRequest, b.do(t, http.MethodGet, "/api/v1/dlq"+query, "").status, query)
	}
}

func TestHealth(t *testing.T) {
	b := newBroker(t, queen.Options{Version: "1.2.3"})
	r := b.do(t, http.MethodGet, "/health", "")
	assert.Equal(t, http.StatusOK, r.status)
	exactly(t, `{"status":"healthy","database":"connected","engine":"leasehold","version":"1.2.3"}`, r.body)
	require.NoError(t, b.engine.Shutdown(t.Context()))
	r = b.do(t, http.MethodGet, "/health", "")
	assert.Equal(t, http.StatusServiceUnavailable, r.status)
	assert.Contains(t, r.body, `{"status":"unhealthy","database":"disconnected"`)
}
