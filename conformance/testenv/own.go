//go:build unix

package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Database is a private cluster of one test, which may stop it and start it again.
type Database struct {
	URL string

	bin, dir string
	port     int
	attr     *syscall.SysProcAttr
	server   *exec.Cmd
	done     chan struct{}
}

// Own returns a running cluster that belongs to one test and ends with it. Commits are synced to its disk, so that one that is stopped in the
// hardest way has lost nothing. Where no server is installed the test is skipped, or fails when RequireVariable is set.
func Own(tb testing.TB) *Database {
	tb.Helper()
	d, err := newDatabase()
	if err != nil {
		if os.Getenv(RequireVariable) != "" {
			tb.Fatalf("no PostgreSQL: %v", err)
		}
		tb.Skipf("no PostgreSQL to stop (install initdb and postgres): %v", err)
	}
	tb.Cleanup(func() {
		d.Stop(tb)
		_ = os.RemoveAll(d.dir)
	})
	d.Start(tb)
	return d
}

func newDatabase() (*Database, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "leasehold-database")
	if err != nil {
		return nil, err
	}
	attr, err := unprivileged(dir)
	if err != nil {
		return nil, err
	}
	initdb := exec.CommandContext(context.Background(), filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "postgres", "-A", "trust", //nolint:gosec // found above
		"-E", "UTF8", "--locale=C")
	initdb.SysProcAttr, initdb.Dir = attr, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	port, err := freePort()
	url := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
	return &Database{URL: url, bin: bin, dir: dir, port: port, attr: attr}, err
}

// Start starts the cluster and waits until it answers.
func (d *Database) Start(tb testing.TB) {
	tb.Helper()
	attr := *d.attr
	dieWithParent(&attr)
	d.server = exec.CommandContext(context.Background(), filepath.Join(d.bin, "postgres"), "-D", filepath.Join(d.dir, "data"), //nolint:gosec // found above
		"-h", "127.0.0.1", "-p", strconv.Itoa(d.port), "-k", d.dir, "-c", "max_connections=200")
	d.server.SysProcAttr, d.server.Dir = &attr, d.dir
	var err error
	if d.done, err = start(d.server); err != nil {
		tb.Fatal(err)
	}
	if err := ping(d.URL, time.Now().Add(30*time.Second)); err != nil {
		tb.Fatalf("start PostgreSQL: %v", err)
	}
}

// Stop ends the cluster at once, as a crash would; it may be called twice.
func (d *Database) Stop(tb testing.TB) {
	tb.Helper()
	if d.server == nil {
		return
	}
	_ = d.server.Process.Signal(syscall.SIGQUIT)
	<-d.done
	d.server = nil
}
