package cfqueues_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/adapters/cfqueues"
)

// modelMessage is a message as the protocol's rules describe it.
type modelMessage struct {
	attempts int
	leased   bool
	until    time.Duration // end of the lease, or when it may be pulled
	leases   []string      // all lease ids it was ever given, the current one last
	gone     bool          // acknowledged or purged
	dead     bool          // in the dead letter queue
}

// model is a queue by the rules, without a log or batches: one record per message.
type model struct {
	h          *harness
	path, dlq  string
	now        time.Duration
	retries    int
	retryDelay time.Duration
	messages   map[string]*modelMessage
	owner      map[string]string // lease id to body
	leaseIDs   []string
	pushed     int
}

// fail ends a delivery that did not succeed.
func (m *model) fail(x *modelMessage, due time.Duration) {
	x.leased = false
	if x.attempts > m.retries {
		x.dead = true
		return
	}
	x.until = due
}

// advance moves the clock and lets leases expire.
func (m *model) advance(d time.Duration) {
	m.h.clock.Advance(d)
	m.now += d
	for _, x := range m.messages {
		if x.leased && x.until <= m.now {
			m.fail(x, x.until+m.retryDelay)
		}
	}
	// A change of options is made by the engine's own loop, which does what has come due in the same
	// turn: after some of them nothing is under way.
	for range 4 {
		m.h.ok("PATCH", m.path, `{}`, nil)
	}
}

func (m *model) push(t *rapid.T) {
	delay := rapid.SampledFrom([]int{0, 0, 0, 7, 20}).Draw(t, "delay")
	n := rapid.IntRange(1, 4).Draw(t, "count")
	var b strings.Builder
	for range n {
		m.pushed++
		body := fmt.Sprintf("m%d", m.pushed)
		m.messages[body] = &modelMessage{until: m.now + time.Duration(delay)*time.Second}
		fmt.Fprintf(&b, `,{"content_type":"text","body":%q}`, body)
	}
	m.h.ok("POST", m.path+"/messages/batch", fmt.Sprintf(`{"delay_seconds":%d,"messages":[%s]}`, delay, b.String()[1:]), nil)
}

func (m *model) pull(t *rapid.T) {
	n := rapid.IntRange(1, 6).Draw(t, "batch")
	timeout := time.Duration(rapid.SampledFrom([]int{3, 10, 40}).Draw(t, "timeout")) * time.Second
	ready := 0
	for _, x := range m.messages {
		if !x.gone && !x.dead && !x.leased && x.until <= m.now {
			ready++
		}
	}
	got := m.h.pull(m.path, fmt.Sprintf(`{"batch_size":%d,"visibility_timeout_ms":%d}`, n, timeout.Milliseconds()))
	require.Len(t, got, min(n, ready))
	for _, g := range got {
		x := m.messages[g.Body]
		require.True(t, x != nil && !x.gone && !x.dead && !x.leased && x.until <= m.now, "%s was not to be had: %+v", g.Body, x)
		x.attempts++
		require.Equal(t, x.attempts, g.Attempts, g.Body)
		x.leased, x.until = true, m.now+timeout
		x.leases = append(x.leases, g.LeaseID)
		m.owner[g.LeaseID] = g.Body
		m.leaseIDs = append(m.leaseIDs, g.LeaseID)
	}
}

// settle acknowledges or gives back leases of any age.
func (m *model) settle(t *rapid.T) {
	if len(m.leaseIDs) == 0 {
		t.Skip("nothing was pulled")
	}
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom(m.leaseIDs), 1, min(4, len(m.leaseIDs)), rapid.ID[string]).Draw(t, "leases")
	cut := rapid.IntRange(0, len(ids)).Draw(t, "acks")
	// What two retries of one message in one request mean is nowhere written.
	twice := map[string]bool{}
	ids = append(ids[:cut:cut], slices.DeleteFunc(slices.Clone(ids[cut:]), func(id string) bool {
		body := m.owner[id]
		again := twice[body]
		twice[body] = true
		return again
	})...)
	delay := rapid.SampledFrom([]int{-1, 0, 5, 20}).Draw(t, "delay")
	var given *int
	wait := m.retryDelay
	if delay >= 0 {
		given, wait = seconds(delay), time.Duration(delay)*time.Second
	}
	a := m.h.settle(m.path, ids[:cut], ids[cut:], given)
	for _, id := range ids[:cut] {
		if x := m.messages[m.owner[id]]; !x.dead {
			x.gone, x.leased = true, false
		}
	}
	retried := 0
	for _, id := range ids[cut:] {
		if m.giveBack(id, wait) {
			retried++
		}
	}
	require.Equal(t, cut, *a.AckCount)
	require.Equal(t, retried, *a.RetryCount)
	require.Len(t, a.Warnings, len(ids)-cut-retried)
}

// giveBack says whether a retry takes effect, and lets it.
func (m *model) giveBack(id string, wait time.Duration) bool {
	x := m.messages[m.owner[id]]
	switch {
	case x.gone || x.dead:
		return false
	case x.leased && x.leases[len(x.leases)-1] == id:
		m.fail(x, m.now+wait)
		return true
	case x.leased:
		return false
	default:
		x.until = max(x.until, m.now+wait)
		return true
	}
}

func (m *model) purge(*rapid.T) {
	m.h.ok("POST", m.path+"/purge", `{"delete_messages_permanently":true}`, nil)
	for _, x := range m.messages {
		if !x.dead {
			x.gone, x.leased = true, false
		}
	}
}

// check compares the counts.
func (m *model) check(t *rapid.T) {
	waiting, dead := 0, 0
	for _, x := range m.messages {
		switch {
		case x.dead:
			dead++
		case !x.gone:
			waiting++
		}
	}
	require.EqualValues(t, waiting, m.h.backlog(m.path).BacklogCount)
	require.EqualValues(t, dead, m.h.backlog(m.dlq).BacklogCount)
}

// drain reads everything that is left, in both queues.
func (m *model) drain(t *rapid.T) {
	m.advance(time.Hour)
	var left, dead []string
	for body, x := range m.messages {
		switch {
		case x.dead:
			dead = append(dead, body)
		case !x.gone:
			left = append(left, body)
		}
	}
	// The queue first: its pull moves the last dead letters.
	m.readAll(t, m.path, left)
	m.readAll(t, m.dlq, dead)
}

// readAll pulls until nothing comes and compares the bodies.
func (m *model) readAll(t *rapid.T, path string, want []string) {
	var got []string
	for ms := m.h.pull(path, `{"batch_size":100}`); len(ms) > 0; ms = m.h.pull(path, `{"batch_size":100}`) {
		got = append(got, bodies(ms)...)
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got)
}

// Any sequence of calls behaves as the rules say, message by message.
func TestRandomUseFollowsTheRules(t *testing.T) {
	h := start(t, cfqueues.Options{})
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		name := fmt.Sprintf("jobs-%d", run)
		m := &model{
			h: h, path: "/queues/" + name, dlq: "/queues/" + name + "-dlq",
			retries:    rapid.IntRange(0, 3).Draw(rt, "max_retries"),
			retryDelay: time.Duration(rapid.SampledFrom([]int{0, 0, 9}).Draw(rt, "retry_delay")) * time.Second,
			messages:   map[string]*modelMessage{}, owner: map[string]string{},
		}
		h.ok("POST", "/queues", fmt.Sprintf(`{"queue_name":%q}`, name), nil)
		h.consume(name, fmt.Sprintf(`"max_retries":%d,"retry_delay":%d`, m.retries, int(m.retryDelay.Seconds())), name+"-dlq")
		h.consume(name+"-dlq", "", "")
		rt.Repeat(map[string]func(*rapid.T){
			"push": m.push, "pull": m.pull, "pull again": m.pull, "settle": m.settle, "settle again": m.settle,
			"advance": func(rt *rapid.T) {
				m.advance(time.Duration(rapid.IntRange(1, 25).Draw(rt, "seconds")) * time.Second)
			},
			"purge": func(rt *rapid.T) {
				if rapid.IntRange(0, 9).Draw(rt, "dice") == 0 {
					m.purge(rt)
				}
			},
			"": m.check,
		})
		m.drain(rt)
	})
}
