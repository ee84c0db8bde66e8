package httpapi

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
)

// recorderKey finds the recorder of a request in its context.
type recorderKey struct{}

// recorder watches what a handler writes and holds what [SetRoute] and
// [RequestID] exchange.
type recorder struct {
	http.ResponseWriter

	id      string
	route   string
	status  int
	out     int64
	aborted bool
}

// SetRoute names the route of a request for its log line and metrics: a
// pattern out of a small fixed set such as "/api/v1/pop/queue/:queue", never
// the path as sent. It does nothing for a context that did not come through
// [Wrap].
func SetRoute(ctx context.Context, route string) {
	if rec, ok := ctx.Value(recorderKey{}).(*recorder); ok && route != "" {
		rec.route = route
	}
}

// RequestID returns the id of the request that ctx belongs to, or "" outside
// of [Wrap].
func RequestID(ctx context.Context) string {
	if rec, ok := ctx.Value(recorderKey{}).(*recorder); ok {
		return rec.id
	}
	return ""
}

// WriteHeader notes the first final status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes of the answer's body.
func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(p)
	r.out += int64(n)
	return n, err
}

// Flush passes a flush on where the connection can do it.
func (r *recorder) Flush() {
	if f, ok := r.ResponseWriter.(http.Flusher); ok {
		if r.status == 0 {
			r.status = http.StatusOK
		}
		f.Flush()
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// countingBody counts what was read of a request's body. The count is atomic
// because a transport may still read while the handler returns.
type countingBody struct {
	io.ReadCloser

	n atomic.Int64
}

// Read counts and passes on.
func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}
