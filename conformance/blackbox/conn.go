package blackbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// Answer is an HTTP answer, read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// String shows the status and the beginning of the body.
func (a Answer) String() string {
	const most = 600
	body := string(a.Body)
	if len(body) > most {
		body = body[:most] + "…"
	}
	return fmt.Sprintf("%d %s", a.Status, body)
}

// RefusedError says that the server answered, and what; without it a request's fate is unknown.
type RefusedError struct {
	Request string
	Answer  Answer
}

// Error shows the request's line and the answer.
func (e *RefusedError) Error() string { return e.Request + ": " + e.Answer.String() }

// Refused returns the answer inside err, and whether there is one.
func Refused(err error) (Answer, bool) {
	var r *RefusedError
	if errors.As(err, &r) {
		return r.Answer, true
	}
	return Answer{}, false
}

// Conn sends requests. It keeps connections open and goes to the address in the URL only. It may
// be used from any goroutine.
type Conn struct{ client *http.Client }

// NewConn returns a Conn without connections.
func NewConn() *Conn {
	return &Conn{&http.Client{
		Transport: &http.Transport{
			Proxy: nil, MaxIdleConnsPerHost: 256, DisableCompression: true, IdleConnTimeout: time.Minute,
			ExpectContinueTimeout: 30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// NewSpreadConn returns a Conn that sends each request to one of several servers at random: servers
// has their addresses (host:port) by the host name that stands for them in URLs.
func NewSpreadConn(servers map[string][]string) *Conn {
	c := NewConn()
	c.client.Transport = spread{c.client.Transport, servers}
	return c
}

// spread chooses a server for each request.
type spread struct {
	http.RoundTripper
	servers map[string][]string
}

// RoundTrip implements http.RoundTripper.
func (s spread) RoundTrip(r *http.Request) (*http.Response, error) {
	if all := s.servers[r.URL.Host]; len(all) > 0 {
		r = r.Clone(r.Context())
		r.URL.Host = all[rand.IntN(len(all))]
	}
	return s.RoundTripper.RoundTrip(r)
}

// Close closes idle connections.
func (c *Conn) Close() { c.client.CloseIdleConnections() }

// Do sends one request with headers in pairs, and reads the answer to its end. An error means
// that no complete answer came.
func (c *Conn) Do(ctx context.Context, method, url string, body io.Reader, headers ...string) (Answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return Answer{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.client.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return Answer{res.StatusCode, res.Header, b}, err
}

// JSON sends a body as application/json; "" sends no body.
func (c *Conn) JSON(ctx context.Context, method, url, body string) (Answer, error) {
	return c.Do(ctx, method, url, reader(body), "Content-Type", "application/json")
}

// call sends JSON and decodes the answer into out unless that is nil. Any status but want is a
// *RefusedError.
func (c *Conn) call(ctx context.Context, method, url string, body []byte, want int, out any) (Answer, error) {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	a, err := c.Do(ctx, method, url, r, "Content-Type", "application/json")
	if err != nil {
		return a, err
	}
	if a.Status != want {
		return a, &RefusedError{method + " " + url, a}
	}
	if out == nil {
		return a, nil
	}
	if err := json.Unmarshal(a.Body, out); err != nil {
		return a, fmt.Errorf("%s %s: %w in %s", method, url, err, a)
	}
	return a, nil
}

// text spells s as a JSON string.
func text(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // a string can always be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// reader reads a body; "" is none.
func reader(body string) io.Reader {
	if body == "" {
		return nil
	}
	return strings.NewReader(body)
}
