package queen_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
)

// moreRules are paragraphs that need a month, a browser or a crowd.
var moreRules = []rule{
	{covers: "6.12 cleanup", run: ruleCleanup},
	{covers: "9.4", options: queen.Options{Auth: queen.Auth{Secret: []byte(secretKey)}}, run: painOneToken},
	{covers: "9.4", run: painCrowd},
	{covers: "9.6", options: queen.Options{Auth: queen.Auth{Secret: []byte(secretKey)}}, run: painCookies},
	{covers: "8.1 TestProducerSubFieldDeserialisation", run: ruleSubjectField},
	{covers: "8.2 push.js empty subject", options: queen.Options{Auth: queen.Auth{Secret: []byte(secretKey)}}, run: ruleEmptySubject},
	{covers: "8.2 watermark.js", run: ruleWatermark},
}

// partitionNames lists the partitions of queue q as a dashboard sees them.
func (b *broker) partitionNames(t *testing.T) string {
	t.Helper()
	var out struct{ Partitions []struct{ Name string } }
	r := b.do(t, http.MethodGet, "/api/v1/resources/queues/q", "")
	require.Equal(t, 200, r.status, r.body)
	require.NoError(t, json.Unmarshal([]byte(r.body), &out))
	names := make([]string, len(out.Partitions))
	for i := range names {
		names[i] = out.Partitions[i].Name
	}
	return strings.Join(names, " ")
}

func ruleCleanup(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"maxWaitTimeSeconds":60,"dedupWindowSeconds":100000000`)
	for _, partition := range []string{"a", "b", "kept"} {
		b.pushIDs(t, "q", partition, "1", "2")
	}
	old := b.pop(t, "/queue/q/partition/a?consumerGroup=g&autoAck=true")
	require.Equal(t, []string{"1", "2"}, old.ids())
	letter := b.pop(t, "/queue/q/partition/kept?consumerGroup=g")
	require.True(t, b.ack(t, "g", letter.PartitionID, letter.LeaseID, "1=dlq")[0].DLQ)
	b.clock.Advance(2 * time.Minute)
	b.swept(t, 0)
	b.clock.Advance(20 * 24 * time.Hour)
	b.pushIDs(t, "q", "b", "3")
	b.clock.Advance(11 * 24 * time.Hour)
	require.Eventually(t, func() bool { return b.partitionNames(t) == "b kept" }, 5*time.Second, time.Millisecond,
		"what was empty and unused for 30 days goes; what was used lately, or has a dead letter, stays: %s", b.partitionNames(t))
	assert.Equal(t, "consumer not found", b.ack(t, "g", old.PartitionID, "", "1=completed")[0].text())
	assert.Equal(t, 404, b.do(t, http.MethodPost, "/api/v1/consumer-groups/g/queues/q/partitions/a/seek", `{"toEnd":true}`).status)

	b.pushIDs(t, "q", "a", "1", "4") // deduplication has forgotten what retention deleted
	fresh := b.pop(t, "/queue/q/partition/a?consumerGroup=g")
	assert.Equal(t, []string{"1", "4"}, fresh.ids(), "the group begins anew there")
	assert.NotEqual(t, old.PartitionID, fresh.PartitionID)
	assert.Equal(t, []string{"1", "4"}, b.pop(t, "/queue/q/partition/a?consumerGroup=other&subscriptionMode=all").ids())
	assert.True(t, b.ack(t, "g", fresh.PartitionID, fresh.LeaseID, "4=completed")[0].Success)
}

// painOneToken reads all that a dashboard shows with one token, which is asked for once and nowhere else.
func painOneToken(t *testing.T, b *broker) {
	t.Helper()
	keys := newSigner()
	issuer := newIssuer(t, edJWK(keys.ed.Public()))
	other := newBroker(t, queen.Options{Auth: queen.Auth{JWKS: queen.JWKS{URL: issuer.URL}}})
	for _, route := range readLevels(t) {
		if route.method != http.MethodGet || route.level != "read-only" {
			continue
		}
		path := strings.NewReplacer(":partitionId", "0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90", ":", "").Replace(route.path)
		status, text := b.call(t, b.token(t, jwt.MapClaims{"role": "read-only"}), http.MethodGet, path, "")
		assert.NotContains(t, []int{401, 403, 500}, status, "%s: %s", path, text)
		status, _ = other.call(t, sign("EdDSA", "e", keys.ed, jwt.MapClaims{"role": "read-only"}), http.MethodGet, path, "")
		assert.NotContains(t, []int{401, 403, 500}, status, "a key set with Ed25519: %s", path)
		w := httptest.NewRecorder()
		b.server.Config.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		assert.Equal(t, 401, w.Code, path)
		assert.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"), "no browser asks for a password of its own")
	}
}

// painCrowd has more clients wait and work than any pool has connections.
func painCrowd(t *testing.T, b *broker) {
	t.Helper()
	const crowd = 300
	b.pushIDs(t, "busy", "a", "1")
	parked := make([]<-chan result, 0, crowd)
	for range crowd {
		done := make(chan result, 1)
		go func() {
			r, _ := b.send(t.Context(), http.MethodGet, "/api/v1/pop/queue/q?wait=true&timeout=60000", "")
			done <- r
		}()
		parked = append(parked, done)
	}
	require.Eventually(t, func() bool { return b.waiting(t, "q", "") == crowd }, 20*time.Second, 5*time.Millisecond)
	var wg sync.WaitGroup
	statuses := make([]int, crowd)
	for i := range crowd {
		wg.Go(func() {
			r, err := b.send(t.Context(), http.MethodPost, "/api/v1/push", fmt.Sprintf(`{"items":[{"queue":"q","partition":"%d","payload":1}]}`, i))
			if err == nil {
				statuses[i] = r.status
			}
		})
	}
	wg.Wait()
	for i := range crowd {
		assert.Equal(t, 201, statuses[i], "everybody is served, if need be after others")
	}
	for _, done := range parked {
		assert.Len(t, asPopped(t, <-done).Messages, 1)
	}
}

// painCookies shows that a token is a bearer token and nothing else: whatever a proxy in front keeps in a cookie does not matter.
func painCookies(t *testing.T, b *broker) {
	t.Helper()
	good := b.token(t, jwt.MapClaims{"role": "admin"})
	ask := func(bearer, cookie string) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodGet, "/api/v1/dlq", nil)
		if bearer != "" {
			request.Header.Set("Authorization", "Bearer "+bearer)
		}
		request.Header.Set("Cookie", "token="+cookie)
		w := httptest.NewRecorder()
		b.server.Config.Handler.ServeHTTP(w, request)
		assert.Empty(t, w.Header().Values("Set-Cookie"))
		return w
	}
	assert.Equal(t, 401, ask("", good).Code, "a cookie lets nobody in")
	assert.Equal(t, 200, ask(good, "of-the-proxy").Code, "and keeps nobody out")
	assert.Equal(t, 401, ask("of.the.proxy", good).Code)
}

func ruleSubjectField(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	r := b.do(t, http.MethodGet, "/api/v1/pop/queue/q", "")
	assert.Contains(t, r.body, `"producerSub":null`, "a client reads it as a field that is there")
}

func ruleEmptySubject(t *testing.T, b *broker) {
	t.Helper()
	status, text := b.call(t, b.token(t, jwt.MapClaims{"role": "read-write", "sub": ""}), http.MethodPost, "/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`)
	require.Equal(t, 201, status, text)
	_, text = b.call(t, b.token(t, jwt.MapClaims{"role": "read-write"}), http.MethodGet, "/api/v1/pop/queue/q", "")
	assert.Contains(t, text, `"producerSub":null`)
}

// ruleWatermark polls until nothing is left, so that a server that keeps shortcuts would have one, and then moves the group back in three ways.
func ruleWatermark(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1", "2")
	take := func() []string {
		p := b.pop(t, "/queue/q?consumerGroup=g&batch=10&autoAck=true")
		for range 3 {
			require.Empty(t, b.pop(t, "/queue/q?consumerGroup=g&batch=10").ids())
		}
		return p.ids()
	}
	want := []string{"1", "2"}
	require.Equal(t, want, take())
	b.post(t, "/api/v1/consumer-groups/g/queues/q/seek", `{"timestamp":"1970-01-01T00:00:00Z"}`, 200)
	assert.Equal(t, want, take(), "after a seek")
	require.Equal(t, 200, b.do(t, http.MethodDelete, "/api/v1/consumer-groups/g", "").status)
	assert.Equal(t, want, take(), "after the group was deleted")
	require.Equal(t, 200, b.do(t, http.MethodDelete, "/api/v1/consumer-groups/g/queues/q", "").status)
	assert.Equal(t, want, take(), "after it was deleted on the queue")
}
