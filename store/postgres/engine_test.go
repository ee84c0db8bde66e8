package postgres_test

import (
	"testing"

	"github.com/leasehold/leasehold/conformance/enginetest"
	"github.com/leasehold/leasehold/core"
)

// TestEngine runs the engine's own suites over PostgreSQL.
func TestEngine(t *testing.T) {
	open := func(t *testing.T) core.Store {
		t.Helper()
		return harness().Open(t, t.TempDir())
	}
	for name, suite := range map[string]func(*testing.T, enginetest.Open){
		"Walks": enginetest.Walks, "Waking": enginetest.Waking, "Ending": enginetest.Ending, "Dealing": enginetest.Dealing,
		"Subscribing": enginetest.Subscribing, "Linearizable": enginetest.Linearizable, "Transactions": enginetest.Transactions,
		"Deleting": enginetest.Deleting, "Faults": enginetest.Faults, "Deduplication": enginetest.Deduplication,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite(t, open)
		})
	}
}
