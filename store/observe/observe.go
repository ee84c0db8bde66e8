// Package observe measures any core.Store from the outside: how long its calls
// take, how large its commits are, and which calls were slow.
package observe

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// Recorder receives the figures. Its methods must be cheap and may be called
// from any goroutine.
type Recorder interface {
	// Commit reports a call that wrote, or tried to: the operation's name in
	// snake case, how long it took, what it appended in bytes (headers and
	// bodies of segments), how many rows and segments it changed, and its
	// error.
	Commit(op string, took time.Duration, bytes int64, changes int, err error)
	// Call reports a call that wrote nothing.
	Call(op string, took time.Duration, err error)
}

// Options configure Wrap.
type Options struct {
	// Recorder receives every figure. Default: nobody.
	Recorder Recorder
	// Logger is told of slow calls. Default: discarded.
	Logger *slog.Logger
	// Slow is from when on a call is slow. Default: 1 s.
	Slow time.Duration
	// Now measures durations; it should be the process's real clock. Default:
	// every duration is 0, and no call is slow.
	Now func() time.Time
}

// Wrap returns a store that behaves as s does, optional powers included, and
// is measured.
func Wrap(s core.Store, o Options) core.Store {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Slow <= 0 {
		o.Slow = time.Second
	}
	if o.Now == nil {
		o.Now = func() time.Time { return time.Time{} }
	}
	m := &measured{Store: s, o: o}
	if shared, ok := s.(core.Shared); ok {
		return struct {
			core.Store
			core.Shared
		}{m, shared}
	}
	return m
}

// measured passes every call on. What is not overridden below is asked for
// rarely and costs little.
type measured struct {
	core.Store

	o Options
}

// written is what a commit changed.
type written struct {
	bytes   int64
	changes int
}

// commit measures a call that writes.
func commit[T any](ctx context.Context, m *measured, op string, w written, f func() (T, error)) (T, error) {
	start := m.o.Now()
	v, err := f()
	m.committed(ctx, op, m.o.Now().Sub(start), w, err)
	return v, err
}

// call measures a call that only reads.
func call[T any](ctx context.Context, m *measured, op string, f func() (T, error)) (T, error) {
	start := m.o.Now()
	v, err := f()
	m.called(ctx, op, m.o.Now().Sub(start), err)
	return v, err
}

// committed reports a call that wrote.
func (m *measured) committed(ctx context.Context, op string, took time.Duration, w written, err error) {
	if m.o.Recorder != nil {
		m.o.Recorder.Commit(op, took, w.bytes, w.changes, err)
	}
	if took >= m.o.Slow {
		m.o.Logger.WarnContext(ctx, "store commit was slow", "operation", op, "took", took,
			"bytes", w.bytes, "changes", w.changes)
	}
}

// called reports a call that wrote nothing.
func (m *measured) called(ctx context.Context, op string, took time.Duration, err error) {
	if m.o.Recorder != nil {
		m.o.Recorder.Call(op, took, err)
	}
	if took >= m.o.Slow {
		m.o.Logger.WarnContext(ctx, "store call was slow", "operation", op, "took", took)
	}
}

func (w *written) segments(segments []core.NewSegment) {
	for i := range segments {
		w.bytes += int64(len(segments[i].Header) + len(segments[i].Body))
	}
	w.changes += len(segments)
}

// Append implements core.Log.
func (m *measured) Append(ctx context.Context, p core.AppendParams) ([]core.Placed, error) {
	var w written
	w.segments(p.Segments)
	return commit(ctx, m, "append", w, func() ([]core.Placed, error) { return m.Store.Append(ctx, p) })
}

// Update implements core.Ledger. One that decided to write nothing counts as a
// reading call, "update_empty".
func (m *measured) Update(ctx context.Context, p core.UpdateParams, fn func(core.Tx) (*core.ChangeSet, error)) ([]core.Placed, error) {
	var last *core.ChangeSet
	start := m.o.Now()
	placed, err := m.Store.Update(ctx, p, func(tx core.Tx) (*core.ChangeSet, error) {
		c, err := fn(tx)
		last = c
		return c, err
	})
	took := m.o.Now().Sub(start)
	if last.Empty() {
		m.called(ctx, "update_empty", took, err)
	} else {
		m.committed(ctx, "update", took, changesOf(last), err)
	}
	return placed, err
}

// changesOf counts what a change set writes.
func changesOf(c *core.ChangeSet) written {
	var w written
	w.segments(c.Segments)
	for i := range c.Schedule {
		w.bytes += int64(len(c.Schedule[i].Segment.Header) + len(c.Schedule[i].Segment.Body))
	}
	for i := range c.Rows {
		w.changes += len(c.Rows[i].Put) + len(c.Rows[i].Delete)
	}
	w.changes += len(c.Rows) + len(c.Purge) + len(c.FreeSources) + len(c.Schedule) + len(c.Unschedule) +
		len(c.DeadLetters) + len(c.DropDeadLetters) + len(c.Register) + len(c.Unregister)
	return w
}

// PutQueue implements core.Catalog.
func (m *measured) PutQueue(ctx context.Context, p core.PutQueueParams) (core.Queue, error) {
	return commit(ctx, m, "put_queue", written{changes: 1 + len(p.Partitions)}, func() (core.Queue, error) { return m.Store.PutQueue(ctx, p) })
}

// DeleteQueue implements core.Catalog.
func (m *measured) DeleteQueue(ctx context.Context, id uuid.UUID) error {
	_, err := commit(ctx, m, "delete_queue", written{changes: 1}, func() (struct{}, error) { return struct{}{}, m.Store.DeleteQueue(ctx, id) })
	return err
}

// CreatePartitions implements core.Catalog.
func (m *measured) CreatePartitions(ctx context.Context, now core.Time, ps []core.Partition) ([]core.PartitionLog, error) {
	return commit(ctx, m, "create_partitions", written{changes: len(ps)}, func() ([]core.PartitionLog, error) { return m.Store.CreatePartitions(ctx, now, ps) })
}

// RemoveIdle implements core.Idler.
func (m *measured) RemoveIdle(ctx context.Context, p core.RemoveIdleParams) ([]core.PartitionKey, error) {
	return commit(ctx, m, "remove_idle", written{changes: len(p.Partitions)}, func() ([]core.PartitionKey, error) { return m.Store.RemoveIdle(ctx, p) })
}

// DeleteSegments implements core.Sweeping.
func (m *measured) DeleteSegments(ctx context.Context, now core.Time, remove, expiries []core.SegmentRef) error {
	_, err := commit(ctx, m, "delete_segments", written{changes: len(remove) + len(expiries)}, func() (struct{}, error) {
		return struct{}{}, m.Store.DeleteSegments(ctx, now, remove, expiries)
	})
	return err
}

// Headers implements core.Log.
func (m *measured) Headers(ctx context.Context, p core.HeadersParams) ([]core.SegmentHeader, error) {
	return call(ctx, m, "headers", func() ([]core.SegmentHeader, error) { return m.Store.Headers(ctx, p) })
}

// Read implements core.Log.
func (m *measured) Read(ctx context.Context, p core.ReadParams) ([]core.Message, error) {
	return call(ctx, m, "read", func() ([]core.Message, error) { return m.Store.Read(ctx, p) })
}

// Partitions implements core.Catalog.
func (m *measured) Partitions(ctx context.Context, queue uuid.UUID) ([]core.PartitionLog, error) {
	return call(ctx, m, "partitions", func() ([]core.PartitionLog, error) { return m.Store.Partitions(ctx, queue) })
}

// Rows implements core.Browser.
func (m *measured) Rows(ctx context.Context, p core.RowsParams) ([]core.RowSummary, error) {
	return call(ctx, m, "rows", func() ([]core.RowSummary, error) { return m.Store.Rows(ctx, p) })
}

// Due implements core.Sweeping.
func (m *measured) Due(ctx context.Context, now core.Time, limit int) ([]core.ScheduledSegment, error) {
	return call(ctx, m, "due", func() ([]core.ScheduledSegment, error) { return m.Store.Due(ctx, now, limit) })
}

// Expired implements core.Sweeping.
func (m *measured) Expired(ctx context.Context, now core.Time, limit int) ([]core.RowKey, error) {
	return call(ctx, m, "expired", func() ([]core.RowKey, error) { return m.Store.Expired(ctx, now, limit) })
}

// ExpiredSegments implements core.Sweeping.
func (m *measured) ExpiredSegments(ctx context.Context, now core.Time, limit int) ([]core.SegmentRef, error) {
	return call(ctx, m, "expired_segments", func() ([]core.SegmentRef, error) { return m.Store.ExpiredSegments(ctx, now, limit) })
}
