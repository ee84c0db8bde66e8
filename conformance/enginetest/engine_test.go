package enginetest_test

import (
	"context"
	"flag"
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
	// Two engines, which take turns.
	"shared": func(*testing.T) core.Store { return memory.NewShared(core.NewSystemClock()) },
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

// alone runs a suite with one engine over every store: it is about requests that meet in one pass, or about what has been done by the
// time that a sweep is over.
func alone(suite func(*testing.T, enginetest.Open)) func(*testing.T, enginetest.Open) {
	return func(t *testing.T, open enginetest.Open) {
		t.Helper()
		suite(t, func(t *testing.T) core.Store {
			t.Helper()
			s := open(t)
			if shared, ok := s.(core.Shared); ok {
				return struct {
					core.Store
					core.Shared
				}{s, shared}
			}
			return s
		})
	}
}

func TestWalks(t *testing.T)         { overStores(t, enginetest.Walks) }
func TestWaking(t *testing.T)        { overStores(t, enginetest.Waking) }
func TestEnding(t *testing.T)        { overStores(t, enginetest.Ending) }
func TestDealing(t *testing.T)       { overStores(t, alone(enginetest.Dealing)) }
func TestSubscribing(t *testing.T)   { overStores(t, enginetest.Subscribing) }
func TestLinearizable(t *testing.T)  { overStores(t, enginetest.Linearizable) }
func TestMeeting(t *testing.T)       { overStores(t, alone(enginetest.Meeting)) }
func TestBetween(t *testing.T)       { enginetest.Between(t, stores["shared"]) }
func TestKnowing(t *testing.T)       { enginetest.Knowing(t, stores["shared"]) }
func TestRestarting(t *testing.T)    { overStores(t, enginetest.Restarting) }
func TestLarge(t *testing.T)         { overStores(t, enginetest.Large) }
func TestStorm(t *testing.T)         { overStores(t, enginetest.Storm) }
func TestResting(t *testing.T)       { overStores(t, enginetest.Resting) }
func TestBuffering(t *testing.T)     { overStores(t, enginetest.Buffering) }
func TestTransactions(t *testing.T)  { overStores(t, enginetest.Transactions) }
func TestDeleting(t *testing.T)      { overStores(t, alone(enginetest.Deleting)) }
func TestIdling(t *testing.T)        { overStores(t, enginetest.Idling) }
func TestFaults(t *testing.T)        { overStores(t, enginetest.Faults) }
func TestDeduplication(t *testing.T) { overStores(t, enginetest.Deduplication) }

// TestProperty runs more sequences where they are quick, unless the command line says how many.
func TestProperty(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			limit(t, "rapid.checks", map[string]string{"memory": "1000", "shared": "300", "sqlite": "40"}[name])
			limit(t, "rapid.steps", "50")
			enginetest.Property(t, open)
		})
	}
}

// limit sets a flag that the command line left as it was, for one test.
func limit(t *testing.T, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	if f.Value.String() != f.DefValue {
		return
	}
	require.NoError(t, f.Value.Set(value))
	t.Cleanup(func() { require.NoError(t, f.Value.Set(f.DefValue)) })
}

func BenchmarkEngine(b *testing.B) {
	for name, open := range map[string]func(*testing.B) core.Store{
		"memory": func(*testing.B) core.Store { return memory.New() },
		"sqlite": func(b *testing.B) core.Store {
			b.Helper()
			s, err := sqlite.Open(context.Background(), b.TempDir(), sqlite.Options{})
			require.NoError(b, err)
			return s
		},
	} {
		b.Run(name, func(b *testing.B) { enginetest.Bench(b, open) })
	}
}
