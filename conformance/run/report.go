package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/leasehold/leasehold/conformance/target"
)

func (r *result) passed() int { return len(r.cases) - len(r.excepted) - len(r.failed) }

func (r *result) line() string {
	return fmt.Sprintf("%s on %s: %d cases, %d passed, %d excepted, %d failed, %.1f s",
		r.protocol, r.target, len(r.cases), r.passed(), len(r.excepted), len(r.failed), r.took.Seconds())
}

// report prints the table, the reasons of what is excepted, and what is wrong.
func (r *runner) report(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
	p("protocol\ttarget\tcases\tpassed\texcepted\tfailed\tseconds\n")
	passed, failed, tolerated := 0, 0, 0
	for _, x := range r.results {
		p("%s\t%s\t%d\t%d\t%d\t%d\t%.1f\n", x.protocol, x.target, len(x.cases), x.passed(), len(x.excepted), len(x.failed), x.took.Seconds())
		passed += x.passed()
		if slices.Contains(r.tolerated, x.target) {
			tolerated += len(x.failed)
		} else {
			failed += len(x.failed)
		}
	}
	_ = w.Flush()
	for _, x := range r.results {
		r.reasons(out, x)
	}
	for _, l := range r.left {
		_, _ = fmt.Fprintln(out, "\nnot run:", l)
	}
	for _, warning := range r.warnings {
		first, _, _ := strings.Cut(warning, "\n")
		_, _ = fmt.Fprintf(out, "\nTOLERATED %s\n", first)
	}
	for _, problem := range r.problems {
		_, _ = fmt.Fprintf(out, "\nPROBLEM %s\n", problem)
	}
	if tolerated > 0 {
		_, _ = fmt.Fprintf(out, "\n%d cases failed on targets that this run tolerates\n", tolerated)
	}
	_, _ = fmt.Fprintf(out, "\nconformance: %d passed, %d failed\n", passed, failed)
}

// reasons lists why cases are excepted, with how many, most first.
func (r *runner) reasons(out io.Writer, x *result) {
	by := map[string][]string{}
	for name, reason := range x.excepted {
		by[reason] = append(by[reason], name)
	}
	order := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(len(by[b])-len(by[a]), strings.Compare(a, b))
	})
	if x.together > 0 {
		_, _ = fmt.Fprintf(out, "\n%s on %s: %d cases with all of their requests at one gateway\n", x.protocol, x.target, x.together)
	}
	if x.looked > 0 {
		_, _ = fmt.Fprintf(out, "\n%s on %s: %d cases with every gateway looking at what the others did before each request\n", x.protocol, x.target, x.looked)
	}
	if len(order) > 0 {
		_, _ = fmt.Fprintf(out, "\n%s on %s, excepted:\n", x.protocol, x.target)
	}
	for _, reason := range order {
		_, _ = fmt.Fprintf(out, "  %4d  %s\n", len(by[reason]), reason)
		if r.list {
			slices.Sort(by[reason])
			for _, name := range by[reason] {
				_, _ = fmt.Fprintf(out, "          %s\n", target.Plain(name))
			}
		}
	}
}
