package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/blackbox"
)

// fixedID is the id that the vendor's suites call every object by.
const fixedID = account

// fixture stands before a server and gives every request of the vendor's suites what they take
// for granted, since they were written against a mock without a memory: a queue, a pull consumer
// and an event subscription by the fixed id. Before each request it restores them, then passes
// the request on with the server's own ids in the path, and in the body for a subscription's
// queue. The answer passes unchanged.
type fixture struct {
	t    *testing.T
	base string
	conn *blackbox.Conn

	mu sync.Mutex
	// passed counts the requests passed on by method and path, with the fixed ids.
	passed map[string]int
}

// newFixture returns the fixture and its base URL.
func newFixture(t *testing.T, s *blackbox.Server) (*fixture, string) {
	t.Helper()
	f := &fixture{t: t, base: s.Cfqueues, conn: blackbox.NewConn(), passed: map[string]int{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, server.URL
}

// ServeHTTP passes one request on. The suites probe the root path before each test.
func (f *fixture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := r.URL.Path
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the suite has gone
	}
	if strings.HasPrefix(path, "/accounts/") {
		f.passed[r.Method+" "+path]++
		ids, err := f.restore(r.Context(), r.Method == http.MethodPost && strings.HasSuffix(path, "/consumers"))
		if err != nil {
			f.t.Errorf("restore the fixture before %s %s: %v", r.Method, path, err)
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		path = ids.in(path)
		body = bytes.ReplaceAll(body, []byte(`"queue_id":"queue_id"`), []byte(`"queue_id":"`+ids.queue+`"`))
	}
	headers := []string{}
	for name := range r.Header {
		headers = append(headers, name, r.Header.Get(name))
	}
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	a, err := f.conn.Do(r.Context(), r.Method, f.base+path, bytes.NewReader(body), headers...)
	if err != nil {
		f.t.Errorf("%s %s: %v", r.Method, path, err)
		return
	}
	if a.Status >= 400 && path != "/" {
		f.t.Errorf("%s %s: %s", r.Method, path, a)
	}
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // a failure means that the suite has gone
}

// fixtureIDs are the server's ids of what the suites call by fixedID.
type fixtureIDs struct{ queue, consumer, subscription string }

// in replaces the fixed id behind the name of a collection; the account keeps it.
func (ids fixtureIDs) in(path string) string {
	parts := strings.Split(path, "/")
	for i := 1; i < len(parts); i++ {
		if parts[i] != fixedID {
			continue
		}
		switch parts[i-1] {
		case "queues":
			parts[i] = ids.queue
		case "consumers":
			parts[i] = ids.consumer
		case "subscriptions":
			parts[i] = ids.subscription
		}
	}
	return strings.Join(parts, "/")
}

// restore removes everything and makes the fixture anew.
func (f *fixture) restore(ctx context.Context, bare bool) (ids fixtureIDs, err error) {
	if err := f.clear(ctx); err != nil {
		return ids, err
	}
	var made struct {
		Queue        string `json:"queue_id"`
		Consumer     string `json:"consumer_id"`
		Subscription string `json:"id"`
	}
	if err := f.call(ctx, "POST", "/queues", `{"queue_name":"other-queue"}`, &made); err != nil {
		return ids, err
	}
	ids.queue = made.Queue
	if !bare {
		if err := f.call(ctx, "POST", "/queues/"+ids.queue+"/consumers", `{"type":"http_pull"}`, &made); err != nil {
			return ids, err
		}
		ids.consumer = made.Consumer
	}
	err = f.call(ctx, "POST", "/event_subscriptions/subscriptions",
		`{"name":"s","enabled":true,"events":["x"],"source":{"type":"kv"},"destination":{"type":"queues.queue","queue_id":"`+ids.queue+`"}}`, &made)
	ids.subscription = made.Subscription
	return ids, err
}

type fixtureQueue struct {
	ID        string `json:"queue_id"`
	Name      string `json:"queue_name"`
	Consumers []struct {
		Dead string `json:"dead_letter_queue"`
	}
}

// clear deletes every subscription and queue; one that serves as dead letter queue goes after its
// users.
func (f *fixture) clear(ctx context.Context) error {
	var list []struct{ ID string }
	if err := f.call(ctx, "GET", "/event_subscriptions/subscriptions", "", &list); err != nil {
		return err
	}
	for _, s := range list {
		if err := f.call(ctx, "DELETE", "/event_subscriptions/subscriptions/"+s.ID, "", nil); err != nil {
			return err
		}
	}
	var queues []fixtureQueue
	if err := f.call(ctx, "GET", "/queues", "", &queues); err != nil {
		return err
	}
	for len(queues) > 0 {
		used := map[string]bool{}
		for _, q := range queues {
			for _, c := range q.Consumers {
				used[c.Dead] = true
			}
		}
		i := slices.IndexFunc(queues, func(q fixtureQueue) bool { return !used[q.Name] })
		if err := f.call(ctx, "DELETE", "/queues/"+queues[i].ID, "", nil); err != nil {
			return err
		}
		queues = slices.Delete(queues, i, i+1)
	}
	return nil
}

// call sends a request of the fixture's own and decodes the result.
func (f *fixture) call(ctx context.Context, method, path, body string, out any) error {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	a, err := f.conn.Do(ctx, method, f.base+"/accounts/"+account+path, reader)
	if err != nil {
		return err
	}
	if a.Status != http.StatusOK {
		return &blackbox.RefusedError{Request: method + " " + path, Answer: a}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(a.Body, &struct{ Result any }{out})
}

func TestFixtureReplacesIDsInPaths(t *testing.T) {
	ids := fixtureIDs{queue: "q", consumer: "c", subscription: "s"}
	require.Equal(t, "/accounts/"+fixedID+"/queues/q/consumers/c", ids.in("/accounts/"+fixedID+"/queues/"+fixedID+"/consumers/"+fixedID))
	require.Equal(t, "/accounts/"+fixedID+"/event_subscriptions/subscriptions/s", ids.in("/accounts/"+fixedID+"/event_subscriptions/subscriptions/"+fixedID))
	require.Equal(t, "/accounts/"+fixedID+"/queues", ids.in("/accounts/"+fixedID+"/queues"))
}
