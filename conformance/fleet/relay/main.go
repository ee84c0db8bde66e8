// Command relay forwards TCP connections inside a pod of the containers under
// test. The gateway's control listener is bound to loopback, which a published
// port does not reach; the relay shares the gateway's network and does.
//
// usage: relay LISTEN=TARGET...
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

func main() {
	failed := make(chan error)
	for _, pair := range os.Args[1:] {
		listen, target, ok := strings.Cut(pair, "=")
		if !ok {
			fmt.Fprintln(os.Stderr, "relay: want LISTEN=TARGET, not", pair)
			os.Exit(2)
		}
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", listen)
		if err != nil {
			fmt.Fprintln(os.Stderr, "relay:", err)
			os.Exit(1)
		}
		go func() { failed <- serve(l, target) }()
	}
	// As process 1 it is ended by SIGKILL; nothing here is worth an orderly end.
	fmt.Fprintln(os.Stderr, "relay:", <-failed)
	os.Exit(1)
}

func serve(l net.Listener, target string) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go forward(c, target)
	}
}

// forward copies both ways until both sides have ended, and keeps half-closed
// connections half open.
func forward(c net.Conn, target string) {
	defer func() { _ = c.Close() }()
	t, err := new(net.Dialer).DialContext(context.Background(), "tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = t.Close() }()
	back := make(chan struct{})
	go func() {
		defer close(back)
		pipe(c, t)
	}()
	pipe(t, c)
	<-back
}

func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from) // a broken connection ends like a closed one
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
