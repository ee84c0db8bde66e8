package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// startTimeout bounds how long a child may take until it serves.
	startTimeout = 5 * time.Minute
	// stopTimeout bounds how long it may take to end.
	stopTimeout = 30 * time.Second
)

// child is a process of this program's own.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  string
	// took is the time from the start of the process until it served.
	took time.Duration
	// exited is closed when the process has ended; err then says how.
	exited chan struct{}
	err    error
}

// wait notes the end of the process; it is called once, in a goroutine.
func (c *child) wait() {
	c.err = c.cmd.Wait()
	close(c.exited)
}

// alive is an error once the process has ended, though nobody asked it to.
func (c *child) alive() error {
	select {
	case <-c.exited:
		return fmt.Errorf("the server that was started has ended: %v", c.cmd.ProcessState)
	default:
		return nil
	}
}

func (c *child) process() *process { return &process{pid: c.cmd.Process.Pid} }

// stop ends the child in an orderly way, or else at once.
func (c *child) stop() error {
	if c.stdin != nil {
		_ = c.stdin.Close()
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = c.cmd.Process.Kill()
	}
	select {
	case <-c.exited:
		return c.err
	case <-time.After(stopTimeout):
		_ = c.cmd.Process.Kill()
		<-c.exited
		return errors.Join(errors.New("server did not end in time"), c.err)
	}
}

// executable is the program to start: this one unless another is named.
func executable(name string) (string, error) {
	if name != "" {
		return name, nil
	}
	return os.Executable()
}

// startFloor starts an HTTP floor that answers as plan says.
func startFloor(ctx context.Context, plan floorPlan) (*child, error) {
	name, err := executable("")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, name, "bench", "floor")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, stdin: in, exited: make(chan struct{})}
	if err := json.NewEncoder(in).Encode(plan); err != nil {
		return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start HTTP floor: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	c.addr = strings.TrimSpace(line)
	go c.wait()
	return c, nil
}

// serverPlan says which server to start.
type serverPlan struct {
	binary   string // "": this program
	store    string // "": SQLite in dir
	schema   string // of a PostgreSQL; "": the server's default
	dir      string // the scratch folder
	protocol string
	env      []string // added to this process's
}

// startServer starts a server with one protocol on a free port.
func startServer(ctx context.Context, p serverPlan) (*child, error) {
	name, err := executable(p.binary)
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "--data-dir", filepath.Join(p.dir, "data"), "--log-format", "json", "--admin-addr", "off"}
	for _, protocol := range []string{"queen", "querator", "cfqueues"} {
		addr := "off"
		if protocol == p.protocol {
			addr = "127.0.0.1:0"
		}
		args = append(args, "--"+protocol+"-addr", addr)
	}
	if p.store != "" {
		args = append(args, "--store", p.store)
	}
	if p.schema != "" {
		args = append(args, "--schema", p.schema)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(cleanEnvironment(), p.env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	log, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, exited: make(chan struct{})}
	ready := make(chan error, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.watch(log, p.protocol, ready)
	}()
	go func() {
		<-read // Wait closes the pipe, so all of it is read before
		c.wait()
	}()
	select {
	case err = <-ready:
	case <-time.After(startTimeout):
		err = errors.New("server is not ready in time")
	}
	if c.took = time.Since(began); err != nil {
		return nil, errors.Join(fmt.Errorf("start server: %w", err), c.cmd.Process.Kill())
	}
	return c, nil
}

// watch reads the server's log: where it listens, when it is ready, and what
// goes wrong, which is passed on.
func (c *child) watch(log io.Reader, protocol string, ready chan<- error) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	var last string
	for lines.Scan() {
		var line struct{ Level, Msg, Protocol, Addr string }
		last = lines.Text()
		if json.Unmarshal(lines.Bytes(), &line) != nil || line.Level == "WARN" || line.Level == "ERROR" {
			_, _ = fmt.Fprintln(os.Stderr, "server:", last)
		}
		switch {
		case line.Msg == "listening" && line.Protocol == protocol:
			c.addr = line.Addr
		case line.Msg == "server is ready":
			ready <- nil
		}
	}
	select {
	case ready <- fmt.Errorf("server ended: %s", last):
	default:
	}
}

// cleanEnvironment is the environment without settings of a server, which
// would change what is measured.
func cleanEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "LEASEHOLD_") })
}
