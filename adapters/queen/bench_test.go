package queen

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

func pushBody(n int) []byte {
	items := make([]string, n)
	for i := range items {
		items[i] = `{"queue":"orders.created","partition":"customer-42","payload":{"orderId":8891,"total":4200,"note":"` + strings.Repeat("x", 60) + `"}}`
	}
	return []byte(`{"items":[` + strings.Join(items, ",") + `]}`)
}

func BenchmarkDecodePush100(b *testing.B) {
	body := pushBody(100)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodePush(body); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodePush100Std is what encoding/json takes for the same body.
func BenchmarkDecodePush100Std(b *testing.B) {
	body := pushBody(100)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var v struct {
			Items []struct {
				Queue, Partition, TransactionID string
				Payload                         json.RawMessage
			}
		}
		if err := json.Unmarshal(body, &v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodePop100(b *testing.B) {
	got := core.Claimed{Lease: uuid.New(), Partitions: []core.ClaimedPartition{{Partition: core.Partition{ID: uuid.New(), Name: "customer-42"}}}}
	for range 100 {
		var d core.Delivery
		d.ID = uuid.New()
		d.AppendedAt = 1767323045000000
		d.Payload = []byte(`{"orderId":8891,"total":4200,"note":"` + strings.Repeat("x", 60) + `"}`)
		got.Partitions[0].Messages = append(got.Partitions[0].Messages, d)
	}
	p := &popParams{group: core.QueueModeGroup}
	out := make([]byte, 0, 1<<17)
	b.ReportAllocs()
	for b.Loop() {
		out = appendPopped(out[:0], "orders.created", p, &got, false)
	}
	b.SetBytes(int64(len(out)))
}
