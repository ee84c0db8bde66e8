package blackbox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// churn is a server on which queues come and go.
type churn struct {
	*Clients
	dice *dice
	mu   sync.Mutex
	// statuses counts answers by protocol and status; faults are answers that nobody should get.
	statuses map[string]int
	faults   []string
	// leases are tokens of all kinds, most of them stale.
	leases []string
}

// TestChurn makes, changes, purges and deletes queues through all protocols at once, while others
// push to them and consume from them. Whoever meets a queue that has just gone is told so; nobody
// gets a server error, and in the end all protocols agree on what is there, also after a restart.
func TestChurn(t *testing.T) {
	length := duration(t, "LEASEHOLD_CHURN_TIME", 2*time.Second)
	server := Start(t, t.TempDir())
	c := &churn{Clients: NewClients(server.Target), dice: newDice(t), statuses: map[string]int{}}
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			for ctx.Err() == nil {
				c.step(t.Context())
			}
		})
	}
	all.Wait()
	report(t, map[string]any{"seconds": length.Seconds(), "answers": c.statuses})
	require.Empty(t, c.faults)
	// Time passes: what is due and what has expired is dealt with.
	NewClock(server.Target).Advance(t, time.Hour)
	before := c.settled(t)
	server.Stop(t)
	again := Start(t, server.Dir)
	NewClock(again.Target).Advance(t, time.Hour)
	c.Clients = NewClients(again.Target)
	require.Equal(t, before, c.settled(t))
	for name := range before {
		a, err := c.Conn.JSON(t.Context(), http.MethodDelete, c.Queen.Base+"/api/v1/resources/queues/"+name, "")
		require.NoError(t, err)
		require.Contains(t, string(a.Body), `"deleted":true`)
	}
	require.Empty(t, c.backlogs(t))
	again.Stop(t)
	requireSound(t, server.Dir)
}

// request is one random request.
type request struct{ protocol, method, path, body string }

// step sends one random request to one of a few queues.
func (c *churn) step(ctx context.Context) {
	name := fmt.Sprintf("q%d", c.dice.upTo(4))
	other := fmt.Sprintf("q%d", c.dice.upTo(4))
	lease := c.lease()
	requests := slices.Concat(queenChurn(name, lease), queratorChurn(name, other, lease), cfChurn(name, other, lease))
	r := requests[c.dice.upTo(len(requests))-1]
	base := map[string]string{"queen": c.Queen.Base, "querator": c.Querator.Base, "cf": c.Cf.url("")}[r.protocol]
	a, err := c.Conn.JSON(ctx, r.method, base+r.path, r.body)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.fault("%s %s: %v", r.method, r.path, err)
		return
	case a.Status == 500 || a.Status == 503:
		c.fault("%s %s %s: %s", r.method, r.path, r.body, a)
	}
	c.statuses[fmt.Sprintf("%s %d", r.protocol, a.Status)]++
	c.keep(a)
}

func (c *churn) fault(format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

// keep remembers the tokens of an answer.
func (c *churn) keep(a Answer) {
	var out struct {
		LeaseID  string `json:"leaseId"`
		Messages []QueenMessage
		Items    []QueratorLeased
		Result   json.RawMessage
	}
	if json.Unmarshal(a.Body, &out) != nil {
		return
	}
	for _, m := range out.Messages {
		c.leases = append(c.leases, fmt.Sprintf(`"transactionId":%q,"partitionId":%q,"leaseId":%q`, m.TransactionID, m.PartitionID, m.LeaseID))
	}
	for _, item := range out.Items {
		c.leases = append(c.leases, text(item.ID))
	}
	var pulled struct{ Messages []CfPulled }
	if json.Unmarshal(out.Result, &pulled) == nil {
		for _, m := range pulled.Messages {
			c.leases = append(c.leases, `"lease_id":`+text(m.LeaseID))
		}
	}
	if n := len(c.leases); n > 200 {
		c.leases = c.leases[n-100:]
	}
}

// lease returns a token, of whatever kind.
func (c *churn) lease() string {
	n := c.dice.upTo(100)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.leases) == 0 {
		return `"none"`
	}
	return c.leases[n%len(c.leases)]
}

func queenChurn(name, lease string) []request {
	pop := "/api/v1/pop/queue/" + name
	out := []request{
		{"queen", "POST", "/api/v1/push", `{"items":[{"queue":"` + name + `","payload":1},{"queue":"` + name + `","partition":"p","payload":{"a":2},"transactionId":"t"}]}`},
		{"queen", "POST", "/api/v1/push", `{"items":[{"queue":"` + name + `","payload":"x"}]}`},
		{"queen", "GET", pop + "?batch=3&leaseSeconds=1", ""},
		{"queen", "GET", pop + "?consumerGroup=g&partitions=0&autoAck=true", ""},
		{"queen", "GET", pop + "/partition/p?wait=true&timeout=30", ""},
		{"queen", "GET", "/api/v1/pop?namespace=" + name + "&wait=true&timeout=20", ""},
		{"queen", "POST", "/api/v1/configure", `{"queue":"` + name + `","options":{"leaseTime":1,"retryLimit":0}}`},
		{"queen", "DELETE", "/api/v1/resources/queues/" + name, ""},
		{"queen", "GET", "/api/v1/resources/queues/" + name, ""},
		{"queen", "GET", "/api/v1/resources/queues", ""},
		{"queen", "GET", "/api/v1/dlq?queue=" + name, ""},
		{"queen", "DELETE", "/api/v1/dlq?queue=" + name, ""},
		{"queen", "POST", "/api/v1/consumer-groups/g/queues/" + name + "/seek", `{"toEnd":true}`},
		{"queen", "POST", "/api/v1/consumer-groups/__QUEUE_MODE__/queues/" + name + "/partitions/p/seek", `{"timestamp":"2020-01-01T00:00:00Z"}`},
		{"queen", "DELETE", "/api/v1/consumer-groups/g/queues/" + name, ""},
		{"queen", "DELETE", "/api/v1/consumer-groups/g?deleteMetadata=false", ""},
	}
	if strings.HasPrefix(lease, `"transactionId"`) {
		for _, status := range []string{"completed", "failed", "retry", "dlq"} {
			out = append(out, request{"queen", "POST", "/api/v1/ack", `{` + lease + `,"status":"` + status + `"}`})
		}
		out = append(out, request{"queen", "POST", "/api/v1/transaction", `{"operations":[{"type":"push","queue":"` + name + `","payload":3},{"type":"ack",` + lease + `}]}`})
	}
	return out
}

func queratorChurn(name, other, lease string) []request {
	out := []request{
		{"querator", "POST", "/v1/queues.create", `{"queue_name":"` + name + `","lease_timeout":"1s","expire_timeout":"1m","max_attempts":2,"requested_partitions":3,"dead_queue":"` + other + `"}`},
		{"querator", "POST", "/v1/queues.create", `{"queue_name":"` + name + `","lease_timeout":"1s","expire_timeout":"1m","requested_partitions":1}`},
		{"querator", "POST", "/v1/queue.produce", `{"queue_name":"` + name + `","request_timeout":"5s","items":[{"utf8":"a"},{"encoding":"json","bytes":"Nw=="}]}`},
		{"querator", "POST", "/v1/queue.produce", `{"queue_name":"` + name + `","request_timeout":"5s","items":[{"enqueue_at":"2099-01-01T00:00:00Z"},{}]}`},
		{"querator", "POST", "/v1/queue.lease", `{"queue_name":"` + name + `","client_id":"a","batch_size":3,"request_timeout":"20ms"}`},
		{"querator", "POST", "/v1/queue.reserve", `{"queue_name":"` + name + `","client_id":"b","batch_size":1,"request_timeout":"20ms"}`},
		{"querator", "POST", "/v1/queue.stats", `{"queue_name":"` + name + `"}`},
		{"querator", "POST", "/v1/queues.info", `{"queue_name":"` + name + `"}`},
		{"querator", "POST", "/v1/queues.list", `{}`},
		{"querator", "POST", "/v1/queues.update", `{"queue_name":"` + name + `","max_attempts":3,"reference":"r"}`},
		{"querator", "POST", "/v1/queue.clear", `{"queue_name":"` + name + `","queue":true}`},
		{"querator", "POST", "/v1/queue.clear", `{"queue_name":"` + name + `","queue":true,"scheduled":true,"destructive":true}`},
		{"querator", "POST", "/v1/queue.reload", `{"queue_name":"` + name + `"}`},
		{"querator", "POST", "/v1/storage/items.list", `{"queue_name":"` + name + `","partition":0}`},
		{"querator", "POST", "/v1/storage/scheduled.list", `{"queue_name":"` + name + `","partition":0}`},
		{"querator", "POST", "/v1/storage/items.import", `{"queue_name":"` + name + `","partition":0,"items":[{"source_id":"s","payload":"YQ=="},{"is_leased":true,"attempts":1,"lease_deadline":"2099-01-01T00:00:00Z"}]}`},
		{"querator", "POST", "/v1/queues.delete", `{"queue_name":"` + name + `"}`},
	}
	if !strings.Contains(lease, ":") {
		out = append(out,
			request{"querator", "POST", "/v1/queue.complete", `{"queue_name":"` + name + `","partition":0,"request_timeout":"1s","ids":[` + lease + `]}`},
			request{"querator", "POST", "/v1/queue.retry", `{"queue_name":"` + name + `","partition":0,"items":[{"id":` + lease + `}]}`},
			request{"querator", "POST", "/v1/queue.retry", `{"queue_name":"` + name + `","partition":0,"items":[{"id":` + lease + `,"dead":true}]}`},
			request{"querator", "POST", "/v1/storage/items.delete", `{"queue_name":"` + name + `","partition":0,"ids":[` + lease + `]}`})
	}
	return out
}

func cfChurn(name, other, lease string) []request {
	queue := "/queues/" + name
	out := []request{
		{"cf", "POST", "/queues", `{"queue_name":"` + name + `"}`},
		{"cf", "GET", "/queues", ""},
		{"cf", "GET", queue, ""},
		{"cf", "PATCH", queue, `{"settings":{"delivery_delay":1}}`},
		{"cf", "PUT", queue, `{}`},
		{"cf", "DELETE", queue, ""},
		{"cf", "POST", queue + "/consumers", `{"type":"http_pull","dead_letter_queue":"` + other + `","settings":{"max_retries":1,"visibility_timeout_ms":50}}`},
		{"cf", "POST", queue + "/consumers", `{"type":"http_pull"}`},
		{"cf", "GET", queue + "/consumers", ""},
		{"cf", "POST", queue + "/messages", `{"body":{"a":1}}`},
		{"cf", "POST", queue + "/messages/batch", `{"messages":[{"body":"t","content_type":"text"},{"body":1,"delay_seconds":1}]}`},
		{"cf", "POST", queue + "/messages/pull", `{"batch_size":5,"visibility_timeout_ms":20}`},
		{"cf", "POST", queue + "/purge", `{"delete_messages_permanently":true}`},
		{"cf", "GET", queue + "/metrics", ""},
	}
	if strings.HasPrefix(lease, `"lease_id"`) {
		out = append(out,
			request{"cf", "POST", queue + "/messages/ack", `{"acks":[{` + lease + `}]}`},
			request{"cf", "POST", queue + "/messages/ack", `{"retries":[{` + lease + `,"delay_seconds":0}]}`})
	}
	return out
}

// settled returns the backlog of every queue when what a change of the clock set off has happened. All protocols must agree on it; while it
// happens they may not, since they are asked one after the other.
func (c *churn) settled(t *testing.T) map[string]int64 {
	t.Helper()
	last := c.backlogs(t)
	for same := 0; same < 5; same++ {
		time.Sleep(50 * time.Millisecond)
		if now := c.backlogs(t); !maps.EqualFunc(last, now, maps.Equal) {
			last, same = now, 0
		}
	}
	out := map[string]int64{}
	for name, all := range last {
		require.Equal(t, all["queen"], all["cfqueues"], name)
		require.Equal(t, all["queen"], all["querator"], name)
		out[name] = all["queen"]
	}
	return out
}

// backlogs returns the backlog of every queue as each protocol tells it.
func (c *churn) backlogs(t *testing.T) map[string]map[string]int64 {
	t.Helper()
	a, err := c.Conn.JSON(t.Context(), http.MethodPost, c.Querator.Base+"/v1/queues.list", `{}`)
	require.NoError(t, err)
	var list struct {
		Items []struct {
			Name string `json:"queue_name"`
		}
	}
	require.NoError(t, json.Unmarshal(a.Body, &list))
	out := map[string]map[string]int64{}
	for _, q := range list.Items {
		all, err := backlogs(t.Context(), c.Clients, q.Name)
		require.NoError(t, err)
		out[q.Name] = all
	}
	return out
}
