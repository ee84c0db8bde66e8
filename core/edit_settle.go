package core

import (
	"time"

	"github.com/google/uuid"
)

// ackItem is one acknowledgement whose transaction id is resolved to the offsets that carry it, ascending.
type ackItem struct {
	offsets []int64
	status  AckStatus
	text    string
	// transaction is what the offsets were found by.
	transaction string
}

// deadOffset is a message that a cumulative settlement gives up on.
type deadOffset struct {
	offset  int64
	text    string
	retries int32
	// keep writes a dead letter; otherwise the message is dropped.
	keep bool
}

// ackRules are the options of a queue that decide what a failed acknowledgement becomes.
type ackRules struct {
	retryLimit int64
	deadLetter bool
}

// ack settles one group of acknowledgements cumulatively: what is below the highest completed message, and below the lowest
// negative one, is settled; the lowest negative one decides what becomes of the lease (Queen's ack algorithm).
func (e *edit) ack(lease uuid.UUID, items []ackItem, rules ackRules) (out []Acked, dead *deadOffset) {
	out = make([]Acked, len(items))
	x := e.exclusive()
	switch {
	case !e.row.Exists:
		return failAll(out, CodeNoConsumer), nil
	case lease != uuid.UUID{} && (x == nil || x.Lease != lease):
		return failAll(out, CodeLeaseLost), nil
	}
	at := make([]int64, len(items))
	s, c := int64(-1), int64(-1)
	worst := AckCompleted
	for i := range items {
		at[i], out[i] = e.place(x, lease != uuid.UUID{}, &items[i])
		if off := at[i]; off > 0 && items[i].status != AckCompleted {
			if s < 0 || off < s {
				s, worst = off, items[i].status
			} else if off == s {
				worst = max(worst, items[i].status)
			}
		}
	}
	for i := range items {
		if off := at[i]; off > 0 && items[i].status == AckCompleted && (s < 0 || off < s) {
			c = max(c, off)
			if lease == (uuid.UUID{}) && e.unsettled(off) { // an earlier item may have settled it
				e.settleUpto(off)
			}
		}
	}
	xi := e.exclusiveIndex()
	if lease != (uuid.UUID{}) && c > 0 {
		e.settle(xi, e.batches[xi].Pending.Upto(c))
	}
	if s > 0 {
		// A negative answer settles what lies below it, like any other: delivery goes on from it.
		e.settle(xi, e.batches[xi].Pending.Upto(s-1))
		dead = e.negative(xi, s, worst, rules)
	} else if xi >= 0 && len(e.batches[xi].Pending) == 0 && !e.batches[xi].keepsLease(e.now) {
		e.row.Frontier.Retries, e.moved = 0, true
	}
	released := xi >= 0 && x != nil && e.exclusiveGone(xi)
	for i := range out {
		out[i].Released = released && out[i].Err == nil && !out[i].Noop
		if dead != nil && at[i] == dead.offset && items[i].status != AckCompleted {
			out[i].Dead = dead.keep
			if dead.text == "" {
				dead.text = items[i].text
			}
		}
	}
	if dead != nil && dead.text == "" {
		dead.text = firstText(items)
	}
	e.tidy()
	return out, dead
}

// lookUp finds what an item names in the headers of a batch, where nothing else knew it.
func (e *edit) lookUp(b *editBatch, it *ackItem) {
	id, err := uuid.Parse(it.transaction)
	for off := b.First; off <= b.Last; off++ {
		h := e.header(off)
		if h != nil && (h.TransactionID == it.transaction && it.transaction != "" || h.TransactionID == "" && err == nil && h.ID == id) {
			it.offsets = append(it.offsets, off)
		}
	}
}

func firstText(items []ackItem) string {
	for i := range items {
		if items[i].text != "" {
			return items[i].text
		}
	}
	return "Retries exhausted"
}

func failAll(out []Acked, code Code) []Acked {
	for i := range out {
		out[i] = Acked{Err: &Error{Code: code, Op: "ack", Item: i}}
	}
	return out
}

// exclusiveIndex returns the index of the live exclusive batch, or -1.
func (e *edit) exclusiveIndex() int {
	if x := e.exclusive(); x != nil {
		return e.index(x.ID)
	}
	return -1
}

func (e *edit) exclusiveGone(i int) bool {
	b := &e.batches[i]
	return b.State != BatchLeased || len(b.Pending) == 0 && !b.keepsLease(e.now)
}

// place finds the offset that an acknowledgement means, 0 when it has no effect; the outcome says why.
func (e *edit) place(x *editBatch, leased bool, it *ackItem) (int64, Acked) {
	if len(it.offsets) == 0 {
		return 0, Acked{Err: &Error{Code: CodeUnresolvable, Op: "ack", Item: -1}}
	}
	negative := it.status != AckCompleted
	pendingElsewhere := false
	for _, off := range it.offsets {
		if off < e.row.Log.Start || off > e.row.Log.Head {
			continue
		}
		i := e.holder(off)
		inLog := i < 0 && off > e.row.Frontier.Offset && e.covered(off) == nil
		switch {
		case x != nil && i >= 0 && e.batches[i].ID == x.ID:
			return off, Acked{}
		case !leased && !negative && (i >= 0 || inLog):
			return off, Acked{}
		case i >= 0 || inLog:
			pendingElsewhere = true
		}
	}
	switch {
	case pendingElsewhere && leased:
		return 0, Acked{Err: &Error{Code: CodeUnresolvable, Op: "ack", Item: -1}}
	case pendingElsewhere:
		return 0, Acked{Err: &Error{Code: CodeLeaseLost, Op: "ack", Item: -1}}
	case negative:
		return 0, Acked{Err: &Error{Code: CodeCommitted, Op: "ack", Item: -1}}
	default:
		return 0, Acked{Noop: true}
	}
}

// unsettled reports whether the message at off is pending or waits its turn in the log.
func (e *edit) unsettled(off int64) bool {
	return e.holder(off) >= 0 || off > e.row.Frontier.Offset && e.covered(off) == nil
}

// settleUpto settles without a lease: up to off what still has its own turn, live shared leases excepted, moving the frontier
// if off lies above it; a message that has been to the tail takes those before it in its own batch with it.
func (e *edit) settleUpto(off int64) {
	if i := e.holder(off); i >= 0 && e.batches[i].Turn != 0 {
		e.settle(i, e.batches[i].Pending.Upto(off))
		return
	}
	for i := range e.batches {
		b := &e.batches[i]
		shared := b.State == BatchLeased && !b.Exclusive && b.Until > e.now
		switch {
		case b.Turn != 0 || len(b.Pending) == 0 || b.Pending[0].First > off:
		case !shared:
			e.settle(i, b.Pending.Upto(off))
		case b.Pending.Has(off):
			e.settle(i, Runs{{off, off}})
		}
	}
	if f := e.row.Frontier.Offset; off > f {
		e.freed = e.freed.Add(Run{f + 1, off})
		e.setFrontier(off)
	}
}

// negative applies a retry, a failure or a dead-lettering at offset s of the exclusive batch at index xi.
func (e *edit) negative(xi int, s int64, status AckStatus, rules ackRules) (dead *deadOffset) {
	f := &e.row.Frontier
	b := &e.batches[xi]
	switch {
	case status == AckRetry:
	case status == AckFailed && int64(f.Retries) < rules.retryLimit:
		f.Retries++
	default:
		e.settle(xi, b.Pending.Upto(s))
		dead = &deadOffset{offset: s, retries: f.Retries, keep: rules.deadLetter}
		f.Retries = 0
	}
	e.moved = true
	b.giveBack()
	return dead
}

// settle takes offsets of batch i out of play for good.
func (e *edit) settle(i int, rs Runs) {
	e.freed = e.freed.Union(rs)
	e.takeOut(i, rs)
}

// done settles one message wherever it is pending; it reports whether it was.
func (e *edit) done(off int64) bool {
	if off < e.row.Log.Start || off > e.row.Log.Head {
		return false
	}
	if i := e.holder(off); i >= 0 {
		e.settle(i, Runs{{off, off}})
		if e.batches[i].Exclusive && len(e.batches[i].Pending) == 0 {
			e.row.Frontier.Retries, e.moved = 0, true
		}
		return true
	}
	if off <= e.row.Frontier.Offset || e.covered(off) != nil {
		return false
	}
	h := e.header(off)
	if h == nil {
		return false
	}
	e.freed = e.freed.Add(Run{off, off})
	e.put(Batch{First: off, Last: off, State: BatchEmpty, Covered: h.Of()})
	return true
}

// sharedLimit is what decides whether a shared delivery that failed was the last one.
type sharedLimit struct {
	limit int32
	dead  func(e *edit, rs Runs, b *Batch)
}

// retry gives one message of a shared lease back, to be claimable from due on, or sends it to the dead queue when its
// deliveries are used up.
func (e *edit) retry(i int, off int64, due Time, keepAttempts bool, x sharedLimit) {
	b := &e.batches[i]
	rs := Runs{{off, off}}
	attempts := b.Attempts
	if keepAttempts {
		attempts--
	} else if x.limit > 0 && attempts >= x.limit {
		copied := b.Batch
		e.takeOut(i, rs)
		x.dead(e, rs, &copied)
		return
	}
	e.comeBack(i, rs, due, attempts, false)
}

// retryMessage is retry as Cloudflare means it: only in the shared lease that the token names; a message that
// waits is only delayed; anywhere else nothing happens and the code says why.
func (e *edit) retryMessage(off int64, lease uuid.UUID, delay time.Duration, keep bool, x sharedLimit) Code {
	i := e.holder(off)
	if i < 0 {
		return CodeNoMessage
	}
	b := &e.batches[i]
	switch {
	case b.State == BatchLeased && !b.Exclusive && b.Lease == lease:
		e.retry(i, off, e.now.Add(delay), keep, x)
		return CodeInternal
	case b.State == BatchWaiting:
		if due := e.now.Add(delay); delay > 0 && due > b.Until {
			e.comeBack(i, Runs{{off, off}}, due, b.Attempts, false)
		}
		return CodeInternal
	default:
		return CodeNotLeased
	}
}

// find returns the index of the shared leased batch that holds the item, or the code that says why there is none: an id
// that is not the current one does not exist.
func (e *edit) find(ref ItemRef) (int, Code) {
	s := e.segment(ref.Offset)
	if s == nil {
		return -1, CodeNoMessage
	}
	i := e.holder(ref.Offset)
	turn, at := OwnTurn(ref.Offset), s.AppendedAt
	if i >= 0 && e.batches[i].Turn != 0 {
		turn, at = e.batches[i].Turn, e.batches[i].TurnAt
	}
	if turn != ref.Turn || at.Second() != ref.Second {
		return -1, CodeNoMessage
	}
	switch {
	case i < 0 && (ref.Offset <= e.row.Frontier.Offset || e.covered(ref.Offset) != nil):
		return -1, CodeNoMessage
	case i < 0:
		return -1, CodeNotLeased
	case e.batches[i].State == BatchWaiting && e.batches[i].Redraw:
		return -1, CodeNoMessage
	case e.batches[i].State != BatchLeased || e.batches[i].Exclusive:
		return -1, CodeNotLeased
	default:
		return i, CodeInternal
	}
}

// extend moves the deadline of a live exclusive lease; it is never shortened.
func (e *edit) extend(lease uuid.UUID, until Time) (Time, bool) {
	for i := range e.batches {
		b := &e.batches[i]
		if b.State == BatchLeased && b.Exclusive && b.Lease == lease && b.Until > e.now {
			if until > b.Until {
				b.Until, b.dirty = until, true
			}
			return b.Until, true
		}
	}
	return 0, false
}

// seek drops every batch and places the frontier just before first.
func (e *edit) seek(first int64) {
	e.batches, e.deleted, e.dropAll, e.keep = nil, nil, true, true
	e.row.Exists = true
	e.row.Frontier.Retries, e.row.Rest = 0, Rest{}
	e.setFrontier(min(max(first, e.row.Log.Start), e.row.Log.Head+1) - 1)
}
