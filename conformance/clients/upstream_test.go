package clients

import (
	"bufio"
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/blackbox"
)

// upstreamSkips are the tests that both generations skip of themselves.
var upstreamSkips = []string{"TestConsumerNewWithOptionalParams", "TestConsumerUpdateWithOptionalParams"}

// The vendor's own tests of the queues part of its Go library come with the module. They run
// here against the server, with what they take for granted put in place before each request.
// What upstream skips of itself is skipped.
func TestGoLibraryOwnSuite(t *testing.T) {
	s := blackbox.Start(t, t.TempDir(), "--cfqueues-inert-subscriptions")
	for _, suite := range []struct {
		name, pkg string
		passed    int
	}{
		{"v6.10", "github.com/cloudflare/cloudflare-go/v6/queues", 20},
		{"v7", "github.com/cloudflare/cloudflare-go/v7/queues", 23},
	} {
		t.Run(suite.name, func(t *testing.T) {
			f, url := newFixture(t, s)
			results := goTest(t, suite.pkg, url)
			var passed, skipped []string
			for _, name := range slices.Sorted(maps.Keys(results)) {
				switch results[name] {
				case "pass":
					passed = append(passed, name)
				case "skip":
					skipped = append(skipped, name)
				default:
					t.Errorf("%s: %s", name, results[name])
				}
			}
			t.Logf("%d passed, %d skipped upstream %v, %d kinds of request", len(passed), len(skipped), skipped, len(f.passed))
			assert.Len(t, passed, suite.passed)
			assert.Len(t, f.passed, suite.passed, "each test sends one request of its own kind")
			assert.Equal(t, upstreamSkips, skipped)
		})
	}
}

// goTest runs a package's tests against a base URL and returns how each ended.
func goTest(t *testing.T, pkg, url string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-json", pkg)
	cmd.Env = append(os.Environ(), "TEST_API_BASE_URL="+url)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var output strings.Builder
	results := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct{ Action, Test, Output string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &event), lines.Text())
		switch event.Action {
		case "pass", "fail", "skip":
			if event.Test != "" {
				results[event.Test] = event.Action
			}
		case "output", "build-output":
			output.WriteString(event.Output)
		}
	}
	require.NoError(t, lines.Err())
	require.NoError(t, err, "%s\n%s", stderr.String(), output.String())
	return results
}
