package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/blackbox"
)

// order checks what exclusive consumers of one group see: a partition belongs to one of them at a time, and its messages come in
// the order in which they lie, none twice and none left out.
type order struct {
	mu sync.Mutex
	// held is who holds a partition, last the last number that was completed there.
	held map[string]string
	last map[string]int
	// acked are the numbers whose push was answered, seen those that were delivered to the shared group.
	faults  []string
	batches int
	done    int
}

func (o *order) fault(format string, args ...any) {
	if len(o.faults) < 20 {
		o.faults = append(o.faults, fmt.Sprintf(format, args...))
	}
}

// take notes a batch that was answered.
func (o *order) take(partition, lease string, numbers []int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.batches++
	if other := o.held[partition]; other != "" {
		o.fault("partition %s: %s was given out while %s was held", partition, lease, other)
	}
	o.held[partition] = lease
	for i, n := range numbers {
		if want := o.last[partition] + 1 + i; n != want {
			o.fault("partition %s: %d came where %d was due", partition, n, want)
			break
		}
	}
}

// give notes that a batch is about to be completed.
func (o *order) give(partition string, numbers []int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.held, partition)
	o.last[partition] = numbers[len(numbers)-1]
	o.done += len(numbers)
}

func replicasTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("LEASEHOLD_REPLICAS_TIME")
	if text == "" {
		return 3 * time.Second
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

// number is a message of this test: its place in its partition, as its producer counts.
type number struct {
	P string `json:"p"`
	N int    `json:"n"`
}

// TestTwoGateways has exclusive and shared consumers work through two gateways at once.
func TestTwoGateways(t *testing.T) {
	for _, partitions := range []int{1, 100} {
		t.Run(fmt.Sprintf("%d partitions", partitions), func(t *testing.T) {
			t.Parallel()
			w := &pair{T: t, partitions: partitions, shared: map[string]int{}, o: &order{held: map[string]string{}, last: map[string]int{}}}
			store := schema(t)
			w.gateways = []*gateway{startGateway(t, store), startGateway(t, store)}
			w.prepare()
			w.work(replicasTime(t))
			w.check()
		})
	}
}

// pair is the work of two gateways.
type pair struct {
	*testing.T
	gateways   []*gateway
	partitions int
	o          *order
	pushed     atomic.Int64
	duplicates atomic.Int64

	mu sync.Mutex
	// shared counts the deliveries of each message to the shared group.
	shared map[string]int
}

const pairQueue = "pair"

func (w *pair) prepare() {
	w.Helper()
	ctx := w.Context()
	require.NoError(w, w.gateways[0].queen.Configure(ctx, pairQueue, `{"retryLimit":1000000}`))
	require.NoError(w, w.gateways[0].cf.CreateConsumer(ctx, pairQueue, blackbox.CfConsumer{MaxRetries: 100}))
}

// work lets producers and consumers run for a while, and the consumers until everything is done.
func (w *pair) work(d time.Duration) {
	ctx, cancel := context.WithTimeout(w.Context(), d)
	defer cancel()
	var producers, consumers sync.WaitGroup
	const lines = 4
	for line := range lines {
		producers.Go(func() { w.produce(ctx, line, lines) })
	}
	finished := make(chan struct{})
	for i := range 8 {
		g := w.gateways[i%2]
		consumers.Go(func() { w.exclusive(g, w.gateways[(i/2)%2], finished) })
		consumers.Go(func() { w.sharing(g, w.gateways[(i/2)%2], finished) })
	}
	producers.Wait()
	end := time.Now().Add(60 * time.Second)
	for !w.complete() && time.Now().Before(end) {
		time.Sleep(10 * time.Millisecond)
	}
	close(finished)
	consumers.Wait()
}

func (w *pair) complete() bool {
	w.mu.Lock()
	shared := len(w.shared)
	w.mu.Unlock()
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	return int64(shared) >= w.pushed.Load() && int64(w.o.done) >= w.pushed.Load()
}

// produce pushes to the partitions of one line, in order, each message through both gateways at the same time: one of the two is a
// duplicate.
func (w *pair) produce(ctx context.Context, line, lines int) {
	next := map[int]int{}
	for i := 0; ctx.Err() == nil; i++ {
		p := (i*lines + line) % w.partitions
		if w.partitions < lines && line > 0 {
			return // a partition has one producer, who knows its order
		}
		var batch []blackbox.QueenItem
		for range 1 + i%9 {
			next[p]++
			m := number{fmt.Sprint(p), next[p]}
			payload := fmt.Sprintf(`{"p":%q,"n":%d}`, m.P, m.N)
			batch = append(batch, blackbox.QueenItem{Queue: pairQueue, Partition: m.P, Payload: payload, TransactionID: fmt.Sprintf("%d-%d", p, next[p])})
		}
		statuses := make([][]string, 2)
		var both sync.WaitGroup
		for n := range statuses {
			both.Go(func() { statuses[n] = w.push(w.gateways[n], batch) })
		}
		both.Wait()
		for k := range batch {
			queued := 0
			for n := range statuses {
				if len(statuses[n]) != len(batch) {
					w.Errorf("a push was not answered: %v", statuses)
					return
				}
				switch statuses[n][k] {
				case "queued":
					queued++
				case "duplicate":
					w.duplicates.Add(1)
				}
			}
			if queued != 1 {
				w.Errorf("%s was queued %d times: %v", batch[k].TransactionID, queued, statuses)
			}
		}
		w.pushed.Add(int64(len(batch)))
	}
}

// push returns what became of each item.
func (w *pair) push(g *gateway, items []blackbox.QueenItem) []string {
	list := make([]map[string]any, len(items))
	for i, item := range items {
		list[i] = map[string]any{"queue": item.Queue, "partition": item.Partition, "transactionId": item.TransactionID, "payload": json.RawMessage(item.Payload)}
	}
	body, err := json.Marshal(map[string]any{"items": list})
	if err != nil {
		w.Error(err)
		return nil
	}
	a, err := g.queen.Conn.JSON(context.Background(), "POST", g.Queen+"/api/v1/push", string(body))
	if err != nil {
		w.Error(err)
		return nil
	}
	var out []blackbox.QueenPushed
	if err := json.Unmarshal(a.Body, &out); err != nil {
		w.Errorf("%v in %s", err, a)
		return nil
	}
	statuses := make([]string, len(out))
	for i := range out {
		statuses[i] = out[i].Status
	}
	return statuses
}

// exclusive pops at one gateway and acknowledges at another, as a group of its own.
func (w *pair) exclusive(take, give *gateway, finished <-chan struct{}) {
	query := url.Values{
		"batch": {"20"}, "partitions": {"3"}, "consumerGroup": {"strict"}, "subscriptionMode": {"all"}, "leaseSeconds": {"60"}, "wait": {"true"}, "timeout": {"200"},
	}
	for {
		select {
		case <-finished:
			return
		default:
		}
		got, err := take.queen.Pop(context.Background(), pairQueue, "", query)
		if err != nil {
			w.Error(err)
			return
		}
		byPartition := map[string][]blackbox.QueenMessage{}
		for _, m := range got {
			byPartition[m.PartitionID] = append(byPartition[m.PartitionID], m)
		}
		numbers := map[string][]int{}
		for id, list := range byPartition {
			for _, m := range list {
				var n number
				if err := json.Unmarshal(m.Data, &n); err != nil {
					w.Error(err)
				}
				numbers[id] = append(numbers[id], n.N)
			}
			w.o.take(id, list[0].LeaseID, numbers[id])
		}
		for id, list := range byPartition {
			last := list[len(list)-1]
			w.o.give(id, numbers[id])
			out, err := give.queen.Ack(context.Background(), "strict", blackbox.QueenAck{
				TransactionID: last.TransactionID, PartitionID: id, LeaseID: last.LeaseID, Status: "completed",
			})
			if err != nil || !out[0].Success {
				w.Errorf("%v: %+v", err, out)
				return
			}
		}
	}
}

// sharing pulls and acknowledges as Cloudflare's consumers do.
func (w *pair) sharing(take, give *gateway, finished <-chan struct{}) {
	for {
		select {
		case <-finished:
			return
		default:
		}
		got, err := take.cf.Pull(context.Background(), pairQueue, 20, 60_000)
		if err != nil {
			w.Error(err)
			return
		}
		if len(got) == 0 {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		leases := make([]string, len(got))
		w.mu.Lock()
		for i, m := range got {
			leases[i] = m.LeaseID
			w.shared[m.ID]++
		}
		w.mu.Unlock()
		if _, err := give.cf.Ack(context.Background(), pairQueue, leases); err != nil {
			w.Error(err)
			return
		}
	}
}

func (w *pair) check() {
	w.Helper()
	w.Logf("%d messages were queued once each and %d pushes of them were duplicates; %d exclusive batches; %d deliveries to the shared group",
		w.pushed.Load(), w.duplicates.Load(), w.o.batches, len(w.shared))
	assert.Empty(w, w.o.faults)
	assert.Equal(w, w.pushed.Load(), int64(w.o.done))
	assert.Equal(w, w.pushed.Load(), int64(len(w.shared)))
	assert.Equal(w, w.pushed.Load(), w.duplicates.Load())
	for id, n := range w.shared {
		if n != 1 {
			w.Errorf("%s was delivered %d times to the shared group", id, n)
		}
	}
	assert.Positive(w, w.pushed.Load())
}
