// Package memory is the reference model of core.Store: everything in maps and slices behind one mutex, as plain as it
// can be. Stores that keep data are compared with it, and tests of the engine and the adapters run over it. It keeps nothing
// past its Close.
package memory

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/internal/recent"
)

// Store implements core.Store in memory. The zero value is not usable; see New.
type Store struct {
	mu      sync.Mutex
	closed  bool
	inject  func(commit uuid.UUID) Fault
	lastKey core.PartitionKey
	lastSeq int64
	// catalog counts changes of queues and registrations.
	catalog int64

	queues     map[uuid.UUID]*queue
	partitions map[core.PartitionKey]*partition
	schedule   []core.ScheduledSegment
	dead       map[uuid.UUID]core.DeadLetter
	records    map[recordKey]core.Record
	commits    recent.Commits
}

var (
	_ core.Store        = (*Store)(nil)
	_ core.RecordLister = (*Store)(nil)
)

// Fault is what an injected failure does to a commit.
type Fault struct {
	// Err is returned to the caller; nil lets the commit go through.
	Err error
	// Stored commits nevertheless, as when only the answer is lost.
	Stored bool
}

type queue struct {
	core.Queue
	options       []byte // Options as JSON, so that nobody shares their pointers
	partitions    []*partition
	registrations map[string]core.Registration
}

type partition struct {
	core.Partition
	log      core.LogState
	segments []segment
	rows     map[string]*row
	sources  map[string]int64
}

type segment struct {
	core.SegmentHeader
	expires core.Time
	body    []byte
}

type row struct {
	exists   bool
	frontier core.Frontier
	batches  []core.Batch
}

type recordKey struct{ kind, name string }

// New returns an empty store.
func New() *Store {
	return &Store{
		queues: map[uuid.UUID]*queue{}, partitions: map[core.PartitionKey]*partition{}, dead: map[uuid.UUID]core.DeadLetter{},
		records: map[recordKey]core.Record{},
	}
}

// Inject makes f decide over the fate of each later commit of Append and Update; nil ends it. It is for tests of what
// callers do about failures.
func (s *Store) Inject(f func(commit uuid.UUID) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inject = f
}

// Close implements core.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// enter locks the store for one call; the caller unlocks it when there is no error.
func (s *Store) enter(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return core.WrapError(core.CodeCanceled, op, err)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return core.Errorf(core.CodeClosed, op, "the store is closed")
	}
	return nil
}

// commit runs apply, which cannot fail, unless a fault is injected.
func (s *Store) commit(id uuid.UUID, apply func()) error {
	var f Fault
	if s.inject != nil {
		f = s.inject(id)
	}
	if f.Err != nil && !f.Stored {
		return f.Err
	}
	apply()
	s.commits.Add(id)
	return f.Err
}

func (q *queue) value() core.Queue {
	v := q.Queue
	v.Options = core.QueueOptions{}
	if err := json.Unmarshal(q.options, &v.Options); err != nil {
		panic("memory: options that were encoded here do not decode: " + err.Error())
	}
	return v
}

func encodeOptions(o *core.QueueOptions) ([]byte, error) {
	b, err := json.Marshal(o)
	return b, core.WrapError(core.CodeInvalid, "encode queue options", err)
}
