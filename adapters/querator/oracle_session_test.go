package querator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adapter "github.com/leasehold/leasehold/adapters/querator"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/memory"
)

// sides are the original and ours, each with the ids that it gave out.
type sides struct {
	t      *testing.T
	theirs string
	ours   http.Handler
	engine *core.Engine
	ids    [2][]string
}

// newSides starts the original and a listener of ours by the system's clock, which the original
// goes by.
func newSides(t *testing.T) *sides {
	t.Helper()
	store := memory.New()
	engine, err := core.New(t.Context(), store, core.Options{SourceID: adapter.SourceID})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Shutdown(context.Background())) })
	return &sides{t: t, theirs: original(t), engine: engine, ours: adapter.New(engine, adapter.Options{Generation: adapter.L1})}
}

// send asks both sides the same and returns what they answered, in which <id:N> stands for the ids and
// <now> for times of now. In the body, too, <id:N> is the side's own id.
func (s *sides) send(path, body string) (status [2]int, answer [2]string) {
	s.t.Helper()
	mine := (&fixture{t: s.t, handler: s.ours}).post(path, s.fill(1, body))
	status[1], answer[1] = mine.status, s.strip(1, mine.body)
	status[0], _, answer[0] = ask(s.t, s.theirs, post(path, s.fill(0, body)))
	answer[0] = s.strip(0, plain(answer[0]))
	return status, answer
}

func (s *sides) fill(side int, body string) string {
	for i, id := range s.ids[side] {
		body = strings.ReplaceAll(body, fmt.Sprintf("<id:%d>", i), id)
	}
	return body
}

var today = regexp.MustCompile(`"20(2[4-9]|1\d)-[^"]*Z"`)

func (s *sides) strip(side int, body string) string {
	for _, m := range idPattern.FindAllStringSubmatch(body, -1) {
		if !slices.Contains(s.ids[side], m[1]) {
			s.ids[side] = append(s.ids[side], m[1])
		}
	}
	for i, id := range s.ids[side] {
		body = strings.ReplaceAll(body, id, fmt.Sprintf("<id:%d>", i))
	}
	return today.ReplaceAllString(body, `"<now>"`)
}

// different says what differs between two answers, "" for nothing; absent is as good as zero.
func different(t *testing.T, status [2]int, answer [2]string) string {
	t.Helper()
	if status[0] != status[1] {
		return fmt.Sprintf("status %d instead of %d: %s instead of %s", status[1], status[0], answer[1], answer[0])
	}
	var v [2]any
	for i := range v {
		require.NoError(t, json.Unmarshal([]byte(answer[i]), &v[i]), answer[i])
	}
	r := &replay{ids: map[string]string{}}
	for i := range 100 {
		r.ids[fmt.Sprintf("<id:%d>", i)] = fmt.Sprintf("<id:%d>", i)
	}
	return r.diff("", v[0], v[1])
}

// catalogueDifferences are rows of the catalogue that v0.0.11 answers in another way.
var catalogueDifferences = map[string]string{}

func TestCatalogueAgainstTheOriginal(t *testing.T) {
	s := newSides(t)

	first := stock(adapter.L1, func(path, body string) string { _, a := s.send(path, body); return a[0] })
	require.Empty(t, first, "the ids are under the marks")
	require.Len(t, s.ids[0], 2)
	require.Len(t, s.ids[1], 2)

	for _, r := range catalogue() {
		if len(r.in) > 0 && !slices.Contains(r.in, adapter.L1) {
			continue
		}
		name := r.path + " " + r.name
		t.Run(strings.TrimPrefix(name, "/v1/"), func(t *testing.T) {
			body := strings.NewReplacer("<gone>", "<id:0>", "<unleased>", "<id:1>").Replace(expand(speak(adapter.L1, r.body)))
			status, answer := s.send(speak(adapter.L1, r.path), body)
			d := different(t, status, answer)
			switch why := catalogueDifferences[name]; {
			case d == "" && why != "":
				t.Errorf("no longer differs: %s", why)
			case d != "" && why == "":
				t.Error(d)
			}
		})
	}
}

// turn is one request of a session with both sides. why says what differs on purpose, "" for nothing.
type turn struct{ path, body, why string }

func TestSessionAgainstTheOriginal(t *testing.T) {
	s := newSides(t)
	later := s.engine.Now().Add(time.Hour).Std().UTC().Format(time.RFC3339)
	const item = `"source_id":"s1","attempts":3,"max_attempts":7,"reference":"imp","encoding":"e","kind":"k","payload":"aGk="`
	for i, turn := range []turn{
		{"/v1/queues.create", `{"queue_name":"q","lease_timeout":"1m","expire_timeout":"10m","requested_partitions":1,"max_attempts":3,"reference":"ref"}`, ""},
		{"/v1/storage/items.list", `{"queue_name":"q"}`, ""},
		{"/v1/queue.produce", `{"queue_name":"q","request_timeout":"1m","items":[{"reference":"a","utf8":"A","kind":"k","encoding":"e"},{"reference":"b","bytes":"Qg=="},{"reference":"c"}]}`, ""},
		{"/v1/storage/items.list", `{"queue_name":"q"}`, ""},
		{"/v1/storage/items.list", `{"queue_name":"q","limit":1}`, ""},
		{"/v1/storage/items.list", `{"queue_name":"q","pivot":"<id:1>"}`, ""},
		{"/v1/storage/items.list", `{"queue_name":"q","pivot":"<id:1>","limit":1}`, ""},
		{"/v1/storage/items.list", `{"queue_name":"q","pivot":"000000000000000000000000000"}`, ""},
		{"/v1/storage/items.list", `{"queue_name":"q","pivot":"aWgEPTl1tmebfsQzFP4bxwgy80V"}`, "a pivot after all items gives none; in memory the original begins again with the first"},
		{"/v1/storage/items.list", `{"queue_name":"q","limit":-1}`, ""},
		{"/v1/storage/scheduled.list", `{"queue_name":"q"}`, ""},
		{"/v1/queue.lease", `{"queue_name":"q","client_id":"c","batch_size":2,"request_timeout":"1m"}`, ""},
		{"/v1/storage/items.list", `{"queue_name":"q"}`, ""},
		{"/v1/queue.complete", `{"queue_name":"q","request_timeout":"1m","ids":["<id:2>"]}`, ""},
		{"/v1/queue.retry", `{"queue_name":"q","items":[{"id":"<id:0>","retry_at":"` + later + `"}]}`, ""},
		{"/v1/storage/scheduled.list", `{"queue_name":"q"}`, ""},
		{"/v1/storage/items.list", `{"queue_name":"q"}`, ""},
		{"/v1/queue.complete", `{"queue_name":"q","request_timeout":"1m","ids":["<id:0>"]}`, ""},
		{"/v1/queue.complete", `{"queue_name":"q","request_timeout":"1m","ids":["<id:1>"]}`, ""},
		{"/v1/queue.produce", `{"queue_name":"q","request_timeout":"1m","items":[{"reference":"later","enqueue_at":"` + later + `"}]}`, ""},
		{"/v1/storage/scheduled.list", `{"queue_name":"q"}`, ""},
		{"/v1/storage/scheduled.list", `{"queue_name":"q","pivot":"<id:3>"}`, ""},
		{"/v1/storage/items.import", `{"queue_name":"q","items":[{` + item + `,"expire_deadline":"` + later + `"},{"reference":"two","is_leased":true,"lease_deadline":"` + later + `","expire_deadline":"` + later + `"}]}`, ""},
		{"/v1/storage/items.import", `{"queue_name":"q","items":[{` + item + `,"expire_deadline":"` + later + `"}]}`, ""},
		{"/v1/storage/items.list", `{"queue_name":"q"}`, "the limit of attempts is the queue's: one that an imported item brings is not kept"},
		{"/v1/storage/items.delete", `{"queue_name":"q","ids":["<id:3>","0ujtsYcgvSTl8PAuAdqWYSMnLOv","<id:5>"]}`, ""},
		{"/v1/storage/items.list", `{"queue_name":"q"}`, "the limit of attempts is the queue's: one that an imported item brings is not kept"},
		{"/v1/storage/scheduled.list", `{"queue_name":"q"}`, ""},
		{"/v1/queue.clear", `{"queue_name":"q","queue":true}`, ""},
		{"/v1/storage/items.list", `{"queue_name":"q"}`, ""},
		{"/v1/queues.update", `{"queue_name":"q","max_attempts":5,"reference":"ref","lease_timeout":"2m","expire_timeout":"20m"}`, ""},
		{"/v1/queues.list", `{}`, ""},
		{"/v1/queues.update", `{"queue_name":"q","max_attempts":6}`, ""},
		{"/v1/queues.list", `{}`, "the update did not name the reference"},
		{"/v1/queue.clear", `{"queue_name":"q","queue":true,"destructive":true}`, ""},
		{"/v1/storage/items.list", `{"queue_name":"q"}`, ""},
		{"/v1/queues.delete", `{"queue_name":"q"}`, ""},
		{"/v1/queues.list", `{}`, ""},
	} {
		status, answer := s.send(turn.path, turn.body)
		d := different(t, status, answer)
		switch {
		case d == "" && turn.why != "":
			t.Errorf("%d %s %s no longer differs: %s", i, turn.path, turn.body, turn.why)
		case d != "" && turn.why == "":
			t.Errorf("%d %s %s: %s", i, turn.path, turn.body, d)
		}
	}
}
