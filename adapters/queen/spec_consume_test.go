package queen_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// consume pops, handles and acks as the SDK's consumer does until a pop is empty; handle returns an error's text or "".
func (b *broker) consume(t *testing.T, path string, handle func(message) string) {
	t.Helper()
	_, query, _ := strings.Cut(path, "consumerGroup=")
	group, _, _ := strings.Cut(query, "&")
	for {
		p := b.pop(t, path)
		if len(p.Messages) == 0 {
			return
		}
		failed := ""
		for _, m := range p.Messages {
			if failed = handle(m); failed != "" {
				break
			}
		}
		items := []string{}
		for _, m := range p.Messages {
			status := map[bool]string{true: "completed", false: "failed"}[failed == ""]
			items = append(items, `{"transactionId":"`+m.TransactionID+`","partitionId":"`+m.PartitionID+`","leaseId":"`+m.LeaseID+`","status":"`+status+`","error":"`+failed+`"}`)
		}
		b.post(t, "/api/v1/ack/batch", `{"acknowledgments":[`+strings.Join(items, ",")+`],"consumerGroup":"`+group+`"}`, 200)
	}
}

func sdkConsumer(t *testing.T, b *broker) {
	t.Helper()
	b.numbers(t, "a", 25)
	for _, batch := range []int{1, 4, 10} {
		got := []int{}
		b.consume(t, fmt.Sprintf("/queue/in?batch=%d&consumerGroup=g%d", batch, batch), func(m message) string {
			got = append(got, number(t, m.Data))
			return ""
		})
		assert.Len(t, got, 25)
		assert.True(t, slices.IsSorted(got))
	}
}

func sdkConsumerPartition(t *testing.T, b *broker) {
	t.Helper()
	b.numbers(t, "a", 3)
	b.numbers(t, "b", 4)
	n := 0
	b.consume(t, "/queue/in/partition/b?batch=2", func(m message) string { n++; assert.Equal(t, "b", m.Partition); return "" })
	assert.Equal(t, 4, n)
}

func sdkConsumerBatch(t *testing.T, b *broker) {
	t.Helper()
	b.numbers(t, "a", 10)
	sizes := make([]int, 0, 3)
	for range 3 {
		p := b.pop(t, "/queue/in?batch=4")
		sizes = append(sizes, len(p.Messages))
		b.ack(t, "", p.PartitionID, p.LeaseID, p.ids()[len(p.Messages)-1]+"=completed")
	}
	assert.Equal(t, []int{4, 4, 2}, sizes)
}

func sdkConsumerGroup(t *testing.T, b *broker) {
	t.Helper()
	b.numbers(t, "a", 5)
	for _, group := range []string{"g", "h", ""} {
		n := 0
		b.consume(t, "/queue/in?batch=2&consumerGroup="+group, func(message) string { n++; return "" })
		assert.Equal(t, 5, n, "backlog without a mode, for each group")
	}
}

func sdkConsumerConcurrency(t *testing.T, b *broker) {
	t.Helper()
	for i := range 10 {
		b.numbers(t, fmt.Sprint("p", i), 30)
	}
	var mu sync.Mutex
	got := map[string][]int{}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			b.consume(t, "/queue/in?batch=7&consumerGroup=g&partitions=2", func(m message) string {
				mu.Lock()
				defer mu.Unlock()
				got[m.Partition] = append(got[m.Partition], number(t, m.Data))
				return ""
			})
		})
	}
	wg.Wait()
	b.consume(t, "/queue/in?batch=7&consumerGroup=g", func(m message) string { got[m.Partition] = append(got[m.Partition], number(t, m.Data)); return "" })
	assert.Len(t, got, 10)
	for partition, numbers := range got {
		assert.Len(t, numbers, 30, partition)
		assert.True(t, slices.IsSorted(numbers), "in order, with five workers")
	}
}

func sdkConsumerIdle(t *testing.T, b *broker) {
	t.Helper()
	b.numbers(t, "a", 1)
	p := asPopped(t, b.do(t, http.MethodGet, "/api/v1/pop/queue/in?batch=1&wait=true&timeout=1000", ""))
	b.ack(t, "", p.PartitionID, p.LeaseID, p.ids()[0]+"=completed")
	parked := b.park(t.Context(), t, "in", "/queue/in?batch=1&wait=true&timeout=1000")
	b.clock.Advance(time.Second)
	assert.Equal(t, 204, (<-parked).status)
}

func sdkSubscriptionNew(t *testing.T, b *broker) {
	t.Helper()
	b.numbers(t, "a", 3)
	b.clock.Advance(time.Second)
	for group, query := range map[string]string{"g": "subscriptionMode=new", "h": "subscriptionFrom=now"} {
		assert.Empty(t, b.pop(t, "/queue/in?batch=9&consumerGroup="+group+"&"+query).Messages)
	}
	b.numbers(t, "a", 2)
	for group, query := range map[string]string{"g": "subscriptionMode=new", "h": "subscriptionFrom=now"} {
		assert.Len(t, b.pop(t, "/queue/in?batch=9&consumerGroup="+group+"&"+query).Messages, 2)
	}
}

func sdkSubscriptionAll(t *testing.T, b *broker) {
	t.Helper()
	b.numbers(t, "a", 2)
	b.clock.Advance(2 * time.Second)
	from := b.clock.Now().Std().Format(time.RFC3339)
	b.clock.Advance(500 * time.Millisecond)
	b.numbers(t, "a", 3)
	assert.Len(t, b.pop(t, "/queue/in?batch=9&consumerGroup=g&subscriptionMode=all").Messages, 5)
	assert.Len(t, b.pop(t, "/queue/in?batch=9&consumerGroup=h&subscriptionFrom="+from).Messages, 3)
}

func sdkManualAck(t *testing.T, b *broker) {
	t.Helper()
	b.numbers(t, "a", 3)
	p := b.pop(t, "/queue/in?batch=3&leaseSeconds=10")
	b.clock.Advance(10 * time.Second)
	again := b.pop(t, "/queue/in?batch=3")
	assert.Equal(t, p.ids(), again.ids(), "nobody acked")
	for _, m := range again.Messages {
		assert.True(t, b.ack(t, "", m.PartitionID, m.LeaseID, m.TransactionID+"=completed")[0].Success)
	}
}

func sdkRetries(t *testing.T, b *broker) {
	t.Helper()
	b.numbers(t, "a", 100)
	calls := 0
	done := map[string]bool{}
	b.consume(t, "/queue/in?batch=100", func(m message) string {
		if calls++; calls <= 2 {
			return "boom"
		}
		done[m.TransactionID] = true
		return ""
	})
	assert.Len(t, done, 100)
	assert.Empty(t, b.letters(t, ""))
}

// sdkBootstrap is a group that begins over many partitions: nothing is written for each of them.
func sdkBootstrap(t *testing.T, b *broker) {
	t.Helper()
	const partitions = 5000
	for first := 0; first < partitions; first += 1000 {
		items := make([]string, 1000)
		for i := range items {
			items[i] = fmt.Sprintf(`{"queue":"q","partition":"p%d","payload":1}`, first+i)
		}
		b.push(t, `{"items":[`+strings.Join(items, ",")+`]}`)
	}
	seen := map[string]bool{}
	for len(seen) < partitions {
		p := b.pop(t, "/queue/q?batch=1000&partitions=0&autoAck=true&consumerGroup=g")
		require.NotEmpty(t, p.Messages, "%d partitions so far", len(seen))
		for _, m := range p.Messages {
			assert.False(t, seen[m.Partition])
			seen[m.Partition] = true
		}
	}
	assert.Empty(t, b.pop(t, "/queue/q?consumerGroup=g").Messages)
	assert.Empty(t, b.pop(t, "/queue/q?consumerGroup=fresh&subscriptionMode=new").Messages)
}
