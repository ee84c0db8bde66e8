// Package admin serves what operators and their tools ask of a running
// server: whether it lives, whether it can work, and its metrics.
package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/leasehold/leasehold/adapters/internal/httpapi"
)

// readyTimeout bounds how long a readiness probe waits for the store.
const readyTimeout = 5 * time.Second

// Options configure the listener. Zero fields switch the thing off.
type Options struct {
	// Ready reports why the server cannot work at present; nil means that it
	// can. Default: always ready.
	Ready func(context.Context) error
	// Metrics answers GET /metrics. Default: the path does not exist.
	Metrics http.Handler
	// Token is asked for, as "Authorization: Bearer", by every path but
	// /healthz and /readyz. Default: nothing is asked for.
	Token string
	// Logger receives the access log. Default: discarded.
	Logger *slog.Logger
	// Now measures durations for the log. Default: none are measured.
	Now func() time.Time
	// Observer is told of every request. Default: nobody.
	Observer httpapi.Observer
}

// New returns the admin listener's handler. Answers are JSON, an error being
// {"error":"…"}, except for the metrics.
func New(o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &server{o: o}
	s.routes = map[string]http.HandlerFunc{"/healthz": s.healthz, "/readyz": s.readyz}
	if o.Metrics != nil {
		s.routes["/metrics"] = Guard(o.Token, o.Metrics).ServeHTTP
	}
	return httpapi.Wrap(s, httpapi.Options{
		Protocol: "admin", Logger: o.Logger, Now: o.Now, Observer: o.Observer,
		Panic: func(w http.ResponseWriter, _ *http.Request) {
			writeError(w, http.StatusInternalServerError, "internal error")
		},
	})
}

type server struct {
	o      Options
	routes map[string]http.HandlerFunc
}

// ServeHTTP finds the route by its whole path; none takes parameters.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, ok := s.routes[r.URL.Path]
	switch {
	case !ok:
		writeError(w, http.StatusNotFound, "no such route")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		httpapi.SetRoute(r.Context(), r.URL.Path)
		w.Header().Set("Allow", "GET, HEAD")
		writeError(w, http.StatusMethodNotAllowed, "only GET and HEAD are allowed here")
	default:
		httpapi.SetRoute(r.Context(), r.URL.Path)
		h(w, r)
	}
}

// healthz says that the process lives. It asks nobody else, so that a slow
// disk does not get the process killed by whoever watches it.
func (s *server) healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readyz says whether requests would be served. The cause goes to the log
// alone, since the path is open to everybody.
func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	if s.o.Ready != nil {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		if err := s.o.Ready(ctx); err != nil {
			s.o.Logger.WarnContext(ctx, "server is not ready", "error", err)
			writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "unavailable"})
			return
		}
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
}

// Guard returns a handler that asks for a bearer token before next runs, and
// next itself where the token is empty.
func Guard(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(given)))
		// Digests are compared, so that neither the token's bytes nor its
		// length show in the time that this takes.
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="leasehold"`)
			writeError(w, http.StatusUnauthorized, "a valid bearer token is required")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func writeError(w http.ResponseWriter, status int, text string) {
	writeJSON(w, status, map[string]string{"error": text})
}

func writeJSON(w http.ResponseWriter, status int, v map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A failure here means that the client has gone.
	_ = json.NewEncoder(w).Encode(v)
}
