package blackbox

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Querator is a light client of the Querator protocol, in JSON.
type Querator struct {
	Base string
	Conn *Conn
}

// QueratorItem is one item to produce.
type QueratorItem struct {
	Encoding  string `json:"encoding,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Reference string `json:"reference,omitempty"`
	Bytes     []byte `json:"bytes,omitempty"`
	UTF8      string `json:"utf8,omitempty"`
}

// QueratorQueue describes a queue to make. Durations are Go's.
type QueratorQueue struct {
	Name          string `json:"queue_name"`
	LeaseTimeout  string `json:"lease_timeout"`
	ExpireTimeout string `json:"expire_timeout"`
	MaxAttempts   int    `json:"max_attempts,omitempty"`
	DeadQueue     string `json:"dead_queue,omitempty"`
	Partitions    int    `json:"requested_partitions"`
}

// QueratorLeased is a leased item.
type QueratorLeased struct {
	ID, Encoding, Kind, Reference string
	Attempts                      int
	Bytes                         []byte
	LeaseDeadline                 time.Time `json:"lease_deadline"`
}

// QueratorLease is the answer to a lease: what one partition gave.
type QueratorLease struct {
	Partition int
	Items     []QueratorLeased
}

// QueratorRetry gives an item back; a zero At is at once.
type QueratorRetry struct {
	ID   string    `json:"id"`
	At   time.Time `json:"retry_at,omitzero"`
	Dead bool      `json:"dead,omitempty"`
}

// QueratorStats are the counts of one partition.
type QueratorStats struct {
	Partition, Total    int
	TotalLeased         int `json:"total_leased"`
	Scheduled, Failures int
}

// retryCode is the protocol's "nothing there, ask again".
const retryCode = 454

func (q Querator) call(ctx context.Context, method string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	_, err = q.Conn.call(ctx, http.MethodPost, q.Base+method, body, http.StatusOK, out)
	return err
}

// Create makes a queue.
func (q Querator) Create(ctx context.Context, queue QueratorQueue) error {
	return q.call(ctx, "/v1/queues.create", queue, nil)
}

// Produce stores items.
func (q Querator) Produce(ctx context.Context, queue string, items ...QueratorItem) error {
	return q.call(ctx, "/v1/queue.produce", map[string]any{
		"queue_name": queue, "request_timeout": "1m", "items": items,
	}, nil)
}

// Lease claims up to batch items for a client, waiting as long as wait. Nothing there gives an
// empty lease and no error.
func (q Querator) Lease(ctx context.Context, queue, client string, batch int, wait time.Duration) (QueratorLease, error) {
	var out QueratorLease
	err := q.call(ctx, "/v1/queue.lease", map[string]any{
		"queue_name": queue, "client_id": client, "batch_size": batch, "request_timeout": wait.String(),
	}, &out)
	if a, ok := Refused(err); ok && a.Status == retryCode {
		return QueratorLease{}, nil
	}
	return out, err
}

// Complete settles items of a partition, all or none.
func (q Querator) Complete(ctx context.Context, queue string, partition int, ids ...string) error {
	return q.call(ctx, "/v1/queue.complete", map[string]any{
		"queue_name": queue, "partition": partition, "request_timeout": "1m", "ids": ids,
	}, nil)
}

// Retry gives items of a partition back, all or none.
func (q Querator) Retry(ctx context.Context, queue string, partition int, items ...QueratorRetry) error {
	return q.call(ctx, "/v1/queue.retry", map[string]any{
		"queue_name": queue, "partition": partition, "items": items,
	}, nil)
}

// Stats returns the counts of every partition and how many consumers wait.
func (q Querator) Stats(ctx context.Context, queue string) (partitions []QueratorStats, waiting int, err error) {
	var out struct {
		LogicalQueues []struct {
			LeaseWaiting   int `json:"lease_waiting"`
			ReserveWaiting int `json:"reserve_waiting"`
			Partitions     []QueratorStats
		} `json:"logicalQueues"`
	}
	if err := q.call(ctx, "/v1/queue.stats", map[string]any{"queue_name": queue}, &out); err != nil {
		return nil, 0, err
	}
	for _, l := range out.LogicalQueues {
		waiting += l.LeaseWaiting + l.ReserveWaiting
		partitions = append(partitions, l.Partitions...)
	}
	return partitions, waiting, nil
}
