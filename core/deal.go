package core

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// serve gives the claims of a plan what its rows have.
func (p *pass) serve(pl *plan) {
	rows := make([]*edit, 0, len(pl.rows))
	for _, h := range pl.rows {
		ed := p.edit(RowKey{h.part.Key, pl.group.name})
		if ed == nil {
			continue
		}
		if !ed.row.Exists {
			first := ed.row.Log.Start
			if at, ok := pl.seeds[h.part.Key]; ok {
				first = at
			}
			ed.begin(first)
		}
		ed.resolve(p.expiry(h.part.Key))
		rows = append(rows, ed)
	}
	var dealt []*claimReq
	for _, c := range pl.claims {
		c.got, c.size, c.lease = nil, 0, uuid.UUID{}
		if c.dealt() {
			dealt = append(dealt, c)
		}
	}
	if len(dealt) > 0 {
		p.deal(dealt, rows)
	}
	for _, c := range pl.claims {
		if !c.dealt() && len(rows) > 0 {
			rows = p.serveOne(c, rows)
		}
	}
}

// serveOne gives one claim what it may have, and returns the rows that may have something for the next.
func (p *pass) serveOne(c *claimReq, rows []*edit) []*edit {
	left, bytes := int64(c.p.Messages), c.bytes
	if c.p.Exclusive && !c.p.AutoAck {
		c.lease = NewMessageID(p.now)
	}
	kept := rows[:0:0]
	for i, ed := range rows {
		if left <= 0 || bytes <= 0 && len(c.got) > 0 || c.p.Partitions > 0 && len(c.got) >= c.p.Partitions {
			return append(kept, rows[i:]...)
		}
		if !p.mayTake(c, ed) {
			kept = append(kept, ed)
			continue
		}
		n, size := p.take(c, ed, left, bytes)
		left, bytes = left-n, bytes-size
		if n > 0 && !c.p.Exclusive || n > 0 && c.p.AutoAck {
			kept = append(kept, ed)
		}
	}
	return kept
}

// mayTake reports whether a row is in the scope of a claim.
func (p *pass) mayTake(c *claimReq, ed *edit) bool {
	if c.part != nil {
		return c.part.Key == ed.row.Key.Partition
	}
	pt := p.e.cat.partByKey(ed.row.Key.Partition)
	return pt != nil && (c.entry == nil || c.entry == pt.entry)
}

// take claims from one row for one claim.
func (p *pass) take(c *claimReq, ed *edit, left, bytes int64) (n, size int64) {
	if ed.exclusive() != nil {
		p.inVain(ed)
		return 0, 0
	}
	q := p.queue(ed.row.Key.Partition)
	w := want{
		messages: left, bytes: bytes, until: p.now.Add(c.leaseFor(q)), lease: c.lease, protocol: c.p.Protocol,
		autoAck: c.p.AutoAck, notAfter: q.hiddenBefore(p.now), window: time.Duration(q.Options.Queen.WindowBufferSeconds) * time.Second, anyOrder: c.p.Protocol == ProtocolCloudflare,
	}
	var got []taken
	var gone Runs
	if c.p.Exclusive {
		var t taken
		if p.newestOnly(ed) {
			t = ed.takeNewest(w)
		} else {
			t, gone = ed.takeExclusive(w)
		}
		if len(t.runs) > 0 {
			got = []taken{t}
			if c.p.AutoAck {
				ed.row.Frontier.Retries, ed.moved = 0, true
				p.freeSources(ed, t.runs)
			}
		}
	} else {
		got, gone = ed.takeShared(w)
	}
	p.expired(ed, gone)
	for _, t := range got {
		n += t.runs.Count()
		size += ed.totals(t.runs).Bytes
	}
	if n > 0 {
		c.size += size
		c.got = append(c.got, gotRow{p.e.cat.partByKey(ed.row.Key.Partition), got})
	} else {
		p.inVain(ed)
	}
	return n, size
}

// deal serves claims that take from a single partition each (Querator): every claim goes to the row with the most unleased
// messages, then each row deals one message at a time: how many each claim gets is dealt, and contiguous ranges are cut in arrival order.
func (p *pass) deal(claims []*claimReq, rows []*edit) {
	left := make([]int64, 0, len(rows))
	free := rows[:0:0]
	for _, ed := range rows {
		if n := ed.available(); n > 0 && ed.exclusive() == nil {
			free, left = append(free, ed), append(left, n)
		} else {
			p.inVain(ed)
		}
	}
	if len(free) == 0 {
		return
	}
	have := slices.Clone(left)
	assigned := make([][]*claimReq, len(free))
	for _, c := range claims {
		best := -1
		for i := range free {
			if p.mayTake(c, free[i]) && (best < 0 || left[i] > left[best] || left[i] == left[best] && p.ordinal(free[i]) < p.ordinal(free[best])) {
				best = i
			}
		}
		if best >= 0 {
			assigned[best] = append(assigned[best], c)
			left[best] -= int64(c.p.Messages)
		}
	}
	for i, ed := range free {
		shares := dealOut(have[i], assigned[i])
		for j, c := range assigned[i] {
			if shares[j] > 0 {
				p.take(c, ed, shares[j], c.bytes)
			}
		}
	}
}

func (p *pass) ordinal(ed *edit) int32 {
	if pt := p.e.cat.partByKey(ed.row.Key.Partition); pt != nil {
		return pt.Ordinal
	}
	return 0
}

// dealOut deals n messages one at a time in arrival order, skipping claims that have what they asked for.
func dealOut(n int64, claims []*claimReq) []int64 {
	shares := make([]int64, len(claims))
	for n > 0 {
		gave := false
		for i, c := range claims {
			if n > 0 && shares[i] < int64(c.p.Messages) {
				shares[i]++
				n--
				gave = true
			}
		}
		if !gave {
			break
		}
	}
	return shares
}
