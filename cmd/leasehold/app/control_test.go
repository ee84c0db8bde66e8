package app

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestControlListenerForgetsWhatOutlivesQueues(t *testing.T) {
	s := start(t, everywhere(t.TempDir(), "--control-addr=127.0.0.1:0")...)
	const query = `{"name":"n","source_queue":"q","config_hash":"a"}`
	assert.Contains(t, must(t, s.url("queen", "/streams/v1/queries"), query), `"fresh":true`)
	assert.Contains(t, must(t, s.url("queen", "/streams/v1/queries"), query), `"fresh":false`)
	must(t, s.url("queen", "/api/v1/traces"), `{"partitionId":"00000000-0000-4000-8000-000000000001","transactionId":"t","traceNames":["seen"],"data":{"x":1}}`)
	assert.Contains(t, must(t, s.url("queen", "/api/v1/traces/names"), ""), `"seen"`)

	assert.JSONEq(t, `{"forgotten":true}`, must(t, s.url("control", "/forget"), "{}"))
	assert.NotContains(t, must(t, s.url("queen", "/api/v1/traces/names"), ""), `"seen"`)
	assert.Contains(t, must(t, s.url("queen", "/streams/v1/queries"), query), `"fresh":true`)
}
