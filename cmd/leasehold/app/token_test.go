package app

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// run is Main with a server's admin listener, and returns what it printed.
func (r *running) run(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	args = append(args, "--admin-url="+r.url("admin", ""))
	require.Equal(t, code, Main(args, &out, &errs), "%v: %s", args, errs.String())
	return out.String(), errs.String()
}

// ask makes a request to the Cloudflare Queues listener and returns the status.
func (r *running) ask(t *testing.T, path, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url("cfqueues", path), http.NoBody)
	require.NoError(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

func TestTokenCommands(t *testing.T) {
	dir := t.TempDir()
	s := start(t, everywhere(dir)...)
	out, _ := s.run(t, 0, "token", "list")
	assert.Contains(t, out, "none is asked for")
	assert.Equal(t, 200, s.ask(t, "/accounts/a/queues", ""))
	must(t, s.url("cfqueues", "/accounts/a/queues"), `{"queue_name":"jobs"}`)

	text, said := s.run(t, 0, "token", "create", "ci", "--queue", "jobs*", "--queue=mail", "--expires=90d")
	text = strings.TrimSpace(text)
	assert.Regexp(t, "^lhd_[0-9A-Za-z]{36}$", text, "stdout has the token alone")
	assert.Contains(t, said, "may read and write queues that match jobs*, mail")
	assert.NotContains(t, said, text)
	assert.Equal(t, 401, s.ask(t, "/accounts/a/queues/jobs", ""))
	assert.Equal(t, 200, s.ask(t, "/accounts/a/queues/jobs", text))
	assert.Equal(t, 403, s.ask(t, "/accounts/a/queues/other", text))
	out, _ = s.run(t, 0, "token", "create", "look", "--read", "--json")
	assert.Contains(t, out, `"permissions":["read"]`)
	out, _ = s.run(t, 0, "token", "list")
	assert.Contains(t, out, "ID ")
	assert.Contains(t, out, "read,write")
	assert.NotContains(t, out, text)
	require.NoError(t, s.stop())

	s = start(t, everywhere(dir)...)
	assert.Equal(t, 200, s.ask(t, "/accounts/a/queues/jobs", text), "it survives a restart")
	out, _ = s.run(t, 0, "token", "list")
	for line := range strings.Lines(out) {
		if id, _, _ := strings.Cut(line, " "); id != "ID" {
			out, _ := s.run(t, 0, "token", "revoke", id[:8])
			assert.Contains(t, out, "revoked "+id)
		}
	}
	assert.Equal(t, 401, s.ask(t, "/accounts/a/queues/jobs", text))
	out, _ = s.run(t, 0, "token", "list")
	assert.Contains(t, out, "but one is asked for")
}

func TestTokenIsTakenOver(t *testing.T) {
	s := start(t, everywhere(t.TempDir())...)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("Sn3lZJTBX6kkg7OdcBUAxOO963GEIyGQqnFTOFYY\n"), 0o600))
	out, _ := s.run(t, 0, "token", "create", "old", "--from", file)
	assert.Equal(t, "Sn3lZJTBX6kkg7OdcBUAxOO963GEIyGQqnFTOFYY\n", out)
	assert.Equal(t, 200, s.ask(t, "/accounts/a/queues", "Sn3lZJTBX6kkg7OdcBUAxOO963GEIyGQqnFTOFYY"))
	_, said := s.run(t, 1, "token", "create", "again", "--from", file)
	assert.Contains(t, said, "exists already")
}

func TestTokenCommandsThatFail(t *testing.T) {
	s := start(t, everywhere(t.TempDir())...)
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{2, []string{"create"}, `expected "<name>"`},
		{2, []string{"dance"}, "dance"},
		{2, nil, "expected one of"},
		{1, []string{"create", "x", "--expires", "soon"}, "--expires"},
		{1, []string{"create", "x", "--expires=-1h"}, "--expires"},
		{1, []string{"create", "x", "--expires", "2020-01-01T00:00:00Z"}, "in the past"},
		{1, []string{"create", "x", "--from", "/does/not/exist"}, "--from"},
		{1, []string{"create", "x", "--queue", ""}, "pattern"},
		{1, []string{"revoke", "00000000"}, "no such token"},
		{1, []string{"revoke", "../healthz"}, "no such token"},
	} {
		_, said := s.run(t, c.code, append([]string{"token"}, c.args...)...)
		assert.Contains(t, said, c.want, "%v", c.args)
	}
	assert.Equal(t, 200, s.ask(t, "/accounts/a/queues", ""), "no token was made")
	var out, errs bytes.Buffer
	assert.Equal(t, 1, Main([]string{"token", "list", "--admin-url=http://127.0.0.1:1"}, &out, &errs))
	assert.Contains(t, errs.String(), "is it running?")
}

func TestAdminTokenIsSentByTheCommands(t *testing.T) {
	t.Setenv(EnvAdminToken, "hush")
	s := start(t, everywhere(t.TempDir())...)
	s.run(t, 0, "token", "create", "ci")
	t.Setenv(EnvAdminToken, "wrong")
	_, said := s.run(t, 1, "token", "list")
	assert.Contains(t, said, EnvAdminToken)
}

// A listener that others can reach starts where a token is asked for.
func TestCfqueuesListenerBeyondLoopback(t *testing.T) {
	dir := t.TempDir()
	open := append(everywhere(dir), "--cfqueues-addr=0.0.0.0:0")
	cfg, err := parsed(open...)
	require.NoError(t, err)
	err = New(cfg, Options{}).Run(t.Context())
	require.ErrorContains(t, err, "--cfqueues-addr: 0.0.0.0:0 is not a loopback address")
	require.NoError(t, start(t, append(open, "--insecure")...).stop())

	s := start(t, everywhere(dir)...)
	text, _ := s.run(t, 0, "token", "create", "ci")
	require.NoError(t, s.stop())
	s = start(t, open...)
	assert.Equal(t, 401, s.ask(t, "/accounts/a/queues", ""))
	assert.Equal(t, 200, s.ask(t, "/accounts/a/queues", strings.TrimSpace(text)))
}

func TestTokenOfTheEnvironment(t *testing.T) {
	t.Setenv(EnvCfqueuesToken, "from-the-environment-0123")
	s := start(t, everywhere(t.TempDir(), "--cfqueues-addr=0.0.0.0:0", "--cfqueues-account=mine")...)
	assert.Equal(t, 401, s.ask(t, "/accounts/mine/queues", ""))
	assert.Equal(t, 200, s.ask(t, "/accounts/mine/queues", "from-the-environment-0123"))
	assert.Equal(t, 403, s.ask(t, "/accounts/other/queues", "from-the-environment-0123"))
	t.Setenv(EnvCfqueuesToken, "short")
	_, err := parsed("serve")
	require.ErrorContains(t, err, EnvCfqueuesToken)
}

func TestCfqueuesSettings(t *testing.T) {
	cfg, err := parsed("serve")
	require.NoError(t, err)
	assert.Equal(t, defaultCfqueuesConfig(), cfg.CfqueuesConfig)
	cfg, err = parsed("serve", "--cfqueues-json-body-encoding=plain", "--cfqueues-strict-json-push", "--cfqueues-implicit-http-pull",
		"--cfqueues-inert-worker-consumers", "--cfqueues-inert-subscriptions", "--cfqueues-lenient", "--cfqueues-max-message-bytes=5",
		"--cfqueues-messages-per-second=7", "--cfqueues-max-wait=1m")
	require.NoError(t, err)
	o := cfg.cfqueuesOptions()
	assert.True(t, o.PlainJSONBodies && o.StrictJSONPush && o.ImplicitHTTPPull && o.InertWorkerConsumers && o.InertSubscriptions && o.Lenient)
	assert.EqualValues(t, 5, o.Limits.MaxMessageBytes)
	assert.Equal(t, 7, o.Rates.MessagesPerSecond)
	assert.Equal(t, time.Minute, o.Limits.MaxWait)
	for _, c := range [][2]string{
		{"--cfqueues-json-body-encoding=hex", "base64, plain"},
		{"--cfqueues-max-batch-messages=0", "--cfqueues-max-batch-messages"},
		{"--cfqueues-max-retention=1s", "--cfqueues-max-retention"},
		{"--cfqueues-messages-per-second=-1", "--cfqueues-messages-per-second"},
		{"--cfqueues-account=a/b", "--cfqueues-account"},
	} {
		_, err := parsed("serve", c[0])
		require.ErrorContains(t, err, c[1])
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(file, []byte("cfqueues_json_body_encoding: plain\ncfqueues-max-delay: 1h\n"), 0o600))
	cfg, err = parsed("serve", "--config", file)
	require.NoError(t, err)
	assert.Equal(t, "plain", cfg.CfqueuesJsonBodyEncoding)
	assert.Equal(t, time.Hour, cfg.CfqueuesMaxDelay)
}
