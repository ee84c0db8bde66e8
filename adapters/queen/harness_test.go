package queen_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/target"
)

// result is an answer with its body as text.
type result struct {
	status int
	header http.Header
	body   string
}

// exactly compares byte for byte: clients see text, and some of them its keys in order.
func exactly(t *testing.T, want, got string, why ...any) {
	t.Helper()
	assert.Equal(t, want, got, why...)
}

// do sends a request with no content type.
func (b *broker) do(t *testing.T, method, path, body string) result {
	t.Helper()
	r, err := b.send(t.Context(), method, path, body)
	require.NoError(t, err)
	return r
}

func (b *broker) send(ctx context.Context, method, path, body string) (result, error) {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	ctx, cancel := context.WithTimeout(ctx, target.AnswerWithin())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, b.server.URL+path, reader)
	if err != nil {
		return result{}, err
	}
	response, err := b.server.Client().Do(request)
	if err != nil {
		return result{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return result{response.StatusCode, response.Header, string(text)}, err
}

type popped struct {
	Success                                bool
	Queue, Partition, PartitionID, LeaseID string
	ConsumerGroup                          string
	PartitionsClaimed                      int
	Messages                               []message
}

type message struct {
	ID, TransactionID, PartitionID, Partition, LeaseID, CreatedAt string
	TraceID                                                       *string
	Data                                                          json.RawMessage
}

// ids lists the transaction ids of a pop.
func (p popped) ids() []string {
	out := make([]string, 0, len(p.Messages))
	for i := range p.Messages {
		out = append(out, p.Messages[i].TransactionID)
	}
	return out
}

// pop expects a delivery, or nothing when it returns a popped without messages.
func (b *broker) pop(t *testing.T, path string) popped {
	t.Helper()
	r := b.do(t, http.MethodGet, "/api/v1/pop"+path, "")
	return asPopped(t, r)
}

func asPopped(t *testing.T, r result) popped {
	t.Helper()
	var p popped
	if r.status == http.StatusNoContent {
		require.Empty(t, r.body)
		return p
	}
	require.Equal(t, http.StatusOK, r.status, r.body)
	require.NoError(t, json.Unmarshal([]byte(r.body), &p), r.body)
	require.NotEmpty(t, p.Messages)
	return p
}

type pushedItem struct {
	Index                    int
	MessageID                string `json:"message_id"`
	TransactionID            string `json:"transaction_id"`
	QueueName, Status, Error string
}

func (b *broker) push(t *testing.T, body string) []pushedItem {
	t.Helper()
	r := b.do(t, http.MethodPost, "/api/v1/push", body)
	require.Equal(t, http.StatusCreated, r.status, r.body)
	var out []pushedItem
	require.NoError(t, json.Unmarshal([]byte(r.body), &out), r.body)
	return out
}

// pushIDs pushes one message for each transaction id into a partition.
func (b *broker) pushIDs(t *testing.T, queue, partition string, ids ...string) {
	t.Helper()
	items := make([]string, 0, len(ids))
	for _, id := range ids {
		items = append(items, `{"queue":"`+queue+`","partition":"`+partition+`","payload":{"id":"`+id+`"},"transactionId":"`+id+`"}`)
	}
	for i, p := range b.push(t, `{"items":[`+strings.Join(items, ",")+`]}`) {
		require.Equal(t, "queued", p.Status)
		require.Equal(t, i, p.Index)
	}
}

type acked struct {
	Index                             int
	TransactionID                     string
	Success, LeaseReleased, DLQ, Noop bool
	Error                             *string
}

// text is the item's error, empty for none.
func (a acked) text() string {
	if a.Error == nil {
		return ""
	}
	return *a.Error
}

// ack acknowledges messages of one partition in one call; each is "id=status".
func (b *broker) ack(t *testing.T, group, partitionID, lease string, items ...string) []acked {
	t.Helper()
	list := make([]string, 0, len(items))
	for _, item := range items {
		id, status, _ := strings.Cut(item, "=")
		list = append(list, `{"transactionId":"`+id+`","partitionId":"`+partitionID+`","leaseId":"`+lease+`","status":"`+status+`","error":"because"}`)
	}
	r := b.do(t, http.MethodPost, "/api/v1/ack/batch", `{"acknowledgments":[`+strings.Join(list, ",")+`],"consumerGroup":"`+group+`"}`)
	require.Equal(t, http.StatusOK, r.status, r.body)
	var out []acked
	require.NoError(t, json.Unmarshal([]byte(r.body), &out), r.body)
	require.Len(t, out, len(items))
	return out
}

// park sends a long poll and waits until the engine has it in its list.
func (b *broker) park(ctx context.Context, t *testing.T, queue, path string) <-chan result {
	t.Helper()
	_, query, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(query)
	require.NoError(t, err)
	group := values.Get("consumerGroup")
	before := b.waiting(t, queue, group)
	done := make(chan result, 1)
	go func() {
		if r, err := b.send(ctx, http.MethodGet, "/api/v1/pop"+path, ""); err == nil {
			done <- r
		}
		close(done)
	}()
	require.Eventually(t, func() bool { return b.waiting(t, queue, group) == before+1 }, 5*time.Second, time.Millisecond)
	if b.remote != nil {
		b.waiting(t, queue, group) // so that it has waited when its gateway looked, and ends with its queue
	}
	return done
}

// waiting counts the pops of a group that are parked on a queue.
func (b *broker) waiting(t *testing.T, queue, group string) int {
	t.Helper()
	if b.remote != nil {
		n, _ := b.remote.Waiting(t, queue)
		return n
	}
	stats, err := b.engine.QueueStats(t.Context(), queue, group)
	if err != nil {
		return 0
	}
	return stats.ClaimsWaiting
}
