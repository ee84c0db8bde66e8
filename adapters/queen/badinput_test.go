package queen_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
)

// bodyRoutes are the routes that read a body, with one that is fine.
var bodyRoutes = map[string]string{
	"/api/v1/push":        `{"items":[{"queue":"made","payload":1}]}`,
	"/api/v1/ack":         `{"transactionId":"t","partitionId":"p"}`,
	"/api/v1/ack/batch":   `{"acknowledgments":[{"transactionId":"t","partitionId":"p"}]}`,
	"/api/v1/transaction": `{"operations":[{"type":"push","queue":"made","payload":1}]}`,
	"/api/v1/configure":   `{"queue":"made"}`,

	"/api/v1/traces":                          `{"transactionId":"t","partitionId":"0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90","data":{}}`,
	"/api/v1/consumer-groups/g/subscription":  `{"subscriptionTimestamp":"2026-01-02T03:04:05Z"}`,
	"/api/v1/consumer-groups/g/queues/q/seek": `{"toEnd":true}`,
	"/streams/v1/queries":                     `{"name":"n","source_queue":"q","config_hash":"h"}`,
	"/streams/v1/state/get":                   `{"query_id":"0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90","partition_id":"0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90"}`,
	"/streams/v1/cycle":                       `{"query_id":"0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90","partition_id":"0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90"}`,
}

func TestBadBodiesAreRefusedAndChangeNothing(t *testing.T) {
	b := newBroker(t, queen.Options{})
	for path, fine := range bodyRoutes {
		for name, body := range map[string]string{
			"cut short":     fine[:len(fine)-1],
			"trailing":      fine + "x",
			"two":           fine + fine,
			"invalid UTF-8": strings.Replace(fine, `"`, "\"\xff", 2),
			"a string":      `"text"`,
			"a number":      `7`,
			"a full array":  `[` + fine + `]`,
			"no JSON":       `queue=made&payload=1`,
			"deep":          `{"x":` + strings.Repeat("[", 100000),
			"control":       "{\"\x01\":1}",
			"nothing":       "",
			"empty object":  "{}",
			"empty array":   "[]",
			"null":          "null",
		} {
			r := b.do(t, http.MethodPost, path, body)
			assert.Equal(t, http.StatusBadRequest, r.status, "%s %s: %s", path, name, r.body)
			assert.Equal(t, "application/json", r.header.Get("Content-Type"))
			var out struct{ Error string }
			require.NoError(t, json.Unmarshal([]byte(r.body), &out), r.body)
			assert.NotEmpty(t, out.Error)
		}
	}
	exactly(t, `{"queues":[]}`, b.do(t, http.MethodGet, "/api/v1/resources/queues", "").body)
}

func TestWrongTypesAreRefused(t *testing.T) {
	b := newBroker(t, queen.Options{})
	for _, wrong := range []string{`7`, `-1e99`, `true`, `{}`, `[1]`, `""`} {
		for path, key := range map[string]string{
			"/api/v1/push": "items", "/api/v1/ack": "transactionId", "/api/v1/ack/batch": "acknowledgments", "/api/v1/transaction": "operations",
			"/api/v1/traces": "transactionId", "/streams/v1/queries": "name", "/streams/v1/state/get": "query_id", "/streams/v1/cycle": "partition_id",
			"/api/v1/consumer-groups/g/queues/q/seek": "timestamp", "/api/v1/consumer-groups/g/subscription": "subscriptionTimestamp",
		} {
			r := b.do(t, http.MethodPost, path, fmt.Sprintf(`{%q:%s}`, key, wrong))
			assert.Equal(t, http.StatusBadRequest, r.status, "%s %s: %s", path, wrong, r.body)
		}
	}
	r := b.do(t, http.MethodPost, "/api/v1/push", `{"items":[{"queue":"made","payload":1},{"queue":"made"}]}`)
	exactly(t, `{"error":"bad body: items[1]: payload is required"}`, r.body)
	exactly(t, `{"queues":[]}`, b.do(t, http.MethodGet, "/api/v1/resources/queues", "").body, "one bad item refuses the call before anything is stored")
}

func TestBodyLimit(t *testing.T) {
	b := newBroker(t, queen.Options{MaxBodyBytes: 1000})
	for path := range bodyRoutes {
		r := b.do(t, http.MethodPost, path, `{"x":"`+strings.Repeat("y", 1000)+`"}`)
		assert.Equal(t, http.StatusRequestEntityTooLarge, r.status, path)
		exactly(t, `{"error":"request body too large"}`, r.body)
	}
	r := b.do(t, http.MethodPost, "/api/v1/lease/x/extend", strings.Repeat(" ", 1001))
	assert.Equal(t, http.StatusRequestEntityTooLarge, r.status)
	assert.Equal(t, http.StatusCreated, b.do(t, http.MethodPost, "/api/v1/push", `{"items":[],"x":"`+strings.Repeat("y", 980)+`"}`).status)
}

func TestHundredMegabytesAreRefused(t *testing.T) {
	b := newBroker(t, queen.Options{})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.server.URL+"/api/v1/push", &spaces{left: 100 << 20})
	require.NoError(t, err)
	request.ContentLength = 100 << 20
	response, err := b.server.Client().Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode)
}

// spaces is a reader of so many spaces.
type spaces struct{ left int }

func (s *spaces) Read(p []byte) (int, error) {
	n := min(len(p), s.left)
	s.left -= n
	for i := range p[:n] {
		p[i] = ' '
	}
	if s.left == 0 {
		return n, io.EOF
	}
	return n, nil
}

func TestUnknownRoutes(t *testing.T) {
	b := newBroker(t, queen.Options{})
	for _, target := range []string{
		"GET /api/v1/nope", "GET /api/v1/push", "POST /api/v1/pop/queue/q", "PUT /api/v1/push", "PATCH /api/v1/ack",
		"GET /", "POST /", "GET /api/v1/pop/queue/q/", "GET /api/v1//pop", "GET /api/v1/pop/queue/q/partition",
		"POST /api/v1/kv/put", "POST /api/v1/timers/schedule", "POST /api/v1/ephemeral/q", "OPTIONS /api/v1/push",
		"DELETE /api/v1/queues/q/clear", "GET /api/v1/pop%2Fqueue/q", "GET /API/V1/pop/queue/q", "POST /api/v1/push/", "POST /health",
	} {
		method, path, _ := strings.Cut(target, " ")
		r := b.do(t, method, path, "")
		assert.Equal(t, http.StatusNotFound, r.status, target)
		exactly(t, `{"error":"Not Found","code":"no_such_route"}`, r.body, target)
		assert.Equal(t, "application/json", r.header.Get("Content-Type"))
	}
}

func TestNamesInPathsAndQueries(t *testing.T) {
	b := newBroker(t, queen.Options{})
	for _, name := range []string{"a/b", "a b", "a+b", "100%", "%2F", "é€😀", `"quoted"`, "a\x00b", "?#&=;", "..", "a|b/c", "tab\t"} {
		quoted, err := json.Marshal(name)
		require.NoError(t, err)
		out := b.push(t, `{"items":[{"queue":`+string(quoted)+`,"partition":`+string(quoted)+`,"payload":1,"transactionId":`+string(quoted)+`}]}`)
		require.Equal(t, name, out[0].TransactionID)
		p := b.pop(t, "/queue/"+escapeAll(name)+"/partition/"+escapeAll(name)+"?consumerGroup="+escapeAll(name))
		assert.Equal(t, []string{name, name, name, name}, []string{p.Queue, p.Partition, p.ConsumerGroup, p.Messages[0].TransactionID})
		a := b.do(t, http.MethodPost, "/api/v1/ack", `{"transactionId":`+string(quoted)+`,"partitionId":"`+p.PartitionID+`","leaseId":"`+p.LeaseID+`","consumerGroup":`+string(quoted)+`}`)
		assert.Contains(t, a.body, `"success":true,"error":null,"leaseReleased":true`, name)
		r := b.do(t, http.MethodDelete, "/api/v1/resources/queues/"+escapeAll(name), "")
		assert.Contains(t, r.body, `"deleted":true`, name)
	}
	for _, path := range []string{"/queue/a%1Fb", "/queue/a%ff", "/queue/q/partition/%1f", "/queue/q?consumerGroup=%1f", "/queue/q?batch=x", "?namespace=n&wait=maybe"} {
		r := b.do(t, http.MethodGet, "/api/v1/pop"+path, "")
		assert.Equal(t, http.StatusBadRequest, r.status, path)
		assert.Contains(t, r.body, `{"error":"`)
	}
	exactly(t, `{"queues":[]}`, b.do(t, http.MethodGet, "/api/v1/resources/queues", "").body)
}

// escapeAll percent-encodes every byte.
func escapeAll(name string) string {
	var out strings.Builder
	for i := range len(name) {
		fmt.Fprintf(&out, "%%%02X", name[i])
	}
	return out.String()
}

func TestTheEmptyQueueName(t *testing.T) {
	b := newBroker(t, queen.Options{})
	assert.Contains(t, b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"","options":{"leaseTime":5}}`).body, `"configured":true`)
	assert.Empty(t, b.pop(t, "/queue/?batch=1").Messages)
	b.pushIDs(t, "", "p", "1")
	assert.Equal(t, []string{"1"}, b.pop(t, "/queue/?batch=1").ids())
	assert.Equal(t, []string{"1"}, b.pop(t, "/queue//partition/p?consumerGroup=g").ids())
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/resources/queues/", "").body, `"name":"","namespace":"","task":""`)
	assert.Contains(t, b.do(t, http.MethodDelete, "/api/v1/resources/queues/", "").body, `"deleted":true,"queue":""`)
}

func TestPushOfTooLongATransactionID(t *testing.T) {
	b := newBroker(t, queen.Options{})
	id := strings.Repeat("i", 65535)
	assert.Equal(t, "queued", b.push(t, `{"items":[{"queue":"q","payload":1,"transactionId":"`+id+`"}]}`)[0].Status)
	p := b.pop(t, "/queue/q")
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, id+"=completed")[0].LeaseReleased)
	r := b.do(t, http.MethodPost, "/api/v1/push", `{"items":[{"queue":"q","payload":1,"transactionId":"`+id+`i"}]}`)
	assert.Equal(t, http.StatusBadRequest, r.status)
}
