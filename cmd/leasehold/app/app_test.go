package app

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

const (
	pushBody  = `{"items":[{"queue":"q","payload":{"n":1}}]}`
	popPath   = "/api/v1/pop/queue/q"
	leaseBody = `{"queue_name":"w","batch_size":1,"client_id":"c","request_timeout":"1m"}`
	makeBody  = `{"queue_name":"w","lease_timeout":"1m","expire_timeout":"1h","requested_partitions":1}`
)

func TestMessageSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	first := start(t, everywhere(dir)...)
	must(t, first.url("queen", "/api/v1/push"), pushBody)
	require.NoError(t, first.stop())

	second := start(t, everywhere(dir)...)
	assert.Contains(t, must(t, second.url("queen", popPath), ""), `"data":{"n":1}`)
}

func TestEachListenerAnswersItsProtocol(t *testing.T) {
	s := start(t, everywhere(t.TempDir())...)
	assert.JSONEq(t, `{"status":"ok"}`, must(t, s.url("admin", "/healthz"), ""))
	assert.JSONEq(t, `{"status":"ready"}`, must(t, s.url("admin", "/readyz"), ""))
	assert.Contains(t, must(t, s.url("querator", "/v1/queues.create"), makeBody), "200")
	assert.Contains(t, must(t, s.url("cfqueues", "/accounts/a/queues"), `{"queue_name":"x"}`), `"success":true`)
	assert.Contains(t, must(t, s.url("cfqueues", "/client/v4/accounts/a/queues"), ""), `"queue_name":"x"`)
	assert.Equal(t, http.StatusNotFound, send(s.url("queen", "/api/v1/nope"), "{}").status)
	assert.Equal(t, http.StatusNotImplemented, send(s.url("querator", "/v1/nope"), "{}").status)
}

func TestListenersCanBeOff(t *testing.T) {
	s := start(t, everywhere(t.TempDir(), "--queen-addr=off", "--admin-addr=off")...)
	assert.Empty(t, s.Addr("queen"))
	assert.Empty(t, s.Addr("admin"))
	assert.Empty(t, s.Addr("control"), "off unless asked for")
	must(t, s.url("querator", "/v1/queues.create"), makeBody)
}

func TestTwoQueratorFamilies(t *testing.T) {
	s := start(t, everywhere(t.TempDir(), "--querator-addr=reserve=127.0.0.1:0")...)
	var urls []string
	for _, sv := range s.servers {
		if sv.name == "querator" {
			urls = append(urls, "http://"+sv.ln.Addr().String())
		}
	}
	require.Len(t, urls, 2)
	assert.Equal(t, http.StatusNotImplemented, send(urls[1]+"/v1/queue.lease", leaseBody).status, "the reserve family has no lease")
	assert.Equal(t, http.StatusBadRequest, send(urls[0]+"/v1/queue.lease", leaseBody).status, "no such queue")
}

func TestMetricsShowWhatHappened(t *testing.T) {
	s := start(t, everywhere(t.TempDir())...)
	must(t, s.url("queen", "/api/v1/push"), pushBody)
	must(t, s.url("queen", popPath), "")
	got := must(t, s.url("admin", "/metrics"), "")
	for _, line := range []string{
		`leasehold_messages_in_total{protocol="queen",queue="q"} 1`,
		`leasehold_messages_out_total{protocol="queen",queue="q"} 1`,
		`leasehold_queue_messages{queue="q"} 1`,
		`leasehold_queue_leases{queue="q"} 1`,
		`leasehold_http_requests_total{method="POST",protocol="queen",route="/api/v1/push",status="201"} 1`,
	} {
		assert.Contains(t, got, line+"\n")
	}
	assert.Contains(t, must(t, s.url("querator", "/metrics"), ""), "leasehold_messages_in_total")
	assert.Regexp(t, `leasehold_commit_duration_seconds_count\{kind="append"\} [1-9]`, got)
}

func TestAdminTokenGuardsMetrics(t *testing.T) {
	t.Setenv(EnvAdminToken, "hush")
	s := start(t, everywhere(t.TempDir())...)
	assert.Equal(t, http.StatusUnauthorized, send(s.url("admin", "/metrics"), "").status)
	assert.Equal(t, http.StatusUnauthorized, send(s.url("querator", "/metrics"), "").status, "the same figures by another door")
	must(t, s.url("admin", "/readyz"), "")
}

func TestDataDirectoryInUseIsRefusedAndUnharmed(t *testing.T) {
	dir := t.TempDir()
	first := start(t, everywhere(dir)...)
	must(t, first.url("queen", "/api/v1/push"), pushBody)
	cfg, err := parsed(everywhere(dir)...)
	require.NoError(t, err)
	err = New(cfg, Options{}).Run(t.Context())
	require.Error(t, err)
	assert.Equal(t, core.CodeLocked, core.CodeOf(err), "%v", err)
	assert.Contains(t, must(t, first.url("queen", popPath), ""), `"data":{"n":1}`)
}

func TestPortInUseNamesTheFlagAndLeavesNothingBehind(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	dir := t.TempDir()
	cfg, err := parsed(everywhere(dir, "--cfqueues-addr="+taken.Addr().String())...)
	require.NoError(t, err)
	err = New(cfg, Options{}).Run(t.Context())
	require.ErrorContains(t, err, "--cfqueues-addr: ")
	require.ErrorContains(t, err, "address already in use")
	start(t, everywhere(dir)...)
}

func TestListenerThatFailsEndsTheServerInOrder(t *testing.T) {
	dir := t.TempDir()
	cfg, err := parsed(everywhere(dir)...)
	require.NoError(t, err)
	a := New(cfg, Options{})
	ended := make(chan error, 1)
	go func() { ended <- a.Run(t.Context()) }()
	<-a.Ready()
	must(t, "http://"+a.Addr("queen")+"/api/v1/push", pushBody)
	for _, s := range a.servers {
		if s.name == "cfqueues" {
			require.NoError(t, s.ln.Close())
		}
	}
	require.ErrorContains(t, <-ended, "listener cfqueues: ")
	again := start(t, everywhere(dir)...)
	assert.Contains(t, must(t, again.url("queen", popPath), ""), `"data":{"n":1}`)
}

func TestStoresThatCannotBeOpened(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://user:hush@[db/x": "the address of the database cannot be understood",
		"redis://user:hush@db/x":     `unknown kind of store "redis"`,
	} {
		cfg, err := parsed(everywhere(t.TempDir(), "--store", url)...)
		require.NoError(t, err)
		err = New(cfg, Options{}).Run(t.Context())
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "hush")
	}
}

func TestMemoryStoreKeepsNothingOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, everywhere(dir, "--store=memory:")...)
	must(t, s.url("queen", "/api/v1/push"), pushBody)
	assert.Contains(t, must(t, s.url("queen", popPath), ""), `"data":{"n":1}`)
	assert.NoDirExists(t, dir)
}

func TestControlListenerMovesTheClock(t *testing.T) {
	s := start(t, everywhere(t.TempDir(), "--control-addr=127.0.0.1:0")...)
	must(t, s.url("queen", "/api/v1/push"), pushBody)
	must(t, s.url("queen", popPath), "")
	assert.Equal(t, http.StatusNoContent, send(s.url("queen", popPath), "").status, "leased")
	waiting := parked(s.url("queen", popPath+"?wait=true&timeout=3600000"), "")
	waitFor(t, s, `leasehold_queue_waiting_consumers{queue="q"} 1`)
	must(t, s.url("control", "/clock"), `{"op":"advance","by":"2m0s"}`)
	got := <-waiting
	require.NoError(t, got.err)
	assert.Contains(t, got.body, `"data":{"n":1}`, "the lease of a minute is over")

	assert.JSONEq(t, `{"now":"2040-01-01T00:00:00Z"}`, must(t, s.url("control", "/clock"), `{"op":"freeze","now":"2040-01-01T00:00:00Z"}`))
	assert.JSONEq(t, `{"now":"2040-01-01T00:02:00Z"}`, must(t, s.url("control", "/clock"), `{"op":"advance","by":"2m0s"}`))
	assert.Contains(t, must(t, s.url("queen", popPath), ""), `"data":{"n":1}`, "and so is the second")
	assert.NotContains(t, must(t, s.url("control", "/clock"), `{"op":"unfreeze"}`), "2040")
}

func TestControlListenerHoldsAQueue(t *testing.T) {
	s := start(t, everywhere(t.TempDir(), "--control-addr=127.0.0.1:0")...)
	must(t, s.url("querator", "/v1/queues.create"), makeBody)
	must(t, s.url("control", "/pause"), `{"queue_name":"w","pause":true}`)
	lease := parked(s.url("querator", "/v1/queue.lease"), leaseBody)
	waitFor(t, s, `leasehold_queue_waiting_consumers{queue="w"} 1`)
	produce := parked(s.url("querator", "/v1/queue.produce"), `{"queue_name":"w","request_timeout":"1m","items":[{"utf8":"x"}]}`)
	select {
	case a := <-lease:
		t.Fatalf("answered while the queue was held: %+v", a)
	case a := <-produce:
		t.Fatalf("answered while the queue was held: %+v", a)
	case <-time.After(50 * time.Millisecond):
	}
	must(t, s.url("control", "/pause"), `{"queue_name":"w","pause":false}`)
	assert.Equal(t, http.StatusOK, (<-produce).status)
	assert.Equal(t, http.StatusOK, (<-lease).status)
}

func TestControlListenerRefusesNonsense(t *testing.T) {
	s := start(t, everywhere(t.TempDir(), "--control-addr=127.0.0.1:0")...)
	for path, bodies := range map[string][]string{
		"/clock": {`{"op":"freeze"}`, `{"op":"freeze","now":"yesterday"}`, `{"op":"advance","by":"-1s"}`, `{"op":"advance"}`, `{"op":"stop"}`, `{"bogus":1}`, `[`},
		"/pause": {`{"queue_name":"w"}`, `{"pause":true}`, `{"queue_name":1,"pause":true}`},
	} {
		for _, body := range bodies {
			a := send(s.url("control", path), body)
			assert.Equal(t, http.StatusBadRequest, a.status, "%s %s", path, body)
			assert.Contains(t, a.body, `"error"`)
		}
	}
}

// waitFor scrapes until a line is there.
func waitFor(t *testing.T, s addressed, line string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return strings.Contains(send(s.url("admin", "/metrics"), "").body, line+"\n")
	}, 20*time.Second, 20*time.Millisecond, "no %s", line)
}

func TestTerminationAnswersWaitingConsumers(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		c := spawn(t, t.TempDir(), nil, everywhere("data")...)
		must(t, c.url("querator", "/v1/queues.create"), makeBody)
		pop := parked(c.url("queen", popPath+"?wait=true&timeout=60000"), "")
		lease := parked(c.url("querator", "/v1/queue.lease"), leaseBody)
		waitFor(t, c, `leasehold_queue_waiting_consumers{queue="q"} 1`)
		waitFor(t, c, `leasehold_queue_waiting_consumers{queue="w"} 1`)

		began := time.Now()
		require.NoError(t, c.cmd.Process.Signal(sig))
		a := <-pop
		require.NoError(t, a.err)
		assert.Equal(t, http.StatusNoContent, a.status, a.body)
		a = <-lease
		require.NoError(t, a.err)
		assert.Equal(t, 453, a.status)
		assert.Contains(t, a.body, "is shutting down")
		require.NoError(t, c.wait(), "exit code")
		assert.Less(t, time.Since(began), 10*time.Second)
		assert.Contains(t, c.logged(), "server has stopped")
		assert.NotContains(t, c.logged(), "shutdown step failed")
	}
}

func TestServeWithoutFlagsKeepsItsDataBesideIt(t *testing.T) {
	dir := t.TempDir()
	// Free ports by environment, since the usual ones may be taken here.
	env := []string{
		"LEASEHOLD_QUEEN_ADDR=127.0.0.1:0", "LEASEHOLD_QUERATOR_ADDR=127.0.0.1:0",
		"LEASEHOLD_CFQUEUES_ADDR=127.0.0.1:0", "LEASEHOLD_ADMIN_ADDR=127.0.0.1:0",
	}
	c := spawn(t, dir, env, "serve")
	must(t, c.url("queen", "/api/v1/push"), pushBody)
	assert.DirExists(t, filepath.Join(dir, "leasehold-data"))
	require.NoError(t, c.cmd.Process.Kill())
	_ = c.wait()

	again := spawn(t, dir, env, "serve")
	assert.Contains(t, must(t, again.url("queen", popPath), ""), `"data":{"n":1}`, "acknowledged before the kill")
}
