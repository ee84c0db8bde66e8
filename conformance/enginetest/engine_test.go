package enginetest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/enginetest"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/memory"
	"github.com/leasehold/leasehold/store/sqlite"
)

// stores are the stores that every test of the engine runs over.
var stores = map[string]enginetest.Open{
	"memory": func(*testing.T) core.Store { return memory.New() },
	"sqlite": func(t *testing.T) core.Store {
		t.Helper()
		s, err := sqlite.Open(context.Background(), t.TempDir(), sqlite.Options{})
		require.NoError(t, err)
		return s
	},
}

// overStores runs a suite over every store.
func overStores(t *testing.T, suite func(*testing.T, enginetest.Open)) {
	t.Helper()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) { suite(t, open) })
	}
}

func TestWalks(t *testing.T)         { overStores(t, enginetest.Walks) }
func TestWaking(t *testing.T)        { overStores(t, enginetest.Waking) }
func TestEnding(t *testing.T)        { overStores(t, enginetest.Ending) }
func TestDealing(t *testing.T)       { overStores(t, enginetest.Dealing) }
func TestSubscribing(t *testing.T)   { overStores(t, enginetest.Subscribing) }
func TestLinearizable(t *testing.T)  { overStores(t, enginetest.Linearizable) }
func TestMeeting(t *testing.T)       { overStores(t, enginetest.Meeting) }
func TestProperty(t *testing.T)      { overStores(t, enginetest.Property) }
func TestTransactions(t *testing.T)  { overStores(t, enginetest.Transactions) }
func TestDeleting(t *testing.T)      { overStores(t, enginetest.Deleting) }
func TestFaults(t *testing.T)        { overStores(t, enginetest.Faults) }
func TestDeduplication(t *testing.T) { overStores(t, enginetest.Deduplication) }

func BenchmarkEngine(b *testing.B) {
	for name, open := range map[string]func(*testing.B) core.Store{
		"memory": func(*testing.B) core.Store { return memory.New() },
	} {
		b.Run(name, func(b *testing.B) { enginetest.Bench(b, open) })
	}
}
