package cfqueues

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPushKeepsTheBytesOfAJSONBody(t *testing.T) {
	o := (Options{}).withDefaults()
	for _, body := range []string{
		`{ "b":1.50, "a" : "<&>" }`,
		"{\n\t\"x\" :\r\n [ 1 , 2 ] }",
		`12345678901234567890.000001e+05`,
		`{"a":1,"a":2,"a":1}`,
		`"caf\u00e9 \ud83d\ude00 \/"`,
		`[]`, `{}`, `""`, `null`, `true`, `-0`, `[{"}":"]\"{"}]`,
		"\"line\u2028separator é\"",
		`"\ud800"`,
	} {
		for _, frame := range []string{`{"body":%}`, "{ \"body\" : % ,\"content_type\":\"json\"}", "\n{\"x\":[{}],\"body\"\t:\r\n%\n}\n"} {
			m, err := decodePush([]byte(strings.Replace(frame, "%", body, 1)), &o)
			require.Nil(t, err, "%s in %s", body, frame)
			assert.Equal(t, body, string(m.payload))
			assert.Equal(t, "json", m.contentType)
		}
	}
}

func TestPushDecodesTextAndBytes(t *testing.T) {
	o := (Options{}).withDefaults()
	for in, want := range map[string]string{
		`{"content_type":"text","body":"hello"}`:                       "hello",
		`{"body":"","content_type":"text"}`:                            "",
		`{"body":"a\u0000\n\"\\\/\ud83d\ude00","content_type":"text"}`: "a\x00\n\"\\/😀",
		`{"body":"AAEC/w==","content_type":"bytes"}`:                   "\x00\x01\x02\xff",
		`{"body":"","content_type":"bytes"}`:                           "",
		`{"bo\u0064y":"x","content_type":"text"}`:                      "x",
		`{"body":1,"body":"last wins","content_type":"text"}`:          "last wins",
		`{"body":"x","content_type":null,"content_type":"text"}`:       "x",
		`{"Body":1,"BODY":2,"body":"x","content_type":"text"}`:         "x",
	} {
		m, err := decodePush([]byte(in), &o)
		require.Nil(t, err, in)
		assert.Equal(t, want, string(m.payload), in)
	}
}

func TestPushRefusesBadBodies(t *testing.T) {
	o := (Options{}).withDefaults()
	for in, want := range map[string]string{
		``:                                    "10208: The request body is not valid JSON",
		`{"body":1`:                           "10208: The request body is not valid JSON",
		`{"body":1}x`:                         "10208: The request body is not valid JSON",
		`{"body":01}`:                         "10208: The request body is not valid JSON",
		"{\"body\":\"\x01\"}":                 "10208: The request body is not valid JSON",
		"{\"body\":\"\xff\"}":                 "10208: The request body is not valid UTF-8",
		"{\"body\":\"\xed\xa0\x80\"}":         "10208: The request body is not valid UTF-8",
		strings.Repeat("[", 100_000):          "10208: The request body is not valid JSON",
		`{}`:                                  `10207: Required at "body"`,
		`{"Body":1}`:                          `10207: Required at "body"`,
		`[]`:                                  `10207: Expected object, received array`,
		`"x"`:                                 `10207: Expected object, received string`,
		`null`:                                `10207: Expected object, received null`,
		`{"body":{},"content_type":"text"}`:   `10207: Expected string, received object at "body"`,
		`{"body":null,"content_type":"text"}`: `10207: Expected string, received null at "body"`,
		`{"body":"\ud800","content_type":"text"}`:         `10207: Invalid unicode escape at "body"`,
		`{"body":"\udc00\ud800","content_type":"text"}`:   `10207: Invalid unicode escape at "body"`,
		`{"body":"\ud83dx","content_type":"text"}`:        `10207: Invalid unicode escape at "body"`,
		`{"body":"\ud83d\ud83d","content_type":"text"}`:   `10207: Invalid unicode escape at "body"`,
		`{"body":1,"content_type":"bytes"}`:               `10207: Expected string, received number at "body"`,
		`{"body":"a","content_type":"bytes"}`:             `10207: Invalid base64 at "body"`,
		`{"body":"_w==","content_type":"bytes"}`:          `10207: Invalid base64 at "body"`,
		`{"body":1,"content_type":7}`:                     `10207: Expected string, received number at "content_type"`,
		`{"body":1,"content_type":"v8"}`:                  `10203: Content type "v8" cannot be produced over HTTP at "content_type"`,
		`{"body":1,"content_type":"JSON"}`:                `10203: Invalid content type, expected "text", "json" or "bytes" at "content_type"`,
		`{"body":1,"delay_seconds":"1"}`:                  `10207: Expected number, received string at "delay_seconds"`,
		`{"body":1,"delay_seconds":1.5}`:                  `10207: Expected integer, received float at "delay_seconds"`,
		`{"body":1,"delay_seconds":-1}`:                   `10203: Number must be greater than or equal to 0 at "delay_seconds"`,
		`{"body":1,"delay_seconds":86401}`:                `10203: Number must be less than or equal to 86400 at "delay_seconds"`,
		`{"body":1,"delay_seconds":99999999999999999999}`: `10203: Number must be less than or equal to 86400 at "delay_seconds"`,
		`{"body":1,"delay_seconds":-1e999}`:               `10203: Number must be greater than or equal to 0 at "delay_seconds"`,
	} {
		_, err := decodePush([]byte(in), &o)
		require.NotNil(t, err, in)
		assert.Equal(t, want, err.Error(), in)
		assert.Equal(t, 400, err.status, in)
		assert.False(t, err.shouldRetry())
	}
}

func TestStrictJSONPushWantsAnObjectOrArray(t *testing.T) {
	o := (Options{StrictJSONPush: true}).withDefaults()
	_, err := decodePush([]byte(`{"body":"x"}`), &o)
	require.NotNil(t, err)
	assert.Equal(t, `10207: Expected object, received string at "body"`, err.Error())
	for _, in := range []string{`{"body":{}}`, `{"body":[1]}`, `{"body":"x","content_type":"text"}`} {
		_, err = decodePush([]byte(in), &o)
		assert.Nil(t, err, in)
	}
}

func TestIntegersInEveryNotation(t *testing.T) {
	for in, want := range map[string]int64{
		"50": 50, "50.0": 50, "5e1": 50, "0.5E+2": 50, "500e-1": 50, "-0": 0, "-0.0": 0, "1e400": math.MaxInt64,
		"-1e400": math.MinInt64, "9223372036854775808": math.MaxInt64, "1e-400": 0,
	} {
		got, err := rawValue(in).integer(root)
		require.Nil(t, err, in)
		assert.Equal(t, want, got, in)
	}
	for _, in := range []string{"0.5", "1e-1", "50.25"} {
		_, err := rawValue(in).integer(root.in("n"))
		require.NotNil(t, err, in)
		assert.Equal(t, `10207: Expected integer, received float at "n"`, err.Error())
	}
}

func TestMessageSizeIsThatOfTheContent(t *testing.T) {
	o := (Options{Limits: Limits{MaxMessageBytes: 4}}).withDefaults()
	for _, in := range []string{
		`{"body":"\u0061\u0061\u0061\u0061","content_type":"text"}`, `{"body":"AAAAAA==","content_type":"bytes"}`, `{"body":"aa"}`,
	} {
		_, err := decodePush([]byte(in), &o)
		assert.Nil(t, err, in)
	}
	for _, in := range []string{
		`{"body":"aaaaa","content_type":"text"}`, `{"body":"AAAAAAA=","content_type":"bytes"}`, `{"body":"aaa"}`,
	} {
		_, err := decodePush([]byte(in), &o)
		require.NotNil(t, err, in)
		assert.Equal(t, "10204: message length of 5 bytes exceeds limit of 4", err.Error())
		assert.Equal(t, 413, err.status)
	}
}

func TestBatchChecksEverythingBeforeAnythingIsStored(t *testing.T) {
	o := (Options{}).withDefaults()
	many := func(n int) string {
		return `{"messages":[` + strings.TrimSuffix(strings.Repeat(`{"body":1},`, n), ",") + `]}`
	}
	big := `{"body":"` + strings.Repeat("x", 127_998) + `"}`
	for in, want := range map[string]string{
		`{}`:                           `10206: A batch needs at least one message at "messages"`,
		`{"messages":[]}`:              `10206: A batch needs at least one message at "messages"`,
		`{"messages":null}`:            `10206: A batch needs at least one message at "messages"`,
		`{"messages":{}}`:              `10207: Expected array, received object at "messages"`,
		`{"messages":[1]}`:             `10207: Expected object, received number at "messages[0]"`,
		`{"messages":[{"body":1},{}]}`: `10207: Required at "messages[1].body"`,
		`{"messages":[{"body":1},{"body":1,"delay_seconds":-1}]}`: `10203: Number must be greater than or equal to 0 at "messages[1].delay_seconds"`,
		`{"messages":[{"body":{"a":1},"content_type":"text"}]}`:   `10207: Expected string, received object at "messages[0].body"`,
		`{"delay_seconds":86401,"messages":[{"body":1}]}`:         `10202: Number must be less than or equal to 86400 at "delay_seconds"`,
		many(101): `10206: batch message count exceeds limit of 100`,
		`{"messages":[` + big + `,` + big + `,{"body":1}]}`: `10205: batch size exceeds limit of 256000 bytes`,
	} {
		_, err := decodeBatch([]byte(in), &o)
		require.NotNil(t, err, in[:min(len(in), 80)])
		assert.Equal(t, want, err.Error())
	}
	b, err := decodeBatch([]byte(many(100)), &o)
	require.Nil(t, err)
	assert.Len(t, b.messages, 100)
	_, err = decodeBatch([]byte(`{"messages":[`+big+`,`+big+`]}`), &o)
	assert.Nil(t, err, "exactly the limit is allowed")
}

func TestPullBounds(t *testing.T) {
	o := (Options{}).withDefaults()
	for in, want := range map[string]string{
		`{"batch_size":0}`:                   `10207: Number must be greater than or equal to 1 at "batch_size"`,
		`{"batch_size":101}`:                 `10207: Number must be less than or equal to 100 at "batch_size"`,
		`{"batch_size":"5"}`:                 `10207: Expected number, received string at "batch_size"`,
		`{"visibility_timeout_ms":-1}`:       `10207: Number must be greater than or equal to 0 at "visibility_timeout_ms"`,
		`{"visibility_timeout_ms":43200001}`: `10207: Number must be less than or equal to 43200000 at "visibility_timeout_ms"`,
		`{"visibility_timeout":43200001}`:    `10207: Number must be less than or equal to 43200000 at "visibility_timeout"`,
		`{"visibility_timeout_ms":true}`:     `10207: Expected number, received boolean at "visibility_timeout_ms"`,
		`[]`:                                 `10207: Expected object, received array`,
		`{`:                                  `10208: The request body is not valid JSON`,
	} {
		_, err := decodePull([]byte(in), &o)
		require.NotNil(t, err, in)
		assert.Equal(t, want, err.Error())
	}
	for in, want := range map[string][2]int64{ // batch size, timeout in ms; -1 is unset
		``: {-1, -1}, `{}`: {-1, -1}, `{"x":{}}`: {-1, -1}, `{"batch_size":null,"visibility_timeout_ms":null,"visibility_timeout":null}`: {-1, -1},
		`{"batch_size":50.0,"visibility_timeout_ms":6e3}`:       {50, 6000},
		`{"visibility_timeout":7000}`:                           {-1, 7000},
		`{"visibility_timeout":7000,"visibility_timeout_ms":1}`: {-1, 1},
		`{"visibility_timeout_ms":0,"Batch_Size":7}`:            {-1, 0},
	} {
		p, err := decodePull([]byte(in), &o)
		require.Nil(t, err, in)
		got := [2]int64{-1, -1}
		if p.batchSize != nil {
			got[0] = *p.batchSize
		}
		if p.visibility != nil {
			got[1] = p.visibility.Milliseconds()
		}
		assert.Equal(t, want, got, in)
		assert.Equal(t, strings.Contains(in, `visibility_timeout":7`), p.usedAlias, in)
	}
}

func TestAckShapes(t *testing.T) {
	o := (Options{}).withDefaults()
	for in, want := range map[string]string{
		`{"acks":{}}`:   `10207: Expected array, received object at "acks"`,
		`{"acks":[{}]}`: `10207: Required at "acks[0].lease_id"`,
		`{"acks":[{"lease_id":"a"},{"lease_id":1}]}`: `10207: Expected string, received number at "acks[1].lease_id"`,
		`{"acks":["a"]}`: `10207: Expected object, received string at "acks[0]"`,
		`{"retries":[{"lease_id":"a","delay_seconds":86401}]}`: `10203: Number must be less than or equal to 86400 at "retries[0].delay_seconds"`,
		`{"retries":[{"lease_id":"a","delay_seconds":[]}]}`:    `10207: Expected number, received array at "retries[0].delay_seconds"`,
		`{"retries":[{"lease_id":null}]}`:                      `10207: Expected string, received null at "retries[0].lease_id"`,
	} {
		_, err := decodeAck([]byte(in), &o)
		require.NotNil(t, err, in)
		assert.Equal(t, want, err.Error())
	}
	a, err := decodeAck([]byte(`{"retries":[{"lease_id":"r","delay_seconds":0},{"delay_seconds":null,"lease_id":"s"}],"acks":[{"lease_id":"x"}],"acks":[{"lease_id":"y","delay_seconds":"ignored here"}]}`), &o)
	require.Nil(t, err)
	assert.Equal(t, []string{"y"}, a.acks)
	require.Len(t, a.retries, 2)
	require.NotNil(t, a.retries[0].delay)
	assert.Zero(t, *a.retries[0].delay)
	assert.Nil(t, a.retries[1].delay)
	for _, in := range []string{"", "{}", `{"acks":null,"retries":[]}`} {
		a, err = decodeAck([]byte(in), &o)
		require.Nil(t, err, in)
		assert.Empty(t, a.acks)
		assert.Empty(t, a.retries)
	}
}

func TestPurgeWantsTheConfirmation(t *testing.T) {
	assert.Nil(t, decodePurge([]byte(`{"delete_messages_permanently":true}`), false))
	for in, want := range map[string]string{
		``:                                       `10207: Invalid literal value, expected true at "delete_messages_permanently"`,
		`{}`:                                     `10207: Invalid literal value, expected true at "delete_messages_permanently"`,
		`{"delete_messages_permanently":false}`:  `10207: Invalid literal value, expected true at "delete_messages_permanently"`,
		`{"delete_messages_permanently":null}`:   `10207: Invalid literal value, expected true at "delete_messages_permanently"`,
		`{"delete_messages_permanently":"true"}`: `10207: Expected boolean, received string at "delete_messages_permanently"`,
		`true`:                                   `10207: Expected object, received boolean`,
	} {
		err := decodePurge([]byte(in), false)
		require.NotNil(t, err, in)
		assert.Equal(t, want, err.Error())
	}
}

// FuzzValues compares the scanner with the standard decoder: members and elements are
// found with the same names and the same text, and no input makes it panic.
func FuzzValues(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":"]}"}],"c" : null }`, `[ "\\\"" , -1e5,[],{}]`, ` "x" `, `{"\u0061":"\ud83d\ude00"}`, `[`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := checkJSON(body)
		if err != nil {
			return
		}
		switch v.kind() {
		case "object":
			var want map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(body, &want))
			got := map[string]string{}
			if v.eachMember(root, func(name string, value rawValue) *apiError { got[name] = string(value); return nil }) != nil {
				return // a name with half a surrogate pair
			}
			require.Len(t, got, len(want))
			for name, raw := range want {
				require.Equal(t, string(raw), got[name])
			}
		case "array":
			var want []json.RawMessage
			require.NoError(t, json.Unmarshal(body, &want))
			n := 0
			_ = v.eachElement(root, func(i int, value rawValue) *apiError {
				require.Equal(t, string(want[i]), string(value))
				n++
				return nil
			})
			require.Len(t, want, n)
		case "string":
			var want string
			require.NoError(t, json.Unmarshal(body, &want))
			if got, err := v.text(root); err == nil {
				require.Equal(t, want, got)
			} else {
				require.Contains(t, want, "\uFFFD")
			}
		}
	})
}

// FuzzBodies feeds every body decoder: none may panic, each failure must be one of
// this protocol's own, and an accepted json payload must be part of the input.
func FuzzBodies(f *testing.F) {
	for _, s := range []string{
		`{"body":{ "b":1.50 },"content_type":"json","delay_seconds":5}`, `{"messages":[{"body":"x","content_type":"text"}],"delay_seconds":0}`,
		`{"batch_size":50,"visibility_timeout_ms":6000}`, `{"acks":[{"lease_id":"L1"}],"retries":[{"delay_seconds":10,"lease_id":"L2"}]}`,
		`{"delete_messages_permanently":true}`, `{"queue_name":"jobs","settings":{"delivery_delay":5}}`,
		`{"type":"http_pull","dead_letter_queue":"dlq","settings":{"batch_size":50}}`, ``, `{`, `null`,
		`{"extend":[{"lease_id":"L1"}],"visibility_timeout":6000}`, `{"refs":[{"ref":"R1"}]}`, `{"batch_size":5,"wait_ms":1000}`,
		`{"name":"s","enabled":true,"events":["a"],"source":{"type":"r2"},"destination":{"type":"queues.queue","queue_id":"x"}}`,
		`{"retries":[{"lease_id":"L2","keep_attempts":true}]}`, `{"type":"worker","script_name":"s","settings":{"max_concurrency":1,"max_wait_time_ms":null}}`,
	} {
		f.Add([]byte(s))
	}
	o := (Options{}).withDefaults()
	ctl := newControl(&o)
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := decodePush(body, &o)
		own(t, err)
		if err == nil && m.contentType == contentJSON {
			require.Contains(t, string(body), string(m.payload))
			require.True(t, json.Valid(m.payload))
		}
		b, err := decodeBatch(body, &o)
		own(t, err)
		require.LessOrEqual(t, len(b.messages), 100)
		_, err = decodePull(body, &o)
		own(t, err)
		_, err = decodeAck(body, &o)
		own(t, err)
		own(t, decodePurge(body, false))
		_, err = ctl.decodeQueue(body)
		own(t, err)
		_, err = ctl.decodeConsumer(body)
		own(t, err)
		_, err = decodePeek(body, &o)
		own(t, err)
		_, err = decodeRefs(body)
		own(t, err)
		_, err = decodeExtend(body, &o)
		own(t, err)
		sub, err := decodeSubscription(body)
		own(t, err)
		require.True(t, sub.Source == nil || json.Valid(sub.Source))
	})
}

// own checks that a failure is a client's error with one of this protocol's codes.
func own(t *testing.T, err *apiError) {
	t.Helper()
	if err == nil {
		return
	}
	require.GreaterOrEqual(t, err.status, 400)
	require.Less(t, err.status, 500)
	require.Contains(t, []int{10026, 10202, 10203, 10204, 10205, 10206, 10207, 10208, 11003, 100127, 100128}, err.code)
	require.NotEmpty(t, err.message)
}
