package queen_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/adapters/queen"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/memory"
)

// serve calls the handler without a network.
func serve(b *testing.B, h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	b.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code >= http.StatusBadRequest {
		b.Fatalf("%d %s", w.Code, w.Body.String())
	}
	return w
}

func newHandler(b *testing.B) http.Handler {
	b.Helper()
	engine, err := core.New(context.WithoutCancel(b.Context()), memory.New(), core.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return queen.New(engine, queen.Options{})
}

// BenchmarkPush measures the adapter and the engine over the memory store.
func BenchmarkPush(b *testing.B) {
	item := `{"queue":"q","partition":"p","payload":{"orderId":8891,"note":"` + strings.Repeat("x", 60) + `"}}`
	for name, body := range map[string]string{
		"1": `{"items":[` + item + `]}`, "100": `{"items":[` + item + strings.Repeat(","+item, 99) + `]}`,
	} {
		b.Run(name, func(b *testing.B) {
			h := newHandler(b)
			b.ReportAllocs()
			for b.Loop() {
				serve(b, h, http.MethodPost, "/api/v1/push", body)
			}
		})
	}
}

// BenchmarkPopAck pops a batch of 100 and acknowledges its last message.
func BenchmarkPopAck(b *testing.B) {
	h := newHandler(b)
	item := `{"queue":"q","partition":"p","payload":{"orderId":8891,"note":"` + strings.Repeat("x", 60) + `"}}`
	body := `{"items":[` + item + strings.Repeat(","+item, 99) + `]}`
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		serve(b, h, http.MethodPost, "/api/v1/push", body)
		b.StartTimer()
		w := serve(b, h, http.MethodGet, "/api/v1/pop/queue/q?batch=100", "")
		b.StopTimer()
		var p popped
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || len(p.Messages) != 100 {
			b.Fatal(err, len(p.Messages))
		}
		b.StartTimer()
		serve(b, h, http.MethodPost, "/api/v1/ack", `{"transactionId":"`+p.Messages[99].TransactionID+`","partitionId":"`+p.PartitionID+`","leaseId":"`+p.LeaseID+`"}`)
	}
}
