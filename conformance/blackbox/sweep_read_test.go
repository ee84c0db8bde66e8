package blackbox

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bad input of each protocol is a file of blocks, separated by blank lines; "#" begins a
// comment. A block is one of
//
//	METHOD path [lenient] [reads] [taken] [most=BYTES]   a route,
//	{"a":"fine body"}                                     with a body that it takes,
//	"fine" => 7 :: 400 text                               and edits of it: piece => what stands there instead;
//	=> []                                                 without a piece the whole body is replaced;
//	@group                                                the edits of a group
//
//	@group                                                a group of edits that routes share
//	"fine" => 7
//
//	requests                                              single bad requests
//	METHOD path {"body"} :: 404 text :: Header: value
//
// Behind "::" is the status, by default the protocol's own for what it cannot read, and a piece of
// the answer. <x*9> is nine x, <ff> a byte; TXN, PART, LEASE, ITEM and CFID are the server's.
// A lenient route takes any body, one that reads changes nothing, of one that is taken the fine body
// is refused by what is there, and most is a body limit so low that it comes before everything else.

// sweepReader reads one file.
type sweepReader struct {
	t      *testing.T
	fill   *strings.Replacer
	groups map[string][]edit
	routes []sweptRoute
	others []badRequest
}

// readSweep reads a protocol's file.
func (s *sweeper) readSweep(t *testing.T, name string, r refusal) sweptProtocol {
	t.Helper()
	raw, err := os.ReadFile("testdata/sweep/" + name + ".txt")
	require.NoError(t, err)
	read := &sweepReader{
		t: t, groups: map[string][]edit{},
		fill: strings.NewReplacer("TXN", s.transaction, "PART", s.partition, "LEASE", s.lease, "ITEM", s.item, "CFID", s.cfLease),
	}
	for block := range strings.SplitSeq(string(raw), "\n\n") {
		var lines []string
		for line := range strings.SplitSeq(block, "\n") {
			if line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		if len(lines) > 0 {
			read.block(lines)
		}
	}
	return sweptProtocol{name, r, read.routes, read.others}
}

func (r *sweepReader) block(lines []string) {
	switch {
	case strings.HasPrefix(lines[0], "@"):
		r.groups[lines[0]] = r.edits(lines[1:])
	case lines[0] == "requests":
		for _, line := range lines[1:] {
			r.others = append(r.others, r.request(line))
		}
	default:
		words := strings.Fields(lines[0])
		route := sweptRoute{method: words[0], path: words[1], body: r.expand(lines[1]), edits: r.edits(lines[2:])}
		for _, word := range words[2:] {
			name, value, _ := strings.Cut(word, "=")
			switch name {
			case "lenient":
				route.lenient = true
			case "reads":
				route.reads = true
			case "taken":
				route.taken = true
			case "most":
				route.most = r.number(value)
			default:
				require.Failf(r.t, "unknown word", "%q in %q", word, lines[0])
			}
		}
		r.routes = append(r.routes, route)
	}
}

func (r *sweepReader) edits(lines []string) (out []edit) {
	for _, line := range lines {
		if strings.HasPrefix(line, "@") {
			require.NotEmpty(r.t, r.groups[line], line)
			out = append(out, r.groups[line]...)
			continue
		}
		change, answer, _ := strings.Cut(line, " :: ")
		from, to, found := strings.Cut(change, "=>")
		require.True(r.t, found, line)
		e := edit{from: r.expand(strings.TrimSuffix(from, " ")), to: r.expand(strings.TrimPrefix(to, " "))}
		e.status, e.want = r.answer(answer)
		out = append(out, e)
	}
	return out
}

func (r *sweepReader) request(line string) badRequest {
	parts := strings.Split(line, " :: ")
	require.Greater(r.t, len(parts), 1, line)
	words := strings.SplitN(parts[0], " ", 3)
	b := badRequest{method: words[0], path: r.fill.Replace(words[1])}
	if len(words) > 2 {
		b.body = r.expand(words[2])
	}
	b.status, b.want = r.answer(parts[1])
	for _, header := range parts[2:] {
		name, value, _ := strings.Cut(header, ": ")
		b.headers = append(b.headers, name, r.expand(value))
	}
	return b
}

// answer splits "404 text", of which either part may be missing.
func (r *sweepReader) answer(s string) (status int, want string) {
	first, rest, _ := strings.Cut(s, " ")
	if n, err := strconv.Atoi(first); err == nil && n < 1000 { // Cloudflare's codes are larger
		return n, rest
	}
	return 0, s
}

var (
	repeated = regexp.MustCompile(`<(.+?)\*(\d+)>`)
	oneByte  = regexp.MustCompile(`<([0-9a-f]{2})>`)
)

// expand writes out what a file abbreviates.
func (r *sweepReader) expand(s string) string {
	s = r.fill.Replace(s)
	s = repeated.ReplaceAllStringFunc(s, func(m string) string {
		parts := repeated.FindStringSubmatch(m)
		return strings.Repeat(parts[1], r.number(parts[2]))
	})
	return oneByte.ReplaceAllStringFunc(s, func(m string) string {
		n, err := strconv.ParseUint(m[1:3], 16, 8)
		require.NoError(r.t, err)
		return string([]byte{byte(n)})
	})
}

func (r *sweepReader) number(s string) int {
	n, err := strconv.Atoi(s)
	require.NoError(r.t, err)
	return n
}
