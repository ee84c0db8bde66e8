package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Subscribing checks where consumer groups begin (Queen's subscription rules).
func Subscribing(t *testing.T, open Open) {
	cases(t, open, map[string]func(*rig){
		"a group begins with everything":          subscribeAll,
		"a new group skips what is there":         subscribeNew,
		"a group from a time":                     subscribeFrom,
		"the first registration stays":            subscribeOnce,
		"queue mode never skips":                  subscribeQueueMode,
		"partitions that come later":              subscribeLater,
		"a new group after a restart":             subscribeRestart,
		"counts of a new group":                   subscribeCounts,
		"delayed messages reach a new group":      subscribeDelayed,
		"a group that is deleted and comes again": subscribeAgain,
		"no group is queue mode":                  subscribeNoGroup,
	})
}

func subscription(group string, newOnly bool, from core.Time) core.ClaimParams {
	p := waitingPop("q", group, 100, 0)
	p.Partitions, p.SubscribeNew, p.SubscribeFrom = 0, newOnly, from
	return p
}

func subscribeAll(r *rig) {
	r.push("q", 1, 3)
	require.Equal(r.t, []string{"m1", "m2", "m3"}, r.claim(subscription("g", false, 0)).names())
	require.Equal(r.t, []string{"m1", "m2", "m3"}, r.claim(subscription("h", false, 0)).names())
	regs, err := r.Registrations(context.Background(), "q")
	require.NoError(r.t, err)
	require.Len(r.t, regs, 2)
	for _, reg := range regs {
		require.Zero(r.t, reg.Start)
		require.Equal(r.t, "all", reg.Mode)
	}
}

func subscribeNew(r *rig) {
	r.push("q", 1, 3)
	for range 3 {
		require.Empty(r.t, r.claim(subscription("g", true, 0)).names())
	}
	r.push("q", 4, 5) // in the very moment of the registration: the clock stands still
	require.Equal(r.t, []string{"m4", "m5"}, r.claim(subscription("g", true, 0)).names())
}

func subscribeFrom(r *rig) {
	r.push("q", 1, 2)
	r.clock.Advance(time.Minute)
	at := r.Now()
	r.push("q", 3, 4)
	r.clock.Advance(time.Minute)
	r.push("q", 5, 5)
	require.Equal(r.t, []string{"m3", "m4", "m5"}, r.claim(subscription("g", false, at)).names())
	require.Equal(r.t, []string{"m5"}, r.claim(subscription("h", false, at+1)).names())
	require.Equal(r.t, []string{"m5"}, r.claim(subscription("both", true, at+1)).names(), "a time goes before new")
	require.Empty(r.t, r.claim(subscription("future", false, r.Now().Add(time.Hour))).names())
	r.push("q", 6, 6)
	require.Empty(r.t, r.claim(subscription("future", false, 0)).names())
	r.clock.Advance(2 * time.Hour)
	r.push("q", 7, 7)
	require.Equal(r.t, []string{"m7"}, r.claim(subscription("future", false, 0)).names())
}

func subscribeOnce(r *rig) {
	r.push("q", 1, 1)
	require.Empty(r.t, r.claim(subscription("g", true, 0)).names())
	require.Empty(r.t, r.claim(subscription("g", false, 0)).names())
	require.Empty(r.t, r.claim(subscription("g", false, 1)).names())
	r.push("q", 2, 2)
	require.Equal(r.t, []string{"m2"}, r.claim(subscription("g", false, 0)).names())
}

func subscribeQueueMode(r *rig) {
	r.push("q", 1, 1)
	require.Equal(r.t, []string{"m1"}, r.claim(subscription("", true, 0)).names())
}

func subscribeLater(r *rig) {
	r.push("q", 1, 1)
	require.Empty(r.t, r.claim(subscription("g", true, 0)).names())
	r.pushTo("q", "later")
	require.Equal(r.t, []string{"later"}, r.claim(subscription("g", true, 0)).payloads())
	require.Empty(r.t, r.claim(subscription("g", true, 0)).payloads())

	_, err := r.Claim(context.Background(), waitingPop("empty", "g", 1, 0))
	require.NoError(r.t, err)
	r.pushTo("empty", "first")
	p := waitingPop("empty", "g", 10, 0)
	p.SubscribeNew = true
	require.Equal(r.t, []string{"first"}, r.claim(p).payloads())
}

func subscribeRestart(r *rig) {
	r.push("q", 1, 3)
	require.Empty(r.t, r.claim(subscription("g", true, 0)).names())
	r.stop()
	r.start()
	require.Empty(r.t, r.claim(subscription("g", false, 0)).names())
	r.clock.Advance(time.Second)
	r.push("q", 4, 4)
	require.Equal(r.t, []string{"m4"}, r.claim(subscription("g", false, 0)).names())
	r.stop()
	r.start()
	r.clock.Advance(time.Hour)
	require.Equal(r.t, []string{"m4"}, r.claim(subscription("g", false, 0)).names())
}

func (r *rig) pending(queue, group string) int64 {
	r.t.Helper()
	s, err := r.QueueStats(context.Background(), queue, group)
	require.NoError(r.t, err)
	return s.Total.Pending.Messages
}

func subscribeCounts(r *rig) {
	r.push("q", 1, 3)
	require.EqualValues(r.t, 3, r.pending("q", ""))
	require.Empty(r.t, r.claim(subscription("g", true, 0)).names())
	require.Zero(r.t, r.pending("q", "g"), "what lies before a group's start is not before it")
	r.push("q", 4, 5)
	require.EqualValues(r.t, 2, r.pending("q", "g"))
	require.Len(r.t, r.claim(subscription("g", true, 0)).names(), 2)
	require.EqualValues(r.t, 2, r.pending("q", "g"))
	require.EqualValues(r.t, 5, r.pending("q", ""))
}

func subscribeDelayed(r *rig) {
	r.push("q", 1, 1)
	r.pushAt("q", "delayed", r.Now().Add(time.Minute))
	require.Empty(r.t, r.claim(subscription("g", true, 0)).names())
	r.advance(time.Minute, "q")
	require.Equal(r.t, []string{"delayed"}, r.claim(subscription("g", true, 0)).names())
}

func subscribeAgain(r *rig) {
	r.push("q", 1, 2)
	require.Empty(r.t, r.claim(subscription("g", true, 0)).names())
	r.clock.Advance(time.Second)
	r.push("q", 3, 3)
	require.Equal(r.t, []string{"m3"}, r.claim(subscription("g", true, 0)).names())
	out, err := r.DeleteGroup(context.Background(), "q", "g", true)
	require.NoError(r.t, err)
	require.Equal(r.t, 1, out.Partitions)
	require.Zero(r.t, out.Registrations)
	require.Equal(r.t, []string{"m3"}, r.claim(subscription("g", false, 0)).names(), "the registration says where it begins again")
	out, err = r.DeleteGroup(context.Background(), "q", "g", false)
	require.NoError(r.t, err)
	require.Equal(r.t, 1, out.Registrations)
	require.Equal(r.t, []string{"m1", "m2", "m3"}, r.claim(subscription("g", false, 0)).names())
}

// subscribeNoGroup seeks and deletes without a group: that is queue mode, as for a claim, and never every group.
func subscribeNoGroup(r *rig) {
	r.push("q", 1, 3)
	for _, g := range []string{"", "g"} {
		b := r.pop("q", g, 3)
		require.True(r.t, r.ack("q", g, b.lease, "m3", core.AckCompleted).Released)
	}
	_, err := r.Seek(context.Background(), core.SeekParams{Queue: "q", At: 1})
	require.NoError(r.t, err)
	require.Empty(r.t, r.pop("q", "g", 3).names())
	require.Equal(r.t, []string{"m1", "m2", "m3"}, r.pop("q", "", 3).names())
	out, err := r.DeleteGroup(context.Background(), "q", "", false)
	require.NoError(r.t, err)
	require.Equal(r.t, 1, out.Partitions)
	require.Empty(r.t, r.pop("q", "g", 3).names())
	require.Equal(r.t, []string{"m1", "m2", "m3"}, r.pop("q", "", 3).names())
}
