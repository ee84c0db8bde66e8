package core

import (
	"context"

	"github.com/google/uuid"
)

// gapUnderLock is how many messages of others a push may meet under the partition's lock; more of them are read before it.
const gapUnderLock = 4096

// known returns the last offset up to which the partition's table has the transaction ids of all messages: the head, where nobody else
// appends.
func (e *Engine) known(p *part) int64 {
	if e.shared {
		return p.dedup.upto
	}
	return p.log.Head
}

// lacks reports whether the table lacks more than slack messages of others.
func (e *Engine) lacks(p *part, slack int64) bool { return e.shared && p.log.Head-p.dedup.upto > slack }

// forgetTable drops a partition's table; it is filled again at the next use.
func (e *Engine) forgetTable(p *part) {
	if p.dedup.ready() && !p.dedup.loading {
		e.dedupCount -= p.dedup.used
		p.dedup = dedupTable{}
	}
}

// reach notes that all messages up to an offset are in the table, when those before it were.
func (e *Engine) reach(p *part, first, last int64) {
	if e.shared && first <= p.dedup.upto+1 && p.dedup.ready() {
		p.dedup.upto = max(p.dedup.upto, last)
	}
}

// takeIn enters the messages of others that follow what the table knows. It may run inside a commit, so it asks the store for nothing: what
// has left the window stays in the table for now.
func (e *Engine) takeIn(ctx context.Context, p *part, newer []SegmentHeader, head int64) {
	for i := range newer {
		for j := range newer[i].Messages {
			off := newer[i].First + int64(j)
			if h := newer[i].Messages[j].Hash; h != 0 && off > p.dedup.upto {
				e.insertFrom(ctx, p, h, off, func() int64 { return p.log.Start })
			}
		}
	}
	p.dedup.upto = max(p.dedup.upto, head)
}

// piece is a segment of a push with the request that it belongs to.
type piece struct {
	r   *pushReq
	g   *pushGroup
	seg NewSegment
}

// moved returns what is left of the segments of one partition after others appended to it; it is AppendParams.Moved of a push. The
// partition is locked, so what it says of duplicates holds.
func (e *Engine) moved(ctx context.Context, pieces []piece, log LogState, newer []SegmentHeader, indexes []int) ([]NewSegment, error) {
	theirs := map[string]uuid.UUID{}
	part := pieces[indexes[0]].g.part
	since := e.clock.Now().Add(-part.entry.q().Options.DedupWindow())
	for i := range newer {
		if newer[i].AppendedAt <= since {
			continue // the engine looks again only when it pushes there, so theirs may be old
		}
		for j := range newer[i].Messages {
			if h := &newer[i].Messages[j]; h.TransactionID != "" {
				theirs[h.TransactionID] = h.ID
			}
		}
	}
	e.takeIn(ctx, part, newer, log.Head)
	out := make([]NewSegment, len(indexes))
	var group *pushGroup
	var left []NewSegment
	for n, i := range indexes {
		if pieces[i].g != group {
			group = pieces[i].g
			if !group.dropTheirs(pieces[i].r, theirs) {
				return nil, errTheirs // the table has theirs now, so this push fails by it
			}
			left = nil
			if len(group.msgs) > 0 {
				left = group.cut()
			}
		}
		out[n] = NewSegment{Partition: group.part.Key, Know: -1, Group: pieces[i].seg.Group}
		if len(left) > 0 {
			group := out[n].Group
			out[n], left = left[0], left[1:]
			out[n].Partition, out[n].Know, out[n].Group = pieces[i].g.part.Key, -1, group
		}
	}
	if len(left) > 0 {
		return nil, Errorf(CodeConflict, "push", "the partition changed under the push")
	}
	return out, nil
}

// dropTheirs takes out the messages whose transaction ids others have pushed meanwhile. It may be called again, about the messages
// as they were before. The entries that were made for offsets which others have now are dropped. It returns false for an atomic push that repeats
// one of theirs: others of the commit may repeat that push in turn, or count on the offsets that it would have.
func (g *pushGroup) dropTheirs(r *pushReq, theirs map[string]uuid.UUID) bool {
	for _, m := range g.marks {
		g.part.dedup.drop(m.hash, m.offset)
	}
	g.undoTheirs(r)
	g.marks, g.late = nil, true
	window := g.entry.q().Options.DedupWindow()
	var kept []Message
	var items []int
	for i := range g.msgs {
		first, dup := theirs[g.msgs[i].TransactionID]
		if !dup || g.msgs[i].Hash == 0 || window <= 0 {
			kept, items = append(kept, g.msgs[i]), append(items, g.items[i])
			continue
		}
		if r.params.Atomic {
			return false
		}
		out := &r.out[g.items[i]]
		out.Status, out.ID = PushDuplicate, first
	}
	g.mine, g.mineItems = g.msgs, g.items
	g.msgs, g.items = kept, items
	if len(kept) > 0 {
		g.encode()
	}
	return true
}

// catchUp takes in what others appended to a partition before a pass looks for a transaction id there, and returns the head that is
// known then; where nobody else appends, what is known is all.
func (p *pass) catchUp(pt *part) (int64, error) {
	if !p.e.shared {
		return -1, nil
	}
	log, ok := p.tx.Log(pt.Key)
	if !ok {
		return -1, nil
	}
	if log.Head > pt.dedup.upto {
		newer, err := p.tx.Headers(pt.Key, pt.dedup.upto+1, log.Head)
		if err != nil {
			return 0, err
		}
		p.e.takeIn(context.Background(), pt, newer, log.Head)
	}
	return log.Head, nil
}

// undoTheirs takes back what dropTheirs did to a group, for a commit that did not take place.
func (g *pushGroup) undoTheirs(r *pushReq) {
	g.late = false
	if g.mine == nil {
		return
	}
	g.msgs, g.items, g.mine, g.mineItems = g.mine, g.mineItems, nil, nil
	for j, i := range g.items {
		r.out[i].Status, r.out[i].ID, r.out[i].Err = PushQueued, g.msgs[j].ID, nil
	}
	g.encode()
}

// enterLate enters the messages of a segment under the offsets that they got.
func (e *Engine) enterLate(ctx context.Context, g *pushGroup, seg *NewSegment, first int64) {
	headers, err := DecodeHeaders(seg.Header, seg.Count)
	if err != nil {
		e.log.ErrorContext(ctx, "the headers of a push cannot be read", "error", err)
		return
	}
	for i := range headers {
		if h := headers[i].Hash; h != 0 {
			e.insert(ctx, g.part, h, first+int64(i))
		}
	}
}
