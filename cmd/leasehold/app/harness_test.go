package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// envServe makes the test binary the real program, so that a test can start it
// as a process of its own and signal it.
const envServe = "LEASEHOLD_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(envServe) != "" {
		os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// everywhere puts every listener on a free port and the data in dir.
func everywhere(dir string, more ...string) []string {
	return append([]string{
		"serve", "--data-dir", dir, "--queen-addr=127.0.0.1:0", "--querator-addr=127.0.0.1:0",
		"--cfqueues-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0",
	}, more...)
}

// running is a server inside the test's process.
type running struct {
	*App

	stop func() error
}

// start runs a server until the test ends and fails the test if it does not
// end in order.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	cfg, err := parsed(args...)
	require.NoError(t, err)
	a := New(cfg, Options{Logger: slog.New(slog.NewTextHandler(&testLog{t: t}, nil))})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	select {
	case <-a.Ready():
	case err := <-ended:
		cancel()
		require.NoError(t, err, "the server did not start")
	}
	r := &running{App: a, stop: sync.OnceValue(func() error { cancel(); return <-ended })}
	t.Cleanup(func() { require.NoError(t, r.stop()) })
	return r
}

// url is the address of a route of a listener.
func (r *running) url(listener, path string) string { return "http://" + r.Addr(listener) + path }

// testLog writes a log to the test's, which shows it when the test fails.
type testLog struct{ t *testing.T }

func (l *testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// child is a server in a process of its own.
type child struct {
	cmd   *exec.Cmd
	addrs map[string]string
	// read is closed when all of the log has been read.
	read chan struct{}

	mu  sync.Mutex
	log bytes.Buffer
}

// wait returns when the child has ended and its log is whole.
func (c *child) wait() error {
	<-c.read // waiting for the process closes the pipe, whatever is still in it
	return c.cmd.Wait()
}

// spawn starts the program in folder dir and waits until it is ready.
func spawn(t *testing.T, dir string, env []string, args ...string) *child {
	t.Helper()
	c := &child{
		cmd:   exec.Command(os.Args[0], append(args, "--log-format=json")...), //nolint:gosec // the test binary itself
		addrs: map[string]string{}, read: make(chan struct{}),
	}
	c.cmd.Dir = dir
	c.cmd.Env = append(append(os.Environ(), envServe+"=1"), env...)
	stderr, err := c.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.wait()
	})
	ready := make(chan struct{})
	go c.follow(stderr, ready)
	select {
	case <-ready:
	case <-time.After(30 * time.Second):
	}
	require.NotEmpty(t, c.addrs, "the server did not start: %s", c.logged())
	return c
}

// follow reads the child's log: the addresses it listens on, and that it is
// ready.
func (c *child) follow(stderr io.Reader, ready chan struct{}) {
	once := sync.OnceFunc(func() { close(ready) })
	defer once()
	defer close(c.read)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		c.mu.Lock()
		c.log.Write(append(lines.Bytes(), '\n'))
		c.mu.Unlock()
		var line struct{ Msg, Protocol, Addr string }
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		switch line.Msg {
		case "listening":
			c.addrs[line.Protocol] = line.Addr
		case "server is ready":
			once()
		}
	}
}

func (c *child) logged() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

func (c *child) url(listener, path string) string { return "http://" + c.addrs[listener] + path }

// addressed is a server whose routes have addresses, in this process or not.
type addressed interface {
	url(listener, path string) string
}

// answer is what a request got.
type answer struct {
	status int
	body   string
	err    error
}

// send makes a request; a body makes it a POST of JSON.
func send(url, body string) answer {
	method, reader := http.MethodGet, io.Reader(http.NoBody)
	if body != "" {
		method, reader = http.MethodPost, strings.NewReader(body)
	}
	req, err := http.NewRequest(method, url, reader)
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(b), err}
}

// must is send for a request that has to succeed.
func must(t *testing.T, url, body string) string {
	t.Helper()
	a := send(url, body)
	require.NoError(t, a.err)
	require.Less(t, a.status, 300, "%s: %s", url, a.body)
	return a.body
}

// parked sends a request that waits and returns where its answer will be.
func parked(url, body string) <-chan answer {
	ch := make(chan answer, 1)
	go func() { ch <- send(url, body) }()
	return ch
}
