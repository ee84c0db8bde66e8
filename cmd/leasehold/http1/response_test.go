package http1

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asked sends one request to a handler and returns the answer, which must leave the connection usable.
func asked(t *testing.T, h http.HandlerFunc) (reply, string) {
	t.Helper()
	c := start(t, h).dial()
	c.send(get("/"))
	first, body := c.answer()
	c.send(get("/"))
	_, again := c.answer()
	assert.Equal(t, body, again)
	return first, body
}

func TestALongAnswerComesInChunks(t *testing.T) {
	long := strings.Repeat("0123456789", streamAfter/8)
	resp, body := asked(t, func(w http.ResponseWriter, _ *http.Request) {
		for s := long; s != ""; s = s[min(len(s), 10_000):] {
			_, _ = io.WriteString(w, s[:min(len(s), 10_000)])
		}
	})
	assert.Equal(t, []string{"chunked"}, resp.TransferEncoding)
	assert.Equal(t, long, body)
}

func TestALongAnswerOfADeclaredLength(t *testing.T) {
	long := strings.Repeat("x", 2*streamAfter)
	resp, body := asked(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", itoa(len(long)))
		_, _ = io.WriteString(w, long)
	})
	assert.Empty(t, resp.TransferEncoding)
	assert.Equal(t, long, body)
}

func TestFlush(t *testing.T) {
	on := make(chan struct{})
	c := start(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first ")
		w.(http.Flusher).Flush()
		<-on
		_, _ = io.WriteString(w, "second")
	}).dial()
	c.send(get("/"))
	resp, err := http.ReadResponse(c.r, nil)
	require.NoError(t, err)
	got := make([]byte, 6)
	_, err = io.ReadFull(resp.Body, got)
	require.NoError(t, err)
	assert.Equal(t, "first ", string(got), "before the handler has ended")
	close(on)
	rest, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "second", string(rest))
	require.NoError(t, resp.Body.Close())
}

func TestHeadersOfAnswers(t *testing.T) {
	resp, body := asked(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Evil", " a\r\nSet-Cookie: b ")
		w.Header()["bad name"] = []string{"x"}
		w.Header()["X-Two"] = []string{"1", "2"}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(454)
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "{}")
	})
	assert.Equal(t, "454 status code 454", resp.Status)
	assert.Equal(t, "{}", body)
	assert.Equal(t, "a  Set-Cookie: b", resp.Header.Get("X-Evil"))
	assert.Empty(t, resp.Header.Get("Set-Cookie"))
	assert.Empty(t, resp.Header["bad name"])
	assert.Equal(t, []string{"1", "2"}, resp.Header["X-Two"])
	assert.Equal(t, []string{"application/json"}, resp.Header["Content-Type"])
}

func TestHeadersOfOneAnswerAreNotInTheNext(t *testing.T) {
	c := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			w.Header().Set("X-First", "1")
			w.WriteHeader(http.StatusTeapot)
		}
	}).dial()
	c.send(get("/first"))
	resp, _ := c.answer()
	assert.Equal(t, 418, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("X-First"))
	c.send(get("/second"))
	resp, body := c.answer()
	assert.Equal(t, 200, resp.StatusCode)
	assert.Empty(t, resp.Header.Get("X-First"))
	assert.Empty(t, body)
}

func TestAnAnswerOfTheWrongLength(t *testing.T) {
	for _, body := range []string{"ab", "abcd"} {
		written := make(chan error, 1)
		c := start(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			_, err := io.WriteString(w, body)
			written <- err
		}).dial()
		c.send(get("/"))
		resp, err := http.ReadResponse(c.r, nil)
		require.NoError(t, err)
		assert.Equal(t, int64(3), resp.ContentLength)
		_, err = io.ReadAll(resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NoError(t, resp.Body.Close())
		if err := <-written; len(body) > 3 {
			require.ErrorIs(t, err, http.ErrContentLength)
		}
	}
}

func TestStatusesWithoutABody(t *testing.T) {
	for _, status := range []int{http.StatusNoContent, http.StatusNotModified} {
		written := make(chan error, 2)
		resp, body := asked(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, err := io.WriteString(w, "body")
			written <- err
		})
		require.ErrorIs(t, <-written, http.ErrBodyNotAllowed)
		assert.Equal(t, status, resp.StatusCode)
		assert.Empty(t, body)
		assert.Empty(t, resp.Header.Get("Content-Length"))
	}
}
