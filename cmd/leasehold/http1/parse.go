package http1

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// Bounds of a request that is read here; beyond them net/http decides.
const (
	maxFields = 64
	// maxLengthDigits keeps a declared length within an int64.
	maxLengthDigits = 15
)

// head is the request line and the header of a request, parsed.
type head struct {
	// raw is what it was parsed from, with the empty line at its end.
	raw []byte
	// request is complete but for context and body.
	request http.Request
	// close is set when the client asked for the connection to end.
	close bool
}

var endOfHead = []byte("\r\n\r\n")

// keptHeads is how many heads a connection remembers: a consumer claims and
// settles in turns.
const keptHeads = 3

// heads are the last different heads of a connection, the newest at the front.
type heads [keptHeads]*head

// parse returns the head at the beginning of b. It returns nil when b does not
// begin with a whole head that is plain in every respect. A head that is the
// same bytes as one of the last is not parsed again.
func (k *heads) parse(b []byte) *head {
	for i, h := range k {
		if h != nil && bytes.HasPrefix(b, h.raw) {
			copy(k[1:], k[:i])
			k[0] = h
			return h
		}
	}
	h := new(head)
	if h.parse(b) == 0 {
		return nil
	}
	copy(k[1:], k[:])
	k[0] = h
	return h
}

// parse reads the head at the beginning of b into h and returns its length, 0
// when it is not plain.
func (h *head) parse(b []byte) int {
	end := bytes.Index(b, endOfHead)
	if end < 0 {
		return 0
	}
	end += len(endOfHead)
	text := string(b[:end])
	line, rest, _ := strings.Cut(text, "\r\n")
	h.request, h.close = http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1}, false
	if !h.requestLine(line) || !h.fields(rest) {
		return 0
	}
	h.raw = bytes.Clone(b[:end])
	return end
}

// requestLine reads "METHOD /path HTTP/1.1".
func (h *head) requestLine(line string) bool {
	method, rest, _ := strings.Cut(line, " ")
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return false
	}
	target, ok := strings.CutSuffix(rest, " HTTP/1.1")
	if !ok || target == "" || target[0] != '/' {
		return false
	}
	for i := range len(target) {
		if target[i] <= ' ' || target[i] >= 0x7f {
			return false
		}
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return false
	}
	h.request.Method, h.request.RequestURI, h.request.URL = method, target, u
	return true
}

// fields reads the header, which ends with an empty line.
func (h *head) fields(text string) bool {
	header, host := make(http.Header, 8), false
	for range maxFields {
		line, rest, _ := strings.Cut(text, "\r\n")
		text = rest
		if line == "" {
			return h.finish(header, host)
		}
		name, value, ok := field(line)
		if !ok {
			return false
		}
		key := textproto.CanonicalMIMEHeaderKey(name)
		switch key {
		case "Host":
			if host || !plainHost(value) {
				return false
			}
			host, h.request.Host = true, value
			continue
		case "Content-Length":
			if !h.length(value) {
				return false
			}
		case "Connection":
			if !h.connection(value) {
				return false
			}
		case "Transfer-Encoding", "Expect", "Upgrade", "Trailer", "Te", "Pragma", "Proxy-Connection", "Keep-Alive", "Http2-Settings":
			return false
		}
		header[key] = append(header[key], value)
	}
	return false
}

func (h *head) finish(header http.Header, host bool) bool {
	h.request.ContentLength = max(h.request.ContentLength, 0)
	h.request.Header, h.request.Close = header, h.close
	return host
}

// length reads Content-Length, which may stand there once.
func (h *head) length(value string) bool {
	if h.request.ContentLength >= 0 || value == "" || len(value) > maxLengthDigits {
		return false
	}
	n := int64(0)
	for i := range len(value) {
		d := value[i] - '0'
		if d > 9 {
			return false
		}
		n = n*10 + int64(d)
	}
	h.request.ContentLength = n
	return true
}

func (h *head) connection(value string) bool {
	switch {
	case strings.EqualFold(value, "keep-alive"):
		return true
	case strings.EqualFold(value, "close"):
		h.close = true
		return true
	default:
		return false
	}
}

// field splits "Name: value". A name is a token right before the colon; a
// value has no control characters but tabs, and is given without the spaces
// around it.
func field(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(line, ":")
	if !ok || !isToken(name) {
		return "", "", false
	}
	value = strings.Trim(value, " \t")
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return "", "", false
		}
	}
	return name, value, true
}

// isToken is RFC 9110's token, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return s != ""
}

// plainHost allows a name, an address and a port.
func plainHost(s string) bool {
	for i := range len(s) {
		if !isAlphanumeric(s[i]) && strings.IndexByte("-._:[]", s[i]) < 0 {
			return false
		}
	}
	return s != ""
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

var tokenBytes = func() (t [256]bool) {
	for c := range 256 {
		t[c] = isAlphanumeric(byte(c)) || strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return t
}()
