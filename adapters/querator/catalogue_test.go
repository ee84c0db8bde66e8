package querator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/querator"
)

// words are what the generations call differently. In the rows of the catalogue a word in braces
// stands for the generation's own.
var words = map[querator.Generation]map[string]string{
	querator.R1: {"{lease}": "reserve", "{leased}": "reserved", "{expire}": "dead", "{over}": "requested", "{dash}": " -  ", "{retry}": "defer"},
	querator.R2: {"{lease}": "reserve", "{leased}": "reserved", "{expire}": "expire", "{over}": "requested", "{dash}": " -  ", "{retry}": "defer"},
	querator.L1: {"{lease}": "lease", "{leased}": "leased", "{expire}": "expire", "{over}": "requested", "{dash}": " -  ", "{retry}": "retry"},
	querator.L2: {"{lease}": "lease", "{leased}": "leased", "{expire}": "expire", "{over}": "was requested", "{dash}": " - ", "{retry}": "retry"},
}

var generations = []querator.Generation{querator.R1, querator.R2, querator.L1, querator.L2}

// outcome is a status and a message; a message that begins with … is only contained.
type outcome struct {
	code int
	text string
}

// row is one row of the error catalogue. In the body <long N> is a name of N letters, <unleased> the
// id of an item that is not leased, <gone> an id that leases have left behind.
type row struct {
	name, path, body string
	want             outcome
	// in lists the generations that have the row; empty is all. other are the answers of generations
	// that differ by more than their words.
	in    []querator.Generation
	other map[querator.Generation]outcome
}

// speak puts a generation's words into a text.
func speak(g querator.Generation, s string) string {
	for from, to := range words[g] {
		s = strings.ReplaceAll(s, from, to)
	}
	return s
}

// expand makes the parts of a body that are too long to be written out.
func expand(s string) string {
	for _, n := range []int{15, 16, 300, 501, 513, 600, 2000, 2001} {
		s = strings.ReplaceAll(s, fmt.Sprintf("<long %d>", n), strings.Repeat("x", n))
	}
	s = strings.ReplaceAll(s, "<1001 items>", strings.TrimSuffix(strings.Repeat("{},", 1001), ","))
	return strings.ReplaceAll(s, "<1001 ids>", strings.TrimSuffix(strings.Repeat(`"x",`, 1001), ","))
}

// stock fills a listener of any generation with what the rows speak of: the queue q of one partition
// with an item that is not leased, a queue with a dead queue, and the dead queue. post sends a body
// and returns the answer's.
func stock(g querator.Generation, post func(path, body string) string) (ids map[string]string) {
	create := func(name, more string) {
		post("/v1/queues.create", speak(g, `{"queue_name":"`+name+`","{lease}_timeout":"1m","{expire}_timeout":"10m","requested_partitions":1`+more+`}`))
	}
	create("q", "")
	create("dead", "")
	create("chained", `,"dead_queue":"dead"`)
	post("/v1/queue.produce", `{"queue_name":"q","request_timeout":"1m","items":[{"utf8":"x"},{"utf8":"y"}]}`)
	held := post(speak(g, "/v1/queue.{lease}"), `{"queue_name":"q","client_id":"c","batch_size":1,"request_timeout":"1m"}`)
	list := post("/v1/storage/items.list", `{"queue_name":"q"}`)
	ids = map[string]string{}
	if m := idPattern.FindAllStringSubmatch(list, -1); len(m) == 2 {
		ids["<unleased>"] = m[1][1]
	}
	if m := idPattern.FindStringSubmatch(held); m != nil {
		post("/v1/queue.complete", `{"queue_name":"q","request_timeout":"1m","ids":["`+m[1]+`"]}`)
		ids["<gone>"] = m[1]
	}
	return ids
}

func TestErrorCatalogue(t *testing.T) {
	for _, g := range generations {
		t.Run(string(g), func(t *testing.T) {
			f := newFixture(t, querator.Options{Generation: g})
			ids := stock(g, func(path, body string) string { return f.ok(path, body).body })
			require.Len(t, ids, 2)
			for _, r := range catalogue() {
				if len(r.in) > 0 && !slices.Contains(r.in, g) {
					continue
				}
				t.Run(strings.TrimPrefix(r.path, "/v1/")+"/"+r.name, func(t *testing.T) {
					body, want := expand(speak(g, r.body)), r.want
					if other, ok := r.other[g]; ok {
						want = other
					}
					text := speak(g, want.text)
					for mark, id := range ids {
						body, text = strings.ReplaceAll(body, mark, id), strings.ReplaceAll(text, mark, id)
					}
					before := f.everything()

					a := f.post(speak(g, r.path), body)

					require.Equal(t, want.code, a.status, a.body)
					if part, ok := strings.CutPrefix(text, "…"); ok {
						require.Contains(t, a.message(t), part)
					} else {
						require.Equal(t, text, a.message(t))
					}
					if want.code != 200 {
						require.Equal(t, before, f.everything(), "a refused request changes nothing")
					}
				})
			}
		})
	}
}

// everything is the state of all queues, as far as a client can see it.
func (f *fixture) everything() string {
	var out strings.Builder
	out.WriteString(f.ok("/v1/queues.list", `{}`).body)
	for _, q := range []string{"q", "dead", "chained"} {
		out.WriteString(f.ok("/v1/queue.stats", `{"queue_name":"`+q+`"}`).body)
		out.WriteString(f.ok("/v1/storage/items.list", `{"queue_name":"`+q+`"}`).body)
	}
	return out.String()
}
