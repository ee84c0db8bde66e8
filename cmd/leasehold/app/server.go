package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/cmd/leasehold/http1"
)

// How long the parts of a connection may take. Bodies and answers have no
// limit, since both a large push and a long poll are meant to take their time.
const (
	headerTimeout = 10 * time.Second
	// idleTimeout is longer than the 90 s after which common clients give an
	// idle connection up: the side that closes first should be the client.
	idleTimeout = 5 * time.Minute
)

// server is one listener with its HTTP server.
type server struct {
	name string
	ln   net.Listener
	http *http1.Server
	// asked is the address as it was configured.
	asked   string
	handler atomic.Pointer[http.Handler]
	// serving is set once connections are accepted.
	serving bool
	// served is closed when no new connection is accepted any more.
	served chan struct{}
	// drained receives the result of the graceful end.
	drained chan error
}

// listen opens a listener. Nothing is served before serve.
func listen(ctx context.Context, name, addr string, h http.Handler, log *slog.Logger) (*server, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &server{name: name, asked: addr, ln: ln, served: make(chan struct{}), drained: make(chan error, 1)}
	s.handler.Store(&h)
	s.http = &http1.Server{
		Handler: s, HeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(log.With("listener", name).Handler(), slog.LevelWarn),
	}
	return s, nil
}

// ServeHTTP hands a request to the handler of the moment.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*s.handler.Load()).ServeHTTP(w, r)
}

// serve accepts connections until the server is closed; a failure before that
// goes to failed.
func (s *server) serve(failed func(error)) {
	s.serving = true
	go func() {
		defer close(s.served)
		if err := s.http.Serve(s.ln); !errors.Is(err, http.ErrServerClosed) {
			failed(err)
		}
	}()
}

// stopAccepting closes the listener and idle connections and returns at once;
// requests being worked on go on until their answers are sent or ctx ends.
func (s *server) stopAccepting(ctx context.Context) {
	go func() { s.drained <- s.http.Shutdown(ctx) }()
	<-s.served
}

// finish waits until every answer is sent. What is left when ctx ends is cut
// off.
func (s *server) finish(ctx context.Context) error {
	select {
	case err := <-s.drained:
		return err
	case <-ctx.Done():
		return errors.Join(ctx.Err(), s.http.Close())
	}
}
