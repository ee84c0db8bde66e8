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
	"github.com/leasehold/leasehold/adapters/internal/token"
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
	// Tokens are listed, made and revoked under /tokens. Default: the path does not exist.
	Tokens *token.Keeper
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
	if o.Tokens != nil {
		s.below = Guard(o.Token, http.HandlerFunc(s.tokens))
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
	// below serves /tokens, with other methods than the rest; nil where it is off.
	below http.Handler
}

// ServeHTTP finds the route by its whole path; only that of the tokens has a parameter.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rest, ok := strings.CutPrefix(r.URL.Path, pathTokens); ok && s.below != nil && (rest == "" || rest[0] == '/') {
		route := pathTokens
		if rest != "" {
			route += "/:id"
		}
		httpapi.SetRoute(r.Context(), route)
		s.below.ServeHTTP(w, r)
		return
	}
	h, ok := s.routes[r.URL.Path]
	switch {
	case !ok:
		writeError(w, http.StatusNotFound, "no such route")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		httpapi.SetRoute(r.Context(), r.URL.Path)
		notAllowed(w, "GET, HEAD")
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

func notAllowed(w http.ResponseWriter, methods string) {
	w.Header().Set("Allow", methods)
	verb := " is"
	if at := strings.LastIndex(methods, ", "); at >= 0 {
		methods, verb = methods[:at]+" and "+methods[at+2:], " are"
	}
	writeError(w, http.StatusMethodNotAllowed, "only "+methods+verb+" allowed here")
}

func writeError(w http.ResponseWriter, status int, text string) {
	writeJSON(w, status, map[string]string{"error": text})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A failure here means that the client has gone.
	_ = json.NewEncoder(w).Encode(v)
}
