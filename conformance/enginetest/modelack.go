package enginetest

import (
	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// modelAck is one acknowledgement of a call that concerns one partition, group and lease.
type modelAck struct {
	offset int64
	status core.AckStatus
}

// acked is what the model expects of one acknowledgement.
type acked struct {
	code                 core.Code
	failed               bool
	noop, dead, released bool
	// gone tells that the message may not be there any more, so that its id may be unresolvable.
	gone bool
}

func fails(code core.Code) acked { return acked{code: code, failed: true} }

// ack applies Queen's acknowledgement rules. before tells what is pending in the batch that holds an offset.
func (m *model) ack(l *modelLog, group string, lease uuid.UUID, acks []modelAck, before func(int64) core.Runs) []acked {
	r := l.row(group)
	out := make([]acked, len(acks))
	live := l.exclusive(r)
	leased := lease != uuid.UUID{}
	for i := range out {
		if !r.exists {
			out[i] = fails(core.CodeNoConsumer)
		} else if leased && (len(live) == 0 || r.at(live[0]).lease != lease) {
			out[i] = fails(core.CodeLeaseLost)
		}
	}
	if out[0].failed {
		return out
	}
	at := make([]int64, len(acks))
	lowest, worst := int64(0), core.AckCompleted
	for i, a := range acks {
		at[i], out[i] = m.find(l, r, leased, a)
		if at[i] == 0 || a.status == core.AckCompleted {
			continue
		}
		if lowest == 0 || at[i] < lowest {
			lowest, worst = at[i], a.status
		} else if at[i] == lowest {
			worst = max(worst, a.status)
		}
	}
	for i, a := range acks {
		if at[i] == 0 || a.status != core.AckCompleted || lowest != 0 && at[i] >= lowest {
			continue
		}
		if leased {
			l.settleBelow(r, live, at[i])
		} else {
			l.settleUpto(r, at[i], before)
		}
	}
	dead := int64(0)
	if lowest != 0 {
		l.settleBelow(r, live, lowest-1)
		dead = m.negative(r, lowest, worst)
		for _, off := range live {
			if c := r.at(off); c.standing == held {
				c.standing, c.exclusive, c.lease, c.until = back, false, uuid.UUID{}, m.now
			}
		}
	}
	released := len(live) > 0 && len(l.exclusive(r)) == 0
	if released && lowest == 0 {
		r.retries = 0
	}
	for i := range out {
		out[i].released = released && !out[i].failed && !out[i].noop
		out[i].dead = dead != 0 && at[i] == dead && acks[i].status != core.AckCompleted
	}
	return out
}

// find returns the offset at which an acknowledgement has an effect, 0 where it has none.
func (m *model) find(l *modelLog, r *modelRow, leased bool, a modelAck) (int64, acked) {
	if a.offset < l.start {
		return 0, fails(core.CodeUnresolvable)
	}
	c := r.at(a.offset)
	negative := a.status != core.AckCompleted
	switch {
	case c.standing == held && c.exclusive, c.standing != settled && !leased && !negative:
		return a.offset, acked{}
	case c.standing != settled && leased:
		return 0, fails(core.CodeUnresolvable)
	case c.standing != settled:
		return 0, fails(core.CodeLeaseLost)
	}
	b := l.body(a.offset)
	gone := b.expires != 0 && b.expires <= m.now || b.delayed
	if negative {
		return 0, acked{code: core.CodeCommitted, failed: true, gone: gone}
	}
	return 0, acked{noop: true, gone: gone}
}

func (l *modelLog) settleBelow(r *modelRow, live []int64, upto int64) {
	for _, off := range live {
		if off <= upto {
			r.at(off).standing = settled
		}
	}
}

// settleUpto settles without a lease: what has not been to the tail up to off, live shared leases excepted; a message that has
// been there takes those before it in its batch with it.
func (l *modelLog) settleUpto(r *modelRow, upto int64, before func(int64) core.Runs) {
	c := r.at(upto)
	if c.standing == settled {
		return // an earlier item of the call has done it
	}
	if c.tail() && c.standing != fresh {
		before(upto).Offsets(func(off int64) bool {
			if off <= upto {
				r.at(off).standing = settled
			}
			return true
		})
		return
	}
	l.each(r, func(off int64, c *copyOf) {
		shared := c.standing == held && !c.exclusive
		if off <= upto && (!c.tail() || c.standing == fresh) && (!shared || off == upto) {
			c.standing = settled
			delete(r.ghosts, off)
		}
	})
}

// negative decides what a retry, a failure or a dead-lettering at off becomes. It returns off when that becomes a dead letter.
func (m *model) negative(r *modelRow, off int64, status core.AckStatus) int64 {
	switch {
	case status == core.AckRetry:
		return 0
	case status == core.AckFailed && r.retries < m.retryLimit:
		r.retries++
		return 0
	}
	r.at(off).standing = settled
	r.retries = 0
	m.letters++
	return off
}
