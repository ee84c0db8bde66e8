// Command relay forwards TCP connections inside a pod of the containers under
// test. The gateway's control listener is bound to loopback, which a published
// port does not reach; the relay shares the gateway's network and does. The
// gateway reaches its database through it too: between SIGUSR1 and SIGUSR2
// nothing passes on those connections that were named after "-cut", old or new,
// as when a network is cut; then all of it goes on.
//
// usage: relay LISTEN=TARGET... [-cut LISTEN=TARGET...]
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
)

// gate is closed while the network is cut.
var gate sync.RWMutex

func main() {
	failed := make(chan error)
	cuttable := false
	for _, arg := range os.Args[1:] {
		if arg == "-cut" {
			cuttable = true
			continue
		}
		listen, target, ok := strings.Cut(arg, "=")
		if !ok {
			fmt.Fprintln(os.Stderr, "relay: want LISTEN=TARGET, not", arg)
			os.Exit(2)
		}
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", listen)
		if err != nil {
			fmt.Fprintln(os.Stderr, "relay:", err)
			os.Exit(1)
		}
		go func(cuttable bool) { failed <- serve(l, target, cuttable) }(cuttable)
	}
	go obey()
	// As process 1 it is ended by SIGKILL; nothing here is worth an orderly end.
	fmt.Fprintln(os.Stderr, "relay:", <-failed)
	os.Exit(1)
}

// obey cuts and heals the network as signals say.
func obey() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	cut := false
	for s := range signals {
		switch {
		case s == syscall.SIGUSR1 && !cut:
			gate.Lock()
			cut = true
		case s == syscall.SIGUSR2 && cut:
			gate.Unlock()
			cut = false
		}
	}
}

func serve(l net.Listener, target string, cuttable bool) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go forward(c, target, cuttable)
	}
}

// forward copies both ways until both sides have ended, and keeps half-closed
// connections half open.
func forward(c net.Conn, target string, cuttable bool) {
	defer func() { _ = c.Close() }()
	pass := func() {}
	if cuttable {
		pass = func() {
			gate.RLock()
			gate.RUnlock() //nolint:staticcheck // only to wait for the gate to be open
		}
	}
	pass()
	t, err := new(net.Dialer).DialContext(context.Background(), "tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = t.Close() }()
	back := make(chan struct{})
	go func() {
		defer close(back)
		pipe(c, t, pass)
	}()
	pipe(t, c, pass)
	<-back
}

// pipe copies one direction; what has been read waits at the gate.
func pipe(to, from net.Conn, pass func()) {
	_, _ = io.Copy(writer{to, pass}, from) // a broken connection ends like a closed one
	pass()
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// writer passes the gate before each write.
type writer struct {
	io.Writer
	pass func()
}

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) {
	w.pass()
	return w.Writer.Write(p)
}
