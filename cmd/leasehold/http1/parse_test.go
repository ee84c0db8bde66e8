package http1

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzParse holds what is read here to what net/http reads from the same bytes.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /api/v1/push?x=1&y=%20 HTTP/1.1\r\nHost: localhost:6632\r\nContent-Length: 12\r\nContent-Type: application/json\r\n\r\n{\"items\":[]}",
		"DELETE /a%2Fb HTTP/1.1\r\nhost: [::1]:80\r\nConnection: close\r\nX:\t a b \r\nx: c\r\n\r\n",
		"PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"PATCH //a HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nfolded: a\r\n b\r\n\r\n",
		"GET / HTTP/1.1\nHost: a\n\n",
		"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h head
		n := h.parse(b)
		if n == 0 {
			return
		}
		src := bytes.NewReader(b)
		want, err := http.ReadRequest(bufio.NewReader(src))
		require.NoError(t, err, "net/http refuses what was read here")
		got := &h.request
		assert.Equal(t, want.Method, got.Method)
		assert.Equal(t, want.RequestURI, got.RequestURI)
		assert.Equal(t, want.URL, got.URL)
		assert.Equal(t, want.Host, got.Host)
		assert.Equal(t, want.Header, got.Header)
		assert.Equal(t, want.ContentLength, got.ContentLength)
		assert.Equal(t, want.Close, h.close)
		assert.Empty(t, want.TransferEncoding)
		assert.True(t, bytes.HasSuffix(b[:n], []byte("\r\n\r\n")))
		var k heads
		first := k.parse(b)
		require.NotNil(t, first)
		assert.Same(t, first, k.parse(b), "the same bytes once more")
	})
}

func TestWhatIsLeftToNetHTTP(t *testing.T) {
	many := strings.Repeat("X: y\r\n", maxFields)
	for name, s := range map[string]string{
		"half a head":                  "GET / HTTP/1.1\r\nHost: a\r\n",
		"another version":              "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
		"an unusual method":            "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
		"HEAD, whose answer is bare":   "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
		"an absolute target":           "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"a space in the target":        "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
		"a bad escape":                 "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
		"no host":                      "GET / HTTP/1.1\r\nX: y\r\n\r\n",
		"two hosts":                    "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
		"a strange host":               "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
		"a transfer encoding":          "POST / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\n\r\n",
		"two lengths":                  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\ncontent-length: 1\r\n\r\n",
		"a length with a sign":         "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
		"a length list":                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
		"an empty length":              "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
		"an endless length":            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999999999\r\n\r\n",
		"an expectation":               "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n",
		"an upgrade":                   "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
		"a folded line":                "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
		"a space before the colon":     "GET / HTTP/1.1\r\nHost: a\r\nX : a\r\n\r\n",
		"a line feed in a value":       "GET / HTTP/1.1\r\nHost: a\r\nX: a\nY: b\r\n\r\n",
		"a carriage return in a value": "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
		"a zero byte in a value":       "GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
		"no name":                      "GET / HTTP/1.1\r\nHost: a\r\n: a\r\n\r\n",
		"no colon":                     "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
		"too many fields":              "GET / HTTP/1.1\r\nHost: a\r\n" + many + "\r\n",
	} {
		var h head
		assert.Zero(t, h.parse([]byte(s)), name)
		var k heads
		assert.Nil(t, k.parse([]byte(s)), name)
	}
}

func TestHeadsThatComeInTurnsAreRemembered(t *testing.T) {
	var k heads
	a, b := []byte(get("/a")), []byte(get("/b"))
	first, second := k.parse(a), k.parse(b)
	require.NotEqual(t, first, second)
	for range 5 {
		assert.Same(t, first, k.parse(a))
		assert.Same(t, second, k.parse(b))
	}
	for i := range 2 * keptHeads { // others do not push out what is in use
		assert.Equal(t, "/"+itoa(i), k.parse([]byte(get("/"+itoa(i)))).request.RequestURI)
		assert.Same(t, first, k.parse(a))
	}
	assert.Equal(t, "/b", k.parse(b).request.RequestURI)
}
