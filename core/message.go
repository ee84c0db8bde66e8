package core

import (
	"github.com/google/uuid"
)

// ContentType says what a payload is; it decides how each protocol shows it (JSON text is
// spliced, text becomes a string, bytes become base64).
type ContentType uint8

// The content types.
const (
	// ContentJSON is JSON text, kept byte for byte.
	ContentJSON ContentType = iota
	// ContentText is UTF-8 text.
	ContentText
	// ContentBytes is anything else.
	ContentBytes
)

// String returns the name that Cloudflare Queues gives the type.
func (c ContentType) String() string {
	switch c {
	case ContentJSON:
		return "json"
	case ContentText:
		return "text"
	default:
		return "bytes"
	}
}

// Labels are what a producer said of a message besides its payload. All are optional.
type Labels struct {
	ContentType ContentType
	// Encoding, Kind and Reference are Querator's user-defined fields.
	Encoding, Kind, Reference string
	// TraceID is Queen's trace id.
	TraceID string
	// Subject is the verified subject of the token that pushed it (Queen's producerSub).
	Subject string
	// SourceID names the item that this one was made from (Querator's source_id); unique per
	// partition among live items.
	SourceID string
	// DelaySeconds is the delay that the push asked for, shown by Cloudflare pulls; 0 is none.
	DelaySeconds int32
	// Imported tells that the message came with a state that it had elsewhere (Querator's storage import).
	Imported bool
}

// MessageHeader is what claims, windows and counts need of a message. Everything but
// delivery reads headers only.
type MessageHeader struct {
	// ID is a UUIDv7 for life.
	ID uuid.UUID
	// TransactionID is the client-given id, at most 65,535 bytes; "" means that ID's text is it.
	TransactionID string
	// Hash is HashTransaction of the transaction id; 0 when there is none.
	Hash uint64
	// Size is the payload's length in bytes.
	Size int32
	// record is the length of the message's record in the segment body.
	record int32
	// Attempts counts deliveries before the message entered this log.
	Attempts int32
	// CreatedAt is when it was pushed; a delayed push keeps the time of the push.
	CreatedAt Time
	// ExpiresAt is when it stops being deliverable; 0 is never.
	ExpiresAt Time
	// HasSource tells that the message carries a source id.
	HasSource bool
}

// Transaction returns the transaction id, which defaults to the message id.
func (h *MessageHeader) Transaction() string {
	if h.TransactionID != "" {
		return h.TransactionID
	}
	return h.ID.String()
}

// Expired reports whether the message is past its expiry at now.
func (h *MessageHeader) Expired(now Time) bool { return h.ExpiresAt != 0 && h.ExpiresAt <= now }

// Message is an immutable entry of a partition's log.
type Message struct {
	MessageHeader
	Labels
	// Offset is its place in the partition, from 1.
	Offset int64
	// AppendedAt is when it entered the log.
	AppendedAt Time
	// Payload is exactly what the producer gave.
	Payload []byte
}

// Totals are running sums over a log: of messages, of payload bytes and of creation times in
// milliseconds. Differences of totals give counts, sizes and mean ages without a scan.
type Totals struct {
	Messages, Bytes, Created int64
}

// Plus returns the sum of both.
func (t Totals) Plus(u Totals) Totals {
	return Totals{t.Messages + u.Messages, t.Bytes + u.Bytes, t.Created + u.Created}
}

// Minus returns the difference t-u.
func (t Totals) Minus(u Totals) Totals {
	return Totals{t.Messages - u.Messages, t.Bytes - u.Bytes, t.Created - u.Created}
}

// Of returns the totals of one message.
func (h *MessageHeader) Of() Totals { return Totals{1, int64(h.Size), h.CreatedAt.Milli()} }
