package core

import (
	"context"

	"github.com/google/uuid"
)

// Store is what the engine asks of a database. It is dumb and transactional: it appends
// segments, locks and loads rows, applies change sets and reads ranges; every rule is the
// engine's. Obligations of every implementation, each with a test in conformance/storetest:
//
//   - what a writing method returned from without error is durable and survives a kill;
//   - each writing method is atomic: all of its change, or none of it;
//   - the time is always a parameter; no method reads a clock;
//   - names and ids are bytes: any byte, NUL included, is legal in them;
//   - memory that a store keeps of its data changes only after the commit;
//   - errors are *Error: CodeUnavailable (nothing was stored), CodeUnknown (look it up with
//     Outcome), CodeFull, CodeReadOnly, CodeFormat, CodeConflict as each method says;
//   - methods may be called from any goroutine; after Close they return CodeClosed.
type Store interface {
	Catalog
	Log
	Ledger
	Browser
	Records
	RecordLister
	Sweeping
	Idler
	// Close ends the store after the calls in flight; it may be called twice.
	Close() error
}

// Catalog holds queues, partitions and registrations.
type Catalog interface {
	// Queues returns all queues, by name in byte order.
	Queues(ctx context.Context) ([]Queue, error)
	// PutQueue creates (Version 0) or changes (Version as known) a queue with its new partitions
	// and returns it with its new version. A taken name is CodeQueueExists, a moved version
	// CodeConflict, a queue that is gone CodeNoQueue.
	PutQueue(ctx context.Context, p PutQueueParams) (Queue, error)
	// DeleteQueue removes a queue with its partitions, segments, rows, registrations, schedule,
	// source ids and dead letters. Unknown ids are CodeNoQueue.
	DeleteQueue(ctx context.Context, id uuid.UUID) error
	// Partitions returns the partitions of a queue by ordinal, with their logs.
	Partitions(ctx context.Context, queue uuid.UUID) ([]PartitionLog, error)
	// CreatePartitions makes the named partitions that are missing, of any queues, in one commit, with the
	// next ordinals and the given ids. It returns one entry per request, in order; for a queue that is
	// gone the entry's Key is 0.
	CreatePartitions(ctx context.Context, now Time, ps []Partition) ([]PartitionLog, error)
	// Registrations returns the groups registered on a queue.
	Registrations(ctx context.Context, queue uuid.UUID) ([]Registration, error)
}

// PutQueueParams are the arguments of Catalog.PutQueue.
type PutQueueParams struct {
	Queue Queue
	// Partitions are made with the queue (Key and Ordinal are the store's to assign, in order).
	Partitions []Partition
	Now        Time
}

// PartitionLog is a partition with the state of its log.
type PartitionLog struct {
	Partition
	Log LogState
}

// Log appends to and reads from partitions.
type Log interface {
	// Append writes segments of any number of partitions in one durable commit. Offsets are
	// dense in the order given; the append time is the later of Now and the partition's last.
	// Left out, with the reason in their Placed: partitions whose head is not what the segment knows, partitions
	// that are gone, and the other segments of a Group of which one was left out.
	Append(ctx context.Context, p AppendParams) ([]Placed, error)
	// Headers returns the segments that hold offsets From to To, ascending, at most Limit
	// segments (0 is no limit). Deleted segments are missing from the answer.
	Headers(ctx context.Context, p HeadersParams) ([]SegmentHeader, error)
	// Read returns the messages at the wanted offsets of one partition in order, ending early rather than
	// exceeding Bytes of records (0 is no limit; the first message always fits). Reading one message
	// reads that part of the body only. Messages that are gone are missing from the answer.
	Read(ctx context.Context, p ReadParams) ([]Message, error)
	// Locate returns the offset of the first message of the first segment appended at or after t,
	// or Head+1 when there is none.
	Locate(ctx context.Context, partition PartitionKey, t Time) (int64, error)
	// Source returns the offset at which the live item with a source id lies, or 0.
	Source(ctx context.Context, partition PartitionKey, sourceID string) (int64, error)
}

// AppendParams are the arguments of Log.Append.
type AppendParams struct {
	// Commit names the commit for Outcome.
	Commit   uuid.UUID
	Now      Time
	Segments []NewSegment
	// CheckCatalog has nothing stored, with CodeConflict, when TxEntries.Catalog would not say Catalog.
	CheckCatalog bool
	Catalog      int64
	// Moved, where set, is called for each partition whose head is not what its segments know, with that partition locked: log is its
	// log, newer are the headers of what lies between, and segments the indexes of its segments. It returns what to write
	// in their place, in the same order; one of Count 0 is left out as if its group had asked for it. It may be called again
	// when the commit is, always about the segments as first given. Where it is nil, such segments are left out.
	Moved func(partition PartitionKey, log LogState, newer []SegmentHeader, segments []int) ([]NewSegment, error)
}

// Placed says where a segment of an Append went.
type Placed struct {
	// First is the offset of its first message; 0 when it was left out.
	First int64
	// AppendedAt is its append time.
	AppendedAt Time
	// Log is the partition's log after the commit, or as found when the segment was left out.
	Log LogState
	// Gone tells that the partition no longer exists; otherwise a First of 0 means that its head
	// moved, or that its group was left out.
	Gone bool
}

// HeadersParams are the arguments of Log.Headers.
type HeadersParams struct {
	Partition PartitionKey
	From, To  int64
	Limit     int
}

// ReadParams are the arguments of Log.Read.
type ReadParams struct {
	Partition PartitionKey
	Offsets   Runs
	Bytes     int64
	// Leased tells that a commit of this process that found the messages there has just given them out: a store that remembers them
	// need not look whether they still exist.
	Leased bool
}

// Ledger changes delivery state.
type Ledger interface {
	// Update locks rows, loads them, lets fn decide and applies its change set, all in one
	// durable commit. All locks are taken in one global order, and what they protect is read after
	// them. fn may run again after a deadlock or a moved tail and must then start afresh. An error of fn ends the call with
	// that error and no change; an empty change set writes nothing. Round trips do not grow with the number of rows.
	Update(ctx context.Context, p UpdateParams, fn func(Tx) (*ChangeSet, error)) ([]Placed, error)
	// Outcome reports whether a commit whose answer was lost took place.
	Outcome(ctx context.Context, commit uuid.UUID) (bool, error)
}

// UpdateParams are the arguments of Ledger.Update.
type UpdateParams struct {
	Commit uuid.UUID
	Now    Time
	Rows   []RowRequest
}

// RowRequest names a row to lock and what to load of it. The exclusive leased batch and the
// batches above the frontier are always loaded.
type RowRequest struct {
	Key RowKey
	// Must waits for the row; otherwise a row that another replica holds is skipped.
	Must bool
	// Offsets loads the batches whose range holds one of them.
	Offsets []int64
	// Lease loads all batches with this lease.
	Lease uuid.UUID
	// Due loads up to so many batches, by deadline, that are leased and past it, and so many waiting ones
	// past their due time, by turn.
	Due int
	// All loads every batch.
	All bool
}

// Tx is what fn of an Update sees.
type Tx interface {
	// Row returns a row, or nil where it was skipped or its partition is gone.
	Row(key RowKey) *Row
	// Headers returns the headers of the segments that hold offsets from first to last, as Log.Headers.
	Headers(partition PartitionKey, first, last int64) ([]SegmentHeader, error)
	// Read returns messages with their payloads, as Log.Read. It is meant for what moves to a dead queue.
	Read(partition PartitionKey, offsets Runs) ([]Message, error)
	// Log returns the log of a partition, false where it is gone.
	Log(partition PartitionKey) (LogState, bool)
	TxEntries
}

// TxEntries are what fn of an Update may ask for beside rows and logs.
type TxEntries interface {
	// DeadLetter returns a dead letter with its message, false when it is gone.
	DeadLetter(id uuid.UUID) (DeadLetter, bool, error)
	// Scheduled locks entries of the schedule and returns, in the order given, those that are still there: what another gateway
	// took is missing.
	Scheduled(seqs []int64) ([]int64, error)
	// Prefetch returns the headers of several stretches at once, as Log.Headers would of each.
	Prefetch(ranges []HeadersParams) ([][]SegmentHeader, error)
	// Recalled tells that this is what the store remembers: nothing is locked, and the commit is refused, or decided again, when it is
	// no longer so. A request that is refused by it is decided again too.
	Recalled() bool
	// Catalog is the number of changes of queues and registrations so far, as the transaction sees it. Stores that nobody shares may
	// return 0.
	Catalog() int64
}

// ChangeSet is everything that one Update writes. Stores write deletes before updates before
// inserts, each kind as statements of its own.
type ChangeSet struct {
	// Segments are appended as by Log.Append, but any that would be left out fails the whole Update with
	// CodeConflict (head moved; fn is run again first) or CodeNoPartition (gone).
	Segments []NewSegment
	// Rows are written whole.
	Rows []RowChange
	// Purge moves the log's start of these partitions past the head, drops the batches of all groups there, sets every
	// existing frontier to the head and empties the schedule.
	Purge []PartitionKey
	// FreeSources lists source ids that are free again because their message was settled.
	FreeSources []SourceKey
	// Schedule adds segments not yet due; Unschedule removes some.
	Schedule   []ScheduledSegment
	Unschedule []int64
	// DeadLetters adds, DropDeadLetters removes.
	DeadLetters     []DeadLetter
	DropDeadLetters []uuid.UUID
	// Records are written without comparison, or deleted where the value is nil.
	Records []Record
	// Register adds registrations; one that exists keeps what it says. Unregister removes.
	Register   []Registration
	Unregister []RegistrationKey
}

// Empty reports whether the change set writes nothing.
func (c *ChangeSet) Empty() bool {
	return c == nil || len(c.Segments)+len(c.Rows)+len(c.Purge)+len(c.FreeSources)+len(c.Schedule)+len(c.Unschedule)+
		len(c.DeadLetters)+len(c.DropDeadLetters)+len(c.Records)+len(c.Register)+len(c.Unregister) == 0
}

// RowChange is the new state of one row.
type RowChange struct {
	Key RowKey
	// Drop removes the frontier and all batches; the other fields are then ignored.
	Drop bool
	// Frontier is written when Move is set.
	Move     bool
	Frontier Frontier
	// DeleteAll deletes every batch before Put.
	DeleteAll bool
	// Delete are ids of batches to delete, Put batches to insert or replace by id.
	Delete []int64
	Put    []Batch
}

// SourceKey names a live source id of a partition.
type SourceKey struct {
	Partition PartitionKey
	SourceID  string
}

// RegistrationKey names a registration.
type RegistrationKey struct {
	Queue uuid.UUID
	Group string
}

// ScheduledSegment is a delayed push: the messages of one commit with the same partition and
// due time.
type ScheduledSegment struct {
	// Seq is assigned by the store, ascending in order of arrival.
	Seq     int64
	Due     Time
	Segment NewSegment
}

// DeadLetter is a message that a group of exclusive consumers gave up on.
type DeadLetter struct {
	ID        uuid.UUID
	Queue     uuid.UUID
	Partition PartitionKey
	Group     string
	Error     string
	Retries   int32
	FailedAt  Time
	Message   Message
}

// Browser reads for management calls; none of it is on a hot path.
type Browser interface {
	// Rows returns a summary of each row of a group on the partitions of a queue.
	Rows(ctx context.Context, p RowsParams) ([]RowSummary, error)
	// Batches returns all batches of one row, by first offset.
	Batches(ctx context.Context, key RowKey) ([]Batch, Frontier, error)
	// Scheduled returns delayed segments of a partition by sequence, from After exclusive.
	Scheduled(ctx context.Context, p ScheduledParams) ([]ScheduledSegment, error)
	// DeadLetters returns dead letters, newest failure first, and how many match in all.
	DeadLetters(ctx context.Context, f DeadLetterFilter) ([]DeadLetter, int64, error)
	// ScheduledTotals returns the totals of what is scheduled, per partition of a queue that has any.
	ScheduledTotals(ctx context.Context, queue uuid.UUID) (map[PartitionKey]Totals, error)
}

// Records keeps small values by kind and name: keys, tokens, switches.
type Records interface {
	// Record returns the bytes stored under a name, nil when there are none.
	Record(ctx context.Context, kind, name string) ([]byte, error)
	// PutRecord stores bytes under a name when what is there equals old (nil: nothing), else CodeConflict. A nil value deletes.
	PutRecord(ctx context.Context, kind, name string, old, value []byte) error
}

// RecordLister lists records.
type RecordLister interface {
	// ListRecords returns up to Limit records of a kind whose names begin with Prefix and are greater than After, by name in
	// byte order (with Reverse: less than After when it is not empty, in falling order).
	ListRecords(ctx context.Context, p ListRecordsParams) ([]Record, error)
}

// Record is a small value under a kind and a name.
type Record struct {
	Kind, Name string
	// Value is nil where a change set deletes the record.
	Value []byte
	// At is when it was written last, for age limits.
	At Time
}

// ListRecordsParams are the arguments of Records.ListRecords.
type ListRecordsParams struct {
	Kind, Prefix, After string
	Reverse             bool
	Limit               int
}

// RowsParams are the arguments of Browser.Rows. An empty Group means every group.
type RowsParams struct {
	Queue uuid.UUID
	Group string
	Now   Time
}

// RowSummary is one row without its batches.
type RowSummary struct {
	Key      RowKey
	Frontier Frontier
	// Leased and Waiting are the totals of what is pending in leased and in waiting batches.
	Leased, Waiting Totals
	// Later is the part of Waiting that is due after Now.
	Later Totals
	// LeaseLeft sums, over what is pending in leased batches, the milliseconds from Now to the deadline.
	LeaseLeft int64
	// CoveredAbove are the totals of what batches cover above the frontier.
	CoveredAbove Totals
	// Leases counts leased batches, Batches all of them.
	Leases, Batches int64
	// ExclusiveUntil is the deadline of the exclusive lease, 0 when there is none.
	ExclusiveUntil Time
	// NextLease is the earliest deadline of any lease, NextWaiting the earliest due time of any waiting batch, SinceEver where one waits for
	// nothing; 0 is none.
	NextLease, NextWaiting Time
	// OldestPending is the lowest pending offset in any batch, 0 when there is none.
	OldestPending int64
}

// ScheduledParams are the arguments of Browser.Scheduled.
type ScheduledParams struct {
	Partition PartitionKey
	After     int64
	Limit     int
}

// DeadLetterFilter selects dead letters; empty fields match all.
type DeadLetterFilter struct {
	Queue         uuid.UUID
	Partition     PartitionKey
	Group         string
	TransactionID string
	From, To      Time
	Limit, Offset int
}

// Sweeping finds what time has changed, and deletes.
type Sweeping interface {
	// Due returns up to limit delayed segments that are due at now, in order of due time and then of arrival.
	Due(ctx context.Context, now Time, limit int) ([]ScheduledSegment, error)
	// NextDue returns the earliest due time of the schedule, the earliest deadline of any lease or due time of a waiting batch
	// with Redraw, and the earliest unhandled expiry of any segment; 0 is none. It must be cheap: it is asked after every sweep.
	NextDue(ctx context.Context) (schedule, lease, expiry Time, err error)
	// Expired returns up to limit rows with a leased batch past its deadline at now, or a waiting batch with Redraw past its due time.
	Expired(ctx context.Context, now Time, limit int) ([]RowKey, error)
	// ExpiredSegments returns up to limit segments whose earliest unhandled expiry is at or before now, by
	// partition and offset.
	ExpiredSegments(ctx context.Context, now Time, limit int) ([]SegmentRef, error)
	// DeleteSegments removes segments and moves the start of logs whose first segments are gone; for those in
	// expiries it stores Expires as the earliest expiry not yet handled. One commit.
	DeleteSegments(ctx context.Context, now Time, remove, expiries []SegmentRef) error
	// Segments returns up to limit stored segments of a partition that end at or after from.
	Segments(ctx context.Context, partition PartitionKey, from int64, limit int) ([]SegmentRef, error)
}

// SegmentRef names a stored segment.
type SegmentRef struct {
	Partition   PartitionKey
	First, Last int64
	AppendedAt  Time
	// Expires is the earliest expiry of a message in it that a sweep has not handled; 0 is none.
	Expires Time
}
