package cfqueues

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// The decoders of decode.go go over a body several times: once to see that it is UTF-8, once that it is JSON, and once for
// every level of it. What clients really send in pushes and acknowledgements is read here in one go. Whatever is unusual (an
// unknown or doubled member, null, an escaped name, a number that is no plain integer, anything wrong) is left to the decoders
// there, so that they alone decide what is right and in which words it is not. Where this one succeeds, it agrees with them,
// which a fuzz target checks.

// fastReader reads JSON from b, which is valid UTF-8. After bad is set, everything it returns is meaningless.
type fastReader struct {
	b   []byte
	at  int
	bad bool
	o   *Options
	// copied is b, once a part of it is wanted as a string.
	copied string
}

// next skips white space and reports whether c follows, consuming it.
func (r *fastReader) next(c byte) bool {
	r.at = skipSpace(r.b, r.at)
	if r.at < len(r.b) && r.b[r.at] == c {
		r.at++
		return true
	}
	return false
}

// object reads an object and calls member for each of its names, which reads the value.
func (r *fastReader) object(member func(name []byte)) {
	if !r.next('{') || r.next('}') {
		r.bad = true // an empty one lacks something wherever it is read here
		return
	}
	for !r.bad {
		name := r.plain()
		if !r.next(':') {
			r.bad = true
			return
		}
		member(name)
		if !r.next(',') {
			r.bad = r.bad || !r.next('}')
			return
		}
	}
}

// array reads an array that is not empty and calls element before each element, which reads it.
func (r *fastReader) array(element func()) {
	if !r.next('[') {
		r.bad = true
		return
	}
	for !r.bad {
		element()
		if !r.next(',') {
			r.bad = r.bad || !r.next(']')
			return
		}
	}
}

// done reports whether everything was read and nothing was unusual.
func (r *fastReader) done() bool {
	r.at = skipSpace(r.b, r.at)
	return !r.bad && r.at == len(r.b)
}

// plain reads a string without escapes and returns what is between the quotes.
func (r *fastReader) plain() []byte {
	if !r.next('"') {
		r.bad = true
		return nil
	}
	end := bytes.IndexByte(r.b[r.at:], '"')
	if end < 0 {
		r.bad = true
		return nil
	}
	s := r.b[r.at : r.at+end]
	r.at += end + 1
	r.bad = r.bad || bytes.IndexByte(s, '\\') >= 0 || hasControl(s)
	return s
}

// text is plain as a string that outlives the body.
func (r *fastReader) text() string {
	s := r.plain()
	if r.bad {
		return ""
	}
	if r.copied == "" {
		r.copied = string(r.b)
	}
	return r.copied[r.at-1-len(s) : r.at-1]
}

// value reads any value and returns its text.
func (r *fastReader) value() rawValue {
	r.at = skipSpace(r.b, r.at)
	start := r.at
	if start < len(r.b) && r.b[start] == '"' {
		end := bytes.IndexByte(r.b[start+1:], '"')
		if end >= 0 {
			inner := r.b[start+1 : start+1+end]
			if bytes.IndexByte(inner, '\\') < 0 && !hasControl(inner) {
				r.at = start + end + 2
				return r.b[start:r.at]
			}
		}
	}
	r.at = min(skipValue(r.b, start), len(r.b))
	v := rawValue(r.b[start:r.at])
	// The standard validator bounds the nesting of a whole body.
	deep := len(v) > deepest && bytes.Count(v, []byte("["))+bytes.Count(v, []byte("{")) > deepest
	r.bad = r.bad || deep || !json.Valid(v)
	return v
}

// deepest is how many arrays and objects a value may hold here, whether inside each other or not.
const deepest = 9000

// delay reads a number of seconds up to limit that is written as plain digits.
func (r *fastReader) delay(limit time.Duration) *time.Duration {
	r.at = skipSpace(r.b, r.at)
	end := skipScalar(r.b, r.at)
	digits := r.b[r.at:end]
	r.at = end
	if len(digits) == 0 || len(digits) > 9 || digits[0] == '0' && len(digits) > 1 {
		r.bad = true
		return nil
	}
	for _, c := range digits {
		r.bad = r.bad || c < '0' || c > '9'
	}
	n, err := strconv.Atoi(string(digits))
	d := time.Duration(n) * time.Second
	r.bad = r.bad || err != nil || d > limit
	return &d
}

// once fails for the second member with the same bit.
func (r *fastReader) once(seen *uint, bit uint) {
	r.bad = r.bad || *seen&(1<<bit) != 0
	*seen |= 1 << bit
}

// message reads one push object.
func (r *fastReader) message() pushMessage {
	m := pushMessage{contentType: contentJSON}
	var body rawValue
	var seen uint
	r.object(func(name []byte) {
		switch string(name) {
		case "body":
			r.once(&seen, 0)
			body = r.value()
		case "content_type":
			r.once(&seen, 1)
			m.contentType = knownContentType(r.plain())
		case "delay_seconds":
			r.once(&seen, 2)
			m.delay = r.delay(r.o.Limits.MaxDelay)
		default:
			r.bad = true
		}
	})
	if r.bad || body == nil || m.contentType == "" {
		r.bad = true
		return m
	}
	var err *apiError
	m.payload, err = decodeBody(body, m.contentType, root, r.o)
	r.bad = err != nil || int64(len(m.payload)) > r.o.Limits.MaxMessageBytes
	return m
}

// knownContentType returns the constant that is equal to name, "" for any other name.
func knownContentType(name []byte) string {
	switch string(name) {
	case contentText:
		return contentText
	case contentJSON:
		return contentJSON
	case contentBytes:
		return contentBytes
	default:
		return ""
	}
}

// decodePush reads the body of a single push.
func decodePush(body []byte, o *Options) (pushMessage, *apiError) {
	if m, ok := fastPush(body, o); ok {
		return m, nil
	}
	return slowPush(body, o)
}

// decodeBatch reads the body of a batch push.
func decodeBatch(body []byte, o *Options) (pushBatch, *apiError) {
	if b, ok := fastBatch(body, o); ok {
		return b, nil
	}
	return slowBatch(body, o)
}

// decodeAck reads the body of an acknowledgement.
func decodeAck(body []byte, o *Options) (ackRequest, *apiError) {
	if a, ok := fastAck(body, o); ok {
		return a, nil
	}
	return slowAck(body, o)
}

// fastPush is slowPush for usual bodies.
func fastPush(body []byte, o *Options) (pushMessage, bool) {
	r := fastReader{b: body, o: o}
	if !utf8.Valid(body) {
		return pushMessage{}, false
	}
	m := r.message()
	return m, r.done()
}

// fastBatch is slowBatch for usual bodies.
func fastBatch(body []byte, o *Options) (pushBatch, bool) {
	r := fastReader{b: body, o: o}
	var b pushBatch
	if !utf8.Valid(body) {
		return b, false
	}
	var seen uint
	var total int64
	r.object(func(name []byte) {
		switch string(name) {
		case "messages":
			r.once(&seen, 0)
			r.array(func() {
				start := r.at
				m := r.message()
				if b.messages == nil {
					b.messages = make([]pushMessage, 0, r.room(start, o.Limits.MaxBatchMessages))
				}
				b.messages = append(b.messages, m)
				total += int64(len(m.payload))
				r.bad = r.bad || len(b.messages) > o.Limits.MaxBatchMessages || total > o.Limits.MaxBatchBytes
			})
		case "delay_seconds":
			r.once(&seen, 1)
			b.delay = r.delay(o.Limits.MaxDelay)
		default:
			r.bad = true
		}
	})
	return b, r.done() && len(b.messages) > 0
}

// fastAck is slowAck for usual bodies.
func fastAck(body []byte, o *Options) (ackRequest, bool) {
	r := fastReader{b: body, o: o}
	var a ackRequest
	if !utf8.Valid(body) {
		return a, false
	}
	var seen uint
	r.object(func(name []byte) {
		switch string(name) {
		case "acks":
			r.once(&seen, 0)
			r.array(func() {
				start := r.at
				e := r.entry(false)
				if a.acks == nil {
					a.acks = make([]string, 0, r.room(start, o.Limits.MaxBatchMessages))
				}
				a.acks = append(a.acks, e.leaseID)
			})
		case "retries":
			r.once(&seen, 1)
			r.array(func() { a.retries = append(a.retries, r.entry(true)) })
		default:
			r.bad = true
		}
	})
	return a, r.done()
}

// entry reads one element of acks or retries.
func (r *fastReader) entry(retry bool) (e retryEntry) {
	var seen uint
	r.object(func(name []byte) {
		switch {
		case string(name) == "lease_id":
			r.once(&seen, 0)
			e.leaseID = r.text()
		case string(name) == "delay_seconds" && retry:
			r.once(&seen, 1)
			e.delay = r.delay(r.o.Limits.MaxDelay)
		default:
			r.bad = true
		}
	})
	r.bad = r.bad || seen&1 == 0
	return e
}

// room guesses how many elements an array has, from the size of the first one.
func (r *fastReader) room(start, limit int) int {
	return max(min(1+(len(r.b)-r.at)/max(r.at-start, 1), limit), 1)
}

// hasControl says whether s holds a byte below a blank, which no JSON string may.
func hasControl(s []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; len(s) >= 8; s = s[8:] {
		x := binary.LittleEndian.Uint64(s)
		// In a byte below 0x20 the difference sets the high bit that the byte itself has not.
		if (x-ones*0x20) & ^x & highs != 0 {
			return true
		}
	}
	for _, c := range s {
		if c < 0x20 {
			return true
		}
	}
	return false
}
