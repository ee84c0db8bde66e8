package sealed

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// Options configure Wrap.
type Options struct {
	// Keys seal and open. Default: none; then encrypted queues can be neither written nor read.
	Keys *Ring
	// AllowPlaintext stores the payloads of encrypted queues as they are while there is no key to seal with.
	AllowPlaintext bool
	// Logger is told of plaintext in encrypted queues. Default: discarded.
	Logger *slog.Logger
	// all takes every queue for encrypted; tests set it.
	all bool
}

// Wrap returns a store that behaves as s does, core.Shared included, and
// seals the payloads of encrypted queues. Sizes that it reports count what is stored, Overhead bytes more for each of them.
//
// Writing to an encrypted queue without a key is CodeInvalid, reading what cannot be opened CodeInternal; both leave other queues alone.
func Wrap(s core.Store, o Options) core.Store {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	w := &store{Store: s, o: o, queues: map[uuid.UUID]*known{}, partitions: map[core.PartitionKey]uuid.UUID{}}
	if o.all {
		w.encrypted.Add(1)
	}
	if shared, ok := s.(core.Shared); ok {
		return struct {
			core.Store
			core.Shared
		}{w, &sharedStore{Shared: shared, s: w}}
	}
	return w
}

// store passes every call on, sealing on the way in and opening on the way out.
type store struct {
	core.Store

	o Options

	mu         sync.RWMutex
	queues     map[uuid.UUID]*known
	partitions map[core.PartitionKey]uuid.UUID
	// encrypted counts the queues that are: while there is none, nothing is looked at.
	encrypted atomic.Int64
	// gone are partitions of deleted queues, oldest first: a commit on its way may still name them.
	gone []core.PartitionKey
	// warned are the queues that were warned of.
	warned sync.Map
}

// What is due (Sweeping.Due) goes from the schedule to the log as it is, sealed, so that no lost key holds up what belongs to other queues.

// Append implements core.Log.
func (s *store) Append(ctx context.Context, p core.AppendParams) ([]core.Placed, error) {
	segments, err := s.sealSegments(p.Segments)
	if err != nil {
		return nil, err
	}
	p.Segments = segments
	if moved := p.Moved; moved != nil {
		p.Moved = func(partition core.PartitionKey, log core.LogState, newer []core.SegmentHeader, indexes []int) ([]core.NewSegment, error) {
			instead, err := moved(partition, log, newer, indexes)
			if err != nil {
				return nil, err
			}
			return s.sealSegments(instead)
		}
	}
	return s.Store.Append(ctx, p)
}

// Update implements core.Ledger.
func (s *store) Update(ctx context.Context, p core.UpdateParams, fn func(core.Tx) (*core.ChangeSet, error)) ([]core.Placed, error) {
	return s.Store.Update(ctx, p, func(t core.Tx) (*core.ChangeSet, error) {
		c, err := fn(&tx{Tx: t, s: s})
		if err != nil {
			return c, err
		}
		return s.sealChange(c)
	})
}

// tx opens what is read inside an Update.
type tx struct {
	core.Tx

	s *store
}

// Read implements core.Tx.
func (t *tx) Read(partition core.PartitionKey, offsets core.Runs) ([]core.Message, error) {
	list, err := t.Tx.Read(partition, offsets)
	if err != nil {
		return list, err
	}
	return t.s.openAll(list)
}

// DeadLetter implements core.Tx.
func (t *tx) DeadLetter(id uuid.UUID) (core.DeadLetter, bool, error) {
	d, ok, err := t.Tx.DeadLetter(id)
	if err == nil && ok {
		err = t.s.openMessage(&d.Message)
	}
	return d, ok, err
}

// Read implements core.Log.
func (s *store) Read(ctx context.Context, p core.ReadParams) ([]core.Message, error) {
	list, err := s.Store.Read(ctx, p)
	if err != nil {
		return list, err
	}
	return s.openAll(list)
}

// Scheduled implements core.Browser.
func (s *store) Scheduled(ctx context.Context, p core.ScheduledParams) ([]core.ScheduledSegment, error) {
	list, err := s.Store.Scheduled(ctx, p)
	if err != nil {
		return list, err
	}
	return s.openScheduled(list)
}

// DeadLetters implements core.Browser.
func (s *store) DeadLetters(ctx context.Context, f core.DeadLetterFilter) ([]core.DeadLetter, int64, error) {
	list, total, err := s.Store.DeadLetters(ctx, f)
	if err != nil {
		return list, total, err
	}
	out := append([]core.DeadLetter(nil), list...)
	for i := range out {
		if err := s.openMessage(&out[i].Message); err != nil {
			return nil, 0, err
		}
	}
	return out, total, nil
}

// sharedStore learns the partitions that other gateways made.
type sharedStore struct {
	core.Shared

	s *store
}

// Follow implements core.Shared.
func (s *sharedStore) Follow(ctx context.Context, since string) (core.Followed, error) {
	f, err := s.Shared.Follow(ctx, since)
	s.s.learnPartitions(f.Logs)
	s.s.forgetPartitions(f.Gone)
	return f, err
}

// ReadAll implements core.Shared.
func (s *sharedStore) ReadAll(ctx context.Context, ps []core.ReadParams) ([][]core.Message, error) {
	lists, err := s.Shared.ReadAll(ctx, ps)
	if err != nil {
		return lists, err
	}
	out := make([][]core.Message, len(lists))
	for i := range lists {
		if out[i], err = s.s.openAll(lists[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
