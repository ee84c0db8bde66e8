package target

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/testenv"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/memory"
	"github.com/leasehold/leasehold/store/postgres"
	"github.com/leasehold/leasehold/store/sqlite"
)

// The environment; see the package comment.
const (
	StoreVariable      = "CONFORMANCE_STORE"
	TargetVariable     = "CONFORMANCE_TARGET_" // and the protocol in capitals
	ControlVariable    = "CONFORMANCE_CONTROL"
	OperatorVariable   = "CONFORMANCE_OPERATOR"
	CasesVariable      = "CONFORMANCE_CASES"
	AnswerVariable     = "CONFORMANCE_ANSWER_WITHIN"
	OneReplicaVariable = "CONFORMANCE_ONE_REPLICA"
	LookFirstVariable  = "CONFORMANCE_LOOK_FIRST"
	BlanksVariable     = "CONFORMANCE_BLANKS_VARY"
)

// The stores that tests in process can run over.
const (
	Memory   = "memory"
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// remoteLabel stands in cases' names for a server outside the test's process.
const remoteLabel = "remote"

// StoreName is the store of this run.
func StoreName() string {
	if name := os.Getenv(StoreVariable); name != "" {
		return name
	}
	return Memory
}

// Label names what tests of a protocol run over: the store, or "remote".
func Label(protocol string) string {
	if InProcess(protocol) {
		return StoreName()
	}
	return remoteLabel
}

// Open opens an empty store of the run's kind. The caller closes it.
func Open(tb testing.TB) core.Store {
	tb.Helper()
	return OpenNamed(tb, StoreName())
}

// schemas are those that no test uses just now. To make one takes longer than most cases.
var schemas struct {
	mu   sync.Mutex
	made int
	free []string
}

// schema returns the name of a schema that no other test uses, without any content.
func schema(tb testing.TB) string {
	tb.Helper()
	url := testenv.Postgres(tb)
	schemas.mu.Lock()
	defer schemas.mu.Unlock()
	var name string
	if n := len(schemas.free); n > 0 {
		name, schemas.free = schemas.free[n-1], schemas.free[:n-1]
		wipe(tb, url, name)
	} else {
		schemas.made++
		name = fmt.Sprintf("case_%d_%d", os.Getpid(), schemas.made)
	}
	// The test's own cleanups, which close the store, come before this one.
	tb.Cleanup(func() {
		schemas.mu.Lock()
		defer schemas.mu.Unlock()
		schemas.free = append(schemas.free, name)
	})
	return name
}

// wipe deletes what the last test has left, but not what says which version of the schema it is, and how many changes there were.
func wipe(tb testing.TB, url, schema string) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	conn, err := pgx.Connect(ctx, url)
	require.NoError(tb, err)
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, fmt.Sprintf(`DO $$ DECLARE t text; BEGIN
		FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = '%[1]s' AND tablename NOT IN ('goose_db_version', 'catalog', 'pruned') LOOP
			EXECUTE format('DELETE FROM %%I.%%I', '%[1]s', t);
		END LOOP; END $$`, schema))
	require.NoError(tb, err)
}

// OpenNamed opens an empty store of a kind. The caller closes it.
func OpenNamed(tb testing.TB, name string) core.Store {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	switch name {
	case Memory:
		return memory.New()
	case SQLite:
		s, err := sqlite.Open(ctx, tb.TempDir(), sqlite.Options{})
		require.NoError(tb, err)
		return s
	case Postgres:
		s, err := postgres.Open(ctx, testenv.Postgres(tb), postgres.Options{Schema: schema(tb), MaxConns: 6})
		require.NoError(tb, err)
		return s
	default:
		tb.Fatalf("%s: %q is not memory, sqlite or postgres", StoreVariable, name)
		panic("unreachable")
	}
}

var cases sync.Mutex

// Note counts the running test as one of the protocol's cases.
func Note(tb testing.TB) {
	tb.Helper()
	path := os.Getenv(CasesVariable)
	if path == "" {
		return
	}
	cases.Lock()
	defer cases.Unlock()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the tester's own file
	require.NoError(tb, err)
	_, err = f.WriteString(tb.Name() + "\n")
	require.NoError(tb, err)
	require.NoError(tb, f.Close())
}

// list splits a variable at its commas.
func list(variable string) []string {
	var out []string
	for part := range strings.SplitSeq(os.Getenv(variable), ",") {
		if part = strings.TrimRight(strings.TrimSpace(part), "/"); part != "" {
			out = append(out, part)
		}
	}
	return out
}
