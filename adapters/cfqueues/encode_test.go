package cfqueues

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStringsAreEscapedOnlyWhereJSONWantsIt(t *testing.T) {
	for in, want := range map[string]string{
		"":                       `""`,
		"<&>\u2028é😀\x7f":        "\"<&>\u2028é😀\x7f\"",
		"a\"b\\c/\n\r\t\x00\x1f": `"a\"b\\c/\n\r\t\u0000\u001f"`,
		"\uFFFD":                 "\"\uFFFD\"",
		"ok\xffok\xc3":           "\"ok\uFFFDok\uFFFD\"",
	} {
		assert.Equal(t, want, string(appendString(nil, in)))
		assert.Equal(t, want, string(appendString(nil, []byte(in))))
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("a\"\\\x00é\xff😀")
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		require.NoError(t, json.Unmarshal(appendString(nil, s), &back))
		if utf8.ValidString(s) {
			require.Equal(t, s, back)
		}
	})
}

func TestDeliveriesAsDocumented(t *testing.T) {
	tok := newTokens([]byte("secret"))
	d := delivery{createdMS: 1710950954154, attempts: 2, lease: sampleLease()}
	d.id = d.lease.message
	for _, c := range []struct {
		contentType, payload, body string
		plain                      bool
	}{
		{"text", "hello\n", "hello\n", false},
		{"json", `{ "b":1.50 }`, "eyAiYiI6MS41MCB9", false},
		{"json", `{ "b":1.50 }`, `{ "b":1.50 }`, true},
		{"bytes", "\x00\xff", "AP8=", false},
		{"bytes", "\x00\xff", "AP8=", true},
	} {
		d.contentType, d.payload, d.delaySeconds = c.contentType, []byte(c.payload), 0
		var got map[string]any
		require.NoError(t, json.Unmarshal(appendDelivery(nil, &d, tok, c.plain), &got))
		assert.Equal(t, map[string]any{
			"id": hexID(d.id), "timestamp_ms": 1710950954154.0, "attempts": 2.0, "body": c.body,
			"lease_id": string(tok.append(nil, &d.lease)),
			"metadata": map[string]any{"CF-Content-Type": c.contentType, "CF-sourceMessageSource": "api"},
		}, got)
	}
	d.delaySeconds = 30
	assert.Contains(t, string(appendDelivery(nil, &d, tok, false)), `"CF-msg-delay-secs":"30"`)
}

func TestRetryHeadersOfErrors(t *testing.T) {
	for _, c := range []struct {
		err                       *apiError
		should, after, afterMilli string
	}{
		{errPaused(), "false", "", ""},
		{errPullDisabled(), "false", "", ""},
		{errQueueNotFound(), "false", "", ""},
		{&apiError{status: 429, code: codeOverloaded, retryAfter: 1500e6}, "true", "2", "1500"},
		{&apiError{status: 408}, "true", "", ""},
		{errInternal(nil), "true", "", ""},
		{&apiError{status: 500, final: true, retryAfter: 1e9}, "false", "", ""},
	} {
		w := httptest.NewRecorder()
		writeError(w, c.err)
		assert.Equal(t, c.err.status, w.Code)
		assert.Equal(t, c.should, w.Header().Get("x-should-retry"))
		assert.Equal(t, c.after, w.Header().Get("retry-after"))
		assert.Equal(t, c.afterMilli, w.Header().Get("retry-after-ms"))
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	}
}

func TestErrorEnvelope(t *testing.T) {
	w := httptest.NewRecorder()
	writeError(w, errShape("Required", root.in("body")))
	assert.JSONEq(t, `{"success":false,"errors":[{"code":10207,"message":"Required at \"body\""}],"messages":[],"result":null}`, w.Body.String())
}

func TestPathsAreServedInEveryForm(t *testing.T) {
	var seen, raw string
	h := normalize(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen, raw = r.URL.Path, r.URL.RawPath }))
	for in, want := range map[string][2]string{
		"/":                                   {"/", "/"},
		"/client/v4":                          {"/", "/"},
		"/client/v4/":                         {"/", "/"},
		"/client/v45/x":                       {"/client/v45/x", "/client/v45/x"},
		"/client/v4/accounts/a/queues":        {"/accounts/a/queues", "/accounts/a/queues"},
		"//client//v4///accounts/a//queues//": {"/accounts/a/queues", "/accounts/a/queues"},
		"/accounts/a/queues/":                 {"/accounts/a/queues", "/accounts/a/queues"},
		"/accounts/a/queues/a%2Fb":            {"/accounts/a/queues/a/b", "/accounts/a/queues/a%2Fb"},
		"/accounts/a|b/queues/a%2Fb/":         {"/accounts/a|b/queues/a/b", "/accounts/a|b/queues/a%2Fb"},
		"/accounts/a/queues/a+b%20c%2520":     {"/accounts/a/queues/a+b c%20", "/accounts/a/queues/a+b%20c%2520"},
	} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, in, nil))
		assert.Equal(t, want, [2]string{seen, raw}, in)
	}
}
