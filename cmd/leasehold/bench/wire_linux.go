package bench

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pollWire drives all connections from the goroutine that calls it, with epoll: each request is
// one write, each answer one read, and what came meanwhile is found by one call for all.
type pollWire struct {
	poll   int
	conns  []pollConn
	events []unix.EpollEvent
	limit  unix.Timespec // of the wait under way; here, since what is on the heap does not move
	failed []reply       // replies to requests that could not be sent, for the next wait
	// alone says that the thread may wait without the scheduler, which else wakes 50,000 times a
	// second to see whether it should take the processor away: a tenth of all that is used. A
	// collection that has to stop the goroutine does so with a signal, which ends the wait.
	alone bool
}

// pollConn is one connection of a pollWire.
type pollConn struct {
	addr    *net.TCPAddr
	fd      int // -1 while there is none
	got     answer
	request []byte // under way, nil for none
	rest    []byte // what of it is not written yet
	reused  bool   // at least one answer has come over fd
}

func newPollWire(addrs []string) (wire, error) {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	w := &pollWire{poll: poll, conns: make([]pollConn, len(addrs)), events: make([]unix.EpollEvent, max(1, min(256, len(addrs)))), alone: runtime.GOMAXPROCS(0) > 1}
	known := map[string]*net.TCPAddr{}
	for i, addr := range addrs {
		if known[addr] == nil {
			if known[addr], err = net.ResolveTCPAddr("tcp", addr); err != nil {
				return nil, errors.Join(err, unix.Close(poll))
			}
		}
		w.conns[i] = pollConn{addr: known[addr], fd: -1, got: answer{first: firstBuffer}}
	}
	return w, nil
}

func (w *pollWire) dial() error {
	for i := range w.conns {
		if err := w.open(i); err != nil {
			return err
		}
	}
	return nil
}

// open connects a connection that is not, and waits until it is: all that is measured runs
// over connections that exist.
func (w *pollWire) open(i int) error {
	c := &w.conns[i]
	if c.fd >= 0 {
		return nil
	}
	family, to := address(c.addr)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	limit := unix.NsecToTimeval(int64(dialTimeout))
	err = errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit), // bounds connect
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	if err == nil {
		err = retried(func() error { return unix.Connect(fd, to) })
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err == nil {
		// Edges tell of what comes and, while a request does not fit, of room; nothing has to be registered anew.
		const edges = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET&0xffffffff
		err = unix.EpollCtl(w.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: edges, Fd: int32(i)}) //nolint:gosec // few
	}
	if err != nil {
		_ = unix.Close(fd)
		return &net.OpError{Op: "dial", Net: "tcp", Addr: c.addr, Err: err}
	}
	c.fd, c.reused = fd, false
	return nil
}

// retried calls again what a signal cut short.
func retried(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// address is a TCP address as the system wants it.
func address(a *net.TCPAddr) (family int, to unix.Sockaddr) {
	if ip := a.IP.To4(); ip != nil || len(a.IP) == 0 {
		v4 := &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte{127, 0, 0, 1}}
		if ip != nil {
			v4.Addr = [4]byte(ip)
		}
		return unix.AF_INET, v4
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: a.Port, Addr: [16]byte(a.IP.To16())}
}

func (w *pollWire) send(conn int, request []byte) {
	c := &w.conns[conn]
	c.request, c.rest = request, request
	c.got.reset()
	if c.fd < 0 {
		if err := w.open(conn); err != nil {
			w.fail(conn, err)
			return
		}
	}
	if err := c.write(); err != nil {
		w.broken(conn, err)
	}
}

// write sends what there is room for.
func (c *pollConn) write() error {
	for len(c.rest) > 0 {
		n, err := direct(unix.SYS_WRITE, c.fd, c.rest)
		switch err {
		case 0:
			c.rest = c.rest[n:]
		case unix.EAGAIN:
			return nil
		case unix.EINTR:
		default:
			return os.NewSyscallError("write", err)
		}
	}
	return nil
}

// direct is a call that never blocks, so that the scheduler need not hear of it.
func direct(call uintptr, fd int, b []byte) (int, syscall.Errno) {
	n, _, err := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), err
}

// broken sends a request again if its connection may have been closed while it was idle, and
// else gives it up.
func (w *pollWire) broken(conn int, err error) {
	c := &w.conns[conn]
	stale := c.reused && c.got.w == 0
	c.close()
	if !stale {
		w.fail(conn, err)
		return
	}
	w.send(conn, c.request)
}

// fail keeps a failure for the next wait.
func (w *pollWire) fail(conn int, err error) {
	w.conns[conn].request, w.conns[conn].rest = nil, nil
	w.failed = append(w.failed, reply{conn: conn, err: err})
}

func (c *pollConn) close() {
	if c.fd >= 0 {
		_ = unix.Close(c.fd) // which also takes it out of the epoll
		c.fd = -1
	}
}

func (w *pollWire) wait(until time.Time, got func(reply)) error {
	if len(w.failed) > 0 {
		until = time.Time{}
	}
	n, err := w.ready(until)
	if err != nil {
		return err
	}
	for i := range w.events[:n] {
		w.event(&w.events[i], got)
	}
	for range len(w.failed) { // got may send, and so add to them
		r := w.failed[0]
		w.failed = w.failed[:copy(w.failed, w.failed[1:])]
		got(r)
	}
	return nil
}

// longestWait bounds a wait of which the scheduler does not know.
const longestWait = 20 * time.Millisecond

// ready waits for events.
func (w *pollWire) ready(until time.Time) (int, error) {
	left := max(0, time.Until(until))
	call := unix.Syscall6
	if w.alone {
		call, left = unix.RawSyscall6, min(left, longestWait)
	}
	w.limit = unix.NsecToTimespec(int64(left))
	n, _, code := call(unix.SYS_EPOLL_PWAIT2, uintptr(w.poll), uintptr(unsafe.Pointer(unsafe.SliceData(w.events))),
		uintptr(len(w.events)), uintptr(unsafe.Pointer(&w.limit)), 0, 0)
	switch code {
	case 0:
		return int(n), nil
	case unix.EINTR:
		return 0, nil
	case unix.ENOSYS, unix.EPERM: // before Linux 5.11: to the millisecond
		m, err := unix.EpollWait(w.poll, w.events, int((min(time.Hour, left) + time.Millisecond - 1).Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			return 0, nil
		}
		return m, os.NewSyscallError("epoll_wait", err)
	default:
		return 0, os.NewSyscallError("epoll_pwait2", code)
	}
}

// event does what an event makes possible.
func (w *pollWire) event(e *unix.EpollEvent, got func(reply)) {
	conn := int(e.Fd)
	c := &w.conns[conn]
	if c.fd < 0 {
		return // closed for an earlier one
	}
	if len(c.rest) > 0 && e.Events&unix.EPOLLOUT != 0 {
		if err := c.write(); err != nil {
			w.broken(conn, err)
			return
		}
	}
	const over = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	if e.Events&(unix.EPOLLIN|over) == 0 {
		return
	}
	if c.request == nil {
		c.close() // the server closed it, or says what nobody asked for
		return
	}
	whole, err := c.read()
	switch {
	case err != nil:
		w.broken(conn, err)
	case whole:
		if c.got.head.closes || e.Events&over != 0 || len(c.rest) > 0 {
			c.close() // also where the answer did not wait for all of the request
		}
		c.request, c.rest, c.reused = nil, nil, true
		got(reply{conn: conn, status: c.got.head.status, body: c.got.body})
	}
}

// read receives until the answer is whole or nothing is left.
func (c *pollConn) read() (bool, error) {
	for {
		room, err := c.got.room()
		if err != nil {
			return false, err
		}
		n, code := direct(unix.SYS_READ, c.fd, room)
		switch {
		case code == unix.EAGAIN:
			return false, nil
		case code == unix.EINTR:
			continue
		case code != 0:
			return false, os.NewSyscallError("read", code)
		case n == 0:
			return false, io.ErrUnexpectedEOF
		}
		if whole, err := c.got.received(n); whole || err != nil {
			return whole, err
		}
	}
}

func (w *pollWire) close() {
	for i := range w.conns {
		w.conns[i].close()
	}
	_ = unix.Close(w.poll)
}
