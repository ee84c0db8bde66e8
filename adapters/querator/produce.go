package querator

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	leasepb "github.com/leasehold/leasehold/adapters/querator/pb/lease"
	reservepb "github.com/leasehold/leasehold/adapters/querator/pb/reserve"
	"github.com/leasehold/leasehold/core"
)

// produceRequest is queue.produce in either family.
type produceRequest struct {
	queue, timeout string
	items          []produceItem
}

// produceItem is one item to put in a queue.
type produceItem struct {
	encoding, kind, reference string
	bytes, utf8               []byte
	at                        *timestamppb.Timestamp
}

// produce is queue.produce: all items or none, in order, in the partition with the fewest
// unleased items.
func produce(c *call) (reply, error) {
	req, err := c.decodeProduce()
	if err != nil {
		return nil, err
	}
	q, err := c.lookup(req.queue)
	if err != nil {
		return nil, err
	}
	if err := checkProduceTimeout(req.timeout); err != nil {
		return nil, err
	}
	switch n := len(req.items); {
	case n == 0:
		return nil, errNoProduceItems
	case n > c.o.MaxProduceBatch:
		return nil, batchTooLarge("items", "max_produce_batch_size", strconv.Itoa(c.o.MaxProduceBatch), strconv.Itoa(n))
	}
	if err := c.rooms.enter(q.ID); err != nil {
		return nil, err
	}
	defer c.rooms.leave(q.ID)
	items, err := pushItems(req, c.engine.Now())
	if err != nil {
		return nil, err
	}
	if err := c.settleDeadQueue(&q); err != nil {
		return nil, err
	}
	pushed, err := c.engine.Push(c.ctx, core.PushParams{Protocol: core.ProtocolQuerator, Items: items, Atomic: true, Spread: true})
	for i := 0; err == nil && i < len(pushed); i++ {
		err = pushed[i].Err
	}
	if err != nil {
		return nil, c.failed(operation{queue: req.queue}, err)
	}
	return okReply{}, nil
}

// checkProduceTimeout requires a timeout strictly between 10 ms and 15 minutes.
func checkProduceTimeout(s string) error {
	d, err := parseTimeout(s)
	switch {
	case err != nil:
		return err
	case d == 0:
		return errTimeoutRequired
	case d >= maxTimeout:
		return timeoutTooLong(d, "was requested")
	case d <= minTimeout:
		return timeoutTooShort(d)
	}
	return nil
}

// soon is how far ahead a time may lie that still means "now": scheduling it would take longer.
const soon = 100 * time.Millisecond

// dueAt turns a time of a request into a due time; zero is at once.
func dueAt(at *timestamppb.Timestamp, now core.Time) (core.Time, error) {
	if at == nil {
		return 0, nil
	}
	if err := at.CheckValid(); err != nil {
		return 0, undecodable(err)
	}
	due := core.TimeOf(at.AsTime())
	if due < now.Add(soon) {
		return 0, nil
	}
	return due, nil
}

// pushItems makes messages of the items.
func pushItems(req *produceRequest, now core.Time) ([]core.PushItem, error) {
	items := make([]core.PushItem, len(req.items))
	for i := range req.items {
		in, out := &req.items[i], &items[i]
		due, err := dueAt(in.at, now)
		if err != nil {
			return nil, err
		}
		out.Queue = req.queue
		out.Due = due
		out.Encoding, out.Kind, out.Reference = in.encoding, in.kind, in.reference
		// Bytes win, whatever the text says, unless there are none.
		out.Payload, out.ContentType = in.bytes, core.ContentBytes
		if len(in.bytes) == 0 && len(in.utf8) > 0 {
			out.Payload, out.ContentType = in.utf8, core.ContentText
		}
		out.ContentType = contentOf(in.encoding, out.Payload, out.ContentType)
	}
	return items, nil
}

// contentOf returns the content type of a payload: JSON where the encoding says so and it is, else
// what it would be without an encoding.
func contentOf(encoding string, payload []byte, plain core.ContentType) core.ContentType {
	if saysJSON(encoding) && utf8.Valid(payload) && json.Valid(payload) {
		return core.ContentJSON
	}
	return plain
}

// saysJSON reports whether an item's encoding, which is the user's own word, means JSON.
func saysJSON(encoding string) bool {
	e := strings.ToLower(mediaType(encoding))
	return e == "json" || e == typeJSON || e == "text/json" || strings.HasSuffix(e, "+json")
}

// decodeProduce reads the body in the family that numbers or names its items.
func (c *call) decodeProduce() (*produceRequest, error) {
	if c.in == encodeJSON {
		if req, ok := fastProduce(c.body); ok {
			return req, nil
		}
	}
	fam := c.itemsFamily()
	if c.in == encodeProtobuf {
		if req, ok := fastProduceWire(c.body, fam); ok {
			return req, nil
		}
	}
	if fam == familyReserve {
		var m reservepb.ProduceRequest
		if err := c.decode(&m); err != nil {
			return nil, err
		}
		req := &produceRequest{queue: m.QueueName, timeout: m.RequestTimeout, items: make([]produceItem, len(m.Items))}
		for i, it := range m.Items {
			req.items[i] = produceItem{encoding: it.Encoding, kind: it.Kind, reference: it.Reference, bytes: it.Bytes, utf8: []byte(it.Utf8)}
		}
		return req, nil
	}
	var m leasepb.ProduceRequest
	if err := c.decode(&m); err != nil {
		return nil, err
	}
	req := &produceRequest{queue: m.QueueName, timeout: m.RequestTimeout, items: make([]produceItem, len(m.Items))}
	for i, it := range m.Items {
		req.items[i] = produceItem{
			encoding: it.Encoding, kind: it.Kind, reference: it.Reference,
			bytes: it.Bytes, utf8: []byte(it.Utf8), at: it.EnqueueAt,
		}
	}
	return req, nil
}

// itemsFamily tells whose items a queue.produce holds: the listener's family where it has one,
// else by the items themselves, else by the names that the queue was made with. In JSON the
// families differ only by the schedule, so that the newer one reads both.
func (c *call) itemsFamily() family {
	switch {
	case !c.auto() && c.dialect.reserve():
		return familyReserve
	case !c.auto() || c.in == encodeJSON:
		return familyLease
	}
	fam, undecided := itemFamily(c.body)
	if !undecided {
		return fam
	}
	var name string
	eachField(c.body, func(n protowire.Number, v []byte) {
		if n == 1 {
			name = string(v)
		}
	})
	q, err := c.engine.Queue(c.ctx, name)
	if err != nil || familyOf(&q) == familyUnknown {
		return fam
	}
	return familyOf(&q)
}
