package app

import (
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
