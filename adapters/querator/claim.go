package querator

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	basepb "github.com/leasehold/leasehold/adapters/querator/pb/base"
	leasepb "github.com/leasehold/leasehold/adapters/querator/pb/lease"
	"github.com/leasehold/leasehold/core"
)

// claim is queue.lease and queue.reserve: at least one item of one partition, or 454 when the
// request timeout is over and there was none.
func claim(c *call) (reply, error) {
	m, err := c.decodeClaim()
	if err != nil {
		return nil, err
	}
	q, err := c.lookup(m.QueueName)
	if err != nil {
		return nil, err
	}
	wait, err := c.checkClaim(m)
	if err != nil {
		return nil, err
	}
	// Another protocol may have put something there.
	if err := c.settleDeadQueue(&q); err != nil {
		return nil, err
	}
	got, err := c.engine.Claim(c.ctx, core.ClaimParams{
		Protocol: core.ProtocolQuerator, Queue: m.QueueName, Messages: int(m.BatchSize),
		Partitions: 1, Wait: wait, Client: m.ClientId,
	})
	if err == nil && (len(got.Partitions) == 0 || len(got.Partitions[0].Messages) == 0) {
		err = core.Errorf(core.CodeNothing, "claim", "nothing was claimed")
	}
	if err != nil {
		return nil, c.failed(operation{queue: m.QueueName}, err)
	}
	return &claimReply{ids: c.ids, dialect: c.dialect, queue: m.QueueName, got: &got.Partitions[0]}, nil
}

// decodeClaim reads the body.
func (c *call) decodeClaim() (*basepb.ClaimRequest, error) {
	if c.in == encodeJSON {
		if m, ok := fastClaim(c.body); ok {
			return m, nil
		}
	}
	m := &basepb.ClaimRequest{}
	return m, c.decode(m)
}

// checkClaim makes the checks that follow the queue's, and returns how long to wait. The timeout
// is read before the client id is looked at, and judged after the batch size.
func (c *call) checkClaim(m *basepb.ClaimRequest) (time.Duration, error) {
	wait, err := parseTimeout(m.RequestTimeout)
	switch {
	case err != nil:
		return 0, err
	case strings.TrimSpace(m.ClientId) == "":
		return 0, errNoClient
	case m.BatchSize <= 0:
		return 0, errNoBatchSize
	case int(m.BatchSize) > c.o.MaxLeaseBatch:
		return 0, batchSizeTooLarge(c.dialect, strconv.Itoa(c.o.MaxLeaseBatch), strconv.Itoa(int(m.BatchSize)))
	case wait == 0:
		return 0, errTimeoutRequired
	case wait > maxTimeout:
		return 0, timeoutTooLong(wait, c.dialect.over)
	case wait <= minTimeout:
		return 0, timeoutTooShort(wait)
	}
	return wait, nil
}

// claimReply is what was claimed. The partition and the items are always there in JSON, also when
// zero: the OpenAPI files call them required.
type claimReply struct {
	ids     *idCodec
	dialect *dialect
	queue   string
	got     *core.ClaimedPartition
	// until and untilText are the deadline that was written last: the items of a claim share it.
	until     core.Time
	untilText []byte
}

// id appends the item id of a delivery.
func (r *claimReply) id(dst []byte, d *core.Delivery) []byte {
	return r.ids.append(dst, r.got.Partition.ID, placeOf(d))
}

// placeOf returns where a delivery stood. One that never came back has its own turn.
func placeOf(d *core.Delivery) itemPlace {
	if d.Turn == 0 {
		return itemPlace{second: d.AppendedAt.Second(), turn: uint64(core.OwnTurn(d.Offset)), offset: d.Offset}
	}
	return itemPlace{second: d.TurnAt.Second(), turn: uint64(d.Turn), offset: d.Offset}
}

func (r *claimReply) appendJSON(dst []byte) []byte {
	dst = appendString(append(dst, `{"queue_name":`...), r.queue)
	dst = strconv.AppendInt(append(dst, `,"partition":`...), int64(r.got.Partition.Ordinal), 10)
	dst = append(dst, `,"items":[`...)
	for i := range r.got.Messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.appendItem(dst, &r.got.Messages[i])
	}
	return append(dst, "]}"...)
}

func (r *claimReply) appendItem(dst []byte, d *core.Delivery) []byte {
	o := openObject(dst)
	o.str("encoding", encodingLabel(&d.Labels))
	o.str("kind", d.Kind)
	o.str("reference", d.Reference)
	o.key("id")
	o.dst = append(r.id(append(o.dst, '"'), d), '"')
	// The first build of 2024 did not count attempts on a lease; every later one does, from 1.
	o.num("attempts", int64(d.Attempt))
	if d.Until != r.until || r.untilText == nil {
		r.until, r.untilText = d.Until, appendTime(r.untilText[:0], d.Until.Std())
	}
	o.key(r.dialect.deadlineKey)
	o.dst = append(o.dst, r.untilText...)
	o.bytes("bytes", d.Payload)
	return o.close()
}

func (r *claimReply) message() proto.Message {
	m := &leasepb.ClaimResponse{
		QueueName: r.queue, Partition: r.got.Partition.Ordinal,
		Items: make([]*leasepb.ClaimItem, len(r.got.Messages)),
	}
	for i := range r.got.Messages {
		d := &r.got.Messages[i]
		m.Items[i] = &leasepb.ClaimItem{
			Encoding: validUTF8(encodingLabel(&d.Labels)), Kind: validUTF8(d.Kind), Reference: validUTF8(d.Reference),
			Id: string(r.id(nil, d)), Attempts: d.Attempt,
			LeaseDeadline: timestamppb.New(d.Until.Std()), Bytes: d.Payload,
		}
	}
	return m
}

// encodingLabel is the producer's encoding. JSON without one came through another protocol, since
// a Querator payload counts as JSON only where its encoding says so.
func encodingLabel(l *core.Labels) string {
	if l.Encoding == "" && l.ContentType == core.ContentJSON {
		return core.ContentJSON.String()
	}
	return l.Encoding
}

// validUTF8 makes a label that came through another protocol fit for a protobuf string.
func validUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
