package core_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
)

var (
	anyBytes = rapid.SliceOfN(rapid.Byte(), 0, 40)
	anyText  = rapid.Custom(func(t *rapid.T) string { return string(anyBytes.Draw(t, "text")) })
)

func drawMessage(t *rapid.T) core.Message {
	m := core.Message{Payload: anyBytes.Draw(t, "payload")}
	copy(m.ID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
	m.TransactionID = anyText.Draw(t, "transaction")
	if m.TransactionID != "" {
		m.Hash = core.HashTransaction(m.TransactionID)
	}
	m.Attempts = rapid.Int32Range(0, 1<<30).Draw(t, "attempts")
	m.CreatedAt = core.Time(rapid.Int64Range(-1, 1<<60).Draw(t, "created"))
	m.ExpiresAt = core.Time(rapid.Int64Range(0, 1<<60).Draw(t, "expires"))
	m.ContentType = core.ContentType(rapid.IntRange(0, 2).Draw(t, "type")) //nolint:gosec // 0 to 2
	m.Encoding, m.Kind, m.Reference = anyText.Draw(t, "encoding"), anyText.Draw(t, "kind"), anyText.Draw(t, "reference")
	m.TraceID, m.Subject, m.SourceID = anyText.Draw(t, "trace"), anyText.Draw(t, "subject"), anyText.Draw(t, "source")
	m.DelaySeconds = rapid.Int32Range(0, 86400).Draw(t, "delay")
	return m
}

func decode(t *rapid.T, s *core.NewSegment) (core.SegmentHeader, []core.Message) {
	hs, err := core.DecodeHeaders(s.Header, s.Count)
	require.NoError(t, err)
	h := core.SegmentHeader{First: 100, AppendedAt: 7, Messages: hs}
	ms, err := core.DecodeMessages(&h, 0, s.Count-1, s.Body)
	require.NoError(t, err)
	return h, ms
}

func TestSegmentsRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s, front, tail core.NewSegment
		in := rapid.SliceOfN(rapid.Custom(drawMessage), 1, 8).Draw(t, "messages")
		cut := rapid.IntRange(0, len(in)).Draw(t, "cut")
		var totals core.Totals
		expires := core.Time(0)
		for i := range in {
			one := in[i]
			s.Add(&one)
			part := &front
			if i >= cut {
				part = &tail
			}
			one = in[i]
			part.Add(&one)
			totals = totals.Plus(core.Totals{Messages: 1, Bytes: int64(len(in[i].Payload)), Created: in[i].CreatedAt.Milli()})
			if x := in[i].ExpiresAt; x != 0 && (expires == 0 || x < expires) {
				expires = x
			}
		}
		front.Join(&tail)
		require.Equal(t, s.Header, front.Header, "joined segments are a segment")
		require.Equal(t, s.Body, front.Body)
		require.Equal(t, s.Sources, front.Sources)
		require.Equal(t, totals, front.Totals)
		require.Equal(t, expires, front.Expires)
		h, out := decode(t, &front)
		require.Len(t, out, len(in))
		for i := range in {
			got := &out[i]
			require.Equal(t, int64(100+i), got.Offset)
			require.Equal(t, core.Time(7), got.AppendedAt)
			require.Equal(t, in[i].Labels, got.Labels)
			require.Equal(t, string(in[i].Payload), string(got.Payload))
			require.Equal(t, in[i].SourceID != "", got.HasSource)
			require.EqualValues(t, len(in[i].Payload), got.Size)
			require.Equal(t, []any{in[i].ID, in[i].TransactionID, in[i].Hash, in[i].Attempts, in[i].CreatedAt, in[i].ExpiresAt},
				[]any{got.ID, got.TransactionID, got.Hash, got.Attempts, got.CreatedAt, got.ExpiresAt})
		}
		i := rapid.IntRange(0, len(in)-1).Draw(t, "from")
		j := rapid.IntRange(i, len(in)-1).Draw(t, "to")
		from, to := core.BodyRange(h.Messages, i, j)
		part, err := core.DecodeMessages(&h, i, j, front.Body[from:to])
		require.NoError(t, err)
		require.Equal(t, out[i:j+1], part, "a part of the body is enough for a part of the messages")
	})
}

func TestSegmentTotals(t *testing.T) {
	t.Parallel()
	s := core.SegmentHeader{First: 5, Before: core.Totals{Messages: 4, Bytes: 40, Created: 400}}
	for i := range 3 {
		m := coretest.Message(i, core.Time(1000*(i+1)))
		s.Messages = append(s.Messages, m.MessageHeader)
	}
	assert.Equal(t, int64(7), s.Last())
	assert.Equal(t, s.Before, s.TotalsUpto(4))
	assert.Equal(t, core.Totals{Messages: 6, Bytes: 40 + 14, Created: 403}, s.TotalsUpto(6))
	assert.Equal(t, s.TotalsUpto(7), s.TotalsUpto(100))
}

func TestDamagedSegments(t *testing.T) {
	t.Parallel()
	m, n := coretest.Message(1, 5, coretest.Transaction("t")), coretest.Message(2, 5, coretest.Source("s"))
	s := coretest.Segment(1, m, n)
	for cut := range s.Header {
		_, err := core.DecodeHeaders(s.Header[:cut], s.Count)
		require.Equal(t, core.CodeFormat, core.CodeOf(err), "header cut at %d", cut)
	}
	_, err := core.DecodeHeaders(s.Header, s.Count+1)
	require.Equal(t, core.CodeFormat, core.CodeOf(err))
	_, err = core.DecodeHeaders(s.Header, s.Count-1)
	require.Equal(t, core.CodeFormat, core.CodeOf(err))
	_, err = core.DecodeHeaders(nil, -1)
	require.Equal(t, core.CodeFormat, core.CodeOf(err))
	huge := append(make([]byte, 17), 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0)
	_, err = core.DecodeHeaders(huge, 1)
	require.Equal(t, core.CodeFormat, core.CodeOf(err), "a length that does not fit")
	hs, err := core.DecodeHeaders(s.Header, s.Count)
	require.NoError(t, err)
	h := core.SegmentHeader{Messages: hs}
	for cut := range s.Body {
		_, err := core.DecodeMessages(&h, 0, s.Count-1, s.Body[:cut])
		require.Equal(t, core.CodeFormat, core.CodeOf(err), "body cut at %d", cut)
	}
}

func TestMessageIDsTellTheirTime(t *testing.T) {
	t.Parallel()
	seen := map[uuid.UUID]bool{}
	for range 1000 {
		id := core.NewMessageID(1_767_323_045_678_901)
		require.False(t, seen[id])
		seen[id] = true
		at, ok := core.MessageIDTime(id)
		require.True(t, ok)
		require.Equal(t, core.Time(1_767_323_045_678_000), at)
		require.Equal(t, uuid.RFC4122, id.Variant())
	}
	_, ok := core.MessageIDTime(uuid.New())
	require.False(t, ok)
}

func FuzzDecodeHeaders(f *testing.F) {
	s := coretest.Segment(1, coretest.Message(1, 5, coretest.Transaction("t"), coretest.Expires(9)), coretest.Message(2, 5, coretest.Source("s")))
	f.Add(s.Header, s.Count)
	f.Add([]byte{}, 0)
	f.Add(make([]byte, 64), 3)
	f.Fuzz(func(t *testing.T, buf []byte, count int) {
		hs, err := core.DecodeHeaders(buf, count)
		if err != nil && core.CodeOf(err) != core.CodeFormat {
			t.Errorf("code %v", core.CodeOf(err))
		}
		if err == nil && len(hs) != count {
			t.Errorf("%d headers of %d", len(hs), count)
		}
	})
}

func FuzzDecodeMessages(f *testing.F) {
	s := coretest.Segment(1, coretest.Message(1, 5, coretest.Transaction("t")), coretest.Message(2, 5, coretest.Source("s")))
	f.Add(s.Header, s.Body, s.Count)
	f.Fuzz(func(t *testing.T, header, body []byte, count int) {
		hs, err := core.DecodeHeaders(header, count)
		if err != nil || count == 0 {
			return
		}
		h := core.SegmentHeader{First: 1, Messages: hs}
		ms, err := core.DecodeMessages(&h, 0, count-1, body)
		if err != nil {
			if core.CodeOf(err) != core.CodeFormat {
				t.Errorf("code %v", core.CodeOf(err))
			}
			return
		}
		for i := range ms {
			if len(ms[i].Payload) != int(ms[i].Size) {
				t.Errorf("payload of %d bytes, not %d", len(ms[i].Payload), ms[i].Size)
			}
		}
	})
}
