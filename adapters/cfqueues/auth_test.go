package cfqueues_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
)

// as sends every further request with a bearer token, or with none.
func (h *harness) as(token string) {
	h.header = http.Header{}
	if token != "" {
		h.header.Set("Authorization", "Bearer "+token)
	}
}

// token makes a token for queues that a pattern names.
func (h *harness) token(read, write bool, patterns ...string) string {
	h.t.Helper()
	_, text, err := h.tokens.Create(h.t.Context(), cfqueues.NewToken{
		Name: "test", Email: "user@example.com", Read: read, Write: write, Queues: patterns,
	})
	require.NoError(h.t, err)
	return text
}

// everyRoute are all routes with a body that they take; the queue is jobs.
func everyRoute() []guardedRoute {
	const q, con, sub = "/queues/jobs", "/queues/jobs/consumers/" + fixedID, "/event_subscriptions/subscriptions"
	return []guardedRoute{
		{"GET", "/queues", "", false, false},
		{"GET", q, "", false, false},
		{"GET", q + "/consumers", "", false, false},
		{"GET", con, "", false, false},
		{"GET", q + "/purge", "", false, false},
		{"GET", q + "/metrics", "", false, false},
		{"GET", sub, "", false, false},
		{"POST", q + "/messages/peek", "", false, true},
		{"POST", q + "/messages/preview", "", false, true},
		{"POST", "/queues", `{"queue_name":"jobs-2"}`, true, false},
		{"PUT", q, `{}`, true, false},
		{"PATCH", q, `{}`, true, false},
		{"POST", q + "/consumers", `{"type":"http_pull"}`, true, false},
		{"PUT", con, `{"type":"http_pull"}`, true, false},
		{"POST", q + "/purge", `{"delete_messages_permanently":true}`, true, false},
		{"POST", q + "/messages", `{"body":1}`, true, true},
		{"POST", q + "/messages/batch", `{"messages":[{"body":1}]}`, true, true},
		{"POST", q + "/messages/pull", "", true, true},
		{"POST", q + "/messages/ack", "", true, true},
		{"POST", q + "/messages/extend", "", true, true},
		{"POST", q + "/messages/purge", `{"refs":[]}`, true, true},
		{"POST", q + "/messages/preview/ack", "", true, true},
		{"POST", q + "/pull", "", true, true},
		{"POST", q + "/ack", "", true, true},
		{"POST", sub, fmt.Sprintf(`{"source":{"type":"r2"},"destination":{"queue_id":%q}}`, fixedID), true, false},
		{"PATCH", sub + "/" + fixedID, "{}", true, false},
		{"DELETE", sub + "/" + fixedID, "", true, false},
		{"DELETE", con, "", true, false},
		{"DELETE", q, "", true, false},
	}
}

type guardedRoute struct {
	method, path, body string
	writes, messages   bool
}

func TestWithoutTokensEverybodyMayDoEverything(t *testing.T) {
	h := start(t, cfqueues.Options{})
	h.make("jobs", "")
	for _, token := range []string{"", "whatever"} {
		h.as(token)
		for _, r := range everyRoute()[:9] {
			a := h.call(r.method, r.path, r.body)
			assert.NotContains(t, []int{401, 403}, a.status, "%s %s", r.method, r.path)
		}
	}
}

func TestEveryRouteAsksForAToken(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		h.ok("POST", "/queues", `{"queue_name":"jobs"}`, nil)
		h.ok("PUT", "/queues/jobs/consumers/"+fixedID, `{"type":"http_pull"}`, nil)
		h.push("/queues/jobs", "stays")
		reader := h.token(true, false)
		var before queue
		h.as(reader)
		h.ok("GET", "/queues/jobs", "", &before)
		for _, r := range everyRoute() {
			for _, token := range []string{"", "lhd_wrong", reader[:len(reader)-1]} {
				h.as(token)
				h.refused(r.method, r.path, r.body, 401, 10000)
			}
			h.as(reader)
			if !r.writes {
				a := h.call(r.method, r.path, r.body)
				assert.Equal(t, 200, a.status, "%s %s %s", r.method, r.path, a.raw)
				continue
			}
			code := map[bool]int{true: 10106, false: 10000}[r.messages]
			a := h.refused(r.method, r.path, r.body, 403, code)
			assert.Contains(t, a.Errors[0].Message, "the token may read only")
		}
		var after queue
		h.ok("GET", "/queues/jobs", "", &after)
		assert.Equal(t, before, after)
		assert.EqualValues(t, 1, h.backlog("/queues/jobs").BacklogCount)
		h.as(h.token(false, true))
		for _, r := range everyRoute() {
			a := h.call(r.method, r.path, r.body)
			assert.NotContains(t, []int{401, 403}, a.status, "%s %s %s", r.method, r.path, a.raw)
		}
	})
}

func TestWaysToSendAToken(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		h.make("jobs", "")
		token := h.token(true, true)
		for _, c := range []struct {
			header       map[string]string
			status, code int
		}{
			{map[string]string{"Authorization": "Bearer " + token}, 200, 0},
			{map[string]string{"Authorization": "bearer   " + token + " "}, 200, 0},
			{map[string]string{"X-Auth-Key": token, "X-Auth-Email": "User@Example.com"}, 200, 0},
			{map[string]string{"Authorization": "Bearer " + token, "X-Auth-Key": "wrong", "X-Auth-Email": "x@y.z"}, 200, 0},
			{map[string]string{"Authorization": "Bearer wrong", "X-Auth-Key": token, "X-Auth-Email": "user@example.com"}, 401, 10000},
			{map[string]string{"X-Auth-Key": token, "X-Auth-Email": "other@example.com"}, 401, 10000},
			{map[string]string{"X-Auth-Key": token}, 401, 10000},
			{map[string]string{"X-Auth-User-Service-Key": token}, 401, 10000},
			{map[string]string{"Authorization": token}, 400, 6003},
			{map[string]string{"Authorization": "Basic " + token}, 400, 6003},
			{map[string]string{"Authorization": "Bearer"}, 400, 6003},
			{map[string]string{"Authorization": "Bearer a b"}, 400, 6003},
			{map[string]string{"Authorization": "Bearer " + strings.Repeat("x", 100_000)}, 401, 10000},
		} {
			h.header = http.Header{}
			for name, value := range c.header {
				h.header.Set(name, value)
			}
			a := h.call("GET", "/queues/jobs", "")
			require.Equal(t, c.status, a.status, "%.80v %s", c.header, a.raw)
			if c.code != 0 {
				assert.Equal(t, c.code, a.Errors[0].Code, "%.80v", c.header)
			}
			if c.code == 6003 {
				assert.Contains(t, a.raw, `"error_chain":[{"code":6111,`)
			}
		}
	})
}

// A token for some queues sees and touches nothing else.
func TestTokenForSomeQueues(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		mine, other := h.make("team-a", ""), h.make("secret", "")
		h.push(other, "x")
		h.as(h.token(true, true, "team-*"))
		h.push(mine, "a")
		assert.Len(t, h.pull(mine, ""), 1)
		var list []queue
		a := h.ok("GET", "/queues", "", &list)
		require.Len(t, list, 1)
		assert.Equal(t, "team-a", list[0].QueueName)
		assert.Equal(t, 1, a.ResultInfo.TotalCount)
		h.ok("GET", "/queues?name=secret", "", &list)
		assert.Empty(t, list)
		for _, q := range []string{other, "/queues/secret", "/queues/is-not-there"} {
			h.refused("GET", q, "", 403, 10000)
			h.refused("DELETE", q, "", 403, 10000)
			h.refused("POST", q+"/messages", `{"body":1}`, 403, 10106)
			h.refused("POST", q+"/messages/pull", "", 403, 10106)
			h.refused("POST", q+"/messages/peek", "", 403, 10106)
		}
		h.refused("POST", "/queues", `{"queue_name":"mine"}`, 403, 10000)
		h.refused("PATCH", mine, `{"queue_name":"mine"}`, 403, 10000)
		h.refused("PUT", mine, `{"queue_name":"secret"}`, 403, 10000)
		h.ok("PATCH", mine, `{"queue_name":"team-b"}`, nil)
		var c []consumer
		h.ok("GET", mine+"/consumers", "", &c)
		con := mine + "/consumers/" + c[0].ConsumerID
		h.refused("PUT", con, `{"type":"http_pull","dead_letter_queue":"secret"}`, 403, 10000)
		h.refused("PUT", con, `{"type":"http_pull","dead_letter_queue":"new-one"}`, 403, 10000)
		h.ok("PUT", con, `{"type":"http_pull","dead_letter_queue":"team-dlq"}`, nil)
		h.as(h.token(true, true))
		assert.EqualValues(t, 1, h.backlog(other).BacklogCount)
		h.refused("GET", "/queues/new-one", "", 404, 11000)
	})
}

func TestAccountOfTheServer(t *testing.T) {
	each(t, cfqueues.Options{Account: "023e105f4ecef8ad9ca31a8372d0c353"}, func(h *harness) {
		t := h.test
		h.make("jobs", "")
		a := h.send("GET", "/accounts/another/queues/jobs", "")
		assert.Equal(t, 200, a.status, "with authentication off any account will do")
		h.as(h.token(true, true))
		h.ok("GET", "/queues/jobs", "", nil)
		for path, code := range map[string]int{
			"/accounts/another/queues/jobs": 10000, "/client/v4/accounts/another/queues": 10000,
			"/accounts/another/event_subscriptions/subscriptions": 10000, "/accounts/another": 9109,
		} {
			a := h.send("GET", path, "")
			assert.Equal(t, 403, a.status, "%s %s", path, a.raw)
			assert.Equal(t, code, a.Errors[0].Code, path)
		}
		a = h.send("POST", "/accounts/another/queues/jobs/messages/pull", "")
		assert.Equal(t, 403, a.status)
		assert.Equal(t, 10106, a.Errors[0].Code)
	})
}

func TestTokenEndsAndIsRevoked(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		h.make("jobs", "")
		made, text, err := h.tokens.Create(t.Context(), cfqueues.NewToken{Name: "short", ExpiresAt: h.clock.Now().Std().Add(time.Hour)})
		require.NoError(t, err)
		h.as(text)
		var v struct {
			ID, Status string
			ExpiresOn  time.Time `json:"expires_on"`
		}
		h.decode(h.send("GET", "/client/v4/user/tokens/verify", ""), &v)
		assert.Equal(t, made.ID, v.ID)
		assert.Equal(t, "active", v.Status)
		assert.True(t, v.ExpiresOn.Equal(made.ExpiresAt))
		h.clock.Advance(time.Hour)
		h.refused("GET", "/queues/jobs", "", 401, 10000)
		revoked := h.token(true, true)
		h.as(revoked)
		h.ok("GET", "/queues/jobs", "", nil)
		list, err := h.tokens.List(t.Context())
		require.NoError(t, err)
		for i := range list {
			_, err := h.tokens.Revoke(t.Context(), list[i].ID)
			require.NoError(t, err)
		}
		h.refused("GET", "/queues/jobs", "", 401, 10000)
		h.as("")
		h.refused("GET", "/queues/jobs", "", 401, 10000)
	})
}

func TestUserRoutesWithTokens(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		token := h.token(true, false)
		for _, route := range []struct {
			path          string
			none, unknown [2]int
		}{
			{"/user/tokens/verify", [2]int{400, 9106}, [2]int{401, 1000}},
			{base + "/tokens/verify", [2]int{400, 9106}, [2]int{401, 1000}},
			{"/user", [2]int{400, 9106}, [2]int{403, 9109}},
			{"/accounts", [2]int{400, 9106}, [2]int{403, 9109}},
			{"/memberships", [2]int{400, 9106}, [2]int{403, 9109}},
		} {
			h.as("")
			a := h.send("GET", route.path, "")
			got := [2]int{a.status, a.Errors[0].Code}
			assert.Equal(t, route.none, got, route.path)
			h.as("lhd_unknown")
			a = h.send("GET", route.path, "")
			got = [2]int{a.status, a.Errors[0].Code}
			assert.Equal(t, route.unknown, got, route.path)
			h.as(token)
			a = h.send("GET", route.path, "")
			assert.Equal(t, 200, a.status, a.raw)
		}
		var user struct{ Email string }
		h.decode(h.send("GET", "/user", ""), &user)
		assert.Equal(t, "user@example.com", user.Email)
	})
}
