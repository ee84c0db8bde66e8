package bench

import (
	"errors"
	"time"
)

// errSilent is what becomes of a request that is not answered long after the end of a run.
var errSilent = errors.New("no answer in time")

// reply is what became of a request. The body is valid until the next request on the connection.
type reply struct {
	conn   int
	status int
	body   []byte
	err    error
}

// wire carries requests over numbered connections, one at a time on each, and brings back what
// became of them. It belongs to one goroutine. What a server closed while it was idle is opened again.
type wire interface {
	// dial opens all connections that are not open.
	dial() error
	// send begins a request, whose bytes stay as they are until its reply has come.
	send(conn int, request []byte)
	// wait calls got with every reply that is there, after waiting for the first until that time.
	wait(until time.Time, got func(reply)) error
	// close also gives up the requests that are under way.
	close()
}

// drivers are the ways to drive connections: epoll from one thread, which is light, or a
// goroutine for each, which every system can.
const (
	driverAuto       = "auto"
	driverEpoll      = "epoll"
	driverGoroutines = "goroutines"
)

// newWire makes a connection for each address.
func newWire(driver string, addrs []string) (wire, error) {
	if driver == driverGoroutines {
		return newGoWire(addrs), nil
	}
	w, err := newPollWire(addrs)
	if errors.Is(err, errors.ErrUnsupported) && driver != driverEpoll {
		return newGoWire(addrs), nil
	}
	return w, err
}

// goWire has a goroutine for each connection.
type goWire struct {
	conns []*conn
	ask   []chan []byte
	got   chan reply
	timer *time.Timer
}

func newGoWire(addrs []string) *goWire {
	w := &goWire{got: make(chan reply, len(addrs)), timer: time.NewTimer(0)}
	for i, addr := range addrs {
		c, ask := newConn(addr), make(chan []byte, 1)
		w.conns, w.ask = append(w.conns, c), append(w.ask, ask)
		go func() {
			defer c.close()
			for request := range ask {
				r := reply{conn: i}
				r.status, r.body, r.err = c.do(request)
				w.got <- r
			}
		}()
	}
	return w
}

func (w *goWire) dial() error {
	for _, c := range w.conns {
		if err := c.dial(); err != nil {
			return err
		}
	}
	return nil
}

func (w *goWire) send(conn int, request []byte) { w.ask[conn] <- request }

func (w *goWire) wait(until time.Time, got func(reply)) error {
	w.timer.Reset(time.Until(until))
	select {
	case r := <-w.got:
		got(r)
	case <-w.timer.C:
	}
	for range w.conns {
		select {
		case r := <-w.got:
			got(r)
		default:
			return nil
		}
	}
	return nil
}

// close ends the goroutines; one that waits for an answer ends with its connection.
func (w *goWire) close() {
	for i, c := range w.conns {
		close(w.ask[i])
		c.abort()
	}
}
