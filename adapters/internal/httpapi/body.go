package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// ErrTooLarge is returned by [ReadBody] for a body of more bytes than the
// limit. The adapter answers it in its protocol's words.
var ErrTooLarge = errors.New("request body exceeds the limit")

// ErrUnreadable is returned by [ReadBody] when the body ended early, most
// often because the client left.
var ErrUnreadable = errors.New("request body could not be read")

const (
	// firstBuffer is what a body's buffer begins with at most: a length that
	// a client only claims must not reserve memory.
	firstBuffer = 64 << 10
	// keptBuffer is the largest buffer that goes back to the pool.
	keptBuffer = 1 << 20
	// maxDrain is how much of a body that is too large is read and thrown
	// away, so that a client which sends before it listens gets the answer
	// and not a broken connection.
	maxDrain = 128 << 20
)

// pool keeps buffers of ended requests.
var pool = sync.Pool{New: func() any { return new([]byte) }}

// Body is a request body in memory.
type Body struct {
	// Bytes is the whole body as sent, valid until Release.
	Bytes []byte

	buf *[]byte
}

// ReadBody reads all of a request's body, at most limit bytes; exactly limit
// bytes are allowed. Its errors are [ErrTooLarge] and [ErrUnreadable], either
// possibly wrapped. A request without a body yields an empty one.
func ReadBody(r *http.Request, limit int64) (*Body, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return &Body{}, nil
	}
	if r.ContentLength > limit {
		refuse(r)
		return nil, ErrTooLarge
	}
	buf, _ := pool.Get().(*[]byte)
	b := (*buf)[:0]
	if want := min(max(r.ContentLength, 511)+1, firstBuffer, limit+1); int64(cap(b)) < want {
		b = make([]byte, 0, want)
	}
	b, err := readAtMost(r.Body, b, limit)
	*buf = b
	body := &Body{Bytes: b, buf: buf}
	switch {
	case errors.Is(err, ErrTooLarge):
		refuse(r)
		body.Release()
		return nil, err
	case err != nil:
		body.Release()
		return nil, err
	default:
		return body, nil
	}
}

// readAtMost appends what r holds to b, growing as bytes really arrive.
func readAtMost(r io.Reader, b []byte, limit int64) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		room := b[len(b):min(int64(cap(b)), limit+1)]
		n, err := r.Read(room)
		b = b[:len(b)+n]
		if int64(len(b)) > limit {
			return b, ErrTooLarge
		}
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
	}
}

// refuse throws away the rest of a body that is too large, within bounds. A
// client that asked with "Expect: 100-continue" has sent nothing yet and gets
// the answer at once.
func refuse(r *http.Request) {
	if strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		return
	}
	// A failure here only means that the client left; the answer is the same.
	_, _ = io.CopyN(io.Discard, r.Body, maxDrain)
}

// Release gives the buffer back for another request; Bytes and every slice of
// it must not be used afterwards. Call it only when nobody else can hold the
// bytes: an engine call that returned because its context ended may still be
// working on them, and then the body is left to the garbage collector.
func (b *Body) Release() {
	if b.buf == nil || cap(*b.buf) > keptBuffer {
		b.buf, b.Bytes = nil, nil
		return
	}
	buf := b.buf
	b.buf, b.Bytes = nil, nil
	pool.Put(buf)
}
