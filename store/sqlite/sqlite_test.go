package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/storetest"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/sqlite"
)

func TestStore(t *testing.T) { storetest.Run(t, harness()) }

func harness() storetest.Harness {
	return storetest.Harness{
		Checks: 40,
		Open: func(tb testing.TB, place string) core.Store {
			tb.Helper()
			return open(tb, place, sqlite.Options{})
		},
		Fail: func(s core.Store, point storetest.FailPoint) {
			at := map[storetest.FailPoint]string{
				storetest.FailWrite: "write", storetest.FailCommit: "commit", storetest.FailAnswer: "after commit",
			}[point]
			failOnce(s.(*sqlite.Store), at) //nolint:forcetypeassert // the harness opened it
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

// BenchmarkOpen opens a store of a million messages in 10,000 partitions, one message to a segment: after a clean close, and
// after a crash, when the newest part of the index must be found again.
func BenchmarkOpen(b *testing.B) {
	const partitions, each = 10_000, 100
	dir := b.TempDir()
	s := open(b, dir, sqlite.Options{})
	now := core.TimeOf(coretest.Start)
	q := core.PutQueueParams{Queue: coretest.Queue(1, "q", now), Now: now}
	for i := range partitions {
		q.Partitions = append(q.Partitions, coretest.Partition(10+i, uuid.Nil, strconv.Itoa(i), now))
	}
	_, err := s.PutQueue(b.Context(), q)
	require.NoError(b, err)
	list, err := s.Partitions(b.Context(), q.Queue.ID)
	require.NoError(b, err)
	for range each {
		for at := 0; at < partitions; at += 1000 {
			p := core.AppendParams{Commit: uuid.New(), Now: now}
			for i := range 1000 {
				p.Segments = append(p.Segments, coretest.Segments(list[at+i].Key, i, 1, now))
			}
			_, err := s.Append(b.Context(), p)
			require.NoError(b, err)
		}
	}
	crashed := b.TempDir()
	for _, name := range []string{file, file + "-wal"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(b, err)
		require.NoError(b, os.WriteFile(filepath.Join(crashed, name), data, 0o600)) //nolint:gosec // two names of its own
	}
	require.NoError(b, s.Close())
	for name, dir := range map[string]string{"Clean": dir, "Crashed": crashed} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s := open(b, dir, sqlite.Options{})
				b.StopTimer()
				_, err := s.Read(b.Context(), core.ReadParams{Partition: list[0].Key, Offsets: core.Runs{{First: 1, Last: 1}}})
				require.NoError(b, err)
				require.NoError(b, s.Close())
				b.StartTimer()
			}
		})
	}
}
