package bench

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// spec is what the requests of one load on one server have in common.
type spec struct {
	host       string // of the server, host:port
	queue      string
	queues     int  // how many; each but a single one has a number behind its name
	fails      bool // settle as failed
	takes      bool // claim with autoAck (Queen only)
	marks      bool // each message begins with the number of its push (Queen only)
	batch      int
	payload    int // bytes per message
	partitions int
	groups     int
	names      bool // each message carries a transaction id of its own
	delay      int  // seconds, on each message
	account    string
	run        string   // makes client ids unique per invocation
	headers    []string // "Name: value", sent with every request
}

// of is the same for the queue with that number.
func (s *spec) of(queue int) *spec {
	if s.queues <= 1 {
		return s
	}
	one := *s
	one.queue, one.queues = s.queue+"-"+strconv.Itoa(queue), 1
	return &one
}

// operation is a kind of request.
type operation int

const (
	opPush operation = iota
	opClaim
	opSettle
)

// dialect speaks one protocol.
type dialect interface {
	// create makes the queue of s as the protocol wants it before use.
	create(c *conn, s *spec) error
	// drop deletes it with all that is in it.
	drop(c *conn, s *spec) error
	// push prepares the push of s.batch messages by one client.
	push(s *spec, client int) *template
	// claim prepares the claim of up to s.batch messages by one client.
	claim(s *spec, client int) []byte
	// settle writes the request that settles what an answer to claim gave
	// out, and returns the number of messages; 0 means there was nothing.
	// The request is nil where they are settled already.
	settle(b *builder, s *spec, status int, answer []byte) (request []byte, messages int, err error)
	// check looks whether an answer says that all n messages were accepted.
	check(op operation, status int, answer []byte, n int) error
}

// dialects are the protocols by name.
var dialects = map[string]dialect{"queen": queen{}, "querator": querator{}, "cfqueues": cfqueues{}}

// maxBatch is the largest batch that a protocol allows.
var maxBatch = map[string]int{"queen": 1000, "querator": 1000, "cfqueues": 100}

// Widths of what is changed in place in a prepared request.
const (
	partitionDigits = 7
	nameDigits      = 12
)

// apart is a prime: the distance of the partitions with which two neighbours
// among the clients begin.
const apart = 7919

// template is a prepared push whose partition and transaction ids are changed
// in place before each use. It belongs to one client.
type template struct {
	request     []byte
	partitionAt []int
	nameAt      []int
	markAt      []int
	partitions  uint64
	partition   uint64
	name        uint64
	mark        uint64
}

// next returns the request to send now.
func (t *template) next() []byte {
	if t.partitions > 1 {
		for _, at := range t.partitionAt {
			digits(t.request[at:at+partitionDigits], t.partition)
		}
		if t.partition++; t.partition == t.partitions {
			t.partition = 0
		}
	}
	for _, at := range t.nameAt {
		digits(t.request[at:at+nameDigits], t.name)
		t.name++
	}
	for _, at := range t.markAt {
		digits(t.request[at:at+markDigits], t.mark)
	}
	return t.request
}

// place says where the changing parts are, given their places in the body that
// ends the request.
func (t *template) place(body int) {
	start := len(t.request) - body
	for _, places := range [][]int{t.partitionAt, t.nameAt, t.markAt} {
		for i := range places {
			places[i] += start
		}
	}
}

// digits writes n in decimal with leading zeros.
func digits(to []byte, n uint64) {
	for i := len(to) - 1; i >= 0; i-- {
		to[i] = byte('0' + n%10)
		n /= 10
	}
}

// builder puts a request with a body together in memory that it keeps.
type builder struct{ body, request []byte }

// post returns a POST of b.body to the path in parts, valid until the next call.
func (b *builder) post(s *spec, path ...string) []byte {
	return b.postType(s, "Content-Type: application/json\r\nContent-Length: ", path...)
}

// postProto is post for a body in protobuf that wants its answer in JSON.
func (b *builder) postProto(s *spec, path ...string) []byte {
	return b.postType(s, "Content-Type: application/protobuf\r\nAccept: application/json\r\nContent-Length: ", path...)
}

// postType is a POST whose last headers are given, up to the body's length.
func (b *builder) postType(s *spec, headers string, path ...string) []byte {
	b.request = requestHead(b.request[:0], s, "POST", path...)
	b.request = append(b.request, headers...)
	b.request = strconv.AppendInt(b.request, int64(len(b.body)), 10)
	b.request = append(b.request, "\r\n\r\n"...)
	b.request = append(b.request, b.body...)
	return b.request
}

// requestHead appends the request line and the headers that every request has.
func requestHead(to []byte, s *spec, method string, path ...string) []byte {
	to = append(to, method...)
	to = append(to, ' ')
	for _, part := range path {
		to = append(to, part...)
	}
	to = append(to, " HTTP/1.1\r\nHost: "...)
	to = append(to, s.host...)
	to = append(to, "\r\n"...)
	for _, h := range s.headers {
		to = append(to, h...)
		to = append(to, "\r\n"...)
	}
	return to
}

// bare is a request without a body.
func bare(s *spec, method, path string) []byte {
	return append(requestHead(nil, s, method, path), "\r\n"...)
}

// call sends a request outside of the measured time and wants one of statuses.
func call(c *conn, request []byte, statuses ...int) error {
	status, body, err := c.do(request)
	if err != nil {
		return err
	}
	if slices.Contains(statuses, status) {
		return nil
	}
	line, _, _ := bytes.Cut(request, []byte(" HTTP/1.1"))
	return fmt.Errorf("%s: %w", line, refusal(status, body))
}

// refusal is an answer that was not expected.
func refusal(status int, body []byte) error {
	return fmt.Errorf("status %d: %.200s", status, body)
}

// text returns n bytes that need no escape in JSON and do not repeat soon, so
// that they are no gift to a store that compresses.
func text(n int) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	b := make([]byte, n)
	x := uint64(0x9e3779b97f4a7c15)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = letters[x>>58]
	}
	return b
}

// stringMember finds the next member of that name whose value is a string
// without escapes, as ids are, and returns it with what follows. The name is
// given with its quotes.
func stringMember(b []byte, name string) (value, rest []byte, ok bool) {
	for {
		i := bytes.Index(b, []byte(name))
		if i < 0 {
			return nil, nil, false
		}
		b = b[i+len(name):]
		j := 0
		for j < len(b) && (b[j] == ':' || b[j] == ' ') {
			j++
		}
		if j == 0 || j >= len(b) || b[j] != '"' {
			continue
		}
		b = b[j+1:]
		end := bytes.IndexByte(b, '"')
		if end < 0 {
			return nil, nil, false
		}
		return b[:end], b[end+1:], true
	}
}

// numberMember finds a member whose value is a number; 0 when it is not there.
func numberMember(b []byte, name string) int {
	i := bytes.Index(b, []byte(name))
	if i < 0 {
		return 0
	}
	n := 0
	for _, c := range b[i+len(name):] {
		switch {
		case c >= '0' && c <= '9':
			n = n*10 + int(c-'0')
		case c != ':' && c != ' ':
			return n
		}
	}
	return n
}
