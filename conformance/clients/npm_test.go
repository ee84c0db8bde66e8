package clients

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/blackbox"
)

// installTimeout bounds the installation of the npm packages, programTimeout one run of node.
const (
	installTimeout = 5 * time.Minute
	programTimeout = 2 * time.Minute
)

// packages is the folder that the npm packages of testdata/npm are installed in, once per machine
// and state of the lock file.
var packages = sync.OnceValues(install)

// install installs into the user's cache folder unless that was done before. It works in a folder
// beside the final one and renames that, so that a run that is cut off leaves nothing half done,
// and two at a time do not meet.
func install() (string, error) {
	const source = "testdata/npm"
	lock, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "leasehold-clients")
	sum := sha256.Sum256(lock)
	dir := filepath.Join(cache, hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(dir); err == nil { //nolint:gosec // the user's own cache folder
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o750); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, "install-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.CopyFS(work, os.DirFS(source)); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = work
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	if err := os.Rename(work, dir); err != nil && !errors.Is(err, os.ErrExist) { //nolint:gosec // as above
		return "", err
	}
	return dir, nil
}

// npmPackages returns the folder of the installed packages. Without node, npm or a registry the
// test is skipped, or fails in CI.
func npmPackages(t *testing.T) string {
	t.Helper()
	_, err := exec.LookPath("node")
	var dir string
	if err == nil {
		dir, err = packages()
	}
	if err != nil {
		missing(t, "node 20, npm and a registry with the packages of testdata/npm: %v", err)
	}
	return dir
}

// node runs a script with further environment and returns what it wrote, and its exit code.
func node(t *testing.T, dir string, env []string, args ...string) (output string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("node %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// connected is the environment in which Cloudflare's own programs reach a server.
func connected(s *blackbox.Server) []string {
	return []string{
		"CLOUDFLARE_BASE_URL=" + s.Cfqueues + "/client/v4", "CLOUDFLARE_API_BASE_URL=" + s.Cfqueues + "/client/v4",
		"CLOUDFLARE_API_TOKEN=any", "CLOUDFLARE_ACCOUNT_ID=" + account,
	}
}

// The npm library takes messages through their whole life; the script says how.
func TestJavaScriptLibraryLife(t *testing.T) {
	dir := npmPackages(t)
	overStores(t, func(t *testing.T, s *blackbox.Server) {
		frozen(t, s)
		// A script finds its packages from where it lies.
		work := t.TempDir()
		require.NoError(t, os.CopyFS(work, os.DirFS("testdata/npm")))
		require.NoError(t, os.Symlink(filepath.Join(dir, "node_modules"), filepath.Join(work, "node_modules")))
		env := append(connected(s), "CONTROL="+s.Control+"/clock", "START="+start.Format(time.RFC3339))
		out, code := node(t, work, env, filepath.Join(work, "life.mjs"))
		require.Zero(t, code, out)
		held := regexp.MustCompile(`(?m)^(\d+) checks held, \d+ requests sent$`).FindString(out)
		require.NotEmpty(t, held, out)
		t.Log(held)
	})
}

// The lock file names no registry: npm takes the one that the machine is set up for.
func TestLockFileNamesNoRegistry(t *testing.T) {
	lock, err := os.ReadFile("testdata/npm/package-lock.json")
	require.NoError(t, err)
	require.NotContains(t, string(lock), `"resolved"`)
	for _, pinned := range []string{`"cloudflare": "7.3.0"`, `"wrangler": "4.86.0"`} {
		require.Contains(t, string(lock), pinned)
	}
}
