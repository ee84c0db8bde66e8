package target

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Server is a listener in the test's process whose connections are those of
// one replica each, chosen at random, byte for byte. Its client opens a
// connection for every request.
func (r *Remote) Server(tb testing.TB) *httptest.Server {
	tb.Helper()
	family := r.family(tb, "")
	inner, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	_ = s.Listener.Close()
	s.Listener = &splitter{Listener: inner, pick: func() string { return r.pick(family) }, shift: r.shift}
	s.Start()
	if t, ok := s.Client().Transport.(*http.Transport); ok {
		t.DisableKeepAlives, t.DisableCompression = true, true
	}
	return s
}

// splitter is a listener that serves each connection itself.
type splitter struct {
	net.Listener
	pick  func() string
	shift shift
}

// Accept returns when the listener is closed, and never with a connection.
func (s *splitter) Accept() (net.Conn, error) {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		go s.join(c)
	}
}

// join connects a client to a replica until both have said all.
func (s *splitter) join(c net.Conn) {
	defer func() { _ = c.Close() }()
	u, err := url.Parse(s.pick())
	if err != nil {
		return
	}
	t, err := new(net.Dialer).DialContext(context.Background(), "tcp", u.Host)
	if err != nil {
		return
	}
	defer func() { _ = t.Close() }()
	_ = t.SetDeadline(time.Now().Add(AnswerWithin())) // it cannot fail on an open connection
	done := make(chan struct{}, 2)
	go func() { copyHalf(t, shifted{c, s.shift.toServer}); done <- struct{}{} }()
	go func() { copyHalf(c, shifted{t, s.shift.toTest}); done <- struct{}{} }()
	<-done
	<-done
}

// copyHalf copies one direction and passes its end on. A client that has gone
// must be seen to have gone, so an error closes the other side whole.
func copyHalf(to net.Conn, from io.Reader) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok {
		_ = to.Close()
		return
	}
	_ = half.CloseWrite()
}
