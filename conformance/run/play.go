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
	"slices"
	"strings"
)

// limit is how long the cases of one protocol may take on one target.
const limit = "4m"

// compile builds each adapter's tests once.
func (r *runner) compile(ctx context.Context) error {
	r.binaries = map[string]string{}
	for _, p := range r.protocols {
		path := filepath.Join(r.dir, p+".test")
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", path, "./adapters/"+p) //nolint:gosec // the tester's own words
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
	// ended says where the tests ended too early, "" where they did not.
	ended string
	took  interface{ Seconds() float64 }
}

// event is one line of "go tool test2json".
type event struct{ Action, Test, Output string }

// play runs the tests of a protocol and keeps those that asked for a target.
func (r *runner) play(ctx context.Context, target, protocol string, env []string, skip string) (*result, error) {
	noted := filepath.Join(r.dir, target+"-"+protocol+".cases")
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json", "-t", r.binaries[protocol], //nolint:gosec // built above
		"-test.v=test2json", "-test.short", "-test.parallel=1", "-test.timeout="+limit, "-test.skip="+skip)
	cmd.Dir = filepath.Join("adapters", protocol)
	cmd.Env = slices.Concat(os.Environ(), env, []string{"CONFORMANCE_CASES=" + noted})
	var raw, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &raw, &complaints
	if r.keep != "" {
		kept, err := os.Create(filepath.Join(r.keep, target+"-"+protocol+".json"))
		if err != nil {
			return nil, err
		}
		defer func() { _ = kept.Close() }()
		cmd.Stdout = io.MultiWriter(&raw, kept)
	}
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	tests, last := read(raw.Bytes())
	names, readErr := os.ReadFile(noted) //nolint:gosec // our own file
	if readErr != nil {
		return nil, fmt.Errorf("no case of %s ran (%w):\n%s%s", protocol, errors.Join(err, readErr), last, complaints.String())
	}
	out := &result{protocol: protocol, target: target, cases: leaves(tests, strings.Fields(string(names)))}
	for _, c := range out.cases {
		if c.state == "" {
			out.ended = fmt.Sprintf("%s on %s: the tests ended in the middle of %s:\n%s%s", protocol, target, c.name, last, complaints.String())
		}
	}
	return out, nil
}

// read sorts the output by test. last is the end of all of it.
func read(raw []byte) (tests map[string]*outcome, last string) {
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
	return tests, strings.Join(all[max(0, len(all)-60):], "")
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
