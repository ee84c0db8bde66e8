package sealed_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/store/sealed"
)

func key(tb testing.TB, digit string) *sealed.Key {
	tb.Helper()
	k, err := sealed.ParseKey(strings.Repeat(digit, 64))
	require.NoError(tb, err)
	return k
}

func TestPayloadsSealAndOpen(t *testing.T) {
	ring := sealed.NewRing(key(t, "1"))
	for _, payload := range [][]byte{{}, []byte("x"), []byte(`{"a":1}`), bytes.Repeat([]byte("plain"), 1<<18)} {
		out, err := ring.Seal([]byte("id"), payload)
		require.NoError(t, err)
		require.Len(t, out, len(payload)+sealed.Overhead)
		if len(payload) > 4 {
			require.NotContains(t, string(out), "plain")
			require.NotContains(t, string(out), string(payload))
		}
		again, err := ring.Seal([]byte("id"), payload)
		require.NoError(t, err)
		require.NotEqual(t, out, again, "equal payloads do not look equal")
		back, err := ring.Open([]byte("id"), out)
		require.NoError(t, err)
		require.True(t, bytes.Equal(payload, back))
	}
}

func TestWhatWasChangedDoesNotOpen(t *testing.T) {
	ring := sealed.NewRing(key(t, "1"))
	out, err := ring.Seal([]byte("id"), []byte("payload"))
	require.NoError(t, err)
	for i := range out {
		changed := bytes.Clone(out)
		changed[i] ^= 1
		_, err := ring.Open([]byte("id"), changed)
		require.Error(t, err, "byte %d", i)
	}
	for n := range out {
		_, err := ring.Open([]byte("id"), out[:n])
		require.Error(t, err, "%d bytes", n)
	}
	_, err = ring.Open([]byte("other"), out)
	require.ErrorIs(t, err, sealed.ErrDamaged, "a payload belongs to its message")
	_, err = ring.Open([]byte("id"), append(out, 0))
	require.ErrorIs(t, err, sealed.ErrDamaged)
}

func TestKeysAreReplaced(t *testing.T) {
	old, fresh := key(t, "1"), key(t, "2")
	out, err := sealed.NewRing(old).Seal([]byte("id"), []byte("payload"))
	require.NoError(t, err)
	_, err = sealed.NewRing(fresh).Open([]byte("id"), out)
	require.ErrorIs(t, err, sealed.ErrNoKey)
	back, err := sealed.NewRing(fresh, old).Open([]byte("id"), out)
	require.NoError(t, err)
	assert.Equal(t, "payload", string(back))
	now, err := sealed.NewRing(fresh, old).Seal([]byte("id"), []byte("payload"))
	require.NoError(t, err)
	_, err = sealed.NewRing(old).Open([]byte("id"), now)
	require.ErrorIs(t, err, sealed.ErrNoKey, "new payloads are under the new key")

	for _, none := range []*sealed.Ring{nil, sealed.NewRing(nil), sealed.NewRing(nil, old)} {
		assert.False(t, none.CanSeal())
		_, err = none.Seal([]byte("id"), nil)
		require.ErrorIs(t, err, sealed.ErrNoKey)
	}
	back, err = sealed.NewRing(nil, old).Open([]byte("id"), out)
	require.NoError(t, err)
	assert.Equal(t, "payload", string(back))
	assert.Len(t, old.ID(), 8)
	assert.NotEqual(t, old.ID(), fresh.ID())
	assert.NotContains(t, old.ID(), "1111")
}

func TestKeysThatAreNone(t *testing.T) {
	for _, text := range []string{"", "00", strings.Repeat("1", 63), strings.Repeat("1", 66), strings.Repeat("x", 64)} {
		_, err := sealed.ParseKey(text)
		require.EqualError(t, err, "a key is 64 hex digits")
	}
}

func BenchmarkSeal(b *testing.B) {
	ring := sealed.NewRing(key(b, "1"))
	payload := make([]byte, 256)
	b.ReportAllocs()
	for b.Loop() {
		out, err := ring.Seal(payload[:16], payload)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := ring.Open(payload[:16], out); err != nil {
			b.Fatal(err)
		}
	}
}
