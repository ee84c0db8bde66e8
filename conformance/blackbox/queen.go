package blackbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Queen is a light client of the Queen protocol.
type Queen struct {
	Base string
	Conn *Conn
}

// QueenItem is one message to push. Payload is JSON, sent byte for byte.
type QueenItem struct {
	Queue, Partition, Payload, TransactionID string
}

// json spells the item for push and for transactions.
func (i QueenItem) json() string {
	b := `{"queue":` + text(i.Queue)
	if i.Partition != "" {
		b += `,"partition":` + text(i.Partition)
	}
	if i.TransactionID != "" {
		b += `,"transactionId":` + text(i.TransactionID)
	}
	return b + `,"payload":` + i.Payload + `}`
}

// QueenPushed is what became of one item.
type QueenPushed struct {
	Status        string
	MessageID     string `json:"message_id"`
	TransactionID string `json:"transaction_id"`
	Error         string
}

// QueenMessage is a popped message. Data is exactly what stood in the answer.
type QueenMessage struct {
	ID, TransactionID, PartitionID, Partition, LeaseID, ConsumerGroup string
	Data                                                              json.RawMessage
}

// QueenAck settles one message.
type QueenAck struct {
	TransactionID string `json:"transactionId"`
	PartitionID   string `json:"partitionId"`
	Status        string `json:"status,omitempty"`
	LeaseID       string `json:"leaseId,omitempty"`
	Error         string `json:"error,omitempty"`
}

// QueenAcked is what became of one acknowledgement.
type QueenAcked struct {
	Success, LeaseReleased, DLQ, Noop bool
	Error                             *string
}

// Push stores messages. It fails unless every item was queued.
func (q Queen) Push(ctx context.Context, items ...QueenItem) error {
	buffered, err := q.PushOrBuffer(ctx, items...)
	if err == nil && buffered > 0 {
		err = errors.New("push: buffered, not queued")
	}
	return err
}

// PushOrBuffer stores messages, or leaves them on the gateway's disk while its database is away. It returns how many
// are there: they come later than what others push meanwhile.
func (q Queen) PushOrBuffer(ctx context.Context, items ...QueenItem) (buffered int, err error) {
	parts := make([]string, len(items))
	for i, item := range items {
		parts[i] = item.json()
	}
	var out []QueenPushed
	body := `{"items":[` + strings.Join(parts, ",") + `]}`
	a, err := q.Conn.call(ctx, http.MethodPost, q.Base+"/api/v1/push", []byte(body), http.StatusCreated, &out)
	if err != nil {
		return 0, err
	}
	for i := range out {
		switch out[i].Status {
		case "queued":
		case "buffered":
			buffered++
		default:
			return 0, &RefusedError{"push", a}
		}
	}
	if len(out) != len(items) {
		return 0, errors.New("push: a result is missing in " + a.String())
	}
	return buffered, nil
}

// Pop claims messages of a queue, of one partition when that is not "". Nothing there gives none
// and no error.
func (q Queen) Pop(ctx context.Context, queue, partition string, query url.Values) ([]QueenMessage, error) {
	address := q.Base + "/api/v1/pop/queue/" + url.PathEscape(queue)
	if partition != "" {
		address += "/partition/" + url.PathEscape(partition)
	}
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	a, err := q.Conn.Do(ctx, http.MethodGet, address, nil)
	if err != nil || a.Status == http.StatusNoContent {
		return nil, err
	}
	var out struct{ Messages []QueenMessage }
	if a.Status != http.StatusOK {
		return nil, &RefusedError{"GET " + address, a}
	}
	if err := json.Unmarshal(a.Body, &out); err != nil {
		return nil, fmt.Errorf("pop: %w in %s", err, a)
	}
	if len(out.Messages) == 0 {
		return nil, errors.New("pop: 200 without a message in " + a.String())
	}
	return out.Messages, nil
}

// Ack settles messages of one group ("" is queue mode).
func (q Queen) Ack(ctx context.Context, group string, acks ...QueenAck) ([]QueenAcked, error) {
	body, err := json.Marshal(map[string]any{"acknowledgments": acks, "consumerGroup": group})
	if err != nil {
		return nil, err
	}
	var out []QueenAcked
	a, err := q.Conn.call(ctx, http.MethodPost, q.Base+"/api/v1/ack/batch", body, http.StatusOK, &out)
	if err == nil && len(out) != len(acks) {
		err = errors.New("ack: a result is missing in " + a.String())
	}
	return out, err
}

// Extend makes a lease last that many seconds from now. It returns whether the lease was live.
func (q Queen) Extend(ctx context.Context, lease string, seconds int) (bool, error) {
	var out struct{ Success bool }
	body := `{"seconds":` + strconv.Itoa(seconds) + `}`
	_, err := q.Conn.call(ctx, http.MethodPost, q.Base+"/api/v1/lease/"+lease+"/extend", []byte(body), http.StatusOK, &out)
	return out.Success, err
}

// unknownOutcome begins the error of what may have been stored.
const unknownOutcome = "outcome unknown"

// Transact pushes and acknowledges at one instant. It returns whether the server committed; where that is not known it is an error.
func (q Queen) Transact(ctx context.Context, pushes []QueenItem, acks []QueenAck, leases ...string) (bool, error) {
	ops := make([]string, 0, len(pushes)+len(acks))
	for _, p := range pushes {
		ops = append(ops, `{"type":"push","items":[`+p.json()+`]}`)
	}
	for _, k := range acks {
		b, err := json.Marshal(k)
		if err != nil {
			return false, err
		}
		ops = append(ops, `{"type":"ack",`+string(b[1:]))
	}
	required, err := json.Marshal(leases)
	if err != nil {
		return false, err
	}
	var out struct {
		Success bool
		Error   string
	}
	body := `{"operations":[` + strings.Join(ops, ",") + `],"requiredLeases":` + string(required) + `}`
	a, err := q.Conn.call(ctx, http.MethodPost, q.Base+"/api/v1/transaction", []byte(body), http.StatusOK, &out)
	if err == nil && strings.HasPrefix(out.Error, unknownOutcome) {
		err = &RefusedError{"transaction", a}
	}
	return out.Success, err
}

// Configure sets options of a queue; options is a JSON object.
func (q Queen) Configure(ctx context.Context, queue, options string) error {
	body := `{"queue":` + text(queue) + `,"options":` + options + `}`
	_, err := q.Conn.call(ctx, http.MethodPost, q.Base+"/api/v1/configure", []byte(body), http.StatusOK, nil)
	return err
}

// popQuery spells the common parameters of a pop; 0 and "" leave one out.
func popQuery(batch, leaseSeconds, waitMillis int, group string) url.Values {
	v := url.Values{}
	if batch > 0 {
		v.Set("batch", strconv.Itoa(batch))
	}
	if leaseSeconds > 0 {
		v.Set("leaseSeconds", strconv.Itoa(leaseSeconds))
	}
	if waitMillis > 0 {
		v.Set("wait", "true")
		v.Set("timeout", strconv.Itoa(waitMillis))
	}
	if group != "" {
		v.Set("consumerGroup", group)
	}
	return v
}

// Pending returns how many messages of a queue the group of queue mode has not settled.
func (q Queen) Pending(ctx context.Context, queue string) (int64, error) {
	var out struct {
		Totals struct{ Pending, Processing int64 }
	}
	address := q.Base + "/api/v1/resources/queues/" + url.PathEscape(queue)
	_, err := q.Conn.call(ctx, http.MethodGet, address, nil, http.StatusOK, &out)
	return out.Totals.Pending + out.Totals.Processing, err
}
