package querator_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/querator"
	"github.com/leasehold/leasehold/conformance/target"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
)

// fixture is a listener over an engine whose clock stands still.
//
// Where CONFORMANCE_TARGET_QUERATOR names a server, the handler passes requests
// on to it, and the clock is that server's; see conformance/target. The engine is
// then an empty one of its own, and tests that reach into it are not for that server.
type fixture struct {
	t       *testing.T
	clock   target.Clock
	local   *coretest.Clock // the engine's, which is the clock unless the server is a remote one
	remote  *target.Remote
	store   core.Store
	options querator.Options
	engine  *core.Engine
	handler http.Handler
}

func newFixture(t *testing.T, o querator.Options) *fixture {
	t.Helper()
	return newFixtureOn(t, target.Open(t), o)
}

// newFixtureOn is newFixture over a store, which it closes.
func newFixtureOn(t *testing.T, store core.Store, o querator.Options) *fixture {
	t.Helper()
	f := &fixture{t: t, local: coretest.New(coretest.Start), store: store, options: o, remote: target.Of(t, target.Querator)}
	f.clock = f.local
	f.start()
	if f.remote != nil {
		plain := o
		plain.Generation = ""
		target.RequirePlain(t, plain)
		f.handler, f.clock = f.remote.Handler(t, string(o.Generation)), f.remote.Clock(t)
		if f.remote.VariesBlanks() {
			f.handler = withoutBlanks(f.handler)
		}
	}
	t.Cleanup(func() {
		require.NoError(t, f.engine.Shutdown(context.Background()))
		require.NoError(t, store.Close())
	})
	return f
}

// withoutBlanks removes what the protobuf runtime of another server varies from build to build, so that its answers can be compared to the byte.
func withoutBlanks(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		theirs := httptest.NewRecorder()
		h.ServeHTTP(theirs, r)
		maps.Copy(w.Header(), theirs.Header())
		w.Header().Del("Content-Length")
		w.WriteHeader(theirs.Code)
		_, _ = io.WriteString(w, plain(theirs.Body.String()))
	})
}

func (f *fixture) start() {
	f.t.Helper()
	var err error
	f.engine, err = core.New(f.t.Context(), f.store, core.Options{Clock: f.local, SourceID: querator.SourceID})
	require.NoError(f.t, err)
	f.handler = querator.New(f.engine, f.options)
}

// restart ends the engine and starts another over the same store.
func (f *fixture) restart() {
	f.t.Helper()
	if f.remote != nil {
		f.remote.Restart(f.t)
		return
	}
	require.NoError(f.t, f.engine.Shutdown(context.Background()))
	f.start()
}

// pause holds what comes for a queue, or lets it go on.
func (f *fixture) pause(queue string, on bool) {
	f.t.Helper()
	if f.remote != nil {
		f.remote.Pause(f.t, queue, on)
		return
	}
	require.NoError(f.t, f.engine.Pause(f.t.Context(), queue, on))
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// items decodes the items of a lease reply; id, reference and so on are looked up by JSON name.
func (a answer) items(t *testing.T) []map[string]any {
	t.Helper()
	require.Equal(t, http.StatusOK, a.status, a.body)
	var m struct{ Items []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(a.body), &m))
	return m.Items
}

// message returns the message of a Reply.
func (a answer) message(t *testing.T) string {
	t.Helper()
	var m struct {
		Code    int
		Message string
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &m), a.body)
	require.Equal(t, a.status, m.Code)
	return m.Message
}

// do sends one request; headers come in pairs.
func (f *fixture) do(method, path, body string, headers ...string) answer {
	return f.send(f.t.Context(), method, path, body, headers...)
}

func (f *fixture) send(ctx context.Context, method, path, body string, headers ...string) answer {
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Del(headers[i]); headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	res := w.Result()
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		panic(err)
	}
	return answer{res.StatusCode, res.Header, string(b)}
}

// post sends a JSON body.
func (f *fixture) post(path, body string) answer { return f.do(http.MethodPost, path, body) }

// ok sends a JSON body that must succeed.
func (f *fixture) ok(path, body string) answer {
	f.t.Helper()
	a := f.post(path, body)
	require.Equal(f.t, http.StatusOK, a.status, a.body)
	return a
}

// later sends a request and returns where its answer will come.
func (f *fixture) later(ctx context.Context, path, body string) <-chan answer {
	c := make(chan answer, 1)
	go func() { c <- f.send(ctx, http.MethodPost, path, body) }()
	return c
}

// create makes a queue with a lease timeout of 1m and an expire timeout of 1h.
func (f *fixture) create(name string, more ...string) {
	f.t.Helper()
	f.ok("/v1/queues.create", `{"queue_name":"`+name+`","lease_timeout":"1m","expire_timeout":"1h","requested_partitions":1`+strings.Join(more, "")+`}`)
}

// patience bounds how long a test waits for another goroutine.
const patience = 5 * time.Second

// parked counts the leases that wait on a queue.
func (f *fixture) parked(ctx context.Context, queue string) int {
	f.t.Helper()
	if f.remote != nil {
		n, _ := f.remote.Waiting(f.t, queue)
		return n
	}
	s, err := f.engine.QueueStats(ctx, queue, "")
	if err != nil {
		return 0
	}
	return s.ClaimsWaiting
}

// waiting waits until n leases of a queue are parked.
func (f *fixture) waiting(queue string, n int) {
	f.t.Helper()
	if f.remote != nil {
		f.remote.AwaitWaiting(f.t, queue, n)
		return
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		s, err := f.engine.QueueStats(f.t.Context(), queue, "")
		require.NoError(f.t, err)
		if s.ClaimsWaiting == n {
			return
		}
		runtime.Gosched()
	}
	f.t.Fatalf("there were never %d leases waiting on %s", n, queue)
}

// exact requires the same bytes, not only the same JSON.
func exact(t *testing.T, want, got string, what ...any) {
	t.Helper()
	require.Equal(t, want, got, what...)
}

// soon receives from c, or fails the test.
func soon[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("no answer")
		panic("unreachable")
	}
}
