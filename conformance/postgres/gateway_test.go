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

	mu   sync.Mutex
	said map[string]int
	log  []string
	done chan struct{}
}

// startGateway starts a server over a store, and ends it with the test.
func startGateway(t *testing.T, store string, flags ...string) *gateway {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	g := &gateway{said: map[string]int{}, done: make(chan struct{})}
	cmd := exec.Command(path, append([]string{
		"serve", "--store", store, "--data-dir", t.TempDir(), "--log-format", "json", "--queen-addr", "127.0.0.1:0",
		"--querator-addr", "127.0.0.1:0", "--cfqueues-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
	}, flags...)...)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ready := make(chan struct{})
	go g.watch(stderr, ready)
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
	select {
	case <-ready:
	case <-g.done:
		t.Fatalf("the gateway did not start: %s", strings.Join(g.log, "\n"))
	case <-time.After(30 * time.Second):
		t.Fatal("the gateway is not ready")
	}
	conn := blackbox.NewConn()
	g.queen, g.cf = blackbox.Queen{Base: g.Queen, Conn: conn}, blackbox.Cfqueues{Base: g.Cfqueues, Conn: conn}
	return g
}

func (g *gateway) watch(stderr io.Reader, ready chan<- struct{}) {
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
		switch {
		case line.Msg == "listening" && line.Protocol == "queen":
			g.Queen = "http://" + line.Addr
		case line.Msg == "listening" && line.Protocol == "cfqueues":
			g.Cfqueues = "http://" + line.Addr
		case line.Msg == "server is ready":
			close(ready)
		}
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
