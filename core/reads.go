package core

import "sync"

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
