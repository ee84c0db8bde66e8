package http1

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// started is a server on loopback that ends with the test.
type started struct {
	*Server

	t      *testing.T
	addr   string
	served chan error
	logged *strings.Builder
}

func start(t *testing.T, h http.HandlerFunc) *started {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &started{Server: &Server{Handler: h}, t: t, addr: ln.Addr().String(), served: make(chan error, 1), logged: &strings.Builder{}}
	s.ErrorLog = log.New(s.logged, "", 0)
	go func() { s.served <- s.Serve(ln) }()
	t.Cleanup(func() {
		_ = s.Close()
		require.ErrorIs(t, <-s.served, http.ErrServerClosed)
	})
	return s
}

// client is one raw connection to a server.
type client struct {
	net.Conn

	t *testing.T
	r *bufio.Reader
}

func (s *started) dial() *client {
	s.t.Helper()
	nc, err := (&net.Dialer{}).DialContext(s.t.Context(), "tcp", s.addr)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = nc.Close() })
	return &client{Conn: nc, t: s.t, r: bufio.NewReader(nc)}
}

func (c *client) send(text string) {
	c.t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(c.t, err)
}

// reply is what a test looks at of an answer, besides its body.
type reply struct {
	Status           string
	StatusCode       int
	Header           http.Header
	ContentLength    int64
	TransferEncoding []string
	Close            bool
}

// answer reads one answer.
func (c *client) answer() (reply, string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, nil)
	require.NoError(c.t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	require.NoError(c.t, resp.Body.Close())
	return reply{resp.Status, resp.StatusCode, resp.Header, resp.ContentLength, resp.TransferEncoding, resp.Close}, string(body)
}

// ends requires that the server closes the connection without another byte.
func (c *client) ends() {
	c.t.Helper()
	rest, _ := io.ReadAll(c.r)
	require.Empty(c.t, string(rest))
}

// post is a plain request with a body.
func post(path, body string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: " + itoa(len(body)) + "\r\n\r\n" + body
}

func get(path string, fields ...string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: h\r\n" + strings.Join(append(fields, ""), "\r\n") + "\r\n"
}
