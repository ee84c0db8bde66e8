package querator

import (
	"sort"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

func TestItemIDComesBackAsItsPlace(t *testing.T) {
	c := newIDCodec([]byte("0123456789abcdef"))
	partition := uuid.MustParse("0190b6c0-0000-7000-8000-000000000001")
	for _, place := range []itemPlace{
		{second: ksuidEpoch, turn: 0, offset: 0},
		{second: 1_760_000_000, turn: uint64(core.OwnTurn(1)), offset: 1},
		{second: ksuidEpoch + 1<<32 - 1, turn: 1<<64 - 1, offset: 1<<48 - 1},
	} {
		id := string(c.append(nil, partition, place))

		got, ok, err := c.parse(id, partition)

		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, place, got)
	}
}

func TestItemIDsAscendWithTheOrderOfTurns(t *testing.T) {
	c := newIDCodec([]byte("0123456789abcdef"))
	partition := uuid.New()
	ids := make([]string, 0, 6)
	for _, place := range []itemPlace{
		{1_760_000_000, uint64(core.OwnTurn(1)), 1},
		{1_760_000_000, uint64(core.OwnTurn(2)), 2},
		{1_760_000_000, uint64(core.OwnTurn(2)) + 1, 1}, // came back to the tail
		{1_760_000_000, uint64(core.OwnTurn(2)) + 1, 2}, // with the one above
		{1_760_000_001, uint64(core.OwnTurn(3)), 3},
		{1_760_000_300, uint64(core.OwnTurn(300)), 300},
	} {
		ids = append(ids, string(c.append(nil, partition, place)))
	}
	require.True(t, sort.StringsAreSorted(ids), "%q", ids)
}

func TestItemIDOfAnotherPartitionOrSecretNamesNothing(t *testing.T) {
	c := newIDCodec([]byte("0123456789abcdef"))
	place := itemPlace{1_760_000_000, uint64(core.OwnTurn(7)), 7}
	partition := uuid.MustParse("0190b6c0-0000-7000-8000-000000000001")
	id := string(c.append(nil, partition, place))

	_, ok, err := c.parse(id, uuid.MustParse("0190b6c0-0000-7000-8000-000000000002"))
	require.NoError(t, err)
	require.False(t, ok, "another partition")

	_, ok, err = newIDCodec([]byte("another secret..")).parse(id, partition)
	require.NoError(t, err)
	require.False(t, ok, "another store")

	_, ok, err = c.parse("0ujtsYcgvSTl8PAuAdqWYSMnLOv", partition)
	require.NoError(t, err)
	require.False(t, ok, "a guess")
}

func TestSourceIDIsTheItemID(t *testing.T) {
	secret, partition := []byte("a secret of a store"), uuid.New()
	place := itemPlace{1_760_000_000, uint64(core.OwnTurn(7)), 7}
	want := string(newIDCodec(secret).append(nil, partition, place))

	require.Equal(t, want, SourceID(secret, partition, core.ItemRef{Offset: 7, Turn: core.OwnTurn(7), Second: 1_760_000_000}))
	require.Equal(t, want, SourceID(secret, partition, core.ItemRef{Offset: 7, Second: 1_760_000_000}), "its own turn")
}

func BenchmarkItemID(b *testing.B) {
	c := newIDCodec([]byte("0123456789abcdef"))
	partition := uuid.New()
	buf := make([]byte, 0, 64)
	b.ReportAllocs()
	for i := range b.N {
		buf = c.append(buf[:0], partition, itemPlace{1_760_000_000, uint64(i), int64(i)})
	}
}
