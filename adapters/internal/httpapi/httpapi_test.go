package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/internal/httpapi"
)

// exchange is one call of an observer.
type exchange struct {
	protocol, route, method string
	status                  int
	took                    time.Duration
	in, out                 int64
}

// watcher keeps what an observer is told.
type watcher struct {
	mu  sync.Mutex
	got []exchange
}

func (w *watcher) ObserveRequest(protocol, route, method string, status int, took time.Duration, in, out int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got = append(w.got, exchange{protocol, route, method, status, took, in, out})
}

// stepClock advances by one second at every look.
func stepClock() func() time.Time {
	t := time.Unix(1_700_000_000, 0)
	return func() time.Time { t = t.Add(time.Second); return t }
}

func serve(h http.HandlerFunc, o httpapi.Options, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	httpapi.Wrap(h, o).ServeHTTP(rec, r)
	return rec
}

func TestObserverSeesRouteStatusSizesAndDuration(t *testing.T) {
	w := &watcher{}
	serve(func(rw http.ResponseWriter, r *http.Request) {
		httpapi.SetRoute(r.Context(), "/q/:name")
		_, _ = httpapi.ReadBody(r, 100)
		rw.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(rw, "hello")
	}, httpapi.Options{Protocol: "queen", Now: stepClock(), Observer: w},
		httptest.NewRequest(http.MethodPost, "/q/x?token=secret", strings.NewReader("abc")))
	assert.Equal(t, []exchange{{"queen", "/q/:name", "POST", 201, time.Second, 3, 5}}, w.got)
}

func TestRequestIDIsKeptWhenHarmlessAndMadeOtherwise(t *testing.T) {
	for sent, kept := range map[string]bool{"abc-1.2_3": true, "": false, "a b": false, "a\nb": false, strings.Repeat("x", 129): false} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header[httpapi.HeaderRequestID] = []string{sent}
		var inside string
		rec := serve(func(_ http.ResponseWriter, r *http.Request) { inside = httpapi.RequestID(r.Context()) }, httpapi.Options{}, r)
		got := rec.Header().Get(httpapi.HeaderRequestID)
		assert.Equal(t, got, inside)
		assert.NotEmpty(t, got)
		assert.Equal(t, kept, got == sent, "sent %q got %q", sent, got)
	}
}

func TestPanicIsAnsweredInTheProtocolsWords(t *testing.T) {
	var log bytes.Buffer
	w := &watcher{}
	o := httpapi.Options{
		Protocol: "queen", Observer: w, Logger: slog.New(slog.NewJSONHandler(&log, nil)),
		Panic: func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(rw, `{"error":"internal"}`)
		},
	}
	rec := serve(func(http.ResponseWriter, *http.Request) { panic("boom") }, o, httptest.NewRequest(http.MethodGet, "/", nil))
	assert.Equal(t, http.StatusInternalServerError, rec.Code)
	assert.JSONEq(t, `{"error":"internal"}`, rec.Body.String())
	assert.Contains(t, log.String(), `"cause":"boom"`)
	require.Len(t, w.got, 1)
	assert.Equal(t, 500, w.got[0].status)
}

func TestPanicAfterTheAnswerBeganBreaksTheConnection(t *testing.T) {
	srv := httptest.NewServer(httpapi.Wrap(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(rw, "half")
		panic("boom")
	}), httpapi.Options{}))
	defer srv.Close()
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	resp, err := http.Get(srv.URL)
	if err == nil {
		defer func() { _ = resp.Body.Close() }()
		_, err = io.ReadAll(resp.Body)
	}
	require.Error(t, err, "a truncated answer must not look complete")
}

func TestAccessLogShowsNoPathAndNoQuery(t *testing.T) {
	var log bytes.Buffer
	o := httpapi.Options{Protocol: "queen", Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	serve(func(_ http.ResponseWriter, r *http.Request) {
		httpapi.SetRoute(r.Context(), "/lease/:id/extend")
	}, o, httptest.NewRequest(http.MethodPost, "/lease/0190-secret/extend?token=hush", nil))
	assert.Contains(t, log.String(), `"route":"/lease/:id/extend"`)
	assert.Contains(t, log.String(), `"level":"DEBUG"`)
	assert.NotContains(t, log.String(), "secret")
	assert.NotContains(t, log.String(), "hush")
}

func TestAccessLogLevels(t *testing.T) {
	for status, level := range map[int]string{200: "DEBUG", 204: "DEBUG", 400: "INFO", 404: "INFO", 454: "DEBUG", 500: "ERROR", 501: "INFO", 503: "ERROR"} {
		var log bytes.Buffer
		o := httpapi.Options{Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
		serve(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }, o, httptest.NewRequest(http.MethodGet, "/", nil))
		assert.Contains(t, log.String(), fmt.Sprintf(`"level":%q`, level), "status %d", status)
	}
}

func TestClientThatLeftIsNotASuccess(t *testing.T) {
	w := &watcher{}
	ctx, cancel := context.WithCancel(t.Context())
	serve(func(http.ResponseWriter, *http.Request) { cancel() },
		httpapi.Options{Observer: w}, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
	require.Len(t, w.got, 1)
	assert.Equal(t, 499, w.got[0].status)
	assert.Equal(t, httpapi.RouteUnmatched, w.got[0].route)
}

func TestReadBodyAtAndOverTheLimit(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, 513, 70_000, 3 << 20} {
		want := bytes.Repeat([]byte{0, 'x', 0xff}, size/3+1)[:size]
		for _, known := range []bool{true, false} {
			r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(want))
			if !known {
				r.ContentLength = -1
			}
			b, err := httpapi.ReadBody(r, int64(size))
			require.NoError(t, err)
			assert.True(t, bytes.Equal(want, b.Bytes), "size %d known %v", size, known)
			b.Release()

			over := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(append(want, 'y')))
			if !known {
				over.ContentLength = -1
			}
			_, err = httpapi.ReadBody(over, int64(size))
			require.ErrorIs(t, err, httpapi.ErrTooLarge)
		}
	}
}

func TestReadBodyThatBreaksOff(t *testing.T) {
	broken := errors.New("reset")
	r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(broken)))
	_, err := httpapi.ReadBody(r, 100)
	require.ErrorIs(t, err, httpapi.ErrUnreadable)
	require.ErrorIs(t, err, broken)
}

func TestReadBodyWithoutABody(t *testing.T) {
	b, err := httpapi.ReadBody(httptest.NewRequest(http.MethodGet, "/", nil), 10)
	require.NoError(t, err)
	assert.Empty(t, b.Bytes)
	b.Release()
}

// refusing answers 413 to whatever is larger than a kilobyte.
var refusing = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if _, err := httpapi.ReadBody(r, 1024); errors.Is(err, httpapi.ErrTooLarge) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}
})

func TestClientThatSendsTooMuchStillGetsTheAnswer(t *testing.T) {
	srv := httptest.NewServer(httpapi.Wrap(refusing, httpapi.Options{}))
	defer srv.Close()
	for _, body := range []io.Reader{
		bytes.NewReader(make([]byte, 20<<20)),
		io.LimitReader(neverEnding{}, 20<<20),
	} {
		resp, err := http.Post(srv.URL, "text/plain", body)
		require.NoError(t, err)
		_ = resp.Body.Close()
		assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	}
}

func TestClientThatAsksFirstIsRefusedBeforeItSends(t *testing.T) {
	srv := httptest.NewServer(httpapi.Wrap(refusing, httpapi.Options{}))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\nExpect: 100-continue\r\n\r\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "HTTP/1.1 413 Request Entity Too Large\r\n", line)
}

func TestSegmentsDecodeOnceAndKeepSlashesInside(t *testing.T) {
	for path, want := range map[string][]string{
		"/a/b":             {"a", "b"},
		"/a%2Fb/c":         {"a/b", "c"},
		"/a%252Fb":         {"a%2Fb"},
		"/a|b%2Fc/d":       {"a|b/c", "d"},
		"/a//b/":           {"a", "", "b", ""},
		"/caf%C3%A9/x y":   {"café", "x y"},
		"/p+q/%20":         {"p+q", " "},
		"/nul%00/semi;c=1": {"nul\x00", "semi;c=1"},
	} {
		r := httptest.NewRequest(http.MethodGet, strings.ReplaceAll(path, " ", "%20"), nil)
		got, err := httpapi.Segments(r)
		require.NoError(t, err)
		assert.Equal(t, want, got, path)
	}
}

// neverEnding is a source of zeros whose length no header tells.
type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { clear(p); return len(p), nil }
