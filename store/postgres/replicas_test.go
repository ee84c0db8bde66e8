package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/testenv"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/postgres"
)

var schemas atomic.Int64

// replicas opens so many stores on one new schema, all at once, and makes a queue with two partitions.
func replicas(t *testing.T, n int) ([]*postgres.Store, []core.PartitionKey, string) {
	t.Helper()
	url, schema := testenv.Postgres(t), fmt.Sprintf("replicas_%d_%s", schemas.Add(1), strings.ReplaceAll(uuid.NewString(), "-", ""))
	out, errs := make([]*postgres.Store, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() {
			out[i], errs[i] = postgres.Open(t.Context(), url, postgres.Options{Schema: schema, MaxConns: 4})
		})
	}
	wg.Wait()
	for i := range out {
		require.NoError(t, errs[i], "gateways that start together take turns")
		t.Cleanup(func() { _ = out[i].Close() })
	}
	now := core.TimeOf(coretest.Start)
	q, err := out[0].PutQueue(t.Context(), core.PutQueueParams{
		Queue: coretest.Queue(1, "q", now), Now: now,
		Partitions: []core.Partition{coretest.Partition(2, uuid.Nil, "0", now), coretest.Partition(3, uuid.Nil, "1", now)},
	})
	require.NoError(t, err)
	list, err := out[n-1].Partitions(t.Context(), q.ID)
	require.NoError(t, err)
	return out, []core.PartitionKey{list[0].Key, list[1].Key}, schema
}

func TestManyStartAtOnce(t *testing.T) {
	t.Parallel()
	s, keys, _ := replicas(t, 6)
	for i := range s {
		p := core.AppendParams{Commit: uuid.New(), Segments: []core.NewSegment{coretest.Segments(keys[0], i, 1, 1)}}
		placed, err := s[i].Append(t.Context(), p)
		require.NoError(t, err)
		assert.Equal(t, int64(i+1), placed[0].First)
	}
}

// TestRowsAreSkippedOrWaitedFor holds a row at one replica: a claim at the other passes over it, a settlement waits and
// then sees what the first one did.
func TestRowsAreSkippedOrWaitedFor(t *testing.T) {
	t.Parallel()
	s, keys, _ := replicas(t, 2)
	held, free := core.RowKey{Partition: keys[0], Group: "g"}, core.RowKey{Partition: keys[1], Group: "g"}
	put := func(f core.Frontier) *core.ChangeSet {
		return &core.ChangeSet{Rows: []core.RowChange{{Key: held, Move: true, Frontier: f}}}
	}
	update := func(s *postgres.Store, must bool, fn func(core.Tx) (*core.ChangeSet, error)) error {
		_, err := s.Update(t.Context(), core.UpdateParams{
			Commit: uuid.New(), Rows: []core.RowRequest{{Key: free, Must: must}, {Key: held, Must: must}},
		}, fn)
		return err
	}
	require.NoError(t, update(s[0], false, func(core.Tx) (*core.ChangeSet, error) { return put(core.Frontier{Offset: 1}), nil }))
	waited := make(chan error)
	var saw core.Frontier
	require.NoError(t, update(s[0], false, func(tx core.Tx) (*core.ChangeSet, error) {
		if _, err := tx.Scheduled([]int64{0}); err != nil {
			return nil, err // what is remembered does not do, so this one holds its locks
		}
		var seen *core.Row // in the run that counts
		assert.NoError(t, update(s[1], false, func(tx core.Tx) (*core.ChangeSet, error) {
			seen = tx.Row(held)
			return nil, nil //nolint:nilnil // an empty change set
		}))
		assert.Nil(t, seen, "another replica holds it")
		go func() {
			waited <- update(s[1], true, func(tx core.Tx) (*core.ChangeSet, error) {
				saw = tx.Row(held).Frontier
				f := saw
				f.Offset = 3
				return put(f), nil
			})
		}()
		return put(core.Frontier{Offset: 2}), nil
	}))
	require.NoError(t, <-waited)
	assert.Equal(t, int64(2), saw.Offset, "what the lock protects is read after the lock")
	_, f, err := s[0].Batches(t.Context(), held)
	require.NoError(t, err)
	assert.Equal(t, int64(3), f.Offset)
}

// TestReplicasAppendToTheSamePartitions lets both write at once: nothing is lost, and what knew an older head is left out.
func TestReplicasAppendToTheSamePartitions(t *testing.T) {
	t.Parallel()
	s, keys, _ := replicas(t, 2)
	const each = 40
	var in, out atomic.Int64
	var wg sync.WaitGroup
	for i := range s {
		wg.Go(func() {
			heads := map[core.PartitionKey]int64{}
			for n := range each {
				a, b := coretest.Segments(keys[0], n, 1, 1), coretest.Segments(keys[1], n, 2, 1)
				a.Know = heads[keys[0]]
				placed, err := s[i].Append(t.Context(), core.AppendParams{Commit: uuid.New(), Segments: []core.NewSegment{b, a}})
				if err != nil {
					t.Error(err)
					return
				}
				heads[keys[0]] = placed[1].Log.Head
				if placed[1].First == 0 {
					out.Add(1)
				} else {
					in.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d went in, %d knew an older head", in.Load(), out.Load())
	for i, want := range []int64{in.Load(), 4 * each} {
		ms, err := s[0].Read(t.Context(), core.ReadParams{Partition: keys[i], Offsets: core.Runs{{First: 1, Last: 1 << 40}}})
		require.NoError(t, err)
		assert.Len(t, ms, int(want))
	}
}

// TestOutcomeIsFinal asks for a commit that is under way: the answer waits for it, or keeps it from ever taking place.
func TestOutcomeIsFinal(t *testing.T) {
	t.Parallel()
	s, keys, _ := replicas(t, 2)
	push := func(commit uuid.UUID) error {
		_, err := s[0].Append(t.Context(), core.AppendParams{Commit: commit, Segments: []core.NewSegment{coretest.Segments(keys[0], 1, 1, 1)}})
		return err
	}
	late := uuid.New()
	took, err := s[1].Outcome(t.Context(), late)
	require.NoError(t, err)
	assert.False(t, took)
	err = push(late)
	assert.Equal(t, core.CodeUnavailable.String(), core.CodeOf(err).String(), "it was given up: %v", err)

	running := uuid.New()
	answer := make(chan bool)
	s[0].SetFault(func(point string) error {
		if point == "commit" { // about to be committed
			go func() {
				took, err := s[1].Outcome(t.Context(), running)
				assert.NoError(t, err)
				answer <- took
			}()
		}
		return nil
	})
	err = push(running)
	s[0].SetFault(nil)
	took = <-answer
	t.Logf("the commit took place: %v", took)
	assert.Equal(t, took, err == nil, "whichever came first, both say the same: %v", err)
}

// TestLostConnectionsAreMadeAgain cuts all connections: the call under way is told, the next one works.
func TestLostConnectionsAreMadeAgain(t *testing.T) {
	t.Parallel()
	s, keys, schema := replicas(t, 1)
	admin, err := pgx.Connect(t.Context(), testenv.Postgres(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	commit := uuid.New()
	s[0].SetFault(func(point string) error {
		if point == "commit" {
			s[0].SetFault(nil)
			_, err := admin.Exec(t.Context(), `SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
				JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND a.pid <> pg_backend_pid()`, schema)
			assert.NoError(t, err)
		}
		return nil
	})
	p := core.AppendParams{Commit: commit, Segments: []core.NewSegment{coretest.Segments(keys[0], 1, 1, 1)}}
	_, err = s[0].Append(t.Context(), p)
	require.Error(t, err)
	assert.Contains(t, []core.Code{core.CodeUnknown, core.CodeUnavailable}, core.CodeOf(err), "%v", err)
	took, err := s[0].Outcome(t.Context(), commit)
	require.NoError(t, err)
	assert.False(t, took)
	p.Commit = uuid.New()
	placed, err := s[0].Append(t.Context(), p)
	require.NoError(t, err)
	assert.Equal(t, int64(1), placed[0].First)
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	s, _, schema := replicas(t, 1)
	require.NoError(t, s[0].Close())
	admin, err := pgx.Connect(t.Context(), testenv.Postgres(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	_, err = admin.Exec(t.Context(), "INSERT INTO "+schema+".goose_db_version (version_id, is_applied) VALUES (99999, true)")
	require.NoError(t, err)
	for url, c := range map[string]struct {
		schema string
		code   core.Code
	}{
		testenv.Postgres(t): {schema, core.CodeFormat},
		testenv.WithDatabase(testenv.Postgres(t), "nothing"):  {"", core.CodeUnavailable},
		"postgres://u:secret@127.0.0.1:1/x?connect_timeout=2": {"", core.CodeUnavailable},
		"postgres://u:secret@[bad/x":                          {"", core.CodeInvalid},
	} {
		_, err := postgres.Open(t.Context(), url, postgres.Options{Schema: c.schema})
		assert.Equal(t, c.code.String(), core.CodeOf(err).String(), "%v", err)
		var coded *core.Error
		require.ErrorAs(t, err, &coded)
		assert.NotContains(t, err.Error(), "secret")
	}
}

// TestOldCommitsGo deletes old commits: who followed from before has lost them. It runs alone: which transactions run is a
// matter of the whole server.
func TestOldCommitsGo(t *testing.T) {
	s, keys, schema := replicas(t, 1)
	admin, err := pgx.Connect(t.Context(), testenv.Postgres(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	count := func() (n int) {
		require.NoError(t, admin.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".commits").Scan(&n))
		return n
	}
	for i := range 5 {
		_, err = s[0].Append(t.Context(), core.AppendParams{Commit: uuid.New(), Segments: []core.NewSegment{coretest.Segments(keys[0], i, 1, 1)}})
		require.NoError(t, err)
	}
	old, err := s[0].Follow(t.Context(), "")
	require.NoError(t, err)
	before := count()
	s[0].Prune(3)
	assert.Equal(t, before, count(), "nothing is that old")
	f, err := s[0].Follow(t.Context(), old.Next)
	require.NoError(t, err)
	assert.False(t, f.Lost)
	_, err = s[0].Append(t.Context(), core.AppendParams{Commit: uuid.New(), Segments: []core.NewSegment{coretest.Segments(keys[0], 9, 1, 1)}})
	require.NoError(t, err)
	var next int64
	require.NoError(t, admin.QueryRow(t.Context(), "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&next))
	s[0].Prune(next)
	assert.Zero(t, count())
	f, err = s[0].Follow(t.Context(), old.Next)
	require.NoError(t, err)
	assert.True(t, f.Lost, "what the cursor needs is gone")
	again, err := s[0].Follow(t.Context(), f.Next)
	require.NoError(t, err)
	assert.False(t, again.Lost)
}

// TestSchemaInTheURL keeps two stores of one database apart.
func TestSchemaInTheURL(t *testing.T) {
	t.Parallel()
	_, _, schema := replicas(t, 1)
	s, err := postgres.Open(t.Context(), testenv.Postgres(t)+"&schema="+schema, postgres.Options{})
	require.NoError(t, err)
	queues, err := s.Queues(t.Context())
	require.NoError(t, err)
	assert.Len(t, queues, 1)
	require.NoError(t, s.Close())
}
