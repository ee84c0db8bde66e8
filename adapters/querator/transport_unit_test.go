package querator

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/internal/httpapi"
)

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{
		512: "512B", 999: "999B", 1000: "1.0kB", 1024: "1.0KiB", 256_000: "250.0KiB", 512_000: "500.0KiB",
		1_000_000: "1.0MB", 5_000_000: "5.0MB", 64_000_000: "61.0MiB", 1 << 30: "1.0GiB",
	} {
		require.Equal(t, want, formatSize(n), "%d bytes", n)
	}
}

func TestReplyEncoding(t *testing.T) {
	for _, tt := range []struct {
		accept, contentType string
		want                encoding
		refused             string
	}{
		{"", "", encodeJSON, ""},
		{"", "application/json", encodeJSON, ""},
		{"", "application/protobuf", encodeProtobuf, ""},
		{"", "application/protobuf; charset=x", encodeProtobuf, ""},
		{"", "text/plain", encodeJSON, ""},
		{"*/*", "application/protobuf", encodeJSON, ""},
		{"application/*", "application/protobuf", encodeJSON, ""},
		{"application/json", "application/protobuf", encodeJSON, ""},
		{" Application/Protobuf ;q=1", "application/json", encodeProtobuf, ""},
		{"application/json, text/html", "", encodeJSON, ""},
		{"text/html, application/json", "", encodeJSON, "text/html"},
		{"Text/HTML;q=1", "", encodeJSON, "Text/HTML"},
		{"application/octet-stream", "", encodeJSON, "application/octet-stream"},
	} {
		got, err := replyEncoding(tt.accept, tt.contentType)
		if tt.refused != "" {
			require.Equal(t, badAccept(tt.refused), err, "%q", tt.accept)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tt.want, got, "%q %q", tt.accept, tt.contentType)
	}
}

func TestParseGeneration(t *testing.T) {
	for in, want := range map[string]Generation{
		"": Auto, "auto": Auto, "R1": R1, "r2": R2, "reserve": R2, "L1": L1, "lease": L2, "l2": L2,
	} {
		got, err := ParseGeneration(in)
		require.NoError(t, err)
		require.Equal(t, want, got, in)
	}
	_, err := ParseGeneration("R3")
	require.Error(t, err)
}

func TestAppendTime(t *testing.T) {
	at := time.Date(2026, 11, 29, 17, 15, 10, 0, time.FixedZone("x", 3600))
	for ns, want := range map[int]string{
		0: `"2026-11-29T16:15:10Z"`, 500_000_000: `"2026-11-29T16:15:10.500Z"`,
		575_743_000: `"2026-11-29T16:15:10.575743Z"`, 575_743_912: `"2026-11-29T16:15:10.575743912Z"`,
	} {
		require.Equal(t, want, string(appendTime(nil, at.Add(time.Duration(ns)))))
	}
	require.Equal(t, `"0001-01-01T00:00:00Z"`, string(appendTime(nil, time.Time{})))
}

func TestLongMessagesAreCut(t *testing.T) {
	f := undecodable(textError("proto:\u00a0bad " + strings.Repeat("é", maxMessage)))
	require.LessOrEqual(t, len(f.text), maxMessage+len("\uFFFD"))
	require.True(t, strings.HasPrefix(f.text, "proto: bad é"))
	require.True(t, utf8.ValidString(f.text))
}

type textError string

func (e textError) Error() string { return string(e) }

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "<&>\u2028", "\x00\x1f\x7f\"\\\b\f\n\r\t", "\xff\xc0é\xe2\x28", "😀"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := appendString(nil, s)
		var back string
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatalf("%q became %q: %v", s, out, err)
		}
		if want := strings.ToValidUTF8(s, "\uFFFD"); utf8.ValidString(s) && back != want {
			t.Fatalf("%q came back as %q", s, back)
		}
		if !utf8.Valid(out) {
			t.Fatalf("%q became invalid UTF-8", s)
		}
	})
}

func TestWaitingRoomIsBounded(t *testing.T) {
	rooms := newWaitingRooms(2)
	q1, q2 := [16]byte{1}, [16]byte{2}
	for range commitRequests + 2 {
		require.NoError(t, rooms.enter(q1))
	}
	require.Equal(t, errOverloaded, rooms.enter(q1))
	require.NoError(t, rooms.enter(q2), "another queue has a room of its own")
	rooms.leave(q1)
	require.NoError(t, rooms.enter(q1))
}

func TestAPanicIsAnInternalError(t *testing.T) {
	// A server without an engine panics as soon as it looks for a queue.
	s := &server{o: Options{}.withDefaults()}
	h := httpapi.Wrap(s.router(), httpapi.Options{Panic: s.panicked})
	for accept, want := range map[string]string{
		"":                     `{"code":500,"code_text":"Internal Service Error","message":"Internal Error"}`,
		"application/protobuf": "\b\xf4\x03\x12\x16Internal Service Error\x1a\x0eInternal Error",
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/queues.info", strings.NewReader(`{"queue_name":"q"}`))
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()

		h.ServeHTTP(w, r)

		require.Equal(t, http.StatusInternalServerError, w.Code)
		require.Equal(t, want, w.Body.String())
	}
}
