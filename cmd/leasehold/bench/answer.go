package bench

import (
	"bytes"
	"errors"
	"strconv"
)

const (
	// firstBuffer holds the answer of nearly every request; it grows for others.
	firstBuffer = 32 << 10
	// maxAnswer bounds what a server can make the generator keep.
	maxAnswer = 256 << 20
)

var (
	// errFormat is an answer that is no HTTP/1.1.
	errFormat = errors.New("answer is not HTTP/1.1")
	// errLarge is an answer that is not kept.
	errLarge = errors.New("answer is too large")
	crlfcrlf = []byte("\r\n\r\n")
)

// part is where in an answer its reader is.
type part int

const (
	partHead part = iota
	partBody
	partSize    // the line with the size of a chunk
	partChunk   // its bytes and the end of their line
	partTrailer // what follows the last chunk, up to the blank line
)

// answer puts one answer together from its bytes, in whatever pieces they come. It knows as
// much of HTTP/1.1 as the answers of a message server need.
type answer struct {
	first  int    // size of in at the beginning, which is made when it is needed
	in     []byte // what was received is in[:w], of which in[:r] is used up
	r, w   int
	seen   int // of in, searched for the end of the head
	at     part
	head   headInfo
	need   int    // bytes that the part still lacks to be whole
	body   []byte // valid once the answer is whole, until the next one
	chunks []byte
}

// reset begins the next answer.
func (a *answer) reset() { a.r, a.w, a.seen, a.at, a.body = 0, 0, 0, partHead, nil }

// room is where the next bytes are to be received.
func (a *answer) room() ([]byte, error) {
	if a.w == len(a.in) {
		if len(a.in) >= maxAnswer {
			return nil, errLarge
		}
		a.in = append(a.in, make([]byte, max(a.first, len(a.in)))...)
	}
	return a.in[a.w:], nil
}

// received takes in n more bytes and says whether the answer is whole.
func (a *answer) received(n int) (bool, error) {
	a.w += n
	for {
		more, err := a.step()
		if err != nil || !more {
			return err == nil && a.at == partHead && a.seen < 0, err
		}
	}
}

// step reads one part if it is there, and says whether to go on.
func (a *answer) step() (bool, error) {
	switch a.at {
	case partHead:
		return a.readHead()
	case partBody:
		if a.w-a.r < a.need {
			return false, nil
		}
		return a.whole(a.in[a.r : a.r+a.need])
	case partChunk:
		if a.w-a.r < a.need {
			return false, nil
		}
		a.chunks = append(a.chunks, a.in[a.r:a.r+a.need-2]...)
		a.r += a.need
		a.at = partSize
		return true, nil
	default:
		return a.readLine()
	}
}

// whole ends the answer.
func (a *answer) whole(body []byte) (bool, error) {
	a.body, a.at, a.seen = body, partHead, -1
	return false, nil
}

// readHead reads up to the blank line.
func (a *answer) readHead() (bool, error) {
	i := bytes.Index(a.in[a.seen:a.w], crlfcrlf)
	if i < 0 {
		a.seen = max(0, a.w-3)
		return false, nil
	}
	end := a.seen + i
	var err error
	if a.head, err = parseHead(a.in[:end+2]); err != nil {
		return false, err
	}
	a.r = end + len(crlfcrlf)
	switch h := a.head; {
	case h.status == 204 || h.status == 304:
		return a.whole(nil)
	case h.chunked:
		a.at, a.chunks = partSize, a.chunks[:0]
	case h.length < 0:
		return false, errFormat
	case h.length > maxAnswer:
		return false, errLarge
	default:
		a.at, a.need = partBody, h.length
	}
	return true, nil
}

// readLine reads a line of a chunked body: a size, or a trailer.
func (a *answer) readLine() (bool, error) {
	i := bytes.IndexByte(a.in[a.r:a.w], '\n')
	if i < 0 {
		return false, nil
	}
	line := bytes.TrimSuffix(a.in[a.r:a.r+i], []byte("\r"))
	a.r += i + 1
	if a.at == partTrailer {
		if len(line) == 0 {
			return a.whole(a.chunks)
		}
		return true, nil
	}
	size, _, _ := bytes.Cut(line, []byte(";"))
	n, err := strconv.ParseUint(string(bytes.TrimSpace(size)), 16, 31)
	if err != nil || n > maxAnswer {
		return false, errFormat
	}
	if n == 0 {
		a.at = partTrailer
	} else {
		a.at, a.need = partChunk, int(n)+2
	}
	return true, nil
}

// headInfo is what matters of a status line and its headers.
type headInfo struct {
	status, length  int
	chunked, closes bool
}

// parseHead reads the status line and the headers, each ended by CR LF.
func parseHead(b []byte) (headInfo, error) {
	h := headInfo{length: -1}
	if len(b) < 14 || string(b[:7]) != "HTTP/1." {
		return h, errFormat
	}
	var ok bool
	if h.status, ok = decimal(b[9:12]); !ok {
		return h, errFormat
	}
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 || i+1 == len(b) {
			return h, nil
		}
		b = b[i+1:]
		switch b[0] | 0x20 {
		case 'c':
			if v, found := header(b, "content-length"); found {
				if h.length, ok = decimal(v); !ok {
					return h, errFormat
				}
			} else if v, found := header(b, "connection"); found {
				h.closes = bytes.EqualFold(v, []byte("close"))
			}
		case 't':
			if v, found := header(b, "transfer-encoding"); found {
				h.chunked = bytes.EqualFold(v, []byte("chunked"))
			}
		}
	}
}

// decimal reads a number of up to 9 digits.
func decimal(b []byte) (n int, ok bool) {
	if len(b) == 0 || len(b) > 9 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// header returns the value of the header at the start of b if it has that
// lower-case name.
func header(b []byte, name string) ([]byte, bool) {
	if len(b) <= len(name) || b[len(name)] != ':' {
		return nil, false
	}
	for i := range name {
		if b[i]|0x20 != name[i] && b[i] != name[i] {
			return nil, false
		}
	}
	line, _, _ := bytes.Cut(b[len(name)+1:], []byte("\r"))
	return bytes.TrimSpace(line), true
}
