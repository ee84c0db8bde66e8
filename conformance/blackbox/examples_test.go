package blackbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The examples of the three products' own documentation, against the command.

// noon is where the clocks of these tests stand still.
var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// outcome is an answer or why there is none.
type outcome struct {
	answer Answer
	err    error
}

// later sends a request that waits.
func later(t *testing.T, c *Clients, method, url, body string) <-chan outcome {
	t.Helper()
	done := make(chan outcome, 1)
	go func() {
		a, err := c.Conn.JSON(t.Context(), method, url, body)
		done <- outcome{a, err}
	}()
	return done
}

// unanswered makes sure that a request is still waiting, for a moment of the machine's time.
func unanswered(t *testing.T, done <-chan outcome) {
	t.Helper()
	select {
	case o := <-done:
		require.Failf(t, "answered too early", "%s %v", o.answer, o.err)
	case <-time.After(150 * time.Millisecond):
	}
}

// answered returns the answer, which must come soon.
func answered(t *testing.T, done <-chan outcome) Answer {
	t.Helper()
	select {
	case o := <-done:
		require.NoError(t, o.err)
		return o.answer
	case <-time.After(10 * time.Second):
		require.Fail(t, "not answered")
		return Answer{}
	}
}

// parked waits until a queue has that many waiting consumers, of whatever protocol.
func parked(t *testing.T, c *Clients, queue string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, waiting, err := c.Querator.Stats(t.Context(), queue)
		return err == nil && waiting == n
	}, 10*time.Second, 5*time.Millisecond, "consumers that wait on %q", queue)
}

// popExample is the query of Queen's curl example.
const popExample = "/api/v1/pop/queue/orders.created?consumerGroup=billing&batch=50&partitions=4&wait=true&timeout=10000&leaseSeconds=120"

// popMargin is how much before its timeout a pop may be answered empty: some clients give up at
// the very moment.
const popMargin = 150 * time.Millisecond

func TestQueenPopExample(t *testing.T) {
	server := Start(t, t.TempDir())
	c, clock := NewClients(server.Target), NewClock(server.Target)
	clock.Freeze(t, noon)

	waiting := later(t, c, http.MethodGet, c.Queen.Base+popExample, "")
	// The pop makes the queue's row just before it begins to wait.
	require.Eventually(t, func() bool {
		_, err := c.Queen.Pending(t.Context(), "orders.created")
		return err == nil
	}, 10*time.Second, 5*time.Millisecond)
	unanswered(t, waiting)
	clock.Advance(t, 10*time.Second-popMargin)
	unanswered(t, waiting)
	clock.Advance(t, popMargin)
	empty := answered(t, waiting)
	require.Equal(t, http.StatusNoContent, empty.Status)
	require.Empty(t, empty.Body)
	require.Empty(t, empty.Header.Get("Content-Length"))

	waiting = later(t, c, http.MethodGet, c.Queen.Base+popExample, "")
	unanswered(t, waiting)
	require.NoError(t, c.Queen.Push(t.Context(), QueenItem{Queue: "orders.created", Partition: "customer-0", Payload: `{"orderId":0}`}))
	woken := checkPop(t, answered(t, waiting), 1)
	acknowledge(t, c, woken)

	items := make([]QueenItem, 0, 60)
	for i := range 60 {
		items = append(items, QueenItem{
			Queue: "orders.created", Partition: fmt.Sprintf("customer-%d", i%5),
			TransactionID: fmt.Sprintf("order-%d-created", i), Payload: fmt.Sprintf(`{ "orderId": %d, "total": 4200 }`, i),
		})
	}
	require.NoError(t, c.Queen.Push(t.Context(), items...))
	got := checkPop(t, curl(t, c, c.Queen.Base+popExample), 4)
	require.Len(t, got, 48, "four partitions of twelve")

	rest := checkPop(t, curl(t, c, c.Queen.Base+popExample), 1)
	require.Len(t, rest, 12, "the fifth partition")
	clock.Advance(t, 119*time.Second)
	held, err := c.Queen.Pop(t.Context(), "orders.created", "", popQuery(50, 0, 0, "billing"))
	require.NoError(t, err)
	require.Empty(t, held, "held for 120 s")
	clock.Advance(t, time.Second)
	again := checkPop(t, curl(t, c, c.Queen.Base+popExample), 4)
	acknowledge(t, c, again)
	acknowledge(t, c, checkPop(t, curl(t, c, c.Queen.Base+popExample), 1))
}

// curl sends the request with curl where there is one.
func curl(t *testing.T, c *Clients, url string) Answer {
	t.Helper()
	if path, err := exec.LookPath("curl"); err == nil {
		out, err := exec.CommandContext(t.Context(), path, "--noproxy", "*", "-sS", "-i", url).Output()
		require.NoError(t, err)
		head, body, found := strings.Cut(string(out), "\r\n\r\n")
		require.True(t, found)
		var status int
		_, err = fmt.Sscanf(head, "HTTP/1.1 %d", &status)
		require.NoError(t, err, head)
		return Answer{Status: status, Header: http.Header{}, Body: []byte(body)}
	}
	a, err := c.Conn.Do(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	return a
}

// checkPop checks a pop's answer field by field and returns its messages.
func checkPop(t *testing.T, a Answer, partitions int) []QueenMessage {
	t.Helper()
	require.Equal(t, http.StatusOK, a.Status, a)
	var top struct {
		Success                                               bool
		Queue, Partition, PartitionID, LeaseID, ConsumerGroup string
		PartitionsClaimed                                     int
		Messages                                              []map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(a.Body, &top))
	assert.True(t, top.Success)
	assert.Equal(t, "orders.created", top.Queue)
	assert.Equal(t, "billing", top.ConsumerGroup)
	assert.Equal(t, partitions, top.PartitionsClaimed)
	var out struct{ Messages []QueenMessage }
	require.NoError(t, json.Unmarshal(a.Body, &out))
	require.NotEmpty(t, out.Messages)
	assert.Equal(t, top.Partition, out.Messages[0].Partition)
	assert.Equal(t, top.PartitionID, out.Messages[0].PartitionID)
	created := regexp.MustCompile(`^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"$`)
	for i, m := range out.Messages {
		assert.Equal(t, top.LeaseID, m.LeaseID)
		assert.Equal(t, "billing", m.ConsumerGroup)
		assert.Regexp(t, created, string(top.Messages[i]["createdAt"]))
		keys := make([]string, 0, 10)
		for k := range top.Messages[i] {
			keys = append(keys, k)
		}
		assert.ElementsMatch(t, []string{
			"id", "transactionId", "traceId", "data", "producerSub", "createdAt", "partitionId", "partition", "leaseId", "consumerGroup",
		}, keys)
	}
	return out.Messages
}

// acknowledge completes each message by a call of its own.
func acknowledge(t *testing.T, c *Clients, messages []QueenMessage) {
	t.Helper()
	for _, m := range messages {
		body := fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,"status":"completed","consumerGroup":"billing","leaseId":%q}`,
			m.TransactionID, m.PartitionID, m.LeaseID)
		a, err := c.Conn.JSON(t.Context(), http.MethodPost, c.Queen.Base+"/api/v1/ack", body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, a.Status, a)
		require.Contains(t, string(a.Body), `"success":true,"error":null`)
	}
}

func TestQueratorReserveExample(t *testing.T) {
	server := Start(t, t.TempDir())
	c, clock := NewClients(server.Target), NewClock(server.Target)
	post := func(method, body string) Answer {
		a, err := c.Conn.JSON(t.Context(), http.MethodPost, c.Querator.Base+method, body)
		require.NoError(t, err)
		return a
	}
	clock.Freeze(t, noon)
	require.JSONEq(t, `{"code":200}`, string(post("/v1/queues.create",
		`{"queue_name":"orders","reserve_timeout":"1m","expire_timeout":"24h","requested_partitions":1}`).Body))
	reserve := `{"queue_name":"orders","client_id":"client-01","request_timeout":"5s","batch_size":2}`

	waiting := later(t, c, http.MethodPost, c.Querator.Base+"/v1/queue.reserve", reserve)
	parked(t, c, "orders", 1)
	clock.Advance(t, 4999*time.Millisecond)
	unanswered(t, waiting)
	clock.Advance(t, time.Millisecond)
	empty := answered(t, waiting)
	require.Equal(t, 454, empty.Status)
	require.JSONEq(t, `{"code":454,"code_text":"Retry Request","message":"request timeout; no items are in the queue, try again"}`, string(empty.Body))

	for _, body := range []string{"one", "two", "three"} {
		require.Equal(t, 200, post("/v1/queue.produce",
			fmt.Sprintf(`{"queue_name":"orders","request_timeout":"30s","items":[{"kind":"k","reference":"r","utf8":%q}]}`, body)).Status)
	}
	first := reserved(t, post("/v1/queue.reserve", reserve), "one", "two")
	for _, item := range first {
		assert.Equal(t, 1, item.Attempts)
		assert.Equal(t, noon.Add(5*time.Second+time.Minute), item.Deadline)
	}
	reserved(t, post("/v1/queue.reserve", reserve), "three")
	done := fmt.Sprintf(`{"queue_name":"orders","partition":0,"request_timeout":"5s","ids":[%q]}`, first[0].ID)
	require.JSONEq(t, `{"code":200}`, string(post("/v1/queue.complete", done).Body))

	waiting = later(t, c, http.MethodPost, c.Querator.Base+"/v1/queue.reserve", strings.Replace(reserve, "5s", "2m", 1))
	parked(t, c, "orders", 1)
	clock.Advance(t, time.Minute)
	again := reserved(t, answered(t, waiting), "two", "three")
	assert.Equal(t, 2, again[0].Attempts)
	assert.NotEqual(t, first[1].ID, again[0].ID, "a new id at the tail")
}

// reservedItem is an item of a reserve reply.
type reservedItem struct {
	ID       string
	Attempts int
	Deadline time.Time `json:"reserve_deadline"`
	Bytes    []byte
}

// reserved checks the payloads of a reserve reply.
func reserved(t *testing.T, a Answer, want ...string) []reservedItem {
	t.Helper()
	require.Equal(t, 200, a.Status, a)
	var out struct {
		Queue     string `json:"queue_name"`
		Partition *int
		Items     []reservedItem
	}
	require.NoError(t, json.Unmarshal(a.Body, &out))
	assert.Equal(t, "orders", out.Queue)
	require.NotNil(t, out.Partition)
	got := make([]string, len(out.Items))
	for i, item := range out.Items {
		got[i] = string(item.Bytes)
	}
	require.Equal(t, want, got)
	return out.Items
}

// TestQueratorReserveWaitsInRealTime is the same on a clock that runs.
func TestQueratorReserveWaitsInRealTime(t *testing.T) {
	c := NewClients(Start(t, t.TempDir()).Target)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, c.Querator.Create(ctx, QueratorQueue{Name: "orders", LeaseTimeout: "1m", ExpireTimeout: "24h", Partitions: 1}))
	began := time.Now()
	a, err := c.Conn.JSON(ctx, http.MethodPost, c.Querator.Base+"/v1/queue.reserve",
		`{"queue_name":"orders","client_id":"client-01","request_timeout":"400ms","batch_size":10}`)
	require.NoError(t, err)
	require.Equal(t, 454, a.Status)
	require.GreaterOrEqual(t, time.Since(began), 400*time.Millisecond)
}
