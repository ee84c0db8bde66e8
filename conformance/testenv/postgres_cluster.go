//go:build unix

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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Cluster is a PostgreSQL server of the installed binaries with a data directory of its own, on the loopback.
type Cluster struct {
	// Port is where it listens; it stays the same over restarts.
	Port int

	bin, dir string
	attr     *syscall.SysProcAttr
	settings []string
	server   *exec.Cmd
	done     chan struct{}
}

// NewCluster makes a cluster and starts it with further settings, each name=value. It is gone after the test. Where no server is
// installed the test is skipped, or fails when RequireVariable is set: one in Docker does not do.
func NewCluster(tb testing.TB, settings ...string) *Cluster {
	tb.Helper()
	bin, err := binaries()
	if err != nil {
		if os.Getenv(RequireVariable) != "" {
			tb.Fatalf("no PostgreSQL to start and stop: %v", err)
		}
		tb.Skipf("no PostgreSQL to start and stop: %v", err)
	}
	c, err := newCluster(bin, settings)
	if err == nil {
		err = c.start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.remove)
	return c
}

// newCluster makes a data directory. As root it runs as another user, since PostgreSQL refuses root.
func newCluster(bin string, settings []string) (*Cluster, error) {
	c, err := emptyCluster(bin, settings)
	if err != nil {
		return nil, err
	}
	return c, c.run("initdb", "-D", c.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
}

func emptyCluster(bin string, settings []string) (*Cluster, error) {
	c := &Cluster{bin: bin, settings: settings}
	var err error
	if c.dir, err = os.MkdirTemp("", "leasehold-postgres"); err != nil {
		return nil, err
	}
	if c.attr, err = unprivileged(c.dir); err != nil {
		return nil, err
	}
	c.Port, err = freePort()
	return c, err
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// run runs one of the server's tools.
func (c *Cluster) run(tool string, args ...string) error {
	cmd := exec.CommandContext(context.Background(), filepath.Join(c.bin, tool), args...) //nolint:gosec // an installed tool
	cmd.SysProcAttr, cmd.Dir = c.attr, c.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", tool, err, out)
	}
	return nil
}

// Host returns the address as host and port.
func (c *Cluster) Host() string { return "127.0.0.1:" + strconv.Itoa(c.Port) }

// URL returns the address as a client names it.
func (c *Cluster) URL() string {
	return "postgres://postgres@" + c.Host() + "/postgres?sslmode=disable"
}

// start starts the server and waits until it answers.
func (c *Cluster) start() error {
	args := []string{"-D", c.data(), "-h", "127.0.0.1", "-p", strconv.Itoa(c.Port), "-k", c.dir, "-c", "max_connections=400"}
	if os.Getenv(FsyncVariable) == "" {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	for _, setting := range c.settings {
		args = append(args, "-c", setting)
	}
	c.server = exec.CommandContext(context.Background(), filepath.Join(c.bin, "postgres"), args...) //nolint:gosec // found above
	attr := *c.attr
	dieWithParent(&attr)
	c.server.SysProcAttr, c.server.Dir = &attr, c.dir
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own
	c.server.Stdout, c.server.Stderr = log, log
	if c.done, err = start(c.server); err != nil {
		return err
	}
	if err := ping(c.URL(), time.Now().Add(30*time.Second)); err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("start PostgreSQL: %w: %s", err, text)
	}
	return nil
}

// Start starts the server again.
func (c *Cluster) Start(tb testing.TB) {
	tb.Helper()
	if err := c.start(); err != nil {
		tb.Fatal(err)
	}
}

// Stop ends the server in order, though without waiting for its clients.
func (c *Cluster) Stop(tb testing.TB) {
	tb.Helper()
	if err := c.server.Process.Signal(syscall.SIGINT); err != nil {
		tb.Fatal(err)
	}
	<-c.done
}

// Kill ends the server and all of its processes as a loss of power would.
func (c *Cluster) Kill(tb testing.TB) {
	tb.Helper()
	pid := c.server.Process.Pid
	_ = syscall.Kill(pid, syscall.SIGSTOP) // it starts no more of them
	for _, child := range children(pid) {
		_ = syscall.Kill(child, syscall.SIGKILL) // it may be gone
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		tb.Fatal(err)
	}
	<-c.done
}

// children returns the processes that a process started.
func children(pid int) []int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // none where there is no such file
	var out []int
	for _, field := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(field); err == nil {
			out = append(out, child)
		}
	}
	return out
}

// remove ends the server and deletes what it left.
func (c *Cluster) remove() {
	if c.server != nil && c.server.Process != nil {
		_ = c.server.Process.Signal(syscall.SIGQUIT)
		<-c.done
	}
	_ = os.RemoveAll(c.dir)
}

// Standby makes a cluster that follows this one. With synchronous set no commit is answered from now on that has not reached it.
func (c *Cluster) Standby(tb testing.TB, synchronous bool) *Cluster {
	tb.Helper()
	s, err := emptyCluster(c.bin, c.settings)
	if err == nil {
		err = s.run("pg_basebackup", "-D", s.data(), "-d", c.URL()+"&application_name=standby", "-R", "--checkpoint=fast", "--no-sync")
	}
	if err == nil {
		err = s.start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.remove)
	if synchronous {
		c.Exec(tb, "ALTER SYSTEM SET synchronous_standby_names = '*'")
		c.Exec(tb, "SELECT pg_reload_conf()")
		c.Until(tb, "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
	}
	return s
}

// Promote makes a standby a server of its own, and waits until it can be written.
func (c *Cluster) Promote(tb testing.TB) {
	tb.Helper()
	c.Exec(tb, "SELECT pg_promote(true)")
	// What it inherited waits for a standby that it does not have.
	c.Exec(tb, "ALTER SYSTEM RESET synchronous_standby_names")
	c.Exec(tb, "SELECT pg_reload_conf()")
}

// Exec runs a statement that has no answer.
func (c *Cluster) Exec(tb testing.TB, sql string) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), c.URL())
	if err == nil {
		defer func() { _ = conn.Close(context.Background()) }()
		_, err = conn.Exec(tb.Context(), sql)
	}
	if err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// Print logs the rows of a query of one text.
func (c *Cluster) Print(tb testing.TB, sql string) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), c.URL())
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(tb.Context(), sql)
	if err == nil {
		var lines []string
		lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
		for _, line := range lines {
			tb.Log(line)
		}
	}
	if err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// Until waits until a query answers true.
func (c *Cluster) Until(tb testing.TB, sql string) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), c.URL())
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var done bool
		if err := conn.QueryRow(tb.Context(), sql).Scan(&done); err != nil {
			tb.Fatalf("%s: %v", sql, err)
		}
		if done {
			return
		}
	}
	tb.Fatalf("it never came true: %s", sql)
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
