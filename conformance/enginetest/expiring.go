package enginetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

func expireWaiting(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Hour, time.Minute))
	r.pushEach("q", 1, 2)
	r.clock.Advance(30 * time.Second)
	r.pushEach("q", 3, 3)
	r.advance(30*time.Second-time.Microsecond, "q")
	require.EqualValues(r.t, 3, r.pending("q", ""))
	r.advance(time.Microsecond, "q")
	require.Equal(r.t, []int64{3}, r.lease("q", 10).offsets())
	require.EqualValues(r.t, 1, r.pending("q", ""))
	require.EqualValues(r.t, 3, r.log("q").Start)
}

func expireLeased(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Hour, time.Minute))
	r.pushEach("q", 1, 2)
	b := r.lease("q", 1)
	r.clock.Advance(30 * time.Second)
	r.pushEach("q", 3, 3)
	c := r.lease("q", 2)
	require.Equal(r.t, []int64{2, 3}, c.offsets())
	r.advance(30*time.Second, "q")
	require.Equal(r.t, core.CodeNoMessage, core.CodeOf(r.complete("q", b.at(r.t, 1))))
	require.EqualValues(r.t, 1, r.pending("q", ""))
	require.NoError(r.t, r.complete("q", c.at(r.t, 3)))
	require.Zero(r.t, r.pending("q", ""))
}

func expireDead(r *rig) {
	dead := r.queue("dead", core.ProtocolQuerator, querator(time.Hour, 24*time.Hour))
	r.queue("q", core.ProtocolQuerator, querator(time.Hour, time.Minute), func(o *core.QueueOptions) { o.DeadQueue = dead.ID })
	r.push("q", 1, 4)
	b := r.lease("q", 2)
	require.NoError(r.t, r.complete("q", b.at(r.t, 1)))
	r.advance(time.Minute, "q")
	require.Zero(r.t, r.pending("q", ""))
	require.EqualValues(r.t, 3, r.pending("dead", ""))
	got := r.lease("dead", 10)
	require.ElementsMatch(r.t, []string{`"m2"`, `"m3"`, `"m4"`}, got.payloads())
	require.EqualValues(r.t, 1, got.at(r.t, 1).Attempt)
	require.NotEmpty(r.t, got.at(r.t, 1).SourceID)
	r.advance(time.Minute, "q")
	require.EqualValues(r.t, 3, r.pending("dead", ""), "each once")
}

// expirePart lets one message of a segment expire before the others: its option changed between the pushes of one commit.
func expirePart(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Hour, time.Minute))
	r.pushEach("q", 1, 1)
	r.configure("q", querator(time.Hour, 10*time.Second))
	r.pushEach("q", 2, 2)
	r.configure("q", querator(time.Hour, time.Hour))
	r.pushEach("q", 3, 3)
	r.advance(10*time.Second, "q")
	require.EqualValues(r.t, 1, r.log("q").Start)
	require.Equal(r.t, []int64{1, 3}, r.lease("q", 10).offsets())
	require.EqualValues(r.t, 2, r.pending("q", ""))
	r.advance(50*time.Second, "q")
	require.EqualValues(r.t, 1, r.pending("q", ""))
	require.EqualValues(r.t, 3, r.log("q").Start)
}

func expireNoRow(r *rig) {
	r.queue("q", core.ProtocolQuerator, querator(time.Hour, time.Minute))
	r.pushEach("q", 1, 2)
	require.Equal(r.t, []int64{1}, r.pop("q", "g", 1).offsets())
	r.advance(time.Minute, "q")
	for _, g := range []string{"", "g", "fresh"} {
		require.Zero(r.t, r.pending("q", g), g)
		require.Empty(r.t, r.pop("q", g, 10).offsets())
	}
	r.pushEach("q", 3, 3)
	for _, g := range []string{"", "g", "fresh"} {
		require.EqualValues(r.t, 1, r.pending("q", g), g)
		require.Equal(r.t, []int64{3}, r.pop("q", g, 10).offsets())
	}
}
