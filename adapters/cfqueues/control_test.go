package cfqueues

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func testControl(t *testing.T) *control {
	t.Helper()
	o := (Options{}).withDefaults()
	return newControl(&o)
}

func TestQueueBodies(t *testing.T) {
	c := testControl(t)
	q, err := c.decodeQueue([]byte(`{"queue_name":"jobs","jurisdiction":"eu","settings":{"delivery_delay":5e0,"message_retention_period":60,"delivery_paused":null}}`))
	require.Nil(t, err)
	assert.Equal(t, "jobs", *q.QueueName)
	assert.EqualValues(t, 5, *q.Settings.DeliveryDelay)
	assert.EqualValues(t, 60, *q.Settings.MessageRetentionPeriod)
	assert.Nil(t, q.Settings.DeliveryPaused)

	for _, name := range []string{"a", "0", "a-b", "023e105f4ecef8ad9ca31a8372d0c353", strings.Repeat("a", 63)} {
		_, err := c.decodeQueue([]byte(`{"queue_name":"` + name + `","settings":null}`))
		assert.Nil(t, err, name)
	}
	for in, code := range map[string]int{
		`{"queue_name":"a","settings":{"json_body_encoding":"hex"}}`: 100128,
		`{"queue_name":"a","settings":{"json_body_encoding":1}}`:     10207,
		`{"queue_name":1}`:                 10207,
		`[]`:                               10207,
		``:                                 10208,
		`{"queue_name":"a","settings":[]}`: 10207,
		`{"queue_name":"a","settings":{"delivery_delay":"1"}}`:               10207,
		`{"queue_name":"a","settings":{"delivery_delay":1.5}}`:               10207,
		`{"queue_name":"a","settings":{"delivery_paused":1}}`:                10207,
		`{"queue_name":"a","settings":{"delivery_delay":-1}}`:                100128,
		`{"queue_name":"a","settings":{"delivery_delay":86401}}`:             100128,
		`{"queue_name":"a","settings":{"message_retention_period":59}}`:      100128,
		`{"queue_name":"a","settings":{"message_retention_period":1209601}}`: 100128,
		`{"queue_name":"a","settings":{"message_retention_period":1e300}}`:   100128,
	} {
		_, err := c.decodeQueue([]byte(in))
		require.NotNil(t, err, in)
		assert.Equal(t, code, err.code, in)
		assert.Equal(t, 400, err.status, in)
	}
	_, err = c.decodeQueue([]byte(`{"queue_name":"a","settings":{"delivery_delay":86401}}`))
	require.NotNil(t, err)
	assert.Equal(t, "Invalid queue settings: delivery_delay must be between 0 and 86400, received 86401", err.message)
}

func TestConsumerBodies(t *testing.T) {
	c := testControl(t)
	b, err := c.decodeConsumer([]byte(`{"type":"http_pull","dead_letter_queue":"dlq","settings":{"batch_size":50,"max_retries":0,"retry_delay":10,"visibility_timeout_ms":0}}`))
	require.Nil(t, err)
	assert.Equal(t, "dlq", *b.DeadLetterQueue)
	assert.EqualValues(t, 50, *b.Settings.BatchSize)
	assert.EqualValues(t, 0, *b.Settings.MaxRetries)
	assert.EqualValues(t, 10, *b.Settings.RetryDelay)
	assert.EqualValues(t, 0, *b.Settings.VisibilityTimeoutMS)
	for _, in := range []string{
		`{"type":"http_pull"}`, `{"type":"http_pull","settings":null,"dead_letter_queue":null}`, `{"type":"http_pull","dead_letter_queue":""}`,
	} {
		b, err := c.decodeConsumer([]byte(in))
		require.Nil(t, err, in)
		assert.Nil(t, b.DeadLetterQueue, in)
	}
	for in, code := range map[string]int{
		`{}`: 10026, `{"type":null}`: 10026, `{"type":"x"}`: 10026, `{"type":"worker","script_name":"w"}`: 100127, `{"type":1}`: 10207,
		`{"type":"http_pull","settings":{"batch_size":0}}`:                   100127,
		`{"type":"http_pull","settings":{"batch_size":101}}`:                 100127,
		`{"type":"http_pull","settings":{"max_retries":101}}`:                100127,
		`{"type":"http_pull","settings":{"max_retries":-1}}`:                 100127,
		`{"type":"http_pull","settings":{"retry_delay":86401}}`:              100127,
		`{"type":"http_pull","settings":{"visibility_timeout_ms":43200001}}`: 100127,
		`{"type":"http_pull","settings":{"visibility_timeout_ms":"1"}}`:      10207,
		`{"type":"http_pull","settings":7}`:                                  10207,
		`{"type":"http_pull"`:                                                10208,
	} {
		_, err := c.decodeConsumer([]byte(in))
		require.NotNil(t, err, in)
		assert.Equal(t, code, err.code, in)
		assert.Equal(t, 400, err.status, in)
	}
}
