package queen_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
	"github.com/leasehold/leasehold/conformance/target"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/memory"
)

// broker is the adapter over the engine and the memory store, behind a real
// listener, with a clock that the test moves.
//
// Where CONFORMANCE_TARGET_QUEEN names a server, that one stands behind the
// listener and has the clock; see conformance/target. The engine is then an
// empty one of its own, and tests that reach into it are not for that server.
type broker struct {
	clock  target.Clock
	local  *coretest.Clock // the engine's, which is the clock unless the server is a remote one
	store  *memory.Store   // nil over another store
	over   core.Store
	o      queen.Options
	engine *core.Engine
	server *httptest.Server
	remote *target.Remote
}

func newBroker(t *testing.T, o queen.Options) *broker {
	t.Helper()
	store := target.Open(t)
	b := newBrokerOver(t, store, o)
	b.store, _ = store.(*memory.Store)
	return b
}

// newBrokerOver is newBroker over another store, which it closes.
func newBrokerOver(t *testing.T, store core.Store, o queen.Options) *broker {
	t.Helper()
	b := &broker{local: coretest.New(coretest.Start), over: store, o: o, remote: target.Of(t, target.Queen)}
	b.clock = b.local
	if b.remote != nil {
		target.RequirePlain(t, o)
	}
	b.start(t)
	if b.remote != nil {
		b.server.Close()
		b.server, b.clock = b.remote.Server(t), b.remote.Clock(t)
	}
	t.Cleanup(func() {
		b.stop(t)
		require.NoError(t, store.Close())
	})
	return b
}

func (b *broker) start(t *testing.T) {
	t.Helper()
	engine, err := core.New(context.WithoutCancel(t.Context()), b.over, core.Options{Clock: b.local})
	require.NoError(t, err)
	b.engine = engine
	b.server = httptest.NewServer(queen.New(engine, b.o))
}

func (b *broker) stop(t *testing.T) {
	t.Helper()
	b.server.Close()
	require.NoError(t, b.engine.Shutdown(context.WithoutCancel(t.Context())))
}

// restart puts another engine over the same store, as a restart of the server does.
func (b *broker) restart(t *testing.T) {
	t.Helper()
	if b.remote != nil {
		b.remote.Restart(t)
		return
	}
	b.stop(t)
	b.start(t)
}

// exchange is a request and what must come back. Requests are bytes as a
// client sends them, less Host and Content-Length, which the runner adds.
type exchange struct {
	name     string
	request  string
	response string
}

// TestExchanges plays the files in testdata, one broker each. Their format:
//
//	=== name of the exchange        begins one; "=== @advance 61s" moves the clock
//	POST /path HTTP/1.1             the request: line, headers, an empty line, the body
//	---                             ends the request
//	201                             the response: status, headers to look for, an empty line, the body
//
// «name» in a response's body matches any text without a quote, and from then
// on stands for it.
func TestExchanges(t *testing.T) {
	files, err := filepath.Glob("testdata/*.http")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".http"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			b := newBroker(t, queen.Options{})
			known := map[string]string{}
			for _, e := range parseExchanges(string(text)) {
				if d, ok := strings.CutPrefix(e.name, "@advance "); ok {
					step, err := time.ParseDuration(d)
					require.NoError(t, err)
					b.clock.Advance(step)
					continue
				}
				b.play(t, e, known)
			}
		})
	}
}

func parseExchanges(text string) []exchange {
	blocks := strings.Split("\n"+text, "\n=== ")[1:]
	out := make([]exchange, 0, len(blocks))
	for _, block := range blocks {
		name, rest, _ := strings.Cut(block, "\n")
		request, response, _ := strings.Cut(rest, "\n---\n")
		out = append(out, exchange{name: name, request: request, response: strings.TrimRight(response, "\n")})
	}
	return out
}

// play sends a request's bytes and compares what comes back.
func (b *broker) play(t *testing.T, e exchange, known map[string]string) {
	t.Helper()
	status, header, body := b.raw(t, fill(e.request, known))
	want, rest, _ := strings.Cut(e.response, "\n")
	require.Equal(t, want, strconv.Itoa(status), "%s: %s", e.name, body)
	head, wantBody, _ := strings.Cut(rest, "\n\n")
	if strings.HasPrefix(rest, "\n") {
		head, wantBody = "", rest[1:]
	}
	for line := range strings.SplitSeq(head, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			require.Equal(t, value, header.Get(name), e.name)
		}
	}
	if status == http.StatusNoContent {
		require.Empty(t, header.Values("Content-Length"), e.name)
	} else {
		require.Equal(t, "application/json", header.Get("Content-Type"), e.name)
	}
	match(t, e.name, wantBody, body, known)
}

// raw writes a request to a connection of its own and reads the response.
func (b *broker) raw(t *testing.T, request string) (int, http.Header, string) {
	t.Helper()
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	head, body, _ := strings.Cut(request, "\n\n")
	var out bytes.Buffer
	for i, line := range strings.Split(strings.TrimSuffix(head, "\n"), "\n") {
		out.WriteString(line + "\r\n")
		if i == 0 {
			out.WriteString("Host: localhost:6632\r\n")
		}
	}
	if !strings.HasPrefix(head, "GET ") && !strings.Contains(head, "Content-Length: ") {
		fmt.Fprintf(&out, "Content-Length: %d\r\n", len(body))
	}
	out.WriteString("\r\n" + body)
	_, err = conn.Write(out.Bytes())
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, response.Header, string(got)
}

var token = regexp.MustCompile(`«([a-z0-9]+)»`)

// fill puts what is known into a request.
func fill(text string, known map[string]string) string {
	return token.ReplaceAllStringFunc(text, func(name string) string {
		return known[token.FindStringSubmatch(name)[1]]
	})
}

// match compares a body with its pattern and learns the tokens that are new.
func match(t *testing.T, name, pattern, body string, known map[string]string) {
	t.Helper()
	var names []string
	var expr strings.Builder
	last := 0
	for _, at := range token.FindAllStringSubmatchIndex(pattern, -1) {
		expr.WriteString(regexp.QuoteMeta(pattern[last:at[0]]))
		key := pattern[at[2]:at[3]]
		if value, ok := known[key]; ok {
			expr.WriteString(regexp.QuoteMeta(value))
		} else {
			expr.WriteString(`([^"]*)`)
			names = append(names, key)
		}
		last = at[1]
	}
	expr.WriteString(regexp.QuoteMeta(pattern[last:]))
	found := regexp.MustCompile(`(?s)^` + expr.String() + `$`).FindStringSubmatch(body)
	require.NotNil(t, found, "%s\nwant %s\n got %s", name, shown(pattern, known), body)
	for i, key := range names {
		known[key] = found[i+1]
	}
}

// shown is fill for messages: unknown tokens stay visible.
func shown(text string, known map[string]string) string {
	return token.ReplaceAllStringFunc(text, func(name string) string {
		if value, ok := known[token.FindStringSubmatch(name)[1]]; ok {
			return value
		}
		return name
	})
}
