package sqlite_test

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/sqlite"
)

const file = "leasehold.db"

// filled makes a closed store with some messages and returns its directory.
func filled(t *testing.T, commits int) string {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, sqlite.Options{})
	key := queue(t, s)
	for i := range commits {
		push(t, s, key, i)
	}
	require.NoError(t, s.Close())
	return dir
}

func queue(tb testing.TB, s core.Store) core.PartitionKey {
	tb.Helper()
	now := core.TimeOf(coretest.Start)
	q, err := s.PutQueue(tb.Context(), core.PutQueueParams{
		Queue: coretest.Queue(1, "q", now), Partitions: []core.Partition{coretest.Partition(2, uuid.Nil, "0", now)}, Now: now,
	})
	require.NoError(tb, err)
	list, err := s.Partitions(tb.Context(), q.ID)
	require.NoError(tb, err)
	return list[0].Key
}

func tryPush(tb testing.TB, s core.Store, key core.PartitionKey, n int) error {
	tb.Helper()
	now := core.TimeOf(coretest.Start)
	m := coretest.Message(n, now, coretest.Payload(core.ContentBytes, bytes.Repeat([]byte("payload!"), 512)))
	_, err := s.Append(tb.Context(), core.AppendParams{Commit: uuid.New(), Now: now, Segments: []core.NewSegment{coretest.Segment(key, m)}})
	return err
}

func push(tb testing.TB, s core.Store, key core.PartitionKey, n int) {
	tb.Helper()
	require.NoError(tb, tryPush(tb, s, key, n))
}

func messages(tb testing.TB, s core.Store, key core.PartitionKey) int {
	tb.Helper()
	ms, err := s.Read(tb.Context(), core.ReadParams{Partition: key, Offsets: core.Runs{{First: 1, Last: 1 << 40}}})
	require.NoError(tb, err)
	return len(ms)
}

// contents returns every file of a directory, the lock aside.
func contents(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	out := map[string]string{}
	list, err := os.ReadDir(dir)
	require.NoError(tb, err)
	for _, e := range list {
		b, err := os.ReadFile(filepath.Join(dir, e.Name())) //nolint:gosec // the test's own directory
		require.NoError(tb, err)
		if e.Name() != "lock" {
			out[e.Name()] = string(b)
		}
	}
	return out
}

// refuses opens a directory that must be refused with a code and left as it is.
func refuses(t *testing.T, dir string, code core.Code) {
	t.Helper()
	before := contents(t, dir)
	s, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	require.Error(t, err)
	assert.Nil(t, s)
	assert.Equal(t, code.String(), core.CodeOf(err).String(), "%v", err)
	after := contents(t, dir)
	for name := range after {
		if len(after[name]) == 0 {
			delete(after, name) // SQLite's empty shared memory and log
		}
	}
	delete(after, file+"-shm")
	if before[file] != after[file] {
		t.Error("the file was changed")
	}
	assert.Len(t, after, len(before))
}

func TestOpenRefusesASecondServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, sqlite.Options{})
	key := queue(t, s)
	_, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	assert.Equal(t, core.CodeLocked.String(), core.CodeOf(err).String(), "%v", err)
	push(t, s, key, 1)
	require.NoError(t, s.Close())
	s = open(t, dir, sqlite.Options{})
	assert.Equal(t, 1, messages(t, s, key))
	require.NoError(t, s.Close())
}

func sqlExec(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	for _, q := range statements {
		_, err := db.ExecContext(t.Context(), q)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
}

func TestOpenRefusesANewerFormat(t *testing.T) {
	t.Parallel()
	dir := filled(t, 3)
	sqlExec(t, filepath.Join(dir, file), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)")
	refuses(t, dir, core.CodeFormat)
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]func(path string){
		"text": func(path string) {
			require.NoError(t, os.WriteFile(path, []byte("not a database, but somebody's notes"), 0o600))
		},
		"another application": func(path string) { sqlExec(t, path, "CREATE TABLE theirs (x)", "INSERT INTO theirs VALUES (1)") },
		"an unknown id":       func(path string) { sqlExec(t, path, "PRAGMA application_id = 77") },
	} {
		dir := t.TempDir()
		fill(filepath.Join(dir, file))
		t.Run(name, func(t *testing.T) { refuses(t, dir, core.CodeFormat) })
	}
}

func TestDamageIsReported(t *testing.T) {
	t.Parallel()
	dir := filled(t, 200)
	path := filepath.Join(dir, file)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	junk := bytes.Repeat([]byte{0xa5}, 4096)
	for at := info.Size() / 2; at+4096 <= info.Size(); at += 4096 {
		_, err := f.WriteAt(junk, at)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	s, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	if err == nil { // what a start reads may be intact: then the reading tells
		_, err = s.Read(t.Context(), core.ReadParams{Partition: 1, Offsets: core.Runs{{First: 1, Last: 200}}})
		require.NoError(t, s.Close())
	}
	require.Error(t, err)
	assert.Equal(t, core.CodeFormat.String(), core.CodeOf(err).String(), "%v", err)
}

func TestFullIsReportedAndHeals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, sqlite.Options{MaxBytes: 1 << 20})
	key := queue(t, s)
	stored := 0
	var err error
	for ; stored < 1000; stored++ {
		if err = tryPush(t, s, key, stored); err != nil {
			break
		}
	}
	require.Error(t, err)
	assert.Equal(t, core.CodeFull.String(), core.CodeOf(err).String(), "%v", err)
	assert.Equal(t, stored, messages(t, s, key), "what was stored before is there, and no more")
	refs, err := s.Segments(t.Context(), key, 0, 20)
	require.NoError(t, err)
	require.NoError(t, s.DeleteSegments(t.Context(), 0, refs, nil))
	push(t, s, key, 5000)
	assert.Equal(t, stored-20+1, messages(t, s, key))
	require.NoError(t, s.Close())
}
