package target

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/testenv"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/memory"
	"github.com/leasehold/leasehold/store/postgres"
	"github.com/leasehold/leasehold/store/sqlite"
)

// The environment; see the package comment.
const (
	StoreVariable    = "CONFORMANCE_STORE"
	TargetVariable   = "CONFORMANCE_TARGET_" // and the protocol in capitals
	ControlVariable  = "CONFORMANCE_CONTROL"
	OperatorVariable = "CONFORMANCE_OPERATOR"
	CasesVariable    = "CONFORMANCE_CASES"
)

// The stores that tests in process can run over.
const (
	Memory   = "memory"
	SQLite   = "sqlite"
	Postgres = "postgres"
)

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
	return "remote"
}

// Open opens an empty store of the run's kind. The caller closes it.
func Open(tb testing.TB) core.Store {
	tb.Helper()
	return OpenNamed(tb, StoreName())
}

var schemas atomic.Int64

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
		schema := fmt.Sprintf("case_%d_%d", os.Getpid(), schemas.Add(1))
		s, err := postgres.Open(ctx, testenv.Postgres(tb), postgres.Options{Schema: schema, MaxConns: 6})
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
