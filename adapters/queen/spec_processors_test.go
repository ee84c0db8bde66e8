package queen_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// streamSDKRules are what the SDK's stream processors do, in the calls that they make.
var streamSDKRules = []rule{
	{covers: "8.1 TestGateTokenBucketBasic", run: sdkGate},
	{covers: "8.1 TestStreamMapFilterSink, 8.1 TestStreamAsyncMap", run: sdkMapFilter},
	{covers: "8.1 TestStreamFlatMapFanout", run: sdkFlatMap},
	{covers: "8.1 TestStreamForeachCapturesAll", run: sdkForeach},
	{covers: "8.1 TestStreamKeyByDoesNotCrash", run: sdkKeyBy},
	{covers: "8.1 TestTumblingBasicWindowSum, 8.1 TestTumblingAggregateAllStats, 8.2 stream windows", run: sdkWindow},
	{covers: "8.1 TestTumblingIdleFlushClosesQuietPartitions", run: sdkIdleFlush},
	{covers: "8.2 stream recovery", run: sdkRecovery},
}

// runStream pops, maps and cycles until nothing comes, as the SDK's runner does; step makes the push items and state ops of a batch.
func (b *broker) runStream(t *testing.T, query string, step func(p popped) (pushes, ops []string)) {
	t.Helper()
	for {
		p := b.pop(t, "/queue/in?consumerGroup=s&batch=3&partitions=2&wait=false&subscriptionMode=all")
		if len(p.Messages) == 0 {
			return
		}
		for part, messages := range byPartition(p) {
			sub := popped{LeaseID: p.LeaseID, PartitionID: part, Messages: messages}
			pushes, ops := step(sub)
			out := b.cycle(t, query, part, `,"state_ops":[`+strings.Join(ops, ",")+`],"push_items":[`+strings.Join(pushes, ",")+`]`+
				cycleAckOf(p, messages[len(messages)-1].TransactionID, fmt.Sprintf(`,"count":%d`, len(messages))))
			require.True(t, out.Success, out.Error)
		}
	}
}

func byPartition(p popped) map[string][]message {
	out := map[string][]message{}
	for _, m := range p.Messages {
		out[m.PartitionID] = append(out[m.PartitionID], m)
	}
	return out
}

// numbers pushes {"n":i} for 1 to n into partition p.
func (b *broker) numbers(t *testing.T, partition string, n int) {
	t.Helper()
	items := []string{}
	for i := 1; i <= n; i++ {
		items = append(items, fmt.Sprintf(`{"queue":"in","partition":"%s","payload":{"n":%d}}`, partition, i))
	}
	b.push(t, `{"items":[`+strings.Join(items, ",")+`]}`)
}

func number(t *testing.T, data []byte) int {
	t.Helper()
	var v struct{ N int }
	require.NoError(t, json.Unmarshal(data, &v))
	return v.N
}

// sink reads the numbers in the sink.
func (b *broker) sink(t *testing.T) (out []int) {
	t.Helper()
	for _, m := range b.pop(t, "/queue/out?batch=1000&partitions=0&autoAck=true").Messages {
		out = append(out, number(t, m.Data))
	}
	slices.Sort(out)
	return out
}

func toSink(partition string, n int) string {
	return fmt.Sprintf(`{"queue":"out","partition":"%s","payload":{"n":%d}}`, partition, n)
}

func sdkMapFilter(t *testing.T, b *broker) {
	t.Helper()
	b.numbers(t, "a", 10)
	b.runStream(t, b.query(t, "n"), func(p popped) (pushes, _ []string) {
		for _, m := range p.Messages {
			if n := number(t, m.Data); n%2 == 0 {
				pushes = append(pushes, toSink(m.Partition, n*10))
			}
		}
		return pushes, nil
	})
	assert.Equal(t, []int{20, 40, 60, 80, 100}, b.sink(t))
}

func sdkFlatMap(t *testing.T, b *broker) {
	t.Helper()
	b.numbers(t, "a", 4)
	b.runStream(t, b.query(t, "n"), func(p popped) (pushes, _ []string) {
		for _, m := range p.Messages {
			for range number(t, m.Data) {
				pushes = append(pushes, toSink(m.Partition, number(t, m.Data)))
			}
		}
		return pushes, nil
	})
	assert.Equal(t, []int{1, 2, 2, 3, 3, 3, 4, 4, 4, 4}, b.sink(t))
}

func sdkForeach(t *testing.T, b *broker) {
	t.Helper()
	b.numbers(t, "a", 7)
	b.numbers(t, "b", 5)
	seen := 0
	b.runStream(t, b.query(t, "n"), func(p popped) (_, _ []string) { seen += len(p.Messages); return nil, nil })
	assert.Equal(t, 12, seen)
	assert.Empty(t, b.sink(t))
}

func sdkKeyBy(t *testing.T, b *broker) {
	t.Helper()
	b.numbers(t, "a", 9)
	b.runStream(t, b.query(t, "n"), func(p popped) (pushes, _ []string) {
		for _, m := range p.Messages {
			pushes = append(pushes, toSink(fmt.Sprint("key", number(t, m.Data)%3), number(t, m.Data)))
		}
		return pushes, nil
	})
	p := b.pop(t, "/queue/out?batch=100&partitions=0")
	assert.Equal(t, 3, p.PartitionsClaimed)
	for _, messages := range byPartition(p) {
		assert.Len(t, messages, 3)
	}
}

type window struct {
	Sum, Count, Min, Max int
	WindowEnd            int64 `json:"windowEnd"`
}

// sdkWindow sums numbers in tumbling windows of a second, kept in state and closed when they are ripe.
func sdkWindow(t *testing.T, b *broker) {
	t.Helper()
	q := b.query(t, "n")
	part := ""
	for range 3 {
		b.numbers(t, "a", 4)
		b.runStream(t, q, func(p popped) (_, ops []string) {
			part = p.PartitionID
			byEnd := map[int64]*window{}
			for _, m := range p.Messages {
				at, err := time.Parse(time.RFC3339Nano, m.CreatedAt)
				require.NoError(t, err)
				end := (at.UnixMilli()/1000 + 1) * 1000
				w := byEnd[end]
				if w == nil {
					w = &window{Min: 1 << 30, WindowEnd: end}
					for _, row := range b.state(t, q, part, fmt.Sprintf(`,"keys":["w/%d"]`, end)) {
						_, value, _ := strings.Cut(row, "=")
						require.NoError(t, json.Unmarshal([]byte(value), w))
					}
					byEnd[end] = w
				}
				n := number(t, m.Data)
				w.Sum, w.Count, w.Min, w.Max = w.Sum+n, w.Count+1, min(w.Min, n), max(w.Max, n)
			}
			for end, w := range byEnd {
				value, err := json.Marshal(map[string]any{"Sum": w.Sum, "Count": w.Count, "Min": w.Min, "Max": w.Max, "windowEnd": w.WindowEnd})
				require.NoError(t, err)
				ops = append(ops, upsert(fmt.Sprintf("w/%d", end), string(value)))
			}
			return nil, ops
		})
		b.clock.Advance(time.Second)
	}
	now := b.clock.Now().Milli()
	ripe := b.state(t, q, part, fmt.Sprintf(`,"key_prefix":"w/","ripe_at_or_before":%d`, now-1000))
	assert.Len(t, ripe, 2, "two of three have ended")
	for _, row := range b.state(t, q, part, "") {
		var w window
		_, value, _ := strings.Cut(row, "=")
		require.NoError(t, json.Unmarshal([]byte(value), &w))
		assert.Equal(t, []int{10, 4, 1, 4}, []int{w.Sum, w.Count, w.Min, w.Max})
	}
}

// sdkIdleFlush closes a window of a partition that has fallen quiet: a step without an acknowledgement.
func sdkIdleFlush(t *testing.T, b *broker) {
	t.Helper()
	q := b.query(t, "n")
	b.numbers(t, "a", 3)
	part := ""
	b.runStream(t, q, func(p popped) (_, ops []string) {
		part = p.PartitionID
		return nil, []string{upsert("w", `{"n":6,"windowEnd":1}`)}
	})
	require.Len(t, b.state(t, q, part, `,"ripe_at_or_before":5`), 1)
	out := b.cycle(t, q, part, `,"state_ops":[{"type":"delete","key":"w"}],"push_items":[`+toSink("a", 6)+`],"ack":null,"release_lease":false`)
	require.True(t, out.Success)
	assert.Nil(t, out.AckResult)
	assert.Equal(t, []int{6}, b.sink(t))
	assert.Empty(t, b.state(t, q, part, ""))
}

// sdkGate lets two of five through, and the rest only once the lease is over: the bucket is full again then.
func sdkGate(t *testing.T, b *broker) {
	t.Helper()
	q := b.query(t, "n")
	b.numbers(t, "a", 5)
	order := make([]int, 0, 5)
	for range 3 {
		p := b.pop(t, "/queue/in?consumerGroup=s&batch=5&leaseSeconds=1")
		allowed := p.Messages[:min(2, len(p.Messages))]
		pushes := make([]string, 0, len(allowed))
		for _, m := range allowed {
			order = append(order, number(t, m.Data))
			pushes = append(pushes, toSink("a", number(t, m.Data)))
		}
		out := b.cycle(t, q, p.PartitionID, `,"push_items":[`+strings.Join(pushes, ",")+`],"release_lease":false`+
			cycleAckOf(p, allowed[len(allowed)-1].TransactionID, fmt.Sprintf(`,"count":%d`, len(allowed))))
		require.True(t, out.Success)
		require.Equal(t, len(allowed), out.AckResult.Count)
		require.Empty(t, b.pop(t, "/queue/in?consumerGroup=s&batch=5").Messages)
		b.clock.Advance(time.Second)
	}
	assert.Equal(t, []int{1, 2, 3, 4, 5}, order)
	assert.Equal(t, []int{1, 2, 3, 4, 5}, b.sink(t))
}

// sdkRecovery loses the answer of a step, restarts, and does the work again: once.
func sdkRecovery(t *testing.T, b *broker) {
	t.Helper()
	q := b.query(t, "n")
	b.numbers(t, "a", 4)
	p := b.pop(t, "/queue/in?consumerGroup=s&batch=2&leaseSeconds=10")
	step := `,"push_items":[` + toSink("a", 1) + `,` + toSink("a", 2) + `],"state_ops":[` + upsert("done", "2") + `]` + cycleAckOf(p, p.Messages[1].TransactionID, `,"count":2`)
	require.True(t, b.cycle(t, q, p.PartitionID, step).Success)
	b.restart(t)
	assert.False(t, b.cycle(t, q, p.PartitionID, step).Success, "sent again by the client")
	p = b.pop(t, "/queue/in?consumerGroup=s&batch=10&leaseSeconds=10")
	require.Len(t, p.Messages, 2)
	b.restart(t) // before the step: nothing of it is there
	b.clock.Advance(11 * time.Second)
	p = b.pop(t, "/queue/in?consumerGroup=s&batch=10")
	require.Equal(t, []int{3, 4}, []int{number(t, p.Messages[0].Data), number(t, p.Messages[1].Data)})
	require.True(t, b.cycle(t, q, p.PartitionID, `,"push_items":[`+toSink("a", 3)+`,`+toSink("a", 4)+`]`+cycleAckOf(p, p.Messages[1].TransactionID, "")).Success)
	assert.Equal(t, []int{1, 2, 3, 4}, b.sink(t))
	assert.Equal(t, []string{"done=2"}, b.state(t, q, p.PartitionID, ""))
}
