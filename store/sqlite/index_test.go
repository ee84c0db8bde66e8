package sqlite

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// TestIndexMemory holds a million segments of one message in 10,000 partitions.
func TestIndexMemory(t *testing.T) {
	const partitions, each, most = 10_000, 100, 24
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	list := make([]index, partitions)
	row := int64(0)
	for n := range int64(each) {
		for i := range list {
			row++
			list[i].add(place{row: row, first: n + 1, count: 1}, 0)
		}
	}
	used := float64(heap()-before) / (partitions * each)
	t.Logf("%.1f bytes per segment", used)
	assert.LessOrEqual(t, used, float64(most))
	runtime.KeepAlive(list)
}

func TestIndexFindsAndRemoves(t *testing.T) {
	t.Parallel()
	var x index
	const segments = 3*chunkLen + 5
	for i := range int64(segments) {
		x.add(place{row: 10 * i, first: 3*i + 1, count: 3}, core.Time(5000-i))
	}
	assert.Len(t, x.chunks, 4)
	assert.Equal(t, core.Time(5000-segments+1), x.minExpires())
	assert.Len(t, x.find(1, 3*segments, 0), segments)
	assert.Equal(t, []place{{row: 2550, first: 766, count: 3}, {row: 2560, first: 769, count: 3}}, x.find(768, 769, 0))
	assert.Empty(t, x.find(3*segments+1, 1<<40, 0))

	c := x.clone()
	for i := int64(segments) - 1; i >= 0; i -= 2 {
		p, ok := c.remove(3*i + 1)
		require.True(t, ok)
		assert.Equal(t, 10*i, p.row)
	}
	_, ok := c.remove(1)
	assert.False(t, ok, "removed before")
	_, ok = c.remove(5)
	assert.False(t, ok, "not a beginning")
	assert.Len(t, c.find(1, 3*segments, 0), segments/2)
	assert.Len(t, x.find(1, 3*segments, 0), segments, "the clone was changed, not the index")
	for i := range c.chunks {
		again, err := decodeChunk(c.chunks[i].encode())
		require.NoError(t, err)
		assert.Equal(t, c.chunks[i].places(), again.places())
	}
	_, err := decodeChunk([]byte{1, 0x80})
	assert.Equal(t, core.CodeFormat, core.CodeOf(err))
}

func FuzzDecodeChunk(f *testing.F) {
	var x index
	x.add(place{row: 7, first: 1, count: 3}, 0)
	x.add(place{row: 900, first: 4, count: 1}, 0)
	f.Add(x.chunks[0].encode())
	f.Add([]byte{1, 0x80})
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decodeChunk(data)
		if err != nil || c == nil {
			return
		}
		again, err := decodeChunk(c.encode())
		require.NoError(t, err)
		assert.Equal(t, c.places(), again.places())
	})
}
