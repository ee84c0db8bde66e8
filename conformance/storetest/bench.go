package storetest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
)

// Bench measures a store as the engine uses it: fused commits, one after the other. Messages per second count.
func Bench(b *testing.B, h Harness) {
	b.Helper()
	for _, c := range []struct {
		name                        string
		partitions, perCommit, each int
	}{
		{"Append1x32", 1, 32, 1},
		{"Append1x32/64Partitions", 64, 32, 1},
		{"Append1x256/64Partitions", 64, 256, 1},
		{"Append1x32/10000Partitions", 10_000, 32, 1},
		{"Append100x8", 1, 8, 100},
		{"Append100x8/64Partitions", 64, 8, 100},
	} {
		b.Run(c.name, func(b *testing.B) { benchAppend(b, h, c.partitions, c.perCommit, c.each) })
	}
	for _, c := range []struct{ rows, each int }{{1, 32}, {8, 100}, {32, 1}} {
		b.Run(fmt.Sprintf("ClaimSettle%dx%d", c.each, c.rows), func(b *testing.B) { benchClaim(b, h, c.rows, c.each) })
	}
	b.Run("ClaimFromWaiting20000", func(b *testing.B) { benchWaiting(b, h, 20_000) })
	b.Run("Tail100x8", func(b *testing.B) { benchTail(b, h) })
	b.Run("ReadBacklog1", func(b *testing.B) { benchBacklog(b, h, 1) })
	b.Run("ReadBacklog100", func(b *testing.B) { benchBacklog(b, h, 100) })
}

// benchmark is a store with one queue.
type benchmark struct {
	*testing.B
	s    core.Store
	keys []core.PartitionKey
	now  core.Time
	n    int
	cpu  time.Duration
	// templates are encoded once: making messages is not what is measured.
	templates map[int]core.NewSegment
}

func newBenchmark(b *testing.B, h Harness, place string, partitions int) *benchmark {
	b.Helper()
	out := &benchmark{B: b, s: h.Open(b, place), now: core.TimeOf(coretest.Start), templates: map[int]core.NewSegment{}}
	b.Cleanup(func() { _ = out.s.Close() })
	q := core.PutQueueParams{Queue: coretest.Queue(1, "bench", out.now), Now: out.now}
	for i := range partitions {
		q.Partitions = append(q.Partitions, coretest.Partition(10+i, uuid.Nil, strconv.Itoa(i), out.now))
	}
	made, err := out.s.PutQueue(b.Context(), q)
	require.NoError(b, err)
	list, err := out.s.Partitions(b.Context(), made.ID)
	require.NoError(b, err)
	for i := range list {
		out.keys = append(out.keys, list[i].Key)
	}
	return out
}

// segment returns a segment of messages of 100 bytes for the next partition in turn.
func (b *benchmark) segment(each int) core.NewSegment {
	n, ok := b.templates[each]
	if !ok {
		payload := []byte(`{"payload":"` + fmt.Sprintf("%086d", 7) + `"}`)
		for i := range each {
			m := coretest.Message(i, b.now, coretest.Payload(core.ContentJSON, payload))
			n.Add(&m)
		}
		n.Know = -1
		b.templates[each] = n
	}
	n.Partition = b.keys[b.n%len(b.keys)]
	b.n++
	return n
}

func (b *benchmark) append(perCommit, each int) []core.Placed {
	segments := make([]core.NewSegment, perCommit)
	for i := range segments {
		segments[i] = b.segment(each)
	}
	placed, err := b.s.Append(b.Context(), core.AppendParams{Commit: uuid.New(), Now: b.now, Segments: segments})
	require.NoError(b, err)
	return placed
}

// start begins to count CPU time, which says more than wall time on a machine that does other things too.
func (b *benchmark) start() {
	b.ReportAllocs()
	b.cpu = cpuTime()
}

func (b *benchmark) report(messages int) {
	b.StopTimer()
	if used := cpuTime() - b.cpu; used > 0 {
		b.ReportMetric(float64(used.Microseconds())/float64(messages), "cpu-µs/msg")
	}
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "msg/s")
}

func benchAppend(bb *testing.B, h Harness, partitions, perCommit, each int) {
	bb.Helper()
	b := newBenchmark(bb, h, bb.TempDir(), partitions)
	b.start()
	messages := 0
	for b.Loop() {
		b.append(perCommit, each)
		messages += perCommit * each
	}
	b.report(messages)
}

// benchClaim leases a batch in each of some rows in one commit and settles them in the next.
func benchClaim(bb *testing.B, h Harness, rows, each int) {
	bb.Helper()
	b := newBenchmark(bb, h, bb.TempDir(), rows)
	requests := make([]core.RowRequest, rows)
	for i := range requests {
		requests[i] = core.RowRequest{Key: core.RowKey{Partition: b.keys[i], Group: core.QueueModeGroup}, Must: true, Due: 4}
	}
	b.start()
	at := int64(0)
	for b.Loop() {
		for settle := range 2 {
			_, err := b.s.Update(b.Context(), core.UpdateParams{Commit: uuid.New(), Now: b.now, Rows: requests},
				func(tx core.Tx) (*core.ChangeSet, error) {
					c := &core.ChangeSet{Rows: make([]core.RowChange, rows)}
					for i := range requests {
						r := tx.Row(requests[i].Key)
						c.Rows[i] = claimOrSettle(r, at, int64(each), settle == 1, b.now)
					}
					return c, nil
				})
			require.NoError(b, err)
		}
		at += int64(each)
	}
	b.report(int(at) * rows)
}

func claimOrSettle(r *core.Row, at, each int64, settle bool, now core.Time) core.RowChange {
	if settle {
		return core.RowChange{Key: r.Key, Delete: []int64{r.Batches[0].ID}}
	}
	f := r.Frontier
	f.Offset = at + each
	f.NextBatch++
	return core.RowChange{Key: r.Key, Move: true, Frontier: f, Put: []core.Batch{{
		ID: f.NextBatch, First: at + 1, Last: at + each, Pending: run(at+1, at+each), Exclusive: true, Lease: uuid.New(), Until: now + 1e6,
	}}}
}

// benchWaiting leases the first of very many waiting batches and lets it wait again, at the tail.
func benchWaiting(bb *testing.B, h Harness, batches int64) {
	bb.Helper()
	b := newBenchmark(bb, h, bb.TempDir(), 1)
	key := core.RowKey{Partition: b.keys[0], Group: core.QueueModeGroup}
	update := func(fn func(r *core.Row) core.RowChange) {
		_, err := b.s.Update(b.Context(), core.UpdateParams{Commit: uuid.New(), Now: b.now, Rows: []core.RowRequest{{Key: key, Due: 8}}},
			func(tx core.Tx) (*core.ChangeSet, error) {
				return &core.ChangeSet{Rows: []core.RowChange{fn(tx.Row(key))}}, nil
			})
		require.NoError(b, err)
	}
	update(func(*core.Row) core.RowChange {
		c := core.RowChange{Key: key, Move: true, Frontier: core.Frontier{Offset: 100 * batches}}
		for i := range batches {
			c.Put = append(c.Put, core.Batch{ID: i, First: 100*i + 1, Last: 100*i + 100, Pending: run(100*i+1, 100*i+100), State: core.BatchWaiting, Turn: core.Turn(i + 1)})
		}
		return c
	})
	b.start()
	messages, turn := 0, core.Turn(batches) //nolint:gosec // positive
	for b.Loop() {
		var first core.Batch
		update(func(r *core.Row) core.RowChange {
			first = r.Batches[0]
			for _, other := range r.Batches {
				if other.Turn < first.Turn {
					first = other
				}
			}
			first.State, first.Lease, first.Until = core.BatchLeased, uuid.New(), b.now+1e9
			return core.RowChange{Key: key, Put: []core.Batch{first}}
		})
		update(func(*core.Row) core.RowChange {
			turn++
			first.State, first.Lease, first.Until, first.Turn = core.BatchWaiting, uuid.Nil, 0, turn
			return core.RowChange{Key: key, Put: []core.Batch{first}}
		})
		messages += 100
	}
	b.report(messages)
}

// benchTail reads what was appended just before, headers and messages.
func benchTail(bb *testing.B, h Harness) {
	bb.Helper()
	b := newBenchmark(bb, h, bb.TempDir(), 8)
	b.start()
	messages := 0
	for b.Loop() {
		for _, p := range b.append(8, 100) {
			b.read(b.keys[messages/100%8], p.First, p.First+99)
			messages += 100
		}
	}
	b.report(messages)
}

func (b *benchmark) read(p core.PartitionKey, first, last int64) {
	hs, err := b.s.Headers(b.Context(), core.HeadersParams{Partition: p, From: first, To: last})
	require.NoError(b, err)
	require.NotEmpty(b, hs)
	ms, err := b.s.Read(b.Context(), core.ReadParams{Partition: p, Offsets: run(first, last)})
	require.NoError(b, err)
	require.Len(b, ms, int(last-first+1))
}

// benchBacklog reads 100 messages at a time from the beginning of a log that was written before the store was opened.
func benchBacklog(bb *testing.B, h Harness, each int) {
	bb.Helper()
	const total = 200_000
	place := bb.TempDir()
	w := newBenchmark(bb, h, place, 16)
	for n := 0; n < total; n += 16 * each {
		w.append(16, each)
	}
	require.NoError(bb, w.s.Close())
	b := &benchmark{B: bb, s: h.Open(bb, place), keys: w.keys, now: w.now}
	bb.Cleanup(func() { _ = b.s.Close() })
	b.start()
	messages := 0
	for b.Loop() {
		n := messages / 100
		first := int64(n/16*100%(total/16-100)) + 1
		b.read(b.keys[n%16], first, first+99)
		messages += 100
	}
	b.report(messages)
}
