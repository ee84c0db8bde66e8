package cfqueues

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What clients usually send is read in one go.
func TestUsualBodiesAreReadFast(t *testing.T) {
	o := (Options{}).withDefaults()
	for _, in := range []string{
		`{"body":"hello","content_type":"text"}`, ` { "content_type" : "text" , "body" : "a \"quoted\"\nline" , "delay_seconds" : 5 } `,
		`{"body":{"a":[1,2.50,"]}"],"b":null}}`, `{"body":"aGVsbG8=","content_type":"bytes"}`, `{"body":true,"content_type":"json"}`,
	} {
		m, ok := fastPush([]byte(in), &o)
		require.True(t, ok, in)
		want, err := slowPush([]byte(in), &o)
		require.Nil(t, err, in)
		assert.Equal(t, want, m, in)
	}
	b, ok := fastBatch([]byte(`{"messages":[{"body":"x","content_type":"text"},{"body":[1],"delay_seconds":0}],"delay_seconds":7}`), &o)
	require.True(t, ok)
	require.Len(t, b.messages, 2)
	assert.Equal(t, 7*time.Second, *b.delay)
	assert.Equal(t, time.Duration(0), *b.messages[1].delay)
	a, ok := fastAck([]byte(`{"acks":[{"lease_id":"L1"},{"lease_id":"L2"}],"retries":[{"lease_id":"L3","delay_seconds":9}]}`), &o)
	require.True(t, ok)
	assert.Equal(t, []string{"L1", "L2"}, a.acks)
	assert.Equal(t, 9*time.Second, *a.retries[0].delay)
}

// What is wrong or unusual is left to the decoders that know why.
func TestUnusualBodiesAreLeftToTheOthers(t *testing.T) {
	o := (Options{}).withDefaults()
	deep := strings.Repeat("[", 9999) + strings.Repeat("]", 9999)
	for _, in := range []string{
		``, `{}`, `[]`, `{"body":}`, `{"body":"x"`, `{"body":"x"}}`, `{"body":"\ud800","content_type":"text"}`, `{"body":1,"body":2}`,
		`{"body":1,"extra":2}`, `{"body":1,"content_type":"v8"}`, `{"body":1,"delay_seconds":1.5}`, `{"body":1,"delay_seconds":-1}`,
		`{"body":1,"delay_seconds":01}`, `{"body":1,"delay_seconds":86401}`, `{"body":1,"delay_seconds":null}`, "{\"body\":\"a\tb\"}",
		"{\"body\":\"\xff\"}", `{"body":01}`, `{"b\u006fdy":1}`, `{"body":5,"content_type":"text"}`, `{"body":"=","content_type":"bytes"}`,
		`{"body":` + deep + `}`, `{"body":"` + strings.Repeat("x", int(o.Limits.MaxMessageBytes)+1) + `","content_type":"text"}`,
	} {
		_, ok := fastPush([]byte(in), &o)
		assert.False(t, ok, "%.80s", in)
	}
	one := `{"body":1}`
	for _, in := range []string{
		`{"messages":[]}`, `{"messages":null}`, `{"messages":[` + one + `],"messages":[]}`, `{"messages":[` + one + `,]}`,
		`{"messages":[` + strings.Repeat(one+",", o.Limits.MaxBatchMessages) + one + `]}`,
	} {
		_, ok := fastBatch([]byte(in), &o)
		assert.False(t, ok, "%.80s", in)
	}
	for _, in := range []string{``, `{}`, `{"acks":[]}`, `{"acks":[{}]}`, `{"acks":[{"lease_id":1}]}`, `{"acks":[{"lease_id":"a","delay_seconds":1}]}`} {
		_, ok := fastAck([]byte(in), &o)
		assert.False(t, ok, in)
	}
}

// FuzzFast compares the fast decoders with the others: what they accept, those accept, with the same result.
func FuzzFast(f *testing.F) {
	for _, s := range []string{
		`{"body":{ "b":1.50 },"content_type":"json","delay_seconds":5}`, `{"messages":[{"body":"x\n","content_type":"text"}],"delay_seconds":0}`,
		`{"acks":[{"lease_id":"L1"}],"retries":[{"delay_seconds":10,"lease_id":"L2"}]}`, `{"body":"aGk=","content_type":"bytes"}`,
		`{"messages":[{"body":[[],{}]},{"body":null}]}`,
	} {
		f.Add([]byte(s))
	}
	o := (Options{}).withDefaults()
	f.Fuzz(func(t *testing.T, body []byte) {
		if m, ok := fastPush(body, &o); ok {
			want, err := slowPush(body, &o)
			require.Nil(t, err)
			require.Equal(t, want.delay, m.delay)
			require.Equal(t, want.contentType, m.contentType)
			require.Equal(t, string(want.payload), string(m.payload))
		}
		if b, ok := fastBatch(body, &o); ok {
			want, err := slowBatch(body, &o)
			require.Nil(t, err)
			require.Equal(t, want.delay, b.delay)
			require.Len(t, b.messages, len(want.messages))
			for i := range want.messages {
				require.Equal(t, want.messages[i].delay, b.messages[i].delay)
				require.Equal(t, want.messages[i].contentType, b.messages[i].contentType)
				require.Equal(t, string(want.messages[i].payload), string(b.messages[i].payload))
			}
		}
		if a, ok := fastAck(body, &o); ok {
			want, err := slowAck(body, &o)
			require.Nil(t, err)
			require.Equal(t, want, a)
		}
	})
}
