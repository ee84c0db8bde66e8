package enginetest

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// The model keeps every message of every group by itself, as if cost did not matter. What the engine says and does is
// compared with it.

// place is where a message stands among what waits: its own offset, or the head of the log when it came back and a running
// number. What came back in one step shares a place.
type place struct {
	at  int64
	seq int
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.at, q.at), cmp.Compare(p.seq, q.seq))
}

type standing uint8

const (
	fresh standing = iota
	held
	back
	settled
)

// copyOf is a message as one group sees it.
type copyOf struct {
	standing
	place
	attempts int32
	// lease, exclusive, protocol and until are those of the lease that holds it.
	lease     uuid.UUID
	exclusive bool
	protocol  core.Protocol
	until     core.Time
	// later tells that it is not to be delivered before until.
	later bool
	// epoch is the step in which it went to the tail last; ids of other epochs are void.
	epoch int
}

// tail tells that the message has been to the tail.
func (c *copyOf) tail() bool { return c.seq != 0 }

// body is a message of a log.
type body struct {
	id               uuid.UUID
	name             string
	size             int64
	created, expires core.Time
	// attempts are those that it arrived with.
	attempts int32
	// delayed tells that it came from the schedule: its id does not tell where in the log it lies.
	delayed bool
}

func (b *body) totals() core.Totals {
	return core.Totals{Messages: 1, Bytes: b.size, Created: b.created.Milli()}
}

// due is a message that is scheduled.
type due struct {
	body
	at  core.Time
	log *modelLog
}

// modelLog is a partition with what its groups think of each message.
type modelLog struct {
	core.Partition
	// start is the first offset that a purge has left.
	start  int64
	bodies []body
	rows   map[string]*modelRow
}

// modelRow is a group on a partition.
type modelRow struct {
	log     *modelLog
	exists  bool
	retries int32
	copies  map[int64]*copyOf
	// ghosts are messages that expired before the row was there: they count until the frontier has passed them.
	ghosts map[int64]bool
}

func (l *modelLog) head() int64 { return int64(len(l.bodies)) }

func (l *modelLog) body(off int64) *body { return &l.bodies[off-1] }

func (l *modelLog) row(group string) *modelRow {
	r := l.rows[group]
	if r == nil {
		r = &modelRow{log: l, copies: map[int64]*copyOf{}, ghosts: map[int64]bool{}}
		l.rows[group] = r
	}
	return r
}

// at returns a group's copy of a message.
func (r *modelRow) at(off int64) *copyOf {
	c := r.copies[off]
	if c == nil {
		c = &copyOf{place: place{at: off}}
		if off <= r.log.head() {
			c.attempts = r.log.body(off).attempts
			r.copies[off] = c
		}
	}
	return c
}

// each calls f with every message that a purge has left.
func (l *modelLog) each(r *modelRow, f func(off int64, c *copyOf)) {
	for off := l.start; off <= l.head(); off++ {
		f(off, r.at(off))
	}
}

// ghost tells that the reserved group does not know whether a message is there still.
func (l *modelLog) ghost(off int64) bool { return l.row(core.QueueModeGroup).ghosts[off] }

// vague tells that a Cloudflare lease holds the message: it keeps no order, so that the message's own id may be void.
func (l *modelLog) vague(off int64) bool {
	c := l.row(core.QueueModeGroup).at(off)
	return c.standing == held && c.protocol == core.ProtocolCloudflare
}

// exclusive returns the offsets under the exclusive lease, ascending.
func (l *modelLog) exclusive(r *modelRow) (offs []int64) {
	l.each(r, func(off int64, c *copyOf) {
		if c.standing == held && c.exclusive {
			offs = append(offs, off)
		}
	})
	return offs
}

// candidates returns what may be delivered now, in order.
func (l *modelLog) candidates(r *modelRow, now core.Time) (offs []int64) {
	if len(l.exclusive(r)) > 0 {
		return nil
	}
	l.each(r, func(off int64, c *copyOf) {
		if x := l.body(off).expires; x != 0 && x <= now {
			return
		}
		if c.standing == fresh || c.standing == back && !c.later {
			offs = append(offs, off)
		}
	})
	slices.SortFunc(offs, func(a, b int64) int { return cmp.Or(r.at(a).compare(r.at(b).place), cmp.Compare(a, b)) })
	return offs
}

// orderly returns how many of the candidates an exclusive claim takes in order: those with equal attempts that have not
// been to the tail.
func (r *modelRow) orderly(offs []int64) int {
	for i, off := range offs {
		if c := r.at(off); c.tail() || c.attempts != r.at(offs[0]).attempts {
			return i
		}
	}
	return len(offs)
}

// model is a queue.
type model struct {
	now       core.Time
	seq       int
	logs      []*modelLog
	scheduled []due
	// limit is how many deliveries a shared claim may make; retryDelay delays what expires under Cloudflare's leases.
	limit      int32
	retryLimit int32
	retryDelay int64
	expire     core.Time
	deadQueue  bool
	// dead counts what moved to the dead queue, letters the dead letters. Of what had expired when a seek went back over it, some may
	// move again: at most again.
	dead, again, letters int64
}

// toTail sends a copy to the tail now.
func (m *model) toTail(l *modelLog, c *copyOf) {
	c.standing, c.later, c.exclusive, c.lease = back, false, false, uuid.UUID{}
	c.place = place{l.head(), m.seq}
	c.epoch = m.seq
}

// comeBack gives a copy of a shared lease back until due.
func (m *model) comeBack(l *modelLog, c *copyOf, due core.Time) {
	if due <= m.now {
		m.toTail(l, c)
		return
	}
	c.standing, c.later, c.until, c.lease = back, true, due, uuid.UUID{}
}

// kill settles a copy for good because its deliveries are used up or its time is over.
func (m *model) kill(group string, c *copyOf) {
	c.standing = settled
	if group == core.QueueModeGroup && m.deadQueue {
		m.dead++
	}
}

// done settles one message by itself; a lease that this leaves with nothing ends as if it had been acknowledged.
func (m *model) done(l *modelLog, r *modelRow, off int64, settle func()) {
	c := r.at(off)
	exclusive := c.standing == held && c.exclusive
	settle()
	delete(r.ghosts, off)
	if exclusive && len(l.exclusive(r)) == 0 {
		r.retries = 0
	}
}

// append adds a message to a log.
func (m *model) append(l *modelLog, b body) { l.bodies = append(l.bodies, b) }

// next returns the next moment up to limit at which time changes something.
func (m *model) next(limit core.Time) core.Time {
	at := limit
	consider := func(t core.Time) {
		if t > m.now && t < at {
			at = t
		}
	}
	for _, l := range m.logs {
		for i := range l.bodies {
			consider(l.bodies[i].expires)
		}
		for _, r := range l.rows {
			for _, c := range r.copies {
				if c.standing == held || c.standing == back && c.later {
					consider(c.until)
				}
			}
		}
	}
	for i := range m.scheduled {
		consider(m.scheduled[i].at)
	}
	return at
}

// pass lets the time be now: leases run out, retries and delayed messages come due, messages expire.
func (m *model) pass(now core.Time) {
	m.now = now
	m.seq++
	for _, l := range m.logs {
		for group, r := range l.rows {
			l.each(r, func(_ int64, c *copyOf) { m.resolve(l, group, c) })
		}
	}
	m.appendDue()
	for _, l := range m.logs {
		if m.deadQueue && l.anyExpires(now) {
			l.row(core.QueueModeGroup).exists = true
		}
		for group, r := range l.rows {
			l.each(r, func(off int64, c *copyOf) {
				switch {
				case l.body(off).expires != now || c.standing == settled:
				case r.exists:
					m.done(l, r, off, func() { m.kill(group, c) })
				default:
					r.ghosts[off] = true
				}
			})
		}
	}
}

func (l *modelLog) anyExpires(now core.Time) bool {
	for off := l.start; off <= l.head(); off++ {
		if l.body(off).expires == now {
			return true
		}
	}
	return false
}

func (m *model) resolve(l *modelLog, group string, c *copyOf) {
	switch {
	case c.until > m.now:
	case c.standing == held && c.exclusive:
		c.standing, c.exclusive, c.lease = back, false, uuid.UUID{}
	case c.standing == held && m.limit > 0 && c.attempts >= m.limit:
		m.kill(group, c)
	case c.standing == held && c.protocol == core.ProtocolCloudflare:
		m.comeBack(l, c, m.now+core.Time(m.retryDelay*1_000_000))
	case c.standing == held, c.standing == back && c.later:
		m.toTail(l, c)
	}
}

func (m *model) appendDue() {
	m.scheduled = slices.DeleteFunc(m.scheduled, func(d due) bool {
		if d.at > m.now {
			return false
		}
		m.append(d.log, d.body)
		return true
	})
}

// seek forgets what a group did with a partition.
func (m *model) seek(l *modelLog, group string, toEnd bool) {
	l.rows[group] = nil
	r := l.row(group)
	r.exists = true
	l.each(r, func(off int64, c *copyOf) {
		if toEnd {
			c.standing = settled
		} else if x := l.body(off).expires; x != 0 && x <= m.now {
			r.ghosts[off] = true
			m.again++
		}
	})
}

// purge deletes everything.
func (m *model) purge() {
	m.scheduled = nil
	for _, l := range m.logs {
		l.start = l.head() + 1
		for _, r := range l.rows {
			r.copies, r.ghosts = map[int64]*copyOf{}, map[int64]bool{}
		}
	}
}
