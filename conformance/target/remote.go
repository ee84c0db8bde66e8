package target

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// The protocols, as the variables name them.
const (
	Queen    = "QUEEN"
	Querator = "QUERATOR"
	Cfqueues = "CFQUEUES"
)

// AnswerWithin bounds how long a server may take for one answer, so that one that never comes fails its own case and no other.
func AnswerWithin() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(AnswerVariable)); err == nil {
		return d
	}
	return 15 * time.Second
}

// Clock is what tests do with time.
type Clock interface {
	// Now is the server's time.
	Now() core.Time
	// Advance moves the server's time forward; what comes due happens.
	Advance(d time.Duration)
	// Set moves the server's time forward to a moment.
	Set(t time.Time)
}

// Remote is a server outside the test's process: one or more replicas.
type Remote struct {
	protocol string
	// urls has the replicas by family; "" is the listener of every family.
	urls     map[string][]string
	controls []string
	// counters are listeners, one of each replica, that tell how many consumers wait.
	counters []string
	// only is the replica that gets every request of the test, below 0 when each may get any.
	only int
	// looks tells that every replica looks at what the others did before each request.
	looks    bool
	operator string
	shift    shift
	client   *http.Client
}

// Of returns the server that tests of a protocol run against, emptied and with
// its clocks at coretest.Start, or nil when they run in process. It notes the test as a case.
func Of(tb testing.TB, protocol string) *Remote {
	tb.Helper()
	Note(tb)
	entries := list(TargetVariable + protocol)
	if len(entries) == 0 {
		return nil
	}
	r := &Remote{
		protocol: protocol, controls: list(ControlVariable), operator: os.Getenv(OperatorVariable), only: onlyReplica(tb.Name()), looks: listed(LookFirstVariable, tb.Name()),
		client: &http.Client{
			Transport:     &http.Transport{Proxy: nil, DisableCompression: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	r.urls, r.counters = byFamily(entries), nil
	for family, urls := range byFamily(list(TargetVariable + Querator)) {
		if family == "" || family == "L1" && r.counters == nil {
			r.counters = urls
		}
	}
	tb.Cleanup(r.client.CloseIdleConnections)
	r.begin(tb)
	r.empty(tb)
	r.forget(tb)
	return r
}

// VariesBlanks reports whether the blanks between members of the server's JSON are not to be compared.
func (r *Remote) VariesBlanks() bool { return os.Getenv(BlanksVariable) != "" }

// RequirePlain skips a test whose server would have to be started with other
// settings than it was: options are those that the test wants, zero for none.
func RequirePlain(tb testing.TB, options any) {
	tb.Helper()
	if !reflect.ValueOf(options).IsZero() {
		Note(tb)
		tb.Skip("needs a server with settings of its own")
	}
}

// byFamily sorts URLs by the family in front of them.
func byFamily(entries []string) map[string][]string {
	out := map[string][]string{}
	for _, e := range entries {
		family, url, ok := strings.Cut(e, "=")
		if !ok || strings.Contains(family, "/") {
			family, url = "", e
		}
		out[family] = append(out[family], url)
	}
	return out
}

// InProcess says that tests of a protocol run in process.
func InProcess(protocol string) bool { return os.Getenv(TargetVariable+protocol) == "" }

// pick chooses a replica's listener for a family at random, "" where none speaks it.
func (r *Remote) pick(family string) string {
	all := r.urls[family]
	if len(all) == 0 {
		return ""
	}
	if r.looks && len(all) > 1 {
		for _, counter := range r.counters {
			_, _, _ = r.send(context.Background(), http.MethodPost, counter+lookPath, lookBody) // where it fails, so will the request
		}
	}
	i := rand.IntN(len(all))
	if r.only >= 0 {
		i = r.only % len(all)
	}
	return all[i]
}

// family finds the listener that serves a family: its own, for "" that of every family or the only one there is.
func (r *Remote) family(tb testing.TB, family string) string {
	tb.Helper()
	if family == "auto" {
		family = ""
	}
	if len(r.urls[family]) > 0 {
		return family
	}
	if family == "" && len(r.urls) == 1 {
		for only := range r.urls {
			return only
		}
	}
	tb.Skipf("the target has no listener of family %q", family)
	panic("unreachable")
}

// Handler forwards each request to one of the replicas. Tests of families that
// no listener speaks are skipped.
func (r *Remote) Handler(tb testing.TB, family string) http.Handler {
	tb.Helper()
	family = r.family(tb, family)
	return http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		base := r.pick(family)
		ctx, cancel := context.WithTimeout(in.Context(), AnswerWithin())
		defer cancel()
		out, err := http.NewRequestWithContext(ctx, in.Method, base, shifted{in.Body, r.shift.toServer})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		out.URL.Opaque, out.URL.RawQuery = in.URL.EscapedPath(), string(r.shift.toServer([]byte(in.URL.RawQuery)))
		switch {
		case out.URL.Opaque == "":
			out.URL.Opaque = "/"
		case strings.HasPrefix(out.URL.Opaque, "//"): // would be taken for a host
			out.URL.Opaque = "//" + out.URL.Host + out.URL.Opaque
		}
		out.Header, out.ContentLength = in.Header.Clone(), in.ContentLength
		if out.ContentLength == 0 {
			out.Body = http.NoBody
		}
		if _, ok := out.Header["User-Agent"]; !ok {
			out.Header["User-Agent"] = []string{""} // none, instead of the client's own
		}
		res, err := r.client.Do(out) //nolint:gosec // the address is the tester's own
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = res.Body.Close() }()
		for name, values := range res.Header {
			if name != "Date" {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, shifted{res.Body, r.shift.toTest}) // the test sees a body that ends early
	})
}

// shifted is a stream whose times are moved, piece by piece: a time that lies
// across two pieces stays as it is, which the pieces' size makes rare.
type shifted struct {
	io.ReadCloser
	move func([]byte) []byte
}

// Read implements io.Reader.
func (s shifted) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	copy(p, s.move(p[:n]))
	return n, err
}

// WriteTo implements io.WriterTo, so that whole pieces are read.
func (s shifted) WriteTo(w io.Writer) (int64, error) {
	const piece = 1 << 20
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{s}, make([]byte, piece))
}

// call sends a request of the harness's own and fails the test unless the answer is 200.
func (r *Remote) call(tb testing.TB, method, url, body string) []byte {
	tb.Helper()
	status, text := r.ask(tb, method, url, body)
	require.Equal(tb, http.StatusOK, status, "%s %s %s: %s", method, url, body, text)
	return text
}

// ask sends a request of the harness's own.
func (r *Remote) ask(tb testing.TB, method, url, body string) (int, []byte) {
	tb.Helper()
	status, text, err := r.send(context.WithoutCancel(tb.Context()), method, url, body)
	require.NoError(tb, err)
	return status, text
}

func (r *Remote) send(ctx context.Context, method, url, body string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := r.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, text, err
}
