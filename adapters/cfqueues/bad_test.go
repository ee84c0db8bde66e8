package cfqueues_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
)

// Whatever is wrong with a request, it gets this protocol's error and changes nothing.
func TestBadRequestsChangeNothing(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	h.push(path, "stays")
	leased := h.one(path)
	var before queue
	h.ok("GET", path, "", &before)
	bodies := []string{
		`{`, `nope`, "\xff", "{\"body\":\"\xc3\x28\"}", `[]`, `"x"`, `7`, `null`, `{"body":1}{"body":2}`, strings.Repeat(`{"body":`, 20000),
	}
	routes := []struct {
		method, path string
		alsoEmpty    bool
	}{
		{"POST", "/queues", true},
		{"POST", path + "/consumers", true},
		{"POST", path + "/messages", true},
		{"POST", path + "/messages/batch", true},
		{"POST", path + "/messages/pull", false},
		{"POST", path + "/messages/ack", false},
		{"POST", path + "/purge", true},
	}
	for _, r := range routes {
		all := bodies
		if r.alsoEmpty {
			all = append([]string{""}, all...)
		}
		for _, body := range all {
			a := h.call(r.method, r.path, body)
			require.Equal(t, 400, a.status, "%s %.50q: %s", r.path, body, a.raw)
			assert.Contains(t, []int{10207, 10208}, a.Errors[0].Code)
		}
	}
	for _, body := range []string{
		`{"acks":7}`, `{"acks":[7]}`, `{"acks":[{"lease_id":7}]}`, fmt.Sprintf(`{"acks":[{"lease_id":%q},{}]}`, leased.LeaseID),
		fmt.Sprintf(`{"acks":[{"lease_id":%q}],"retries":[{"lease_id":"x","delay_seconds":-1}]}`, leased.LeaseID),
		fmt.Sprintf(`{"acks":[{"lease_id":%q}],"retries":[{"lease_id":"x","delay_seconds":1e99}]}`, leased.LeaseID),
	} {
		a := h.call("POST", path+"/messages/ack", body)
		require.Equal(t, 400, a.status, body)
	}
	for _, body := range []string{
		`{"batch_size":-1}`, `{"batch_size":99999999999999999999}`, `{"batch_size":[]}`, `{"visibility_timeout_ms":1e18}`, `{"visibility_timeout":-5}`,
	} {
		h.refused("POST", path+"/messages/pull", body, 400, 10207)
	}
	assert.EqualValues(t, 1, h.backlog(path).BacklogCount)
	var after queue
	h.ok("GET", path, "", &after)
	assert.Equal(t, before, after)
	h.ack(path, leased.LeaseID).is(t, 1, 0, 0)
}

func TestRequestsAboveTheBodyLimit(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	srv := httptest.NewServer(h.handler)
	defer srv.Close()
	for p, code := range map[string]int{
		path + "/messages": 10204, path + "/messages/batch": 10205, path + "/messages/pull": 10207, path + "/messages/ack": 10207,
		path + "/consumers": 10207, path + "/purge": 10207, "/queues": 10207,
	} {
		for _, body := range []io.Reader{bytes.NewReader(make([]byte, 100<<20)), io.LimitReader(zeros{}, 100<<20)} {
			resp, err := http.Post(srv.URL+base+p, "application/json", body)
			require.NoError(t, err, p)
			raw, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, 413, resp.StatusCode, p)
			assert.Contains(t, string(raw), fmt.Sprintf(`"errors":[{"code":%d,`, code))
			assert.Equal(t, "false", resp.Header.Get("x-should-retry"))
		}
	}
	assert.EqualValues(t, 0, h.backlog(path).BacklogCount)
}

// zeros is a source without a length.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestRequestCutOffStoresNothing(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	srv := httptest.NewServer(h.handler)
	defer srv.Close()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	_, err = fmt.Fprintf(conn, "POST %s/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"body\":1}", base+path)
	require.NoError(t, err)
	tcp, ok := conn.(*net.TCPConn)
	require.True(t, ok)
	require.NoError(t, tcp.CloseWrite())
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "HTTP/1.1 400 Bad Request\r\n", line)
	require.NoError(t, conn.Close())
	assert.EqualValues(t, 0, h.backlog(path).BacklogCount)
}

// A client that left before its pull was served leaves nothing leased.
func TestPullOfAClientThatLeft(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	h.push(path, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, httptest.NewRequest("POST", base+path+"/messages/pull", nil).WithContext(ctx))
	m := h.one(path)
	assert.Equal(t, 1, m.Attempts)
}

func TestContentTypeOfARequestIsNotLookedAt(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	for i, ct := range []string{"application/json", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "", "garbage/;;"} {
		r := httptest.NewRequest("POST", base+path+"/messages", strings.NewReader(`{"body":1}`))
		r.Header.Set("Content-Type", ct)
		r.Header.Set("X-Auth-Email", "user@example.com")
		r.Header.Set("X-Auth-Key", "144c9defac04969c7bfad8efaa8ea194")
		r.Header.Set("Authorization", "Bearer anything")
		w := httptest.NewRecorder()
		h.handler.ServeHTTP(w, r)
		a := readAnswer(t, w)
		require.Equal(t, 200, a.status, a.raw)
		assert.NotEmpty(t, a.header.Get("cf-ray"))
		assert.EqualValues(t, i+1, h.backlog(path).BacklogCount)
	}
}

func TestServerThatCloses(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	require.NoError(t, h.engine.Shutdown(t.Context()))
	for _, r := range [][3]string{
		{"POST", path + "/messages", `{"body":1}`},
		{"POST", path + "/messages/pull", ""},
		{"POST", "/queues", `{"queue_name":"x"}`},
		{"POST", path + "/purge", `{"delete_messages_permanently":true}`},
	} {
		a := h.call(r[0], r[1], r[2])
		require.Equal(t, 503, a.status, "%v %s", r, a.raw)
		assert.Equal(t, "true", a.header.Get("x-should-retry"))
		assert.Equal(t, "1", a.header.Get("retry-after"))
	}
}

// Request lines that no client of this protocol sends.
func TestOddRequestLines(t *testing.T) {
	h := start(t, cfqueues.Options{})
	srv := httptest.NewUnstartedServer(h.handler)
	srv.Config.DisableGeneralOptionsHandler = true
	srv.Start()
	defer srv.Close()
	for _, line := range []string{
		"OPTIONS * HTTP/1.1", "GET //// HTTP/1.1", "GET /client/v4?a=%zz&b;c HTTP/1.1", "GET http://other/accounts/a/b HTTP/1.1",
		"CONNECT host:1 HTTP/1.1", "GET /accounts/a/queues/%2e%2e/%2F HTTP/1.1", "GET /accounts/a|b/queues/\"c\"%2F HTTP/1.1", "HEAD / HTTP/1.1",
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "%s\r\nHost: x\r\nConnection: close\r\n\r\n", line)
		require.NoError(t, err)
		raw, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		assert.True(t, strings.HasPrefix(string(raw), "HTTP/1.1 404 "), "%s: %.300q", line, raw)
		assert.Contains(t, string(raw), "Content-Type: application/json")
	}
}
