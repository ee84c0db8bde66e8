package core

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// pushReq is a push that waits for its commit.
type pushReq struct {
	params PushParams
	groups []pushGroup
	out    []Pushed
	bytes  int
	// delayed tells that some of it goes to the schedule; such a request is committed by an Update.
	delayed bool
	// lost tells that some of it was for a partition that is gone.
	lost bool
	// echoes are its duplicates of what goes into the same commit, and unheard the items of those whose first was not stored.
	echoes  []echo
	unheard []int
	err     error
	done    chan struct{}
}

// pushGroup are the messages of a request for one partition and due time.
type pushGroup struct {
	entry *entry
	name  string
	part  *part
	due   Time
	msgs  []Message
	items []int
	seg   NewSegment
	// all and allItems are msgs and items as they were before duplicates were dropped, nil when none was.
	all      []Message
	allItems []int
	// marks are the table entries that the group made before its commit, first the offset that its first message would get, and placed how many of its
	// messages have theirs. shifted is by how much both were raised since, for what others appended.
	marks   []dedupMark
	first   int64
	placed  int
	shifted int64
	// mine and mineItems are msgs and items as they were before others were found to have pushed some; nil when nobody has. late tells that
	// the table learns of the messages when they have their offsets.
	mine      []Message
	mineItems []int
	late      bool
	// gone tells that the queue was deleted by another gateway.
	gone bool
	// version is that of the queue by whose options the messages got their expiry.
	version int64
}

func (r *pushReq) fail(err error) {
	r.err = err
	close(r.done)
}

// Push stores messages durably before it returns. The outcome of each item is in the slice, in order; the error is for
// the whole call (CodeNoQueue, CodeDuplicate with Atomic, CodeClosed, CodeUnavailable, …), and then nothing was stored.
func (e *Engine) Push(ctx context.Context, p PushParams) ([]Pushed, error) {
	if e.closing.Load() {
		return nil, errClosed("push")
	}
	if len(p.Items) == 0 {
		return []Pushed{}, nil
	}
	r, err := e.newPush(ctx, p)
	if err != nil {
		return nil, err
	}
	if len(r.groups) == 0 {
		return r.out, nil
	}
	e.inFlight.Add(1)
	defer e.inFlight.Add(-1)
	e.enqueuePush(r)
	select {
	case <-r.done:
	case <-e.stopped:
		select {
		case <-r.done:
		default:
			return nil, errClosed("push")
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return r.out, nil
}

// newPush resolves the destinations and encodes the messages, in the caller's goroutine.
func (e *Engine) newPush(ctx context.Context, p PushParams) (*pushReq, error) {
	now := e.clock.Now()
	r := &pushReq{params: p, out: make([]Pushed, len(p.Items)), done: make(chan struct{})}
	for i := range p.Items {
		it := &p.Items[i]
		if len(it.Payload) > e.opts.MaxMessageBytes || len(it.TransactionID) > 65535 {
			err := Errorf(CodeTooLarge, "push", "message %d is too large", i)
			err.Item = i
			return nil, err
		}
		find := func(ctx context.Context, name string) (*entry, error) { return e.queue(ctx, "push", name) }
		if p.Create {
			find = e.ensure
		}
		en, err := find(ctx, it.Queue)
		if err != nil {
			return nil, err
		}
		q := en.q()
		if err := p.Known.check("push", q); err != nil {
			return nil, err
		}
		r.add(en, q, it, i, now)
	}
	for i := range r.groups {
		r.groups[i].encode()
		r.bytes += len(r.groups[i].seg.Body)
	}
	return r, nil
}

// add sorts an item into the group of its partition and due time.
func (r *pushReq) add(en *entry, q *Queue, it *PushItem, index int, now Time) {
	m := Message{
		MessageHeader: MessageHeader{ID: it.ID, TransactionID: it.TransactionID, CreatedAt: now, ExpiresAt: q.Options.Expiry(now)},
		Labels:        it.Labels, Payload: it.Payload,
	}
	if m.ID == uuid.Nil {
		m.ID = NewMessageID(now)
	}
	if it.CreatedAt != 0 && it.CreatedAt < now {
		m.CreatedAt = it.CreatedAt
	}
	if m.TransactionID != "" {
		m.Hash = HashTransaction(m.TransactionID)
	}
	due := Time(0)
	if it.Due > now {
		due, r.delayed = it.Due, true
		if m.ExpiresAt != 0 && m.ExpiresAt <= due {
			m.ExpiresAt = q.Options.Expiry(due)
		}
	}
	r.out[index] = Pushed{ID: m.ID, TransactionID: m.TransactionID}
	if r.params.Protocol == ProtocolQueen {
		r.out[index].TransactionID = m.Transaction() // the others do not show it, and the text of an id costs
	}
	name := ""
	if !r.params.Spread {
		name = en.partName(it.Partition)
	}
	for i := len(r.groups) - 1; i >= 0; i-- {
		g := &r.groups[i]
		if g.entry == en && g.version == q.Version && g.due == due && g.name == name && len(g.msgs) < MaxSegmentMessages {
			g.msgs, g.items = append(g.msgs, m), append(g.items, index)
			return
		}
	}
	n := r.run(index)
	g := pushGroup{entry: en, version: q.Version, name: name, due: due, msgs: make([]Message, 1, n), items: make([]int, 1, n)}
	g.msgs[0], g.items[0] = m, index
	r.groups = append(r.groups, g)
}

// run counts the items from index on that go where that one goes, so that their group grows only once.
func (r *pushReq) run(index int) int {
	first, n := &r.params.Items[index], 1
	for _, it := range r.params.Items[index+1:] {
		if n == MaxSegmentMessages || it.Due != first.Due || it.Queue != first.Queue || it.Partition != first.Partition {
			break
		}
		n++
	}
	return n
}

// encode makes the group's segment. A segment over the size limit is fine for one message; larger groups are cut when they are placed.
func (g *pushGroup) encode() {
	size := 0
	for i := range g.msgs {
		size += len(g.msgs[i].Payload) + 16
	}
	g.seg = NewSegment{Header: make([]byte, 0, 48*len(g.msgs)), Body: make([]byte, 0, size)}
	for i := range g.msgs {
		g.seg.Add(&g.msgs[i])
	}
}

// cut splits the group's messages into segments within the limits.
func (g *pushGroup) cut() []NewSegment {
	if g.seg.Count <= 1 || len(g.seg.Body) <= MaxSegmentBytes {
		return []NewSegment{g.seg}
	}
	var out []NewSegment
	for i := range g.msgs {
		var one NewSegment
		one.Add(&g.msgs[i])
		if n := len(out); n > 0 && out[n-1].Fits(&one) {
			out[n-1].Join(&one)
			continue
		}
		out = append(out, one)
	}
	return out
}

// ageLimit is how far back transaction ids of a queue matter to a partition's table.
func (q *Queue) ageLimit() time.Duration { return max(q.Options.DedupWindow(), q.Options.AckWindow()) }
