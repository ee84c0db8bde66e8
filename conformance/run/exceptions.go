package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/conformance/target"
)

// exception is a set of cases of which the target's answer is known to differ.
type exception struct {
	pattern, reason string
	// skip is for tests that would never end there, or end the others: they are not run.
	skip bool
	// together is no exception: the cases must pass when one gateway gets all their requests.
	together bool
	// looked is no exception either: the cases must pass when all gateways look at what the others did before each request.
	looked bool
	used   int
}

// readExceptions reads conformance/exceptions/TARGET.txt, and for the targets in
// containers gateways.txt too. Its lines:
//
//	# comment
//	PROTOCOL: reason                  begins a section; the reason holds for what follows
//	TestName/sub/case                 a case; * is any text without a slash, a last /... anything below
//	! TestName                        a test that is not even run, since it would wait for ever
//	~ TestName/sub/case               a case that must pass, but with all of its requests at one gateway, chosen
//	                                  at random: it expects what a gateway promises of what it knows itself
//	^ TestName/sub/case               a case that must pass, with every gateway looking at what the others did before
//	                                  each request: it expects of one answer all that there is
//
// The names of stores ("memory", "remote" and so on) are left out of cases' names.
func readExceptions(target string) (map[string][]*exception, error) {
	out := map[string][]*exception{}
	files := []string{target}
	if target == "containers" || target == "one-gateway" {
		files = append(files, "gateways")
	}
	for _, name := range files {
		file := filepath.Join("conformance", "exceptions", name+".txt")
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = parseExceptions(string(text), out)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return out, nil
}

// parseExceptions adds what a file declares.
func parseExceptions(text string, out map[string][]*exception) error {
	protocol, reason := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		head, rest, isHead := strings.Cut(line, ": ")
		switch {
		case line == "" || line[0] == '#':
		case isHead && slices.Contains([]string{"queen", "querator", "cfqueues"}, head):
			protocol, reason = head, rest
		case reason == "":
			return fmt.Errorf("%q stands before any reason", line)
		default:
			pattern, skip := strings.CutPrefix(line, "! ")
			pattern, together := strings.CutPrefix(pattern, "~ ")
			pattern, looked := strings.CutPrefix(pattern, "^ ")
			out[protocol] = append(out[protocol], &exception{pattern: pattern, reason: reason, skip: skip, together: together, looked: looked})
		}
	}
	return nil
}

// covers says whether an exception is for a case.
func (e *exception) covers(name string) bool { return target.Covers(e.pattern, name) }

// skipped is the pattern of the tests that are not run, "" for none.
func skipped(declared []*exception) string {
	var names []string
	for _, e := range declared {
		if e.skip {
			names = append(names, e.pattern)
		}
	}
	return pattern(names)
}

// patterns are those of the exceptions of a kind, a line each.
func patterns(declared []*exception, kind func(*exception) bool) string {
	var names []string
	for _, e := range declared {
		if kind(e) {
			names = append(names, e.pattern)
		}
	}
	return strings.Join(names, "\n")
}

// together are the patterns of the cases of which one gateway gets all requests, lookedFirst those before whose requests all look.
func together(declared []*exception) string {
	return patterns(declared, func(e *exception) bool { return e.together })
}

func lookedFirst(declared []*exception) string {
	return patterns(declared, func(e *exception) bool { return e.looked })
}

// judge compares what happened with what is declared, and returns what is wrong.
func (r *result) judge(declared []*exception) []string {
	r.excepted = map[string]string{}
	var problems []string
	for _, c := range r.cases {
		name := target.Plain(c.name)
		i := slices.IndexFunc(declared, func(e *exception) bool { return e.covers(name) })
		if i >= 0 {
			e := declared[i]
			e.used++
			switch {
			case e.together:
				r.together++
				i = -1
			case e.looked:
				r.looked++
				i = -1
			}
		}
		switch {
		case c.state == "pass" && i >= 0:
			problems = append(problems, fmt.Sprintf("%s on %s: %s passes: the exception no longer applies (%s)", r.protocol, r.target, name, declared[i].reason))
		case c.state == "pass":
		case i >= 0:
			r.excepted[c.name] = declared[i].reason
		case c.state == "skip":
			r.excepted[c.name] = c.reason()
		default:
			r.failed = append(r.failed, c)
			problems = append(problems, fmt.Sprintf("%s on %s: %s failed:\n%s", r.protocol, r.target, name, strings.Join(c.said, "")))
		}
	}
	for _, e := range declared {
		if e.skip {
			r.cases = append(r.cases, &outcome{name: e.pattern, state: "skip"})
			r.excepted[e.pattern] = e.reason
			continue
		}
		if e.used == 0 {
			problems = append(problems, fmt.Sprintf("%s on %s: no case is called %s any more", r.protocol, r.target, e.pattern))
		}
	}
	return problems
}

// reason is what a skipped test gave as its reason.
func (c *outcome) reason() string {
	for _, line := range slices.Backward(c.said) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "===") {
			continue
		}
		if _, text, ok := strings.Cut(line, ".go:"); ok {
			_, line, _ = strings.Cut(text, ": ")
		}
		// A step's length would make every reason another one.
		line, _, _ = strings.Cut(line, " that can be moved: ")
		return line
	}
	return "skipped without a reason"
}
