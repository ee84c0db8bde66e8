package blackbox

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// Account is an account id; a server without authentication takes any.
const Account = "023e105f4ecef8ad9ca31a8372d0c353"

// Cfqueues is a light client of the Cloudflare Queues protocol.
type Cfqueues struct {
	Base string
	Conn *Conn
}

// CfMessage is one message to push. Body is JSON, sent byte for byte.
type CfMessage struct {
	Body, ContentType string
	// DelaySeconds is sent unless it is 0.
	DelaySeconds int
}

// json spells the message for push and batch push.
func (m CfMessage) json() string {
	b := `{"body":` + m.Body
	if m.ContentType != "" {
		b += `,"content_type":` + text(m.ContentType)
	}
	if m.DelaySeconds != 0 {
		b += `,"delay_seconds":` + strconv.Itoa(m.DelaySeconds)
	}
	return b + `}`
}

// CfPulled is a pulled message.
type CfPulled struct {
	ID, Body string
	Attempts int
	LeaseID  string `json:"lease_id"`
	Metadata map[string]string
}

// ContentType returns the content type that the message says it has.
func (p CfPulled) ContentType() string { return p.Metadata["CF-Content-Type"] }

// CfRetry gives a message back.
type CfRetry struct {
	LeaseID      string `json:"lease_id"`
	DelaySeconds *int   `json:"delay_seconds,omitempty"`
}

// CfAcked is the answer to an acknowledgement.
type CfAcked struct {
	AckCount, RetryCount int
	Warnings             map[string]string
}

// CfMetrics are a queue's figures.
type CfMetrics struct {
	BacklogCount int64 `json:"backlog_count"`
	BacklogBytes int64 `json:"backlog_bytes"`
}

// CfConsumer are the settings of a pull consumer.
type CfConsumer struct {
	DeadLetterQueue string
	MaxRetries      int
	RetryDelay      int
	VisibilityMS    int
}

func (c Cfqueues) url(path string) string { return c.Base + "/client/v4/accounts/" + Account + path }

// call decodes the envelope's result into out.
func (c Cfqueues) call(ctx context.Context, method, path, body string, out any) error {
	var b []byte
	if body != "" {
		b = []byte(body)
	}
	envelope := struct{ Result any }{out}
	_, err := c.Conn.call(ctx, method, c.url(path), b, http.StatusOK, &envelope)
	return err
}

// Create makes a queue and returns its id.
func (c Cfqueues) Create(ctx context.Context, name string) (string, error) {
	var out struct {
		QueueID string `json:"queue_id"`
	}
	err := c.call(ctx, http.MethodPost, "/queues", `{"queue_name":`+text(name)+`}`, &out)
	return out.QueueID, err
}

// CreateConsumer puts a pull consumer on a queue, which is named by id or name.
func (c Cfqueues) CreateConsumer(ctx context.Context, queue string, s CfConsumer) error {
	settings := map[string]any{"max_retries": s.MaxRetries, "retry_delay": s.RetryDelay}
	if s.VisibilityMS > 0 {
		settings["visibility_timeout_ms"] = s.VisibilityMS
	}
	body := map[string]any{"type": "http_pull", "settings": settings}
	if s.DeadLetterQueue != "" {
		body["dead_letter_queue"] = s.DeadLetterQueue
	}
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodPost, "/queues/"+queue+"/consumers", string(b), nil)
}

// Push stores messages: one by the single route, more by the batch route.
func (c Cfqueues) Push(ctx context.Context, queue string, messages ...CfMessage) error {
	if len(messages) == 1 {
		return c.call(ctx, http.MethodPost, "/queues/"+queue+"/messages", messages[0].json(), nil)
	}
	parts := make([]string, len(messages))
	for i, m := range messages {
		parts[i] = m.json()
	}
	body := `{"messages":[` + strings.Join(parts, ",") + `]}`
	return c.call(ctx, http.MethodPost, "/queues/"+queue+"/messages/batch", body, nil)
}

// Pull leases up to batch messages; visibilityMS 0 leaves the timeout to the consumer's settings.
func (c Cfqueues) Pull(ctx context.Context, queue string, batch, visibilityMS int) ([]CfPulled, error) {
	body := `{"batch_size":` + strconv.Itoa(batch)
	if visibilityMS > 0 {
		body += `,"visibility_timeout_ms":` + strconv.Itoa(visibilityMS)
	}
	var out struct{ Messages []CfPulled }
	err := c.call(ctx, http.MethodPost, "/queues/"+queue+"/messages/pull", body+`}`, &out)
	return out.Messages, err
}

// Ack settles and gives back.
func (c Cfqueues) Ack(ctx context.Context, queue string, acks []string, retries ...CfRetry) (CfAcked, error) {
	type lease struct {
		ID string `json:"lease_id"`
	}
	in := struct {
		Acks    []lease   `json:"acks"`
		Retries []CfRetry `json:"retries"`
	}{Acks: []lease{}, Retries: append([]CfRetry{}, retries...)}
	for _, id := range acks {
		in.Acks = append(in.Acks, lease{id})
	}
	body, err := json.Marshal(in)
	if err != nil {
		return CfAcked{}, err
	}
	var out CfAcked
	err = c.call(ctx, http.MethodPost, "/queues/"+queue+"/messages/ack", string(body), &out)
	return out, err
}

// Metrics returns a queue's figures.
func (c Cfqueues) Metrics(ctx context.Context, queue string) (CfMetrics, error) {
	var out CfMetrics
	err := c.call(ctx, http.MethodGet, "/queues/"+queue+"/metrics", "", &out)
	return out, err
}
