package core

import (
	"encoding/binary"
	"math"

	"github.com/google/uuid"
)

// Limits of a segment: the messages that one commit appended to one partition. A larger
// message is a segment of its own.
const (
	MaxSegmentBytes    = 1 << 20
	MaxSegmentMessages = 1000
)

// SegmentHeader is a segment without its body.
type SegmentHeader struct {
	Partition PartitionKey
	// First is the offset of the first message.
	First      int64
	AppendedAt Time
	// Before are the partition's running totals before the segment.
	Before Totals
	// Messages are the headers in offset order.
	Messages []MessageHeader
}

// Last returns the offset of the last message.
func (s *SegmentHeader) Last() int64 { return s.First + int64(len(s.Messages)) - 1 }

// TotalsUpto returns the partition's running totals up to and including off, which must lie
// in the segment or directly before it.
func (s *SegmentHeader) TotalsUpto(off int64) Totals {
	t := s.Before
	for i := int64(0); s.First+i <= off && i < int64(len(s.Messages)); i++ {
		t = t.Plus(s.Messages[i].Of())
	}
	return t
}

// NewSegment is a segment to append, encoded by its producer before the commit. Header and
// Body are opaque to stores; concatenating two segments' headers and bodies gives a segment.
type NewSegment struct {
	Partition PartitionKey
	// Know is the head that the engine has seen all headers up to, or -1 when it does not matter.
	// A partition whose head moved past it is left out of the commit.
	Know int64
	// Group ties segments that go in together or not at all; 0 is none.
	Group  int
	Count  int
	Totals Totals
	// Expires is the earliest expiry of its messages, 0 when none expires.
	Expires Time
	// Sources are the source ids of messages that carry one; the store keeps them until they are freed.
	Sources []SegmentSource
	Header  []byte
	Body    []byte
}

// SegmentSource is the source id of the message at an index of a segment.
type SegmentSource struct {
	Index    int
	SourceID string
}

const (
	headerHasTransaction = 1 << iota
	headerHasAttempts
	headerHasExpiry
	headerHasSource
)

// Add encodes a message at the end of the segment; m's Offset and AppendedAt are ignored.
func (s *NewSegment) Add(m *Message) {
	before := len(s.Body)
	s.Body = appendRecord(s.Body, m)
	m.record = int32(len(s.Body) - before)
	m.Size = int32(len(m.Payload))
	m.HasSource = m.SourceID != ""
	if m.HasSource {
		s.Sources = append(s.Sources, SegmentSource{s.Count, m.SourceID})
	}
	s.Header = appendHeader(s.Header, &m.MessageHeader)
	s.Count++
	s.Totals = s.Totals.Plus(m.Of())
	if m.ExpiresAt != 0 && (s.Expires == 0 || m.ExpiresAt < s.Expires) {
		s.Expires = m.ExpiresAt
	}
}

// Fits reports whether other can be joined to s within the limits of a segment.
func (s *NewSegment) Fits(other *NewSegment) bool {
	return s.Count+other.Count <= MaxSegmentMessages && len(s.Body)+len(other.Body) <= MaxSegmentBytes
}

// Join adds the messages of other at the end of s.
func (s *NewSegment) Join(other *NewSegment) {
	for _, src := range other.Sources {
		s.Sources = append(s.Sources, SegmentSource{s.Count + src.Index, src.SourceID})
	}
	s.Header = append(s.Header, other.Header...)
	s.Body = append(s.Body, other.Body...)
	s.Count += other.Count
	s.Totals = s.Totals.Plus(other.Totals)
	if other.Expires != 0 && (s.Expires == 0 || other.Expires < s.Expires) {
		s.Expires = other.Expires
	}
}

func appendHeader(buf []byte, h *MessageHeader) []byte {
	var flags byte
	if h.TransactionID != "" {
		flags |= headerHasTransaction
	}
	if h.Attempts != 0 {
		flags |= headerHasAttempts
	}
	if h.ExpiresAt != 0 {
		flags |= headerHasExpiry
	}
	if h.HasSource {
		flags |= headerHasSource
	}
	buf = append(buf, flags)
	buf = append(buf, h.ID[:]...)
	buf = binary.AppendUvarint(buf, uint64(h.Size))
	buf = binary.AppendUvarint(buf, uint64(h.record))
	buf = binary.AppendVarint(buf, int64(h.CreatedAt))
	if h.TransactionID != "" {
		buf = binary.LittleEndian.AppendUint64(buf, h.Hash)
		buf = binary.AppendUvarint(buf, uint64(len(h.TransactionID)))
		buf = append(buf, h.TransactionID...)
	}
	if h.Attempts != 0 {
		buf = binary.AppendVarint(buf, int64(h.Attempts))
	}
	if h.ExpiresAt != 0 {
		buf = binary.AppendVarint(buf, int64(h.ExpiresAt))
	}
	return buf
}

// DecodeHeaders reads count message headers from a segment's header.
func DecodeHeaders(buf []byte, count int) ([]MessageHeader, error) {
	if count < 0 || count > len(buf)/18 {
		return nil, Errorf(CodeFormat, "decode segment header", "%d messages do not fit in %d bytes", count, len(buf))
	}
	out := make([]MessageHeader, count)
	d := decoder{buf: buf}
	for i := range out {
		h := &out[i]
		flags := d.byte()
		copy(h.ID[:], d.take(16))
		h.Size = d.length()
		h.record = d.length()
		h.CreatedAt = Time(d.varint())
		h.HasSource = flags&headerHasSource != 0
		if flags&headerHasTransaction != 0 {
			if b := d.take(8); len(b) == 8 {
				h.Hash = binary.LittleEndian.Uint64(b)
			}
			h.TransactionID = string(d.take(int(d.uvarint())))
		}
		if flags&headerHasAttempts != 0 {
			h.Attempts = int32(d.varint())
		}
		if flags&headerHasExpiry != 0 {
			h.ExpiresAt = Time(d.varint())
		}
	}
	if d.bad || len(d.buf) != 0 {
		return nil, Errorf(CodeFormat, "decode segment header", "header of %d messages is damaged", count)
	}
	return out, nil
}

// BodyRange returns where in a segment's body the records of the messages from index i to
// index j, both included, lie.
func BodyRange(headers []MessageHeader, i, j int) (from, to int64) {
	for k := range headers[:i] {
		from += int64(headers[k].record)
	}
	to = from
	for k := i; k <= j; k++ {
		to += int64(headers[k].record)
	}
	return from, to
}

// DecodeMessages turns the body bytes of BodyRange(header.Messages, i, j) into messages. Payloads
// share the memory of body.
func DecodeMessages(header *SegmentHeader, i, j int, body []byte) ([]Message, error) {
	out := make([]Message, 0, j-i+1)
	for k := i; k <= j; k++ {
		h := header.Messages[k]
		if int64(h.record) > int64(len(body)) {
			return nil, Errorf(CodeFormat, "decode segment body", "record %d is cut short", k)
		}
		m := Message{MessageHeader: h, Offset: header.First + int64(k), AppendedAt: header.AppendedAt}
		if err := decodeRecord(body[:h.record], &m); err != nil {
			return nil, err
		}
		out = append(out, m)
		body = body[h.record:]
	}
	return out, nil
}

func appendRecord(buf []byte, m *Message) []byte {
	l := &m.Labels
	var flags byte
	for i, s := range []string{l.Encoding, l.Kind, l.Reference, l.TraceID, l.Subject, l.SourceID} {
		if s != "" {
			flags |= 1 << i
		}
	}
	if l.DelaySeconds != 0 {
		flags |= 1 << 6
	}
	if l.Imported {
		flags |= 1 << 7
	}
	buf = append(buf, byte(l.ContentType), flags)
	for _, s := range []string{l.Encoding, l.Kind, l.Reference, l.TraceID, l.Subject, l.SourceID} {
		if s != "" {
			buf = binary.AppendUvarint(buf, uint64(len(s)))
			buf = append(buf, s...)
		}
	}
	if l.DelaySeconds != 0 {
		buf = binary.AppendVarint(buf, int64(l.DelaySeconds))
	}
	return append(buf, m.Payload...)
}

func decodeRecord(buf []byte, m *Message) error {
	d := decoder{buf: buf}
	m.ContentType = ContentType(d.byte())
	flags := d.byte()
	for i, s := range []*string{&m.Encoding, &m.Kind, &m.Reference, &m.TraceID, &m.Subject, &m.SourceID} {
		if flags&(1<<i) != 0 {
			*s = string(d.take(int(d.uvarint())))
		}
	}
	if flags&(1<<6) != 0 {
		m.DelaySeconds = int32(d.varint())
	}
	m.Imported = flags&(1<<7) != 0
	if d.bad || len(d.buf) != int(m.Size) {
		return Errorf(CodeFormat, "decode segment body", "record of message %s is damaged", m.ID)
	}
	m.Payload = d.buf
	return nil
}

// decoder reads a buffer and remembers when it ran out.
type decoder struct {
	buf []byte
	bad bool
}

func (d *decoder) byte() byte {
	b := d.take(1)
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.buf) {
		d.bad, d.buf = true, nil
		return nil
	}
	b := d.buf[:n]
	d.buf = d.buf[n:]
	return b
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.buf)
	if n <= 0 {
		d.bad, d.buf = true, nil
		return 0
	}
	d.buf = d.buf[n:]
	return v
}

// length reads a number of bytes, which fits in 31 bits.
func (d *decoder) length() int32 {
	v := d.uvarint()
	if v > math.MaxInt32 {
		d.bad = true
		return 0
	}
	return int32(v)
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.buf)
	if n <= 0 {
		d.bad, d.buf = true, nil
		return 0
	}
	d.buf = d.buf[n:]
	return v
}

// NewMessageID returns a UUIDv7 of the moment now, so that ids tell when they were made.
func NewMessageID(now Time) uuid.UUID {
	id := uuid.New()
	ms := now.Milli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = 0x70 | id[6]&0x0f
	return id
}

// MessageIDTime returns the moment in a UUIDv7, at millisecond resolution; false for other versions.
func MessageIDTime(id uuid.UUID) (Time, bool) {
	if id.Version() != 7 {
		return 0, false
	}
	var ms int64
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return Time(ms * 1000), true
}

// fnvOffset and fnvPrime are the constants of 64-bit FNV-1a.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// HashTransaction is the 64-bit hash of a transaction id as segments carry it; never 0.
func HashTransaction(id string) uint64 {
	h := uint64(fnvOffset)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * fnvPrime
	}
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	h ^= h >> 29
	if h == 0 {
		return 1
	}
	return h
}
