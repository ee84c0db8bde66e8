package http1

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func itoa(n int) string { return strconv.Itoa(n) }

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/x-echo")
	_, _ = fmt.Fprintf(w, "%s %s %s %q %v", r.Method, r.RequestURI, r.Host, body, err) //nolint:gosec // plain text for a test
}

func TestRequestsFollowOneAnotherOnAConnection(t *testing.T) {
	c := start(t, echo).dial()
	for i := range 3 {
		c.send(post("/a?b=c", "x"+itoa(i)))
		resp, body := c.answer()
		assert.Equal(t, fmt.Sprintf(`POST /a?b=c h "x%d" <nil>`, i), body)
		assert.Equal(t, "text/x-echo", resp.Header.Get("Content-Type"))
		assert.NotEmpty(t, resp.Header.Get("Date"))
		assert.Equal(t, int64(len(body)), resp.ContentLength)
	}
	c.send(get("/other"))
	_, body := c.answer()
	assert.Equal(t, `GET /other h "" <nil>`, body)
}

func TestRequestsSentAtOnceAreAnsweredInOrder(t *testing.T) {
	c := start(t, echo).dial()
	c.send(post("/1", "one") + post("/2", "two") + get("/3") + "GET /4 HTTP/1.1\r\nHo")
	for _, want := range []string{`POST /1 h "one" <nil>`, `POST /2 h "two" <nil>`, `GET /3 h "" <nil>`} {
		_, body := c.answer()
		assert.Equal(t, want, body)
	}
	c.send("st: h\r\n\r\n")
	_, body := c.answer()
	assert.Equal(t, `GET /4 h "" <nil>`, body, "a head in two pieces")
}

func TestABodyThatComesInPieces(t *testing.T) {
	c := start(t, echo).dial()
	body := strings.Repeat("0123456789", 2_000)
	text := post("/", body)
	for len(text) > 0 {
		n := min(len(text), 4_097)
		c.send(text[:n])
		text = text[n:]
	}
	_, got := c.answer()
	assert.Equal(t, fmt.Sprintf("POST / h %q <nil>", body), got)
}

func TestWhatIsNotPlainIsAnsweredByNetHTTP(t *testing.T) {
	s := start(t, echo)
	for name, c := range map[string]struct {
		send   string
		status int
		body   string
	}{
		"chunks":        {"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 200, `POST /c h "abc" <nil>`},
		"HTTP/1.0":      {"GET /o HTTP/1.0\r\n\r\n", 200, `GET /o  "" <nil>`},
		"options":       {"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 200, `OPTIONS * h "" <nil>`},
		"no host":       {"GET / HTTP/1.1\r\n\r\n", 400, "400 Bad Request: missing required Host header"},
		"two lengths":   {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400, "400 Bad Request"},
		"both framings": {"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, `POST /b h "" <nil>`},
		"garbage":       {"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400, "400 Bad Request"},
		"a large head":  {get("/l", "X: "+strings.Repeat("x", 6_000)), 200, `GET /l h "" <nil>`},
	} {
		for _, before := range []string{"", post("/before", "x")} {
			cl := s.dial()
			if before != "" {
				cl.send(before)
				cl.answer()
			}
			cl.send(c.send)
			resp, body := cl.answer()
			assert.Equal(t, c.status, resp.StatusCode, name)
			assert.Equal(t, c.body, body, name)
		}
	}
}

func TestExpectationIsMetByNetHTTP(t *testing.T) {
	c := start(t, echo).dial()
	c.send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	resp, err := http.ReadResponse(c.r, nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 100, resp.StatusCode)
	c.send("ok")
	_, body := c.answer()
	assert.Equal(t, `POST / h "ok" <nil>`, body)
}

func TestConnectionEndsWhenEitherSideAsks(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/close" {
			w.Header().Set("Connection", "close")
		}
		w.WriteHeader(http.StatusNoContent)
	})
	for _, req := range []string{get("/", "Connection: close"), get("/close")} {
		c := s.dial()
		c.send(req)
		resp, _ := c.answer()
		assert.True(t, resp.Close)
		assert.Equal(t, int64(0), resp.ContentLength)
		c.ends()
	}
}

func TestUnreadBodies(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "no") })
	c := s.dial()
	c.send(post("/", strings.Repeat("x", 100_000)) + get("/next"))
	for range 2 { // a small rest is thrown away and the connection goes on
		resp, body := c.answer()
		assert.Equal(t, "no", body)
		assert.Equal(t, "text/plain; charset=utf-8", resp.Header.Get("Content-Type"), "by its bytes")
		assert.False(t, resp.Close)
	}
	c = s.dial()
	c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10000000\r\n\r\n" + strings.Repeat("x", 100_000))
	resp, body := c.answer() // a large one ends the connection, but the answer arrives
	assert.Equal(t, "no", body)
	assert.True(t, resp.Close)
}

func TestAClientThatLeavesInTheMiddleOfABody(t *testing.T) {
	got := make(chan error, 1)
	c := start(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		got <- err
	}).dial()
	c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-got, io.ErrUnexpectedEOF)
}

func TestPanics(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		panic("boom")
	})
	c := s.dial()
	c.send(get("/"))
	c.ends()
	c = s.dial()
	c.send(get("/half"))
	resp, err := http.ReadResponse(c.r, nil)
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "an answer that was cut off must not look whole")
	_ = resp.Body.Close()
	require.NoError(t, s.Shutdown(context.Background()))
	assert.Equal(t, 1, strings.Count(s.logged.String(), "panic serving"))
	assert.Contains(t, s.logged.String(), "boom")
}
