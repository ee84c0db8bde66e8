package cfqueues

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

func BenchmarkDecodeBatch100(b *testing.B) {
	o := (Options{}).withDefaults()
	body := []byte(`{"messages":[` + strings.TrimSuffix(strings.Repeat(`{"body":{"id":12345,"text":"hello world, this is a message"},"content_type":"json"},`, 100), ",") + `]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeBatch(body, &o); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodePull100(b *testing.B) {
	s := &server{tokens: newTokens([]byte("secret"))}
	q := &core.Queue{ID: uuid.New()}
	p := core.ClaimedPartition{Queue: q, Partition: core.Partition{ID: uuid.New()}}
	for range 100 {
		d := core.Delivery{Attempt: 1, Lease: uuid.New()}
		d.ID, d.Payload = uuid.New(), []byte(`{"id":12345,"text":"hello world, this is a message"}`)
		p.Messages = append(p.Messages, d)
	}
	claimed := &core.Claimed{Partitions: []core.ClaimedPartition{p}}
	b.ReportAllocs()
	for b.Loop() {
		s.appendPulled(make([]byte, 0, pulledSize(claimed)), q, claimed, metrics{})
	}
}

func BenchmarkParseLeaseID(b *testing.B) {
	t := newTokens([]byte("secret"))
	l := sampleLease()
	text := string(t.append(nil, &l))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := t.parse(text); !ok {
			b.Fatal("refused")
		}
	}
}
