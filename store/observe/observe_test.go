package observe_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/observe"
)

// record is one call of a recorder.
type record struct {
	op      string
	took    time.Duration
	bytes   int64
	changes int
	commit  bool
	err     error
}

type recorder struct{ got []record }

func (r *recorder) Commit(op string, took time.Duration, bytes int64, changes int, err error) {
	r.got = append(r.got, record{op, took, bytes, changes, true, err})
}

func (r *recorder) Call(op string, took time.Duration, err error) {
	r.got = append(r.got, record{op: op, took: took, err: err})
}

// scripted is a store whose calls take a time and end as told.
type scripted struct {
	core.Store

	clock *time.Time
	takes time.Duration
	err   error
}

func (s *scripted) Append(context.Context, core.AppendParams) ([]core.Placed, error) {
	*s.clock = s.clock.Add(s.takes)
	return []core.Placed{{First: 7}}, s.err
}

func (s *scripted) Update(_ context.Context, _ core.UpdateParams, fn func(core.Tx) (*core.ChangeSet, error)) ([]core.Placed, error) {
	*s.clock = s.clock.Add(s.takes)
	_, err := fn(nil)
	return nil, err
}

func (s *scripted) Headers(context.Context, core.HeadersParams) ([]core.SegmentHeader, error) {
	*s.clock = s.clock.Add(s.takes)
	return nil, s.err
}

// notifying is a store with one optional power.
type notifying struct {
	core.Store
	core.Shared
}

func (notifying) Notify(context.Context, func()) error {
	return errors.New("notified")
}

func setup(takes time.Duration, err error) (core.Store, *recorder, *bytes.Buffer) {
	clock := time.Unix(0, 0)
	r, log := &recorder{}, &bytes.Buffer{}
	return observe.Wrap(&scripted{clock: &clock, takes: takes, err: err}, observe.Options{
		Recorder: r, Logger: slog.New(slog.NewTextHandler(log, nil)), Slow: 100 * time.Millisecond,
		Now: func() time.Time { return clock },
	}), r, log
}

func segment(header, body int) core.NewSegment {
	return core.NewSegment{Header: make([]byte, header), Body: make([]byte, body)}
}

func TestAppendIsMeasuredAndPassedOn(t *testing.T) {
	s, r, log := setup(5*time.Millisecond, nil)
	placed, err := s.Append(t.Context(), core.AppendParams{Segments: []core.NewSegment{segment(3, 10), segment(2, 5)}})
	require.NoError(t, err)
	assert.Equal(t, []core.Placed{{First: 7}}, placed)
	assert.Equal(t, []record{{"append", 5 * time.Millisecond, 20, 2, true, nil}}, r.got)
	assert.Empty(t, log.String(), "a quick call is not worth a line")
}

func TestSlowCommitIsLogged(t *testing.T) {
	s, _, log := setup(time.Second, nil)
	_, err := s.Append(t.Context(), core.AppendParams{Segments: []core.NewSegment{segment(1, 1)}})
	require.NoError(t, err)
	assert.Contains(t, log.String(), "store commit was slow")
	assert.Contains(t, log.String(), "operation=append")
	assert.Contains(t, log.String(), "took=1s")
}

func TestErrorsAreReportedUnchanged(t *testing.T) {
	full := core.Errorf(core.CodeFull, "append", "no room")
	s, r, _ := setup(0, full)
	_, err := s.Append(t.Context(), core.AppendParams{})
	assert.Equal(t, core.CodeFull, core.CodeOf(err))
	require.Len(t, r.got, 1)
	assert.Equal(t, core.CodeFull, core.CodeOf(r.got[0].err))
}

func TestUpdateCountsWhatItsLastRunDecided(t *testing.T) {
	s, r, _ := setup(time.Millisecond, nil)
	_, err := s.Update(t.Context(), core.UpdateParams{}, func(core.Tx) (*core.ChangeSet, error) {
		return &core.ChangeSet{
			Segments: []core.NewSegment{segment(1, 2)},
			Rows:     []core.RowChange{{Put: make([]core.Batch, 2), Delete: []int64{1}}},
		}, nil
	})
	require.NoError(t, err)
	_, err = s.Update(t.Context(), core.UpdateParams{}, func(core.Tx) (*core.ChangeSet, error) { return nil, nil })
	require.NoError(t, err)
	assert.Equal(t, []record{
		{"update", time.Millisecond, 3, 5, true, nil},
		{op: "update_empty", took: time.Millisecond},
	}, r.got)
}

func TestReadsAreNotCommits(t *testing.T) {
	s, r, log := setup(time.Second, nil)
	_, err := s.Headers(t.Context(), core.HeadersParams{})
	require.NoError(t, err)
	assert.Equal(t, []record{{op: "headers", took: time.Second}}, r.got)
	assert.Contains(t, log.String(), "store call was slow")
}

func TestOptionalPowersStay(t *testing.T) {
	n, ok := observe.Wrap(notifying{}, observe.Options{}).(core.Shared)
	require.True(t, ok)
	require.EqualError(t, n.Notify(t.Context(), nil), "notified")
	_, ok = observe.Wrap(&scripted{}, observe.Options{}).(core.Shared)
	assert.False(t, ok, "a power that the store lacks must not appear")
}
