package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/conformance/target"
)

// compile builds each adapter's tests once.
func (r *runner) compile(ctx context.Context) error {
	r.binaries, r.asking = map[string]string{}, map[string]string{}
	for _, p := range r.protocols {
		path := filepath.Join(r.dir, p+".test")
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", path, "./adapters/"+p)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("compile the cases of %s: %w\n%s", p, err, out)
		}
		r.binaries[p] = path
	}
	return nil
}

// outcome is what became of a case.
type outcome struct {
	name string
	// state is pass, fail or skip.
	state string
	// said is what the test printed.
	said []string
}

// result is what became of a protocol's cases on a target.
type result struct {
	protocol, target string
	cases            []*outcome
	excepted         map[string]string
	failed           []*outcome
	// together is how many cases were played with all of their requests at one gateway.
	together int
	// looked is how many were played with every gateway looking first.
	looked int
	// ended says where the tests ended too early, "" where they did not.
	ended string
	took  interface{ Seconds() float64 }
}

// event is one line of "go tool test2json".
type event struct{ Action, Test, Output string }

// play runs the tests of a protocol and keeps those that asked for a target. A
// test that panics ends the others; they are run again without it.
func (r *runner) play(ctx context.Context, where, protocol string, env []string, declared []*exception) (*result, error) {
	noted := filepath.Join(r.dir, where+"-"+protocol+".cases")
	all, last, skip := map[string]*outcome{}, "", skipped(declared)
	env = slices.Concat(env, []string{
		target.CasesVariable + "=" + noted, target.OneReplicaVariable + "=" + together(declared), target.LookFirstVariable + "=" + lookedFirst(declared),
	})
	for range mostPanics {
		raw, err := r.once(ctx, where, protocol, env, skip)
		if err != nil {
			return nil, err
		}
		tests, end, panicked := read(raw)
		last = end
		for name, t := range tests {
			if old := all[name]; old == nil || old.state == "" || t.state == "fail" {
				all[name] = t
			}
		}
		if !panicked {
			break
		}
		skip = strings.Join(slices.DeleteFunc([]string{skip, pattern(finished(tests))}, func(s string) bool { return s == "" }), "|")
	}
	names, err := os.ReadFile(noted)
	if err != nil {
		return nil, fmt.Errorf("no case of %s ran (%w):\n%s", protocol, err, last)
	}
	r.learn(protocol, strings.Fields(string(names)))
	out := &result{protocol: protocol, target: where, cases: leaves(all, strings.Fields(string(names)))}
	for _, c := range out.cases {
		if c.state == "" {
			c.state = "fail"
			out.ended = fmt.Sprintf("%s on %s: the tests ended in the middle of %s:\n%s", protocol, where, c.name, last)
		}
	}
	return out, nil
}

// learn notes which tests ask for a target, the first time that a protocol's tests are run. Further targets run only those.
func (r *runner) learn(protocol string, names []string) {
	if r.asking[protocol] != "" {
		return
	}
	var tests []string
	for _, n := range names {
		top, _, _ := strings.Cut(n, "/")
		tests = append(tests, "^"+regexp.QuoteMeta(top)+"$")
	}
	slices.Sort(tests)
	r.asking[protocol] = strings.Join(slices.Compact(tests), "|")
}

// mostPanics bounds how often tests are run again.
const mostPanics = 12

// once runs the tests and returns their output in test2json's form.
func (r *runner) once(ctx context.Context, target, protocol string, env []string, skip string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json", "-t", r.binaries[protocol], //nolint:gosec // the tester's own words
		"-test.v=test2json", "-test.short", "-test.parallel=1", "-test.timeout="+r.limit.String(), "-test.skip="+skip, "-test.run="+r.asking[protocol])
	cmd.Dir = filepath.Join("adapters", protocol)
	cmd.Env = slices.Concat(os.Environ(), env)
	var raw bytes.Buffer
	cmd.Stdout, cmd.Stderr = &raw, os.Stderr
	if r.keep != "" {
		kept, err := os.OpenFile(filepath.Join(r.keep, target+"-"+protocol+".json"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer func() { _ = kept.Close() }()
		cmd.Stdout = io.MultiWriter(&raw, kept)
	}
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &failed) {
		return nil, err
	}
	return raw.Bytes(), ctx.Err()
}

// finished are the tests that have ended and whose parents have not gone on without them: of what panicked, the
// tests that came to an end before, and those that it was in.
func finished(tests map[string]*outcome) []string {
	parents := map[string]bool{}
	for name := range tests {
		for p := parent(name); p != ""; p = parent(p) {
			parents[p] = true
		}
	}
	var out []string
	for name, t := range tests {
		if !parents[name] && t.state != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// pattern is what "go test -skip" takes for exactly these tests.
func pattern(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = "^" + strings.ReplaceAll(regexp.QuoteMeta(n), "/", "$/^") + "$"
	}
	return strings.Join(quoted, "|")
}

// read sorts the output by test. last is the end of all of it; panicked says that it ended too early.
func read(raw []byte) (tests map[string]*outcome, last string, panicked bool) {
	tests = map[string]*outcome{}
	var all []string
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		if e.Action == "output" {
			all = append(all, e.Output)
			panicked = panicked || strings.HasPrefix(e.Output, "panic: ") && !strings.Contains(e.Output, "test timed out")
		}
		if e.Test == "" {
			continue
		}
		t := tests[e.Test]
		if t == nil {
			t = &outcome{name: e.Test}
			tests[e.Test] = t
		}
		switch e.Action {
		case "output":
			t.said = append(t.said, e.Output)
		case "pass", "fail", "skip":
			t.state = e.Action
		}
	}
	return tests, strings.Join(all[max(0, len(all)-60):], ""), panicked
}

// leaves are the tests without subtests that asked for a target, or whose parent did.
func leaves(tests map[string]*outcome, noted []string) []*outcome {
	asked := map[string]bool{}
	for _, n := range noted {
		asked[n] = true
	}
	parents := map[string]bool{}
	for name := range tests {
		for p := parent(name); p != ""; p = parent(p) {
			parents[p] = true
		}
	}
	var out []*outcome
	for name, t := range tests {
		if parents[name] {
			continue
		}
		for n := name; n != ""; n = parent(n) {
			if asked[n] {
				out = append(out, t)
				break
			}
		}
	}
	slices.SortFunc(out, func(a, b *outcome) int { return strings.Compare(a.name, b.name) })
	return out
}

func parent(name string) string {
	i := strings.LastIndexByte(name, '/')
	return name[:max(0, i)]
}
