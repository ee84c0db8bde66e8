package blackbox

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hundredMegabytes is far above every limit.
const hundredMegabytes = 100 << 20

// TestSweepOfLargeBodies sends a hundred megabytes to every route that reads a body, by turns without
// saying so beforehand, saying so and sending them, and saying so and waiting for the answer, as
// curl does. In the last case nothing is sent.
func TestSweepOfLargeBodies(t *testing.T) {
	server := Start(t, t.TempDir())
	NewClock(server.Target).Freeze(t, noon)
	s := newSweeper(t, server.Target)
	sent := 0
	for _, p := range s.protocols(t) {
		status, want := http.StatusRequestEntityTooLarge, ""
		if p.name == "querator" {
			status, want = http.StatusBadRequest, "request body exceeds "
		}
		for _, r := range p.routes {
			if testing.Short() && sent%8 != 0 {
				sent++
				continue
			}
			a := s.sendLarge(t, r.method, p.refusal.base+r.path, sent%3)
			sent++
			require.Equal(t, status, a.Status, "%s: %s", r.path, a)
			p.refusal.check(t, r.path, a)
			require.Contains(t, string(a.Body), want)
			s.since = []string{r.path}
			s.unchanged(t)
		}
	}
	t.Logf("%d bodies of 100 MiB, the server's memory: %s", sent, peakMemory(server.PID()))
}

func (s *sweeper) sendLarge(t *testing.T, method, url string, way int) Answer {
	t.Helper()
	body := &filler{head: `{"a":"`}
	r, err := http.NewRequestWithContext(t.Context(), method, url, io.LimitReader(body, hundredMegabytes))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	if way > 0 {
		r.ContentLength = hundredMegabytes
	}
	if way > 1 {
		r.Header.Set("Expect", "100-continue")
	}
	res, err := s.c.Conn.client.Do(r)
	require.NoError(t, err, url)
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	if way > 1 {
		require.Zero(t, body.read, "bytes sent to a server that had refused them")
	}
	return Answer{res.StatusCode, res.Header, answer}
}

// filler is a head and then x for ever.
type filler struct {
	head string
	read int
}

// Read implements io.Reader.
func (f *filler) Read(p []byte) (int, error) {
	n := copy(p, f.head)
	f.head = f.head[n:]
	for i := n; i < len(p); i++ {
		p[i] = 'x'
	}
	f.read += len(p)
	return len(p), nil
}

// peakMemory is the most memory that a process ever had, where the system tells.
func peakMemory(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

// TestSweepOfHalfBodies leaves in the middle of a request's body, on every route that reads one.
func TestSweepOfHalfBodies(t *testing.T) {
	server := Start(t, t.TempDir())
	NewClock(server.Target).Freeze(t, noon)
	s := newSweeper(t, server.Target)
	for _, p := range s.protocols(t) {
		host, prefix, _ := strings.Cut(strings.TrimPrefix(p.refusal.base, "http://"), "/")
		for _, r := range p.routes {
			path := strings.TrimSuffix("/"+prefix, "/") + r.path
			conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", host)
			require.NoError(t, err)
			// All of a body that would be accepted, and the promise of one more byte.
			_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				r.method, path, len(r.body)+1, r.body)
			require.NoError(t, err)
			tcp, ok := conn.(*net.TCPConn)
			require.True(t, ok)
			require.NoError(t, tcp.CloseWrite())
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err == nil {
				assert.GreaterOrEqual(t, res.StatusCode, 400, path)
				_ = res.Body.Close()
			}
			require.NoError(t, conn.Close())
			s.since = []string{path}
			s.unchanged(t)
		}
	}
}
