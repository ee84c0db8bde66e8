package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// HeaderRequestID names the header that carries the request id, in the
// request (optional) and in every answer.
const HeaderRequestID = "X-Request-Id"

// RouteUnmatched is the route of a request for which [SetRoute] was not
// called, most often because no route matched.
const RouteUnmatched = "unmatched"

// Observer is told of every request that ended. Its parameters are plain
// types, so that the program can supply one without naming this package.
// Implementations must be safe for concurrent use and quick.
type Observer interface {
	// ObserveRequest reports one ended request: the protocol and route as
	// registered, the status sent (499 when the client left before an
	// answer), the time from the first byte of the header to the end of the
	// handler, and the sizes of both bodies in bytes as far as they were read
	// and written.
	ObserveRequest(protocol, route, method string, status int, took time.Duration, in, out int64)
}

// Options say how [Wrap] logs, measures and recovers. Zero fields switch the
// thing off or take the default named with them.
type Options struct {
	// Protocol labels log lines and metrics, e.g. "queen".
	Protocol string
	// Logger receives the access log and panics. Default: discarded.
	Logger *slog.Logger
	// Now measures durations; it should be the process's real clock even when
	// the engine's clock is a test's. Default: every duration is 0.
	Now func() time.Time
	// Observer is told of every ended request. Default: nobody.
	Observer Observer
	// Panic writes the protocol's own internal error after a panic, provided
	// nothing was written yet. Default: status 500 with no body.
	Panic func(http.ResponseWriter, *http.Request)
}

// statusClientGone is what the log and the metrics show for a request whose
// client left before anything was written. It is never sent.
const statusClientGone = 499

// statusRetryRequest is Querator's "nothing yet, ask again". It ends every
// long poll of an idle consumer, so the log treats it as a success.
const statusRetryRequest = 454

// Wrap surrounds a protocol's handler with a request id, recovery, the access
// log and the observer.
func Wrap(next http.Handler, o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = func() time.Time { return time.Time{} }
	}
	if o.Panic == nil {
		o.Panic = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	}
	return &wrapper{next: next, o: o}
}

type wrapper struct {
	next http.Handler
	o    Options
}

// ServeHTTP runs the wrapped handler and reports how it ended.
func (h *wrapper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w, id: requestID(r), route: RouteUnmatched}
	w.Header().Set(HeaderRequestID, rec.id)
	start := h.o.Now()
	body := &countingBody{ReadCloser: r.Body}
	r = r.WithContext(context.WithValue(r.Context(), recorderKey{}, rec))
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = body
	}
	defer func() {
		cause := recover()
		if cause != nil {
			h.recovered(rec, r, cause)
		}
		h.report(rec, r, h.o.Now().Sub(start), body.n.Load())
		if cause != nil && (rec.aborted || isAbort(cause)) {
			// The answer was cut off half way: only a broken connection tells
			// the client so.
			panic(http.ErrAbortHandler)
		}
	}()
	h.next.ServeHTTP(rec, r)
}

// recovered logs a panic and, where nothing was sent yet, answers in the
// protocol's words.
func (h *wrapper) recovered(rec *recorder, r *http.Request, cause any) {
	if isAbort(cause) {
		return
	}
	h.o.Logger.LogAttrs(r.Context(), slog.LevelError, "request handler panicked",
		slog.String("protocol", h.o.Protocol), slog.String("route", rec.route),
		slog.String("request_id", rec.id), slog.Any("cause", cause), slog.String("stack", string(debug.Stack())))
	if rec.status != 0 {
		rec.aborted = true
		return
	}
	h.o.Panic(rec, r)
}

// report writes the access log line and tells the observer.
func (h *wrapper) report(rec *recorder, r *http.Request, took time.Duration, in int64) {
	status := rec.status
	switch {
	case rec.out == 0 && r.Context().Err() != nil:
		status = statusClientGone
	case status == 0:
		status = http.StatusOK
	}
	if h.o.Observer != nil {
		h.o.Observer.ObserveRequest(h.o.Protocol, rec.route, r.Method, status, took, in, rec.out)
	}
	level := levelOf(status)
	if !h.o.Logger.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("protocol", h.o.Protocol), slog.String("method", r.Method),
		slog.String("route", rec.route), slog.Int("status", status), slog.Duration("took", took),
		slog.Int64("bytes_in", in), slog.Int64("bytes_out", rec.out), slog.String("request_id", rec.id),
	}
	h.o.Logger.LogAttrs(r.Context(), level, "request ended", attrs...)
}

// levelOf maps a status to a log level: what an idle or well-behaved client
// causes is debug, what the server got wrong is an error.
func levelOf(status int) slog.Level {
	switch {
	case status < 400, status == statusRetryRequest, status == statusClientGone:
		return slog.LevelDebug
	case status < 500, status == http.StatusNotImplemented:
		// Querator says 501 to a path that does not exist.
		return slog.LevelInfo
	default:
		return slog.LevelError
	}
}

func isAbort(cause any) bool {
	err, ok := cause.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// idPrefix and idCount make request ids that are unique across processes and
// cheap: one random prefix per process and a counter.
var (
	idPrefix = uuid.NewString()[:8] + "-"
	idCount  atomic.Uint64
)

// requestID takes over the client's id if it is short and harmless, so that a
// proxy's log and ours can be joined, and makes one otherwise.
func requestID(r *http.Request) string {
	id := r.Header.Get(HeaderRequestID)
	if id == "" || len(id) > 128 {
		return newID()
	}
	for i := range len(id) {
		c := id[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_' && c != '.' {
			return newID()
		}
	}
	return id
}

func newID() string { return idPrefix + strconv.FormatUint(idCount.Add(1), 16) }
