package querator

import (
	"bytes"
	"encoding/base64"
	"math"
	"unicode/utf8"

	basepb "github.com/leasehold/leasehold/adapters/querator/pb/base"
)

// The protobuf runtime's JSON decoder is strict and knows the messages' texts, but takes a third
// of the CPU of a produce. What clients really send on the three routes of the hot path is read
// here first; whatever is unusual (an unknown or doubled member, null, a number that is no plain
// integer, a \u escape, an error of any kind) is left to the runtime. So this decoder never says
// that something is wrong, and where it succeeds it agrees with the runtime, which a fuzz target
// checks.

// scanner reads JSON from b. After bad is set, everything it returns is meaningless.
type scanner struct {
	b   []byte
	at  int
	bad bool
	// copied and cloned are b, once a part of it is wanted that outlives it.
	copied string
	cloned []byte
}

// blank skips whitespace.
func (s *scanner) blank() {
	for s.at < len(s.b) {
		switch s.b[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// next skips whitespace and reports whether c follows, consuming it.
func (s *scanner) next(c byte) bool {
	s.blank()
	if s.at < len(s.b) && s.b[s.at] == c {
		s.at++
		return true
	}
	return false
}

// object reads an object and calls member for each of its keys, which reads the value.
func (s *scanner) object(member func(key []byte)) {
	if !s.next('{') {
		s.bad = true
		return
	}
	if s.next('}') {
		return
	}
	for !s.bad {
		key := s.text()
		if s.bad || !s.next(':') {
			s.bad = true
			return
		}
		member(key)
		if s.next(',') {
			continue
		}
		s.bad = s.bad || !s.next('}')
		return
	}
}

// list reads a list and calls element before each of its elements, which reads it.
func (s *scanner) list(element func()) {
	if !s.next('[') {
		s.bad = true
		return
	}
	if s.next(']') {
		return
	}
	for !s.bad {
		element()
		if s.next(',') {
			continue
		}
		s.bad = s.bad || !s.next(']')
		return
	}
}

// text reads a string. The result is a part of b, or a copy where there were escapes.
func (s *scanner) text() []byte {
	if !s.next('"') {
		s.bad = true
		return nil
	}
	end := bytes.IndexByte(s.b[s.at:], '"')
	if end < 0 {
		s.bad = true
		return nil
	}
	raw := s.b[s.at : s.at+end]
	if bytes.IndexByte(raw, '\\') >= 0 {
		return s.escaped()
	}
	s.at += end + 1
	for _, c := range raw {
		if c < ' ' {
			s.bad = true
			return nil
		}
	}
	s.bad = s.bad || !utf8.Valid(raw)
	return raw
}

// part reads a string as a part of one copy of b, for the many short ones that live only as long as
// the request.
func (s *scanner) part() string {
	raw := s.text()
	start, ok := s.within(raw)
	if !ok {
		return string(raw)
	}
	if s.copied == "" {
		s.copied = string(s.b)
	}
	return s.copied[start : start+len(raw)]
}

// partBytes is part for a string that is wanted as bytes.
func (s *scanner) partBytes() []byte {
	raw := s.text()
	start, ok := s.within(raw)
	if !ok {
		return raw
	}
	if s.cloned == nil {
		s.cloned = bytes.Clone(s.b)
	}
	return s.cloned[start : start+len(raw) : start+len(raw)]
}

// within tells where in b the string lies that was just read; one with escapes lies nowhere.
func (s *scanner) within(raw []byte) (start int, ok bool) {
	start = s.at - 1 - len(raw)
	return start, len(raw) > 0 && !s.bad && &s.b[start] == &raw[0]
}

// room guesses how many more elements of a list will come, from the size of the one just read.
func (s *scanner) room(start, limit int) int {
	return min((len(s.b)-s.at)/max(s.at-start, 1), limit)
}

// escaped reads a string with escapes, after its first quote.
func (s *scanner) escaped() []byte {
	out := make([]byte, 0, 2*bytes.IndexByte(s.b[s.at:], '"'))
	for s.at < len(s.b) {
		c := s.b[s.at]
		s.at++
		switch {
		case c == '"':
			s.bad = s.bad || !utf8.Valid(out)
			return out
		case c < ' ':
			s.bad = true
			return nil
		case c != '\\':
			out = append(out, c)
			continue
		}
		if s.at == len(s.b) {
			break
		}
		plain := unescape(s.b[s.at])
		if plain == 0 {
			break
		}
		out = append(out, plain)
		s.at++
	}
	s.bad = true
	return nil
}

// unescape returns what a backslash and c mean, 0 for what is left to the runtime.
func unescape(c byte) byte {
	switch c {
	case '"', '\\', '/':
		return c
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default:
		return 0
	}
}

// integer reads a number of up to nine digits.
func (s *scanner) integer() int32 {
	s.blank()
	start, n := s.at, int64(0)
	for s.at < len(s.b) && s.b[s.at] >= '0' && s.b[s.at] <= '9' && n < math.MaxInt32/10 {
		n = n*10 + int64(s.b[s.at]-'0')
		s.at++
	}
	switch digits := s.at - start; {
	case digits == 0, digits > 1 && s.b[start] == '0':
		s.bad = true
	case s.at < len(s.b) && !bytes.ContainsRune([]byte(" \t\r\n,}]"), rune(s.b[s.at])):
		s.bad = true
	}
	return int32(n)
}

// base64 reads bytes in the standard alphabet with padding.
func (s *scanner) base64() []byte {
	raw := s.text()
	if s.bad || len(raw)%4 != 0 {
		s.bad = true
		return nil
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(raw)))
	n, err := base64.StdEncoding.Decode(out, raw)
	s.bad = s.bad || err != nil
	return out[:n]
}

// once fails for the second member with the same bit.
func (s *scanner) once(seen *uint, bit uint) {
	s.bad = s.bad || *seen&(1<<bit) != 0
	*seen |= 1 << bit
}

// done reports whether everything was read and nothing was unusual.
func (s *scanner) done() bool {
	s.blank()
	return !s.bad && s.at == len(s.b)
}

// fastProduce reads queue.produce without a schedule.
func fastProduce(body []byte) (*produceRequest, bool) {
	s := scanner{b: body}
	req := &produceRequest{}
	var seen uint
	s.object(func(key []byte) {
		switch string(key) {
		case "queue_name", "queueName":
			s.once(&seen, 0)
			req.queue = string(s.text())
		case "request_timeout", "requestTimeout":
			s.once(&seen, 1)
			req.timeout = string(s.text())
		case "items":
			s.once(&seen, 2)
			s.list(func() {
				start := s.at
				it := s.produceItem()
				if len(req.items) == 0 {
					req.items = make([]produceItem, 0, 1+s.room(start, DefaultMaxBatch))
				}
				req.items = append(req.items, it)
			})
		default:
			s.bad = true
		}
	})
	return req, s.done()
}

func (s *scanner) produceItem() (it produceItem) {
	var seen uint
	s.object(func(key []byte) {
		switch string(key) {
		case "encoding":
			s.once(&seen, 0)
			it.encoding = s.part()
		case "kind":
			s.once(&seen, 1)
			it.kind = s.part()
		case "reference":
			s.once(&seen, 2)
			it.reference = s.part()
		case "bytes":
			s.once(&seen, 3)
			it.bytes = s.base64()
		case "utf8":
			s.once(&seen, 4)
			it.utf8 = s.partBytes()
		default:
			s.bad = true
		}
	})
	return it
}

// fastClaim reads queue.lease and queue.reserve.
func fastClaim(body []byte) (*basepb.ClaimRequest, bool) {
	s := scanner{b: body}
	m := &basepb.ClaimRequest{}
	var seen uint
	s.object(func(key []byte) {
		switch string(key) {
		case "queue_name", "queueName":
			s.once(&seen, 0)
			m.QueueName = string(s.text())
		case "batch_size", "batchSize":
			s.once(&seen, 1)
			m.BatchSize = s.integer()
		case "client_id", "clientId":
			s.once(&seen, 2)
			m.ClientId = string(s.text())
		case "request_timeout", "requestTimeout":
			s.once(&seen, 3)
			m.RequestTimeout = string(s.text())
		default:
			s.bad = true
		}
	})
	return m, s.done()
}

// fastComplete reads queue.complete.
func fastComplete(body []byte) (*basepb.CompleteRequest, bool) {
	s := scanner{b: body}
	m := &basepb.CompleteRequest{}
	var seen uint
	s.object(func(key []byte) {
		switch string(key) {
		case "queue_name", "queueName":
			s.once(&seen, 0)
			m.QueueName = string(s.text())
		case "partition":
			s.once(&seen, 1)
			m.Partition = s.integer()
		case "request_timeout", "requestTimeout":
			s.once(&seen, 2)
			m.RequestTimeout = string(s.text())
		case "ids":
			s.once(&seen, 3)
			s.list(func() {
				start := s.at
				id := s.part()
				if len(m.Ids) == 0 {
					m.Ids = make([]string, 0, 1+s.room(start, DefaultMaxBatch))
				}
				m.Ids = append(m.Ids, id)
			})
		default:
			s.bad = true
		}
	})
	return m, s.done()
}
