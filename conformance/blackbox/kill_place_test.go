package blackbox

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/testenv"
	"github.com/leasehold/leasehold/core"
)

// place is where a server keeps its messages: they outlive it there.
type place struct {
	dir   string
	flags []string
	// database is the server's own PostgreSQL, nil where it needs none.
	database *testenv.Cluster
}

// everywhere runs a test over each store that outlives a server, or over the one of LEASEHOLD_STORE. PostgreSQL syncs its disk here as it
// would in earnest.
func everywhere(t *testing.T, test func(*testing.T, *place)) {
	t.Helper()
	if os.Getenv("LEASEHOLD_STORE") != "" {
		test(t, &place{dir: t.TempDir()})
		return
	}
	t.Run("sqlite", func(t *testing.T) { test(t, &place{dir: t.TempDir()}) })
	t.Run("postgres", func(t *testing.T) {
		database := testenv.NewCluster(t, "fsync=on", "full_page_writes=on")
		test(t, &place{dir: t.TempDir(), flags: []string{"--store", database.URL()}, database: database})
	})
}

func (p *place) start(t *testing.T) *Server {
	t.Helper()
	return Start(t, p.dir, p.flags...)
}

// requireSound checks with the database's own means what a server left that has been stopped.
func (p *place) requireSound(t *testing.T) {
	t.Helper()
	if p.database == nil {
		requireSound(t, p.dir)
		return
	}
	conn, err := pgx.Connect(t.Context(), p.database.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	if _, err := conn.Exec(t.Context(), "CREATE EXTENSION IF NOT EXISTS amcheck"); err != nil {
		t.Logf("PostgreSQL cannot check itself here: %v", err) // its contributed modules are not installed
		return
	}
	var checked int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(bt_index_check(c.oid, true)) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
		WHERE c.relkind = 'i' AND a.amname = 'btree' AND c.relnamespace = 'leasehold'::regnamespace`).Scan(&checked))
	require.Positive(t, checked, "indexes that name each row of their tables")
}

// forgive takes out of a server's alarms the errors that it logged while its database was away, and returns how many outages it told of. What
// is no line of the log, or speaks of a fault of its own, stays.
func (s *Server) forgive() (told int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarms = slices.DeleteFunc(s.alarms, func(text string) bool {
		var line struct{ Msg, Code string }
		if json.Unmarshal([]byte(text), &line) != nil || line.Code == core.CodeInternal.String() || line.Code == core.CodeFormat.String() {
			return false
		}
		if line.Msg == "the database cannot be used, requests are refused until it can" {
			told++
		}
		return true
	})
	return told
}

// spoolEmpty waits until everything that the server took while its database was away lies there.
func (s *Server) spoolEmpty(t *testing.T) {
	t.Helper()
	conn := NewConn()
	defer conn.Close()
	require.Eventually(t, func() bool {
		var out struct{ BufferedMessages int }
		_, err := conn.call(t.Context(), "GET", s.Queen+"/api/v1/system/maintenance", nil, 200, &out)
		return err == nil && out.BufferedMessages == 0
	}, drainLimit, 20*time.Millisecond, "the spool is not drained")
}
