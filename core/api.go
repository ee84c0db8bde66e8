package core

import (
	"time"

	"github.com/google/uuid"
)

// NewMessage is a message as a producer gives it.
type NewMessage struct {
	Labels
	Payload []byte
	// TransactionID deduplicates and addresses the message; "" means the id that the engine makes.
	TransactionID string
	// Due delays the message until then; zero or a time not after now is at once.
	Due Time
	// ID is the message's id, a UUIDv7 that nothing else has; zero means that the engine makes one.
	ID uuid.UUID
	// CreatedAt is when the producer handed it over, where that lies in the past; zero means now.
	CreatedAt Time
}

// PushItem is one message of a Push with its destination.
type PushItem struct {
	// Queue is the queue's name. With PushParams.Create an unknown one is made.
	Queue string
	// Partition is the name; unknown ones are made. "" means the queue's first partition.
	Partition string
	NewMessage
}

// PushParams are the arguments of Engine.Push.
type PushParams struct {
	Protocol Protocol
	Items    []PushItem
	// Create makes missing queues as the protocol makes them implicitly (Queen only).
	Create bool
	// Atomic stores all items or none, and reports a duplicate as an error of the whole call.
	Atomic bool
	// Known, where not zero, is the (single) queue by whose options the caller chose delays and Spread. When the queue is another
	// by the time of the commit nothing is stored, and the call ends with CodeConflict: the caller decides again.
	Known KnownQueue
	// Spread puts all items into the partition of the (single) queue that has the fewest
	// unleased messages for QueueModeGroup; ties go to the lowest ordinal.
	Spread bool
}

// PushStatus says what became of a pushed message.
type PushStatus uint8

// The push outcomes.
const (
	// PushQueued: durable before the answer.
	PushQueued PushStatus = iota
	// PushDuplicate: the transaction id was seen inside the window; nothing was written.
	PushDuplicate
	// PushFailed: not stored; Err says why.
	PushFailed
)

// Pushed is the outcome of one item.
type Pushed struct {
	Status PushStatus
	// ID is the message's id; of a duplicate, the first message's id.
	ID uuid.UUID
	// TransactionID is what was given, or, for Queen, the text of ID.
	TransactionID string
	Err           error
}

// ClaimParams are the arguments of Engine.Claim.
type ClaimParams struct {
	Protocol Protocol
	// Exclusive claims ordered batches (Queen), otherwise any number of consumers share a partition.
	Exclusive bool
	// Queue is the name. Empty means every queue that matches Namespace and Task (discovery).
	Queue           string
	Namespace, Task string
	// Partition limits the claim to one partition by name.
	Partition string
	// Group is the consumer group; "" means QueueModeGroup.
	Group string
	// Messages is the budget of messages over all partitions, at least 1.
	Messages int
	// Bytes is the budget of payload bytes; 0 means the engine's limit. One message always fits.
	Bytes int64
	// Partitions bounds how many partitions one claim may take; 0 or less is no bound.
	Partitions int
	// Lease is how long the messages are held; 0 means the queue's option for the protocol.
	Lease time.Duration
	// AutoAck settles inside the claim (Queen); there is no lease then.
	AutoAck bool
	// Wait is how long to wait for messages; 0 is not at all.
	Wait time.Duration
	// Client refuses a second simultaneous waiting claim with the same id on the queue (Querator).
	Client string
	// SubscribeNew, and SubscribeFrom before it, place a named group that the queue has not met (Queen).
	SubscribeNew  bool
	SubscribeFrom Time
	// NewestOnly asks, at a named group's first contact with the queue, for the newest message of each partition only; what came before it
	// is then settled with it. What the group's first contact said holds for good.
	NewestOnly bool
	// Create makes a missing queue (Queen); otherwise an unknown queue is CodeNoQueue.
	Create bool
	// Known, where not zero, is the queue by whose options the caller chose the rest. A claim that meets another version of it, also
	// while it waits, gets nothing and ends with CodeConflict: the caller decides again.
	Known KnownQueue
}

// Delivery is a message in the hands of a consumer.
type Delivery struct {
	Message
	// Attempt counts deliveries, this one included, from 1; of an exclusive claim it counts those that failed, and not leases
	// that ran out or were given back.
	Attempt int32
	// Turn and TurnAt are the message's place among what waited (Querator's item id is made of them).
	Turn   Turn
	TurnAt Time
	// Lease names the lease; zero with AutoAck.
	Lease uuid.UUID
	// Until is the lease's deadline.
	Until Time
}

// ClaimedPartition is what a claim got from one partition, in the order of turns.
type ClaimedPartition struct {
	Queue     *Queue
	Partition Partition
	Messages  []Delivery
}

// Claimed is a successful claim. Nothing claimable gives an empty Partitions and a nil error when the claim did not
// wait, and CodeNothing when it waited to the end.
type Claimed struct {
	// Lease is the id over all partitions of an exclusive claim.
	Lease      uuid.UUID
	Partitions []ClaimedPartition
	// NewestOnly tells that the group gets the newest message of a partition only, Disagrees that it is not what the claim said. Both are
	// set on a claim that got nothing too.
	NewestOnly, Disagrees bool
}

// AckStatus is what a consumer of an exclusive claim says of a message.
type AckStatus uint8

// The statuses of Queen's acknowledgements.
const (
	AckCompleted AckStatus = iota
	AckRetry
	AckFailed
	AckDead
)

// Ack settles one message of an exclusive claim, by transaction id.
type Ack struct {
	Partition     uuid.UUID
	TransactionID string
	Group         string
	Status        AckStatus
	// Lease guards the ack; zero is lease-less.
	Lease uuid.UUID
	// Error is stored with a dead letter.
	Error string
}

// Acked is the outcome of one Ack.
type Acked struct {
	// Err is nil, or carries CodeLeaseLost, CodeCommitted, CodeUnresolvable, CodeNoConsumer or CodeNoPartition.
	Err error
	// Released tells that the group's lease on the partition ended because of this call.
	Released bool
	// Dead tells that this message became a dead letter.
	Dead bool
	// Noop tells of a completion of what was settled before.
	Noop bool
}

// ExtendParams are the arguments of Engine.Extend.
type ExtendParams struct {
	Lease uuid.UUID
	// For is the new time from now, at least a second; a lease is never shortened.
	For time.Duration
}

// Extended is the outcome of Engine.Extend.
type Extended struct {
	// Renewed counts the partitions whose lease was extended; 0 means that none was live.
	Renewed int
	// Until is the earliest deadline of them after the call.
	Until Time
}

// TransactParams are the arguments of Engine.Transact.
type TransactParams struct {
	Pushes []PushItem
	Acks   []Ack
	// RequiredLeases: when not empty, an ack of a (partition, group) whose live lease is not among
	// them refuses the whole call.
	RequiredLeases []uuid.UUID
}

// Transacted is the outcome of a committed Engine.Transact. A refused one is an error: CodeDuplicate, CodeUnresolvable,
// CodeLeaseLost, CodeNoConsumer, with the item's index among Pushes (CodeDuplicate) or Acks.
type Transacted struct {
	Pushes []Pushed
	Acks   []Acked
}

// ItemRef names a message of a shared claim by the place it held (Querator).
type ItemRef struct {
	Offset int64
	// Turn and Second (Unix seconds of the turn) must be the current ones.
	Turn   Turn
	Second int64
}

// Outcome is what a consumer of a shared claim says of a message.
type Outcome uint8

// The outcomes.
const (
	// OutcomeDone settles.
	OutcomeDone Outcome = iota
	// OutcomeRetry gives it back: at once when Due is not in the future, else then.
	OutcomeRetry
	// OutcomeDead sends it to the dead queue, or deletes it where there is none.
	OutcomeDead
)

// ItemSettlement is one item of SettleItems.
type ItemSettlement struct {
	ItemRef
	Outcome Outcome
	Due     Time
}

// SettleItemsParams are the arguments of Engine.SettleItems.
type SettleItemsParams struct {
	Queue string
	// Ordinal is the partition's number.
	Ordinal int32
	Items   []ItemSettlement
	// Wait bounds how long the settlement may wait while the queue is held by PauseQueue; 0 is 5 minutes.
	Wait time.Duration
}

// MessageToken identifies a delivered message (Cloudflare's lease id carries it).
type MessageToken struct {
	Partition uuid.UUID
	Offset    int64
	Message   uuid.UUID
	Lease     uuid.UUID
	Attempt   int32
}

// MessageSettlement is one item of SettleMessages.
type MessageSettlement struct {
	MessageToken
	// Outcome is OutcomeDone or OutcomeRetry.
	Outcome Outcome
	// Delay postpones a retry; negative means the consumer's default.
	Delay time.Duration
	// KeepAttempts gives the attempt back.
	KeepAttempts bool
}

// MessageSettled is the outcome of one MessageSettlement.
type MessageSettled struct {
	// Counted tells that it counts as done: acks of settled or redelivered messages do.
	Counted bool
	// Code is CodeInternal (0) when all is well, else why it had no effect: CodeNoMessage (gone, or another queue's), CodeNotLeased
	// (leased to somebody else, or the lease is over).
	Code Code
}

// Stats are the counts of one partition for one group.
type Stats struct {
	Partition Partition
	Log       LogState
	// Pending is what the group has not settled, leased and scheduled included.
	Pending Totals
	Leased  Totals
	// Later is what was retried for later and is not due yet; it is part of Pending.
	Later Totals
	// Scheduled is what is delayed and not yet in the log.
	Scheduled Totals
	// Leases counts live leases.
	Leases int64
	// OldestAt is when the oldest pending message was created, 0 when there is none.
	OldestAt Time
	// Retries is Queen's retry counter.
	Retries int32
	// ExclusiveUntil is the deadline of the live exclusive lease, 0 when there is none.
	ExclusiveUntil Time
	// MeanLeaseLeft is the mean time to the deadlines of what is leased.
	MeanLeaseLeft time.Duration
	// MovedAt is when the group last claimed something new, or was moved by a seek; 0 is never.
	MovedAt Time
}

// Unleased returns how many messages are in the log, not settled and not leased.
func (s *Stats) Unleased() int64 {
	return s.Pending.Messages - s.Leased.Messages - s.Scheduled.Messages
}

// QueueStats are the counts of a queue for one group.
type QueueStats struct {
	Partitions []Stats
	// Total sums the partitions; its Partition and Log are empty.
	Total Stats
	// Waiting counts claims that wait on the queue now, InFlight all requests being worked on.
	ClaimsWaiting, PushesWaiting, SettlesWaiting, InFlight int
}

// Gauge is a set of queue figures for metrics.
type Gauge struct {
	Queue         string
	Depth         int64
	Bytes         int64
	OldestAt      Time
	Leases        int64
	ClaimsWaiting int
}

// Observer receives what the engine does, for metrics. Its methods must be cheap and may be called from any goroutine.
type Observer interface {
	// Pushed counts messages stored (or dropped as duplicates) of a queue.
	Pushed(p Protocol, queue string, queued, duplicate int)
	// ClaimedMessages counts messages handed out, and claims that ended empty (messages 0).
	ClaimedMessages(p Protocol, queue string, messages int)
	// Settled counts settlements by outcome: "done", "retry", "failed", "dead", "expired", "released".
	Settled(p Protocol, queue string, outcome string, messages int)
	// Committed reports one store commit: its kind ("append", "update"), requests fused into it, messages, and how long it took.
	// Pushes that are in the commit of an update are told of as an append beside it.
	Committed(kind string, requests, messages int, took time.Duration)
}
