//go:build unix

package testenv

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"testing"
)

// notification is the type of the message by which a server tells of NOTIFY.
const notification = 'A'

// Deaf returns the URL of a relay to a server that keeps notifications back, as poolers do which give a connection to whoever needs it.
func Deaf(tb testing.TB, server string) string {
	tb.Helper()
	u, err := url.Parse(server)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed below
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	target := u.Host
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go relay(conn, target)
		}
	}()
	u.Host = l.Addr().String()
	return u.String()
}

// relay connects a client with a server until either goes.
func relay(client net.Conn, target string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", target) //nolint:noctx // both ends are closed when one is
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		defer func() { _ = server.Close() }()
		_, _ = io.Copy(server, client) // ends with either
	}()
	var header [5]byte
	for {
		if _, err := io.ReadFull(server, header[:]); err != nil {
			return
		}
		size := int64(binary.BigEndian.Uint32(header[1:])) - 4 // its own four bytes count
		out := io.Writer(client)
		if header[0] == notification {
			out = io.Discard
		}
		if _, err := out.Write(header[:]); err != nil {
			return
		}
		if _, err := io.CopyN(out, server, size); err != nil {
			return
		}
	}
}
