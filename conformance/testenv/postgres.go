//go:build unix

// Package testenv finds what tests need beside this repository: a PostgreSQL server.
package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The environment that says which PostgreSQL to use, that it must not be missing, and that it must write to disk as in
// earnest (for benchmarks; a private cluster of tests does without).
const (
	AddressVariable = "LEASEHOLD_TEST_POSTGRES"
	RequireVariable = "LEASEHOLD_REQUIRE_POSTGRES"
	FsyncVariable   = "LEASEHOLD_TEST_POSTGRES_FSYNC"
)

var shared struct {
	once sync.Once
	url  string
	err  error
	stop func()
}

// Postgres returns the URL of a PostgreSQL server for tests: that of the environment, else a private cluster of the
// installed binaries, else one in Docker. Where there is none the test is skipped, or fails when RequireVariable is set; where
// the one of the environment does not answer it fails.
func Postgres(tb testing.TB) string {
	tb.Helper()
	shared.once.Do(func() { shared.url, shared.stop, shared.err = find() })
	if shared.err != nil {
		if os.Getenv(RequireVariable) != "" || os.Getenv(AddressVariable) != "" {
			tb.Fatalf("no PostgreSQL: %v", shared.err)
		}
		tb.Skipf("no PostgreSQL (set %s, or install initdb and postgres, or Docker): %v", AddressVariable, shared.err)
	}
	return shared.url
}

// Main runs the tests of a package, stops what they started, and does what else is to be done after them.
func Main(m *testing.M, after ...func() error) {
	code := m.Run()
	if shared.stop != nil {
		shared.stop()
	}
	for _, f := range after {
		if err := f(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func find() (url string, stop func(), err error) {
	if url := os.Getenv(AddressVariable); url != "" {
		return url, nil, ping(url, time.Now().Add(10*time.Second))
	}
	bin, err := binaries()
	if err != nil {
		url, stop, docker := container()
		if docker != nil {
			docker = errors.New(err.Error() + "; " + strings.Join(strings.Fields(docker.Error()), " ")) // on one line
		}
		return url, stop, docker
	}
	c, err := newCluster(bin, nil)
	if err == nil {
		err = c.start()
	}
	if err != nil {
		return "", nil, err
	}
	return c.URL(), c.remove, nil
}

// binaries returns the directory of the newest installed server.
func binaries() (string, error) {
	places, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	places = append(places, "/opt/homebrew/bin/postgres", "/usr/pgsql/bin/postgres")
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil { // its tools lie beside it
			places = append(places, path)
		}
	}
	for _, path := range slices.Backward(places) {
		dir := filepath.Dir(path)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("initdb and postgres are not installed")
}

// ping waits until the server answers.
func ping(url string, until time.Time) (err error) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		var conn *pgx.Conn
		if conn, err = pgx.Connect(ctx, url); err == nil {
			err = conn.Close(ctx)
		}
		cancel()
		if err == nil || time.Now().After(until) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// WithDatabase returns the URL of another database of the same server.
func WithDatabase(url, name string) string {
	head, query, _ := strings.Cut(url, "?")
	return head[:strings.LastIndex(head, "/")+1] + name + "?" + query
}
