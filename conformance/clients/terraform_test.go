package clients

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/blackbox"
)

// terraform replays the requests of the provider, section by section.
type terraform struct {
	*testing.T
	base     string
	conn     *blackbox.Conn
	sections map[string][]recorded
	ids      map[string]string
}

// recorded is one request of testdata/terraform.txt.
type recorded struct{ method, path, body, name string }

func newTerraform(t *testing.T, s *blackbox.Server) *terraform {
	t.Helper()
	text, err := os.ReadFile("testdata/terraform.txt")
	require.NoError(t, err)
	tf := &terraform{t, s.Cfqueues + "/client/v4", blackbox.NewConn(), map[string][]recorded{}, map[string]string{"A": account}}
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "## "); ok {
			section = name
			continue
		}
		if line == "" || line[0] == '#' {
			continue
		}
		line, name, _ := strings.Cut(line, " -> ")
		parts := append(strings.SplitN(line, " ", 3), "")
		tf.sections[section] = append(tf.sections[section], recorded{parts[0], parts[1], parts[2], name})
	}
	return tf
}

// send sends a request as the provider does.
func (tf *terraform) send(r recorded) blackbox.Answer {
	tf.Helper()
	path := r.path
	for name, id := range tf.ids {
		path = strings.ReplaceAll(path, "{"+name+"}", id)
	}
	var body io.Reader
	headers := []string{
		"User-Agent", "terraform-provider-cloudflare/dev terraform-plugin-framework/1.19.0 terraform/1.11.4",
		"Accept", "application/json", "Authorization", "Bearer Sn3lZJTBX6kkg7OdcBUAxOO963GEIyGQqnFTOFYY",
		"X-Stainless-Lang", "Terraform", "X-Stainless-Retry-Count", "0", "Accept-Encoding", "gzip",
	}
	if r.body != "" {
		body = strings.NewReader(r.body)
		headers = append(headers, "Content-Type", "application/json")
	}
	a, err := tf.conn.Do(tf.Context(), r.method, tf.base+path, body, headers...)
	require.NoError(tf, err)
	return a
}

// run sends a section's requests and returns the results, as JSON text.
func (tf *terraform) run(section string) []string {
	tf.Helper()
	require.NotEmpty(tf, tf.sections[section])
	var out []string
	for _, r := range tf.sections[section] {
		a := tf.send(r)
		require.Equal(tf, 200, a.Status, "%s %s: %s", r.method, r.path, a)
		require.Contains(tf, a.Header.Get("Content-Type"), "application/json")
		var envelope struct {
			Success bool
			Result  json.RawMessage
		}
		require.NoError(tf, json.Unmarshal(a.Body, &envelope))
		require.True(tf, envelope.Success)
		var made struct {
			Queue    string `json:"queue_id"`
			Consumer string `json:"consumer_id"`
		}
		if r.name != "" {
			require.NoError(tf, json.Unmarshal(envelope.Result, &made))
			if tf.ids[r.name] = made.Consumer; made.Consumer == "" {
				tf.ids[r.name] = made.Queue
			}
			require.NotEmpty(tf, tf.ids[r.name])
		}
		out = append(out, string(envelope.Result))
	}
	return out
}

// state is what the provider keeps of a result: every attribute must be known, which null is not.
func (tf *terraform) state(result string, drop ...string) map[string]any {
	tf.Helper()
	var all map[string]any
	require.NoError(tf, json.Unmarshal([]byte(result), &all))
	for _, name := range drop {
		delete(all, name)
	}
	var known func(path string, v any)
	known = func(path string, v any) {
		require.NotNil(tf, v, "%s is null", path)
		if m, ok := v.(map[string]any); ok {
			for name, v := range m {
				known(path+"."+name, v)
			}
		}
	}
	known("", all)
	return all
}

// The provider creates, refreshes, updates and destroys; what a plan compares is what was sent,
// completed by defaults, and a second refresh is the first one to the byte.
func TestTerraformProvider(t *testing.T) {
	overStores(t, func(t *testing.T, s *blackbox.Server) {
		clock := frozen(t, s)
		tf := newTerraform(t, s)
		made := tf.run("create")
		first := tf.run("refresh")
		clock.Advance(t, time.Hour)
		assert.Equal(t, first, tf.run("refresh"), "a second refresh")
		// The counts and the list of consumers came after the queue; modified_on may follow them.
		later := []string{"consumers", "consumers_total_count", "modified_on"}
		assert.Equal(t, tf.state(made[0], later...), tf.state(first[0], later...))
		assert.Equal(t, tf.state(made[1], later...), tf.state(first[1], later...))
		assert.Equal(t, tf.state(made[2]), tf.state(first[2]))
		jobs, consumer := tf.state(first[1]), tf.state(first[2])
		assert.Equal(t, map[string]any{"delivery_delay": 5.0, "delivery_paused": false, "message_retention_period": 345600.0}, jobs["settings"])
		assert.InDelta(t, 1, jobs["consumers_total_count"], 0)
		assert.InDelta(t, 0, jobs["producers_total_count"], 0)
		assert.Equal(t, []any{consumer}, jobs["consumers"])
		assert.Equal(t, map[string]any{"batch_size": 10.0, "max_retries": 4.0, "retry_delay": 0.0, "visibility_timeout_ms": 30000.0}, consumer["settings"])
		assert.Equal(t, "jobs-dlq", consumer["dead_letter_queue"])
		assert.Equal(t, "jobs", consumer["queue_name"])
		created, ok := consumer["created_on"].(string)
		require.True(t, ok)
		_, err := time.Parse(time.RFC3339, created)
		require.NoError(t, err)

		tf.changed(clock, first)
		tf.destroyed()
	})
}

// changed updates in place.
func (tf *terraform) changed(clock *blackbox.Clock, before []string) {
	tf.Helper()
	updated := tf.run("update")
	after := tf.run("refresh")
	clock.Advance(tf, time.Hour)
	assert.Equal(tf, after, tf.run("refresh"), "a second refresh after the update")
	assert.Equal(tf, tf.state(updated[1]), tf.state(after[2]))
	was, is := tf.state(before[2]), tf.state(after[2])
	assert.Equal(tf, was["consumer_id"], is["consumer_id"])
	assert.Equal(tf, was["created_on"], is["created_on"])
	assert.Empty(tf, is["dead_letter_queue"], "null clears it")
	assert.Equal(tf, map[string]any{"batch_size": 10.0, "max_retries": 6.0, "retry_delay": 0.0, "visibility_timeout_ms": 30000.0}, is["settings"])
	jobs := tf.state(after[1])
	assert.Equal(tf, map[string]any{"delivery_delay": 7.0, "delivery_paused": false, "message_retention_period": 345600.0}, jobs["settings"])
	assert.Equal(tf, tf.state(before[1])["created_on"], jobs["created_on"])
	assert.Equal(tf, before[0], after[0], "the other queue is as it was")
}

// destroyed deletes everything; what is gone answers 404, by which the provider knows.
func (tf *terraform) destroyed() {
	tf.Helper()
	tf.run("destroy")
	for _, r := range tf.sections["refresh"] {
		a := tf.send(r)
		assert.Equal(tf, 404, a.Status, "%s: %s", r.path, a)
	}
}
