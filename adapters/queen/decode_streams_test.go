package queen

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDecodeCycle(t *testing.T) {
	c, err := decodeCycle([]byte(`{"query_id":"q","partition_id":"p","consumer_group":null,"state_ops":[{"key":"k","value":{ "a":1 },"type":"upsert"},{"type":"delete","key":"","value":1}],
		"push_items":[{"queue":"o","data":[1],"messageId":"named"}],"ack":{"status":"ok","count":3,"transactionId":"t","leaseId":"l","more":{}},"release_lease":false,"x":[]}`))
	require.NoError(t, err)
	assert.Equal(t, &cycleBody{
		query: "q", partition: "p",
		ops:    []stateOp{{"k", []byte(`{ "a":1 }`)}, {"", nil}},
		pushes: []pushItem{{queue: "o", partition: "Default", messageID: "named", payload: []byte("[1]"), hasQueue: true}},
		ack:    &cycleAck{transactionID: "t", leaseID: "l", status: statusCompleted, count: 3},
	}, c)
	c, err = decodeCycle([]byte(`{"ack":[],"release_lease":null,"state_ops":[],"push_items":[]}`))
	require.NoError(t, err)
	assert.True(t, c.release)
	assert.Equal(t, &cycleAck{}, c.ack, "PHP's empty object; a status that is absent is completed")
	for body, want := range map[string]string{
		`{"release_lease":"no"}`:                   "release_lease must be a boolean",
		`{"ack":{"count":1.5}}`:                    "count must be an integer",
		`{"ack":5}`:                                "expected an object at byte 7",
		`{"state_ops":[{"type":"upsert"}]}`:        "state_ops[0]: key is required",
		`{"state_ops":[{"type":5,"key":"k"}]}`:     "state_ops[0]: type must be a string",
		`{"push_items":[{"queue":"a\u001fb"}]}`:    "items[0]: queue must not contain the byte 0x1F",
		`{"consumer_group":"\u001f"}`:              "consumer_group must not contain the byte 0x1F",
		`{"state_ops":[{"type":"delete","key":1}]`: "state_ops[0]: key must be a string",
	} {
		_, err := decodeCycle([]byte(body))
		assert.EqualError(t, err, want, body)
	}
}

func TestRipe(t *testing.T) {
	for value, want := range map[string]bool{
		`{"windowEnd":5}`: true, `{"windowEnd":5.5}`: false, `{"windowEnd":-1e9,"x":{}}`: true, `{"windowEnd":"5"}`: false, `{"windowEnd":null}`: false,
		`{"windowend":5}`: false, `{"WindowEnd":5}`: false, `{"x":{"windowEnd":5}}`: false, `[5]`: false, `5`: false, `null`: false, `{}`: false, `{"windowEnd":1e400}`: false,
	} {
		assert.Equal(t, want, ripe([]byte(value), 5), value)
	}
}

// FuzzDecodeStreams runs the decoders of the streams, trace and group routes: each returns or says what is wrong, and what it keeps raw is JSON.
func FuzzDecodeStreams(f *testing.F) {
	f.Add([]byte(`{"query_id":"q","partition_id":"p","state_ops":[{"type":"upsert","key":"k","value":[1,{}]}],"push_items":[{"queue":"o","data":1}],"ack":{"count":1},"release_lease":true}`))
	f.Add([]byte(`{"keys":["a",null],"key_prefix":"x","ripe_at_or_before":1e3}`))
	f.Add([]byte(`{"transactionId":"t","partitionId":"p","data":{"x":"\u0000"},"traceNames":["a","b"]}`))
	f.Add([]byte(`{"toEnd":true,"timestamp":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := decodeCycle(body)
		require.True(t, err == nil || err.Error() != "")
		if err == nil {
			for _, op := range c.ops {
				require.True(t, op.value == nil || json.Valid(op.value))
			}
		}
		tr, err := decodeTrace(body)
		require.True(t, err != nil || tr.data == nil || json.Valid(tr.data))
		_, err = decodeState(body)
		require.True(t, err == nil || err.Error() != "")
		_, err = decodeQuery(body)
		require.True(t, err == nil || err.Error() != "")
		_, err = decodeGroup(body, "timestamp")
		require.True(t, err == nil || err.Error() != "")
	})
}
