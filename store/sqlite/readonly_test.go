//go:build unix

package sqlite_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/sqlite"
)

const readOnlyChild = "LEASEHOLD_TEST_READ_ONLY"

// TestReadOnlyIsReported opens a store as a user that may read it and not write it. Root may write everything, so the
// test runs itself as another user then.
func TestReadOnlyIsReported(t *testing.T) {
	if dir := os.Getenv(readOnlyChild); dir != "" {
		refuses(t, dir, core.CodeReadOnly)
		return
	}
	dir, err := os.MkdirTemp("", "read-only") //nolint:usetesting // what is above t.TempDir is closed to the other user
	require.NoError(t, err)
	s := open(t, filepath.Join(dir, "data"), sqlite.Options{})
	push(t, s, queue(t, s), 1)
	require.NoError(t, s.Close())
	for path, mode := range map[string]os.FileMode{dir: 0o755, dir + "/data/lock": 0o444, dir + "/data/" + file: 0o444, dir + "/data": 0o555} {
		require.NoError(t, os.Chmod(path, mode))
	}
	t.Cleanup(func() {
		_ = os.Chmod(dir+"/data", 0o755) //nolint:gosec // to be removed
		_ = os.RemoveAll(dir)
	})
	if os.Getuid() != 0 {
		refuses(t, dir+"/data", core.CodeReadOnly)
		return
	}
	binary := filepath.Join(dir, "test")
	b, err := os.ReadFile(os.Args[0]) //nolint:gosec // this test's own binary
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(binary, b, 0o755)) //nolint:gosec // run by another user
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestReadOnlyIsReported$", "-test.v")
	cmd.Env = append(os.Environ(), readOnlyChild+"="+dir+"/data")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "PASS: TestReadOnlyIsReported")
}
