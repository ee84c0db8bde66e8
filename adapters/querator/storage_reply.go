package querator

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	leasepb "github.com/leasehold/leasehold/adapters/querator/pb/lease"
	reservepb "github.com/leasehold/leasehold/adapters/querator/pb/reserve"
)

// storageReply answers the storage lists and imports. The items are always there in JSON, also
// when there are none.
type storageReply struct {
	dialect *dialect
	items   []storedItem
	// imported numbers the items as the answer to an import does.
	imported bool
}

func (r *storageReply) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"items":[`...)
	for i := range r.items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.appendItem(dst, &r.items[i])
	}
	return append(dst, "]}"...)
}

// appendItem writes one item. An item that is not leased has the zero time for its deadline.
func (r *storageReply) appendItem(dst []byte, it *storedItem) []byte {
	o := openObject(dst)
	o.str("id", it.id)
	if !r.dialect.reserve() {
		o.str("source_id", it.source)
	}
	o.flag("is_"+r.dialect.past, it.leased)
	o.time(r.dialect.deadlineKey, it.leaseDeadline)
	o.time(r.dialect.expire+"_deadline", it.expireDeadline)
	o.time("created_at", it.added)
	o.num("attempts", int64(it.attempts))
	o.num("max_attempts", int64(it.maxAttempts))
	o.str("reference", it.reference)
	o.str("encoding", it.encoding)
	o.str("kind", it.kind)
	o.bytes("payload", it.payload)
	return o.close()
}

func (r *storageReply) message() proto.Message {
	if r.dialect.reserve() {
		return r.reserveMessage()
	}
	items := make([]*leasepb.StorageItem, len(r.items))
	for i := range r.items {
		it := &r.items[i]
		items[i] = &leasepb.StorageItem{
			Id: it.id, SourceId: validUTF8(it.source), IsLeased: it.leased,
			LeaseDeadline: timestamppb.New(it.leaseDeadline), ExpireDeadline: timestamppb.New(it.expireDeadline),
			CreatedAt: timestamppb.New(it.added), Attempts: it.attempts, MaxAttempts: it.maxAttempts,
			Reference: validUTF8(it.reference), Encoding: validUTF8(it.encoding), Kind: validUTF8(it.kind), Payload: it.payload,
		}
	}
	if r.imported {
		return &leasepb.StorageImportResponse{Items: items}
	}
	return &leasepb.StorageListResponse{Items: items}
}

// reserveMessage numbers the items as R1 and R2 did; they differ in names only.
func (r *storageReply) reserveMessage() proto.Message {
	items := make([]*reservepb.StorageItem, len(r.items))
	for i := range r.items {
		it := &r.items[i]
		items[i] = &reservepb.StorageItem{
			Id: it.id, IsReserved: it.leased,
			ReserveDeadline: timestamppb.New(it.leaseDeadline), ExpireDeadline: timestamppb.New(it.expireDeadline),
			CreatedAt: timestamppb.New(it.added), Attempts: it.attempts, MaxAttempts: it.maxAttempts,
			Reference: validUTF8(it.reference), Encoding: validUTF8(it.encoding), Kind: validUTF8(it.kind), Payload: it.payload,
		}
	}
	if r.imported {
		return &reservepb.StorageImportResponse{Items: items}
	}
	return &reservepb.StorageListResponse{Items: items}
}
