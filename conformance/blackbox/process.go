package blackbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// How long a server may take to come up and to go down. A server that needs longer hangs.
const (
	startTimeout = 30 * time.Second
	stopTimeout  = 40 * time.Second
)

// bodyCutOff is Querator's status for a request body that ends early, which is the client's doing.
const bodyCutOff = 512

// command is the package that is built and run.
const command = "github.com/leasehold/leasehold/cmd/leasehold"

// Target is where a server's listeners are, as base URLs without a slash at the end. A listener
// that is off has "".
type Target struct {
	Queen, Querator, Cfqueues, Admin, Control string
}

// Server is a running "leasehold serve" in a process of its own.
type Server struct {
	Target
	// Dir is the data directory.
	Dir string
	// Startup is the time from the start of the process until its listeners were open.
	Startup time.Duration

	cmd  *exec.Cmd
	done chan struct{}
	log  ServerLog

	mu sync.Mutex
	// alarms are what a healthy server never logs: errors, and what is no log line at all, such as
	// a panic's trace or a report of the race detector.
	alarms []string
	fail   error
}

// Binary returns the command that is tested: what LEASEHOLD_BINARY names, else one that it compiles once per test binary.
func Binary() (string, error) { return built() }

var built = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("LEASEHOLD_BINARY"); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "leasehold-blackbox-")
	if err != nil {
		return "", err
	}
	buildDir = dir
	path := filepath.Join(dir, "leasehold")
	args := append([]string{"build"}, strings.Fields(os.Getenv("LEASEHOLD_BUILD_FLAGS"))...)
	//nolint:gosec // the arguments are the tester's own
	out, err := exec.Command("go", append(args, "-o", path, command)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// buildDir is the folder that built made, "" when it made none.
var buildDir string

// RemoveBinary deletes what the package built. A TestMain calls it last.
func RemoveBinary() error {
	if buildDir == "" {
		return nil
	}
	return os.RemoveAll(buildDir)
}

// Start builds the command if need be and runs "serve" on the data directory dir with every
// listener on a free port of 127.0.0.1 and the given further flags. It returns when the listeners
// are open. The process is killed at the end of the test unless it ended before.
func Start(tb testing.TB, dir string, flags ...string) *Server {
	tb.Helper()
	binary, err := Binary()
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{Dir: dir, done: make(chan struct{})}
	s.cmd = exec.Command(binary, append([]string{
		"serve", "--data-dir", dir, "--log-format", "json",
		"--queen-addr", "127.0.0.1:0", "--querator-addr", "127.0.0.1:0", "--cfqueues-addr", "127.0.0.1:0",
		"--admin-addr", "127.0.0.1:0", "--control-addr", "127.0.0.1:0",
	}, flags...)...)
	began := time.Now()
	stderr, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		tb.Fatalf("start %s: %v", binary, err)
	}
	ready := make(chan struct{})
	go s.watch(stderr, ready)
	tb.Cleanup(func() { s.cleanUp(tb) })
	select {
	case <-ready:
		s.Startup = time.Since(began)
	case <-s.done:
		tb.Fatalf("the server ended before it was ready: %v\n%s", s.fail, s.Log())
	case <-time.After(startTimeout):
		tb.Fatalf("the server was not ready after %s\n%s", startTimeout, s.Log())
	}
	return s
}

// watch reads the log until the process ends, notes the addresses and tells when it is ready.
func (s *Server) watch(stderr io.Reader, ready chan<- struct{}) {
	ending := false
	err := s.log.Follow(stderr, func(e Entry) {
		strange := e.Strange
		if e.Level == "ERROR" && e.Status != bodyCutOff {
			refused := ending && strings.HasPrefix(e.Msg, "request ")
			strange = !refused
		}
		s.Listening(e)
		switch e.Msg {
		case "server is ready":
			close(ready)
		case "server is shutting down":
			ending = true
		}
		if strange {
			s.alarm(e.Text)
		}
	})
	s.fail = errors.Join(err, s.cmd.Wait())
	close(s.done)
}

func (s *Server) alarm(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.alarms) < keptLog {
		s.alarms = append(s.alarms, text)
	}
}

// Log returns the end of the server's log.
func (s *Server) Log() string { return s.log.Tail() }

// PID is the process's id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (s *Server) Ended() <-chan struct{} { return s.done }

// Kill ends the process with SIGKILL and waits until it is gone.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	if err := s.signal(syscall.SIGKILL); err != nil {
		tb.Fatalf("kill: %v", err)
	}
}

// Stop ends the process with SIGTERM, waits until it is gone, and fails the test unless it ended
// in order.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	if err := s.signal(syscall.SIGTERM); err != nil {
		tb.Fatalf("stop: %v\n%s", err, s.Log())
	}
	if s.fail != nil {
		tb.Fatalf("the server did not end in order: %v\n%s", s.fail, s.Log())
	}
}

// signal sends a signal and waits for the end.
func (s *Server) signal(sig syscall.Signal) error {
	if err := s.cmd.Process.Signal(sig); err != nil {
		return err
	}
	select {
	case <-s.done:
		return nil
	case <-time.After(stopTimeout):
		_ = s.cmd.Process.Kill()
		<-s.done
		return fmt.Errorf("still running %s after signal %d", stopTimeout, sig)
	}
}

// cleanUp leaves no process behind, fails a test whose server logged what it never should, and
// shows the log of a test that failed.
func (s *Server) cleanUp(tb testing.TB) {
	tb.Helper()
	select {
	case <-s.done:
	default:
		_ = s.cmd.Process.Kill()
		<-s.done
	}
	if len(s.alarms) > 0 {
		tb.Errorf("server %d logged:\n%s", s.PID(), strings.Join(s.alarms, "\n"))
	}
	if tb.Failed() {
		tb.Logf("log of server %d:\n%s", s.PID(), s.Log())
	}
}

// Clock moves the time of a server that has a control listener.
type Clock struct {
	url  string
	conn *Conn
}

// NewClock returns the clock of a target.
func NewClock(t Target) *Clock { return &Clock{url: t.Control + "/clock", conn: NewConn()} }

// Freeze stops the server's clock at t.
func (c *Clock) Freeze(tb testing.TB, t time.Time) {
	tb.Helper()
	c.post(tb, fmt.Sprintf(`{"op":"freeze","now":%q}`, t.UTC().Format(time.RFC3339Nano)))
}

// Advance moves the clock forward; what comes due on the way happens.
func (c *Clock) Advance(tb testing.TB, d time.Duration) {
	tb.Helper()
	c.post(tb, fmt.Sprintf(`{"op":"advance","by":%q}`, d))
}

// Unfreeze lets the clock run with the machine's again.
func (c *Clock) Unfreeze(tb testing.TB) {
	tb.Helper()
	c.post(tb, `{"op":"unfreeze"}`)
}

func (c *Clock) post(tb testing.TB, body string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	a, err := c.conn.JSON(ctx, "POST", c.url, body)
	if err != nil || a.Status != 200 {
		tb.Fatalf("move the clock: %v %s", err, a)
	}
}
