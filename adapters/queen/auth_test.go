package queen_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
)

// call sends a request with a token and returns the status and the body.
func (b *broker) call(t *testing.T, token, method, path, body string) (status int, text string) {
	t.Helper()
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	b.server.Config.Handler.ServeHTTP(w, request)
	return w.Code, w.Body.String()
}

// token is a good token under the secret, valid for an hour of the broker's clock.
func (b *broker) token(t *testing.T, claims jwt.MapClaims) string {
	t.Helper()
	claims["exp"] = b.clock.Now().Std().Add(time.Hour).Unix()
	return sign("HS256", "", []byte(secretKey), claims)
}

func TestEachAlgorithmUnderItsKeyAndNoOther(t *testing.T) {
	keys := newSigner()
	private := map[string]any{
		"HS256": []byte(secretKey), "HS384": []byte(secretKey), "HS512": []byte(secretKey),
		"RS256": keys.rsa, "RS384": keys.rsa, "RS512": keys.rsa, "EdDSA": keys.ed,
	}
	configs := map[string]queen.Auth{
		"HS":  {Secret: []byte(secretKey)},
		"RS":  {PublicKey: publicPEM(&keys.rsa.PublicKey)},
		"EdD": {PublicKey: publicPEM(keys.ed.Public())},
	}
	for kind, auth := range configs {
		for chosen := range private {
			auth.Algorithm = chosen
			if !strings.HasPrefix(chosen, kind) {
				require.ErrorContains(t, auth.Check(), "there is no key for it", "%s %s", kind, chosen)
				continue
			}
			require.NoError(t, auth.Check())
			b := newBroker(t, queen.Options{Auth: auth})
			for used, key := range private {
				token := sign(used, "", key, claimsOf("x", "admin", b.clock.Now().Std().Add(time.Hour)))
				status, body := b.call(t, token, http.MethodGet, "/api/v1/dlq", "")
				if used == chosen {
					assert.Equal(t, 200, status, "%s: %s", chosen, body)
					continue
				}
				assert.Equal(t, 401, status)
				exactly(t, `{"error":"Unsupported token algorithm"}`, body, "%s where %s is expected", used, chosen)
			}
		}
		auth.Algorithm = "auto"
		b := newBroker(t, queen.Options{Auth: auth})
		for used, key := range private {
			status, _ := b.call(t, sign(used, "", key, jwt.MapClaims{"role": "admin"}), http.MethodGet, "/api/v1/dlq", "")
			assert.Equal(t, strings.HasPrefix(used, kind), status == 200, "auto, %s under %s", used, kind)
		}
	}
}

func TestSettingsThatCannotBeUsed(t *testing.T) {
	short := "-----BEGIN RSA PUBLIC KEY-----\nMEgCQQCo9+BpMRYQ/dL3DS2CyJxRF+j6ctbT3/Qp84+KeFhnii7NT7fELilKUSnx\nS30WAvQCCo2yU1orfgqr41mM70MBAgMBAAE=\n-----END RSA PUBLIC KEY-----\n"
	for want, auth := range map[string]queen.Auth{
		"is required":           {Algorithm: "HS256"},
		"unknown algorithm":     {Secret: []byte("x"), Algorithm: "none"},
		"not PEM":               {PublicKey: []byte("x")},
		"cannot be read":        {PublicKey: []byte("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")},
		"512 bits":              {PublicKey: []byte(short)},
		"not an http or https":  {JWKS: queen.JWKS{URL: "file:///etc/passwd"}},
		"http or https URL":     {JWKS: queen.JWKS{URL: "https://user:hunter2@"}},
		"there is no key for i": {Secret: []byte("x"), Algorithm: "RS256"},
	} {
		err := auth.Check()
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
		if auth.Enabled() { // a server that is started with them all the same lets nobody in
			b := newBroker(t, queen.Options{Auth: auth})
			status, _ := b.call(t, b.token(t, jwt.MapClaims{"role": "admin"}), http.MethodGet, "/api/v1/dlq", "")
			assert.Equal(t, 503, status)
		}
	}
}

func TestRolesUnderOtherNames(t *testing.T) {
	b := newBroker(t, queen.Options{Auth: queen.Auth{Secret: []byte(secretKey), SkipPaths: []string{"/api/v1/traces/names"}, Roles: queen.Roles{
		Claim: "job", ArrayClaim: "groups", Admin: "root", ReadWrite: "worker", ReadOnly: "viewer", WriteOnly: "sender",
	}}})
	for _, c := range []struct {
		claims       jwt.MapClaims
		push, pop, d int // push is write-only, the pop read-write, the queue's deletion admin
	}{
		{jwt.MapClaims{"job": "root"}, 400, 204, 200},
		{jwt.MapClaims{"job": "worker"}, 400, 204, 403},
		{jwt.MapClaims{"job": "sender"}, 400, 403, 403},
		{jwt.MapClaims{"job": "viewer"}, 403, 403, 403},
		{jwt.MapClaims{"groups": []string{"viewer", "sender"}}, 400, 403, 403},
		{jwt.MapClaims{"groups": []any{1, nil, "root"}}, 400, 204, 200},
		{jwt.MapClaims{"groups": "worker"}, 400, 204, 403},
		{jwt.MapClaims{"job": []string{"worker"}}, 400, 204, 403},
		{jwt.MapClaims{"role": "admin", "roles": []string{"admin"}}, 403, 403, 403},
		{jwt.MapClaims{"job": "admin", "groups": []string{"read-write"}}, 403, 403, 403},
		{jwt.MapClaims{"job": "ROOT"}, 403, 403, 403},
		{jwt.MapClaims{"job": map[string]any{"root": true}}, 403, 403, 403},
		{jwt.MapClaims{"job": ""}, 403, 403, 403},
		{jwt.MapClaims{}, 403, 403, 403},
	} {
		token := b.token(t, c.claims)
		got := make([]int, 0, 3)
		for _, target := range [][2]string{
			{http.MethodPost, "/api/v1/push"}, {http.MethodGet, "/api/v1/pop/queue/q"}, {http.MethodDelete, "/api/v1/resources/queues/q"},
		} {
			status, _ := b.call(t, token, target[0], target[1], "[")
			got = append(got, status)
		}
		assert.Equal(t, []int{c.push, c.pop, c.d}, got, "%v", c.claims)
	}
	status, _ := b.call(t, "", http.MethodGet, "/api/v1/traces/names", "")
	assert.Equal(t, 200, status, "the skip list was named")
	status, _ = b.call(t, "", http.MethodGet, "/health", "")
	assert.Equal(t, 401, status, "and replaces the default one")
}

func TestOddHeaders(t *testing.T) {
	b := newBroker(t, queen.Options{Auth: queen.Auth{Secret: []byte(secretKey)}})
	good := b.token(t, jwt.MapClaims{"role": "admin"})
	critical := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"role": "admin"})
	critical.Header["crit"] = []string{"b64"}
	crit, err := critical.SignedString([]byte(secretKey))
	require.NoError(t, err)
	for _, c := range []struct {
		header []string
		status int
		text   string
	}{
		{[]string{"bearer " + good}, 200, ""},
		{[]string{"BEARER   " + good + " "}, 200, ""},
		{[]string{good}, 200, ""},
		{[]string{"Bearer " + good, "Bearer " + good}, 401, "Bad token header"},
		{[]string{"Bearer"}, 401, "Authentication required"},
		{[]string{""}, 401, "Authentication required"},
		{[]string{"Token " + good}, 401, "Authentication required"},
		{[]string{"Bearer " + good + " x"}, 401, "Bad token header"},
		{[]string{"Bearer " + crit}, 401, "Bad token header"},
		{[]string{"Bearer " + good + "A"}, 401, "Invalid token signature"},
		{[]string{"Bearer ..."}, 401, "Bad token header"},
		{[]string{"Bearer " + strings.Repeat("a.", 10000)}, 401, "Bad token header"},
		{[]string{"Bearer eyJhbGciOiJYWCJ9.e30.AA"}, 401, "Unsupported token algorithm"},
		{[]string{"Bearer " + b.token(t, jwt.MapClaims{"role": "admin", "nbf": "soon"})}, 401, "Bad token header"},
	} {
		request := httptest.NewRequest(http.MethodGet, "/api/v1/dlq", nil)
		request.Header["Authorization"] = c.header
		w := httptest.NewRecorder()
		b.server.Config.Handler.ServeHTTP(w, request)
		assert.Equal(t, c.status, w.Code, "%.60s", c.header)
		if c.text != "" {
			assert.Equal(t, `{"error":"`+c.text+`"}`, w.Body.String(), "%.60s", c.header)
			assert.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
		}
	}
}

// subjects pops everything of a queue and lists payloads and subjects.
func (b *broker) subjects(t *testing.T, token, queue string) map[string]any {
	t.Helper()
	status, text := b.call(t, token, http.MethodGet, "/api/v1/pop/queue/"+queue+"?autoAck=true", "")
	require.Equal(t, 200, status, text)
	var p struct {
		Messages []struct {
			Data        json.RawMessage
			ProducerSub any
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &p))
	out := map[string]any{}
	for _, m := range p.Messages {
		out[string(m.Data)] = m.ProducerSub
	}
	return out
}

// ruleProducerSub pushes in every way there is: the subject is the verified token's, and nothing else is.
func ruleProducerSub(t *testing.T, b *broker) {
	t.Helper()
	push := func(sub any, payload string) {
		claims := jwt.MapClaims{"role": "write-only"}
		if sub != nil {
			claims["sub"] = sub
		}
		status, text := b.call(t, b.token(t, claims), http.MethodPost, "/api/v1/push", `{"items":[{"queue":"q","payload":`+payload+`,"producerSub":"mallory"}]}`)
		require.Equal(t, 201, status, text)
	}
	push("alice", "1")
	push("bob \"quoted\" é", "2")
	push("", "3")
	push(nil, "4")
	worker := b.token(t, jwt.MapClaims{"role": "read-write", "sub": "worker"})
	status, text := b.call(t, worker, http.MethodPost, "/api/v1/transaction",
		`{"operations":[{"type":"push","items":[{"queue":"q","payload":5,"producerSub":"mallory"}]},{"type":"push","queue":"q","data":6,"producerSub":{"x":1}}]}`)
	require.Equal(t, 200, status, text)
	require.Contains(t, text, `"success":true`)
	assert.Equal(t, map[string]any{
		"1": "alice", "2": "bob \"quoted\" é", "3": nil, "4": nil, "5": "worker", "6": "worker",
	}, b.subjects(t, worker, "q"))

	_, text = b.call(t, worker, http.MethodPost, "/streams/v1/queries", `{"name":"n","source_queue":"q","config_hash":"h"}`)
	var query struct {
		ID string `json:"query_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &query))
	_, text = b.call(t, worker, http.MethodGet, "/api/v1/pop/queue/q?consumerGroup=g", "")
	var p popped
	require.NoError(t, json.Unmarshal([]byte(text), &p))
	_, text = b.call(t, worker, http.MethodPost, "/streams/v1/cycle", `{"query_id":"`+query.ID+`","partition_id":"`+p.PartitionID+
		`","push_items":[{"queue":"sink","payload":7,"producerSub":"mallory"}]}`)
	require.Contains(t, text, `"success":true`)
	assert.Equal(t, map[string]any{"7": "worker"}, b.subjects(t, worker, "sink"))

	// A forged token stamps nothing, and stores nothing.
	forged := sign("HS256", "", []byte("not the secret, but one as long as it"), jwt.MapClaims{"role": "admin", "sub": "alice"})
	status, _ = b.call(t, forged, http.MethodPost, "/api/v1/push", `{"items":[{"queue":"forged","payload":1}]}`)
	assert.Equal(t, 401, status)
	status, _ = b.call(t, worker, http.MethodGet, "/api/v1/pop/queue/forged", "")
	assert.Equal(t, 204, status)
}

// ruleRoles is a producer that may only push, and readers and workers that may do what their names say.
func ruleRoles(t *testing.T, b *broker) {
	t.Helper()
	try := func(role, method, path, body string) int {
		status, _ := b.call(t, b.token(t, jwt.MapClaims{"role": role}), method, path, body)
		return status
	}
	const item = `{"items":[{"queue":"q","payload":1,"transactionId":"1"}]}`
	assert.Equal(t, 201, try("write-only", http.MethodPost, "/api/v1/push", item))
	assert.Equal(t, 403, try("write-only", http.MethodGet, "/api/v1/pop/queue/q", ""))
	assert.Equal(t, 403, try("write-only", http.MethodGet, "/api/v1/resources/queues", ""))
	assert.Equal(t, 403, try("read-only", http.MethodPost, "/api/v1/push", item))
	assert.Equal(t, 403, try("read-only", http.MethodGet, "/api/v1/pop/queue/q", ""), "a pop takes a lease, and is no reading")
	assert.Equal(t, 200, try("read-only", http.MethodGet, "/api/v1/resources/queues", ""))
	assert.Equal(t, 200, try("read-write", http.MethodGet, "/api/v1/pop/queue/q", ""))
	assert.Equal(t, 403, try("read-write", http.MethodDelete, "/api/v1/resources/queues/q", ""))
	assert.Equal(t, 204, try("read-write", http.MethodGet, "/api/v1/pop/queue/q", ""), "it is still there, and leased")
	assert.Equal(t, 200, try("admin", http.MethodDelete, "/api/v1/resources/queues/q", ""))
}
