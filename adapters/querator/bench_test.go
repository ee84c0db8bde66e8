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
)

// benchHandler is a listener over the memory store with the system's clock.
func benchHandler(b *testing.B) http.Handler {
	b.Helper()
	store := memory.New()
	engine, err := core.New(b.Context(), store, core.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { _ = engine.Shutdown(context.Background()) })
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

func BenchmarkProduce(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			h := benchHandler(b)
			item := `{"utf8":"` + strings.Repeat("x", 100) + `"}`
			body := `{"queue_name":"q","request_timeout":"1m","items":[` + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + `]}`
			b.ReportAllocs()
			b.SetParallelism(16)
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					benchPost(b, h, "/v1/queue.produce", body)
				}
			})
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "items/s")
		})
	}
}

func BenchmarkLeaseAndComplete(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			h := benchHandler(b)
			item := `{"utf8":"` + strings.Repeat("x", 100) + `"}`
			body := `{"queue_name":"q","request_timeout":"1m","items":[` + strings.TrimSuffix(strings.Repeat(item+",", 1000), ",") + `]}`
			for range (b.N*n + 40*n + 999) / 1000 {
				benchPost(b, h, "/v1/queue.produce", body)
			}
			b.ReportAllocs()
			b.SetParallelism(16)
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					reply := benchPost(b, h, "/v1/queue.lease", fmt.Sprintf(`{"queue_name":"q","client_id":"%p","batch_size":%d,"request_timeout":"1m"}`, p, n))
					ids := make([]string, 0, n)
					for _, part := range strings.Split(reply, `"id":"`)[1:] {
						ids = append(ids, part[:27])
					}
					benchPost(b, h, "/v1/queue.complete", `{"queue_name":"q","request_timeout":"1m","ids":["`+strings.Join(ids, `","`)+`"]}`)
				}
			})
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "items/s")
		})
	}
}
