package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

const dialTimeout = 10 * time.Second

// conn is one keep-alive connection that waits for each answer. It is used by
// one goroutine.
type conn struct {
	addr     string
	nc       net.Conn
	deadline time.Time
	got      answer
	reused   bool // at least one answer has come over nc
	redials  int

	// live is nc for abort, which may be called from elsewhere; aborted keeps it from being opened again.
	live    atomic.Pointer[net.Conn]
	aborted atomic.Bool
}

func newConn(addr string) *conn { return newSmallConn(addr, firstBuffer) }

// newSmallConn is a connection that begins with a buffer of that many bytes.
func newSmallConn(addr string, buffer int) *conn {
	return &conn{addr: addr, got: answer{first: buffer}}
}

// dial connects if there is no connection.
func (c *conn) dial() error {
	switch {
	case c.aborted.Load():
		return net.ErrClosed
	case c.nc != nil:
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	c.nc, c.reused = nc, false
	c.live.Store(&nc)
	if c.aborted.Load() {
		c.close()
		return net.ErrClosed
	}
	return nc.SetDeadline(c.deadline)
}

// abort closes the connection for good, also while somebody else waits for an answer.
func (c *conn) abort() {
	c.aborted.Store(true)
	if nc := c.live.Load(); nc != nil {
		_ = (*nc).Close()
	}
}

// until sets the time at which every request still running fails.
func (c *conn) until(t time.Time) error {
	c.deadline = t
	if c.nc == nil {
		return nil
	}
	return c.nc.SetDeadline(t)
}

func (c *conn) close() {
	if c.nc != nil {
		_ = c.nc.Close()
		c.nc = nil
	}
}

// do sends one request and returns the status and the body, which is valid
// until the next call. A connection that the server closed while it was idle
// is opened again.
func (c *conn) do(request []byte) (status int, body []byte, err error) {
	for {
		if err = c.dial(); err != nil {
			return 0, nil, err
		}
		stale := c.reused
		err = c.exchange(request)
		if err == nil {
			return c.got.head.status, c.got.body, nil
		}
		c.close()
		var timeout net.Error
		if !stale || errors.As(err, &timeout) && timeout.Timeout() {
			return 0, nil, err
		}
		c.redials++
	}
}

// exchange does one request on an open connection.
func (c *conn) exchange(request []byte) error {
	if _, err := c.nc.Write(request); err != nil {
		return err
	}
	c.got.reset()
	for {
		room, err := c.got.room()
		if err != nil {
			return err
		}
		n, err := c.nc.Read(room)
		whole, wrong := c.got.received(n)
		switch {
		case wrong != nil:
			return fmt.Errorf("read answer: %w", wrong)
		case whole:
			c.reused = true
			if c.got.head.closes {
				c.close()
			}
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
}
