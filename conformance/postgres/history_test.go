package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
)

// checkLimit bounds the search for an order of a history. One that takes longer counts as a failure: nothing has been shown.
const checkLimit = 3 * time.Minute

// history is what clients of all gateways asked and heard, with the time of both, so that afterwards an order can be looked for in which one
// queue alone would have said the same. Each object has an order of its own: a partition as the exclusive group sees it, and a message as the
// shared one does.
type history struct {
	mu  sync.Mutex
	ops map[string][]porcupine.Operation
}

// The objects of a history.
func partitionObject(p string) string { return "partition " + p }

func messageObject(p string, n int) string { return fmt.Sprintf("message %s/%d", p, n) }

// span is the time of a request.
type span struct{ call, answer int64 }

func begin() span { return span{call: time.Now().UnixNano()} }

func (s span) end() span {
	s.answer = time.Now().UnixNano()
	return s
}

// add notes what a client said of an object.
func (h *history) add(object string, client int, s span, what any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ops == nil {
		h.ops = map[string][]porcupine.Operation{}
	}
	h.ops[object] = append(h.ops[object], porcupine.Operation{ClientId: client, Input: what, Call: s.call, Return: s.answer})
}

// model is one queue alone.
var model = porcupine.Model{
	Init: func() any { return seen{} },
	Step: func(state, in, _ any) (bool, any) {
		return in.(interface{ step(s seen) (bool, any) }).step(state.(seen)) //nolint:forcetypeassert // there are no others
	},
}

// check looks for an order of each object's history, and returns how many operations there were.
func (h *history) check(t *testing.T) (objects, operations int) {
	t.Helper()
	bad := 0
	for object, ops := range h.ops {
		operations += len(ops)
		if result := porcupine.CheckOperationsTimeout(model, ops, checkLimit); result != porcupine.Ok {
			if bad++; bad <= 3 {
				assert.Fail(t, "no order explains what clients heard", "%s: %s, %d operations, such as %s", object, result, len(ops), describe(ops))
			}
		}
	}
	assert.Zero(t, bad)
	return len(h.ops), operations
}

// describe shows the first operations.
func describe(ops []porcupine.Operation) (text string) {
	for i := range ops[:min(len(ops), 12)] {
		text += fmt.Sprintf("\n  client %d: %T%+v, %d to %d", ops[i].ClientId, ops[i].Input, ops[i].Input, ops[i].Call, ops[i].Return)
	}
	return text
}

// seen is an object: the numbers that were pushed and settled, and the one lease that is live.
type seen struct {
	head, settled int
	lease         string
	last          int
}

// pushed says that a gateway was given numbers in a row, and whether it queued them or found that they are there.
type pushed struct {
	first, last int
	queued      bool
}

func (p pushed) step(s seen) (bool, any) {
	if !p.queued {
		return s.head >= p.last, s
	}
	ok := s.head == p.first-1
	s.head = p.last
	return ok, s
}

// taken says that a lease was given for numbers in a row.
type taken struct {
	first, last int
	lease       string
}

func (c taken) step(s seen) (bool, any) {
	ok := s.lease == "" && c.first == s.settled+1 && c.last >= c.first && c.last <= s.head
	s.lease, s.last = c.lease, c.last
	return ok, s
}

// nothing says that a claim found nothing to take.
type nothing struct{}

func (nothing) step(s seen) (bool, any) { return s.lease != "" || s.settled == s.head, s }

// settled says that all of a lease was completed.
type settled struct{ lease string }

func (c settled) step(s seen) (bool, any) {
	ok := s.lease == c.lease
	s.settled, s.lease = s.last, ""
	return ok, s
}
