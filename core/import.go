package core

import (
	"context"

	"github.com/google/uuid"
)

// ImportLeased appends a message that is leased already, with attempts as given: a leased batch above the frontier, so that
// claims pass it over. It returns the item's place.
func (e *Engine) ImportLeased(_ context.Context, queue string, ordinal int32, n NewMessage, attempts int32, until Time) (ItemRef, error) {
	en := e.cat.byName(queue)
	if en == nil {
		return ItemRef{}, noQueue("import", queue)
	}
	list := en.partitions()
	if ordinal < 0 || int(ordinal) >= len(list) {
		return ItemRef{}, Errorf(CodeNoPartition, "import", "queue %q has no partition %d", queue, ordinal)
	}
	pt := list[ordinal]
	key := RowKey{pt.Key, QueueModeGroup}
	var ref ItemRef
	op := &opReq{entry: en, rows: []RowRequest{{Key: key, Must: true}}}
	op.apply = func(p *pass) error {
		ed := p.edit(key)
		if ed == nil {
			return Errorf(CodeConflict, "import", "the partition is busy")
		}
		ed.begin(ed.row.Log.Start)
		now := p.now
		m := Message{MessageHeader: MessageHeader{ID: NewMessageID(now), Attempts: attempts, CreatedAt: now, ExpiresAt: en.q().Options.Expiry(now)}, Labels: n.Labels, Payload: n.Payload}
		seg := NewSegment{Partition: pt.Key, Know: ed.row.Log.Head}
		seg.Add(&m)
		for i := range p.cs.Segments {
			if p.cs.Segments[i].Partition == pt.Key {
				return Errorf(CodeConflict, "import", "the partition gets other messages in this commit")
			}
		}
		p.append(seg)
		off := ed.row.Log.Head + 1
		ref = ItemRef{Offset: off, Turn: OwnTurn(off), Second: max(p.now, ed.row.Log.HeadAt).Second()}
		ed.put(Batch{
			First: off, Last: off, Pending: Runs{{off, off}}, State: BatchLeased, Attempts: attempts, Lease: uuid.New(),
			Protocol: ProtocolQuerator, Until: until, Held: m.Of(), Covered: m.Of(),
		})
		return nil
	}
	return ref, e.submit(op)
}
