package postgres_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/testenv"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/postgres"
)

// steady is a queue through which messages flow, and what is left of them.
type steady struct {
	*testing.T
	engine *core.Engine
	db     *pgx.Conn
	total  int64
	pushed atomic.Int64
	popped atomic.Int64
}

const (
	steadyPartitions, steadyBatch, steadyPayload = 16, 100, 100
	// steadyLeft bounds what all tables together may take in the end, in bytes.
	steadyLeft = 16 << 20
	// everything is the size of all tables with their indexes, in bytes, but for the commits, which stay for two minutes.
	everything = "SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_stat_user_tables WHERE schemaname = 'leasehold' AND relname <> 'commits'"
)

// TestSteadyQueue lets messages flow through a queue whose rule deletes what is settled, and prints how large the tables are and
// how much of their updates touched no index: what is gone leaves nothing behind.
func TestSteadyQueue(t *testing.T) {
	w := &steady{T: t, total: 100_000}
	if text := os.Getenv("LEASEHOLD_STEADY_MESSAGES"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		w.total = n
	}
	server := testenv.NewCluster(t, "autovacuum_naptime=10s") // in the one minute of the stock settings all of them may be through
	s, err := postgres.Open(t.Context(), server.URL(), postgres.Options{})
	require.NoError(t, err)
	w.engine, err = core.New(t.Context(), s, core.Options{Clock: s.Clock()})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, w.engine.Shutdown(context.Background()))
		require.NoError(t, s.Close())
	})
	w.db, err = pgx.Connect(t.Context(), server.URL()+"&search_path=leasehold")
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.db.Close(context.Background()) })
	q := core.Queue{Name: "steady", Origin: core.ProtocolQuerator}
	q.Options.Queen = core.ImplicitQueen()
	_, err = w.engine.CreateQueue(t.Context(), q, steadyPartitions)
	require.NoError(t, err)
	began := time.Now()
	watched := w.watch(server.URL())
	w.flow()
	peaks := watched()
	t.Logf("%d messages in %s; all tables together at each tenth of them, in MB: %d", w.popped.Load(), time.Since(began).Round(time.Second), peaks)
	w.settle()
	w.sizes("when the last message was settled")
	left := w.shrunk()
	w.sizes("after a vacuum")
	t.Logf("%d kB are left of %d kB of payloads that went through", left>>10, w.total*steadyPayload>>10)
	assert.Less(t, left, int64(steadyLeft), "what is gone leaves nothing behind")
	if n := len(peaks); n == 10 && w.total >= 1_000_000 {
		assert.Less(t, slices.Max(peaks[n/2:]), 2*slices.Max(peaks[:n/2])+8, "the tables do not grow with what has gone through")
	}
}

// flow runs producers and consumers until all messages are through.
func (w *steady) flow() {
	var wg sync.WaitGroup
	payload := []byte(strings.Repeat("x", steadyPayload))
	for p := range 4 {
		wg.Go(func() {
			for i := p; w.pushed.Add(steadyBatch) <= w.total; i++ {
				for w.pushed.Load()-w.popped.Load() > 50_000 {
					time.Sleep(time.Millisecond) // a steady queue is not a growing one
				}
				items := make([]core.PushItem, steadyBatch)
				for k := range items {
					items[k] = core.PushItem{Queue: "steady", Partition: strconv.Itoa(i % steadyPartitions), NewMessage: core.NewMessage{Payload: payload}}
				}
				_, err := w.engine.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: items})
				if !assert.NoError(w, err) {
					return
				}
			}
		})
		wg.Go(func() {
			for w.popped.Load() < w.total {
				if err := w.pop(); !assert.NoError(w, err) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// pop takes a batch and completes it.
func (w *steady) pop() error {
	got, err := w.engine.Claim(context.Background(), core.ClaimParams{
		Protocol: core.ProtocolQueen, Exclusive: true, Queue: "steady", Messages: steadyBatch, Partitions: 1, Lease: time.Minute, Wait: 200 * time.Millisecond,
	})
	if err != nil {
		if core.CodeOf(err) == core.CodeNothing {
			err = nil
		}
		return err
	}
	for _, p := range got.Partitions {
		last := p.Messages[len(p.Messages)-1]
		out, err := w.engine.Ack(context.Background(), []core.Ack{{Partition: p.Partition.ID, TransactionID: last.Transaction(), Lease: last.Lease}})
		if err != nil {
			return err
		}
		if out[0].Err != nil {
			return out[0].Err
		}
		w.popped.Add(int64(len(p.Messages)))
	}
	return nil
}

// settle waits until the sweeper has deleted what is settled.
func (w *steady) settle() {
	w.Helper()
	left := int64(-1)
	require.Eventually(w, func() bool {
		require.NoError(w, w.db.QueryRow(w.Context(), "SELECT coalesce(sum(count), 0) FROM segments").Scan(&left))
		return left == 0
	}, 60*time.Second, 200*time.Millisecond, "%d messages are left", left)
}

// watch notes the size of everything at each tenth of the messages, in MB, until the returned function is called.
func (w *steady) watch(url string) (stop func() []int64) {
	w.Helper()
	conn, err := pgx.Connect(w.Context(), url)
	require.NoError(w, err)
	done, out := make(chan struct{}), make(chan []int64)
	go func() {
		defer func() { _ = conn.Close(context.Background()) }()
		var sizes []int64
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-done:
				tick.Stop()
				out <- sizes
				return
			case <-tick.C:
			}
			if w.popped.Load() < int64(len(sizes)+1)*w.total/10 {
				continue
			}
			var size int64
			if assert.NoError(w, conn.QueryRow(context.Background(), everything).Scan(&size)) {
				sizes = append(sizes, size>>20)
			}
		}
	}()
	return func() []int64 { close(done); return <-out }
}

// shrunk vacuums, as the server does by itself when enough has gone, until the tables are small, and returns the size of everything. One
// vacuum may leave free pages at the end of a table because somebody reads it just then.
func (w *steady) shrunk() (size int64) {
	w.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		_, err := w.db.Exec(w.Context(), "VACUUM")
		require.NoError(w, err)
		require.NoError(w, w.db.QueryRow(w.Context(), everything).Scan(&size))
		if size < steadyLeft || time.Now().After(end) {
			return size
		}
	}
}

// sizes prints the tables and checks that those of a row per partition are small, and change without touching an index.
func (w *steady) sizes(when string) {
	w.Helper()
	w.Log(when)
	_, err := w.db.Exec(w.Context(), "SELECT pg_stat_force_next_flush()")
	assert.True(w, err == nil || strings.Contains(err.Error(), "does not exist"))
	rows, err := w.db.Query(w.Context(), `SELECT relname, pg_total_relation_size(relid), n_tup_upd, n_tup_hot_upd, n_tup_ins, n_tup_del, n_dead_tup
		FROM pg_stat_user_tables WHERE schemaname = 'leasehold' ORDER BY 2 DESC`)
	require.NoError(w, err)
	for rows.Next() {
		var name string
		var size, updates, hot, inserts, deletes, dead int64
		require.NoError(w, rows.Scan(&name, &size, &updates, &hot, &inserts, &deletes, &dead))
		w.Logf("%-16s %8d kB, %8d updates of which %8d touched no index, %8d inserts, %8d deletes, %6d dead rows", name, size>>10, updates, hot, inserts, deletes, dead)
		if name == "partition_logs" || name == "frontiers" {
			assert.Less(w, size, int64(4<<20), "a table of %d rows", steadyPartitions)
			if updates > 1000 {
				assert.Greater(w, float64(hot), 0.9*float64(updates), "%s: updates that touch no index", name)
			}
		}
	}
	require.NoError(w, rows.Err())
}
