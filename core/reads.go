package core

import (
	"context"
	"slices"
	"sync"
	"time"
)

// reads are the messages that were settled within their claim and are still on their way to the client that claimed them: retention, which
// may take what is settled at once, leaves them alone until then.
type reads struct {
	mu    sync.Mutex
	parts map[PartitionKey]map[*claimReq]int64
}

// begin notes what a claim got, before anything else can happen to it.
func (r *reads) begin(c *claimReq) {
	if !c.p.AutoAck {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parts == nil {
		r.parts = map[PartitionKey]map[*claimReq]int64{}
	}
	for _, g := range c.got {
		of := r.parts[g.part.Key]
		if of == nil {
			of = map[*claimReq]int64{}
			r.parts[g.part.Key] = of
		}
		for _, t := range g.taken {
			if first, ok := of[c]; len(t.runs) > 0 && (!ok || t.runs[0].First < first) {
				of[c] = t.runs[0].First
			}
		}
	}
}

// end forgets a claim: its messages were read, or will not be.
func (r *reads) end(c *claimReq) {
	if !c.p.AutoAck {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range c.got {
		if of := r.parts[g.part.Key]; of != nil {
			delete(of, c)
			if len(of) == 0 {
				delete(r.parts, g.part.Key)
			}
		}
	}
}

// below returns the highest offset up to floor below which nothing is on its way.
func (r *reads) below(p PartitionKey, floor int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, first := range r.parts[p] {
		floor = min(floor, first-1)
	}
	return floor
}

// readFor is how long what another gateway's claim has settled is left to be read there: its reads are known to nobody else.
const readFor = 2 * time.Second

// theirReads is what retention knows of a partition that other gateways claim from.
type theirReads struct {
	// changed is when one of them was last heard to change a row of the partition.
	changed Time
	// settled are the first offsets of the segments that could have been deleted at a look at the time at.
	settled map[int64]struct{}
	at      Time
}

// over returns those of the settled segments that nobody is reading anywhere: all of them where no other gateway has changed anything for
// readFor, and else those that were settled so long ago.
func (t *theirReads) over(settled []SegmentRef, now Time) []SegmentRef {
	before, early := t.settled, now < t.at.Add(readFor)
	if now >= t.changed.Add(readFor) {
		t.settled = nil
		return settled
	}
	out := slices.DeleteFunc(slices.Clone(settled), func(ref SegmentRef) bool {
		_, was := before[ref.First]
		return early || !was
	})
	if !early {
		t.settled, t.at = make(map[int64]struct{}, len(settled)), now
		for i := range settled {
			t.settled[settled[i].First] = struct{}{}
		}
	}
	return out
}

// unread returns those of the settled segments that nobody is reading anywhere, and whether there are others.
func (e *Engine) unread(ctx context.Context, settled map[*part][]SegmentRef, now Time) (free []SegmentRef, more bool, err error) {
	if e.shared && len(settled) > 0 {
		if err := e.follow(ctx); err != nil { // what a claim elsewhere has settled by now, it may be reading
			return nil, false, err
		}
	}
	for p, list := range settled {
		over := p.theirs.over(list, now)
		free, more = append(free, over...), more || len(over) < len(list)
	}
	return free, more, nil
}
