package http1

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// What a connection is doing.
const (
	idle  int32 = iota // between requests
	woken              // between requests, and the server began to close
	busy               // a request is being read or answered
	gone               // closed, or with net/http
)

// firstBuffer is the size of a connection's buffer. A head has to fit in it,
// and comes to net/http otherwise.
const firstBuffer = 4 << 10

// conn is one connection.
type conn struct {
	srv    *Server
	nc     net.Conn
	remote string
	state  atomic.Int32
	// begun counts requests, so that the sweep sees a connection at rest;
	// seen and quiet are the sweep's.
	begun atomic.Uint32
	seen  uint32
	quiet time.Duration

	// buf[r:w] was read and is not used yet.
	buf  []byte
	r, w int

	heads heads
	resp  response
	watch watch
	// out and names are memory for the next answer.
	out   []byte
	names []string
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{srv: s, nc: nc, buf: make([]byte, firstBuffer), remote: nc.RemoteAddr().String()}
	c.resp = response{c: c, header: make(http.Header, 8)}
	return c
}

// serve answers requests until the connection ends or is handed over.
func (c *conn) serve() {
	defer func() {
		c.srv.forget(c)
		if c.state.Swap(gone) != gone {
			_ = c.nc.Close()
		}
	}()
	for c.next() {
	}
}

// next answers one request and reports whether there may be another.
func (c *conn) next() bool {
	if c.r == c.w && !c.fill() {
		return false
	}
	h := c.heads.parse(c.buf[c.r:c.w])
	if h == nil {
		c.handOver()
		return false
	}
	c.r += len(h.raw)
	c.begun.Add(1)
	if !c.answer(h) {
		return false
	}
	if c.r < c.w { // the next request came along with this one
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
		return true
	}
	c.r, c.w = 0, 0
	return c.state.CompareAndSwap(busy, idle)
}

// fill waits for a request's first bytes.
func (c *conn) fill() bool {
	c.r = 0
	if c.begun.Load() > 0 {
		// Whoever has just been answered needs a moment to ask again. Others are
		// answered meanwhile, and the read then finds the request there instead of
		// nothing, which would cost it twice and a turn of the poller.
		runtime.Gosched()
	}
	if !c.srv.closing.Load() {
		c.w, _ = c.nc.Read(c.buf)
		if c.w > 0 && c.state.CompareAndSwap(idle, busy) {
			return true
		}
	}
	return c.srv.closing.Load() && c.lastLook()
}

// lastLook is what an idle connection does when the server closes: a request
// that the network has already delivered is answered.
func (c *conn) lastLook() bool {
	c.srv.awaitWake()
	if c.w == 0 {
		_ = c.nc.SetReadDeadline(time.Now().Add(lastLookTime))
		c.w, _ = c.nc.Read(c.buf)
	}
	_ = c.nc.SetReadDeadline(time.Time{})
	return c.w > 0 && (c.state.CompareAndSwap(woken, busy) || c.state.CompareAndSwap(idle, busy))
}

// lastLookTime is how long an idle connection is given to show a request that
// was on its way when the server began to close.
const lastLookTime = 5 * time.Millisecond

// answer runs the handler for the request of a head and sends its answer. It
// reports whether the connection can go on.
func (c *conn) answer(h *head) (more bool) {
	ctx, cancel := context.WithCancel(c.srv.base)
	r := h.request.WithContext(ctx)
	u := *r.URL
	r.URL, r.RemoteAddr = &u, c.remote
	b := c.attach(r)
	w := &c.resp
	w.reset()
	c.begin(cancel, b != nil)
	panicked := c.run(w, r)
	// A client that is still there may be sending; the answer waits for the
	// rest, or it would be lost with the connection.
	rest := b.settle()
	c.stop()
	if panicked {
		return false
	}
	w.last = w.last || !rest || h.close || c.srv.closing.Load()
	more = w.finish()
	if !rest && w.err == nil {
		c.linger()
	}
	return more
}

// run calls the handler. A panic is logged, except for the one that only asks
// for the connection to be cut.
func (c *conn) run(w http.ResponseWriter, r *http.Request) (panicked bool) {
	defer func() {
		cause := recover()
		panicked = cause != nil
		if err, _ := cause.(error); panicked && !errors.Is(err, http.ErrAbortHandler) {
			c.srv.logf("http: panic serving %v: %v\n%s", c.remote, cause, debug.Stack())
		}
	}()
	c.srv.Handler.ServeHTTP(w, r)
	return false
}

// lingerTime is how long a connection with unread bytes is kept after the
// answer, as in net/http: closed at once, the client might lose the answer.
const lingerTime = 500 * time.Millisecond

// linger ends our half of the connection and throws away what still comes.
func (c *conn) linger() {
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_ = c.nc.SetReadDeadline(time.Now().Add(lingerTime))
		for {
			if _, err := c.nc.Read(c.buf); err != nil {
				return
			}
		}
	}
}

// handOver gives the connection to net/http, with what was read of it.
func (c *conn) handOver() {
	if !c.state.CompareAndSwap(busy, gone) {
		return
	}
	c.srv.others.give(&prefixed{Conn: c.nc, first: c.buf[c.r:c.w]})
}
