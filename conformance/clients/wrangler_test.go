package clients

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/blackbox"
)

// wrangler is the vendor's command line tool, used on a server as a person would.
type wrangler struct {
	dir string
	env []string
}

func newWrangler(t *testing.T, s *blackbox.Server) wrangler {
	t.Helper()
	home := t.TempDir()
	return wrangler{npmPackages(t), append(connected(s),
		"HOME="+home, "XDG_CONFIG_HOME="+home, "CI=true", "NO_COLOR=1", "FORCE_COLOR=0",
		"WRANGLER_SEND_METRICS=false", "WRANGLER_HIDE_BANNER=true", "WRANGLER_LOG_PATH="+filepath.Join(home, "log"))}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// run returns what a command prints, without colours, and its exit code.
func (w wrangler) run(t *testing.T, line string) (string, int) {
	t.Helper()
	program := filepath.Join(w.dir, "node_modules", "wrangler", "bin", "wrangler.js")
	out, code := node(t, t.TempDir(), w.env, append([]string{program}, strings.Fields(line)...)...)
	return escapes.ReplaceAllString(out, ""), code
}

// exchange is one command of a transcript and what belongs to it.
type exchange struct {
	command string
	code    int
	lines   []string
	// settings are those that queues then have, as JSON by name.
	settings map[string]string
}

// transcript reads a file of testdata; wrangler.txt explains the marks.
func transcript(t *testing.T, file string) []exchange {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	var all []exchange
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		mark, rest, _ := strings.Cut(line, " ")
		if mark == "$" {
			all = append(all, exchange{command: rest, settings: map[string]string{}})
			continue
		}
		require.NotEmpty(t, all, line)
		last := &all[len(all)-1]
		switch mark {
		case "!":
			require.NoError(t, json.Unmarshal([]byte(rest), &last.code))
		case "=":
			name, settings, _ := strings.Cut(rest, " ")
			last.settings[name] = settings
		default:
			last.lines = append(last.lines, line)
		}
	}
	return all
}

// requireLines requires that an output has lines in an order, each as part of a line of its own.
func requireLines(t *testing.T, output string, want []string) {
	t.Helper()
	if slices.Equal(want, []string{"(nothing)"}) {
		require.Empty(t, strings.TrimSpace(output))
		return
	}
	lines := strings.Split(output, "\n")
	for _, w := range want {
		pattern := strings.NewReplacer(`\{ID\}`, "[0-9a-f]{32}", `\{MAIL\}`, `\S+@\S+`).Replace(regexp.QuoteMeta(w))
		i := slices.IndexFunc(lines, regexp.MustCompile(pattern).MatchString)
		require.GreaterOrEqual(t, i, 0, "%q is not in its place in\n%s", w, output)
		lines = lines[i+1:]
	}
}

// settingsOf returns a queue's settings as the API shows them.
func settingsOf(t *testing.T, s *blackbox.Server, queue string) string {
	t.Helper()
	a, err := blackbox.NewConn().Do(t.Context(), "GET", s.Cfqueues+"/client/v4/accounts/"+account+"/queues?name="+queue, nil)
	require.NoError(t, err)
	var list struct {
		Result []struct{ Settings json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(a.Body, &list), "%s", a)
	require.Len(t, list.Result, 1, "%s", a)
	return string(list.Result[0].Settings)
}

func follow(t *testing.T, s *blackbox.Server, file string) {
	t.Helper()
	frozen(t, s)
	w := newWrangler(t, s)
	all := transcript(t, file)
	for _, e := range all {
		out, code := w.run(t, e.command)
		require.Equal(t, e.code, code, "wrangler %s\n%s", e.command, out)
		requireLines(t, out, e.lines)
		for queue, settings := range e.settings {
			assert.JSONEq(t, settings, settingsOf(t, s, queue), "wrangler %s", e.command)
		}
	}
	t.Logf("%d commands", len(all))
}

// Every command of wrangler that needs no Workers works, and says what it says to the vendor.
func TestWrangler(t *testing.T) {
	npmPackages(t)
	overStores(t, func(t *testing.T, s *blackbox.Server) {
		t.Parallel() // most of the time goes into starting node
		follow(t, s, "wrangler.txt")
	})
}

// With the switches for it, the commands for worker consumers and event subscriptions work too.
func TestWranglerInert(t *testing.T) {
	npmPackages(t)
	s := blackbox.Start(t, t.TempDir(), "--cfqueues-inert-worker-consumers", "--cfqueues-inert-subscriptions")
	follow(t, s, "wrangler-inert.txt")
}

// wrangler finds the account by itself, and takes a key pair for a token.
func TestWranglerFindsTheAccount(t *testing.T) {
	s := blackbox.Start(t, t.TempDir())
	w := newWrangler(t, s)
	w.env = append(w.env, "CLOUDFLARE_ACCOUNT_ID=", "CLOUDFLARE_API_TOKEN=", "CLOUDFLARE_API_KEY=144c9defac04969c7bfad8efaa8ea194", "CLOUDFLARE_EMAIL=user@example.com")
	out, code := w.run(t, "queues create jobs")
	require.Zero(t, code, out)
	requireLines(t, out, []string{"✅ Created queue 'jobs'"})
	out, code = w.run(t, "queues list")
	require.Zero(t, code, out)
	requireLines(t, out, []string{"│ {ID} │ jobs │"})
}
