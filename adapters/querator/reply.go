package querator

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	basepb "github.com/leasehold/leasehold/adapters/querator/pb/base"
)

// reply is an answer that can be written in both encodings. JSON is written by hand: the
// protobuf runtime varies its blanks from build to build, and the names differ by generation.
type reply interface {
	// appendJSON appends the JSON form.
	appendJSON(dst []byte) []byte
	// message returns the protobuf form.
	message() proto.Message
}

// okReply is the success without content.
type okReply struct{}

func (okReply) appendJSON(dst []byte) []byte { return append(dst, `{"code":200}`...) }

func (okReply) message() proto.Message { return &basepb.Reply{Code: codeOK} }

// faultReply is a fault as an answer.
type faultReply struct {
	code int
	text string
}

func (f faultReply) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(f.code), 10)
	dst = append(dst, `,"code_text":`...)
	dst = appendString(dst, codeTexts[f.code])
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, f.text)
	return append(dst, '}')
}

func (f faultReply) message() proto.Message {
	return &basepb.Reply{Code: int32(f.code), CodeText: codeTexts[f.code], Message: f.text} //nolint:gosec // a status
}

// keptReply is the largest buffer that is kept for another reply, in bytes.
const keptReply = 1 << 20

// replyBuffers keeps the buffers of JSON replies.
var replyBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// Values of headers that every reply shares; nobody may write to them.
var (
	headerJSON     = []string{typeJSON}
	headerProtobuf = []string{typeProtobuf}
	headerNosniff  = []string{"nosniff"}
)

// send writes an answer; status is also the code inside a fault. A client that left is no error.
func send(w http.ResponseWriter, status int, e encoding, r reply) {
	var body []byte
	h := w.Header()
	if e == encodeProtobuf {
		b, err := proto.Marshal(r.message())
		if err != nil {
			send(w, codeInternal, encodeJSON, errInternal.reply())
			return
		}
		body = b
		h["Content-Type"] = headerProtobuf
	} else {
		buf, _ := replyBuffers.Get().(*[]byte)
		body = r.appendJSON((*buf)[:0])
		if cap(body) <= keptReply {
			*buf = body
			defer replyBuffers.Put(buf)
		}
		h["Content-Type"] = headerJSON
	}
	h["X-Content-Type-Options"] = headerNosniff
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// jsonObject appends the members of an object; zero values are left out, as proto3 JSON does.
type jsonObject struct {
	dst []byte
	sep byte
}

func openObject(dst []byte) jsonObject { return jsonObject{dst: dst, sep: '{'} }

// key begins a member.
func (o *jsonObject) key(name string) {
	o.dst = append(o.dst, o.sep, '"')
	o.dst = append(o.dst, name...)
	o.dst = append(o.dst, '"', ':')
	o.sep = ','
}

func (o *jsonObject) str(name, v string) {
	if v != "" {
		o.key(name)
		o.dst = appendString(o.dst, v)
	}
}

func (o *jsonObject) num(name string, v int64) {
	if v != 0 {
		o.key(name)
		o.dst = strconv.AppendInt(o.dst, v, 10)
	}
}

func (o *jsonObject) flag(name string, v bool) {
	if v {
		o.key(name)
		o.dst = append(o.dst, "true"...)
	}
}

func (o *jsonObject) time(name string, t time.Time) {
	o.key(name)
	o.dst = appendTime(o.dst, t)
}

func (o *jsonObject) bytes(name string, v []byte) {
	if len(v) > 0 {
		o.key(name)
		o.dst = append(o.dst, '"')
		o.dst = base64.StdEncoding.AppendEncode(o.dst, v)
		o.dst = append(o.dst, '"')
	}
}

// close ends the object and returns everything appended.
func (o *jsonObject) close() []byte {
	if o.sep == '{' {
		o.dst = append(o.dst, '{')
	}
	return append(o.dst, '}')
}

// appendTime appends a timestamp as proto3 JSON does: UTC, with no, 3, 6 or 9 digits after the
// second.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	layout := `"2006-01-02T15:04:05Z"`
	switch ns := t.Nanosecond(); {
	case ns == 0:
	case ns%1_000_000 == 0:
		layout = `"2006-01-02T15:04:05.000Z"`
	case ns%1000 == 0:
		layout = `"2006-01-02T15:04:05.000000Z"`
	default:
		layout = `"2006-01-02T15:04:05.000000000Z"`
	}
	return t.AppendFormat(dst, layout)
}

const hexDigits = "0123456789abcdef"

// appendString appends a JSON string. Only what JSON demands is escaped, and what is no UTF-8 (a
// label that came through another protocol) becomes the replacement character.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, c)
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
}
