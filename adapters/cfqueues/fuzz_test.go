package cfqueues_test

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
)

// FuzzRequests sends anything to a server with one queue in it: every answer is an
// envelope, and none is the server's fault.
func FuzzRequests(f *testing.F) {
	h := start(f, cfqueues.Options{})
	path := h.make("jobs", "")
	for _, s := range [][3]string{
		{"POST", "/queues", `{"queue_name":"other","settings":{"delivery_delay":5}}`},
		{"PATCH", path, `{"settings":{"delivery_paused":true}}`},
		{"POST", path + "/consumers", `{"type":"http_pull","dead_letter_queue":"dlq"}`},
		{"POST", path + "/messages", `{"body":{"a":1},"content_type":"json","delay_seconds":5}`},
		{"POST", path + "/messages/batch", `{"messages":[{"body":"AA==","content_type":"bytes"}]}`},
		{"POST", path + "/messages/pull", `{"batch_size":50,"visibility_timeout":6000}`},
		{"POST", path + "/messages/ack", `{"acks":[{"lease_id":"L1"}],"retries":[{"lease_id":"L2","delay_seconds":10}]}`},
		{"POST", path + "/purge", `{"delete_messages_permanently":true}`},
		{"PUT", path + "/consumers/023e105f4ecef8ad9ca31a8372d0c353", `{"type":"http_pull"}`},
		{"POST", path + "/messages/peek", `{"batch_size":2}`},
		{"POST", path + "/messages/purge", `{"refs":[{"ref":"R1"}]}`},
		{"POST", path + "/messages/extend", `{"extend":[{"lease_id":"L1"}]}`},
		{"POST", path + "/messages/preview/ack", `{"acks":[{"lease_id":"L1"}]}`},
		{"GET", "/event_subscriptions/subscriptions?order=name&direction=desc&per_page=3", ""},
		{"GET", "/queues?page=2&per_page=3&name=a", ""},
		{"GET", "/queues/a%2Fb%00", ""},
		{"DELETE", "/queues//x/", ""},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, method, target, body string) {
		u, err := url.Parse("http://x" + base + target)
		if err != nil || strings.ContainsAny(method, " \r\n\t") || method == "" || strings.Contains(target, " ") {
			t.Skip("no server would hand this to a handler")
		}
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Method, r.URL = method, u
		w := httptest.NewRecorder()
		h.handler.ServeHTTP(w, r)
		a := readAnswer(t, w)
		require.Less(t, a.status, 500, a.raw)
	})
}

// FuzzHeaders sends anything as credentials and preferences to a server that asks for
// tokens: nobody gets in, and no answer is the server's fault.
func FuzzHeaders(f *testing.F) {
	h := start(f, cfqueues.Options{})
	path := h.make("jobs", "")
	good := h.token(true, true)
	for _, s := range [][4]string{
		{"Bearer x", "", "", "wait=5"}, {"Basic eA==", "key", "a@b.c", "respond-async, wait=\"9\";x"}, {"", "k", "", ""}, {"bearer", "", "@", "wait"},
	} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	f.Fuzz(func(t *testing.T, auth, key, email, prefer string) {
		if strings.Contains(auth+key, good) {
			return
		}
		r := httptest.NewRequest("POST", base+path+"/messages/pull", nil)
		r.Header.Set("Authorization", auth)
		r.Header.Set("X-Auth-Key", key)
		r.Header.Set("X-Auth-Email", email)
		r.Header.Set("Prefer", prefer)
		w := httptest.NewRecorder()
		h.handler.ServeHTTP(w, r)
		a := readAnswer(t, w)
		require.Contains(t, []int{400, 401}, a.status, a.raw)
	})
}
