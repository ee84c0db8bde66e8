package app

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// produce sends an empty produce with a key and returns the status.
func (s *running) produce(t *testing.T, key string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url("querator", "/v1/queue.stats"), strings.NewReader(`{"queueName":"q"}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

func TestQueratorAsksForKeys(t *testing.T) {
	open := start(t, everywhere(t.TempDir())...)
	assert.Equal(t, 400, open.produce(t, ""), "there is no queue, and nobody asked for a key")

	t.Setenv(EnvQueratorRootKey, "the-root-key-of-this-test")
	s := start(t, everywhere(t.TempDir(), "--querator-addr=0.0.0.0:0")...)
	assert.Equal(t, 401, s.produce(t, ""))
	assert.Equal(t, 401, s.produce(t, "another-key"))
	assert.Equal(t, 400, s.produce(t, "the-root-key-of-this-test"))
}

func TestQueratorAddressWithoutRootKey(t *testing.T) {
	for _, args := range [][]string{{"serve"}, {"serve", "--querator-require-key"}} {
		_, err := parsed(append(args, "--querator-addr=0.0.0.0:2319")...)
		require.ErrorContains(t, err, EnvQueratorRootKey, "whoever comes first could make the first key")
	}
	t.Setenv(EnvQueratorRootKey, "short")
	_, err := parsed("serve")
	require.ErrorContains(t, err, EnvQueratorRootKey)
}

func TestQueratorSettings(t *testing.T) {
	cfg, err := parsed("serve")
	require.NoError(t, err)
	assert.Equal(t, defaultQueratorConfig(), cfg.QueratorConfig)
	cfg, err = parsed("serve", "--querator-require-key", "--querator-max-lease-batch=7", "--querator-max-produce-bytes=2048")
	require.NoError(t, err)
	o := cfg.queratorOptions()
	assert.True(t, o.RequireKey)
	assert.Equal(t, 7, o.MaxLeaseBatch)
	assert.Equal(t, int64(2048), o.MaxProduceBytes)
	_, err = parsed("serve", "--querator-max-lease-batch=0")
	require.ErrorContains(t, err, "--querator-max-lease-batch: 0 is out of range")
}
