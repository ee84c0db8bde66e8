package fleet_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/blackbox"
	"github.com/leasehold/leasehold/conformance/fleet"
)

// start runs a fleet, or skips the test where there is no Docker. Under CI
// that is a failure.
func start(t *testing.T, o fleet.Options) *fleet.Fleet {
	t.Helper()
	if testing.Short() {
		t.Skip("containers are not for the short run")
	}
	if err := fleet.Available(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no Docker: %v", err)
		}
		t.Skipf("no Docker: %v", err)
	}
	f, err := fleet.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			for _, g := range f.Gateways {
				t.Logf("%s:%s", g.Name(), g.Log(context.WithoutCancel(t.Context())))
			}
		}
		require.NoError(t, f.Close())
	})
	return f
}

func queen(g *fleet.Gateway) blackbox.Queen {
	return blackbox.Queen{Base: g.Queen, Conn: blackbox.NewConn()}
}

// What one gateway was told survives the death of both and of the database.
func TestFaultsOfEveryKind(t *testing.T) {
	f := start(t, fleet.Options{})
	one, two := f.Gateways[0], f.Gateways[1]
	push := func(g *fleet.Gateway, id string) error {
		// A gateway that has just lost its database keeps a push on its disk, and stores it later.
		_, err := queen(g).PushOrBuffer(t.Context(), blackbox.QueenItem{Queue: "q", Payload: `1`, TransactionID: id})
		return err
	}
	pop := func(g *fleet.Gateway) string {
		got, err := queen(g).Pop(t.Context(), "q", "", map[string][]string{"autoAck": {"true"}})
		if err != nil || len(got) == 0 {
			return ""
		}
		return got[0].TransactionID
	}
	require.NoError(t, push(one, "a"))
	require.Equal(t, "a", pop(two), "the other gateway sees it at once")

	require.NoError(t, push(one, "b"))
	require.NoError(t, one.Kill(t.Context()))
	require.Error(t, push(one, "never"))
	require.Equal(t, "b", pop(two))
	require.NoError(t, push(two, "c"))
	require.NoError(t, one.Start(t.Context()))
	require.NoError(t, one.WaitReady(t.Context()))
	require.Equal(t, "c", pop(one), "its address is the same as before")

	require.NoError(t, push(one, "d"))
	require.NoError(t, f.Database.Kill(t.Context()))
	require.NoError(t, f.Database.Start(t.Context()))
	require.NoError(t, two.WaitReady(t.Context()))
	require.Eventually(t, func() bool { return pop(two) == "d" }, 30*time.Second, 100*time.Millisecond)

	require.NoError(t, two.Cut(t.Context()))
	require.NoError(t, push(one, "e"), "the other one is not concerned")
	require.NoError(t, two.Heal(t.Context()))
	require.NoError(t, two.WaitReady(t.Context()))
	require.Eventually(t, func() bool { return pop(two) == "e" }, 30*time.Second, 100*time.Millisecond)

	require.NoError(t, one.Pause(t.Context()))
	require.NoError(t, push(two, "f"))
	require.NoError(t, one.Resume(t.Context()))
	require.Eventually(t, func() bool { return pop(one) == "f" }, 30*time.Second, 100*time.Millisecond)
	require.NoError(t, one.Stop(t.Context()))
	require.NoError(t, push(two, "g"))
}
