package clients

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/blackbox"
	"github.com/leasehold/leasehold/conformance/testenv"
)

// account is what the clients are told: without authentication a server takes any.
const account = blackbox.Account

// start is the time at which servers with a frozen clock begin.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestMain(m *testing.M) {
	testenv.Main(m, blackbox.RemoveBinary)
}

// overStores runs a test against a server on SQLite and one on PostgreSQL, each with nothing in it.
func overStores(t *testing.T, body func(*testing.T, *blackbox.Server), flags ...string) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { body(t, blackbox.Start(t, t.TempDir(), flags...)) })
	t.Run("postgres", func(t *testing.T) {
		url := database(t)
		body(t, blackbox.Start(t, t.TempDir(), append([]string{"--store", url}, flags...)...))
	})
}

// database makes a PostgreSQL database that is dropped after the test, and returns its URL.
func database(t *testing.T) string {
	t.Helper()
	server := testenv.Postgres(t)
	name := "clients_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	execute(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { execute(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	return testenv.WithDatabase(server, name)
}

func execute(t *testing.T, server, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, statement)
	require.NoError(t, err)
}

// frozen returns the clock of a server, stopped at start.
func frozen(t *testing.T, s *blackbox.Server) *blackbox.Clock {
	t.Helper()
	clock := blackbox.NewClock(s.Target)
	clock.Freeze(t, start)
	return clock
}

// missing ends a test that lacks something of the machine: in CI that is a failure.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("missing: %s", fmt.Sprintf(format, args...))
	}
	t.Skipf("missing: %s", fmt.Sprintf(format, args...))
}

// setting returns an environment variable parsed, or def where there is none.
func setting[T any](t *testing.T, name string, def T, parse func(string) (T, error)) T {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	v, err := parse(text)
	require.NoError(t, err, name)
	return v
}
