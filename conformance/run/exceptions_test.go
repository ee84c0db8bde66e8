package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/target"
)

// declare parses what a file of exceptions would say of queen.
func declare(t *testing.T, text string) []*exception {
	t.Helper()
	out := map[string][]*exception{}
	require.NoError(t, parseExceptions(text, out))
	return out["queen"]
}

func TestExceptionsAreReadWithTheirReasons(t *testing.T) {
	out := map[string][]*exception{}
	require.NoError(t, parseExceptions(`# comment

queen: the first reason: with a colon
TestOne
! TestNeverRun
~ TestAtOneGateway
^ TestLookedFirst
querator: another
TestTwo/...
`, out))
	require.Len(t, out["queen"], 4)
	assert.Equal(t, exception{pattern: "TestOne", reason: "the first reason: with a colon"}, *out["queen"][0])
	assert.Equal(t, exception{pattern: "TestNeverRun", reason: "the first reason: with a colon", skip: true}, *out["queen"][1])
	assert.Equal(t, exception{pattern: "TestAtOneGateway", reason: "the first reason: with a colon", together: true}, *out["queen"][2])
	assert.Equal(t, "TestAtOneGateway", together(out["queen"]))
	assert.Equal(t, "TestLookedFirst", lookedFirst(out["queen"]))
	assert.Equal(t, exception{pattern: "TestTwo/...", reason: "another"}, *out["querator"][0])
	require.ErrorContains(t, parseExceptions("TestOne\n", out), "before any reason")
}

func TestEveryDeclaredFileIsSound(t *testing.T) {
	t.Chdir("../..")
	for _, target := range defaultTargets {
		_, err := readExceptions(target)
		require.NoError(t, err, target)
	}
	none, err := readExceptions("no-such-target")
	require.NoError(t, err)
	assert.Empty(t, none)
	gateways, err := readExceptions("one-gateway")
	require.NoError(t, err)
	assert.NotEmpty(t, gateways, "what holds for all gateways holds for each")
}

func TestPatternsCoverCases(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"TestOne", "TestOne", true},
		{"TestOne", "TestOneMore", false},
		{"TestOne", "TestOne/case", false},
		{"TestOne/...", "TestOne", true},
		{"TestOne/...", "TestOne/case/deeper", true},
		{"TestOne/...", "TestOther/case", false},
		{"TestOne/a/...", "TestOne/a/b", true},
		{"TestOne/a/...", "TestOne", false},
		{"TestOne/*", "TestOne/case", true},
		{"TestOne/*", "TestOne/case/deeper", false},
		{"TestOne/*/text", "TestOne/json/text", true},
		{"TestOne/a[b]?", "TestOne/a[b]?", true},
		{"TestOne/a[b]?", "TestOne/abc", false},
	} {
		assert.Equal(t, c.want, (&exception{pattern: c.pattern}).covers(c.name), "%s covers %s", c.pattern, c.name)
	}
}

func TestNamesLeaveOutWhatTheyRanOver(t *testing.T) {
	assert.Equal(t, "TestProtocol/3.3_words", target.Plain("TestProtocol/remote/3.3_words"))
	assert.Equal(t, "TestOne/case", target.Plain("TestOne/case/postgres"))
}

// judged is the verdict over cases, each "name=state", with what is declared.
func judged(t *testing.T, declared string, cases ...string) (r *result, problems []string) {
	t.Helper()
	r = &result{protocol: "queen", target: "here", took: time.Second}
	for _, c := range cases {
		name, state, _ := strings.Cut(c, "=")
		r.cases = append(r.cases, &outcome{name: name, state: state, said: []string{"    file_test.go:7: said by " + name + "\n", "--- " + name + "\n"}})
	}
	return r, r.judge(declare(t, declared))
}

func TestVerdictWithoutExceptions(t *testing.T) {
	r, problems := judged(t, "", "TestA=pass", "TestB=fail", "TestC=skip")
	require.Len(t, problems, 1)
	assert.Contains(t, problems[0], "queen on here: TestB failed")
	assert.Contains(t, problems[0], "said by TestB")
	assert.Equal(t, map[string]string{"TestC": "said by TestC"}, r.excepted, "with the reason that it gave")
	assert.Equal(t, "queen on here: 3 cases, 1 passed, 1 excepted, 1 failed, 1.0 s", r.line())
}

func TestWhatFailsAsDeclaredIsExcepted(t *testing.T) {
	r, problems := judged(t, "queen: because\nTestB\nTestD/...\n! TestE\n", "TestA=pass", "TestB=fail", "TestD/remote/x=fail", "TestD/remote/y=skip")
	assert.Empty(t, problems)
	assert.Equal(t, map[string]string{"TestB": "because", "TestD/remote/x": "because", "TestD/remote/y": "because", "TestE": "because"}, r.excepted)
	assert.Equal(t, 1, r.passed())
	assert.Len(t, r.cases, 5, "what is not run is a case all the same")
}

func TestCasesAtOneGatewayMustPass(t *testing.T) {
	for _, mark := range []string{"~", "^"} {
		r, problems := judged(t, strings.ReplaceAll("queen: because\n~ TestA\n~ TestB\n~ TestGone\n", "~", mark), "TestA=pass", "TestB=fail")
		require.Len(t, problems, 2)
		assert.Contains(t, problems[0], "TestB failed")
		assert.Contains(t, problems[1], "no case is called TestGone")
		assert.Equal(t, 2, map[string]int{"~": r.together, "^": r.looked}[mark])
		assert.Empty(t, r.excepted)
	}
}

func TestStaleExceptionsFail(t *testing.T) {
	_, problems := judged(t, "queen: because\nTestA\n", "TestA=pass")
	require.Len(t, problems, 1)
	assert.Contains(t, problems[0], "TestA passes: the exception no longer applies (because)")
	_, problems = judged(t, "queen: because\nTestGone\n", "TestA=pass")
	require.Len(t, problems, 1)
	assert.Contains(t, problems[0], "no case is called TestGone any more")
	_, problems = judged(t, "queen: because\nTestA/...\n", "TestA/x=fail", "TestA/y=pass")
	assert.Len(t, problems, 1, "one that passes among those that a pattern covers")
}

func TestSkippedTestsGiveTheirReason(t *testing.T) {
	for said, want := range map[string]string{
		"=== RUN   TestA\n    a_test.go:12: needs this\n--- SKIP: TestA (0.00s)\n": "needs this",
		"    a_test.go:1: needs a clock that can be moved: 3m0s\n":                 "needs a clock",
		"--- SKIP: TestA (0.00s)\n":                                                "skipped without a reason",
	} {
		got := (&outcome{said: strings.SplitAfter(said, "\n")}).reason()
		assert.Equal(t, want, got)
	}
}
