package queen_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/memory"
	"github.com/leasehold/leasehold/store/sealed"
)

// sealedRules are about encryption at rest.
var sealedRules = []rule{
	{covers: "5.5 no key", run: ruleNoEncryptionKey},
	{covers: "8.2 push.js encryption, 5.5 plaintext", options: queen.Options{CanEncrypt: true}, run: rulePlaintext},
	{covers: "6.13 encryptionEnabled, 5.5 at rest", run: ruleEncryption},
}

func ruleNoEncryptionKey(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "kept", `"leaseTime":5`)
	for _, options := range []string{`"options":{"encryptionEnabled":true}`, `"encryptionEnabled":true`} {
		for _, queue := range []string{"kept", "new"} {
			r := b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"`+queue+`",`+options+`,"leaseTime":7}`)
			assert.Equal(t, 400, r.status)
			exactly(t, `{"error":"encryptionEnabled: the server has no encryption key"}`, r.body)
		}
	}
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/resources/queues/kept", "").body, `"leaseTime":5`, "nothing of a refused call holds")
	assert.Equal(t, 404, b.do(t, http.MethodGet, "/api/v1/resources/queues/new", "").status)
	b.configure(t, "kept", `"encryptionEnabled":false`)
	b.configure(t, "kept", `"encryptionEnabled":null`)
}

// rulePlaintext is a server without a key whose operator wants the option accepted all the same.
func rulePlaintext(t *testing.T, b *broker) {
	t.Helper()
	assert.Equal(t, true, b.configure(t, "q", `"encryptionEnabled":true`)["encryptionEnabled"])
	b.pushIDs(t, "q", "a", "1")
	assert.Equal(t, []string{"1"}, b.pop(t, "/queue/q").ids())
}

// ruleEncryption looks below an encrypted queue: at the log, at the schedule's and the dead letters' place, before and after the option is switched.
func ruleEncryption(t *testing.T, _ *broker) {
	t.Helper()
	below := memory.New()
	key, err := sealed.ParseKey(strings.Repeat("5a", 32))
	require.NoError(t, err)
	b := newBrokerOver(t, sealed.Wrap(below, sealed.Options{Keys: sealed.NewRing(key)}), queen.Options{CanEncrypt: true})
	assert.Equal(t, true, b.configure(t, "q", `"encryptionEnabled":true,"retryLimit":0,"leaseTime":60`)["encryptionEnabled"])
	b.push(t, `{"items":[{"queue":"q","partition":"a","transactionId":"1","payload":{"card": "4111-1111"}},{"queue":"q","partition":"a","transactionId":"2","payload":"4111-1111"},{"queue":"open","payload":"4111-1111"}]}`)
	p := b.pop(t, "/queue/q?batch=2")
	exactly(t, `{"card": "4111-1111"}`, string(p.Messages[0].Data), "byte for byte")
	assert.Equal(t, `"4111-1111"`, string(p.Messages[1].Data))
	b.ack(t, "", p.PartitionID, p.LeaseID, "1=failed")
	letters := b.letters(t, "?queue=q")
	require.Len(t, letters, 1)
	exactly(t, `{"card": "4111-1111"}`, string(letters[0].Data))

	found := map[string]int{}
	queues, err := below.Queues(t.Context())
	require.NoError(t, err)
	for i := range queues {
		parts, err := below.Partitions(t.Context(), queues[i].ID)
		require.NoError(t, err)
		for _, part := range parts {
			list, err := below.Read(t.Context(), core.ReadParams{Partition: part.Key, Offsets: core.Runs{{First: 1, Last: 9}}})
			require.NoError(t, err)
			for k := range list {
				if strings.Contains(string(list[k].Payload), "4111") {
					found[queues[i].Name]++
				}
			}
		}
	}
	assert.Equal(t, map[string]int{"open": 1}, found, "only the queue that is not encrypted shows its payload")
	dead, _, err := below.DeadLetters(t.Context(), core.DeadLetterFilter{Limit: 9})
	require.NoError(t, err)
	require.Len(t, dead, 1)
	assert.NotContains(t, string(dead[0].Message.Payload), "4111")

	assert.Equal(t, 200, b.do(t, http.MethodPost, "/api/v1/dlq/"+letters[0].ID+"/replay", "").status)
	b.configure(t, "q", `"encryptionEnabled":false`)
	b.pushIDs(t, "q", "a", "3")
	b.clock.Advance(time.Hour)
	b.restart(t)
	assert.Len(t, b.pop(t, "/queue/q?batch=9").Messages, 3, "what was sealed stays readable, beside what is not")
}
