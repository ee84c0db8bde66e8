package core

import (
	"time"

	"github.com/google/uuid"
)

// Queue is a named set of partitions with options. Any protocol can make one, and every
// protocol sees it.
type Queue struct {
	// ID is for life; Cloudflare's queue id is its 32 hex digits.
	ID uuid.UUID
	// Name is unique; any bytes but NUL-only rules of the protocols apply on top.
	Name string
	// Version goes up with every change; writers state the one they know.
	Version int64
	// Origin is the protocol that made the queue; it decides when settled segments go.
	Origin               Protocol
	CreatedAt, UpdatedAt Time
	Options              QueueOptions
}

// As is what a caller knew of a queue when it decided by its options.
func (q *Queue) As() KnownQueue { return KnownQueue{q.ID, q.Version} }

// KnownQueue is a queue in one of its versions; zero is any.
type KnownQueue struct {
	ID      uuid.UUID
	Version int64
}

// check refuses a request that was decided by the options of another version of a queue, or of another queue of its name.
func (k KnownQueue) check(op string, q *Queue) error {
	if k == (KnownQueue{}) || k == q.As() {
		return nil
	}
	return Errorf(CodeConflict, op, "queue %q changed", q.Name)
}

// QueueOptions are all options of a queue. Each protocol sets its own part; what two protocols
// share is set by the last one and shown by all. It is stored as JSON.
type QueueOptions struct {
	// Namespace and Task are Queen's discovery fields.
	Namespace string `json:"namespace,omitempty"`
	Task      string `json:"task,omitempty"`
	Queen     Queen  `json:"queen"`
	// Querator is nil on a queue that no Querator client configured.
	Querator *Querator `json:"querator,omitempty"`
	// Cloudflare is nil on a queue that no Cloudflare client configured.
	Cloudflare *Cloudflare `json:"cloudflare,omitempty"`

	// MaxDeliveries bounds the deliveries of a message under shared claims; 0 is no limit.
	// Querator's max_attempts, Cloudflare's max_retries + 1.
	MaxDeliveries int32 `json:"max_deliveries,omitempty"`
	// DeadQueue is where shared claims and expiry send what failed; the zero id is nowhere:
	// the message is deleted.
	DeadQueue uuid.UUID `json:"dead_queue"`
	// DeliveryPaused refuses every protocol's claims.
	DeliveryPaused bool `json:"delivery_paused,omitempty"`
}

// Queen are the options of Queen's configure call.
type Queen struct {
	// Configured tells a configure call from an implicit queue.
	Configured         bool  `json:"configured,omitempty"`
	LeaseTimeSeconds   int64 `json:"lease_time"`
	RetryLimit         int64 `json:"retry_limit"`
	DeadLetterQueue    bool  `json:"dead_letter_queue"`
	DLQAfterMaxRetries bool  `json:"dlq_after_max_retries"`
	// DelayedProcessingSeconds hides a message until it is that old.
	DelayedProcessingSeconds int64 `json:"delayed_processing,omitempty"`
	WindowBufferSeconds      int64 `json:"window_buffer,omitempty"`
	MinPopWaitMillis         int64 `json:"min_pop_wait,omitempty"`
	RetentionEnabled         bool  `json:"retention_enabled,omitempty"`
	RetentionSeconds         int64 `json:"retention,omitempty"`
	CompletedSeconds         int64 `json:"completed_retention,omitempty"`
	MaxWaitSeconds           int64 `json:"max_wait,omitempty"`
	EncryptionEnabled        bool  `json:"encryption,omitempty"`
	DedupWindowSeconds       int64 `json:"dedup_window"`
	// Priority, TTL, MaxSize, RetryDelay and the sink fields are stored and echoed only.
	Priority                int64  `json:"priority,omitempty"`
	TTLSeconds              int64  `json:"ttl"`
	MaxSize                 int64  `json:"max_size,omitempty"`
	RetryDelayMillis        int64  `json:"retry_delay"`
	RetentionSinkHold       string `json:"sink_hold,omitempty"`
	RetentionSinkMaxSeconds int64  `json:"sink_hold_max,omitempty"`
}

// Lease times of Queen's queues, in seconds: implicit (made by a push or pop) and configured.
const (
	QueenImplicitLeaseSeconds   = 60
	QueenConfiguredLeaseSeconds = 300
)

// ImplicitQueen returns the Queen options of a queue that no configure call named.
func ImplicitQueen() Queen {
	return Queen{
		LeaseTimeSeconds: QueenImplicitLeaseSeconds, RetryLimit: 3, DeadLetterQueue: true, DLQAfterMaxRetries: true,
		DedupWindowSeconds: 3600, TTLSeconds: 3600, RetryDelayMillis: 1000, RetentionSinkMaxSeconds: 604800,
	}
}

// Querator are the options of a Querator queue.
type Querator struct {
	LeaseTimeout  time.Duration `json:"lease_timeout"`
	ExpireTimeout time.Duration `json:"expire_timeout"`
	Reference     string        `json:"reference,omitempty"`
	Partitions    int32         `json:"partitions"`
	// Family is the family of names the queue was created with ("R1", "R2", "L1", "L2"), for replies.
	Family    string `json:"family,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// DeadName is the name of a dead queue that does not exist yet, or that cannot be one; QueueOptions.DeadQueue is zero then.
	DeadName string `json:"dead_name,omitempty"`
}

// Cloudflare are the options of a Cloudflare queue, and its consumer.
type Cloudflare struct {
	DeliveryDelaySeconds int32 `json:"delivery_delay,omitempty"`
	// RetentionSeconds is the age limit from the push; 0 is none, as on a queue that Cloudflare did not create.
	RetentionSeconds int32 `json:"retention,omitempty"`
	// JSONBodies is how JSON payloads are shown: "base64", "plain", or "" for the server's setting.
	JSONBodies string `json:"json_bodies,omitempty"`
	// Spread makes pushes choose the emptiest partition instead of the first.
	Spread   bool                `json:"spread,omitempty"`
	Consumer *CloudflareConsumer `json:"consumer,omitempty"`
	// PurgeStarted is the start of the last purge; zero before the first.
	PurgeStarted Time `json:"purge_started,omitempty"`
}

// CloudflareConsumer is the single consumer of a queue. MaxRetries is QueueOptions.MaxDeliveries - 1
// and the dead letter queue QueueOptions.DeadQueue.
type CloudflareConsumer struct {
	ID                string `json:"id"`
	Type              string `json:"type"`
	CreatedAt         Time   `json:"created_at"`
	BatchSize         int32  `json:"batch_size"`
	RetryDelaySeconds int32  `json:"retry_delay"`
	VisibilityMillis  int64  `json:"visibility_ms"`
	// Script, Environment, MaxConcurrency and MaxWaitMillis belong to inert worker consumers.
	Script         string `json:"script,omitempty"`
	Environment    string `json:"environment,omitempty"`
	MaxConcurrency *int32 `json:"max_concurrency,omitempty"`
	MaxWaitMillis  int64  `json:"max_wait_ms,omitempty"`
}

// CloudflareRetention is the default message retention of a Cloudflare queue.
const CloudflareRetention = 96 * time.Hour

// Expiry returns when a message pushed at t stops being deliverable: the earliest limit that
// Querator or Cloudflare set on the queue, zero when neither configured it.
func (o *QueueOptions) Expiry(t Time) Time {
	var limit time.Duration
	if o.Querator != nil && o.Querator.ExpireTimeout > 0 {
		limit = o.Querator.ExpireTimeout
	}
	if o.Cloudflare != nil && o.Cloudflare.RetentionSeconds > 0 {
		if r := time.Duration(o.Cloudflare.RetentionSeconds) * time.Second; limit == 0 || r < limit {
			limit = r
		}
	}
	if limit == 0 {
		return 0
	}
	return t.Add(limit)
}

// DedupWindow returns how long a transaction id is remembered; 0 switches deduplication off.
func (o *QueueOptions) DedupWindow() time.Duration {
	return time.Duration(o.Queen.DedupWindowSeconds) * time.Second
}

// AckWindow returns how long after a push its transaction id can be acknowledged
// (Queen: the larger of dedup window, completed retention and 900 s).
func (o *QueueOptions) AckWindow() time.Duration {
	return time.Duration(max(o.Queen.DedupWindowSeconds, o.Queen.CompletedSeconds, 900)) * time.Second
}

// Partition is an ordered log inside a queue.
type Partition struct {
	Key   PartitionKey
	ID    uuid.UUID
	Queue uuid.UUID
	Name  string
	// Ordinal counts from 0 in order of creation; Querator's partition number.
	Ordinal   int32
	CreatedAt Time
}

// DefaultPartition is the name of the first partition of a queue that Querator did not make.
// On a Querator queue it means partition 0.
const DefaultPartition = "Default"

// Registration is a consumer group's standing on a queue, written at its first contact.
type Registration struct {
	Queue uuid.UUID
	Group string
	// Start is where partitions that the group has not touched begin: zero is the log's start,
	// otherwise the first message appended at or after it.
	Start     Time
	CreatedAt Time
	// Mode holds what the group asked for; StartMode and NewestOnly read it.
	Mode string
}
