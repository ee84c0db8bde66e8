package core

import (
	"context"
	"sort"

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

// theirs are the messages that others appended while a push was decided, found by the hash of their transaction ids.
type theirs struct {
	newer []SegmentHeader
	at    dedupTable
}

// theirsOf makes them of headers; what was appended until then is left out.
func theirsOf(newer []SegmentHeader, since Time) *theirs {
	t := &theirs{newer: newer}
	if len(newer) == 0 {
		return t
	}
	n := newer[len(newer)-1].Last() - newer[0].First + 1
	t.at = newTable(int(n), newer[0].First)
	for i := range newer {
		if newer[i].AppendedAt <= since {
			continue // the engine looks again only when it pushes there, so theirs may be old
		}
		for j := range newer[i].Messages {
			if h := newer[i].Messages[j].Hash; h != 0 {
				t.at.add(h, newer[i].First+int64(j))
			}
		}
	}
	return t
}

// first returns the id of the message of theirs that one of ours repeats.
func (t *theirs) first(m *Message) (id uuid.UUID, found bool) {
	if m.Hash == 0 {
		return id, false
	}
	t.at.each(m.Hash, func(off int64) bool {
		i := sort.Search(len(t.newer), func(i int) bool { return t.newer[i].Last() >= off })
		if h := &t.newer[i].Messages[off-t.newer[i].First]; h.TransactionID == m.TransactionID {
			id, found = h.ID, true
		}
		return !found
	})
	return id, found
}

// repeatedBy reports whether a message of a group repeats one of theirs, or did when it was asked before.
func (t *theirs) repeatedBy(g *pushGroup) bool {
	if g.late {
		return true
	}
	for i := range g.msgs {
		if _, found := t.first(&g.msgs[i]); found {
			return true
		}
	}
	return false
}

// moved returns what is left of the segments of one partition after others appended to it; it is AppendParams.Moved of a push. The
// partition is locked, so what it says of duplicates holds.
func (e *Engine) moved(ctx context.Context, pieces []piece, log LogState, newer []SegmentHeader, indexes []int) ([]NewSegment, error) {
	part := pieces[indexes[0]].g.part
	window := part.entry.q().Options.DedupWindow()
	their := &theirs{}
	if window > 0 {
		their = theirsOf(newer, e.clock.Now().Add(-window))
	}
	var groups []*pushGroup
	repeated := false
	for _, i := range indexes {
		if g := pieces[i].g; len(groups) == 0 || groups[len(groups)-1] != g {
			groups = append(groups, g)
			repeated = repeated || their.repeatedBy(g)
		}
	}
	out := make([]NewSegment, len(indexes))
	if !repeated {
		for _, g := range groups {
			g.shift(log.Head - pieces[indexes[0]].seg.Know)
		}
		e.takeIn(ctx, part, newer, log.Head)
		for n, i := range indexes {
			out[n] = pieces[i].seg
			out[n].Know = -1
		}
		return out, nil
	}
	e.takeIn(ctx, part, newer, log.Head)
	return out, withoutTheirs(out, pieces, indexes, their)
}

// withoutTheirs fills in segments without what repeats theirs.
func withoutTheirs(out []NewSegment, pieces []piece, indexes []int, their *theirs) error {
	var group *pushGroup
	var left []NewSegment
	for n, i := range indexes {
		if pieces[i].g != group {
			group = pieces[i].g
			if !group.dropTheirs(pieces[i].r, their) {
				return errTheirs // the table has theirs now, so this push fails by it
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
		return Errorf(CodeConflict, "push", "the partition changed under the push")
	}
	return nil
}

// shift enters the messages of a group under offsets that are so much higher than those for which they were made; it may be called again.
func (g *pushGroup) shift(by int64) {
	by -= g.shifted
	for i := range g.marks {
		m := &g.marks[i]
		g.part.dedup.move(m.hash, m.offset, m.offset+by)
		m.offset += by
	}
	g.first += by
	g.shifted += by
}

// dropTheirs takes out the messages whose transaction ids others have pushed meanwhile. It may be called again, about the messages
// as they were before. The entries that were made for offsets which others have now are dropped. It returns false for an atomic push that repeats
// one of theirs: others of the commit may repeat that push in turn, or count on the offsets that it would have.
func (g *pushGroup) dropTheirs(r *pushReq, their *theirs) bool {
	for _, m := range g.marks {
		g.part.dedup.drop(m.hash, m.offset)
	}
	g.undoTheirs(r)
	g.marks, g.late = nil, true
	var kept []Message
	var items []int
	for i := range g.msgs {
		first, dup := their.first(&g.msgs[i])
		if !dup {
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
