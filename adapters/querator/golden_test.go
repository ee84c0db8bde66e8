package querator_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/querator"
)

var update = flag.Bool("update", false, "write what the listener answers into the golden files")

// A golden file is a conversation with a listener of the generation in its name: exchanges in
// order, separated by blank lines, each
//
//	== title
//	METHOD path        (or: advance DURATION, and nothing else)
//	Header: value      (any number)
//	body               (or: (empty))
//	-> status
//	body
//
// <id:N> stands for the N-th item id that was seen, <time> for any time.
type exchange struct {
	title, method, path, body, answer string
	headers                           []string
	status                            int
	advance                           time.Duration
}

func readGolden(t *testing.T, path string) []exchange {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var out []exchange
	for _, block := range strings.Split(strings.TrimSpace(string(b)), "\n\n") {
		lines := strings.Split(block, "\n")
		e := exchange{title: strings.TrimPrefix(lines[0], "== ")}
		lines = lines[1:]
		if d, ok := strings.CutPrefix(lines[0], "advance "); ok {
			e.advance, err = time.ParseDuration(d)
			require.NoError(t, err, e.title)
			out = append(out, e)
			continue
		}
		e.method, e.path, _ = strings.Cut(lines[0], " ")
		for lines = lines[1:]; len(lines) > 3; lines = lines[1:] {
			name, value, ok := strings.Cut(lines[0], ":")
			require.True(t, ok, e.title)
			e.headers = append(e.headers, name, strings.TrimSpace(value))
		}
		require.Len(t, lines, 3, e.title)
		if e.body = lines[0]; e.body == "(empty)" {
			e.body = ""
		}
		e.status, err = strconv.Atoi(strings.TrimPrefix(lines[1], "-> "))
		require.NoError(t, err, e.title)
		e.answer = lines[2]
		out = append(out, e)
	}
	return out
}

var (
	timePattern = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[\d:.]+Z"`)
	idPattern   = regexp.MustCompile(`"id":"(\w{27})"`)
)

func TestGoldenConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			generation, err := querator.ParseGeneration(name)
			require.NoError(t, err)
			f := newFixture(t, querator.Options{Generation: generation})
			var ids []string
			exchanges := readGolden(t, file)
			for i := range exchanges {
				e := &exchanges[i]
				if e.advance > 0 {
					f.clock.Advance(e.advance)
					continue
				}
				body := e.body
				for i, id := range ids {
					body = strings.ReplaceAll(body, fmt.Sprintf("<id:%d>", i), id)
				}
				a := f.do(e.method, e.path, body, e.headers...)
				for _, m := range idPattern.FindAllStringSubmatch(a.body, -1) {
					ids = append(ids, m[1])
				}
				got := timePattern.ReplaceAllString(strings.TrimSuffix(a.body, "\n"), `"<time>"`)
				for i, id := range ids {
					got = strings.ReplaceAll(got, id, fmt.Sprintf("<id:%d>", i))
				}
				if *update {
					e.status, e.answer = a.status, got
				}
				if e.status != a.status || e.answer != got {
					t.Errorf("%s: %s %s %s\nwant %d %s\n got %d %s", e.title, e.method, e.path, e.body, e.status, e.answer, a.status, got)
				}
			}
			if *update {
				writeGolden(t, file, exchanges)
			}
		})
	}
}

func writeGolden(t *testing.T, path string, exchanges []exchange) {
	t.Helper()
	var b strings.Builder
	for i, e := range exchanges {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "== %s\n", e.title)
		if e.advance > 0 {
			fmt.Fprintf(&b, "advance %s\n", e.advance)
			continue
		}
		fmt.Fprintf(&b, "%s %s\n", e.method, e.path)
		for h := 0; h < len(e.headers); h += 2 {
			fmt.Fprintf(&b, "%s: %s\n", e.headers[h], e.headers[h+1])
		}
		body := e.body
		if body == "" {
			body = "(empty)"
		}
		fmt.Fprintf(&b, "%s\n-> %d\n%s\n", body, e.status, e.answer)
	}
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
}
