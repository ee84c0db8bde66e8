package core

import (
	"math"
	"time"

	"github.com/google/uuid"
)

// taken is a stretch of messages that a claim got from a row.
type taken struct {
	runs     Runs
	attempts int32
	turn     Turn
	turnAt   Time
	lease    uuid.UUID
	until    Time
	// counted is what this delivery adds to attempts, where it is not in them yet; retries is added to what lies at or below upto,
	// which was delivered before (exclusive claims keep no count per message, but a retry counter).
	counted, retries int32
	upto             int64
}

// grant is a shared lease given in this pass; more consumers may join its row.
type grant struct {
	batch    int64
	attempts int32
	turn     Turn
	until    Time
	protocol Protocol
}

// want is what one claim asks of a row.
type want struct {
	messages int64
	bytes    int64
	until    Time
	lease    uuid.UUID
	protocol Protocol
	autoAck  bool
	// notAfter hides messages appended after it; zero hides none.
	notAfter Time
	// window withholds new messages for that long after the first of them came, or until bufferFull of them are there.
	window time.Duration
	// anyOrder lets rows with different turns share a lease (Cloudflare keeps no order).
	anyOrder bool
}

// noTurn is above every turn.
const noTurn = Turn(math.MaxUint64)

// key returns where a waiting batch stands among what waits.
func (b *editBatch) key() Turn {
	if b.Turn == 0 {
		return OwnTurn(b.Pending[0].First)
	}
	return b.Turn
}

// ready reports whether the batch can be claimed at now.
func (b *editBatch) ready(now Time) bool {
	return b.State == BatchWaiting && !b.Redraw && !b.resting && b.Until <= now && len(b.Pending) > 0
}

// nextWaiting returns the index and turn of the claimable waiting batch with the lowest turn; -1 and noTurn without one.
func (e *edit) nextWaiting() (int, Turn) {
	at, lowest := -1, noTurn
	for i := range e.batches {
		if b := &e.batches[i]; b.ready(e.now) && b.key() < lowest {
			at, lowest = i, b.key()
		}
	}
	return at, lowest
}

// exclusive returns the live exclusive batch, or nil.
func (e *edit) exclusive() *editBatch {
	for i := range e.batches {
		if b := &e.batches[i]; b.State == BatchLeased && b.Exclusive && b.Until > e.now {
			return b
		}
	}
	return nil
}

// available counts what a claim could get now, expired messages included.
func (e *edit) available() int64 {
	n := e.row.Log.Head - e.row.Frontier.Offset
	for i := range e.batches {
		b := &e.batches[i]
		if b.Last > e.row.Frontier.Offset {
			n -= b.Covered.Messages
		}
		if b.ready(e.now) {
			n += b.Pending.Count()
		}
	}
	return n
}

// haul is what takeLog collects.
type haul struct {
	runs     Runs
	totals   Totals
	attempts int32
	expired  Runs
	// full tells that the byte budget ended it.
	full bool
}

func (h *haul) count() int64 { return h.totals.Messages }

// takeLog takes up to n messages from the log, moving the frontier over them: those with equal attempts on
// arrival, with own turns below before, within bytes. Expired messages are passed over and listed.
func (e *edit) takeLog(h *haul, n, bytes int64, before Turn, w *want) {
	f, log := &e.row.Frontier, &e.row.Log
	if w.window > 0 && e.buffering(w.window) {
		return
	}
	e.prefetch(f.Offset+1, f.Offset+n)
	for h.count() < n && e.err == nil {
		off := f.Offset + 1
		if off > log.Head || OwnTurn(off) >= before {
			return
		}
		if c := e.covered(off); c != nil {
			e.setFrontier(c.Last)
			continue
		}
		m := e.header(off)
		if m == nil {
			e.skipDeleted(off)
			continue
		}
		if m.Expired(e.now) {
			h.expired = h.expired.Add(Run{off, off})
			e.advance(m)
			continue
		}
		if at := e.segment(off).AppendedAt; w.notAfter != 0 && at > w.notAfter {
			e.hiddenUntil = at.Add(e.now.Sub(w.notAfter))
			return
		}
		if len(h.runs) > 0 {
			if m.Attempts != h.attempts || off-h.runs[0].First >= MaxBatchSpan {
				return
			}
			if h.totals.Bytes+int64(m.Size) > bytes {
				h.full = true
				return
			}
		}
		h.attempts = m.Attempts
		h.runs = h.runs.Add(Run{off, off})
		h.totals = h.totals.Plus(m.Of())
		e.advance(m)
	}
}

// bufferFull is how many unseen messages end a window buffer early.
const bufferFull = 100

// buffering reports whether a window buffer still withholds what the group has not seen (Queen's windowBuffer: released one
// window after the first unseen write, so that a steady trickle cannot hold it for ever).
func (e *edit) buffering(window time.Duration) bool {
	f, log := &e.row.Frontier, &e.row.Log
	if f.Offset >= log.Head || log.Head-f.Offset >= bufferFull {
		return false
	}
	s := e.segment(f.Offset + 1)
	if s == nil {
		return false
	}
	if until := s.AppendedAt.Add(window); until > e.now {
		e.hiddenUntil = until
		return true
	}
	return false
}

// skipDeleted moves the frontier over offsets whose segments are deleted.
func (e *edit) skipDeleted(off int64) {
	to := min(off+MaxBatchSpan, e.row.Log.Head)
	e.load(off, to)
	for i := range e.segments {
		if s := &e.segments[i]; s.Last() >= off {
			if s.First-1 <= to {
				to = max(s.First-1, off)
			}
			break
		}
	}
	e.setFrontier(to)
}

// sift looks through a pending set for messages to take: up to n within bytes. What expired or no longer
// exists is listed apart.
func (e *edit) sift(pending Runs, n, bytes int64) (h haul, missing Runs) {
	first, last := pending[0].First, pending[len(pending)-1].Last
	e.prefetch(first, min(last, first+n))
	pending.Offsets(func(off int64) bool {
		if h.count() >= n || e.err != nil {
			return false
		}
		m := e.header(off)
		switch {
		case m == nil:
			missing = missing.Add(Run{off, off})
		case m.Expired(e.now):
			h.expired = h.expired.Add(Run{off, off})
		case len(h.runs) > 0 && h.totals.Bytes+int64(m.Size) > bytes:
			h.full = true
			return false
		default:
			h.runs = h.runs.Add(Run{off, off})
			h.totals = h.totals.Plus(m.Of())
		}
		return true
	})
	return h, missing
}

// takeShared claims up to w.messages for one consumer of a shared claim, in ascending turn. It returns the
// stretches, and the expired messages that it passed over.
func (e *edit) takeShared(w want) (out []taken, expired Runs) {
	left, bytes := w.messages, w.bytes
	for left > 0 && e.err == nil {
		i, turn := e.nextWaiting()
		var h haul
		if len(out) > 0 && bytes <= 0 {
			break
		}
		e.takeLog(&h, left, bytes, turn, &w)
		expired = expired.Union(h.expired)
		if h.count() > 0 {
			out = append(out, e.grant(w, h.runs, h.totals, h.attempts+1, 0, 0))
			left, bytes = left-h.count(), bytes-h.totals.Bytes
			if h.full {
				break
			}
			continue
		}
		if i < 0 {
			break
		}
		b := e.batches[i].Batch
		h, missing := e.sift(b.Pending, left, bytes)
		expired = expired.Union(h.expired)
		e.takeOut(i, missing.Union(h.expired).Union(h.runs))
		if h.count() > 0 {
			out = append(out, e.grant(w, h.runs, h.totals, b.Attempts+1, b.Turn, b.TurnAt))
			left, bytes = left-h.count(), bytes-h.totals.Bytes
		}
		if h.full {
			break
		}
	}
	return out, expired
}

// grant leases a stretch, in the row of an earlier consumer of this pass where that keeps ids and deadlines apart.
func (e *edit) grant(w want, rs Runs, held Totals, attempts int32, turn Turn, turnAt Time) taken {
	first, last := rs[0].First, rs[len(rs)-1].Last
	for _, g := range e.open {
		if g.attempts != attempts || g.until != w.until || g.protocol != w.protocol || g.turn != turn && (!w.anyOrder || g.turn == 0 || turn == 0) {
			continue
		}
		b := &e.batches[e.index(g.batch)]
		if max(b.Last, last)-min(b.First, first) >= MaxBatchSpan {
			continue
		}
		b.Pending, b.Held = b.Pending.Union(rs), b.Held.Plus(held)
		b.First, b.Last = min(b.First, first), max(b.Last, last)
		if turn > b.Turn {
			b.Turn, b.TurnAt = turn, turnAt
		}
		return taken{runs: rs, attempts: attempts, turn: turn, turnAt: turnAt, lease: b.Lease, until: w.until}
	}
	i := e.put(Batch{
		First: first, Last: last, Pending: rs, State: BatchLeased, Attempts: attempts, Turn: turn, TurnAt: turnAt,
		Lease: uuid.New(), Protocol: w.protocol, Until: w.until, Held: held,
	})
	e.open = append(e.open, &grant{e.batches[i].ID, attempts, turn, w.until, w.protocol})
	return taken{runs: rs, attempts: attempts, turn: turn, turnAt: turnAt, lease: e.batches[i].Lease, until: w.until}
}

// takeExclusive claims one ordered batch: adjacent due waiting batches and then the log, as long as all have
// own turns and equal attempts; otherwise one waiting batch.
func (e *edit) takeExclusive(w want) (out taken, expired Runs) {
	if e.exclusive() != nil {
		return taken{}, nil
	}
	for e.err == nil {
		i, turn := e.nextWaiting()
		logFirst := e.row.Frontier.Offset < e.row.Log.Head && OwnTurn(e.row.Frontier.Offset+1) < turn
		var h haul
		var got taken
		upto := e.row.Frontier.Offset
		switch {
		case i >= 0 && !logFirst:
			h, got = e.takeWaiting(i, w)
		default:
			e.takeLog(&h, w.messages, w.bytes, turn, &w)
			got.attempts = h.attempts
		}
		got.counted, got.retries, got.upto = 1, e.row.Frontier.Retries, upto
		expired = expired.Union(h.expired)
		if h.count() == 0 {
			if i < 0 {
				return taken{}, expired
			}
			if logFirst && e.row.Frontier.Offset < e.row.Log.Head && OwnTurn(e.row.Frontier.Offset+1) < turn {
				return taken{}, expired // hidden by a delay: nothing behind it may pass
			}
			continue
		}
		got.runs = h.runs
		if w.autoAck {
			return got, expired
		}
		e.put(Batch{
			First: h.runs[0].First, Last: h.runs[len(h.runs)-1].Last, Pending: h.runs, State: BatchLeased, Attempts: got.attempts,
			Turn: got.turn, TurnAt: got.turnAt, Lease: w.lease, Exclusive: true, Protocol: w.protocol, Until: w.until, Held: h.totals,
		})
		got.lease, got.until = w.lease, w.until
		return got, expired
	}
	return taken{}, expired
}

// takeWaiting takes from waiting batch i for an exclusive claim. One with own turns is joined by the others of its kind and by the log.
func (e *edit) takeWaiting(i int, w want) (haul, taken) {
	b := e.batches[i].Batch
	got := taken{attempts: b.Attempts, turn: b.Turn, turnAt: b.TurnAt}
	if b.Turn != 0 {
		h, missing := e.sift(b.Pending, w.messages, w.bytes)
		e.takeOut(i, missing.Union(h.expired).Union(h.runs))
		return h, got
	}
	pool, limit := e.ownTurns(b.Attempts, b.Pending[0].First)
	h, missing := e.sift(pool, w.messages, w.bytes)
	out := missing.Union(h.expired).Union(h.runs)
	rest := false
	for j := range e.batches {
		c := &e.batches[j]
		if !c.ready(e.now) || c.Turn != 0 || c.Attempts != b.Attempts {
			continue
		}
		if mine := c.Pending.Minus(c.Pending.Minus(out)); len(mine) > 0 {
			e.takeOut(j, mine)
		}
		rest = rest || len(c.Pending) > 0
	}
	if !h.full && !rest && h.count() > 0 && h.count() < w.messages {
		h.attempts = b.Attempts
		e.takeLog(&h, w.messages, w.bytes, limit, &w)
	}
	return h, got
}

// ownTurns returns what is pending in all claimable waiting batches with own turns and so many attempts, up to the
// next turn that differs and at most MaxBatchSpan from first, and that turn.
func (e *edit) ownTurns(attempts int32, first int64) (pool Runs, limit Turn) {
	limit = OwnTurn(first + MaxBatchSpan)
	for i := range e.batches {
		if b := &e.batches[i]; b.ready(e.now) && (b.Turn != 0 || b.Attempts != attempts) {
			limit = min(limit, b.key())
		}
	}
	for i := range e.batches {
		if b := &e.batches[i]; b.ready(e.now) && b.Turn == 0 && b.Attempts == attempts {
			pool = pool.Union(b.Pending)
		}
	}
	return pool.Upto(int64((limit - 1) >> 16)), limit
}
