package postgres_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/blackbox"
	"github.com/leasehold/leasehold/conformance/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, removeBinary) }

var binaryDir string

// binary compiles the command once.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("LEASEHOLD_BINARY"); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "leasehold-gateway")
	if err != nil {
		return "", err
	}
	binaryDir = dir
	path := filepath.Join(dir, "leasehold")
	out, err := exec.Command("go", "build", "-o", path, "github.com/leasehold/leasehold/cmd/leasehold").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func removeBinary() error {
	if binaryDir == "" {
		return nil
	}
	return os.RemoveAll(binaryDir)
}

// gateway is a server process.
type gateway struct {
	blackbox.Target
	queen blackbox.Queen
	cf    blackbox.Cfqueues
	qr    blackbox.Querator

	mu   sync.Mutex
	said map[string]int
	log  []string
	// open is closed when all listeners accept connections, ready when the server says that it is, done when it has ended.
	open, ready, done chan struct{}
}

// startGateway starts a server over a store, and ends it with the test.
func startGateway(t *testing.T, store string, flags ...string) *gateway {
	t.Helper()
	g := launchGateway(t, store, flags...)
	g.await(t, g.ready)
	return g
}

// launchGateway starts a server over a store that need not be there yet: it returns when the listeners are open.
func launchGateway(t *testing.T, store string, flags ...string) *gateway {
	t.Helper()
	g := spawnGateway(t, store, flags...)
	g.await(t, g.open)
	return g
}

// spawnGateway starts a server's process and waits for nothing: before open is closed nobody may use its clients.
func spawnGateway(t *testing.T, store string, flags ...string) *gateway {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	g := &gateway{said: map[string]int{}, open: make(chan struct{}), ready: make(chan struct{}), done: make(chan struct{})}
	cmd := exec.Command(path, append([]string{
		"serve", "--store", store, "--data-dir", t.TempDir(), "--log-format", "json", "--queen-addr", "127.0.0.1:0",
		"--querator-addr", "127.0.0.1:0", "--cfqueues-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
	}, flags...)...)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	go g.watch(stderr)
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-g.done
		_ = cmd.Wait() // how it ended does not matter
		if t.Failed() {
			g.mu.Lock()
			t.Logf("log of a gateway:\n%s", strings.Join(g.log, "\n"))
			g.mu.Unlock()
		}
	})
	return g
}

// await waits for a moment of the gateway's start.
func (g *gateway) await(t *testing.T, moment <-chan struct{}) {
	t.Helper()
	select {
	case <-moment:
	case <-g.done:
		t.Fatalf("the gateway did not start: %s", strings.Join(g.log, "\n"))
	case <-time.After(30 * time.Second):
		t.Fatal("the gateway is not ready")
	}
}

func (g *gateway) watch(stderr io.Reader) {
	defer close(g.done)
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Msg, Protocol, Addr string }
		_ = json.Unmarshal(lines.Bytes(), &line) // what is no line of the log is kept as it is
		g.mu.Lock()
		g.said[line.Msg]++
		if g.log = append(g.log, lines.Text()); len(g.log) > 200 {
			g.log = g.log[1:]
		}
		g.mu.Unlock()
		switch line.Msg {
		case "listening":
			g.listening(line.Protocol, "http://"+line.Addr)
		case "server is ready":
			close(g.ready)
		}
	}
}

// listening notes where a protocol is served.
func (g *gateway) listening(protocol, base string) {
	switch protocol {
	case "queen":
		g.Queen = base
	case "querator":
		g.Querator = base
	case "cfqueues":
		g.Cfqueues = base
	}
	if protocol != "admin" && g.Queen != "" && g.Querator != "" && g.Cfqueues != "" {
		conn := blackbox.NewConn()
		g.queen, g.cf = blackbox.Queen{Base: g.Queen, Conn: conn}, blackbox.Cfqueues{Base: g.Cfqueues, Conn: conn}
		g.qr = blackbox.Querator{Base: g.Querator, Conn: conn}
		close(g.open)
	}
}

// count returns how often the log said something.
func (g *gateway) count(msg string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.said[msg]
}

// schema returns the shared server's URL with a schema of the test's own.
func schema(t *testing.T) string {
	t.Helper()
	return testenv.Postgres(t) + "&schema=t" + fmt.Sprint(time.Now().UnixNano())
}
