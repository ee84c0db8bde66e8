package querator_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/querator"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/memory"
)

// countingStore counts what is looked at: headers, payloads and batches of the delivery state.
type countingStore struct {
	core.Store

	seen atomic.Int64
}

// countingTx counts what an Update looks at.
type countingTx struct {
	core.Tx

	s *countingStore
}

func (s *countingStore) count(segments []core.SegmentHeader, err error) ([]core.SegmentHeader, error) {
	for i := range segments {
		s.seen.Add(int64(len(segments[i].Messages)))
	}
	return segments, err
}

func (s *countingStore) Headers(ctx context.Context, p core.HeadersParams) ([]core.SegmentHeader, error) {
	return s.count(s.Store.Headers(ctx, p))
}

func (s *countingStore) Read(ctx context.Context, p core.ReadParams) ([]core.Message, error) {
	msgs, err := s.Store.Read(ctx, p)
	s.seen.Add(int64(len(msgs)))
	return msgs, err
}

func (s *countingStore) Update(ctx context.Context, p core.UpdateParams, fn func(core.Tx) (*core.ChangeSet, error)) ([]core.Placed, error) {
	return s.Store.Update(ctx, p, func(tx core.Tx) (*core.ChangeSet, error) { return fn(&countingTx{tx, s}) })
}

func (t *countingTx) Row(key core.RowKey) *core.Row {
	r := t.Tx.Row(key)
	if r != nil {
		t.s.seen.Add(int64(len(r.Batches)))
	}
	return r
}

func (t *countingTx) Headers(partition core.PartitionKey, first, last int64) ([]core.SegmentHeader, error) {
	return t.s.count(t.Tx.Headers(partition, first, last))
}

func TestTheCostOfALeaseDoesNotGrowWithTheBacklog(t *testing.T) {
	costs := map[int]int64{}
	for _, backlog := range []int{200, 20_000} {
		store := &countingStore{Store: memory.New()}
		f := newFixtureOn(t, store, querator.Options{})
		f.create("q")
		body := `{"queue_name":"q","request_timeout":"1m","items":[` + strings.TrimSuffix(strings.Repeat(`{"utf8":"x"},`, 100), ",") + `]}`
		for range backlog / 100 {
			f.ok("/v1/queue.produce", body)
		}
		store.seen.Store(0)
		for range 20 {
			items := f.ok("/v1/queue.lease", leaseBody("q", "c", 1, "1m")).items(t)
			f.ok("/v1/queue.complete", fmt.Sprintf(`{"queue_name":"q","request_timeout":"1m","ids":[%q]}`, items[0]["id"]))
		}
		costs[backlog] = store.seen.Load()
	}
	require.Equal(t, costs[200], costs[20_000])
	require.Positive(t, costs[200])
}
