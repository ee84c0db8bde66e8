package core

import (
	"context"

	"github.com/google/uuid"
)

// prefetch reads at once the headers that a pass will need of its rows, where each look at them would be a journey to another machine.
func (p *pass) prefetch(rows []RowRequest) error {
	var ranges []HeadersParams
	var edits []*edit
	for i := range rows {
		ed := p.edit(rows[i].Key)
		if ed == nil {
			continue
		}
		for _, r := range ed.needs(&rows[i]) {
			ranges = append(ranges, HeadersParams{Partition: ed.row.Key.Partition, From: r.First, To: r.Last})
			edits = append(edits, ed)
		}
	}
	if len(ranges) == 0 {
		return nil
	}
	got, err := p.tx.Prefetch(ranges)
	if err != nil {
		return err
	}
	for i := range got {
		edits[i].know(got[i])
	}
	return nil
}

// needs returns the offsets whose headers a request is about: what it names, what its lease holds, what has come back and, for claims, what
// follows the frontier.
func (e *edit) needs(r *RowRequest) Runs {
	log := &e.row.Log
	var out Runs
	add := func(first, last int64) {
		if first, last = max(first, log.Start), min(last, log.Head); first <= last {
			out = out.Union(Runs{{first, last}})
		}
	}
	for _, off := range r.Offsets {
		add(off, off)
	}
	due := r.Due
	for i := range e.batches {
		b := &e.batches[i]
		switch {
		case r.Lease != uuid.Nil && b.Lease == r.Lease && b.State == BatchLeased:
			add(b.First, b.Last)
		case due > 0 && len(b.Pending) > 0 && b.Until <= e.now:
			add(b.Pending[0].First, b.Pending[len(b.Pending)-1].Last)
			due -= int(b.Pending.Count())
		}
	}
	if r.Due > 0 {
		from := max(e.row.Frontier.Offset, log.Start-1)
		add(from+1, from+int64(r.Due))
	}
	return out
}

// readAtOnce bounds the bytes that are read for the claims of a pass together; above it each reads for itself.
const readAtOnce = 4 << 20

// readServed answers the claims of a pass that got something, once what they got is read for all of them.
func (e *Engine) readServed(claims []*claimReq) {
	size := int64(0)
	for _, c := range claims {
		size += c.size
	}
	if len(claims) > 1 && size <= readAtOnce {
		go e.readTogether(context.Background(), claims)
		return
	}
	for _, c := range claims {
		c.finish()
	}
}

func (e *Engine) readTogether(ctx context.Context, claims []*claimReq) {
	var params []ReadParams
	for _, c := range claims {
		for _, g := range c.got {
			for i := range g.taken {
				params = append(params, ReadParams{Partition: g.part.Key, Offsets: g.taken[i].runs, Leased: true})
			}
		}
	}
	got, err := e.others.store.ReadAll(ctx, params)
	for _, c := range claims {
		for _, g := range c.got {
			for range g.taken {
				if err == nil { // otherwise each claim reads for itself, and answers for what it meets
					c.read, got = append(c.read, got[0]), got[1:]
				}
			}
		}
		c.finish()
	}
}
