package app

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// plaintext stands in every payload that must not be found, whole or as base64 in any of its three alignments.
const plaintext = "4111-1111-secret-card"

// searched counts the files below dir and lists those that hold the plaintext.
func searched(t *testing.T, dir string) (files int, with []string) {
	t.Helper()
	needles := append(make([][]byte, 0, 4), []byte(plaintext))
	for pad := range 3 {
		enc := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", pad) + plaintext))
		needles = append(needles, []byte(enc[4:len(enc)-4]))
	}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path) //nolint:gosec // the test's own folder
		files++
		for _, n := range needles {
			if bytes.Contains(raw, n) {
				with = append(with, path)
			}
		}
		return err
	}))
	return files, with
}

// post sends a JSON body to a listener and returns the answer's body, which must be a success.
func (c *child) post(t *testing.T, listener, path, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+c.addrs[listener]+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Less(t, response.StatusCode, 300, "%s: %s", path, text)
	return string(text)
}

// queueID finds a queue's id in Queen's list.
func (c *child) queueID(t *testing.T, name string) string {
	t.Helper()
	_, text := c.get(t, http.MethodGet, "/api/v1/resources/queues/"+name, "", "")
	var q struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(text), &q))
	return strings.ReplaceAll(q.ID, "-", "")
}

// TestEncryptedQueuesOverThreeProtocols writes an encrypted queue through every protocol, kills the server, searches the data folder, and reads the
// queue through every protocol afterwards, under a new key beside the old one.
func TestEncryptedQueuesOverThreeProtocols(t *testing.T) {
	dir := t.TempDir()
	key, fresh := strings.Repeat("0a", 32), strings.Repeat("0b", 32)
	c := spawn(t, dir, []string{"QUEEN_ENCRYPTION_KEY=" + key}, everywhere(dir)...)
	status, text := c.get(t, http.MethodPost, "/api/v1/configure", "", `{"queue":"cards","options":{"encryptionEnabled":true}}`)
	require.Equal(t, 200, status, text)
	status, text = c.get(t, http.MethodPost, "/api/v1/push", "", `{"items":[{"queue":"cards","payload":{"card":"`+plaintext+`"}}]}`)
	require.Equal(t, 201, status, text)
	id := c.queueID(t, "cards")
	c.post(t, "cfqueues", "/accounts/a/queues/"+id+"/messages", `{"body":"`+plaintext+`","content_type":"text"}`)
	c.post(t, "cfqueues", "/accounts/a/queues/"+id+"/messages", `{"body":"`+plaintext+`","content_type":"text","delay_seconds":3600}`)
	encoded := base64.StdEncoding.EncodeToString([]byte(plaintext))
	c.post(t, "querator", "/v1/queue.produce", `{"queueName":"cards","requestTimeout":"5s","items":[{"bytes":"`+encoded+`"}]}`)
	files, with := searched(t, dir)
	assert.Positive(t, files)
	assert.Empty(t, with, "while it runs")
	require.NoError(t, c.cmd.Process.Kill())
	_ = c.wait()
	_, with = searched(t, dir)
	assert.Empty(t, with, "after a kill")

	c = spawn(t, dir, []string{EnvEncryptionKey + "=" + fresh, EnvEncryptionOldKeys + "=" + key, "QUEEN_ENCRYPTION_KEY=" + key}, everywhere(dir)...)
	assert.NotContains(t, c.logged(), "QUEEN_ENCRYPTION_KEY", "it has no effect beside our own name")
	_, text = c.get(t, http.MethodGet, "/api/v1/pop/queue/cards?consumerGroup=g&batch=9", "", "")
	assert.Equal(t, 2, strings.Count(text, plaintext), text)
	assert.Contains(t, text, encoded, "what Querator calls bytes is base64 to Queen")
	c.post(t, "cfqueues", "/accounts/a/queues/"+id+"/consumers", `{"type":"http_pull"}`)
	pulled := c.post(t, "cfqueues", "/accounts/a/queues/"+id+"/messages/pull", `{"batch_size":1}`)
	assert.Contains(t, pulled, base64.StdEncoding.EncodeToString([]byte(`{"card":"`+plaintext+`"}`)))
	leased := c.post(t, "querator", "/v1/queue.lease", `{"queueName":"cards","batchSize":9,"clientId":"c","requestTimeout":"5s"}`)
	assert.Contains(t, leased, encoded)
	status, _ = c.get(t, http.MethodPost, "/api/v1/push", "", `{"items":[{"queue":"cards","payload":"`+plaintext+`"}]}`)
	assert.Equal(t, 201, status)
	log := c.logged()
	require.NoError(t, c.cmd.Process.Kill())
	_ = c.wait()
	_, with = searched(t, dir)
	assert.Empty(t, with)
	for _, secret := range []string{key, fresh, plaintext} {
		assert.NotContains(t, log, secret)
	}

	// Without any key the queue is there, and neither written nor read; others are served.
	c = spawn(t, dir, nil, everywhere(dir)...)
	status, text = c.get(t, http.MethodPost, "/api/v1/push", "", `{"items":[{"queue":"cards","payload":"`+plaintext+`"}]}`)
	assert.Equal(t, 400, status)
	assert.JSONEq(t, `{"error":"the queue is encrypted and this server has no key"}`, text)
	status, _ = c.get(t, http.MethodGet, "/api/v1/pop/queue/cards?consumerGroup=h", "", "")
	assert.Equal(t, 500, status)
	status, _ = c.get(t, http.MethodPost, "/api/v1/push", "", `{"items":[{"queue":"other","payload":1}]}`)
	assert.Equal(t, 201, status)
	status, _ = c.get(t, http.MethodGet, "/api/v1/pop/queue/other", "", "")
	assert.Equal(t, 200, status)
}

func TestEncryptionKeysThatAreNone(t *testing.T) {
	for _, c := range [][2]string{
		{"LEASEHOLD_ENCRYPTION_KEY=00", "LEASEHOLD_ENCRYPTION_KEY: a key is 64 hex digits"},
		{"LEASEHOLD_ENCRYPTION_OLD_KEYS=" + strings.Repeat("0a", 32) + ", hush", "LEASEHOLD_ENCRYPTION_OLD_KEYS: key 2: a key is 64 hex digits"},
	} {
		t.Run(c[1], func(t *testing.T) {
			setenv(t, c[0])
			_, err := parsed("serve")
			require.ErrorContains(t, err, c[1])
			require.NotContains(t, err.Error(), "hush")
		})
	}
}
