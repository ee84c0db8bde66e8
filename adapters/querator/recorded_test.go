package querator_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/querator"
)

// testdata/recorded holds what the originals answered to a session of about 130 requests, one file
// for each generation, in the form of the golden files. Beyond that form,
//
//	START path         sends the body and leaves it waiting
//	JOIN duration      advances the clock and takes that answer; status 0 takes none
//	LEARN path         sends the body and takes the id of the last item as <id:N>
//	bytes 0102         is a body in hexadecimal
//	<1001 x>           is x a thousand and one times, with commas between, unless x is a letter
//	<+3s>, <age>       is a time that far ahead, and any duration
//
// Ours must give the same status, the same content type and the same members, where absent is as
// good as zero. What differs on purpose is in recordedDifferences.

// replay is a recorded session being repeated.
type replay struct {
	*fixture
	ids  map[string]string
	wait <-chan answer
}

var repeated = regexp.MustCompile(`<(\d+) ([^>]+)>`)

// prepare makes a body of a recorded one.
func (r *replay) prepare(body string) string {
	if h, ok := strings.CutPrefix(body, "bytes "); ok {
		b, err := hex.DecodeString(h)
		require.NoError(r.t, err)
		return string(b)
	}
	for id, ours := range r.ids {
		body = strings.ReplaceAll(body, id, ours)
	}
	body = strings.ReplaceAll(body, "<+3s>", r.clock.Now().Std().Add(3*time.Second).Format(time.RFC3339))
	return repeated.ReplaceAllStringFunc(body, func(s string) string {
		m := repeated.FindStringSubmatch(s)
		n, err := strconv.Atoi(m[1])
		require.NoError(r.t, err)
		if len(m[2]) == 1 {
			return strings.Repeat(m[2], n)
		}
		return strings.TrimSuffix(strings.Repeat(m[2]+",", n), ",")
	})
}

// step repeats one exchange and returns ours, false where there is nothing to compare.
func (r *replay) step(e *exchange) (answer, bool) {
	body := r.prepare(e.body)
	switch e.method {
	case "START":
		r.wait = r.later(r.t.Context(), e.path, body)
		r.waiting(queueOf(body), 1)
		return answer{}, false
	case "JOIN":
		d, err := time.ParseDuration(e.path)
		require.NoError(r.t, err)
		r.clock.Advance(d)
		if e.status == 0 {
			return answer{}, false
		}
		return soon(r.t, r.wait), true
	case "LEARN":
		items := r.ok(e.path, body).items(r.t)
		id, _ := items[len(items)-1]["id"].(string)
		r.ids[e.answer] = id
		return answer{}, false
	}
	// A lease that finds nothing waits: the clock ends it.
	if strings.HasSuffix(e.path, "lease") || strings.HasSuffix(e.path, "reserve") {
		got := make(chan answer, 1)
		go func() { got <- r.do(e.method, e.path, body, e.headers...) }()
		return r.orTime(got, queueOf(body)), true
	}
	return r.do(e.method, e.path, body, e.headers...), true
}

// orTime waits for an answer, or for the request to wait, and then lets its time run out.
func (r *replay) orTime(got <-chan answer, queue string) answer {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case a := <-got:
			return a
		default:
		}
		if r.parked(ctx, queue) > 0 && r.wait == nil {
			r.clock.Advance(time.Second)
			return soon(r.t, got)
		}
	}
	return soon(r.t, got)
}

func queueOf(body string) string {
	var m struct {
		Name string `json:"queue_name"`
	}
	_ = json.Unmarshal([]byte(body), &m)
	return m.Name
}

// compare returns what differs between a recorded answer and ours, "" for nothing.
func (r *replay) compare(e *exchange, a answer) string {
	if a.status != e.status {
		return fmt.Sprintf("status %d instead of %d: %s", a.status, e.status, a.body)
	}
	if e.answer == "(protobuf)" {
		if ct := a.header.Get("Content-Type"); ct != "application/protobuf" {
			return "content type " + ct
		}
		return ""
	}
	var want, got any
	require.NoError(r.t, json.Unmarshal([]byte(e.answer), &want), e.title)
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		return "no JSON: " + strconv.Quote(a.body)
	}
	r.learn(want, got)
	return r.diff("", want, got)
}

// learn takes the ids of an answer where the recorded one had ids seen for the first time.
func (r *replay) learn(want, got any) {
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			for k := range w {
				r.learn(w[k], g[k])
			}
		}
	case []any:
		if g, ok := got.([]any); ok {
			for i := range min(len(w), len(g)) {
				r.learn(w[i], g[i])
			}
		}
	case string:
		if g, ok := got.(string); ok && idMark.FindString(w) == w && w != "" && r.ids[w] == "" && len(g) == 27 {
			r.ids[w] = g
		}
	}
}

// diff walks two values at once.
func (r *replay) diff(at string, want, got any) string {
	switch w := want.(type) {
	case nil:
		if !zero(got) {
			return fmt.Sprintf("%s is new: %v", at, got)
		}
		return ""
	case map[string]any:
		g, _ := got.(map[string]any)
		for k := range g {
			if d := r.diff(at+"."+k, w[k], g[k]); d != "" {
				return d
			}
		}
		for k := range w {
			if _, ok := g[k]; !ok && !zero(w[k]) {
				return fmt.Sprintf("%s.%s is missing", at, k)
			}
		}
		return ""
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			return fmt.Sprintf("%s has %d elements instead of %d: %v", at, len(g), len(w), g)
		}
		for i := range w {
			if d := r.diff(fmt.Sprintf("%s[%d]", at, i), w[i], g[i]); d != "" {
				return d
			}
		}
		return ""
	case string:
		return r.diffString(at, w, got)
	}
	if want != got {
		return fmt.Sprintf("%s is %v instead of %v", at, got, want)
	}
	return ""
}

var idMark = regexp.MustCompile(`<id:\d+>`)

func (r *replay) diffString(at, want string, got any) string {
	g, _ := got.(string)
	var ok bool
	switch want {
	case "<time>":
		t, err := time.Parse(time.RFC3339Nano, g)
		ok = err == nil && t.Year() > 2000
	case "<age>":
		_, err := time.ParseDuration(g)
		ok = err == nil
	default:
		ok = g == idMark.ReplaceAllStringFunc(want, func(id string) string { return r.ids[id] })
	}
	if !ok {
		return fmt.Sprintf("%s is %q instead of %q", at, g, want)
	}
	return ""
}

func zero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case float64:
		return v == 0
	case bool:
		return !v
	case []any:
		return len(v) == 0
	}
	return false
}

func TestRecordedSessions(t *testing.T) {
	files, err := filepath.Glob("testdata/recorded/*.txt")
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			generation, err := querator.ParseGeneration(name)
			require.NoError(t, err)
			r := &replay{fixture: newFixture(t, querator.Options{Generation: generation}), ids: map[string]string{}}
			exchanges := readGolden(t, file)
			require.Greater(t, len(exchanges), 120)
			for i := range exchanges {
				e := &exchanges[i]
				a, ok := r.step(e)
				if e.method == "JOIN" {
					r.wait = nil
				}
				if !ok {
					continue
				}
				d, why := r.compare(e, a), recordedDifferences[name+" "+e.title]
				switch {
				case d == "" && why != "":
					t.Errorf("%s: no longer differs: %s", e.title, why)
				case d != "" && why == "":
					t.Errorf("%s: %s %s: %s", e.title, e.method, e.path, d)
				}
			}
		})
	}
}
