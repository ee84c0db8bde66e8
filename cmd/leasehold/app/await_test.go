package app

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestADatabaseThatIsNotThereYet starts a server before its database: every listener answers at once, and tells clients to try again. How it goes on
// once the database is there is seen with a real one, in conformance/postgres.
func TestADatabaseThatIsNotThereYet(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	database := nobody.Addr().String()
	require.NoError(t, nobody.Close())
	cfg, err := parsed(everywhere(t.TempDir(), "--store=postgres://u:secret@"+database+"/x?sslmode=disable", "--querator-addr=L1=127.0.0.1:0,R1=127.0.0.1:0")...)
	require.NoError(t, err)
	log := &lines{}
	a := New(cfg, Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	var urls map[string][]string
	require.Eventually(t, func() bool { urls = log.listening(); return len(urls) == 4 }, 10*time.Second, 5*time.Millisecond)
	require.Len(t, urls["querator"], 3)
	for _, c := range []struct {
		protocol, method, path string
		status                 int
		body                   string
	}{
		{"queen", "POST", "/api/v1/push", 500, `{"error":"pool"}`},
		{"queen", "GET", "/health", 503, `{"status":"unhealthy","database":"disconnected"`},
		{"querator", "POST", "/v1/queue.produce", 454, `{"code":454,"code_text":"Retry Request"`},
		{"querator", "GET", "/health", 503, `{"status":"fail"`},
		{"cfqueues", "GET", "/accounts/a/queues", 0, `{"success":false,"errors":[{"code":15000`},
		{"admin", "GET", "/readyz", 503, `{"status":"unavailable"}`},
		{"admin", "GET", "/healthz", 200, `{"status":"ok"}`},
		{"admin", "GET", "/metrics", 200, "# HELP"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, urls[c.protocol][0]+c.path, strings.NewReader(`{"a":`))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		got, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		assert.Truef(t, strings.HasPrefix(string(body), c.body), "%s %s: %s", c.protocol, c.path, body)
		if c.status != 0 {
			assert.Equal(t, c.status, got.StatusCode, c.path)
		} else {
			assert.GreaterOrEqual(t, got.StatusCode, 500, c.path)
			assert.Equal(t, "true", got.Header.Get("X-Should-Retry"))
		}
	}
	assert.Equal(t, 1, log.count("the database cannot be used, requests are refused until it can"), "one line tells of it")
	assert.Zero(t, log.count("secret"))
	cancel()
	require.NoError(t, <-ended, "an orderly end")
	_, err = net.Dial("tcp", strings.TrimPrefix(urls["admin"][0], "http://"))
	require.Error(t, err, "nobody listens any more")
}

// TestAnAddressThatIsTakenWhileTheDatabaseIsAway ends the server, as it would with a database.
func TestAnAddressThatIsTakenWhileTheDatabaseIsAway(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	cfg, err := parsed(everywhere(t.TempDir(), "--store=postgres://u@127.0.0.1:1/x?sslmode=disable", "--admin-addr="+taken.Addr().String())...)
	require.NoError(t, err)
	require.ErrorContains(t, New(cfg, Options{}).Run(t.Context()), "--admin-addr")
}

// lines are a server's log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// count returns how often the log holds a text.
func (l *lines) count(text string) int { return strings.Count(l.String(), text) }

var listeningLine = regexp.MustCompile(`msg=listening protocol=(\w+) addr=(\S+)`)

// listening returns where the protocols listen, as base URLs.
func (l *lines) listening() map[string][]string {
	out := map[string][]string{}
	for _, m := range listeningLine.FindAllStringSubmatch(l.String(), -1) {
		out[m[1]] = append(out[m[1]], "http://"+m[2])
	}
	return out
}
