package postgres

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/leasehold/leasehold/core"
)

// However many large bodies are read bit by bit, what is kept of them stays within the bound, and the last ones are there.
func TestLargeBodiesStayWithinTheBound(t *testing.T) {
	t.Parallel()
	c := &segments{}
	const segmentsRead = 2 * cacheBytes / keptBody
	for n := range int64(segmentsRead) {
		c.put(&segment{bare: core.SegmentHeader{Partition: 1, First: n + 1}, count: 1, read: true})
		c.keep(c.find([]core.HeadersParams{{Partition: 1, From: n + 1, To: n + 1}}), [2]int64{1, n + 1}, make([]byte, keptBody))
	}
	kept := c.find([]core.HeadersParams{{Partition: 1, From: 1, To: segmentsRead}})
	size := 0
	for _, g := range kept.of {
		size += g.size()
	}
	assert.LessOrEqual(t, size, cacheBytes)
	assert.Equal(t, size, c.bytes)
	assert.Contains(t, kept.bodyFirsts, int64(segmentsRead), "the last one")
	assert.NotContains(t, kept.firsts, int64(1), "the first one")
}
