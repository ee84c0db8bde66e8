//go:build unix

// Package testenv finds what tests need beside this repository: a PostgreSQL server.
package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
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
// installed binaries, else one in Docker. Where there is none the test is skipped, or fails when RequireVariable is set.
func Postgres(tb testing.TB) string {
	tb.Helper()
	shared.once.Do(func() { shared.url, shared.stop, shared.err = find() })
	if shared.err != nil {
		if os.Getenv(RequireVariable) != "" {
			tb.Fatalf("no PostgreSQL: %v", shared.err)
		}
		tb.Skipf("no PostgreSQL (set %s, or install initdb and postgres, or Docker): %v", AddressVariable, shared.err)
	}
	return shared.url
}

// Main runs the tests of a package and stops what they started.
func Main(m *testing.M) {
	code := m.Run()
	if shared.stop != nil {
		shared.stop()
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
		return url, stop, errors.Join(docker, onlyIf(docker != nil, err))
	}
	return cluster(bin)
}

func onlyIf(condition bool, err error) error {
	if condition {
		return err
	}
	return nil
}

// binaries returns the directory of the newest installed server.
func binaries() (string, error) {
	places, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	places = append(places, "/opt/homebrew/bin/postgres", "/usr/pgsql/bin/postgres")
	if path, err := exec.LookPath("postgres"); err == nil {
		places = append(places, path)
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

// cluster makes a private cluster on a free port of the loopback and starts it. As root it runs as another user, since
// PostgreSQL refuses root.
func cluster(bin string) (url string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "leasehold-postgres")
	if err != nil {
		return "", nil, err
	}
	attr, err := unprivileged(dir)
	if err != nil {
		return "", nil, err
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(context.Background(), filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", //nolint:gosec // found above
		"-E", "UTF8", "--locale=C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = attr, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	args := []string{"-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-k", dir, "-c", "max_connections=400"}
	if os.Getenv(FsyncVariable) == "" {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	server := exec.CommandContext(context.Background(), filepath.Join(bin, "postgres"), args...) //nolint:gosec // found above
	dieWithParent(attr)
	server.SysProcAttr, server.Dir = attr, dir
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return "", nil, err
	}
	server.Stdout, server.Stderr = log, log
	done, err := start(server)
	if err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = server.Process.Signal(syscall.SIGQUIT)
		<-done
		_ = os.RemoveAll(dir)
	}
	url = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
	if err := ping(url, time.Now().Add(30*time.Second)); err != nil {
		text, _ := os.ReadFile(log.Name())
		stop()
		return "", nil, fmt.Errorf("start PostgreSQL: %w: %s", err, text)
	}
	return url, stop, nil
}

// start runs a server from a thread of its own: the death signal of a child comes when its parent's thread ends.
func start(server *exec.Cmd) (done chan struct{}, err error) {
	done = make(chan struct{})
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(done)
		err := server.Start()
		started <- err
		if err == nil {
			_ = server.Wait() // how it ended does not matter any more
		}
	}()
	return done, <-started
}

// unprivileged returns how to start processes that PostgreSQL accepts, and gives them the directory.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{}
	if os.Getuid() != 0 {
		return attr, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return attr, os.Chown(dir, int(uid), int(gid))
	}
	return nil, errors.New("the tests run as root, and there is no other user to run PostgreSQL as")
}

func freePort() (int, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // a TCP listener
	return port, l.Close()
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
