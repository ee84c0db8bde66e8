package placing_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/internal/placing"
)

func TestPlanJoinsWithinTheLimits(t *testing.T) {
	t.Parallel()
	logs := func(p core.PartitionKey) (core.LogState, bool) {
		return core.LogState{Start: 1, Head: 10, HeadAt: 50}, p < 3
	}
	list := []core.NewSegment{
		coretest.Segments(1, 1, 600, 1), coretest.Segments(2, 1, 1, 1), coretest.Segments(1, 601, 400, 1), coretest.Segments(1, 1001, 1, 1),
		coretest.Segments(3, 1, 1, 1),
	}
	before := append([]byte(nil), list[0].Body...)
	placed, in := placing.Admit(list, logs)
	require.True(t, in)
	p := placing.New(40, list, placed, logs, nil)
	require.Len(t, p.Rows, 3, "a thousand messages of partition 1, one of 2, one more of 1")
	assert.Equal(t, 1000, p.Rows[0].Segment.Count)
	assert.Equal(t, core.Time(50), p.Rows[0].At, "append times never decrease")
	assert.Equal(t, int64(1011), p.Rows[2].First)
	assert.Equal(t, before, list[0].Body, "the caller's bytes are not touched")
	assert.Equal(t, int64(611), placed[2].First)
	assert.Equal(t, int64(1011), placed[0].Log.Head)
	assert.True(t, placed[4].Gone)
	hs, err := core.DecodeHeaders(p.Rows[0].Segment.Header, 1000)
	require.NoError(t, err)
	assert.Equal(t, coretest.ID(601), hs[600].ID)
}

func FuzzDecodeSources(f *testing.F) {
	f.Add(placing.EncodeSources([]core.SegmentSource{{Index: 3, SourceID: "a\x00"}, {Index: 900, SourceID: ""}}))
	f.Add([]byte{1, 200})
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := placing.DecodeSources(data)
		if err != nil {
			return
		}
		again, err := placing.DecodeSources(placing.EncodeSources(list))
		require.NoError(t, err)
		assert.Equal(t, list, again)
	})
}
