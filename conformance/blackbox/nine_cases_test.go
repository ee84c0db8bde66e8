package blackbox

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// payload is one thing that is pushed, with what a reader of each protocol has to see.
type payload struct {
	name string
	push func(ctx context.Context, c *Clients, queue string) error
	// raw is the message's content, the bytes that every protocol must hand on unchanged.
	raw string
	// content is its content type: json, text or bytes.
	content string
	// item is what a Querator reader sees beside the bytes.
	item QueratorItem
}

// jsonTexts are payloads that are not byte for byte the same after a decoder and an encoder.
func jsonTexts(large int) map[string]string {
	return map[string]string{
		"odd spelling":   `{ "b":1.50, "a" : "<&>" }`,
		"beyond 2^53":    `{"n":9007199254740993,"m":-123456789012345678901234567890,"e":1E400,"z":-0.0}`,
		"duplicate keys": `{"a":1,"a":2,"a":{"a":3,"a":4}}`,
		"escapes":        `"\u0000 \u003c\/ \ud83d\ude00 \u00e9 é"`,
		"lone surrogate": `["\ud800",{"\udfff":0}]`,
		"NUL":            `{"\u0000":"a\u0000b"}`,
		"spaces":         " [ 1 ,\t2\r\n, 3 ] ",
		"deep":           strings.Repeat("[", 500) + strings.Repeat("]", 500),
		"null":           `null`,
		"empty string":   `""`,
		"empty object":   `{}`,
		"number":         `1e0`,
		"large":          `{"pad":"` + strings.Repeat(`<\u0041é>`, large/11) + `"}`,
	}
}

// rawBytes are payloads for protocols that carry bytes.
func rawBytes(large int) map[string][]byte {
	return map[string][]byte{
		"empty":         {},
		"NUL bytes":     []byte("\x00a\x00\x00b\x00"),
		"invalid UTF-8": []byte("\xff\xfe\xc3\x28\xed\xa0\x80"),
		"all bytes":     allBytes(),
		"like JSON":     []byte(`{ "b":1.50, "a" : "<&>" }`),
		"large":         noise(large),
	}
}

// textValues are payloads for protocols that carry text.
func textValues(large int) map[string]string {
	return map[string]string{
		"empty":     "",
		"plain":     "hello <&> \"world\" \\ / é 😀 \u2028",
		"NUL bytes": "a\x00b\x00",
		"controls":  "\x01\x1f\x7f\t\r\n",
		"like JSON": `{ "b":1.50, "a" : "<&>" }`,
		"large":     strings.Repeat("<é>\x00", large/5),
	}
}

func allBytes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// noise is n bytes in which nothing repeats.
func noise(n int) []byte {
	var b []byte
	for i := 0; len(b) < n; i++ {
		h := sha256.Sum256(fmt.Append(nil, i))
		b = append(b, h[:]...)
	}
	return b[:n]
}

// queenPayloads are pushed through Queen.
func queenPayloads(large int) (out []payload) {
	for name, body := range jsonTexts(large) {
		out = append(out, payload{
			name: name, raw: strings.TrimSpace(body), content: "json", item: QueratorItem{Encoding: "json"},
			push: func(ctx context.Context, c *Clients, queue string) error {
				return c.Queen.Push(ctx, QueenItem{Queue: queue, Payload: body})
			},
		})
	}
	return out
}

// queratorPayloads are produced through Querator: as bytes, as bytes that say they are JSON, and
// as text.
func queratorPayloads(large int) (out []payload) {
	add := func(name, raw, content string, item QueratorItem) {
		seen := item
		seen.Bytes, seen.UTF8 = nil, ""
		out = append(out, payload{
			name: name, raw: raw, content: content, item: seen,
			push: func(ctx context.Context, c *Clients, queue string) error {
				return c.Querator.Produce(ctx, queue, item)
			},
		})
	}
	for name, b := range rawBytes(large) {
		add("bytes, "+name, string(b), "bytes", QueratorItem{Kind: "k", Reference: "r-1", Bytes: b})
		add("bytes of an encoding, "+name, string(b), "bytes", QueratorItem{Encoding: "application/x-own", Bytes: b})
	}
	for name, body := range jsonTexts(large) {
		add("json, "+name, body, "json", QueratorItem{Encoding: "json", Reference: "r-2", Bytes: []byte(body)})
	}
	add("json that does not parse", `{"a":`, "bytes", QueratorItem{Encoding: "json", Bytes: []byte(`{"a":`)})
	for name, s := range textValues(large) {
		content := "text"
		if s == "" {
			content = "bytes" // the protocol cannot tell an empty text from no payload
		}
		add("text, "+name, s, content, QueratorItem{Kind: "k", UTF8: s})
	}
	return out
}

// cfPayloads are pushed through Cloudflare Queues in its three content types.
func cfPayloads(large int) (out []payload) {
	add := func(name, raw, content, body string) {
		out = append(out, payload{
			name: content + ", " + name, raw: raw, content: content, item: QueratorItem{Encoding: content},
			push: func(ctx context.Context, c *Clients, queue string) error {
				return c.Cf.Push(ctx, queue, CfMessage{Body: body, ContentType: content})
			},
		})
	}
	for name, body := range jsonTexts(large) {
		add(name, strings.TrimSpace(body), "json", body)
	}
	for name, s := range textValues(large) {
		add(name, s, "text", text(s))
	}
	for name, b := range rawBytes(large) {
		add(name, string(b), "bytes", text(base64.StdEncoding.EncodeToString(b)))
	}
	return out
}

// queenData is what stands in a pop's data for a content.
func (p payload) queenData() (exact string, decoded string) {
	switch p.content {
	case "json":
		return strings.TrimSpace(p.raw), ""
	case "text":
		return "", p.raw
	default:
		return `"` + base64.StdEncoding.EncodeToString([]byte(p.raw)) + `"`, ""
	}
}

// cfBody is what stands in a pull's body for a content.
func (p payload) cfBody() string {
	if p.content == "text" {
		return p.raw
	}
	return base64.StdEncoding.EncodeToString([]byte(p.raw))
}

// decodeString decodes a JSON string.
func decodeString(raw json.RawMessage) (string, error) {
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}
