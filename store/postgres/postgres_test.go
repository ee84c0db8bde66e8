package postgres_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/storetest"
	"github.com/leasehold/leasehold/conformance/testenv"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/postgres"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestStore(t *testing.T) {
	t.Setenv(testenv.AddressVariable, testenv.Postgres(t)) // children of the kill test use the same server
	storetest.Run(t, harness())
}

func TestShared(t *testing.T) {
	testenv.Postgres(t)
	storetest.RunShared(t, harness())
}

func BenchmarkStore(b *testing.B) {
	testenv.Postgres(b)
	storetest.Bench(b, harness())
}

// harness keeps each place in a schema of its own.
func harness() storetest.Harness {
	return storetest.Harness{
		Checks: 8, // each step asks the server a hundred things
		Open: func(tb testing.TB, place string) core.Store {
			tb.Helper()
			h := fnv.New64a()
			_, err := h.Write([]byte(place))
			require.NoError(tb, err)
			s, err := postgres.Open(tb.Context(), testenv.Postgres(tb), postgres.Options{Schema: fmt.Sprintf("test_%x", h.Sum64()), MaxConns: 6})
			require.NoError(tb, err)
			return s
		},
		Fail: func(s core.Store, point storetest.FailPoint) {
			at := map[storetest.FailPoint]string{
				storetest.FailWrite: "write", storetest.FailCommit: "commit", storetest.FailAnswer: "after commit",
			}[point]
			failOnce(s.(*postgres.Store), at) //nolint:forcetypeassert // the harness opened it
		},
	}
}

// failOnce makes the next commit fail at a point.
func failOnce(s *postgres.Store, at string) {
	var done atomic.Bool
	s.SetFault(func(point string) error {
		if point != at || done.Swap(true) {
			return nil
		}
		return errors.New("injected failure")
	})
}
