package queen

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

func mustConfigure(t *testing.T, body string) *configureBody {
	t.Helper()
	c, err := decodeConfigure([]byte(body))
	require.NoError(t, err, body)
	return c
}

func TestConfigureMergesAndReplaces(t *testing.T) {
	old := core.QueueOptions{Queen: core.ImplicitQueen(), Namespace: "n", Task: "t", MaxDeliveries: 7}
	first := mustConfigure(t, `{"queue":"q","namespace":null,"options":{"retryLimit":5}}`).apply(old, false)
	assert.EqualValues(t, 5, first.Queen.RetryLimit)
	assert.EqualValues(t, 300, first.Queen.LeaseTimeSeconds, "a configured queue has 300 s, also one that a push made")
	assert.Equal(t, "n", first.Namespace)

	second := mustConfigure(t, `{"queue":"q","task":"x","leaseTime":20,"options":{"deadLetterQueue":false}}`).apply(first, false)
	assert.EqualValues(t, 20, second.Queen.LeaseTimeSeconds)
	assert.EqualValues(t, 5, second.Queen.RetryLimit)
	assert.False(t, second.Queen.DeadLetterQueue)
	assert.Equal(t, "x", second.Task)
	assert.EqualValues(t, 7, second.MaxDeliveries, "what other protocols set stays")

	third := mustConfigure(t, `{"queue":"q","options":{"retryLimit":null,"deadLetterQueue":null}}`).apply(second, false)
	assert.EqualValues(t, 3, third.Queen.RetryLimit, "a null restores the default")
	assert.True(t, third.Queen.DeadLetterQueue)
	assert.EqualValues(t, 20, third.Queen.LeaseTimeSeconds)

	last := mustConfigure(t, `{"queue":"q","options":[]}`).apply(third, true)
	assert.Equal(t, configuredDefaults(), last.Queen)
	assert.Empty(t, last.Namespace)
	assert.EqualValues(t, 7, last.MaxDeliveries)
}

func TestConfigureClamps(t *testing.T) {
	got := mustConfigure(t, `{"queue":"q","options":{"minPopWaitTime":70000,"dedupWindowSeconds":-4,"leaseTime":-1}}`).apply(core.QueueOptions{}, false)
	assert.EqualValues(t, 60000, got.Queen.MinPopWaitMillis)
	assert.EqualValues(t, 0, got.Queen.DedupWindowSeconds)
	assert.EqualValues(t, -1, got.Queen.LeaseTimeSeconds, "stored as given")
}

func TestConfigureRefusals(t *testing.T) {
	for body, want := range map[string]string{
		``:                            "queue is required",
		`{}`:                          "queue is required",
		`[]`:                          "queue is required",
		`{"queue":null}`:              "queue is required",
		`{"queue":5}`:                 "queue must be a string",
		`{"queue":"a\u001f"}`:         "queue must not contain the byte 0x1F",
		`{"queue":"q","mode":"x"}`:    "mode must be one of: merge, replace",
		`{"queue":"q","namespace":1}`: "namespace must be a string",
		`{"queue":"q","options":{"leaseTime":"abc"}}`:                "leaseTime must be an integer",
		`{"queue":"q","options":{"leaseTime":1.5}}`:                  "leaseTime must be an integer",
		`{"queue":"q","options":{"retryLimit":1e400}}`:               "retryLimit must be an integer",
		`{"queue":"q","options":{"deadLetterQueue":1}}`:              "deadLetterQueue must be a boolean",
		`{"queue":"q","options":{"retentionSinkHold":false}}`:        "retentionSinkHold must be a string",
		`{"queue":"q","options":"x"}`:                                "expected an object at byte 23",
		`{"queue":"q","leaseTime":true}`:                             "leaseTime must be an integer",
		`{"queue":"q","options":{"leaseTime":92233720368547758080}}`: "leaseTime must be an integer",
	} {
		_, err := decodeConfigure([]byte(body))
		require.EqualError(t, err, want, body)
	}
	assert.Empty(t, *mustConfigure(t, `{"queue":""}`).Queue, "the empty name is legal")
}

func TestOptionsAreEchoedWithTheirTypes(t *testing.T) {
	// The body of the JavaScript test that compares each option with ===.
	sent := `{"completedRetentionSeconds":30,"deadLetterQueue":false,"delayedProcessing":1,"dlqAfterMaxRetries":true,
		"encryptionEnabled":true,"leaseTime":30,"maxSize":10,"maxWaitTimeSeconds":9,"priority":3,"retentionEnabled":true,
		"retentionSeconds":60,"retryDelay":5,"retryLimit":1,"ttl":100,"windowBuffer":2}`
	got := mustConfigure(t, `{"queue":"q","options":`+sent+`}`).apply(core.QueueOptions{}, false)
	var echo, want map[string]any
	require.NoError(t, json.Unmarshal(append(appendOptions([]byte{'{'}, &got.Queen), '}'), &echo))
	require.NoError(t, json.Unmarshal([]byte(sent), &want))
	assert.Len(t, echo, len(queueOptions))
	for key, value := range want {
		assert.Equal(t, value, echo[key], key)
	}
}

func FuzzDecodeConfigure(f *testing.F) {
	f.Add([]byte(`{"queue":"q","namespace":null,"mode":"merge","leaseTime":1,"options":{"leaseTime":null,"retentionSinkHold":"x"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := decodeConfigure(body)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		next := c.apply(core.QueueOptions{}, false)
		require.True(t, next.Queen.Configured)
		require.True(t, json.Valid(append(appendOptions([]byte{'{'}, &next.Queen), '}')))
	})
}
