package querator_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/querator"
)

// everyRoute lists all routes with a body that would do something to the queue q.
var everyRoute = map[string]string{ //nolint:gosec // the words of the protocol, and no credentials
	"/v1/queue.produce":  `{"queue_name":"q","request_timeout":"1m","items":[{"utf8":"x"}]}`,
	"/v1/queue.reserve":  `{"queue_name":"q","client_id":"c","batch_size":1,"request_timeout":"1m"}`,
	"/v1/queue.lease":    `{"queue_name":"q","client_id":"c","batch_size":1,"request_timeout":"1m"}`,
	"/v1/queue.complete": `{"queue_name":"q","request_timeout":"1m","ids":["x"]}`,
	"/v1/queue.defer":    `{"queue_name":"q","items":[{"id":"x"}]}`,
	"/v1/queue.retry":    `{"queue_name":"q","items":[{"id":"x"}]}`,
	"/v1/queue.stats":    `{"queue_name":"q"}`,
	"/v1/queues.create":  `{"queue_name":"new","lease_timeout":"1m","expire_timeout":"1h","requested_partitions":1}`,
	"/v1/queues.info":    `{"queue_name":"q"}`,
	"/v1/queues.list":    `{"pivot":"a"}`,
	"/v1/queues.delete":  `{"queue_name":"q"}`,
	"/v1/queues.update":  `{"queue_name":"q","max_attempts":7}`,
	"/v1/queue.clear":    `{"queue_name":"q","queue":true}`,
	"/v1/queue.reload":   `{"queue_name":"q"}`,

	"/v1/storage/items.list":     `{"queue_name":"q"}`,
	"/v1/storage/items.import":   `{"queue_name":"q","items":[{"payload":"eA=="}]}`,
	"/v1/storage/items.delete":   `{"queue_name":"q","ids":["x"]}`,
	"/v1/storage/scheduled.list": `{"queue_name":"q"}`,

	"/v1/namespaces.create": `{"name":"n"}`,
	"/v1/namespaces.update": `{"name":"n"}`,
	"/v1/namespaces.list":   `{"pivot":"n"}`,
	"/v1/namespaces.delete": `{"name":"n"}`,
	"/v1/apikeys.create":    `{"name":"n"}`,
	"/v1/apikeys.list":      `{"pivot":"n"}`,
	"/v1/apikeys.delete":    `{"id":"n"}`,
	"/v1/queue.update":      `{"name":"q","max_attempts":7}`,
}

// state is what bad input must not change.
func (f *fixture) state() string {
	f.t.Helper()
	all := f.ok("/v1/queues.list", `{}`).body + f.ok("/v1/queue.stats", `{"queue_name":"q"}`).body
	if a := f.post("/v1/namespaces.list", `{}`); f.remote != nil && a.status == http.StatusNotImplemented {
		return all // another server, of a generation without them
	}
	return all + f.ok("/v1/namespaces.list", `{}`).body + f.ok("/v1/apikeys.list", `{}`).body
}

func TestBadInputChangesNothing(t *testing.T) {
	for path, good := range everyRoute {
		t.Run(path, func(t *testing.T) {
			f := newFixture(t, querator.Options{})
			f.create("q")
			f.ok("/v1/queue.produce", produceBody(2))
			before := f.state()
			member := strings.TrimPrefix(good, "{")
			for name, body := range map[string]string{
				"empty": "", "null": "null", "list": "[" + good + "]", "number": "1", "cut off": good[:len(good)-1],
				"more after it": good + good, "unknown member": `{"bogus":1,` + member, "doubled member": strings.TrimSuffix(good, "}") + "," + member,
				"wrong type": strings.Replace(good, `"q"`, `7`, 1) + "x", "invalid UTF-8": "{\"\xff\":1," + member,
				"lone surrogate": strings.Replace(good, `"`, `"\ud800`, 1), "huge number": `{"limit":1e400,"partition":1e400,"batch_size":1e400,` + member,
			} {
				a := f.post(path, body)
				require.Equal(t, 455, a.status, "%s: %s", name, a.body)
				require.NotEmpty(t, a.message(t), name)
			}
			for name, body := range map[string]string{"garbage": "\xff\xff\xff", "cut off": "\n\x05q", "invalid UTF-8": "\n\x01\xff\x12\x01\xff"} {
				a := f.do(http.MethodPost, path, body, "Content-Type", "application/protobuf")
				require.Equal(t, 455, a.status, "%s: %q", name, a.body)
				require.Equal(t, "application/protobuf", a.header.Get("Content-Type"), "protobuf is answered in protobuf")
			}
			for name, headers := range map[string][]string{
				"content type": {"Content-Type", "text/plain"}, "accept": {"Accept", "text/html"}, "authorization": {"Authorization", "Basic x"},
			} {
				a := f.do(http.MethodPost, path, good, headers...)
				require.Contains(t, []int{455, 401}, a.status, "%s: %s", name, a.body)
			}
			for _, method := range []string{"GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "get"} {
				require.Equal(t, 400, f.do(method, path, good).status, method)
			}
			require.Equal(t, 501, f.post(path+"/", good).status)
			require.Equal(t, before, f.state())
		})
	}
}

func TestBodiesAreBounded(t *testing.T) {
	f := newFixture(t, querator.Options{MaxProduceBytes: 10_000})
	f.create("q")
	for path, limit := range map[string]int{
		"/v1/queue.lease": 512, "/v1/queue.reserve": 512, "/v1/queue.stats": 512, "/v1/queue.complete": 256_000, "/v1/queue.retry": 256_000,
		"/v1/queue.defer": 256_000, "/v1/queues.create": 256_000, "/v1/queues.list": 256_000, "/v1/queues.info": 256_000, "/v1/queues.delete": 256_000,
		"/v1/queue.produce": 10_000, "/v1/queue.clear": 512, "/v1/queue.reload": 512, "/v1/queues.update": 512_000,
		"/v1/storage/items.list": 256_000, "/v1/storage/items.delete": 256_000, "/v1/storage/scheduled.list": 256_000,
		"/v1/namespaces.create": 256_000, "/v1/apikeys.create": 256_000,
	} {
		fits := f.post(path, "{"+strings.Repeat(" ", limit-2)+"}")
		require.NotContains(t, fits.body, "exceeds", path)
		over := f.post(path, "{"+strings.Repeat(" ", limit-1)+"}")
		require.Equal(t, 400, over.status, path)
		require.Contains(t, over.message(t), "request body exceeds ", path)
	}
	require.Equal(t, "request body exceeds 10.0kB limit", f.post("/v1/queue.produce", strings.Repeat("x", 10_001)).message(t))
	require.Equal(t, "request body exceeds 500.0KiB limit", f.post("/v1/queues.update", strings.Repeat("x", 512_001)).message(t))
	require.Equal(t, "request body exceeds 61.0MiB limit", f.post("/v1/storage/items.import", strings.Repeat("x", 64_000_001)).message(t))
}

func TestAHugeBodyIsAnswered(t *testing.T) {
	f := newFixture(t, querator.Options{})
	server := httptest.NewServer(f.handler)
	defer server.Close()
	for name, chunked := range map[string]bool{"with a length": false, "without": true} {
		var body io.Reader = bytes.NewReader(make([]byte, 100<<20))
		if chunked {
			body = io.MultiReader(body)
		}
		res, err := server.Client().Post(server.URL+"/v1/queue.produce", "application/json", body)
		require.NoError(t, err, name)
		b, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, 400, res.StatusCode)
		exact(t, `{"code":400,"code_text":"Bad Request","message":"request body exceeds 5.0MB limit"}`, string(b), name)
	}
}

func TestStrangeNames(t *testing.T) {
	f := newFixture(t, querator.Options{})
	for _, name := range []string{`\u0000`, `é`, `😀`, `a/b%2Fc`, `\"`, `<&>`, strings.Repeat("n", 400)} {
		f.create(name)
		f.ok("/v1/queue.produce", `{"queue_name":"`+name+`","request_timeout":"1m","items":[{"kind":"<\u0000\">","reference":"é"}]}`)
		a := f.ok("/v1/queue.lease", `{"queue_name":"`+name+`","client_id":"c","batch_size":1,"request_timeout":"1m"}`)
		item := a.items(t)[0]
		require.Equal(t, "<\x00\">", item["kind"])
		require.Equal(t, "é", item["reference"])
		require.Equal(t, 200, f.post("/v1/queues.delete", `{"queue_name":"`+name+`"}`).status)
	}
}

func TestPayloadsComeBackByteForByte(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	c := f.official()
	for _, payload := range []string{
		`{ "b":1.50, "a" : "<&>" }`, `9007199254740993`, `{"a":1,"a":2}`, "", "a\x00b", "\xff\xfe", strings.Repeat("x", 1<<20),
	} {
		requireRoundTrip(t, f, c, payload)
	}
}
