package http1

import (
	"errors"
	"io"
	"net/http"
)

// errBodyEnded is returned to who reads a body after its request has ended.
var errBodyEnded = errors.New("http1: body read after the request ended")

// body is the body of one request: what was read along with the header, and
// then the connection's bytes.
type body struct {
	c *conn
	// left is what of the declared length was not read yet.
	left  int64
	ended bool
}

// Read implements [io.Reader]. A client that leaves in the middle is
// [io.ErrUnexpectedEOF].
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.ended:
		return 0, errBodyEnded
	case b.left == 0:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	p = p[:min(int64(len(p)), b.left)]
	n, err := b.c.take(p)
	b.left -= int64(n)
	switch {
	case b.left == 0:
		b.c.bodyRead()
		return n, io.EOF
	case errors.Is(err, io.EOF):
		return n, io.ErrUnexpectedEOF
	default:
		return n, err
	}
}

// Close implements [io.Closer]; what is unread is dealt with at the end of the
// request.
func (b *body) Close() error { return nil }

// take reads from what is buffered, or else from the connection.
func (c *conn) take(p []byte) (int, error) {
	if c.r < c.w {
		n := copy(p, c.buf[c.r:c.w])
		c.r += n
		return n, nil
	}
	return c.nc.Read(p)
}

// attach gives a request its body.
func (c *conn) attach(r *http.Request) *body {
	if r.ContentLength == 0 {
		r.Body = http.NoBody
		return nil
	}
	b := &body{c: c, left: r.ContentLength}
	r.Body = b
	return b
}

// maxDiscard is how much of a body that the handler did not read is thrown
// away to keep the connection, as in net/http.
const maxDiscard = 256 << 10

// settle ends the body's life and reports whether the connection can go on
// after it.
func (b *body) settle() bool {
	if b == nil {
		return true
	}
	defer func() { b.ended = true }()
	if b.left > maxDiscard {
		return false
	}
	if b.left > 0 {
		_, err := io.CopyN(io.Discard, b, b.left)
		return err == nil
	}
	return true
}
