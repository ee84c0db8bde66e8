package http1

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// streamAfter is how many bytes of an answer are held back for its length to
// be known. A longer answer of no declared length goes out in chunks.
const streamAfter = 256 << 10

// keepBuffer is the largest buffer that a connection keeps between requests.
const keepBuffer = 8 << 10

// response is the [http.ResponseWriter] of one connection, for one request at
// a time.
type response struct {
	c      *conn
	header http.Header
	status int
	// declared is the length that the handler announced, -1 for none; written
	// is what it has given us.
	declared, written int64
	// body is what was not sent yet.
	body []byte
	// sent is set when the head went out, chunked when the body does in chunks.
	sent, chunked bool
	// last is set when the connection ends after this answer.
	last bool
	err  error
}

func (w *response) reset() {
	clear(w.header)
	w.status, w.declared, w.written = 0, -1, 0
	w.sent, w.chunked, w.last, w.err = false, false, false, nil
	if cap(w.body) > keepBuffer {
		w.body = nil
	}
	w.body = w.body[:0]
}

// Header implements [http.ResponseWriter].
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter]. Only the first final status
// counts; informational ones are not sent.
func (w *response) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	if v := w.header["Content-Length"]; len(v) == 1 {
		n, err := strconv.ParseInt(v[0], 10, 63)
		if err == nil && n >= 0 {
			w.declared = n
			return
		}
	}
	delete(w.header, "Content-Length")
}

// Write implements [http.ResponseWriter].
func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !bodyAllowed(w.status) {
		return 0, http.ErrBodyNotAllowed
	}
	w.written += int64(len(p))
	if w.declared >= 0 && w.written > w.declared {
		w.written -= int64(len(p))
		return 0, http.ErrContentLength
	}
	w.body = append(w.body, p...)
	if len(w.body) > streamAfter {
		w.Flush()
	}
	return len(p), w.err
}

// WriteString implements [io.StringWriter].
func (w *response) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// Flush implements [http.Flusher].
func (w *response) Flush() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	var out []byte
	if !w.sent {
		w.chunked = w.declared < 0 && bodyAllowed(w.status)
		out = w.appendHead(nil)
		w.sent = true
	}
	w.send(w.appendBody(out))
	w.body = w.body[:0]
}

// finish sends what was not sent yet and reports whether the connection can go
// on.
func (w *response) finish() bool {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.declared >= 0 && w.written != w.declared && bodyAllowed(w.status) {
		w.last = true // too little was written: only the end of the connection says so
	}
	out := w.c.out[:0]
	if !w.sent {
		if w.declared < 0 && bodyAllowed(w.status) {
			w.declared = w.written
		}
		out = w.appendHead(out)
	}
	out = w.appendBody(out)
	if w.chunked {
		out = append(out, "0\r\n\r\n"...)
	}
	w.send(out)
	if cap(out) <= keepBuffer {
		w.c.out = out[:0]
	}
	return w.err == nil && !w.last
}

func (w *response) send(out []byte) {
	if w.err == nil && len(out) > 0 {
		_, w.err = w.c.nc.Write(out)
	}
}

// appendBody appends what is held back, as a chunk where it has to be one.
func (w *response) appendBody(out []byte) []byte {
	if !w.chunked {
		return append(out, w.body...)
	}
	if len(w.body) == 0 {
		return out
	}
	out = strconv.AppendInt(out, int64(len(w.body)), 16)
	out = append(out, "\r\n"...)
	out = append(out, w.body...)
	return append(out, "\r\n"...)
}

// appendHead appends the status line and the header: the handler's fields in
// the order of their names, then ours.
func (w *response) appendHead(out []byte) []byte {
	out = append(out, "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(w.status), 10)
	out = append(out, ' ')
	if text := http.StatusText(w.status); text != "" {
		out = append(out, text...)
	} else {
		out = strconv.AppendInt(append(out, "status code "...), int64(w.status), 10)
	}
	out = append(out, "\r\n"...)
	out = w.appendFields(out)
	if w.header["Date"] == nil {
		out = append(append(append(out, "Date: "...), date()...), "\r\n"...)
	}
	switch {
	case w.chunked:
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	case w.declared >= 0:
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, w.declared, 10)
		out = append(out, "\r\n"...)
	}
	if len(w.body) > 0 && w.header["Content-Type"] == nil {
		out = append(append(append(out, "Content-Type: "...), http.DetectContentType(w.body)...), "\r\n"...)
	}
	if w.last {
		out = append(out, "Connection: close\r\n"...)
	}
	return append(out, "\r\n"...)
}

func (w *response) appendFields(out []byte) []byte {
	names := w.c.names[:0]
	for name := range w.header {
		switch name {
		case "Content-Length", "Transfer-Encoding":
		case "Connection":
			w.last = w.last || strings.EqualFold(w.header.Get(name), "close")
		default:
			if isToken(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range w.header[name] {
			out = append(append(out, name...), ": "...)
			out = appendValue(out, value)
			out = append(out, "\r\n"...)
		}
	}
	w.c.names = names[:0]
	return out
}

// appendValue appends a field's value; a line break in it must not begin
// another field.
func appendValue(out []byte, value string) []byte {
	value = strings.Trim(value, " \t\r\n")
	if !strings.ContainsAny(value, "\r\n") {
		return append(out, value...)
	}
	return append(out, strings.NewReplacer("\r", " ", "\n", " ").Replace(value)...)
}

func bodyAllowed(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

// dated is the text of the Date field for one second.
type dated struct {
	second int64
	text   string
}

var lastDate atomic.Pointer[dated]

// date is the present time as the Date field has it.
func date() string {
	now := time.Now()
	if d := lastDate.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &dated{now.Unix(), now.UTC().Format(http.TimeFormat)}
	lastDate.Store(d)
	return d.text
}
