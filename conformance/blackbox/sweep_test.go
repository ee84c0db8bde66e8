package blackbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/memory"
)

// The sweep sends bad input to every route of every protocol. Each request gets the protocol's own
// kind of refusal, and none changes anything that any protocol can see.

// sweptRoute is a route with a request that is fine, and the edits that make it bad.
type sweptRoute struct {
	method, path string
	// body is fine as it is, and would change something; "" for routes that read none.
	body  string
	edits []edit
	// lenient routes take any body.
	lenient bool
	// most is the body limit in bytes when it is so low that it comes before everything else.
	most int
	// reads is for routes that change nothing; taken for those whose body is refused by what is
	// there already.
	reads, taken bool
}

// edit replaces a piece of the fine body, or the whole of it when from is "".
type edit struct {
	from, to string
	// status is the expected one; 0 is what the protocol answers to a body that it cannot read.
	status int
	// want has to be in the answer.
	want string
}

// refusal is how a protocol refuses.
type refusal struct {
	base string
	// unreadable is the status for bodies that are no JSON of the right shape.
	unreadable int
	// check looks at the shape of a refusal.
	check func(t *testing.T, request string, a Answer)
	// item tells whether a 200 is a refusal of all that was asked.
	item func(a Answer) bool
}

// sweeper runs the sweep over one server with some content.
type sweeper struct {
	c      *Clients
	before string
	sent   int
	// since are the requests since the state was looked at last.
	since []string
	// What is in the server, for bodies that would do something if they were accepted.
	partition, transaction, lease string
	item                          string
	cfLease                       string
}

// sweptProtocol is everything bad for one protocol.
type sweptProtocol struct {
	name    string
	refusal refusal
	routes  []sweptRoute
	others  []badRequest
}

func (s *sweeper) protocols(t *testing.T) []sweptProtocol {
	t.Helper()
	return []sweptProtocol{
		s.readSweep(t, "queen", s.queenRefusal()),
		s.readSweep(t, "querator", s.queratorRefusal()),
		s.readSweep(t, "cfqueues", s.cfRefusal()),
	}
}

func TestSweep(t *testing.T) {
	server := Start(t, t.TempDir())
	NewClock(server.Target).Freeze(t, noon)
	s := newSweeper(t, server.Target)
	for _, p := range s.protocols(t) {
		t.Run(p.name, func(t *testing.T) {
			for _, r := range p.routes {
				t.Run(r.method+strings.ReplaceAll(r.path, "/", "_"), func(t *testing.T) {
					s.sweepRoute(t, p.refusal, r)
					s.unchanged(t)
				})
			}
			t.Run("others", func(t *testing.T) {
				for _, o := range p.others {
					s.send(t, p.refusal, o)
				}
				s.unchanged(t)
			})
		})
	}
	t.Logf("%d bad requests", s.sent)
}

// TestSweepBeginsWithGoodRequests makes sure that the sweep's bodies are refused for what is bad
// about them: before they are edited they work.
func TestSweepBeginsWithGoodRequests(t *testing.T) {
	tried := 0
	for p, protocol := range (&sweeper{c: &Clients{}}).protocols(t) {
		for r := range protocol.routes {
			s := newSweeper(t, InProcess(t, memory.New(), ProgramOptions{Clock: coretest.New(noon)}))
			route, refusal := s.protocols(t)[p].routes[r], s.protocols(t)[p].refusal
			if route.lenient || route.taken {
				continue
			}
			tried++
			a, err := s.c.Conn.JSON(t.Context(), route.method, refusal.base+route.path, route.body)
			require.NoError(t, err)
			require.Contains(t, []int{http.StatusOK, http.StatusCreated}, a.Status, "%s %s: %s", route.path, route.body, a)
			require.False(t, refusal.item(a), "%s %s: %s", route.path, route.body, a)
			if !route.reads {
				require.NotEqual(t, s.before, s.snapshot(t), "%s %s changed nothing", route.path, route.body)
			}
		}
	}
	require.Greater(t, tried, 20)
}

// newSweeper puts waiting and leased messages of every protocol into a server. Its clock has to
// stand still, so that what it shows changes only by what is done to it.
func newSweeper(t *testing.T, target Target) *sweeper {
	t.Helper()
	s := &sweeper{c: NewClients(target)}
	ctx := t.Context()
	require.NoError(t, s.c.Querator.Create(ctx, QueratorQueue{Name: "sweep", LeaseTimeout: "1m", ExpireTimeout: "24h", Partitions: 2}))
	require.NoError(t, s.c.Cf.CreateConsumer(ctx, "sweep", CfConsumer{MaxRetries: 5}))
	require.NoError(t, s.c.Queen.Configure(ctx, "sweep-queen", `{"leaseTime":60}`))
	require.NoError(t, s.c.Queen.Configure(ctx, "a/b", `{}`))
	require.NoError(t, s.c.Querator.call(ctx, "/v1/namespaces.create", map[string]string{"name": "space"}, nil))
	s.fillQueen(t)
	require.NoError(t, s.c.Querator.Produce(ctx, "sweep", QueratorItem{UTF8: "a"}, QueratorItem{UTF8: "b"}, QueratorItem{UTF8: "c"}))
	leased, err := s.c.Querator.Lease(ctx, "sweep", "one", 1, time.Second)
	require.NoError(t, err)
	require.Zero(t, leased.Partition)
	s.item = leased.Items[0].ID
	pulled, err := s.c.Cf.Pull(ctx, "sweep", 1, 60_000)
	require.NoError(t, err)
	s.cfLease = pulled[0].LeaseID
	s.before = s.snapshot(t)
	require.NotContains(t, s.before, `"error":"`)
	require.NotContains(t, s.before, `"success":false`)
	require.NotContains(t, s.before, `"code_text"`)
	return s
}

// fillQueen makes a dead letter, two leased messages and one that waits.
func (s *sweeper) fillQueen(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	push := func(id string) {
		require.NoError(t, s.c.Queen.Push(ctx, QueenItem{Queue: "sweep-queen", Payload: `"` + id + `"`, TransactionID: id}))
	}
	pop := func(batch string) []QueenMessage {
		popped, err := s.c.Queen.Pop(ctx, "sweep-queen", "", url.Values{"batch": {batch}})
		require.NoError(t, err)
		return popped
	}
	push("dead")
	dead := pop("1")[0]
	_, err := s.c.Queen.Ack(ctx, "", QueenAck{TransactionID: "dead", PartitionID: dead.PartitionID, LeaseID: dead.LeaseID, Status: "dlq"})
	require.NoError(t, err)
	for i := range 3 {
		push("t" + strconv.Itoa(i))
	}
	first := pop("2")[0]
	s.partition, s.transaction, s.lease = first.PartitionID, first.TransactionID, first.LeaseID
}

// snapshot is everything that the protocols show of the server's state.
func (s *sweeper) snapshot(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	look := func(method, url, body string) {
		a, err := s.c.Conn.JSON(t.Context(), method, url, body)
		require.NoError(t, err)
		fmt.Fprintf(&b, "%s %s %s\n%d %s\n", method, url, body, a.Status, a.Body)
	}
	look("GET", s.c.Queen.Base+"/api/v1/resources/queues", "")
	look("GET", s.c.Queen.Base+"/api/v1/dlq", "")
	for _, q := range []string{"sweep", "sweep-queen", "a%2Fb"} {
		look("GET", s.c.Queen.Base+"/api/v1/resources/queues/"+q, "")
	}
	look("POST", s.c.Querator.Base+"/v1/queues.list", `{}`)
	look("GET", s.c.Queen.Base+"/api/v1/traces/names", "")
	look("POST", s.c.Querator.Base+"/v1/queue.stats", `{"queue_name":"sweep"}`)
	look("POST", s.c.Querator.Base+"/v1/namespaces.list", `{}`)
	for _, list := range []string{"items", "scheduled"} {
		for partition := range 2 {
			look("POST", s.c.Querator.Base+"/v1/storage/"+list+".list", fmt.Sprintf(`{"queue_name":"sweep","partition":%d}`, partition))
		}
	}
	look("GET", s.c.Cf.url("/queues"), "")
	look("GET", s.c.Cf.url("/queues/sweep/consumers"), "")
	look("GET", s.c.Cf.url("/queues/sweep/metrics"), "")
	look("GET", s.c.Cf.url("/queues/sweep/purge"), "")
	return b.String()
}

// badRequest is one request with what has to come back.
type badRequest struct {
	method, path, body string
	headers            []string
	status             int
	want               string
}

// unreadableBodies are no JSON, or none that any route takes.
var unreadableBodies = map[string]string{
	"cut short":         `{"a":`,
	"two values":        `{} {}`,
	"text":              `queue=sweep&payload=1`,
	"a string":          `"text"`,
	"a number":          `7`,
	"a full array":      `[{"queue":"sweep"}]`,
	"truth":             `true`,
	"single quotes":     `{'a':1}`,
	"not a number":      `{"a":NaN}`,
	"comma":             `{"a":1,}`,
	"NUL byte":          "{\"a\":\x00}",
	"control character": "{\"\x01\":1}",
	"invalid UTF-8":     "{\"\xff\xfe\":\"\xc3\x28\"}",
	"deep":              `{"a":` + strings.Repeat("[", 400),
	"very deep":         `{"a":` + strings.Repeat("[", 100_000),
}

// sweepRoute sends every edit of a route's fine body, and what is no body at all.
func (s *sweeper) sweepRoute(t *testing.T, p refusal, r sweptRoute) {
	t.Helper()
	if r.body != "" && !r.lenient {
		for _, body := range unreadableBodies {
			if r.most == 0 || len(body) <= r.most {
				s.send(t, p, badRequest{method: r.method, path: r.path, body: body, status: p.unreadable})
			}
		}
		// Each string of the fine body once with a byte that is not UTF-8 in it.
		for i := range strings.Count(r.body, `":"`) {
			parts := strings.SplitAfter(r.body, `":"`)
			parts[i] += "\xff"
			s.send(t, p, badRequest{method: r.method, path: r.path, body: strings.Join(parts, ""), status: p.unreadable})
		}
	}
	for _, e := range r.edits {
		body := e.to
		if e.from != "" {
			body = strings.Replace(r.body, e.from, e.to, 1)
			require.NotEqual(t, r.body, body, "%q is not in the fine body", e.from)
		}
		status := e.status
		if status == 0 {
			status = p.unreadable
		}
		s.send(t, p, badRequest{method: r.method, path: r.path, body: body, status: status, want: e.want})
	}
}

// send sends one bad request and holds the answer and the server's state against what must be.
func (s *sweeper) send(t *testing.T, p refusal, r badRequest) {
	t.Helper()
	s.sent++
	shown := fmt.Sprintf("%s %s %.300q", r.method, r.path, r.body)
	headers := append([]string{"Content-Type", "application/json"}, r.headers...)
	a, err := s.c.Conn.Do(t.Context(), r.method, p.base+r.path, reader(r.body), headers...)
	require.NoError(t, err, shown)
	assert.Equal(t, r.status, a.Status, "%s: %s", shown, a)
	if a.Status == http.StatusOK {
		assert.True(t, p.item(a), "%s was accepted: %s", shown, a)
	} else if a.Status != http.StatusNoContent {
		p.check(t, shown, a)
	}
	assert.Contains(t, string(a.Body), r.want, shown)
	// A look at everything costs more than the request, so several share one.
	if s.since = append(s.since, shown); len(s.since) >= 10 || t.Failed() {
		s.unchanged(t)
	}
}

// unchanged makes sure that nothing has changed since the last look.
func (s *sweeper) unchanged(t *testing.T) {
	t.Helper()
	if after := s.snapshot(t); after != s.before {
		t.Errorf("one of these changed something:\n%s\n%s", strings.Join(s.since, "\n"), firstDifference(s.before, after))
		s.before = after // what comes next is judged by itself
	}
	s.since = nil
}

// firstDifference shows the first lines that differ, with the line before, which names the request.
func firstDifference(before, after string) string {
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	for i := range min(len(was), len(is)) {
		if was[i] != is[i] {
			return fmt.Sprintf("%s\nwas %s\nis  %s", was[max(i-1, 0)], was[i], is[i])
		}
	}
	return "another number of lines"
}

// fields decodes an answer that has to be one JSON object.
func fields(t *testing.T, request string, a Answer) map[string]any {
	t.Helper()
	assert.Equal(t, "application/json", a.Header.Get("Content-Type"), "%s: %s", request, a)
	var out map[string]any
	require.NoError(t, json.Unmarshal(a.Body, &out), "%s: %s", request, a)
	return out
}
