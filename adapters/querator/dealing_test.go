package querator_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/querator"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/memory"
	"github.com/leasehold/leasehold/store/sqlite"
)

// network is a listener on a real connection, with the system's clock.
type network struct {
	*fixture
	url string
}

func newNetwork(t *testing.T, store core.Store) *network {
	t.Helper()
	engine, err := core.New(t.Context(), store, core.Options{SourceID: querator.SourceID})
	require.NoError(t, err)
	server := httptest.NewServer(querator.New(engine, querator.Options{}))
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, engine.Shutdown(context.Background()))
		require.NoError(t, store.Close())
	})
	return &network{&fixture{t: t, engine: engine}, server.URL}
}

func (n *network) call(path, body string) answer {
	r, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, n.url+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{body: err.Error()}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{body: err.Error()}
	}
	return answer{res.StatusCode, res.Header, string(b)}
}

// beside sends a request from a connection of its own.
func (n *network) beside(path, body string) <-chan answer {
	c := make(chan answer, 1)
	go func() { c <- n.call(path, body) }()
	return c
}

func (n *network) make(partitions int) {
	n.t.Helper()
	a := n.call("/v1/queues.create", fmt.Sprintf(`{"queue_name":"q","lease_timeout":"10m","expire_timeout":"1h","requested_partitions":%d}`, partitions))
	require.Equal(n.t, 200, a.status, a.body)
}

func eachStore(t *testing.T, f func(t *testing.T, n *network)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { f(t, newNetwork(t, memory.New())) })
	t.Run("sqlite", func(t *testing.T) {
		store, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
		require.NoError(t, err)
		f(t, newNetwork(t, store))
	})
}

func TestItemsAreDealtOverTheNetwork(t *testing.T) {
	for _, tt := range []struct {
		batches []int
		items   int
		want    []int
	}{
		{[]int{20, 6, 1}, 23, []int{16, 6, 1}},
		{[]int{10, 10, 10, 10, 10}, 7, []int{2, 2, 1, 1, 1}},
		{[]int{5, 10, 20}, 100, []int{5, 10, 20}},
	} {
		t.Run(fmt.Sprintf("%d over %v", tt.items, tt.batches), func(t *testing.T) {
			eachStore(t, func(t *testing.T, n *network) {
				t.Helper()
				n.make(1)
				answers := make([]<-chan answer, len(tt.batches))
				for i, batch := range tt.batches {
					answers[i] = n.beside("/v1/queue.lease", leaseBody("q", fmt.Sprintf("c%d", i), batch, "1m"))
					n.waiting("q", i+1)
				}
				require.Equal(t, 200, n.call("/v1/queue.produce", produceBody(tt.items)).status)
				for i := range answers {
					require.Len(t, soon(t, answers[i]).items(t), tt.want[i], "client %d", i)
				}
			})
		})
	}
}

func TestTenPartitionsAreDrainedByOneClient(t *testing.T) {
	eachStore(t, func(t *testing.T, n *network) {
		t.Helper()
		n.make(10)
		for range 10 {
			require.Equal(t, 200, n.call("/v1/queue.produce", produceBody(5)).status)
		}
		seen := map[string]bool{}
		for range 10 {
			a := n.call("/v1/queue.lease", leaseBody("q", "c", 5, "10s"))
			require.Len(t, a.items(t), 5)
			for _, it := range a.items(t) {
				id, _ := it["id"].(string)
				require.False(t, seen[id])
				seen[id] = true
			}
		}
		require.Len(t, seen, 50)
		require.Equal(t, 454, n.call("/v1/queue.lease", leaseBody("q", "c", 5, "20ms")).status)
	})
}

func TestLargestAndFewestDecideOverPartitions(t *testing.T) {
	n := newNetwork(t, memory.New())
	n.make(2)
	for range 5 {
		require.Equal(t, 200, n.call("/v1/queue.produce", produceBody(10)).status)
	}
	for _, batch := range []int{5, 10, 20} {
		require.Len(t, n.call("/v1/queue.lease", leaseBody("q", "c", batch, "10s")).items(t), batch)
	}
	stats, err := n.engine.QueueStats(t.Context(), "q", "")
	require.NoError(t, err)
	require.Equal(t, int64(30), stats.Partitions[0].Pending.Messages)
	require.Equal(t, int64(15), stats.Partitions[0].Leased.Messages)
	require.Equal(t, int64(20), stats.Partitions[1].Pending.Messages)
	require.Equal(t, int64(20), stats.Partitions[1].Leased.Messages)
}
