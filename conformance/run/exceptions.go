package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// exception is a set of cases of which the target's answer is known to differ.
type exception struct {
	pattern, reason string
	used            int
}

// readExceptions reads conformance/exceptions/TARGET.txt. Its lines:
//
//	# comment
//	PROTOCOL: reason                  begins a section; the reason holds for what follows
//	TestName/sub/case                 a case; * is any text without a slash, a last /... anything below
//
// The names of stores ("memory", "remote" and so on) are left out of cases' names.
func readExceptions(target string) (map[string][]*exception, error) {
	file := filepath.Join("conformance", "exceptions", target+".txt")
	f, err := os.Open(file) //nolint:gosec // a file of the repository
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	out := map[string][]*exception{}
	protocol, reason := "", ""
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		head, rest, isHead := strings.Cut(line, ": ")
		switch {
		case line == "" || line[0] == '#':
		case isHead && slices.Contains([]string{"queen", "querator", "cfqueues"}, head):
			protocol, reason = head, rest
		case reason == "":
			return nil, fmt.Errorf("%s:%d: a case before any reason", file, n)
		default:
			out[protocol] = append(out[protocol], &exception{pattern: line, reason: reason})
		}
	}
	return out, lines.Err()
}

// covers says whether an exception is for a case.
func (e *exception) covers(name string) bool {
	if below, ok := strings.CutSuffix(e.pattern, "/..."); ok {
		n := strings.Count(below, "/") + 1
		parts := strings.Split(name, "/")
		if len(parts) < n {
			return false
		}
		ok, err := path.Match(escape(below), strings.Join(parts[:n], "/"))
		return ok && err == nil
	}
	ok, err := path.Match(escape(e.pattern), name)
	return ok && err == nil
}

// escape leaves * its meaning and takes that of [ and ? away, which names of cases contain.
func escape(pattern string) string { return strings.NewReplacer("[", `\[`, "?", `\?`).Replace(pattern) }

// plain is a case's name without the part that says what it ran over.
func plain(name string) string {
	parts := strings.Split(name, "/")
	parts = slices.DeleteFunc(parts, func(p string) bool { return slices.Contains([]string{"memory", "sqlite", "postgres", "remote"}, p) })
	return strings.Join(parts, "/")
}

// judge compares what happened with what is declared, and returns what is wrong.
func (r *result) judge(declared []*exception) []string {
	r.excepted = map[string]string{}
	var problems []string
	for _, c := range r.cases {
		name := plain(c.name)
		i := slices.IndexFunc(declared, func(e *exception) bool { return e.covers(name) })
		if i >= 0 {
			declared[i].used++
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
