package cfqueues

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"github.com/google/uuid"
)

// The answer to a pull is the one large answer of this protocol. It is written by
// appending to one buffer instead of through reflection.

// delivery is one message of a pull as it is shown.
type delivery struct {
	id           uuid.UUID
	createdMS    int64
	attempts     int32
	payload      []byte
	contentType  string
	delaySeconds int32 // 0 when the push asked for none
	lease        lease
	ref          bool // it was only looked at: lease names the message for a deletion
}

// appendDelivery writes one message of a pull.
func appendDelivery(b []byte, d *delivery, t *tokens, plainJSON bool) []byte {
	b = append(b, `{"id":"`...)
	b = appendID(b, d.id)
	b = append(b, `","timestamp_ms":`...)
	b = strconv.AppendInt(b, d.createdMS, 10)
	b = append(b, `,"attempts":`...)
	b = strconv.AppendInt(b, int64(d.attempts), 10)
	b = append(b, `,"body":`...)
	if d.contentType == contentText || (plainJSON && d.contentType == contentJSON) {
		b = appendString(b, d.payload)
	} else {
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, d.payload)
		b = append(b, '"')
	}
	if d.ref {
		b = append(b, `,"ref":"`...)
	} else {
		b = append(b, `,"lease_id":"`...)
	}
	b = t.append(b, &d.lease)
	b = append(b, `","metadata":{"CF-Content-Type":"`...)
	b = append(b, d.contentType...)
	b = append(b, `","CF-sourceMessageSource":"api"`...)
	if d.delaySeconds > 0 {
		b = append(b, `,"CF-msg-delay-secs":"`...)
		b = strconv.AppendInt(b, int64(d.delaySeconds), 10)
		b = append(b, '"')
	}
	return append(b, `}}`...)
}

// appendMetrics writes a Metrics object.
func appendMetrics(b []byte, m metrics) []byte {
	b = append(b, `{"backlog_count":`...)
	b = strconv.AppendInt(b, m.BacklogCount, 10)
	b = append(b, `,"backlog_bytes":`...)
	b = strconv.AppendInt(b, m.BacklogBytes, 10)
	b = append(b, `,"oldest_message_timestamp_ms":`...)
	b = strconv.AppendInt(b, m.OldestMessageTimestampMS, 10)
	return append(b, '}')
}

// appendID writes an id the way this protocol shows all of them: 32 hex digits.
func appendID(b []byte, id uuid.UUID) []byte { return hex.AppendEncode(b, id[:]) }

// hexID is appendID as a string.
func hexID(id uuid.UUID) string { return hex.EncodeToString(id[:]) }

const hexDigits = "0123456789abcdef"

// appendString writes s as a JSON string. Only what JSON forbids is escaped, so text
// comes back as it was sent; bytes that are not UTF-8, which no JSON string can hold,
// become U+FFFD.
func appendString[T []byte | string](b []byte, s T) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			if r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))])); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		b = append(b, s[start:i]...)
		b = appendEscape(b, c)
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// appendEscape writes one byte that may not stand in a JSON string as it is.
func appendEscape(b []byte, c byte) []byte {
	switch {
	case c == '"' || c == '\\':
		return append(b, '\\', c)
	case c == '\n':
		return append(b, `\n`...)
	case c == '\r':
		return append(b, `\r`...)
	case c == '\t':
		return append(b, `\t`...)
	case c >= utf8.RuneSelf:
		return append(b, "\uFFFD"...)
	default:
		return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
}
