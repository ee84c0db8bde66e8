package queen_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
)

// TestStreamsOnce lets many workers run one stream while leases run out under them, steps are lost and others keep their lease: what
// they push and count is exactly the source, once and in order.
func TestStreamsOnce(t *testing.T) {
	for name, open := range chosenStores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBrokerOver(t, open(t), queen.Options{})
			s := &streamRun{b: b, t: t, query: b.query(t, "once")}
			const partitions, each = 12, 40
			for p := range partitions {
				b.numbers(t, fmt.Sprint("p", p), each)
			}
			s.left.Store(partitions * each)
			var wg sync.WaitGroup
			for i := range 8 {
				r := rand.New(rand.NewPCG(1, uint64(i))) //nolint:gosec // a test's dice
				wg.Go(func() {
					for s.left.Load() > 0 && !t.Failed() {
						s.step(r)
					}
				})
			}
			wg.Wait()
			s.check(each)
			t.Logf("%d steps, %d refused, %d lost, %d kept their lease", s.steps.Load(), s.refused.Load(), s.lost.Load(), s.kept.Load())
		})
	}
}

// streamRun is one run of TestStreamsOnce.
type streamRun struct {
	b                          *broker
	t                          *testing.T
	query                      string
	left                       atomic.Int64
	steps, refused, lost, kept atomic.Int64
}

// step pops, and for each partition of the batch reads the state and commits one cycle.
func (s *streamRun) step(r *rand.Rand) {
	if r.IntN(10) == 0 {
		s.b.clock.Advance(time.Duration(r.IntN(2500)) * time.Millisecond)
	}
	got, err := s.b.send(s.t.Context(), "GET", fmt.Sprintf("/api/v1/pop/queue/in?consumerGroup=s&batch=%d&partitions=3&leaseSeconds=2", 1+r.IntN(8)), "")
	var p popped
	if err != nil || got.status != 200 {
		s.b.clock.Advance(time.Second) // all is leased
		return
	}
	if err := json.Unmarshal([]byte(got.body), &p); err != nil {
		s.t.Errorf("pop: %v %s", err, got.body)
		return
	}
	for part, messages := range byPartition(p) {
		if r.IntN(8) == 0 {
			s.lost.Add(1) // the worker dies before its step
			continue
		}
		s.cycle(r, part, p.LeaseID, messages)
	}
}

func (s *streamRun) cycle(r *rand.Rand, part, lease string, messages []message) {
	var state struct {
		Rows []struct{ Value int }
	}
	got, err := s.b.send(s.t.Context(), "POST", "/streams/v1/state/get", `{"query_id":"`+s.query+`","partition_id":"`+part+`","keys":["n"]}`)
	if err != nil || json.Unmarshal([]byte(got.body), &state) != nil {
		s.t.Errorf("state: %v %s", err, got.body)
		return
	}
	n := 0
	if len(state.Rows) > 0 {
		n = state.Rows[0].Value
	}
	keep := r.IntN(4) == 0
	if keep {
		messages = messages[:1+r.IntN(len(messages))]
		s.kept.Add(1)
	}
	pushes := make([]string, 0, len(messages))
	for _, m := range messages {
		pushes = append(pushes, `{"queue":"out","partition":"`+m.Partition+`","payload":`+string(m.Data)+`}`)
	}
	body := fmt.Sprintf(`{"query_id":"%s","partition_id":"%s","consumer_group":"s","state_ops":[%s],"push_items":[%s],"release_lease":%t,"ack":{"transactionId":"%s","leaseId":"%s","status":"completed","count":%d}}`,
		s.query, part, upsert("n", strconv.Itoa(n+len(messages))), strings.Join(pushes, ","), !keep, messages[len(messages)-1].TransactionID, lease, len(messages))
	for range 1 + r.IntN(2) { // an answer that was lost: the client sends it again
		var out cycled
		got, err = s.b.send(s.t.Context(), "POST", "/streams/v1/cycle", body)
		if err != nil || json.Unmarshal([]byte(got.body), &out) != nil {
			s.t.Errorf("cycle: %v %s", err, got.body)
			return
		}
		s.steps.Add(1)
		if !out.Success {
			s.refused.Add(1)
			continue
		}
		s.left.Add(-int64(out.AckResult.Count))
	}
}

// check reads the sink and the state.
func (s *streamRun) check(each int) {
	s.t.Helper()
	want := make([]int, each)
	for i := range want {
		want[i] = i + 1
	}
	seen := map[string][]int{}
	for {
		p := s.b.pop(s.t, "/queue/out?batch=1000&partitions=0&autoAck=true")
		if len(p.Messages) == 0 {
			break
		}
		for _, m := range p.Messages {
			seen[m.Partition] = append(seen[m.Partition], number(s.t, m.Data))
		}
	}
	for partition, numbers := range seen {
		require.True(s.t, slices.Equal(want, numbers), "%s: %v", partition, numbers)
	}
	parts := map[string]bool{}
	for {
		p := s.b.pop(s.t, "/queue/in?consumerGroup=look&batch=1000&partitions=0&autoAck=true")
		if len(p.Messages) == 0 {
			break
		}
		for _, m := range p.Messages {
			parts[m.PartitionID] = true
		}
	}
	require.Len(s.t, seen, len(parts))
	for id := range parts {
		require.Equal(s.t, []string{fmt.Sprint("n=", each)}, s.b.state(s.t, s.query, id, ""))
	}
}
