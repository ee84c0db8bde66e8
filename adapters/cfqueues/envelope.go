package cfqueues

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/adapters/internal/httpapi"
)

// contentTypeJSON is on every answer: the official clients refuse to decode another,
// errors included.
const contentTypeJSON = "application/json"

// envelope is what surrounds every answer.
type envelope struct {
	Success    bool         `json:"success"`
	Errors     []errorEntry `json:"errors"`
	Messages   []string     `json:"messages"`
	Result     any          `json:"result"`
	ResultInfo *resultInfo  `json:"result_info,omitempty"`
}

// errorEntry is one element of errors.
type errorEntry struct {
	Code    int          `json:"code"`
	Message string       `json:"message"`
	Chain   []errorEntry `json:"error_chain,omitempty"`
}

// resultInfo says where in a list a page stands. Only list routes send it.
type resultInfo struct {
	Count      int `json:"count"`
	Page       int `json:"page"`
	PerPage    int `json:"per_page"`
	TotalCount int `json:"total_count"`
	TotalPages int `json:"total_pages"`
}

// writeResult answers 200 with a result and notices for the envelope's messages.
func writeResult(c *gin.Context, result any, notices ...string) {
	writeEnvelope(c.Writer, http.StatusOK, &envelope{Success: true, Result: result, Messages: notices})
}

// writeList answers 200 with a list and its place among all elements.
func writeList(c *gin.Context, result any, info *resultInfo) {
	writeEnvelope(c.Writer, http.StatusOK, &envelope{Success: true, Result: result, ResultInfo: info})
}

// writeRaw answers 200 with a result that is already encoded, and notices for the
// envelope's messages.
func writeRaw(c *gin.Context, result []byte, notices ...string) {
	buf := takeAnswer(len(result) + 128)
	b := append(*buf, `{"success":true,"errors":[],"messages":[`...)
	for i, n := range notices {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, n)
	}
	b = append(b, `],"result":`...)
	b = append(b, result...)
	b = append(b, '}')
	send(c.Writer, http.StatusOK, b)
	giveAnswer(buf, b)
}

// answers keeps the memory of large answers for the next ones, up to keptAnswer bytes each.
var answers = sync.Pool{New: func() any { return new([]byte) }}

const keptAnswer = 1 << 20

// takeAnswer returns an empty buffer with room for size bytes. The caller hands it back
// with giveAnswer, with what became of it.
func takeAnswer(size int) *[]byte {
	buf, _ := answers.Get().(*[]byte)
	*buf = slices.Grow((*buf)[:0], size)
	return buf
}

func giveAnswer(buf *[]byte, used []byte) {
	if cap(used) <= keptAnswer {
		*buf = used[:0]
		answers.Put(buf)
	}
}

// writeError answers with a failure, and with the headers that tell the official
// clients whether and when to try again.
func writeError(w http.ResponseWriter, e *apiError) {
	h := w.Header()
	h.Set("X-Should-Retry", strconv.FormatBool(e.shouldRetry()))
	if e.retryAfter > 0 && e.shouldRetry() {
		ms := e.retryAfter.Milliseconds()
		h.Set("Retry-After-Ms", strconv.FormatInt(ms, 10))
		// Whole seconds, rounded up: the finer header says it exactly.
		h.Set("Retry-After", strconv.FormatInt((ms+999)/1000, 10))
	}
	writeEnvelope(w, e.status, &envelope{Errors: []errorEntry{{Code: e.code, Message: e.message, Chain: e.chain}}})
}

// writeEnvelope encodes an envelope without the escapes that encoding/json adds for
// HTML: names and texts are shown as they are.
func writeEnvelope(w http.ResponseWriter, status int, e *envelope) {
	if e.Errors == nil {
		e.Errors = []errorEntry{}
	}
	if e.Messages == nil {
		e.Messages = []string{}
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		// Every type that gets here is a plain struct of ours.
		panic(err)
	}
	send(w, status, bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

// send writes the whole answer at once. A failure to write means that the client has
// gone; there is nobody left to tell.
func send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentTypeJSON)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	// The request id under the name that this protocol's users send to support.
	if id := h.Get(httpapi.HeaderRequestID); id != "" {
		h.Set("Cf-Ray", id)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
