package queen

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// The encoders append to a buffer and never fail. Payloads are spliced as they
// are: encoding/json would escape "<" and drop white space, and then they were
// not the producer's bytes any more.

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Only what must be escaped is. A
// byte that is no UTF-8 becomes U+FFFD; Queen's own names cannot hold one.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, s[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		b = appendEscape(append(b, s[start:i]...), c)
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// appendKey appends a comma, unless the object is still empty, and a key that
// needs no escape.
func appendKey(b []byte, key string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, key...)
	return append(b, '"', ':')
}

func appendStringField(b []byte, key, value string) []byte {
	return appendString(appendKey(b, key), value)
}

// appendOptional appends null for an empty value.
func appendOptional(b []byte, key, value string) []byte {
	if value == "" {
		return append(appendKey(b, key), "null"...)
	}
	return appendStringField(b, key, value)
}

func appendBoolField(b []byte, key string, value bool) []byte {
	return strconv.AppendBool(appendKey(b, key), value)
}

func appendIntField(b []byte, key string, value int64) []byte {
	return strconv.AppendInt(appendKey(b, key), value, 10)
}

// appendTimeField appends a time with microseconds and a literal Z (protocol
// §1, rule 7); no time is null.
func appendTimeField(b []byte, key string, t core.Time) []byte {
	b = appendKey(b, key)
	if t == 0 {
		return append(b, "null"...)
	}
	return appendTime(b, t.Std())
}

func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	return append(b, '"')
}

func appendIDField(b []byte, key string, id uuid.UUID) []byte {
	return append(appendID(append(appendKey(b, key), '"'), id), '"')
}

// appendID appends the 36 characters of a UUID without going through a string.
func appendID(b []byte, id uuid.UUID) []byte {
	for i, c := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b = append(b, '-')
		}
		b = append(b, hexDigits[c>>4], hexDigits[c&15])
	}
	return b
}

// appendData appends a payload as a JSON value: JSON text as it is, text as a
// string, bytes as a string of base64 (design: the envelope of the three
// protocols).
func appendData(b []byte, kind core.ContentType, payload []byte) []byte {
	switch {
	case kind == core.ContentJSON && len(payload) == 0:
		return append(b, "null"...) // no producer can make one; an answer must stay JSON
	case kind == core.ContentJSON:
		return append(b, payload...)
	case kind == core.ContentText && utf8.Valid(payload):
		return appendString(b, string(payload))
	default:
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, payload)
		return append(b, '"')
	}
}
