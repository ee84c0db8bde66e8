package queen

import (
	"net/http"
	"strconv"
	"sync"
)

// buffers keeps the memory of answers; one that has grown beyond keepBuffer
// bytes is left to the collector.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

const keepBuffer = 1 << 20

var contentType = []string{"application/json"}

// answer sends what build appends to an empty buffer as a JSON body.
func answer(w http.ResponseWriter, status int, build func(b []byte) []byte) {
	kept, _ := buffers.Get().(*[]byte)
	b := build((*kept)[:0])
	h := w.Header()
	h["Content-Type"] = contentType
	h["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client has gone; nobody is left to tell
	if cap(b) <= keepBuffer {
		*kept = b
		buffers.Put(kept)
	}
}

// answerNothing is the 204 of an empty pop: no body and no length.
func answerNothing(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }
