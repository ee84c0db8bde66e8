package blackbox

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // opens the file that the server left
)

// requireSound checks the database file of a stopped server with SQLite's own means.
func requireSound(t *testing.T, dir string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "leasehold.db")+"?mode=ro")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var verdict string
	require.NoError(t, db.QueryRowContext(t.Context(), "pragma integrity_check").Scan(&verdict))
	require.Equal(t, "ok", verdict)
}
