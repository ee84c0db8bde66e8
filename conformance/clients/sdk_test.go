package clients

import (
	"context"
	"time"
)

// sdk is a library of Cloudflare's behind one face, so that every generation lives the same life.
type sdk struct {
	queuePlane
	consumerPlane
	trafficPlane
	lookPlane
	// fault returns the status and the first code of an error answer, 0 when err is none.
	fault func(err error) (status int, code int64)
	// sent counts the requests that left the library, its own repetitions included.
	sent func() int
}

type queuePlane interface {
	createQueue(ctx context.Context, name string) (queueView, error)
	getQueue(ctx context.Context, id string) (queueView, error)
	listQueues(ctx context.Context) ([]queueView, error)
	pauseQueue(ctx context.Context, id string, paused bool) (queueView, error)
	replaceQueue(ctx context.Context, id, name string, delay int) (queueView, error)
	deleteQueue(ctx context.Context, id string) error
}

type consumerPlane interface {
	addConsumer(ctx context.Context, queue string, c consumerView) (consumerView, error)
	replaceConsumer(ctx context.Context, queue, id string, c consumerView) (consumerView, error)
	getConsumer(ctx context.Context, queue, id string) (consumerView, error)
	listConsumers(ctx context.Context, queue string) ([]consumerView, error)
	deleteConsumer(ctx context.Context, queue, id string) error
}

type trafficPlane interface {
	// push and pushBatch return the backlog that the answer tells.
	push(ctx context.Context, queue string, m outgoing) (backlog int, err error)
	pushBatch(ctx context.Context, queue string, delay int, ms ...outgoing) (backlog int, err error)
	// pull leaves out what is 0.
	pull(ctx context.Context, queue string, batch, visibilityMS int) ([]delivery, error)
	settle(ctx context.Context, queue string, acks []string, retries ...retry) (settled, error)
}

type lookPlane interface {
	peek(ctx context.Context, queue string, n int) ([]delivery, error)
	removePeeked(ctx context.Context, queue string, refs ...string) (warnings map[string]string, err error)
	extend(ctx context.Context, queue string, visibilityMS int, leases ...string) (extended, error)
	purge(ctx context.Context, queue string) (queueView, error)
	purgeStatus(ctx context.Context, queue string) (completed string, err error)
	metrics(ctx context.Context, queue string) (metricsView, error)
}

type queueView struct {
	ID, Name         string
	Created          string
	Paused           bool
	Delay, Retention int
	Consumers        []consumerView
}

type consumerView struct {
	ID, Type, Queue, Dead                  string
	Created                                time.Time
	Batch, Retries, RetryDelay, Visibility int
}

// outgoing is a message to push: Text unless JSON is set. A Delay below 0 is not sent.
type outgoing struct {
	Text  string
	JSON  any
	Delay int
}

// delivery is a message that was pulled (Token is its lease) or peeked (its ref).
type delivery struct {
	ID, Token, Body string
	Attempts        int
	TimestampMS     int64
	Metadata        map[string]any
}

// retry gives a message back. A Delay below 0 is not sent.
type retry struct {
	Lease string
	Delay int
}

type settled struct {
	Acks, Retries int
	Warnings      map[string]string
}

// extended is the answer of a route that no library has a method for yet.
type extended struct {
	Extended int               `json:"extendCount"`
	Warnings map[string]string `json:"warnings"`
}

type metricsView struct {
	Count  int   `json:"backlog_count"`
	Bytes  int   `json:"backlog_bytes"`
	Oldest int64 `json:"oldest_message_timestamp_ms"`
}

// leaseRefs spells leases as a request of such a route does.
func leaseRefs(leases []string) []map[string]string {
	out := make([]map[string]string, len(leases))
	for i, id := range leases {
		out[i] = map[string]string{"lease_id": id}
	}
	return out
}
