package blackbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ackBodies are the documentation's acknowledgements as their languages spell them: JavaScript
// without blanks, Python with them. %s are lease ids.
var ackBodies = map[string]string{
	"javascript": `{"acks":[{"lease_id":"%s"},{"lease_id":"%s"},{"lease_id":"%s"}],"retries":[{"lease_id":"%s"}]}`,
	"python":     `{"acks": [{"lease_id": "%s"}, {"lease_id": "%s"}, {"lease_id": "%s"}], "retries": [{"lease_id": "%s"}]}`,
	"delay":      "{\n\"acks\": [\n{ \"lease_id\": \"%s\" },\n{ \"lease_id\": \"%s\" },\n{ \"lease_id\": \"%s\" }\n],\n\"retries\": [{ \"lease_id\": \"%s\", \"delay_seconds\": 600 }]\n}",
}

// ackQueue is a queue with four messages and the clock of its server.
type ackQueue struct {
	c     *Clients
	clock *Clock
	id    string
}

func newAckQueue(t *testing.T) ackQueue {
	t.Helper()
	server := Start(t, t.TempDir())
	q := ackQueue{c: NewClients(server.Target), clock: NewClock(server.Target)}
	q.clock.Freeze(t, noon)
	var err error
	q.id, err = q.c.Cf.Create(t.Context(), "jobs")
	require.NoError(t, err)
	require.NoError(t, q.c.Cf.CreateConsumer(t.Context(), q.id, CfConsumer{MaxRetries: 3}))
	q.fill(t)
	return q
}

// fill pushes four messages.
func (q ackQueue) fill(t *testing.T) {
	t.Helper()
	messages := make([]CfMessage, 0, 4)
	for i := range 4 {
		messages = append(messages, CfMessage{Body: fmt.Sprintf(`"job %d"`, i), ContentType: "text"})
	}
	require.NoError(t, q.c.Cf.Push(t.Context(), q.id, messages...))
}

// post sends an acknowledgement's body.
func (q ackQueue) post(t *testing.T, body string) CfAcked {
	t.Helper()
	a, err := q.c.Conn.Do(t.Context(), http.MethodPost, q.c.Cf.url("/queues/"+q.id+"/messages/ack"), reader(body),
		"content-type", "application/json", "authorization", "Bearer any")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.Status, a)
	var out struct{ Result CfAcked }
	require.NoError(t, json.Unmarshal(a.Body, &out))
	return out.Result
}

// left checks what can be pulled now, and settles it.
func (q ackQueue) left(t *testing.T, want ...string) {
	t.Helper()
	messages, err := q.c.Cf.Pull(t.Context(), q.id, 10, 0)
	require.NoError(t, err)
	got, acks := make([]string, 0, len(messages)), make([]string, 0, len(messages))
	for _, m := range messages {
		got, acks = append(got, fmt.Sprintf("%s, attempt %d", m.Body, m.Attempts)), append(acks, m.LeaseID)
	}
	require.Equal(t, append([]string{}, want...), got)
	if len(acks) > 0 {
		_, err = q.c.Cf.Ack(t.Context(), q.id, acks)
		require.NoError(t, err)
	}
}

func TestCloudflareAckExamples(t *testing.T) {
	q := newAckQueue(t)
	t.Run("placeholders", func(t *testing.T) {
		got := q.post(t, fmt.Sprintf(ackBodies["javascript"], "lease_id1", "lease_id2", "etc", "lease_id4"))
		assert.Zero(t, got.AckCount)
		assert.Zero(t, got.RetryCount)
		assert.Len(t, got.Warnings, 4)
		requireBacklog(t, q, 4)
	})
	for _, spelling := range []string{"javascript", "python", "delay"} {
		t.Run(spelling, func(t *testing.T) {
			messages, err := q.c.Cf.Pull(t.Context(), q.id, 10, 0)
			require.NoError(t, err)
			require.Len(t, messages, 4)
			leases := make([]any, 0, len(messages))
			for _, m := range messages {
				leases = append(leases, m.LeaseID)
			}
			got := q.post(t, fmt.Sprintf(ackBodies[spelling], leases...))
			require.Equal(t, CfAcked{AckCount: 3, RetryCount: 1, Warnings: map[string]string{}}, got)
			requireBacklog(t, q, 1)
			if spelling == "delay" {
				q.clock.Advance(t, 599*time.Second)
				q.left(t)
				q.clock.Advance(t, time.Second)
			}
			q.left(t, "job 3, attempt 2")
			requireBacklog(t, q, 0)
			q.clock.Advance(t, time.Hour)
			q.left(t)
			q.fill(t)
		})
	}
}

func requireBacklog(t *testing.T, q ackQueue, want int64) {
	t.Helper()
	m, err := q.c.Cf.Metrics(t.Context(), q.id)
	require.NoError(t, err)
	require.Equal(t, want, m.BacklogCount)
}

// TestCloudflareAckByOtherLanguages runs the same in the languages of the documentation, where
// they are installed.
func TestCloudflareAckByOtherLanguages(t *testing.T) {
	for _, language := range []struct{ program, script string }{
		{"node", "testdata/ack.mjs"}, {"python3", "testdata/ack.py"},
	} {
		t.Run(language.program, func(t *testing.T) {
			program, err := exec.LookPath(language.program)
			if err != nil {
				t.Skip("not installed")
			}
			q := newAckQueue(t)
			for _, delay := range []string{"", "600"} {
				args := []string{language.script, q.c.Cf.url("/queues/" + q.id)}
				if delay != "" {
					q.fill(t)
					args = append(args, delay)
				}
				out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
				require.NoError(t, err, string(out))
				require.JSONEq(t, `{"bodies":["job 0","job 1","job 2","job 3"],"answer":{"ackCount":3,"retryCount":1,"warnings":{}}}`, string(out))
				if delay != "" {
					q.left(t)
					q.clock.Advance(t, 600*time.Second)
				}
				q.left(t, "job 3, attempt 2")
			}
		})
	}
}
