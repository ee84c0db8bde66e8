package app

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parsed is parse with its output dropped.
func parsed(args ...string) (Config, error) {
	var out bytes.Buffer
	_, cfg, err := parse(args, &out, &out)
	return cfg, err
}

func TestServeWithoutFlagsHasTheDocumentedDefaults(t *testing.T) {
	cfg, err := parsed("serve")
	require.NoError(t, err)
	assert.Equal(t, DefaultConfig(), cfg)
}

func TestFlagsBeforeEnvironmentBeforeFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(file, []byte(
		"queen-addr: 127.0.0.1:1\ncfqueues_addr: 127.0.0.1:2\nadmin-addr: 127.0.0.1:3\nmetrics-queues: 7\nquerator-addr: [127.0.0.1:4, reserve=127.0.0.1:5]\n"), 0o600))
	t.Setenv("LEASEHOLD_QUEEN_ADDR", "127.0.0.1:11")
	t.Setenv("LEASEHOLD_CFQUEUES_ADDR", "127.0.0.1:12")
	t.Setenv("LEASEHOLD_ADMIN_TOKEN", "hush")
	for _, args := range [][]string{{"serve", "--config", file, "--queen-addr=off"}, {"serve", "--queen-addr", "off", "--config=" + file}} {
		cfg, err := parsed(args...)
		require.NoError(t, err)
		assert.Equal(t, Off, cfg.QueenAddr, "flag")
		assert.Equal(t, "127.0.0.1:12", cfg.CfqueuesAddr, "environment")
		assert.Equal(t, "127.0.0.1:3", cfg.AdminAddr, "file")
		assert.Equal(t, 7, cfg.MetricsQueues, "file")
		assert.Equal(t, []string{"127.0.0.1:4", "reserve=127.0.0.1:5"}, cfg.QueratorAddr, "file")
		assert.Equal(t, Off, cfg.ControlAddr, "default")
		assert.Equal(t, "hush", cfg.AdminToken)
	}
	t.Setenv("LEASEHOLD_CONFIG", file)
	cfg, err := parsed("serve")
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1:3", cfg.AdminAddr, "file named by the environment")
}

func TestQueratorAddressesRepeat(t *testing.T) {
	cfg, err := parsed("serve", "--querator-addr", "127.0.0.1:2319", "--querator-addr", "reserve=127.0.0.1:2320")
	require.NoError(t, err)
	assert.Equal(t, []string{"127.0.0.1:2319", "reserve=127.0.0.1:2320"}, cfg.QueratorAddr)
}

func TestWhatTheConfigurationRefuses(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--queen-addr", "nonsense"}, `--queen-addr: "nonsense" is not an address: want HOST:PORT or off`},
		{[]string{"--queen-addr", "127.0.0.1:99999"}, `--queen-addr: "127.0.0.1:99999" is not an address`},
		{[]string{"--queen-addr", "127.0.0.1:-1"}, `is not an address`},
		{[]string{"--querator-addr", "foo=127.0.0.1:1"}, `--querator-addr: "foo=127.0.0.1:1" is not an address: want HOST:PORT, off, or a family`},
		{[]string{"--log-level", "loud"}, `--log-level: "loud" is not one of: debug, info, warn, error`},
		{[]string{"--log-format", "xml"}, `--log-format: "xml" is not one of: text, json`},
		{[]string{"--metrics-queues=-1"}, `--metrics-queues: -1 is out of range`},
		{[]string{"--data-dir", ""}, `--data-dir: must not be empty`},
		{[]string{"--bogus"}, `unknown flag --bogus`},
		{[]string{"--config", "/does/not/exist.yaml"}, `--config: open /does/not/exist.yaml`},
		{[]string{"--config", file("quen-addr: off\n")}, `unknown key "quen-addr"`},
		{[]string{"--config", file("- a\n- b\n")}, `is not a YAML mapping`},
		{[]string{"--config", file("insecure: maybe\n")}, `maybe`},
		{[]string{"--config", file("admin-token: x\n")}, `unknown key "admin-token"`},
	} {
		_, err := parsed(append([]string{"serve"}, c.args...)...)
		require.ErrorContains(t, err, c.want, "%v", c.args)
	}
}

func TestAllProblemsAreToldAtOnce(t *testing.T) {
	_, err := parsed("serve", "--queen-addr", "x", "--cfqueues-addr", "y", "--log-level", "z")
	require.ErrorContains(t, err, "--queen-addr")
	require.ErrorContains(t, err, "--cfqueues-addr")
	require.ErrorContains(t, err, "--log-level")
}

func TestListenersThatOthersCanReachNeedAuthentication(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "203.0.113.9:80"} {
		for _, flag := range []string{"queen-addr", "querator-addr", "admin-addr"} {
			_, err := parsed("serve", "--"+flag, addr)
			require.ErrorContains(t, err, "--"+flag+": "+addr+" is not a loopback address", "%s %s", flag, addr)
			_, err = parsed("serve", "--insecure", "--"+flag, addr)
			require.NoError(t, err, "%s %s", flag, addr)
		}
		_, err := parsed("serve", "--insecure", "--control-addr", addr)
		require.ErrorContains(t, err, "--control-addr: "+addr+" is not a loopback address", "not even with --insecure")
	}
	for _, addr := range []string{"127.0.0.1:0", "127.9.9.9:1", "[::1]:0", "localhost:0", "off"} {
		_, err := parsed("serve", "--queen-addr", addr, "--admin-addr", addr, "--control-addr", addr)
		require.NoError(t, err, addr)
	}
}

func TestTokenOpensTheAdminListenerOnly(t *testing.T) {
	t.Setenv(EnvAdminToken, "hush")
	_, err := parsed("serve", "--admin-addr", "0.0.0.0:0")
	require.NoError(t, err)
	_, err = parsed("serve", "--queen-addr", "0.0.0.0:0")
	require.ErrorContains(t, err, "needs --insecure")
}

func TestCommandsThatDoNotServe(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		out  string
		err  string
	}{
		{[]string{"version"}, 0, "leasehold ", ""},
		{[]string{"--help"}, 0, "serve", ""},
		{[]string{"serve", "--help"}, 0, "--queen-addr", ""},
		{[]string{}, 2, "", "leasehold: "},
		{[]string{"dance"}, 2, "", "dance"},
		{[]string{"serve", "--queen-addr", "0.0.0.0:1"}, 2, "", "--insecure"},
	} {
		var out, errs bytes.Buffer
		assert.Equal(t, c.code, Main(c.args, &out, &errs), "%v", c.args)
		assert.Contains(t, out.String(), c.out)
		assert.Contains(t, errs.String(), c.err)
	}
}
