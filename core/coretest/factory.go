package coretest

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// ID returns the n-th of a fixed series of ids, so that failures of tests read the same each time.
func ID(n int) uuid.UUID {
	var id uuid.UUID
	id[6], id[8] = 0x70, 0x80
	binary.BigEndian.PutUint32(id[12:], uint32(n)) //nolint:gosec // tests use small numbers
	return id
}

// MessageOption changes a message that Message makes.
type MessageOption func(*core.Message)

// Message returns a JSON message with the id ID(n), created at t, whose payload names n.
func Message(n int, t core.Time, options ...MessageOption) core.Message {
	m := core.Message{Payload: fmt.Appendf(nil, `{"n":%d}`, n)}
	m.ID, m.CreatedAt = ID(n), t
	for _, o := range options {
		o(&m)
	}
	m.Size = int32(len(m.Payload)) //nolint:gosec // tests use small payloads
	return m
}

// Transaction gives the message a transaction id.
func Transaction(id string) MessageOption {
	return func(m *core.Message) { m.TransactionID, m.Hash = id, core.HashTransaction(id) }
}

// Payload gives the message its bytes and their type.
func Payload(c core.ContentType, b []byte) MessageOption {
	return func(m *core.Message) { m.ContentType, m.Payload = c, b }
}

// Expires lets the message stop being deliverable at t.
func Expires(t core.Time) MessageOption { return func(m *core.Message) { m.ExpiresAt = t } }

// Source gives the message a source id.
func Source(id string) MessageOption { return func(m *core.Message) { m.SourceID = id } }

// Segment encodes messages as a segment for a partition whose head does not matter.
func Segment(p core.PartitionKey, ms ...core.Message) core.NewSegment {
	s := core.NewSegment{Partition: p, Know: -1}
	for i := range ms {
		s.Add(&ms[i])
	}
	return s
}

// Segments returns count messages numbered from n as one segment.
func Segments(p core.PartitionKey, n, count int, t core.Time) core.NewSegment {
	s := core.NewSegment{Partition: p, Know: -1}
	for i := range count {
		m := Message(n+i, t)
		s.Add(&m)
	}
	return s
}

// Queue returns a queue of the given name made by Queen at t, with the id ID(n).
func Queue(n int, name string, t core.Time) core.Queue {
	return core.Queue{
		ID: ID(n), Name: name, Origin: core.ProtocolQueen, CreatedAt: t, UpdatedAt: t,
		Options: core.QueueOptions{Queen: core.ImplicitQueen()},
	}
}

// Partition returns a partition of a queue as a request to make it.
func Partition(n int, queue uuid.UUID, name string, t core.Time) core.Partition {
	return core.Partition{ID: ID(n), Queue: queue, Name: name, CreatedAt: t}
}
