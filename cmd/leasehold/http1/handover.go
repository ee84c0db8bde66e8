package http1

import (
	"net"
	"net/http"
	"sync"
)

// prefixed is a connection of which the first bytes have been read already.
type prefixed struct {
	net.Conn

	first []byte
}

// Read implements [net.Conn].
func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.first) == 0 {
		return p.Conn.Read(b)
	}
	n := copy(b, p.first)
	if p.first = p.first[n:]; len(p.first) == 0 {
		p.first = nil
	}
	return n, nil
}

// CloseWrite ends our half of the connection; net/http does so before it
// closes a connection with unread bytes.
func (p *prefixed) CloseWrite() error {
	if half, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// given is a listener of connections that somebody else accepted.
type given struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newGiven(addr net.Addr) *given {
	return &given{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
}

// give passes a connection on; a listener that is closed closes it.
func (g *given) give(nc net.Conn) {
	select {
	case g.conns <- nc:
	case <-g.done:
		_ = nc.Close()
	}
}

// Accept implements [net.Listener].
func (g *given) Accept() (net.Conn, error) {
	select {
	case nc := <-g.conns:
		return nc, nil
	case <-g.done:
		return nil, http.ErrServerClosed
	}
}

// Close implements [net.Listener].
func (g *given) Close() error {
	g.once.Do(func() { close(g.done) })
	return nil
}

// Addr implements [net.Listener].
func (g *given) Addr() net.Addr { return g.addr }
