package core

import (
	"github.com/google/uuid"
)

// QueueModeGroup is the reserved consumer group of Queen's queue mode. Querator and
// Cloudflare consume as this group.
const QueueModeGroup = "__QUEUE_MODE__"

// MaxBatchSpan bounds the range of one batch, in offsets. Stores find the batches over an
// offset by their first offset, which this bound makes possible.
const MaxBatchSpan = 4096

// Protocol names the protocol under whose rules something was made or claimed.
type Protocol uint8

// The protocols.
const (
	ProtocolQueen Protocol = iota + 1
	ProtocolQuerator
	ProtocolCloudflare
)

// String returns the protocol's name as logs and metrics show it.
func (p Protocol) String() string {
	switch p {
	case ProtocolQueen:
		return "queen"
	case ProtocolQuerator:
		return "querator"
	case ProtocolCloudflare:
		return "cfqueues"
	default:
		return "none"
	}
}

// BatchState is one of the three states of a batch.
type BatchState uint8

// The states.
const (
	// BatchLeased is held by consumers until its deadline.
	BatchLeased BatchState = iota
	// BatchWaiting has come back and may be claimed from its due time on.
	BatchWaiting
	// BatchEmpty has nothing pending; it marks offsets above the frontier as out of play.
	BatchEmpty
)

// PartitionKey is the store's compact key of a partition. It is never reused.
type PartitionKey int64

// RowKey names one consumer group's row on one partition.
type RowKey struct {
	Partition PartitionKey
	Group     string
}

// Turn orders what waits in a partition. Zero means each message's own: its offset · 2^16.
// Anything else was drawn at the tail.
type Turn uint64

// OwnTurn returns the first turn of the message at offset.
func OwnTurn(offset int64) Turn { return Turn(offset) << 16 }

// Batch is one row of delivery state: a range of offsets of one (partition, group), and
// which of them are pending. The pending sets of one (partition, group) never overlap.
type Batch struct {
	// ID is unique within its (partition, group) and never reused.
	ID int64
	// First and Last bound the range; Last-First < MaxBatchSpan.
	First, Last int64
	// Pending is the part of the range that is not settled.
	Pending Runs
	State   BatchState
	// Attempts counts the deliveries of every message in it, those it arrived with included;
	// messages with different counts never share a batch.
	Attempts int32
	// Turn is the batch's place among what waits; zero is each message's own.
	Turn Turn
	// TurnAt is the append time of the head when Turn was drawn; zero when Turn is zero.
	TurnAt Time
	// Redraw makes a waiting batch draw a new turn at the tail once it is due. On an exclusive lease it keeps
	// the lease until its deadline even with nothing pending.
	Redraw bool

	// Lease names the lease of a leased batch. An exclusive lease has one id over all
	// partitions of a claim; a shared one has one id per row.
	Lease uuid.UUID
	// Exclusive tells an exclusive lease from a shared one.
	Exclusive bool
	// Protocol is whose limits the batch was claimed under.
	Protocol Protocol
	// Until is the deadline of a lease, or the due time of a waiting batch; SinceEver where it waits for nothing.
	Until Time

	// Held are the totals of what is pending.
	Held Totals
	// Covered are the totals of the whole range; only used while the batch lies above the frontier.
	Covered Totals
}

// SinceEver is the due time of a batch that came back and may be claimed at once. It is no moment of the one who brought it back: the clock of
// another gateway may be a little behind, and its claims must not pass over the batch.
const SinceEver Time = 1

// Frontier is the last offset that any claim of a group has reached in a partition, with
// what a claim needs beside it. No row exists until the first claim.
type Frontier struct {
	Offset int64
	// Retries is Queen's retry counter of (partition, group).
	Retries int32
	// LastTurn is the last turn drawn at the tail.
	LastTurn Turn
	// NextBatch is the next batch id.
	NextBatch int64
	// Before are the partition's totals up to and including Offset.
	Before Totals
	// MovedAt is when a claim or a seek last moved it.
	MovedAt Time
}

// LogState is what a partition's log looks like.
type LogState struct {
	// Start is the first offset still in the log, Head the last one; Start is Head+1 when empty.
	// Both begin at 1 and 0.
	Start, Head int64
	// HeadAt is the append time of Head; it never decreases.
	HeadAt Time
	// StartTotals are the running totals before Start, HeadTotals those up to Head.
	StartTotals, HeadTotals Totals
}

// Row is one consumer group's delivery state on one partition, as an Update loads it.
type Row struct {
	Key RowKey
	// Exists is false before the group's first claim; Frontier is then zero.
	Exists   bool
	Frontier Frontier
	Log      LogState
	// Batches are those that the request asked for, by first offset.
	Batches []Batch
	// Rest sums up the batches that were not loaded.
	Rest Rest
}

// Rest is what an Update tells of a row's batches that it did not load.
type Rest struct {
	// NextUntil is the earliest deadline or due time among them, 0 when there are none leased or waiting.
	NextUntil Time
	// Waiting and Leased count the messages pending in them.
	Waiting, Leased int64
}
