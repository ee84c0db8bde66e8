package postgres_test

import (
	"flag"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/enginetest"
	"github.com/leasehold/leasehold/core"
)

// sharing is a store of which a suite makes a second engine's.
type sharing struct {
	core.Store
	core.Shared
	t     *testing.T
	place string
}

// Another implements enginetest.Sharing.
func (s *sharing) Another() core.Store {
	other := harness().Open(s.t, s.place)
	s.t.Cleanup(func() { _ = other.Close() })
	return other
}

// suites are the engine's own.
var suites = map[string]func(*testing.T, enginetest.Open){
	"Walks": enginetest.Walks, "Waking": enginetest.Waking, "Ending": enginetest.Ending, "Dealing": enginetest.Dealing,
	"Subscribing": enginetest.Subscribing, "Linearizable": enginetest.Linearizable, "Transactions": enginetest.Transactions,
	"Deleting": enginetest.Deleting, "Faults": enginetest.Faults, "Deduplication": enginetest.Deduplication,
	"Meeting": enginetest.Meeting, "Restarting": enginetest.Restarting, "Resting": enginetest.Resting,
	"Buffering": enginetest.Buffering, "Large": enginetest.Large, "Storm": enginetest.Storm, "Idling": enginetest.Idling,
	"Between": enginetest.Between, "Knowing": enginetest.Knowing, "Clocks": enginetest.Clocks,
}

// TestEngine runs the engine's own suites over PostgreSQL, but for those that are about two engines.
func TestEngine(t *testing.T) {
	overEngines(t, func(t *testing.T) core.Store {
		t.Helper()
		return harness().Open(t, t.TempDir())
	}, "Between", "Knowing", "Clocks")
}

// TestEngines runs them with two engines that take turns, but for those that are about what meets in one pass of one engine, or
// call a sweep of one.
func TestEngines(t *testing.T) {
	overEngines(t, openSharing, "Meeting", "Dealing", "Deleting")
}

func openSharing(t *testing.T) core.Store {
	t.Helper()
	place := t.TempDir()
	s := harness().Open(t, place)
	return &sharing{Store: s, Shared: s.(core.Shared), t: t, place: place} //nolint:forcetypeassert // it is what we test
}

func overEngines(t *testing.T, open enginetest.Open, without ...string) {
	t.Helper()
	for name, suite := range suites {
		if slices.Contains(without, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite(t, open)
		})
	}
}

// TestEnginesProperty compares two engines that take turns with the model.
func TestEnginesProperty(t *testing.T) {
	for name, value := range map[string]string{"rapid.checks": "6", "rapid.steps": "40"} {
		f := flag.Lookup(name)
		if f.Value.String() == f.DefValue { // the command line left it as it was
			require.NoError(t, f.Value.Set(value))
			t.Cleanup(func() { require.NoError(t, f.Value.Set(f.DefValue)) })
		}
	}
	enginetest.Property(t, openSharing)
}
