package querator

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	leasepb "github.com/leasehold/leasehold/adapters/querator/pb/lease"
)

// defaultLease is the lease time shown for a queue that no Querator client configured.
const defaultLease = time.Minute

// infoReply describes one queue.
type infoReply struct {
	dialect *dialect
	// auto is set on a listener of no fixed generation, which names a namespace only where there
	// is one: a client of an older generation refuses to decode the member.
	auto bool
	// named adds the name under the key of the 2024-09 document.
	named                      bool
	name, deadQueue, reference string
	created, updated           time.Time
	lease, expire              time.Duration
	maxAttempts, partitions    int32
	namespace                  string
}

func (r *infoReply) appendJSON(dst []byte) []byte {
	o := openObject(dst)
	if r.named {
		o.str("name", r.name)
	}
	o.str("queue_name", r.name)
	o.time("created_at", r.created)
	o.time("updated_at", r.updated)
	o.str("dead_queue", r.deadQueue)
	o.str("reference", r.reference)
	o.str(r.dialect.timeoutKey, durationText(r.lease))
	o.str(r.dialect.expireKey, durationText(r.expire))
	o.num("max_attempts", int64(r.maxAttempts))
	if r.dialect.gen == L2 {
		o.num("requested_partitions", int64(r.partitions))
		if !r.auto || r.namespace != systemNamespace {
			o.str("namespace", r.namespace)
		}
	}
	return o.close()
}

func (r *infoReply) message() proto.Message {
	m := &leasepb.QueueInfo{
		QueueName: validUTF8(r.name), CreatedAt: timestamppb.New(r.created), UpdatedAt: timestamppb.New(r.updated),
		DeadQueue: validUTF8(r.deadQueue), Reference: validUTF8(r.reference),
		LeaseTimeout: durationText(r.lease), ExpireTimeout: durationText(r.expire), MaxAttempts: r.maxAttempts,
	}
	// In protobuf nobody minds a field that a generation does not know, but the fixed older ones
	// are compared with their originals.
	if r.dialect.gen == L2 || r.auto {
		m.RequestedPartitions, m.Namespace = r.partitions, validUTF8(r.namespace)
	}
	return m
}

// durationText spells a duration as Go does, and none as nothing.
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// listReply answers queues.list.
type listReply struct{ items []infoReply }

func (r *listReply) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"items":[`...)
	for i := range r.items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.items[i].appendJSON(dst)
	}
	return append(dst, "]}"...)
}

func (r *listReply) message() proto.Message {
	m := &leasepb.ListResponse{}
	for i := range r.items {
		if info, ok := r.items[i].message().(*leasepb.QueueInfo); ok {
			m.Items = append(m.Items, info)
		}
	}
	return m
}

// clampInt32 turns a count into the protocol's int32; one beyond it stays at its bounds.
func clampInt32(n int64) int32 {
	return int32(max(min(n, 1<<31-1), -1<<31))
}
