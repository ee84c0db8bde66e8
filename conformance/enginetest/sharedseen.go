package enginetest

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// pushTo pushes one message to a partition of q at one of the engines.
func pushTo(r *rig, i int, partition, name string) {
	r.t.Helper()
	out, err := r.engine(r.t, i).Push(context.Background(), core.PushParams{
		Protocol: core.ProtocolQueen, Create: true,
		Items: []core.PushItem{{Queue: "q", Partition: partition, NewMessage: core.NewMessage{TransactionID: name, Payload: []byte("1")}}},
	})
	require.NoError(r.t, err)
	require.Equal(r.t, core.PushQueued, out[0].Status)
}

// popFor pops without waiting at one of the engines, for a group and from a partition ("" for any).
func popFor(r *rig, i int, group, partition string) []string {
	r.t.Helper()
	c, err := r.engine(r.t, i).Claim(context.Background(), core.ClaimParams{
		Protocol: core.ProtocolQueen, Exclusive: true, Queue: "q", Group: group, Partition: partition, Messages: 10, Create: true,
	})
	require.NoError(r.t, err)
	return batch{c.Lease, c}.names()
}

// sharePartition pops by name from a partition that the other engine has just made.
func sharePartition(r *rig) {
	pushTo(r, 0, "", "first")
	require.Equal(r.t, []string{"first"}, popFor(r, 1, "", ""))
	for i := range 10 {
		name := fmt.Sprint("p", i)
		pushTo(r, i%2, name, name)
		require.Equal(r.t, []string{name}, popFor(r, (i+1)%2, "g", name))
	}
}

// shareGroupAnew pops for a group that an engine knows of a queue that the other one has deleted and made again.
func shareGroupAnew(r *rig) {
	for i := range 10 {
		pushTo(r, i%2, "", fmt.Sprint("old", i))
		require.Equal(r.t, []string{fmt.Sprint("old", i)}, popFor(r, (i+1)%2, "g", ""))
		require.NoError(r.t, r.engine(r.t, i%2).DeleteQueue(context.Background(), "q", true))
		pushTo(r, i%2, "", fmt.Sprint("new", i))
		require.Equal(r.t, []string{fmt.Sprint("new", i)}, popFor(r, (i+1)%2, "g", ""))
		require.NoError(r.t, r.engine(r.t, (i+1)%2).DeleteQueue(context.Background(), "q", true))
	}
}
