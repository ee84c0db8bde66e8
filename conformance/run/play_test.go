package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// events are lines of test2json: "action test output".
func events(lines ...string) []byte {
	var out bytes.Buffer
	for _, line := range lines {
		action, rest, _ := strings.Cut(line, " ")
		test, said, _ := strings.Cut(rest, " ")
		out.WriteString(`{"Action":"` + action + `","Test":"` + test + `","Output":"` + said + `"}` + "\n")
	}
	return out.Bytes()
}

func TestOutcomesAreReadFromTheOutput(t *testing.T) {
	tests, last, panicked := read(append(events("run TestA", "output TestA one", "pass TestA", "run TestB", "fail TestB", "run TestC", "output TestC the end"), []byte("no JSON\n")...))
	assert.False(t, panicked)
	assert.Equal(t, "pass", tests["TestA"].state)
	assert.Equal(t, []string{"one"}, tests["TestA"].said)
	assert.Equal(t, "fail", tests["TestB"].state)
	assert.Empty(t, tests["TestC"].state, "it never ended")
	assert.Equal(t, "onethe end", last)
	_, _, panicked = read(events("output TestA panic: index out of range"))
	assert.True(t, panicked)
	_, _, panicked = read(events("output TestA panic: test timed out after 1m"))
	assert.False(t, panicked, "running the others again would take as long")
}

func TestCasesAreTheLeavesThatAskedForATarget(t *testing.T) {
	tests := map[string]*outcome{}
	for _, name := range []string{"TestA", "TestA/x", "TestA/x/1", "TestA/x/2", "TestB", "TestUnit", "TestUnit/case"} {
		tests[name] = &outcome{name: name, state: "pass"}
	}
	var names []string
	for _, c := range leaves(tests, []string{"TestA/x", "TestB"}) {
		names = append(names, c.name)
	}
	assert.Equal(t, []string{"TestA/x/1", "TestA/x/2", "TestB"}, names)
}

func TestSkipPatternsNameExactTests(t *testing.T) {
	assert.Equal(t, `^TestA$|^TestB$/^x\+y$`, pattern([]string{"TestA", "TestB/x+y"}))
	declared := declare(t, "queen: because\n! TestA\nTestB\n")
	assert.Equal(t, "^TestA$", skipped(declared))
}

func TestFurtherTargetsRunOnlyTheTestsThatAsk(t *testing.T) {
	r := &runner{asking: map[string]string{}}
	r.learn("queen", []string{"TestB/sub", "TestA", "TestB/other"})
	assert.Equal(t, "^TestA$|^TestB$", r.asking["queen"])
	r.learn("queen", []string{"TestC"})
	re := regexp.MustCompile(r.asking["queen"])
	assert.True(t, re.MatchString("TestA"))
	assert.False(t, re.MatchString("TestAll"))
	assert.False(t, re.MatchString("TestC"), "the first target decides")
}

func TestReport(t *testing.T) {
	good, problems := judged(t, "queen: because\nTestB\n", "TestA=pass", "TestB=fail")
	require.Empty(t, problems)
	bad, problems := judged(t, "", "TestA=fail")
	bad.target, bad.took = "there", 2*time.Second
	r := &runner{list: true, results: []*result{good, bad}, problems: problems, left: []string{"containers: no Docker"}}
	var out bytes.Buffer
	r.report(&out)
	text := regexp.MustCompile(`  +`).ReplaceAllString(out.String(), "  ")
	assert.Contains(t, text, "protocol  target  cases  passed  excepted  failed  seconds\nqueen  here  2  1  1  0  1.0\nqueen  there  1  0  0  1  2.0\n")
	assert.Contains(t, text, "queen on here, excepted:\n  1  because\n  TestB\n")
	assert.Contains(t, text, "not run: containers: no Docker")
	assert.Contains(t, text, "PROBLEM queen on here: TestA failed")
	assert.Contains(t, text, "conformance: 1 passed, 1 failed\n")

	r.tolerated = []string{"there"}
	out.Reset()
	r.report(&out)
	assert.Contains(t, out.String(), "1 cases failed on targets that this run tolerates")
	assert.Contains(t, out.String(), "conformance: 1 passed, 0 failed\n")
}
