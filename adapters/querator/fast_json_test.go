package querator

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	basepb "github.com/leasehold/leasehold/adapters/querator/pb/base"
	leasepb "github.com/leasehold/leasehold/adapters/querator/pb/lease"
)

// fastSeeds are bodies around the edges of what the fast decoder takes on.
var fastSeeds = []string{
	`{}`, ` { } `, `{"queue_name":"q","request_timeout":"1m","items":[{"encoding":"e","kind":"k","reference":"r","bytes":"Qg==","utf8":"u"},{}]}`,
	`{"queueName":"q\n\"\\\/\b\f\r\t","items":[]}`, `{"queue_name":"\u0041"}`, `{"queue_name":"é"}`, "{\"queue_name\":\"\xff\"}", "{\"queue_name\":\"\x01\"}",
	`{"queue_name":"q","queueName":"q"}`, `{"queue_name":null}`, `{"queue_name":"q",}`, `{"queue_name":"q"} x`, `{"items":[{"bytes":"Qg"}]}`,
	`{"items":[{"bytes":"_-8="}]}`, `{"items":[{"bytes":"Qg=\n="}]}`, `{"items":[{"enqueue_at":"2026-01-01T00:00:00Z"}]}`, `{"items":[{},]}`,
	`{"queue_name":"q","client_id":"c","batch_size":1000,"request_timeout":"1m"}`, `{"batch_size":01}`, `{"batch_size":0}`, `{"batch_size":-1}`,
	`{"batch_size":1.0}`, `{"batch_size":1e2}`, `{"batch_size":"1"}`, `{"batch_size":2147483647}`, `{"batch_size":99999999999999999999}`, `{"batch_size":1x}`,
	`{"partition":3,"ids":["a","b\t"],"request_timeout":"5s"}`, `{"ids":[]}`, `{"ids":["a" "b"]}`, `{"queue_name":"` + "\\", `{"queue_name":"`,
}

// FuzzFastJSON compares the fast decoders with the protobuf runtime: where they succeed, so does
// it, with the same result.
func FuzzFastJSON(f *testing.F) {
	for _, s := range fastSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if got, ok := fastClaim(body); ok {
			requireSame(t, body, got, &basepb.ClaimRequest{})
		}
		if got, ok := fastComplete(body); ok {
			requireSame(t, body, got, &basepb.CompleteRequest{})
		}
		if got, ok := fastProduce(body); ok {
			m := &leasepb.ProduceRequest{QueueName: got.queue, RequestTimeout: got.timeout}
			for _, it := range got.items {
				m.Items = append(m.Items, &leasepb.ProduceItem{
					Encoding: it.encoding, Kind: it.kind, Reference: it.reference, Bytes: it.bytes, Utf8: string(it.utf8),
				})
			}
			requireSame(t, body, m, &leasepb.ProduceRequest{})
		}
	})
}

func requireSame(t *testing.T, body []byte, got, want proto.Message) {
	t.Helper()
	if err := protojson.Unmarshal(body, want); err != nil {
		t.Fatalf("%q: the runtime says %v", body, err)
	}
	if !proto.Equal(got, want) {
		t.Fatalf("%q: %v instead of %v", body, got, want)
	}
}

func TestFastJSONTakesWhatClientsSend(t *testing.T) {
	for _, body := range []string{
		`{"queue_name": "q1", "request_timeout": "30s", "items": [{"encoding": "application/json", "utf8": "{\"key\":\"value\"}"}, {"bytes": "eyJrZXkiOiJ2YWx1ZSJ9"}]}`,
		"{\n\t\"queueName\": \"q\", \"items\": []\r\n}", `{}`,
	} {
		_, ok := fastProduce([]byte(body))
		require.True(t, ok, body)
	}
	_, ok := fastClaim([]byte(`{"queue_name": "q1", "client_id": "client-01", "batch_size": 2, "request_timeout": "30s"}`))
	require.True(t, ok)
	_, ok = fastComplete([]byte(`{"queue_name":"q1","partition":0,"request_timeout":"5s","ids":["3Mn3LpZ6UpzbX3OPtG9gLzagBgd"]}`))
	require.True(t, ok)
}
