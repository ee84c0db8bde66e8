package bench

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// replyTo sends a request over the first connection and waits for its reply.
func replyTo(t *testing.T, w wire, request []byte) (got reply) {
	t.Helper()
	answered := false
	w.send(0, request)
	for until := time.Now().Add(10 * time.Second); !answered; {
		require.True(t, time.Now().Before(until), "no reply")
		require.NoError(t, w.wait(until, func(r reply) {
			answered, got = true, r
			got.body = append([]byte(nil), r.body...)
		}))
	}
	return got
}

// dialed opens a connection to a server.
func dialed(t *testing.T, driver, addr string) wire {
	t.Helper()
	w, err := newWire(driver, []string{addr})
	require.NoError(t, err)
	t.Cleanup(w.close)
	require.NoError(t, w.dial())
	return w
}

func TestWireReadsAnswersInAnyPieces(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nWiki\r\n5 \r\npedia\r\n0\r\nTrailer: x\r\n\r\n"
	for want, text := range map[string]string{
		"hello":     "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: \r\n\r\nhello",
		"Wikipedia": chunked,
		"":          "HTTP/1.1 204 No Content\r\n\r\n",
		"refused":   "HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\nrefused",
	} {
		var cut atomic.Int64
		addr := raw(t, func(_ int, c net.Conn) {
			for in := bufio.NewReader(c); ; {
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				n := int(cut.Load())
				_, _ = io.WriteString(c, text[:n])
				if n < len(text) {
					time.Sleep(time.Millisecond) // so that the pieces arrive as such
					_, _ = io.WriteString(c, text[n:])
				}
			}
		})
		for _, driver := range drivers(t) {
			t.Run(driver, func(t *testing.T) {
				w := dialed(t, driver, addr)
				for n := range len(text) + 1 {
					cut.Store(int64(n))
					r := replyTo(t, w, bare(&spec{host: "x"}, "GET", "/"))
					require.NoError(t, r.err)
					require.Equal(t, want, string(r.body))
					require.Equal(t, text[9:12], strconv.Itoa(r.status))
				}
			})
		}
	}
}

func TestWireSendsAndReadsWhatIsLargerThanAnyBuffer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}))
	defer server.Close()
	for _, driver := range drivers(t) {
		t.Run(driver, func(t *testing.T) {
			w := dialed(t, driver, server.Listener.Addr().String())
			b := builder{body: text(20 << 20)}
			for range 2 {
				r := replyTo(t, w, b.post(&spec{host: "x"}, "/"))
				require.NoError(t, r.err)
				require.Equal(t, string(b.body), string(r.body))
			}
		})
	}
}

func TestWireOpensAgainWhatWasClosed(t *testing.T) {
	for name, text := range map[string]string{
		"after the answer": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"announced":        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			addr := raw(t, func(_ int, c net.Conn) {
				_, _ = http.ReadRequest(bufio.NewReader(c))
				_, _ = io.WriteString(c, text)
			})
			for _, driver := range drivers(t) {
				t.Run(driver, func(t *testing.T) {
					w := dialed(t, driver, addr)
					for range 5 {
						r := replyTo(t, w, bare(&spec{host: "x"}, "GET", "/"))
						require.NoError(t, r.err)
						require.Equal(t, "ok", string(r.body))
					}
				})
			}
		})
	}
}

func TestWireTellsOfARequestThatFailed(t *testing.T) {
	for name, text := range map[string]string{
		"no answer": "", "cut answer": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "no HTTP": "SSH-2.0-OpenSSH_9.6\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			addr := raw(t, func(_ int, c net.Conn) {
				_, _ = http.ReadRequest(bufio.NewReader(c))
				_, _ = io.WriteString(c, text)
			})
			for _, driver := range drivers(t) {
				t.Run(driver, func(t *testing.T) {
					require.Error(t, replyTo(t, dialed(t, driver, addr), bare(&spec{host: "x"}, "GET", "/")).err)
				})
			}
		})
	}
}

// A run goes on while the server is away, and after it has come back.
func TestRunOutlivesAServerThatGoesAway(t *testing.T) {
	for _, driver := range drivers(t) {
		t.Run(driver, func(t *testing.T) {
			var asked atomic.Int64
			m := &meeting{}
			for range 1000 {
				m.data = append(m.data, "x")
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1)%5 == 0 {
					hijacked, _, err := http.NewResponseController(w).Hijack()
					if err == nil {
						_ = hijacked.Close()
					}
					return
				}
				m.ServeHTTP(w, r)
			}))
			defer server.Close()
			o := runLoad(t, server, load{kind: kindSettle, batch: 1, clients: 4}, 200, options{driver: driver})
			require.GreaterOrEqual(t, o.removed, int64(200))
		})
	}
}

// runLoad runs a load once at a server for Queen's loads, until so many messages are settled.
func runLoad(t *testing.T, server *httptest.Server, l load, limit int64, o options) *outcome {
	t.Helper()
	s := &spec{host: server.Listener.Addr().String(), queue: "q", batch: l.batch, payload: 40, partitions: 1, groups: 1}
	f, err := newFleet(queen{}, []*spec{s}, l, watched{}, o)
	require.NoError(t, err)
	defer f.close()
	out, err := f.run(time.Minute, limit)
	require.NoError(t, err)
	return out
}

func TestRefusalsAreCountedAndTold(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no room", http.StatusTooManyRequests)
	}))
	defer server.Close()
	s := &spec{host: server.Listener.Addr().String(), queue: "q", batch: 1, payload: 10, partitions: 1, groups: 1}
	for _, driver := range drivers(t) {
		t.Run(driver, func(t *testing.T) {
			for _, k := range []kind{kindPush, kindSettle} {
				f, err := newFleet(queen{}, []*spec{s}, load{kind: k, batch: 1, clients: 2}, watched{}, options{driver: driver})
				require.NoError(t, err)
				_, err = f.run(50*time.Millisecond, unlimited)
				require.ErrorContains(t, err, "status 429: no room")
				f.close()
			}
		})
	}
}

// meeting is a server that keeps messages in memory, enough for both sides of a load.
type meeting struct {
	mu      sync.Mutex
	data    []string
	settled atomic.Int64
}

func (m *meeting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/api/v1/push":
		body, _ := io.ReadAll(r.Body)
		payload, _, _ := stringMember(body, `"payload"`)
		m.mu.Lock()
		m.data = append(m.data, string(payload))
		m.mu.Unlock()
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `[{"status":"queued"}]`)
	case strings.HasPrefix(r.URL.Path, "/api/v1/pop/"):
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.data) == 0 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = fmt.Fprintf(w, `{"partitionId":"p","leaseId":"l","consumerGroup":"g","messages":[{"transactionId":"t","data":%q}]}`, m.data[0])
		m.data = m.data[1:]
	default:
		m.settled.Add(1)
		_, _ = io.WriteString(w, `{"success":true}`)
	}
}

func TestBothAtOnceSettlesWhatIsPushed(t *testing.T) {
	for _, driver := range drivers(t) {
		t.Run(driver, func(t *testing.T) {
			m := &meeting{}
			server := httptest.NewServer(m)
			defer server.Close()
			o := runLoad(t, server, load{kind: kindBoth, batch: 1, clients: 4, settle: 4}, 100, options{driver: driver})
			require.Zero(t, o.failures, o.failure)
			require.GreaterOrEqual(t, o.removed, int64(100))
			require.LessOrEqual(t, o.added, o.removed+4*ahead+4, "producers wait for consumers")
			require.Equal(t, o.removed, m.settled.Load())
		})
	}
}
