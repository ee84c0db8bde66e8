package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/blackbox"
	"github.com/leasehold/leasehold/conformance/testenv"
)

// The lines of the log that a fail-over leaves.
const (
	lineDown = "the database cannot be used, requests are refused until it can"
	lineUp   = "the database can be used again"
)

// leftOver shows what is not settled: nothing in the end.
const leftOver = `SELECT format('partition %s group %s: frontier %s of %s, batch %s-%s state %s until %s (now %s)', f.partition, f.grp, f."offset", l.head,
	b.first, b.last, b.state, b.until, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
	FROM leasehold.frontiers f JOIN leasehold.partition_logs l USING (partition) LEFT JOIN leasehold.batches b USING (partition, grp)
	WHERE f."offset" < l.head OR b.id IS NOT NULL`

// traffic pushes through and consumes from gateways, and goes on whatever they answer.
type traffic struct {
	*testing.T
	ledger  *blackbox.Ledger
	queue   string
	next    atomic.Int64
	refused atomic.Int64
	// buffered counts messages that a gateway took into its spool.
	buffered atomic.Int64
	mu       sync.Mutex
	notes    map[string][]string
	// good counts steps that succeeded, by gateway.
	good [2]atomic.Int64
}

func (f *traffic) query(batch int) url.Values {
	return url.Values{"batch": {fmt.Sprint(batch)}, "partitions": {"3"}, "leaseSeconds": {"2"}, "wait": {"true"}, "timeout": {"300"}}
}

func (f *traffic) push(ctx context.Context, q blackbox.Queen) error {
	ids := make([]string, 1+f.next.Load()%7)
	items := make([]blackbox.QueenItem, len(ids))
	for i := range ids {
		n := f.next.Add(1)
		ids[i] = fmt.Sprintf("m-%07d", n)
		items[i] = blackbox.QueenItem{Queue: f.queue, Partition: fmt.Sprint(n % 5), Payload: blackbox.Payload(ids[i]), TransactionID: ids[i]}
	}
	f.ledger.Pushing(ids...)
	err := q.Push(ctx, items...)
	if err != nil && strings.Contains(err.Error(), "buffered, not queued") { // on the gateway's disk, which counts as well
		f.buffered.Add(int64(len(ids)))
		err = nil
	}
	if err == nil {
		f.ledger.Pushed(ids...)
	}
	return err
}

// consume takes a batch and completes it, and returns how much it got.
func (f *traffic) consume(ctx context.Context, q blackbox.Queen, batch int) (int, error) {
	claimed := time.Now()
	got, err := q.Pop(ctx, f.queue, "", f.query(batch))
	if err != nil {
		return 0, err
	}
	for _, m := range got {
		id := f.ledger.Delivered(string(m.Data), claimed)
		f.ledger.Settling(id)
		out, err := q.Ack(ctx, "", blackbox.QueenAck{TransactionID: m.TransactionID, PartitionID: m.PartitionID, LeaseID: m.LeaseID, Status: "completed"})
		switch {
		case err != nil: // its fate is not known, nor is that of the others
			return len(got), err
		case out[0].Success:
			f.ledger.Settled(id)
		case strings.HasPrefix(*out[0].Error, "ack flush failed"): // the database went away under it: it may have taken place
			return len(got), errors.New(*out[0].Error)
		default:
			f.ledger.NotSettled(id)
			f.note(fmt.Sprintf("ack refused: %s", *out[0].Error), id)
		}
	}
	return len(got), nil
}

// note keeps what was refused, for the report of a failure.
func (f *traffic) note(what, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.notes == nil {
		f.notes = map[string][]string{}
	}
	f.notes[what] = append(f.notes[what], id)
}

// run starts workers at both gateways; the returned function ends them.
func (f *traffic) run(gateways []*gateway) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	work := func(n int, step func(context.Context, blackbox.Queen) error) {
		wg.Go(func() {
			for ctx.Err() == nil {
				one, done := context.WithTimeout(context.Background(), 20*time.Second)
				if err := step(one, gateways[n].queen); err != nil {
					f.refused.Add(1)
					f.note("request failed", err.Error())
					time.Sleep(10 * time.Millisecond)
				} else {
					f.good[n].Add(1)
				}
				done()
			}
		})
	}
	for n := range gateways {
		for range 3 {
			work(n, f.push)
			work(n, func(ctx context.Context, q blackbox.Queen) error { _, err := f.consume(ctx, q, 20); return err })
		}
	}
	return func() { cancel(); wg.Wait() }
}

// drain consumes until nothing has come for longer than a lease lasts.
func (f *traffic) drain(g *gateway) {
	f.Helper()
	for quiet := time.Now(); time.Since(quiet) < 4*time.Second; {
		n, err := f.consume(f.Context(), g.queen, 100)
		require.NoError(f, err)
		if n > 0 {
			quiet = time.Now()
		}
	}
}

// verdict prints the counts and fails on every broken rule.
func (f *traffic) verdict(more ...any) blackbox.Counts {
	f.Helper()
	counts, faults := f.ledger.Close()
	f.Logf("%+v, %d messages went through a spool, %d requests failed %v", counts, f.buffered.Load(), f.refused.Load(), more)
	assert.Empty(f, faults)
	for what, list := range f.notes {
		f.Logf("%s: %d, such as %s", what, len(list), list[0])
	}
	assert.Positive(f, counts.PushesAcked)
	assert.Positive(f, counts.SettlesAcked)
	return counts
}

// goOn waits until both gateways do work again, by themselves.
func (f *traffic) goOn() {
	f.Helper()
	before := [2]int64{f.good[0].Load(), f.good[1].Load()}
	for n := range before {
		require.Eventually(f, func() bool { return f.good[n].Load() > before[n]+20 }, 30*time.Second, 20*time.Millisecond, "gateway %d does not go on", n)
	}
}

// TestFailOver kills a primary under load through two gateways and promotes its synchronous standby: what was acknowledged is
// there, and the gateways find the new primary by themselves.
func TestFailOver(t *testing.T) {
	t.Parallel()
	primary := testenv.NewCluster(t)
	standby := primary.Standby(t, true)
	store := fmt.Sprintf("postgres://postgres@%s,%s/postgres?sslmode=disable&target_session_attrs=read-write", primary.Host(), standby.Host())
	gateways := []*gateway{startGateway(t, store), startGateway(t, store)}
	f := &traffic{T: t, ledger: blackbox.NewLedger(), queue: "failover"}
	require.NoError(t, gateways[0].queen.Configure(t.Context(), f.queue, `{"retryLimit":1000000}`))
	stop := f.run(gateways)
	f.goOn()
	time.Sleep(time.Second)
	primary.Kill(t)
	killed := time.Now()
	time.Sleep(500 * time.Millisecond) // requests meet the outage
	standby.Promote(t)
	promoted := time.Since(killed)
	f.goOn()
	back := time.Since(killed)
	time.Sleep(time.Second)
	stop()
	f.drain(gateways[0])
	standby.Print(t, leftOver)
	f.verdict("promoted after", promoted, "both at work again after", back)
	for _, g := range gateways {
		assert.Equal(t, 1, g.count(lineDown), "one line tells of the outage")
		assert.Equal(t, 1, g.count(lineUp), "one line tells of its end")
	}
}

// TestRestarts restarts the only server twice under load, once in order and once by a kill.
func TestRestarts(t *testing.T) {
	t.Parallel()
	server := testenv.NewCluster(t)
	gateways := []*gateway{startGateway(t, server.URL()), startGateway(t, server.URL())}
	f := &traffic{T: t, ledger: blackbox.NewLedger(), queue: "restarts"}
	require.NoError(t, gateways[0].queen.Configure(t.Context(), f.queue, `{"retryLimit":1000000}`))
	stop := f.run(gateways)
	f.goOn()
	for _, end := range []func(testing.TB){server.Stop, server.Kill} {
		end(t)
		time.Sleep(300 * time.Millisecond)
		server.Start(t)
		f.goOn()
	}
	stop()
	f.drain(gateways[1])
	server.Print(t, leftOver)
	f.verdict()
}
