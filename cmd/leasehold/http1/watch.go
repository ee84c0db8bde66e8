package http1

import (
	"context"
	"sync"
	"time"
)

// watchAfter is how long a request may take before anybody looks whether its
// client is still there. Most are answered sooner, and then the look would
// have cost more than it could save.
const watchAfter = 5 * time.Millisecond

// watch ends a request's context when the client closes its connection while
// the handler works. It reads one byte; what a client has sent ahead is kept
// for the next request.
type watch struct {
	timer *time.Timer

	mu sync.Mutex
	// cancel ends the context of the request in progress; nil between requests.
	cancel context.CancelFunc
	// unread is set while the request's body has not been read to its end,
	// wanted when the watch waits for that.
	unread, wanted bool
	// reading is closed when the byte was read or the read was broken off; nil
	// while nobody reads.
	reading chan struct{}
	broken  bool
	early   []byte
}

// begin starts the time after which the client is watched.
func (c *conn) begin(cancel context.CancelFunc, unread bool) {
	w := &c.watch
	w.mu.Lock()
	w.cancel, w.unread, w.wanted = cancel, unread, false
	w.mu.Unlock()
	if w.timer == nil {
		w.timer = time.AfterFunc(watchAfter, c.look)
		return
	}
	w.timer.Reset(watchAfter)
}

// look starts the reading ahead, now or when the body has been read.
func (c *conn) look() {
	w := &c.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel == nil {
		return
	}
	if w.unread {
		w.wanted = true
		return
	}
	c.readAhead()
}

// bodyRead is called when the last byte of the body was taken.
func (c *conn) bodyRead() {
	w := &c.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unread = false
	if w.wanted && w.cancel != nil {
		c.readAhead()
	}
}

// readAhead begins to read the one byte; the caller holds the lock. A client
// that has sent more already is there, and nothing can be learned by waiting
// for what follows.
func (c *conn) readAhead() {
	w := &c.watch
	if w.reading != nil || c.r < c.w {
		return
	}
	done := make(chan struct{})
	w.reading, w.broken = done, false
	go func() {
		var one [1]byte
		n, err := c.nc.Read(one[:])
		w.mu.Lock()
		w.early = append(w.early[:0], one[:n]...)
		if err != nil && !w.broken && w.cancel != nil {
			w.cancel()
		}
		w.mu.Unlock()
		close(done)
	}()
}

// stop ends the watch and the request's context. What was read ahead is put
// where the next request begins.
func (c *conn) stop() {
	w := &c.watch
	w.timer.Stop()
	w.mu.Lock()
	cancel, reading := w.cancel, w.reading
	w.cancel, w.reading, w.broken = nil, nil, true
	w.mu.Unlock()
	cancel()
	if reading == nil {
		return
	}
	// A deadline that has passed wakes a read. Should setting it fail, the
	// connection is closed, and the read ends all the same.
	_ = c.nc.SetReadDeadline(longAgo)
	<-reading
	_ = c.nc.SetReadDeadline(time.Time{})
	c.r, c.w = 0, copy(c.buf, w.early)
	w.early = w.early[:0]
}

var longAgo = time.Unix(1, 0)
