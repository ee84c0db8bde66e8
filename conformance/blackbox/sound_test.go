package blackbox

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // opens the file that the server left
)

// requireSound checks the database file of a stopped server with SQLite's own means. Where
// LEASEHOLD_STORE puts the data elsewhere there is nothing to check.
func requireSound(t *testing.T, dir string) {
	t.Helper()
	if os.Getenv("LEASEHOLD_STORE") != "" {
		return
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "leasehold.db")+"?mode=ro")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var verdict string
	require.NoError(t, db.QueryRowContext(t.Context(), "pragma integrity_check").Scan(&verdict))
	require.Equal(t, "ok", verdict)
}
