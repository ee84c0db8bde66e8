// Package storetest is the contract of core.Store as tests: one function per obligation, a property test against the
// memory model, and benchmarks. Each store's own test file is a few lines that call Run and Bench.
package storetest

import (
	"context"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
)

// Harness joins a store to the suite.
type Harness struct {
	// Open opens the store in a place that is its own; an empty directory is an empty store. The same place again is the
	// same store.
	Open func(tb testing.TB, place string) core.Store
	// Fail makes the next commit of the store fail at a point. It returns once only: later commits go through.
	Fail func(s core.Store, point FailPoint)
	// Checks is how many sequences of random operations MatchesTheModel runs; 0 leaves it to the flag -rapid.checks.
	Checks int
	// Exceptions are tests that the store cannot pass, by name, each with the reason.
	Exceptions map[string]string
}

// FailPoint says where an injected failure hits a commit.
type FailPoint int

// The points of failure.
const (
	// FailWrite fails a statement before the commit.
	FailWrite FailPoint = iota
	// FailCommit fails the commit, and nothing is stored.
	FailCommit
	// FailAnswer loses the answer of a commit that took place.
	FailAnswer
)

type contractTest struct {
	name string
	run  func(*bundle)
}

// tests are all obligations; a line of the contract and its test belong together.
var tests = []contractTest{
	{"QueueVersions", queueVersions},
	{"QueueNamesAreBytes", queueNamesAreBytes},
	{"QueueOptionsAreNotShared", queueOptionsAreNotShared},
	{"DeleteQueueTakesEverything", deleteQueueTakesEverything},
	{"PartitionsAreMadeOnce", partitionsAreMadeOnce},
	{"PartitionKeysAreNotReused", partitionKeysAreNotReused},
	{"AppendPlacesInOrder", appendPlacesInOrder},
	{"AppendTimeNeverDecreases", appendTimeNeverDecreases},
	{"AppendLeavesOut", appendLeavesOut},
	{"AppendGroupsAreWhole", appendGroupsAreWhole},
	{"AppendRefusesNoMessages", appendRefusesNoMessages},
	{"AppendManyPartitions", appendManyPartitions},
	{"AppendAsksWhatMoved", appendAsksWhatMoved},
	{"AppendLeavesOutWhatIsEmpty", appendLeavesOutWhatIsEmpty},
	{"HeadersOfARange", headersOfARange},
	{"ReadOffsetsAndBytes", readOffsetsAndBytes},
	{"ReadLargeBodies", readLargeBodies},
	{"LocateByTime", locateByTime},
	{"SourcesFindOffsets", sourcesFindOffsets},
	{"UpdateAppliesRows", updateAppliesRows},
	{"UpdateDeletesBeforeInserts", updateDeletesBeforeInserts},
	{"UpdateOneExclusiveLease", updateOneExclusiveLease},
	{"UpdateLoadsWhatIsAskedFor", updateLoadsWhatIsAskedFor},
	{"UpdateLoadsFromManyBatches", updateLoadsFromManyBatches},
	{"UpdateErrorChangesNothing", updateErrorChangesNothing},
	{"UpdateEmptyWritesNothing", updateEmptyWritesNothing},
	{"UpdateRunsAgainAfterAMovedHead", updateRunsAgainAfterAMovedHead},
	{"UpdateOfWhatIsGone", updateOfWhatIsGone},
	{"UpdateIsAtomic", updateIsAtomic},
	{"UpdateReadsInside", updateReadsInside},
	{"UpdateExcludesOthers", updateExcludesOthers},
	{"RowsOfOtherPartitions", rowsOfOtherPartitions},
	{"Purge", purge},
	{"OutcomeOfCommits", outcomeOfCommits},
	{"Registrations", registrations},
	{"RowSummaries", rowSummaries},
	{"DeadLettersFilter", deadLettersFilter},
	{"ScheduleOrder", scheduleOrder},
	{"ScheduledEntriesAreLocked", scheduledEntriesAreLocked},
	{"ExpiredRows", expiredRows},
	{"ExpiredSegments", expiredSegments},
	{"DeleteSegmentsMovesStart", deleteSegmentsMovesStart},
	{"SegmentsFrom", segmentsFrom},
	{"RemoveIdlePartitions", removeIdlePartitions},
	{"RemoveIdleUnderLoad", removeIdleUnderLoad},
	{"RecordsCompareAndSet", recordsCompareAndSet},
	{"RecordsOfUpdates", recordsOfUpdates},
	{"CloseTwice", closeTwice},
	{"CanceledContext", canceledContext},
	{"ConcurrentCallers", concurrentCallers},
	{"Reopen", reopen},
	{"ReopenAfterKill", reopenAfterKill},
	{"FailingCommit", failingCommit},
	{"MatchesTheModel", matchesTheModel},
}

// Run runs the suite against a store.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if place := os.Getenv(childVariable); place != "" {
		killedChild(t, h, place)
		return
	}
	for name, reason := range h.Exceptions {
		require.NotEmpty(t, reason, "exception %s needs a reason", name)
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			if reason, except := h.Exceptions[c.name]; except {
				t.Skip(reason)
			}
			t.Parallel()
			c.run(newBundle(t, h))
		})
	}
}

// bundle is what a test works with: a fresh store with one queue of three partitions.
type bundle struct {
	*testing.T
	h     Harness
	place string
	ctx   context.Context //nolint:containedctx // a test's context lives as long as its bundle
	s     core.Store
	now   core.Time
	queue core.Queue
	p     []core.PartitionKey
	count int
}

func newBundle(t *testing.T, h Harness) *bundle {
	t.Helper()
	b := &bundle{T: t, h: h, place: t.TempDir(), ctx: t.Context(), now: core.TimeOf(coretest.Start), count: 1000}
	b.s = h.Open(t, b.place)
	t.Cleanup(func() { _ = b.s.Close() })
	b.queue, b.p = b.makeQueue("queue", "0", "1", "2")
	return b
}

// next returns a number that no id has had.
func (b *bundle) next() int {
	b.count++
	return b.count
}

func (b *bundle) makeQueue(name string, partitions ...string) (core.Queue, []core.PartitionKey) {
	b.Helper()
	q := core.PutQueueParams{Queue: coretest.Queue(b.next(), name, b.now), Now: b.now}
	for _, p := range partitions {
		q.Partitions = append(q.Partitions, coretest.Partition(b.next(), uuid.Nil, p, b.now))
	}
	made, err := b.s.PutQueue(b.ctx, q)
	require.NoError(b, err)
	list, err := b.s.Partitions(b.ctx, made.ID)
	require.NoError(b, err)
	keys := make([]core.PartitionKey, len(list))
	for i := range list {
		keys[i] = list[i].Key
	}
	return made, keys
}

// append appends segments that must all go in.
func (b *bundle) append(segments ...core.NewSegment) []core.Placed {
	b.Helper()
	placed, err := b.s.Append(b.ctx, core.AppendParams{Commit: uuid.New(), Now: b.now, Segments: segments})
	require.NoError(b, err)
	for i := range placed {
		require.NotZero(b, placed[i].First, "segment %d was left out", i)
	}
	return placed
}

// messages returns a segment of count fresh messages.
func (b *bundle) messages(p core.PartitionKey, count int) core.NewSegment {
	n := b.next()
	b.count += count
	return coretest.Segments(p, n, count, b.now)
}

// update runs an Update that must succeed.
func (b *bundle) update(rows []core.RowRequest, c core.ChangeSet) []core.Placed {
	b.Helper()
	placed, err := b.tryUpdate(rows, c)
	require.NoError(b, err)
	return placed
}

func (b *bundle) tryUpdate(rows []core.RowRequest, c core.ChangeSet) ([]core.Placed, error) {
	return b.s.Update(b.ctx, core.UpdateParams{Commit: uuid.New(), Now: b.now, Rows: rows},
		func(core.Tx) (*core.ChangeSet, error) { return &c, nil })
}

// put writes changes of single rows.
func (b *bundle) put(changes ...core.RowChange) {
	b.Helper()
	rows := make([]core.RowRequest, len(changes))
	for i := range changes {
		rows[i].Key = changes[i].Key
	}
	b.update(rows, core.ChangeSet{Rows: changes})
}

// row loads a row whole.
func (b *bundle) row(key core.RowKey) *core.Row {
	b.Helper()
	return b.load(core.RowRequest{Key: key, All: true})
}

func (b *bundle) load(req core.RowRequest) (out *core.Row) {
	b.Helper()
	_, err := b.s.Update(b.ctx, core.UpdateParams{Commit: uuid.New(), Now: b.now, Rows: []core.RowRequest{req}},
		func(tx core.Tx) (*core.ChangeSet, error) {
			out = tx.Row(req.Key)
			return nil, nil //nolint:nilnil // an empty change set is what loading asks for
		})
	require.NoError(b, err)
	return out
}

func (b *bundle) read(p core.PartitionKey, first, last int64) []core.Message {
	b.Helper()
	ms, err := b.s.Read(b.ctx, core.ReadParams{Partition: p, Offsets: core.Runs{{First: first, Last: last}}})
	require.NoError(b, err)
	return ms
}

func (b *bundle) log(p core.PartitionKey) core.LogState {
	b.Helper()
	list, err := b.s.Partitions(b.ctx, b.queue.ID)
	require.NoError(b, err)
	for i := range list {
		if list[i].Key == p {
			return list[i].Log
		}
	}
	b.Fatalf("partition %d is gone", p)
	return core.LogState{}
}

// reopen closes the store and opens it again.
func (b *bundle) reopen() {
	b.Helper()
	require.NoError(b, b.s.Close())
	b.s = b.h.Open(b.T, b.place)
}

func requireCode(tb testing.TB, want core.Code, err error) {
	tb.Helper()
	require.Error(tb, err)
	require.Equal(tb, want.String(), core.CodeOf(err).String(), "%v", err)
}

func run(first, last int64) core.Runs { return core.Runs{{First: first, Last: last}} }
