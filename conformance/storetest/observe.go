package storetest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Observed is everything that can be seen of a store.
type Observed struct {
	Queues      []core.Queue
	Partitions  []observedPartition
	Rows        []core.RowSummary
	Groups      []core.Registration
	Due         []core.ScheduledSegment
	Scheduled   map[core.PartitionKey]core.Totals
	DeadLetters []core.DeadLetter
	Expired     []core.RowKey
	Segments    []core.SegmentRef
	Next        [3]core.Time
}

type observedPartition struct {
	core.PartitionLog
	Headers  []core.MessageHeader
	Messages []core.Message
	Refs     []core.SegmentRef
	Batches  map[string][]core.Batch
	Source   int64
	Located  []int64
}

// Observe looks at everything in a store; two stores that were told the same look the same.
func Observe(tb testing.TB, s core.Store, now core.Time) *Observed {
	tb.Helper()
	ctx, out := tb.Context(), &Observed{Scheduled: map[core.PartitionKey]core.Totals{}}
	must := func(err error) {
		tb.Helper()
		require.NoError(tb, err)
	}
	queues, err := s.Queues(ctx)
	must(err)
	out.Queues = append(out.Queues, queues...)
	for i := range queues {
		observeQueue(tb, s, queues[i], now, out)
	}
	due, err := s.Due(ctx, math.MaxInt64, 0)
	must(err)
	out.Due = append(out.Due, due...)
	dead, _, err := s.DeadLetters(ctx, core.DeadLetterFilter{})
	must(err)
	out.DeadLetters = append(out.DeadLetters, dead...)
	expired, err := s.Expired(ctx, now, 0)
	must(err)
	out.Expired = append(out.Expired, expired...)
	refs, err := s.ExpiredSegments(ctx, now, 0)
	must(err)
	out.Segments = append(out.Segments, refs...)
	out.Next[0], out.Next[1], out.Next[2], err = s.NextDue(ctx)
	must(err)
	return out
}

func observeQueue(tb testing.TB, s core.Store, q core.Queue, now core.Time, out *Observed) {
	tb.Helper()
	ctx := tb.Context()
	regs, err := s.Registrations(ctx, q.ID)
	require.NoError(tb, err)
	out.Groups = append(out.Groups, regs...)
	rows, err := s.Rows(ctx, core.RowsParams{Queue: q.ID, Now: now})
	require.NoError(tb, err)
	out.Rows = append(out.Rows, rows...)
	totals, err := s.ScheduledTotals(ctx, q.ID)
	require.NoError(tb, err)
	for p, t := range totals {
		out.Scheduled[p] = t
	}
	list, err := s.Partitions(ctx, q.ID)
	require.NoError(tb, err)
	for i := range list {
		out.Partitions = append(out.Partitions, observePartition(tb, s, list[i], rows, now))
	}
}

func observePartition(tb testing.TB, s core.Store, p core.PartitionLog, rows []core.RowSummary, now core.Time) observedPartition {
	tb.Helper()
	ctx, o := tb.Context(), observedPartition{PartitionLog: p, Batches: map[string][]core.Batch{}}
	headers, err := s.Headers(ctx, core.HeadersParams{Partition: p.Key, From: 1, To: math.MaxInt64})
	require.NoError(tb, err)
	for i := range headers {
		o.Headers = append(o.Headers, headers[i].Messages...)
	}
	messages, err := s.Read(ctx, core.ReadParams{Partition: p.Key, Offsets: run(1, math.MaxInt64-1)})
	require.NoError(tb, err)
	o.Messages = append(o.Messages, messages...)
	refs, err := s.Segments(ctx, p.Key, 0, 0)
	require.NoError(tb, err)
	o.Refs = append(o.Refs, refs...)
	for i := range rows {
		if rows[i].Key.Partition == p.Key {
			batches, _, err := s.Batches(ctx, rows[i].Key)
			require.NoError(tb, err)
			o.Batches[rows[i].Key.Group] = append([]core.Batch(nil), batches...)
		}
	}
	o.Source, err = s.Source(ctx, p.Key, "source")
	require.NoError(tb, err)
	for _, d := range []core.Time{0, 10, 100} {
		off, err := s.Locate(ctx, p.Key, max(now-d, 0))
		require.NoError(tb, err)
		o.Located = append(o.Located, off)
	}
	return o
}
