package postgres_test

import (
	"fmt"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/blackbox"
	"github.com/leasehold/leasehold/conformance/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, blackbox.RemoveBinary) }

// gateway is a server process.
type gateway struct {
	blackbox.Target
	queen blackbox.Queen
	cf    blackbox.Cfqueues
	qr    blackbox.Querator

	log blackbox.ServerLog
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
	path, err := blackbox.Binary()
	require.NoError(t, err)
	g := &gateway{open: make(chan struct{}), ready: make(chan struct{}), done: make(chan struct{})}
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
			t.Logf("log of a gateway:\n%s", g.log.Tail())
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
		t.Fatalf("the gateway did not start: %s", g.log.Tail())
	case <-time.After(30 * time.Second):
		t.Fatal("the gateway is not ready")
	}
}

func (g *gateway) watch(stderr io.Reader) {
	defer close(g.done)
	opened := false
	_ = g.log.Follow(stderr, func(e blackbox.Entry) { // its end is the process's
		g.Listening(e)
		if !opened && g.Queen != "" && g.Querator != "" && g.Cfqueues != "" {
			opened = true
			g.connect()
		}
		if e.Msg == "server is ready" {
			close(g.ready)
		}
	})
}

// connect makes the clients of the protocols, which share connections.
func (g *gateway) connect() {
	conn := blackbox.NewConn()
	g.queen, g.cf = blackbox.Queen{Base: g.Queen, Conn: conn}, blackbox.Cfqueues{Base: g.Cfqueues, Conn: conn}
	g.qr = blackbox.Querator{Base: g.Querator, Conn: conn}
	close(g.open)
}

// count returns how often the log said something.
func (g *gateway) count(msg string) int { return g.log.Count(msg) }

// schema returns the shared server's URL with a schema of the test's own.
func schema(t *testing.T) string {
	t.Helper()
	return testenv.Postgres(t) + "&schema=t" + fmt.Sprint(time.Now().UnixNano())
}
