//go:build unix

package testenv

import (
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// oldVersion is what the server of Old says that it is.
const oldVersion = 130_014

// Old listens at a port of the loopback as a PostgreSQL 13 would that is asked for nothing but its version, until stop is called: releases
// that old are hard to come by.
func Old(tb testing.TB, port int) (stop func()) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)) //nolint:noctx // it is closed below
	if err != nil {
		tb.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_ = old(conn) // ends when the client does
			}()
		}
	}()
	stop = func() { _ = l.Close() }
	tb.Cleanup(stop)
	return stop
}

// old answers what a client says.
func old(conn net.Conn) error {
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return err
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: "13.14"})
	b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	ready := &pgproto3.ReadyForQuery{TxStatus: 'I'}
	b.Send(ready)
	number := []pgproto3.FieldDescription{{Name: []byte("version"), DataTypeOID: 23, DataTypeSize: 4, TypeModifier: -1, Format: 1}}
	var asked string
	for {
		if err := b.Flush(); err != nil {
			return err
		}
		m, err := b.Receive()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.Query:
			answerText(b, m.String)
			b.Send(ready)
		case *pgproto3.Parse:
			asked = m.Query
			b.Send(&pgproto3.ParseComplete{})
		case *pgproto3.Describe:
			if m.ObjectType == 'S' {
				b.Send(&pgproto3.ParameterDescription{})
			}
			b.Send(&pgproto3.RowDescription{Fields: number})
		case *pgproto3.Bind:
			b.Send(&pgproto3.BindComplete{})
		case *pgproto3.Execute:
			if !strings.Contains(asked, "server_version_num") {
				return fmt.Errorf("an old server was asked: %s", asked)
			}
			b.Send(&pgproto3.DataRow{Values: [][]byte{binary.BigEndian.AppendUint32(nil, oldVersion)}})
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		case *pgproto3.Sync:
			b.Send(ready)
		case *pgproto3.Terminate:
			return nil
		}
	}
}

// answerText answers a simple query: that for what the server is, or one without rows.
func answerText(b *pgproto3.Backend, query string) {
	if !strings.Contains(query, "transaction_read_only") {
		b.Send(&pgproto3.EmptyQueryResponse{})
		return
	}
	text := func(name string) pgproto3.FieldDescription {
		return pgproto3.FieldDescription{Name: []byte(name), DataTypeOID: 25, DataTypeSize: -1, TypeModifier: -1}
	}
	b.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{text("read_only"), text("identity")}})
	b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("off"), []byte("1.00000001")}})
	b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
}
