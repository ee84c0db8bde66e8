package postgres_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
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

	// said is what all clients said.
	said history

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
		consumers.Go(func() { w.exclusive(100+i, g, w.gateways[(i/2)%2], finished) })
		consumers.Go(func() { w.sharing(200+i, g, w.gateways[(i/2)%2], finished) })
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
		if !w.pushTwice(line, next[p], batch) {
			return
		}
		w.pushed.Add(int64(len(batch)))
	}
}

// pushTwice pushes a batch to one partition, which ends with the number last there, through both gateways at once.
func (w *pair) pushTwice(line, last int, batch []blackbox.QueenItem) bool {
	statuses, times := make([][]string, 2), make([]span, 2)
	var both sync.WaitGroup
	for n := range statuses {
		both.Go(func() {
			times[n] = begin()
			statuses[n] = w.push(w.gateways[n], batch)
			times[n] = times[n].end()
		})
	}
	both.Wait()
	for n := range statuses {
		if len(statuses[n]) != len(batch) || slices.ContainsFunc(statuses[n], func(s string) bool { return s != statuses[n][0] }) {
			w.Errorf("a push was not answered as one: %v", statuses)
			return false
		}
	}
	if a, b := statuses[0][0], statuses[1][0]; a == b || a != "queued" && a != "duplicate" || b != "queued" && b != "duplicate" {
		w.Errorf("%s was not queued once and a duplicate once: %v", batch[0].TransactionID, statuses)
	}
	w.duplicates.Add(int64(len(batch)))
	for n := range statuses {
		queued := statuses[n][0] == "queued"
		w.said.add(partitionObject(batch[0].Partition), 2*line+n, times[n], pushed{last - len(batch) + 1, last, queued})
		for k := range batch {
			// As the shared group sees it, a message is a row of one.
			w.said.add(messageObject(batch[k].Partition, last-len(batch)+1+k), 2*line+n, times[n], pushed{1, 1, queued})
		}
	}
	return true
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

// exclusive pops at one gateway and acknowledges at another, as a group of its own. Now and then it does not wait, and is told at once whether there
// is something.
func (w *pair) exclusive(client int, take, give *gateway, finished <-chan struct{}) {
	for round := 0; ; round++ {
		select {
		case <-finished:
			return
		default:
		}
		query := url.Values{"batch": {"20"}, "partitions": {"3"}, "consumerGroup": {"strict"}, "subscriptionMode": {"all"}, "leaseSeconds": {"60"}}
		if round%4 != 0 {
			query.Set("wait", "true")
			query.Set("timeout", "200")
		}
		asked := begin()
		got, err := take.queen.Pop(context.Background(), pairQueue, "", query)
		asked = asked.end()
		if err != nil {
			w.Error(err)
			return
		}
		if len(got) == 0 && w.partitions == 1 {
			w.said.add(partitionObject("0"), client, asked, nothing{})
		}
		byPartition := map[string][]blackbox.QueenMessage{}
		for _, m := range got {
			byPartition[m.Partition] = append(byPartition[m.Partition], m)
		}
		for p, list := range byPartition {
			if !w.settle(client, give, asked, p, list) {
				return
			}
		}
	}
}

// settle notes what was taken of a partition and completes it.
func (w *pair) settle(client int, give *gateway, asked span, p string, list []blackbox.QueenMessage) bool {
	last := list[len(list)-1]
	numbers := make([]int, len(list))
	for i, m := range list {
		var n number
		if err := json.Unmarshal(m.Data, &n); err != nil {
			w.Error(err)
		}
		numbers[i] = n.N
	}
	w.o.take(last.PartitionID, last.LeaseID, numbers)
	w.said.add(partitionObject(p), client, asked, taken{numbers[0], numbers[len(numbers)-1], last.LeaseID})
	w.o.give(last.PartitionID, numbers)
	sent := begin()
	out, err := give.queen.Ack(context.Background(), "strict", blackbox.QueenAck{
		TransactionID: last.TransactionID, PartitionID: last.PartitionID, LeaseID: last.LeaseID, Status: "completed",
	})
	if err != nil || !out[0].Success {
		w.Errorf("%v: %+v", err, out)
		return false
	}
	w.said.add(partitionObject(p), client, sent.end(), settled{last.LeaseID})
	return true
}

// sharing pulls and acknowledges as Cloudflare's consumers do.
func (w *pair) sharing(client int, take, give *gateway, finished <-chan struct{}) {
	for {
		select {
		case <-finished:
			return
		default:
		}
		asked := begin()
		got, err := take.cf.Pull(context.Background(), pairQueue, 20, 60_000)
		asked = asked.end()
		if err != nil {
			w.Error(err)
			return
		}
		if len(got) == 0 {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		leases, objects := make([]string, len(got)), make([]string, len(got))
		w.mu.Lock()
		for i, m := range got {
			leases[i] = m.LeaseID
			w.shared[m.ID]++
		}
		w.mu.Unlock()
		for i, m := range got {
			var n number
			body, err := base64.StdEncoding.DecodeString(m.Body)
			if err != nil || json.Unmarshal(body, &n) != nil {
				w.Errorf("%v in %s", err, m.Body)
			}
			objects[i] = messageObject(n.P, n.N)
			w.said.add(objects[i], client, asked, taken{1, 1, m.LeaseID})
		}
		sent := begin()
		if _, err := give.cf.Ack(context.Background(), pairQueue, leases); err != nil {
			w.Error(err)
			return
		}
		sent = sent.end()
		for i := range got {
			w.said.add(objects[i], client, sent, settled{leases[i]})
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
	began := time.Now()
	objects, operations := w.said.check(w.T)
	w.Logf("an order was found for each of %d objects, of %d operations in all, in %s", objects, operations, time.Since(began).Round(time.Millisecond))
}
