package http1

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Server serves one handler on one listener. Its exported fields are set
// before Serve and not changed afterwards.
type Server struct {
	// Handler answers every request. It must not change a request's header.
	Handler http.Handler
	// HeaderTimeout is how long a request's header may take to arrive, and how
	// long a new connection may stay silent. 0: for ever.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a connection may rest between requests. 0: for
	// ever. It is kept to within a quarter.
	IdleTimeout time.Duration
	// ErrorLog receives panics and what net/http complains of. Default: the
	// log package's standard logger.
	ErrorLog *log.Logger

	base    context.Context
	cancel  context.CancelFunc
	std     *http.Server
	others  *given
	closing atomic.Bool

	mu    sync.Mutex
	ln    net.Listener
	conns map[*conn]struct{}
	// empty is closed when the server is closing and the last connection ended.
	empty chan struct{}
}

// Serve accepts connections until the server is closed and then returns
// [http.ErrServerClosed], or the listener's error. It may be called once.
func (s *Server) Serve(ln net.Listener) error {
	if !s.open(ln) {
		_ = ln.Close()
		return http.ErrServerClosed
	}
	go func() { _ = s.std.Serve(s.others) }() // ends with Shutdown or Close
	stop := make(chan struct{})
	defer close(stop)
	go s.sweep(stop)
	for delay := time.Duration(0); ; {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			delay = 0
			s.accepted(nc)
		case s.closing.Load():
			return http.ErrServerClosed
		case isTemporary(err):
			// Out of file descriptors, say: what is there goes on, and new
			// connections wait.
			delay = min(max(2*delay, 5*time.Millisecond), time.Second)
			s.logf("http: Accept error: %v; retrying in %v", err, delay)
			time.Sleep(delay)
		default:
			return err
		}
	}
}

func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// open prepares everything; false means that the server was closed before.
func (s *Server) open(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.init()
	s.ln = ln
	s.others.addr = ln.Addr()
	return !s.closing.Load()
}

// init makes what Serve and Shutdown both need; the caller holds the lock.
func (s *Server) init() {
	if s.conns != nil {
		return
	}
	s.base, s.cancel = context.WithCancel(context.Background())
	s.conns, s.empty = map[*conn]struct{}{}, make(chan struct{})
	s.others = newGiven(nil)
	s.std = &http.Server{
		Handler: s.Handler, ReadHeaderTimeout: s.HeaderTimeout, IdleTimeout: s.IdleTimeout, ErrorLog: s.ErrorLog,
		// "OPTIONS *" is the handler's to answer, as any other request.
		DisableGeneralOptionsHandler: true,
	}
}

func (s *Server) accepted(nc net.Conn) {
	c := newConn(s, nc)
	s.mu.Lock()
	if s.closing.Load() {
		s.mu.Unlock()
		_ = nc.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	go c.serve()
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.checkEmpty()
}

func (s *Server) checkEmpty() {
	if !s.closing.Load() || len(s.conns) > 0 {
		return
	}
	select {
	case <-s.empty:
	default:
		close(s.empty)
	}
}

// Shutdown closes the listener and idle connections, waits until every request
// in progress is answered, and closes their connections. When ctx ends first it
// returns its error, and the rest goes on until Close.
func (s *Server) Shutdown(ctx context.Context) error {
	s.beginClosing()
	err := s.std.Shutdown(ctx)
	select {
	case <-s.empty:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// beginClosing lets nobody in any more and wakes the idle connections.
func (s *Server) beginClosing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.init()
	s.closing.Store(true)
	if s.ln != nil {
		_ = s.ln.Close()
	}
	for c := range s.conns {
		if c.state.CompareAndSwap(idle, woken) {
			_ = c.nc.SetReadDeadline(longAgo)
		}
	}
	s.checkEmpty()
}

// awaitWake returns when beginClosing has set its deadlines, so that nobody
// lifts one that is yet to be set.
func (s *Server) awaitWake() {
	s.mu.Lock()
	defer s.mu.Unlock()
}

// Close closes the listener and every connection at once; contexts of requests
// end.
func (s *Server) Close() error {
	s.beginClosing()
	s.cancel()
	err := s.std.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.nc.Close()
	}
	return err
}

// sweep closes connections that rest for too long. The connections keep no
// deadlines of their own for this, which would cost every request two.
func (s *Server) sweep(stop <-chan struct{}) {
	every := s.sweepEvery()
	if every <= 0 {
		return
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.closeIdle(every)
		case <-stop:
			return
		}
	}
}

func (s *Server) sweepEvery() time.Duration {
	every := s.IdleTimeout
	if s.HeaderTimeout > 0 && (every <= 0 || s.HeaderTimeout < every) {
		every = s.HeaderTimeout
	}
	return every / 4
}

// closeIdle notes another interval of rest for the connections that had one.
func (s *Server) closeIdle(interval time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		n := c.begun.Load()
		if c.state.Load() != idle || n != c.seen {
			c.seen, c.quiet = n, 0
			continue
		}
		c.quiet += interval
		limit := s.IdleTimeout
		if n == 0 {
			limit = s.HeaderTimeout
		}
		if limit > 0 && c.quiet >= limit && c.state.CompareAndSwap(idle, gone) {
			_ = c.nc.Close()
		}
	}
}

func (s *Server) logf(format string, args ...any) {
	if s.ErrorLog != nil {
		s.ErrorLog.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}
