package queen_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
	"github.com/leasehold/leasehold/conformance/target"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/memory"
	"github.com/leasehold/leasehold/store/sqlite"
)

// rule is a test of one paragraph of the protocol, or of several. The paragraphs are those of testdata/paragraphs.txt.
type rule struct {
	// covers names the paragraphs, separated by commas.
	covers string
	// options are the adapter's.
	options queen.Options
	run     func(t *testing.T, b *broker)
}

// rules are all tests by paragraph; each file of the suite adds its own.
var rules = slices.Concat(planeRules, routeRules, streamRules, leaseRules, ackRules, transactionRules, waitRules, optionRules, laterRules, sdkRules, streamSDKRules, painRules, sealedRules, maintenanceRules, viewRules, moreRules)

// ruleStores are the stores that every rule is tested over.
var ruleStores = map[string]func(t *testing.T) core.Store{
	"memory": func(*testing.T) core.Store { return memory.New() },
	"sqlite": func(t *testing.T) core.Store {
		t.Helper()
		s, err := sqlite.Open(context.WithoutCancel(t.Context()), t.TempDir(), sqlite.Options{})
		require.NoError(t, err)
		return s
	},
}

// chosenStores are the stores of this run: all, the one that CONFORMANCE_STORE names, or none behind a remote server.
func chosenStores() map[string]func(t *testing.T) core.Store {
	if !target.InProcess(target.Queen) {
		return map[string]func(t *testing.T) core.Store{target.Label(target.Queen): ruleStores[target.Memory]}
	}
	if os.Getenv(target.StoreVariable) == "" {
		return ruleStores
	}
	return map[string]func(t *testing.T) core.Store{target.Label(target.Queen): func(t *testing.T) core.Store { t.Helper(); return target.Open(t) }}
}

// TestProtocol runs every rule over every store: TestProtocol/sqlite/6.6.8 is one.
func TestProtocol(t *testing.T) {
	for name, open := range chosenStores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range rules {
				t.Run(r.covers, func(t *testing.T) { r.run(t, newBrokerOver(t, open(t), r.options)) })
			}
		})
	}
}

// paragraph is one line of testdata/paragraphs.txt.
type paragraph struct {
	id, what string
	gap      bool
}

func readParagraphs(t *testing.T) []paragraph {
	t.Helper()
	text, err := os.ReadFile("testdata/paragraphs.txt")
	require.NoError(t, err)
	var out []paragraph
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		p := paragraph{gap: strings.HasPrefix(line, "- ")}
		id, what, ok := strings.Cut(strings.TrimPrefix(line, "- "), "  ")
		if !ok && p.gap { // a gap's id may be followed by one space
			id, what = gapID(strings.TrimPrefix(line, "- "))
		}
		p.id, p.what = strings.TrimSpace(id), strings.TrimSpace(what)
		require.NotEmpty(t, p.what, line)
		out = append(out, p)
	}
	return out
}

// gapID cuts a gap's line after its second word.
func gapID(line string) (id, what string) {
	words := strings.SplitN(line, " ", 3)
	return strings.Join(words[:2], " "), words[len(words)-1]
}

// TestParagraphs compares the tests with the list of paragraphs: every paragraph is covered or a gap, and no test names one that is not
// in the list or that is a gap. With -v it prints the list.
func TestParagraphs(t *testing.T) {
	tests := map[string]int{}
	for _, r := range rules {
		for id := range strings.SplitSeq(r.covers, ",") {
			tests[strings.TrimSpace(id)]++
		}
	}
	covered, gaps, missing := 0, 0, 0
	for _, p := range readParagraphs(t) {
		n := tests[p.id]
		delete(tests, p.id)
		state := fmt.Sprintf("%d tests", n)
		switch {
		case p.gap && n > 0:
			t.Errorf("%s is marked as a gap and has a test", p.id)
		case p.gap:
			state = "GAP"
			gaps++
		case n == 0:
			t.Errorf("%s has no test", p.id)
			state = "MISSING"
			missing++
		default:
			covered++
		}
		t.Logf("%-8s §%s: %s", state, p.id, p.what)
	}
	for id := range tests {
		t.Errorf("a test covers %q, which is not in the list", id)
	}
	t.Logf("covered %d, gaps %d, missing %d", covered, gaps, missing)
}
