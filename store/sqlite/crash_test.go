package sqlite_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/storetest"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/sqlite"
)

// TestUnknownCommitIsLookedUp lets a commit fail and the database not open again: the caller hears that the outcome is
// unknown, and learns it when the database is back.
func TestUnknownCommitIsLookedUp(t *testing.T) {
	t.Parallel()
	for _, stored := range []bool{false, true} {
		s := open(t, t.TempDir(), sqlite.Options{})
		key := queue(t, s)
		push(t, s, key, 1)
		failing := true
		point := map[bool]string{false: "commit", true: "after commit"}[stored]
		s.SetFault(func(p string) error {
			if failing && (p == point || p == "open") {
				return errors.New("injected failure")
			}
			return nil
		})
		commit, now := uuid.New(), core.TimeOf(coretest.Start)
		_, err := s.Append(t.Context(), core.AppendParams{
			Commit: commit, Now: now, Segments: []core.NewSegment{coretest.Segments(key, 2, 3, now)},
		})
		assert.Equal(t, core.CodeUnknown.String(), core.CodeOf(err).String(), "%v", err)
		_, err = s.Outcome(t.Context(), commit)
		assert.Equal(t, core.CodeUnavailable.String(), core.CodeOf(err).String(), "%v", err)
		_, err = s.Read(t.Context(), core.ReadParams{Partition: key, Offsets: core.Runs{{First: 1, Last: 9}}})
		assert.Equal(t, core.CodeUnavailable.String(), core.CodeOf(err).String(), "%v", err)
		assert.Equal(t, core.CodeUnavailable.String(), core.CodeOf(tryPush(t, s, key, 7)).String())

		failing = false
		took, err := s.Outcome(t.Context(), commit)
		require.NoError(t, err)
		assert.Equal(t, stored, took)
		assert.Equal(t, map[bool]int{false: 1, true: 4}[stored], messages(t, s, key))
		push(t, s, key, 8)
		require.NoError(t, s.Close())
	}
}

// crash copies the files of a running store, as a kill would leave them.
func crash(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{file, file + "-wal"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, name), b, 0o600)) //nolint:gosec // two names of its own
	}
	return to
}

// TestIndexBehindSurvivesCrashes does random things to a store, writes the index behind at random moments and looks at
// copies of its files: whatever was written of the index, and whatever not, a copy looks like the store.
func TestIndexBehindSurvivesCrashes(t *testing.T) {
	t.Parallel()
	const seeds, steps = 4, 120
	for seed := range seeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			c := newChaos(t, uint64(seed)) //nolint:gosec // small
			for step := range steps {
				c.step()
				if step%12 == 11 {
					copied := open(t, crash(t, c.dir), sqlite.Options{})
					require.Equal(t, storetest.Observe(t, c.s, c.now), storetest.Observe(t, copied, c.now), "step %d", step)
					require.NoError(t, copied.Close())
				}
			}
		})
	}
}

type chaos struct {
	*testing.T
	rnd  *rand.Rand
	dir  string
	s    *sqlite.Store
	keys []core.PartitionKey
	now  core.Time
	n    int
}

func newChaos(t *testing.T, seed uint64) *chaos {
	t.Helper()
	c := &chaos{T: t, rnd: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(), now: core.TimeOf(coretest.Start)} //nolint:gosec // a test
	c.open()
	t.Cleanup(func() { _ = c.s.Close() })
	q := core.PutQueueParams{Queue: coretest.Queue(1, "q", c.now), Now: c.now}
	for i := range 3 {
		q.Partitions = append(q.Partitions, coretest.Partition(10+i, uuid.Nil, strconv.Itoa(i), c.now))
	}
	_, err := c.s.PutQueue(t.Context(), q)
	require.NoError(t, err)
	list, err := c.s.Partitions(t.Context(), q.Queue.ID)
	require.NoError(t, err)
	for i := range list {
		c.keys = append(c.keys, list[i].Key)
	}
	return c
}

func (c *chaos) open() {
	c.Helper()
	c.s = open(c.T, c.dir, sqlite.Options{CacheBytes: 10_000})
	require.NoError(c, c.s.NoSync())
}

func (c *chaos) key() core.PartitionKey { return c.keys[c.rnd.IntN(len(c.keys))] }

func (c *chaos) step() {
	c.Helper()
	switch c.rnd.IntN(12) {
	case 0, 1:
		require.NoError(c, c.s.WriteIndex())
	case 2:
		require.NoError(c, c.s.Checkpoint([]string{"PASSIVE", "RESTART", "TRUNCATE"}[c.rnd.IntN(3)]))
		require.NoError(c, c.s.CheckpointBehind())
	case 3, 4, 5:
		c.remove()
	case 6:
		if c.rnd.IntN(6) == 0 {
			_, err := c.s.Update(c.Context(), core.UpdateParams{Commit: uuid.New(), Now: c.now}, func(core.Tx) (*core.ChangeSet, error) {
				return &core.ChangeSet{Purge: []core.PartitionKey{c.key()}}, nil
			})
			require.NoError(c, err)
		}
	case 7:
		if c.rnd.IntN(4) == 0 {
			require.NoError(c, c.s.Close())
			c.open()
		}
	default:
		c.push()
	}
}

// push appends to one partition, at times more than a chunk of the index holds.
func (c *chaos) push() {
	c.Helper()
	for range 1 + c.rnd.IntN(3)*c.rnd.IntN(sqlite.UseChunks) {
		c.n++
		c.now += core.Time(c.rnd.IntN(3))
		m := coretest.Message(c.n, c.now)
		if c.rnd.IntN(3) == 0 {
			m.ExpiresAt = c.now + core.Time(c.rnd.IntN(500))
		}
		_, err := c.s.Append(c.Context(), core.AppendParams{
			Commit: uuid.New(), Now: c.now, Segments: []core.NewSegment{coretest.Segment(c.key(), m)},
		})
		require.NoError(c, err)
	}
}

func (c *chaos) remove() {
	c.Helper()
	refs, err := c.s.Segments(c.Context(), c.key(), int64(c.rnd.IntN(300)), 1+c.rnd.IntN(400))
	require.NoError(c, err)
	var remove, expiries []core.SegmentRef
	for _, r := range refs {
		switch c.rnd.IntN(4) {
		case 0:
			r.Expires = []core.Time{0, c.now + 5}[c.rnd.IntN(2)]
			expiries = append(expiries, r)
		case 1:
		default:
			remove = append(remove, r)
		}
	}
	require.NoError(c, c.s.DeleteSegments(c.Context(), c.now, remove, expiries))
}
