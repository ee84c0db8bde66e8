package cfqueues

import (
	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// Texts of warnings. A lease id that cannot be used never fails the request.
const (
	warnUnknown = "lease id is not valid for this queue"
	warnGone    = "message no longer exists"
	warnSettled = "message was acknowledged in the same request"
	warnLeased  = "message is leased by another consumer"
	// warnNotLeased is for what was only looked at, and for a lease that is over.
	warnNotLeased = "message is not leased"
)

// useDefault asks the engine for the consumer's own retry delay.
const useDefault = -1

// ack answers POST /queues/{queue}/messages/ack: all acknowledgements take effect
// first, then all retries. Every lease id stands for itself.
func (s *server) ack(c *gin.Context) *apiError {
	b, q, bad := s.bodyAndQueue(c)
	if bad != nil {
		return bad
	}
	defer release(c, b)
	in, bad := decodeAck(b.Bytes, &s.o)
	if bad != nil {
		return bad
	}
	result, bad := s.settle(c, &q, &in, false)
	if bad != nil {
		return bad
	}
	writeResult(c, result)
	return nil
}

// settle carries an acknowledgement out. With refs it takes the references of a peek in
// place of lease ids too.
func (s *server) settle(c *gin.Context, q *core.Queue, in *ackRequest, refs bool) (ackObject, *apiError) {
	plan := s.planAck(q.ID, in, refs)
	if plan.foreign && s.renewed(c, q) {
		plan = s.planAck(q.ID, in, refs)
	}
	if len(plan.items) > 0 {
		settled, err := s.engine.SettleMessages(c.Request.Context(), q.Name, plan.items)
		if err != nil {
			return plan.result, fromMessages(err)
		}
		plan.report(settled)
	}
	return plan.result, nil
}

// settlePlan is an acknowledgement turned into settlements for the engine, and the
// answer as far as it is known.
type settlePlan struct {
	items  []core.MessageSettlement
	texts  []string // the lease id of each item
	counts []int    // how often the request named it
	refs   bool     // references of a peek are taken too
	// foreign tells that some were true lease ids of another queue than the one of the path.
	foreign bool
	result  ackObject
}

// planAck turns lease ids into settlements. A lease named twice is settled once and
// counted as often as it was named; one that is in both lists is acknowledged.
func (s *server) planAck(queue uuid.UUID, in *ackRequest, refs bool) settlePlan {
	n := len(in.acks) + len(in.retries)
	p := settlePlan{
		items: make([]core.MessageSettlement, 0, n), texts: make([]string, 0, n), counts: make([]int, 0, n),
		refs: refs, result: ackObject{Warnings: map[string]string{}},
	}
	seen := make(map[string]int, n)
	for _, text := range in.acks {
		s.plan(&p, queue, seen, text, core.MessageSettlement{Outcome: core.OutcomeDone})
	}
	for _, r := range in.retries {
		item := core.MessageSettlement{Outcome: core.OutcomeRetry, Delay: useDefault, KeepAttempts: r.keepAttempts}
		if r.delay != nil {
			item.Delay = *r.delay
		}
		s.plan(&p, queue, seen, r.leaseID, item)
	}
	return p
}

// plan adds one lease id to a plan.
func (s *server) plan(p *settlePlan, queue uuid.UUID, seen map[string]int, text string, item core.MessageSettlement) {
	if at, ok := seen[text]; ok {
		if p.items[at].Outcome == item.Outcome {
			p.counts[at]++
		} else {
			p.result.Warnings[text] = warnSettled
		}
		return
	}
	l, ok := s.tokens.parse(text)
	p.foreign = p.foreign || ok && l.queue != queue
	switch {
	case !ok || l.queue != queue || l.id == uuid.Nil && !p.refs:
		p.result.Warnings[text] = warnUnknown
		return
	case l.id == uuid.Nil && item.Outcome == core.OutcomeRetry:
		p.result.Warnings[text] = warnNotLeased
		return
	}
	item.MessageToken = core.MessageToken{
		Partition: l.partition, Offset: l.offset, Message: l.message, Lease: l.id, Attempt: l.attempt,
	}
	seen[text] = len(p.items)
	p.items = append(p.items, item)
	p.texts = append(p.texts, text)
	p.counts = append(p.counts, 1)
}

// report puts the outcomes of the settlements into the answer.
func (p *settlePlan) report(settled []core.MessageSettled) {
	for i := range settled {
		effective := settled[i].Counted || settled[i].Code == core.CodeInternal
		switch {
		case !effective && settled[i].Code == core.CodeNotLeased:
			p.result.Warnings[p.texts[i]] = warnLeased
		case !effective:
			p.result.Warnings[p.texts[i]] = warnGone
		case p.items[i].Outcome == core.OutcomeDone:
			p.result.AckCount += p.counts[i]
		default:
			p.result.RetryCount += p.counts[i]
		}
	}
}
