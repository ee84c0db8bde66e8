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

// leaseItems and reserveItems are requests as clients of each family number them.
func leaseItems(tb testing.TB, items ...*leasepb.ProduceItem) []byte {
	tb.Helper()
	b, err := proto.Marshal(&leasepb.ProduceRequest{QueueName: "q", RequestTimeout: "1m", Items: items})
	require.NoError(tb, err)
	return b
}

func reserveItems(tb testing.TB, items ...*reservepb.ProduceItem) []byte {
	tb.Helper()
	b, err := proto.Marshal(&reservepb.ProduceRequest{QueueName: "q", RequestTimeout: "1m", Items: items})
	require.NoError(tb, err)
	return b
}

func TestProduceItemsTellTheirFamily(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 11, 29, 17, 0, 0, 0, time.UTC))
	timeBytes, err := proto.Marshal(at)
	require.NoError(t, err)
	for _, tt := range []struct {
		name      string
		body      []byte
		want      family
		undecided bool
	}{
		{"lease text", leaseItems(t, &leasepb.ProduceItem{Utf8: "u"}), familyLease, false},
		{"lease text and bytes", leaseItems(t, &leasepb.ProduceItem{Utf8: "u", Bytes: []byte("b")}), familyLease, false},
		{"lease scheduled text", leaseItems(t, &leasepb.ProduceItem{Utf8: "u", EnqueueAt: at}), familyLease, false},
		{"lease scheduled bytes", leaseItems(t, &leasepb.ProduceItem{Bytes: []byte("b"), EnqueueAt: at}), familyLease, false},
		{"reserve bytes", reserveItems(t, &reservepb.ProduceItem{Bytes: []byte("b")}), familyReserve, false},
		{"reserve bytes and text", reserveItems(t, &reservepb.ProduceItem{Bytes: []byte("b"), Utf8: "u"}), familyReserve, false},
		{"one item decides for all", reserveItems(t, &reservepb.ProduceItem{Utf8: "u"}, &reservepb.ProduceItem{Bytes: []byte("{}")}), familyReserve, false},
		{"field 5 alone", leaseItems(t, &leasepb.ProduceItem{Bytes: []byte("b")}), familyLease, true},
		{"field 4 alone that reads as a time", reserveItems(t, &reservepb.ProduceItem{Bytes: timeBytes}), familyReserve, true},
		{"no payload", leaseItems(t, &leasepb.ProduceItem{Kind: "k"}), familyLease, true},
		{"no message", []byte{0xff, 0xff, 0xff}, familyLease, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, undecided := itemFamily(tt.body)

			require.Equal(t, tt.want, got)
			require.Equal(t, tt.undecided, undecided)
		})
	}
}

func TestIsTimestamp(t *testing.T) {
	for name, tt := range map[string]struct {
		b    []byte
		want bool
	}{
		"empty is the epoch":     {nil, true},
		"seconds":                {[]byte{0x08, 0x01}, true},
		"seconds and fraction":   {[]byte{0x08, 0x01, 0x10, 0x05}, true},
		"another field":          {[]byte{0x18, 0x01}, false},
		"fraction of a second":   {[]byte{0x10, 0x80, 0x94, 0xeb, 0xdc, 0x03}, false},
		"text":                   {[]byte("hello"), false},
		"JSON":                   {[]byte(`{"a":1}`), false},
		"cut off":                {[]byte{0x08}, false},
		"before year 1":          {[]byte{0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, false},
		"another type of field1": {[]byte{0x0a, 0x01, 0x41}, false},
	} {
		require.Equal(t, tt.want, isTimestamp(tt.b), name)
	}
}
