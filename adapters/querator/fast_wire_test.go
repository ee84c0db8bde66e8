package querator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	leasepb "github.com/leasehold/leasehold/adapters/querator/pb/lease"
	reservepb "github.com/leasehold/leasehold/adapters/querator/pb/reserve"
)

func wireSeeds(tb testing.TB) [][]byte {
	tb.Helper()
	out := make([][]byte, 0, 15)
	for _, m := range []proto.Message{
		&leasepb.ProduceRequest{},
		&leasepb.ProduceRequest{QueueName: "q", RequestTimeout: "1m", Items: []*leasepb.ProduceItem{
			{},
			{Encoding: "e", Kind: "k", Reference: "r", Bytes: []byte("\x00b"), Utf8: "u"},
			{EnqueueAt: timestamppb.New(time.Unix(1e9, 5)), Bytes: []byte{}},
		}},
		&reservepb.ProduceRequest{QueueName: "q", Items: []*reservepb.ProduceItem{{Bytes: []byte("b")}, {Utf8: "é"}}},
	} {
		b, err := proto.Marshal(m)
		require.NoError(tb, err)
		out = append(out, b, append(b, b...), append(b, 0x18, 1), append(b, "\x0a\x01\xff"...), b[:max(len(b)-1, 0)])
	}
	return out
}

// sameAsRuntime requires that what the fast decoder reads is what the runtime reads.
func sameAsRuntime(t *testing.T, body []byte) {
	t.Helper()
	if got, ok := fastProduceWire(body, familyLease); ok {
		m := &leasepb.ProduceRequest{QueueName: got.queue, RequestTimeout: got.timeout}
		for _, it := range got.items {
			m.Items = append(m.Items, &leasepb.ProduceItem{
				Encoding: it.encoding, Kind: it.kind, Reference: it.reference, Bytes: it.bytes, Utf8: string(it.utf8), EnqueueAt: it.at,
			})
		}
		var want leasepb.ProduceRequest
		require.NoError(t, proto.Unmarshal(body, &want), "%q", body)
		require.True(t, proto.Equal(&want, m), "%q", body)
	}
	if got, ok := fastProduceWire(body, familyReserve); ok {
		m := &reservepb.ProduceRequest{QueueName: got.queue, RequestTimeout: got.timeout}
		for _, it := range got.items {
			m.Items = append(m.Items, &reservepb.ProduceItem{
				Encoding: it.encoding, Kind: it.kind, Reference: it.reference, Bytes: it.bytes, Utf8: string(it.utf8),
			})
		}
		var want reservepb.ProduceRequest
		require.NoError(t, proto.Unmarshal(body, &want), "%q", body)
		require.True(t, proto.Equal(&want, m), "%q", body)
	}
}

func FuzzFastProduceWire(f *testing.F) {
	for _, b := range wireSeeds(f) {
		f.Add(b)
	}
	f.Fuzz(sameAsRuntime)
}

func TestFastWireTakesWhatClientsSend(t *testing.T) {
	b, err := proto.Marshal(&leasepb.ProduceRequest{QueueName: "q", RequestTimeout: "1m", Items: []*leasepb.ProduceItem{
		{Encoding: "e", Kind: "k", Reference: "r", Utf8: "u", EnqueueAt: timestamppb.New(time.Unix(1e9, 5))}, {Bytes: []byte("b")},
	}})
	require.NoError(t, err)
	_, ok := fastProduceWire(b, familyLease)
	require.True(t, ok)
}
