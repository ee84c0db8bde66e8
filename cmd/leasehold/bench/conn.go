package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

const (
	dialTimeout = 10 * time.Second
	// firstBuffer holds the answer of nearly every request; it grows for others.
	firstBuffer = 32 << 10
	// maxAnswer bounds what a server can make the generator keep.
	maxAnswer = 256 << 20
)

// conn is one keep-alive connection that knows as much of HTTP/1.1 as the
// answers of a message server need. It is used by one goroutine.
type conn struct {
	addr     string
	nc       net.Conn
	deadline time.Time
	in       []byte // what was read: in[r:w] is not used up yet
	r, w     int
	chunks   []byte // a chunked body, put together
	reused   bool   // at least one answer has come over nc
	redials  int
}

func newConn(addr string) *conn { return newSmallConn(addr, firstBuffer) }

// newSmallConn is a connection that begins with a buffer of that many bytes.
func newSmallConn(addr string, buffer int) *conn { return &conn{addr: addr, in: make([]byte, buffer)} }

// dial connects if there is no connection.
func (c *conn) dial() error {
	if c.nc != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	c.nc, c.r, c.w, c.reused = nc, 0, 0, false
	return nc.SetDeadline(c.deadline)
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
		status, body, err = c.exchange(request)
		if err == nil {
			return status, body, nil
		}
		c.close()
		var timeout net.Error
		if !stale || errors.As(err, &timeout) && timeout.Timeout() {
			return 0, nil, err
		}
		c.redials++
	}
}

// errFormat is an answer that is no HTTP/1.1.
var errFormat = errors.New("answer is not HTTP/1.1")

// exchange does one request on an open connection.
func (c *conn) exchange(request []byte) (int, []byte, error) {
	if _, err := c.nc.Write(request); err != nil {
		return 0, nil, err
	}
	c.r, c.w = 0, 0
	head, err := c.head()
	if err != nil {
		return 0, nil, err
	}
	h, err := parseHead(head)
	if err != nil {
		return 0, nil, err
	}
	body, err := c.body(h)
	if err != nil {
		return 0, nil, fmt.Errorf("read body: %w", err)
	}
	c.reused = true
	if h.closes {
		c.close()
	}
	return h.status, body, nil
}

// head reads up to the blank line and returns what is before it.
func (c *conn) head() ([]byte, error) {
	for seen := 0; ; {
		if i := bytes.Index(c.in[seen:c.w], crlfcrlf); i >= 0 {
			c.r = seen + i + len(crlfcrlf)
			return c.in[:seen+i+2], nil
		}
		seen = max(0, c.w-3)
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

var crlfcrlf = []byte("\r\n\r\n")

// fill reads once more from the connection, behind what is there.
func (c *conn) fill() error {
	if c.w == len(c.in) {
		if len(c.in) >= maxAnswer {
			return errors.New("answer is too large")
		}
		c.in = append(c.in, make([]byte, len(c.in))...)
	}
	n, err := c.nc.Read(c.in[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// headInfo is what matters of a status line and its headers.
type headInfo struct {
	status, length  int
	chunked, closes bool
}

// parseHead reads the status line and the headers, each ended by CR LF.
func parseHead(b []byte) (headInfo, error) {
	h := headInfo{length: -1}
	if len(b) < 14 || string(b[:7]) != "HTTP/1." {
		return h, errFormat
	}
	var err error
	if h.status, err = strconv.Atoi(string(b[9:12])); err != nil {
		return h, errFormat
	}
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 || i+1 == len(b) {
			return h, nil
		}
		b = b[i+1:]
		switch b[0] | 0x20 {
		case 'c':
			if v, ok := header(b, "content-length"); ok {
				if h.length, err = strconv.Atoi(string(v)); err != nil {
					return h, errFormat
				}
			} else if v, ok := header(b, "connection"); ok {
				h.closes = bytes.EqualFold(v, []byte("close"))
			}
		case 't':
			if v, ok := header(b, "transfer-encoding"); ok {
				h.chunked = bytes.EqualFold(v, []byte("chunked"))
			}
		}
	}
}

// header returns the value of the header at the start of b if it has that
// lower-case name.
func header(b []byte, name string) ([]byte, bool) {
	if len(b) <= len(name) || b[len(name)] != ':' {
		return nil, false
	}
	for i := range name {
		if b[i]|0x20 != name[i] && b[i] != name[i] {
			return nil, false
		}
	}
	line, _, _ := bytes.Cut(b[len(name)+1:], []byte("\r"))
	return bytes.TrimSpace(line), true
}

// body reads the body that h announces.
func (c *conn) body(h headInfo) ([]byte, error) {
	switch {
	case h.status == 204 || h.status == 304:
		return nil, nil
	case h.chunked:
		return c.chunked()
	case h.length < 0:
		return nil, errFormat
	case h.length > maxAnswer:
		return nil, errors.New("answer is too large")
	}
	return c.take(h.length)
}

// take returns the next n bytes.
func (c *conn) take(n int) ([]byte, error) {
	for c.w-c.r < n {
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
	b := c.in[c.r : c.r+n]
	c.r += n
	return b, nil
}

// chunked puts the chunks of a body together.
func (c *conn) chunked() ([]byte, error) {
	c.chunks = c.chunks[:0]
	for {
		line, err := c.line()
		if err != nil {
			return nil, err
		}
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseUint(string(bytes.TrimSpace(size)), 16, 31)
		if err != nil || n > maxAnswer {
			return nil, errFormat
		}
		if n == 0 {
			for len(line) > 0 { // trailers, then the blank line
				if line, err = c.line(); err != nil {
					return nil, err
				}
			}
			return c.chunks, nil
		}
		b, err := c.take(int(n) + 2)
		if err != nil {
			return nil, err
		}
		c.chunks = append(c.chunks, b[:n]...)
	}
}

// line returns the next line without its end.
func (c *conn) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(c.in[c.r:c.w], '\n'); i >= 0 {
			b := c.in[c.r : c.r+i]
			c.r += i + 1
			return bytes.TrimSuffix(b, []byte("\r")), nil
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}
