package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHistogramKeepsValuesToTwoPercent(t *testing.T) {
	for _, us := range []uint64{0, 1, 63, 64, 65, 127, 128, 1000, 123_456, 10_000_000, 3_600_000_000} {
		got := value(slot(us))
		require.LessOrEqual(t, got, us)
		require.InDelta(t, us, got, float64(us)*0.02)
	}
	var h histogram
	require.Zero(t, h.quantile(.5))
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Millisecond)
	}
	require.InDelta(t, 500, h.quantile(.5), 10)
	require.InDelta(t, 990, h.quantile(.99), 18)
	require.InDelta(t, 1000, h.quantile(1), 18)
	h.add(10_000 * time.Hour)
	require.InDelta(t, 500, h.quantile(.5), 10)
}

func TestConnReadsAnswers(t *testing.T) {
	large := strings.Repeat("x", 3*firstBuffer)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/plain":
			_, _ = io.WriteString(w, "plain")
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		case "/close":
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, "bye")
		case "/large":
			w.Header().Set("Content-Length", strconv.Itoa(len(large)))
			_, _ = io.WriteString(w, large)
		case "/chunked":
			for part := range strings.SplitSeq(large, "xxxxxxxxxx") {
				_, _ = io.WriteString(w, part+"xxxxxxxxxx")
				w.(http.Flusher).Flush()
				if len(part) == 0 {
					continue
				}
			}
		default:
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer server.Close()
	c := newConn(server.Listener.Addr().String())
	defer c.close()
	require.NoError(t, c.until(time.Now().Add(10*time.Second)))
	get := func(path string) (int, string) {
		status, body, err := c.do(bare(&spec{host: "x"}, "GET", path))
		require.NoError(t, err)
		return status, string(body)
	}
	for range 2 {
		for path, want := range map[string]string{"/plain": "plain", "/none": "", "/close": "bye", "/large": large} {
			status, body := get(path)
			require.Contains(t, []int{200, 204}, status)
			require.Equal(t, want, body)
		}
		_, body := get("/chunked")
		require.Empty(t, strings.Trim(body, "x"))
		require.GreaterOrEqual(t, len(body), len(large))
	}
	status, _ := get("/other")
	require.Equal(t, 418, status)
}

// raw serves every connection by hand.
func raw(t *testing.T, serve func(n int, c net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for n := 0; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serve(n, c)
			_ = c.Close()
		}
	}()
	return ln.Addr().String()
}

func TestConnOpensAgainWhatWasClosedWhileIdle(t *testing.T) {
	addr := raw(t, func(_ int, c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\ncontent-LENGTH:  2\r\n\r\nok")
	})
	c := newConn(addr)
	for range 3 {
		_, body, err := c.do(bare(&spec{host: "x"}, "GET", "/"))
		require.NoError(t, err)
		require.Equal(t, "ok", string(body))
	}
	require.Equal(t, 2, c.redials)
}

func TestConnRefusesWhatIsNoAnswer(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing": "", "cut head": "HTTP/1.1 200 OK\r\nContent-Le", "cut body": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
		"other protocol": "SSH-2.0-OpenSSH_9.6\r\n\r\n", "no length": "HTTP/1.1 200 OK\r\n\r\nab",
		"bad length": "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "bad chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			addr := raw(t, func(_ int, c net.Conn) {
				_, _ = http.ReadRequest(bufio.NewReader(c))
				_, _ = io.WriteString(c, answer)
			})
			_, _, err := newConn(addr).do(bare(&spec{host: "x"}, "GET", "/"))
			require.Error(t, err)
		})
	}
}

func TestMembersAreFoundWithAndWithoutBlanks(t *testing.T) {
	b := []byte(`{"partition": 12,"items":[{"id":"a","x":{"id" : 7}},{"id": "b"}]}`)
	require.Equal(t, 12, numberMember(b, `"partition"`))
	require.Zero(t, numberMember(b, `"none"`))
	first, rest, ok := stringMember(b, `"id"`)
	require.True(t, ok)
	require.Equal(t, "a", string(first))
	second, rest, ok := stringMember(rest, `"id"`)
	require.True(t, ok)
	require.Equal(t, "b", string(second))
	_, _, ok = stringMember(rest, `"id"`)
	require.False(t, ok)
	_, _, ok = stringMember([]byte(`"id":"cut`), `"id"`)
	require.False(t, ok)
}

func TestPushChangesPartitionAndIDsInPlace(t *testing.T) {
	s := &spec{host: "h", queue: "q", batch: 2, payload: 10, partitions: 3, names: true, run: "r"}
	p := queen{}.push(s, 0)
	seen := map[string]int{}
	for i := range 4 {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(p.next())))
		require.NoError(t, err)
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, 2, strings.Count(string(body), fmt.Sprintf(`"partition":"p%07d"`, i%3)))
		for rest := body; ; {
			name, after, ok := stringMember(rest, `"transactionId"`)
			if !ok {
				break
			}
			seen[string(name)]++
			rest = after
		}
		require.Contains(t, string(body), `"payload":"`+string(text(8))+`"`)
	}
	require.Len(t, seen, 8)
}

func TestClientsShareTheQueues(t *testing.T) {
	s := &spec{host: "h", queue: "q", queues: 7, batch: 1, payload: 10, partitions: 1}
	visited := map[string]int{}
	for i := range 3 {
		cl := newClient(queen{}, s, i, 3)
		for range 2 * len(cl.lanes) {
			visited[cl.current().s.queue]++
			cl.turn()
		}
	}
	require.Len(t, visited, 7)
	for _, n := range visited {
		require.Equal(t, 2, n)
	}
	s.queues = 2
	for i := range 5 {
		require.Len(t, newClient(queen{}, s, i, 5).lanes, 1)
	}
	s.queues = 1
	require.Equal(t, "q", newClient(queen{}, s, 3, 5).current().s.queue)
}

// drivers are the ways to drive connections that this system has.
func drivers(t *testing.T) []string {
	t.Helper()
	w, err := newWire(driverEpoll, nil)
	if errors.Is(err, errors.ErrUnsupported) {
		return []string{driverGoroutines}
	}
	require.NoError(t, err)
	w.close()
	return []string{driverEpoll, driverGoroutines}
}

func TestRefusedPushesAreFailures(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `[{"status":"failed"}]`)
	}))
	defer server.Close()
	s := &spec{host: server.Listener.Addr().String(), queue: "q", batch: 1, payload: 10, partitions: 1, groups: 1}
	for _, driver := range drivers(t) {
		t.Run(driver, func(t *testing.T) {
			_, err := fill(queen{}, s, driver, 10)
			require.ErrorContains(t, err, "queued")
		})
	}
}

func TestFillIsEven(t *testing.T) {
	var mu sync.Mutex
	got := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		queue, _, _ := stringMember(body, `"queue"`)
		partition, _, _ := stringMember(body, `"partition"`)
		mu.Lock()
		got[string(queue)+" "+string(partition)]++
		mu.Unlock()
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `[{"status":"queued"},{"status":"queued"}]`)
	}))
	defer server.Close()
	for _, driver := range drivers(t) {
		t.Run(driver, func(t *testing.T) {
			for _, queues := range []int{1, 2, 8, 13} {
				mu.Lock()
				clear(got)
				mu.Unlock()
				s := &spec{host: server.Listener.Addr().String(), queue: "q", queues: queues, batch: 2, payload: 10, partitions: 4, groups: 1}
				n, err := fill(queen{}, s, driver, int64(queues)*16-1)
				require.NoError(t, err)
				require.EqualValues(t, queues*16, n)
				mu.Lock()
				counted := maps.Clone(got)
				mu.Unlock()
				require.Len(t, counted, 4*queues)
				for place, requests := range counted {
					require.Equal(t, 2, requests, place)
				}
			}
		})
	}
}

func TestFloorAnswersTheSameBytesAndDecodes(t *testing.T) {
	plan := floorPlan{Protocol: "queen", Single: true, Answers: map[operation]floorAnswer{
		opPush: {Status: 201, Body: []byte(`[{"index":0}]`)}, opClaim: {Status: 200, Body: []byte(`{"success":true}`)},
	}}
	server := httptest.NewServer(floorHandler(plan))
	defer server.Close()
	ask := func(method, path, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		b, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(b)
	}
	status, body := ask("POST", "/api/v1/push", `{"items":[{"queue":"q","payload":{}}]}`)
	require.Equal(t, 201, status)
	require.Equal(t, `[{"index":0}]`, body)
	status, _ = ask("POST", "/api/v1/push", `{"items":[{"queue":1}]}`)
	require.Equal(t, 400, status)
	status, _ = ask("GET", "/api/v1/pop/queue/q?batch=1", "")
	require.Equal(t, 200, status)
	status, _ = ask("POST", "/api/v1/ack", "{}")
	require.Equal(t, 404, status, "no answer was planned for it")
}

func TestDurabilityFloorWaitsForItsWrites(t *testing.T) {
	for _, k := range []kind{kindPush, kindSettle, kindTake, kindBoth} {
		perSecond, err := durabilityFloor(t.TempDir(), nil, load{kind: k, batch: 10, clients: 4}, 100, 500*time.Millisecond)
		require.NoError(t, err)
		require.Positive(t, perSecond)
	}
	to, err := newFileSink(t.TempDir())
	require.NoError(t, err)
	w := newDurableWriter(to)
	go w.commit()
	done := make(chan error, 1)
	w.write([]byte("hello"), done)
	require.NoError(t, <-done)
	info, err := to.file.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 5, info.Size())
	require.NoError(t, to.file.Close())
	w.write([]byte("lost"), done)
	require.Error(t, <-done)
	w.end()
}

func TestRatioIsTheMedianOfTheRounds(t *testing.T) {
	r := newResult(&runCmd{}, load{kind: kindPush, batch: 1, clients: 1})
	for _, p := range [][2]float64{{100, 200}, {10, 100}, {300, 400}} {
		r.add(pair{server: &outcome{perSecond: p[0]}, floor: &outcome{perSecond: p[1]}})
	}
	require.InDelta(t, 100.0, r.PerSecond, 1e-9)
	require.InDelta(t, 200.0, r.FloorPerSecond, 1e-9)
	require.InDelta(t, .5, r.Ratio, 1e-9)
	require.InDelta(t, .1, r.RatioMin, 1e-9)
	require.InDelta(t, .75, r.RatioMax, 1e-9)
	require.InDelta(t, 2.9, r.Spread, 1e-9)
}

func TestUsageSeesWhatThisProcessDoes(t *testing.T) {
	p := &process{pid: os.Getpid()}
	before, ok := p.usage()
	if !ok {
		t.Skip("this system tells nothing about processes")
	}
	after := before
	for after.cpu-before.cpu < time.Millisecond {
		_ = text(1000)
		after, ok = p.usage()
		require.True(t, ok)
	}
	require.Greater(t, after.rss, int64(1<<20))
	_, ok = (&process{pid: 1 << 22}).usage()
	require.False(t, ok)
	_, ok = (*process)(nil).usage()
	require.False(t, ok)
}

func TestLimitsAreLowerOnASlowerMachine(t *testing.T) {
	at := func(references ...float64) *result {
		r := newResult(&runCmd{}, load{kind: kindPush, batch: 1, clients: 1})
		for _, reference := range references {
			r.add(pair{server: &outcome{perSecond: 1}, reference: reference})
		}
		return r
	}
	require.InDelta(t, .5, at(floorThen/2, floorThen/2, 3*floorThen).slower(), 1e-9)
	require.InDelta(t, 1.0, at(2*floorThen).slower(), 1e-9)
	require.InDelta(t, 1.0, at(0).slower(), 1e-9, "where nobody looked")
}

func TestLoadsAreReadAsTheyAreNamed(t *testing.T) {
	for _, name := range []string{"push:1x32", "take:100x16", "both:1x16", "both:100x8+16"} {
		l, err := parseLoad(name)
		require.NoError(t, err)
		require.Equal(t, name, l.String())
	}
	l, err := parseLoad("both:1x4+4")
	require.NoError(t, err)
	require.Equal(t, "both:1x4", l.String())
}

func TestBarsThatAreMissedAreAnError(t *testing.T) {
	var out strings.Builder
	require.NoError(t, reportBars([]barResult{{Bar: "a", Measured: 1, Limit: 1, Reached: true}}, false, &out, &out))
	require.Contains(t, out.String(), "reached")
	require.EqualError(t, reportBars([]barResult{{Bar: "a", Reached: true}, {Bar: "b"}}, false, &out, &out), "1 of 2 bars were missed")
	require.True(t, (&bar{limit: 2}).reached(2))
	require.False(t, (&bar{limit: 2}).reached(1.9))
	require.True(t, (&bar{limit: 2, atMost: true}).reached(1.9))
	require.False(t, (&bar{limit: 2, atMost: true}).reached(2.1))
}
