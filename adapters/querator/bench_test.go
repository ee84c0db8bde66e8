package querator_test

import (
	"context"
	"fmt"
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

// benchStores are what the benchmarks run over.
var benchStores = map[string]func(b *testing.B) core.Store{
	"memory": func(*testing.B) core.Store { return memory.New() },
	"sqlite": func(b *testing.B) core.Store {
		b.Helper()
		s, err := sqlite.Open(b.Context(), b.TempDir(), sqlite.Options{})
		require.NoError(b, err)
		return s
	},
}

// benchHandler is a listener over a store with the system's clock.
func benchHandler(b *testing.B, store core.Store) http.Handler {
	b.Helper()
	engine, err := core.New(b.Context(), store, core.Options{})
	require.NoError(b, err)
	b.Cleanup(func() {
		_ = engine.Shutdown(context.Background())
		_ = store.Close()
	})
	h := querator.New(engine, querator.Options{})
	benchPost(b, h, "/v1/queues.create", `{"queue_name":"q","lease_timeout":"1m","expire_timeout":"1h","requested_partitions":1}`)
	return h
}

func benchPost(b *testing.B, h http.Handler, path, body string) string {
	b.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		b.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// eachBench runs a benchmark over each store with batches of one and of a hundred.
func eachBench(b *testing.B, f func(b *testing.B, h http.Handler, batch int)) {
	b.Helper()
	for name, open := range benchStores {
		for _, n := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/batch=%d", name, n), func(b *testing.B) {
				f(b, benchHandler(b, open(b)), n)
				b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "items/s")
			})
		}
	}
}

// benchItems is a queue.produce of n items of 100 bytes.
func benchItems(n int) string {
	item := `{"utf8":"` + strings.Repeat("x", 100) + `"}`
	return `{"queue_name":"q","request_timeout":"1m","items":[` + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + `]}`
}

func BenchmarkProduce(b *testing.B) {
	eachBench(b, func(b *testing.B, h http.Handler, batch int) {
		b.Helper()
		body := benchItems(batch)
		b.ReportAllocs()
		b.SetParallelism(16)
		b.ResetTimer()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				benchPost(b, h, "/v1/queue.produce", body)
			}
		})
	})
}

func BenchmarkLeaseAndComplete(b *testing.B) {
	eachBench(b, func(b *testing.B, h http.Handler, batch int) {
		b.Helper()
		body := benchItems(1000)
		for range (b.N*batch + 40*batch + 999) / 1000 {
			benchPost(b, h, "/v1/queue.produce", body)
		}
		b.ReportAllocs()
		b.SetParallelism(16)
		b.ResetTimer()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				reply := benchPost(b, h, "/v1/queue.lease", fmt.Sprintf(`{"queue_name":"q","client_id":"%p","batch_size":%d,"request_timeout":"1m"}`, p, batch))
				ids := make([]string, 0, batch)
				for _, part := range strings.Split(reply, `"id":"`)[1:] {
					ids = append(ids, part[:27])
				}
				benchPost(b, h, "/v1/queue.complete", `{"queue_name":"q","request_timeout":"1m","ids":["`+strings.Join(ids, `","`)+`"]}`)
			}
		})
	})
}
