package querator

import (
	"bytes"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	leasepb "github.com/leasehold/leasehold/adapters/querator/pb/lease"
	reservepb "github.com/leasehold/leasehold/adapters/querator/pb/reserve"
	"github.com/leasehold/leasehold/core"
)

// importRequest is storage/items.import in any generation.
type importRequest struct {
	queue     string
	partition int32
	items     []storedItem
}

// importItems is storage/items.import: items with the state that they had elsewhere. Their ids
// and creation times are assigned; one whose source id is in the partition already is passed over.
func importItems(c *call) (reply, error) {
	req, err := c.decodeImport()
	if err != nil {
		return nil, err
	}
	q, p, err := c.storagePartition(req.queue, req.partition)
	if err != nil {
		return nil, err
	}
	if len(req.items) == 0 {
		return nil, cannotBeEmpty("items")
	}
	items := make([]core.ImportItem, len(req.items))
	for i := range req.items {
		if items[i], err = req.items[i].forImport(); err != nil {
			return nil, err
		}
	}
	if err := c.settleDeadQueue(&q); err != nil {
		return nil, err
	}
	got, err := c.engine.Import(c.ctx, req.queue, req.partition, items)
	if err != nil {
		return nil, c.failed(operation{queue: req.queue, partition: strconv.Itoa(int(req.partition))}, err)
	}
	for i := range got {
		it := &req.items[i]
		if got[i].Skipped {
			continue
		}
		it.id = string(c.ids.append(nil, p.ID, itemPlace{second: got[i].Second, turn: uint64(got[i].Turn), offset: got[i].Offset}))
		it.added = got[i].CreatedAt.Std()
		// Deadlines are shown as they are kept, in microseconds.
		expires := items[i].ExpiresAt
		if expires == 0 {
			expires = q.Options.Expiry(got[i].CreatedAt)
		}
		it.expireDeadline = noTime(expires)
		if it.leased {
			it.leaseDeadline = items[i].LeasedUntil.Std()
		}
	}
	return &storageReply{dialect: c.dialectFor(&q), items: req.items, imported: true}, nil
}

// forImport turns an item as given into one for the engine.
func (it *storedItem) forImport() (out core.ImportItem, err error) {
	for _, t := range []time.Time{it.leaseDeadline, it.expireDeadline} {
		if y := t.Year(); y < 1 || y > 9999 {
			return out, undecodable(timestamppb.New(t).CheckValid())
		}
	}
	if it.attempts < 0 {
		return out, cannotBeNegative("attempts")
	}
	out.Labels = core.Labels{Encoding: it.encoding, Kind: it.kind, Reference: it.reference, SourceID: it.source, Imported: true}
	out.Payload, out.ContentType = it.payload, contentOf(it.encoding, it.payload, core.ContentBytes)
	out.Attempts = it.attempts
	// Absent is the Unix epoch, and the zero time is what the lists show for none.
	if t := it.expireDeadline; !t.IsZero() && !t.Equal(time.Unix(0, 0)) {
		out.ExpiresAt = max(core.TimeOf(t), 1)
	}
	if it.leased {
		// A lease without a deadline is over.
		out.LeasedUntil = max(core.TimeOf(it.leaseDeadline), 1)
	}
	return out, nil
}

// decodeImport reads the body in the listener's generation. On an Auto listener JSON tells its
// generation by its names, and protobuf by the queue's family.
func (c *call) decodeImport() (*importRequest, error) {
	if !c.auto() {
		return c.decodeImportAs(c.dialect)
	}
	if c.in == encodeProtobuf {
		return c.decodeImportAs(c.familyOfBody())
	}
	// The newest names come first, unless the body can only have been meant otherwise: dead_deadline was
	// the expire deadline before it became a member that nobody fills.
	order := []*dialect{dialectL2, dialectR2, dialectR1}
	if bytes.Contains(c.body, []byte(`"dead_deadline"`)) && !bytes.Contains(c.body, []byte(`"expire_deadline"`)) {
		order = []*dialect{dialectR1, dialectL2}
	}
	var first error
	for _, d := range order {
		req, err := c.decodeImportAs(d)
		if err == nil {
			return req, nil
		}
		if first == nil || d == dialectL2 {
			first = err
		}
	}
	return nil, first
}

// familyOfBody returns the dialect of the queue that a protobuf body names in its first field.
func (c *call) familyOfBody() *dialect {
	var name string
	eachField(c.body, func(n protowire.Number, v []byte) {
		if n == 1 {
			name = string(v)
		}
	})
	q, err := c.engine.Queue(c.ctx, name)
	if err != nil {
		return c.dialect
	}
	return c.dialectFor(&q)
}

func (c *call) decodeImportAs(d *dialect) (*importRequest, error) {
	var m proto.Message
	switch d.gen {
	case R1:
		m = &reservepb.StorageImportRequestR1{}
	case R2:
		m = &reservepb.StorageImportRequest{}
	default:
		m = &leasepb.StorageImportRequest{}
	}
	if err := c.decode(m); err != nil {
		return nil, err
	}
	req := &importRequest{}
	switch m := m.(type) {
	case *reservepb.StorageImportRequestR1:
		req.queue, req.partition = m.QueueName, m.Partition
		for _, it := range m.Items {
			out := storedFrom(it)
			out.leased, out.leaseDeadline, out.expireDeadline = it.IsReserved, timeOf(it.ReserveDeadline), timeOf(it.DeadDeadline)
			req.items = append(req.items, out)
		}
	case *reservepb.StorageImportRequest:
		req.queue, req.partition = m.QueueName, m.Partition
		for _, it := range m.Items {
			out := storedFrom(it)
			out.leased, out.leaseDeadline, out.expireDeadline = it.IsReserved, timeOf(it.ReserveDeadline), timeOf(it.ExpireDeadline)
			req.items = append(req.items, out)
		}
	case *leasepb.StorageImportRequest:
		req.queue, req.partition = m.QueueName, m.Partition
		for _, it := range m.Items {
			out := storedFrom(it)
			out.leased, out.leaseDeadline, out.expireDeadline = it.IsLeased, timeOf(it.LeaseDeadline), timeOf(it.ExpireDeadline)
			out.source = it.SourceId
			req.items = append(req.items, out)
		}
	}
	return req, nil
}

// storageMessage is what all generations call alike.
type storageMessage interface {
	GetId() string
	GetCreatedAt() *timestamppb.Timestamp
	GetAttempts() int32
	GetMaxAttempts() int32
	GetReference() string
	GetEncoding() string
	GetKind() string
	GetPayload() []byte
}

func storedFrom(m storageMessage) storedItem {
	return storedItem{
		id: m.GetId(), added: timeOf(m.GetCreatedAt()), attempts: m.GetAttempts(), maxAttempts: m.GetMaxAttempts(),
		reference: m.GetReference(), encoding: m.GetEncoding(), kind: m.GetKind(), payload: m.GetPayload(),
	}
}
