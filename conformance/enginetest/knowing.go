package enginetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Knowing tests that what one engine did a moment ago holds for the next request at another one, whatever that one knew before.
func Knowing(t *testing.T, open Open) {
	cases(t, open, map[string]func(*rig){
		"an expiry changed elsewhere":                    knowExpiry,
		"an expiry changed elsewhere, for what is later": knowLaterExpiry,
		"a claim by options that changed elsewhere":      knowClaim,
		"a push by options that changed elsewhere":       knowPush,
		"all that was pushed at both":                    knowAll,
		"a group deleted elsewhere may choose again":     knowGroup,
		"a known queue that has not changed":             knowSame,
	})
}

func knowQuerator(r *rig, i int, expire time.Duration) core.Queue {
	r.t.Helper()
	q, err := r.engine(r.t, i).ConfigureQueue(context.Background(), "q", func(q *core.Queue) error {
		q.Options.Querator = &core.Querator{LeaseTimeout: time.Minute, ExpireTimeout: expire}
		return nil
	})
	require.NoError(r.t, err)
	return q
}

func knowProduce(r *rig, i int, due core.Time) {
	r.t.Helper()
	out, err := r.engine(r.t, i).Push(context.Background(), core.PushParams{
		Protocol: core.ProtocolQuerator, Atomic: true,
		Items: []core.PushItem{{Queue: "q", NewMessage: core.NewMessage{Payload: []byte("1"), Due: due}}},
	})
	require.NoError(r.t, err)
	require.Equal(r.t, core.PushQueued, out[0].Status)
}

func knowItems(r *rig, i int) []core.Item {
	r.t.Helper()
	require.NoError(r.t, r.engine(r.t, i).Refresh(context.Background()))
	items, err := r.engine(r.t, i).Items(context.Background(), core.ItemsParams{Queue: "q", Limit: 100})
	require.NoError(r.t, err)
	require.NotEmpty(r.t, items)
	return items
}

func knowExpiry(r *rig) {
	r.queue("q", core.ProtocolQuerator, func(*core.QueueOptions) {})
	for i := range 6 {
		expire := time.Duration(i+1) * time.Hour
		knowQuerator(r, i%2, expire)
		knowProduce(r, (i+1)%2, 0)
		items := knowItems(r, i%2)
		require.Equal(r.t, r.clock.Now().Add(expire), items[len(items)-1].ExpiresAt)
	}
}

func knowLaterExpiry(r *rig) {
	r.queue("q", core.ProtocolQuerator, func(*core.QueueOptions) {})
	for i := range 6 {
		knowQuerator(r, i%2, time.Duration(i+1)*time.Minute)
		due := r.clock.Now().Add(time.Hour)
		knowProduce(r, (i+1)%2, due)
		r.clock.Advance(time.Hour)
		c, err := r.engine(r.t, i%2).Claim(context.Background(), core.ClaimParams{
			Protocol: core.ProtocolQuerator, Queue: "q", Messages: 1, Partitions: 1, Wait: time.Second,
		})
		require.NoError(r.t, err)
		require.Equal(r.t, due.Add(time.Duration(i+1)*time.Minute), c.Partitions[0].Messages[0].ExpiresAt, "it counts from when it is due")
	}
}

// changedElsewhere returns an engine, the queue as that one knows it, and as the other engine has changed it since.
func changedElsewhere(r *rig, turn int) (here *core.Engine, known, changed core.Queue) {
	here, there := r.engine(r.t, turn%2), r.engine(r.t, (turn+1)%2)
	known, err := here.Queue(context.Background(), "q")
	require.NoError(r.t, err)
	changed, err = there.ConfigureQueue(context.Background(), "q", func(q *core.Queue) error {
		q.Options.Cloudflare.DeliveryDelaySeconds++
		return nil
	})
	require.NoError(r.t, err)
	return here, known, changed
}

// knowClaim claims by a queue that was changed elsewhere: there is nothing to claim, something, or something that comes while the claim waits.
func knowClaim(r *rig) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(100, time.Hour))
	for i := range 6 {
		here, known, changed := changedElsewhere(r, i)
		if i >= 2 {
			pushOne(r, i%2, fmt.Sprint("t", i))
		}
		claim := core.ClaimParams{Protocol: core.ProtocolCloudflare, Queue: "q", Messages: 1, Known: known.As()}
		_, err := here.Claim(context.Background(), claim)
		require.Equal(r.t, core.CodeConflict, core.CodeOf(err))
		claim.Known = changed.As()
		got, err := here.Claim(context.Background(), claim)
		require.NoError(r.t, err)
		require.Len(r.t, got.Partitions, min(1, i/2), "and nothing was leased by the claim that was refused")
		if i >= 2 {
			require.Equal(r.t, int32(1), got.Partitions[0].Messages[0].Attempt)
		}
	}
}

func knowPush(r *rig) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(100, time.Hour))
	for i := range 6 {
		here, known, changed := changedElsewhere(r, i)
		push := core.PushParams{Protocol: core.ProtocolCloudflare, Atomic: true, Known: known.As(), Items: []core.PushItem{{
			Queue: "q", NewMessage: core.NewMessage{Payload: []byte("1"), Due: r.clock.Now().Add(time.Duration(i%3) * time.Minute)},
		}}}
		_, err := here.Push(context.Background(), push)
		require.Equal(r.t, core.CodeConflict, core.CodeOf(err))
		push.Known = changed.As()
		_, err = here.Push(context.Background(), push)
		require.NoError(r.t, err)
		s, err := r.engine(r.t, (i+1)%2).QueueStats(context.Background(), "q", "")
		require.NoError(r.t, err)
		require.EqualValues(r.t, i+1, s.Total.Pending.Messages, "what was refused was not stored")
	}
}

// knowAll pops what both engines pushed, each in partitions of its own.
func knowAll(r *rig) {
	pushOne(r, 0, "first")
	ackAt(r, 1, popAt(r, 1), "first")
	for i := range 10 {
		for j, partition := range []string{"a", "b", "c", "d"} {
			_, err := r.engine(r.t, (i+j)%2).Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: []core.PushItem{{
				Queue: "q", Partition: partition, NewMessage: core.NewMessage{Payload: []byte("1")},
			}}})
			require.NoError(r.t, err)
		}
		c, err := r.engine(r.t, i/2%2).Claim(context.Background(), core.ClaimParams{
			Protocol: core.ProtocolQueen, Exclusive: true, AutoAck: true, Queue: "q", Messages: 10,
		})
		require.NoError(r.t, err)
		require.Len(r.t, c.Partitions, 4)
	}
}

func knowGroup(r *rig) {
	pushOne(r, 0, "a")
	for i := range 6 {
		newest := i%2 == 0
		claim := core.ClaimParams{Protocol: core.ProtocolQueen, Exclusive: true, Queue: "q", Group: "g", Messages: 1, NewestOnly: newest, SubscribeNew: true}
		for j := range 2 {
			c, err := r.engine(r.t, (i/2+j)%2).Claim(context.Background(), claim)
			require.NoError(r.t, err)
			require.Equal(r.t, newest, c.NewestOnly, "the first contact decides")
			require.False(r.t, c.Disagrees)
		}
		_, err := r.engine(r.t, i/2%2).DeleteGroup(context.Background(), "q", "g", false)
		require.NoError(r.t, err)
	}
}

// knowSame passes what holds still: claims and pushes by a known queue go through at once.
func knowSame(r *rig) {
	q := r.queue("q", core.ProtocolCloudflare, cloudflare(100, time.Hour))
	for i := range 4 {
		_, err := r.engine(r.t, i%2).Push(context.Background(), core.PushParams{
			Protocol: core.ProtocolCloudflare, Atomic: true, Known: q.As(),
			Items: []core.PushItem{{Queue: "q", NewMessage: core.NewMessage{Payload: []byte("1")}}},
		})
		require.NoError(r.t, err)
		c, err := r.engine(r.t, (i+1)%2).Claim(context.Background(), core.ClaimParams{Protocol: core.ProtocolCloudflare, Queue: "q", Messages: 1, Known: q.As()})
		require.NoError(r.t, err)
		require.Len(r.t, c.Partitions, 1)
	}
}
