package sqlite_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/storetest"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/sqlite"
)

func TestStore(t *testing.T) { storetest.Run(t, harness()) }

func harness() storetest.Harness {
	return storetest.Harness{
		Open: func(tb testing.TB, place string) core.Store { return open(tb, place, sqlite.Options{}) },
		Fail: func(s core.Store, point storetest.FailPoint) {
			at := map[storetest.FailPoint]string{
				storetest.FailWrite: "write", storetest.FailCommit: "commit", storetest.FailAnswer: "after commit",
			}[point]
			failOnce(s.(*sqlite.Store), at) //nolint:forcetypeassert,errcheck // the harness opened it
		},
	}
}

func open(tb testing.TB, place string, o sqlite.Options) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(tb.Context(), place, o)
	require.NoError(tb, err)
	return s
}

// failOnce makes the next commit fail at a point.
func failOnce(s *sqlite.Store, at string) {
	done := false
	s.SetFault(func(point string) error {
		if done || point != at {
			return nil
		}
		done = true
		return errors.New("injected failure")
	})
}

func BenchmarkStore(b *testing.B) { storetest.Bench(b, harness()) }
