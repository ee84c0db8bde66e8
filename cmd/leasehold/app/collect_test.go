package app

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestGrowthOfTheHeap goes up to the floor while little is in use, and is Go's own once more is.
func TestGrowthOfTheHeap(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 1600, 1 << 20: 1600, 8 << 20: 700, 16 << 20: 300, 32 << 20: 100, 1 << 30: 100} {
		assert.Equal(t, want, growth(live), "%d bytes in use", live)
	}
}

// TestCollectorIsSpared unless the environment says how the heap is to grow.
func TestCollectorIsSpared(t *testing.T) {
	const before = 77 // below what it is ever set to
	defer debug.SetGCPercent(debug.SetGCPercent(before))
	t.Setenv("GOGC", "77")
	spareCollector()
	assert.Equal(t, before, debug.SetGCPercent(before))
	t.Setenv("GOGC", "")
	spareCollector()
	assert.GreaterOrEqual(t, debug.SetGCPercent(before), leastGrowth)
}
