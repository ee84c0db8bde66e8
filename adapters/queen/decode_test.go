package queen

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDecodePush(t *testing.T) {
	items, err := decodePush([]byte(`{"extra":[1,{}],"items":[
		{"queue":"q","payload": { "b":1.50, "a" : "<&>" } ,"producerSub":"me","traceId":null},
		{"payload":null,"queue":"q","partition":null,"transactionId":null},
		{"queue":"q\u0000\/\ud83d\ude00","partition":"p","transactionId":"t","traceId":"tr","payload":9007199254740993000,"data":1},
		{"queue":"","partition":"","traceId":7,"payload":[]}]}`))
	require.NoError(t, err)
	require.Len(t, items, 4)
	const spaced = `{ "b":1.50, "a" : "<&>" }`
	if got := string(items[0].payload); got != spaced {
		t.Errorf("the payload is %s", got)
	}
	assert.Equal(t, "Default", items[0].partition)
	assert.Equal(t, "null", string(items[1].payload))
	assert.Equal(t, "Default", items[1].partition)
	assert.Empty(t, items[1].transactionID)
	assert.Equal(t, "q\x00/😀", items[2].queue)
	assert.Equal(t, "t", items[2].transactionID)
	assert.Equal(t, "tr", items[2].traceID)
	assert.Equal(t, "9007199254740993000", string(items[2].payload))
	assert.Empty(t, items[3].queue)
	assert.Empty(t, items[3].traceID, "a trace id that is no string is ignored")

	items, err = decodePush([]byte(`{"items":[]}`))
	require.NoError(t, err)
	assert.Empty(t, items)
}

func TestDecodePushRefusals(t *testing.T) {
	long := strings.Repeat("x", maxTransactionID)
	_, err := decodePush([]byte(`{"items":[{"queue":"q","payload":1,"transactionId":"` + long + `"}]}`))
	require.NoError(t, err)
	for body, want := range map[string]string{
		``:                                       "items array is required",
		`null`:                                   "items array is required",
		`{}`:                                     "items array is required",
		`[]`:                                     "items array is required",
		`{"items":null}`:                         "items array is required",
		`{"items":{}}`:                           "items array is required",
		`{"Items":[]}`:                           "items array is required",
		`[1]`:                                    "expected an object, got an array at byte 0",
		`"text"`:                                 "expected an object at byte 0",
		`{bad`:                                   "expected a key at byte 1",
		`{"items":[`:                             "items[0]: unexpected end of body, expected an object",
		`{"items":[]} x`:                         "expected end of body at byte 13",
		`{"items":[1]}`:                          "items[0]: expected an object at byte 10",
		`{"items":[{}]}`:                         "items[0]: queue is required",
		`{"items":[[]]}`:                         "items[0]: queue is required",
		`{"items":[{"queue":null}]}`:             "items[0]: queue is required",
		`{"items":[{"queue":7}]}`:                "items[0]: queue must be a string",
		`{"items":[{"queue":"q"}]}`:              "items[0]: payload is required",
		`{"items":[{"queue":"q","data":1}]}`:     "items[0]: payload is required",
		`{"items":[{"queue":"q","payload":}]}`:   "items[0]: expected a value at byte 30",
		`{"items":[{"queue":"q","payload":01}]}`: "items[0]: expected ',' or '}' at byte 31",
		`{"items":[{"queue":"a\u001fb","payload":1}]}`:                                   "items[0]: queue must not contain the byte 0x1F",
		`{"items":[{"queue":"q","partition":"\u001f","payload":1}]}`:                     "items[0]: partition must not contain the byte 0x1F",
		`{"items":[{"queue":"q","transactionId":"\u001f","payload":1}]}`:                 "items[0]: transactionId must not contain the byte 0x1F",
		`{"items":[{"queue":"q","payload":1},{"queue":"q","partition":[],"payload":1}]}`: "items[1]: partition must be a string",
		`{"items":[{"queue":"q","transactionId":1.5,"payload":1}]}`:                      "items[0]: transactionId must be a string",
		`{"items":[{"queue":"\ud800","payload":1}]}`:                                     "items[0]: queue: half of a surrogate pair",
		"{\"items\":[{\"queue\":\"\xff\",\"payload\":1}]}":                               "invalid UTF-8",
		"{\"items\":[{\"queue\":\"q\",\"payload\":\"\xc3\"}]}":                           "invalid UTF-8",
		`{"items":[{"queue":"q","payload":1,"transactionId":"` + long + `x"}]}`:          "items[0]: transactionId must not be longer than 65535 bytes",
		`{"items":[{"queue":"q","payload":` + strings.Repeat("[", 20000)[:15000] + `}]}`: "items[0]: nested deeper than 10000",
		"{\"items\":[{\"queue\":\"q\",\"payload\":\"a\x01b\"}]}":                         "items[0]: expected an escaped control character at byte 33",
		`{"items":[{"queue":"q","payload":"\x"}]}`:                                       "items[0]: expected a valid escape at byte 31",
		`{"items":[{"queue":"q","payload":tru}]}`:                                        "items[0]: expected true at byte 30",
		`{"items":[{"queue":"q","payload":1e}]}`:                                         "items[0]: expected a digit at byte 32",
		`{"items":[{"queue":"q","payload":NaN}]}`:                                        "items[0]: expected a value at byte 30",
		`{"items":[{"queue":"q","payload":1,}]}`:                                         "items[0]: expected a key at byte 32",
		`{"items":[{"queue":"q","payload":1},]}`:                                         "items[1]: expected an object at byte 33",
		`{"items":[{"queue":"q","payload":{"a":1,"b"}}]}`:                                "items[0]: expected ':' at byte 40",
	} {
		_, err := decodePush([]byte(body))
		if assert.Error(t, err, body) {
			assert.Equal(t, want, fixBytes(want, err.Error()), body)
		}
	}
}

// fixBytes leaves the position out of the comparison: that there is one is
// enough.
func fixBytes(want, got string) string {
	w, _, ok := strings.Cut(want, " at byte ")
	g, position, at := strings.Cut(got, " at byte ")
	if ok && at && w == g && position != "" {
		return want
	}
	return got
}

func TestDecodeAck(t *testing.T) {
	a, err := decodeAck([]byte(`{"transactionId":"m-1","partitionId":"p","status":"completed","consumerGroup":"mailer","leaseId":"l","error":null}`))
	require.NoError(t, err)
	assert.Equal(t, ackItem{transactionID: "m-1", partitionID: "p", group: "mailer", leaseID: "l", hasTransaction: true, hasPartition: true}, a)

	a, err = decodeAck([]byte(`{"transactionId":"","partitionId":"p","status":null,"consumerGroup":null,"leaseId":null,"error":{"why":1}}`))
	require.NoError(t, err)
	assert.Equal(t, statusCompleted, a.status)
	assert.Empty(t, a.group)
	assert.Empty(t, a.leaseID)
	assert.Equal(t, `{"why":1}`, a.errorText)

	for body, want := range map[string]string{
		``:                       "transactionId is required",
		`[]`:                     "transactionId is required",
		`{"transactionId":null}`: "transactionId is required",
		`{"transactionId":"x"}`:  "partitionId is required to ensure message uniqueness",
		`{"transactionId":5}`:    "transactionId must be a string",
		`{"transactionId":"x","partitionId":"p","status":5}`:               "status must be a string",
		`{"transactionId":"x","partitionId":"p","leaseId":{}}`:             "leaseId must be a string",
		`{"transactionId":"x","partitionId":"p","consumerGroup":"\u001f"}`: "consumerGroup must not contain the byte 0x1F",
	} {
		_, err := decodeAck([]byte(body))
		require.EqualError(t, err, want, body)
	}
}

func TestAckStatusWords(t *testing.T) {
	for word, want := range map[string]ackStatus{
		"completed": statusCompleted, "success": statusCompleted, "acked": statusCompleted, "ok": statusCompleted,
		"retry": statusRetry, "dlq": statusDLQ, "failed": statusFailed, "": statusFailed, "Completed": statusFailed, "compleeted": statusFailed,
	} {
		got, _ := parseStatus(word)
		assert.Equal(t, want, got, word)
	}
}

func TestDecodeAckBatch(t *testing.T) {
	items, group, err := decodeAckBatch([]byte(`{"consumerGroup":"g","acknowledgments":[
		{"transactionId":"a","partitionId":"p","consumerGroup":"other","status":"failed","error":"bo\"om"},
		{"transactionId":"b","partitionId":"p"}]}`))
	require.NoError(t, err)
	assert.Equal(t, "g", group)
	require.Len(t, items, 2)
	assert.Empty(t, items[0].group, "the group inside an item is ignored")
	assert.Equal(t, `bo"om`, items[0].errorText)

	items, group, err = decodeAckBatch([]byte(`{"acknowledgments":[],"consumerGroup":null}`))
	require.NoError(t, err)
	assert.Empty(t, items)
	assert.Empty(t, group)

	for body, want := range map[string]string{
		``: "acknowledgments array is required", `[]`: "acknowledgments array is required",
		`{"acknowledgments":{}}`:                      "acknowledgments array is required",
		`{"acknowledgments":[{"transactionId":"x"}]}`: "acknowledgments[0]: partitionId is required to ensure message uniqueness",
		`{"acknowledgments":[[]]}`:                    "acknowledgments[0]: transactionId is required",
		`{"acknowledgments":[],"consumerGroup":1}`:    "consumerGroup must be a string",
	} {
		_, _, err := decodeAckBatch([]byte(body))
		require.EqualError(t, err, want, body)
	}
}

func TestDecodeTransaction(t *testing.T) {
	tx, err := decodeTransaction([]byte(`{"operations":[
		{"items":[{"queue":"a","data":{"n":1}},{"queue":"b","payload":null,"data":2}],"type":"push"},
		{"type":"push","queue":"c","partition":"x","payload":[1],"transactionId":"t"},
		{"type":"push","queue":"d"},
		{"type":"ack","transactionId":"m","partitionId":"p","status":"dlq","consumerGroup":"g","leaseId":"l","error":"e"}],
		"requiredLeases":["l1",null,"","l2"]}`))
	require.NoError(t, err)
	require.Len(t, tx.ops, 5)
	assert.Equal(t, `{"n":1}`, string(tx.ops[0].item.payload))
	assert.Equal(t, `null`, string(tx.ops[1].item.payload), "the payload goes before data, also as null")
	assert.Equal(t, "x", tx.ops[2].item.partition)
	assert.Equal(t, `{}`, string(tx.ops[3].item.payload))
	assert.False(t, tx.ops[4].push)
	assert.Equal(t, ackItem{transactionID: "m", partitionID: "p", status: statusDLQ, group: "g", leaseID: "l", errorText: "e", hasTransaction: true, hasPartition: true}, tx.ops[4].ack)
	assert.Equal(t, []string{"l1", "l2"}, tx.requiredLeases)

	for body, want := range map[string]string{
		``: "transaction requires an operations array", `{"operations":null}`: "transaction requires an operations array",
		`{"operations":{}}`:                             "transaction requires an operations array",
		`{"operations":[{"type":"bogus"}]}`:             "segments transaction supports only push and ack operations",
		`{"operations":[{}]}`:                           "segments transaction supports only push and ack operations",
		`{"operations":[{"type":"push"}]}`:              "bad body: operations[0]: queue is required",
		`{"operations":[{"type":"push","items":[{}]}]}`: "bad body: operations[0]: items[0]: queue is required",
		`{"operations":[{"type":"ack"}]}`:               "bad body: operations[0]: transactionId is required",
		`{"operations":[{"type":"push","queue":"a","payload":1},{"type":"ack","transactionId":"a"}]}`: "bad body: operations[1]: partitionId is required to ensure message uniqueness",
		`{"operations":[{"type":"push","queue":"\u001f"}]}`:                                           "bad body: operations[0]: queue must not contain the byte 0x1F",
		`{"operations":[{"type":"push","items":5}]}`:                                                  "bad body: operations[0]: expected an array at byte 39",
	} {
		_, err := decodeTransaction([]byte(body))
		var refusal *refusalError
		if assert.ErrorAs(t, err, &refusal, body) {
			assert.Equal(t, want, fixBytes(want, refusal.text), body)
		}
	}
	_, err = decodeTransaction([]byte(`{"operations":[1]}`))
	require.EqualError(t, err, "operations[0]: expected an object at byte 15")
}

func TestDecodeSeconds(t *testing.T) {
	for body, want := range map[string]int64{
		``: 60, `{}`: 60, `[]`: 60, `null`: 60, `nonsense`: 60, `{"seconds":null}`: 60, `{"seconds":"9"}`: 60, `{"seconds":1.5}`: 60,
		`{"seconds":120}`: 120, `{"seconds":0}`: 1, `{"seconds":-5}`: 1, `{"seconds":1e99}`: 60, `[1]`: 60, `{"seconds":5}x`: 60,
	} {
		assert.Equal(t, want, decodeSeconds([]byte(body)), body)
	}
}

func FuzzDecodePush(f *testing.F) {
	f.Add([]byte(`{"items":[{"queue":"q","partition":null,"payload":{"a":[1,"\u0000"]},"transactionId":"t"}]}`))
	f.Add([]byte(`{"items":[[],{"queue":"\ud800"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		items, err := decodePush(body)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.True(t, len(body) == 0 || json.Valid(body))
		for i := range items {
			require.True(t, json.Valid(items[i].payload))
			require.NoError(t, checkName("", items[i].queue))
			require.NoError(t, checkName("", items[i].partition))
			require.LessOrEqual(t, len(items[i].transactionID), maxTransactionID)
		}
	})
}

func FuzzDecodeAck(f *testing.F) {
	f.Add([]byte(`{"transactionId":"m-1","partitionId":"p","status":"ok","consumerGroup":null,"leaseId":"","error":"\ud800"}`))
	f.Add([]byte(`{"acknowledgments":[{"transactionId":"m-1","partitionId":"p","error":{}}],"consumerGroup":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if a, err := decodeAck(body); err == nil {
			require.True(t, json.Valid(appendString(nil, a.errorText)))
		}
		items, _, err := decodeAckBatch(body)
		if err != nil {
			return
		}
		require.True(t, json.Valid(body))
		for i := range items {
			require.True(t, items[i].hasPartition && items[i].hasTransaction)
		}
	})
}

func FuzzDecodeTransaction(f *testing.F) {
	f.Add([]byte(`{"operations":[{"type":"push","items":[{"queue":"a","data":1}]},{"type":"ack","transactionId":"t","partitionId":"p"}],"requiredLeases":[null,"l"]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		tx, err := decodeTransaction(body)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.True(t, json.Valid(body))
		for i := range tx.ops {
			require.True(t, !tx.ops[i].push || json.Valid(tx.ops[i].item.payload))
		}
	})
}

func FuzzDecodeSeconds(f *testing.F) {
	f.Add([]byte(`{"seconds":120}`))
	f.Fuzz(func(t *testing.T, body []byte) { require.GreaterOrEqual(t, decodeSeconds(body), int64(1)) })
}
