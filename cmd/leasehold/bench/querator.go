package bench

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
)

// querator speaks Querator's protocol, lease family, in JSON.
type querator struct{}

// queratorProto sends the bodies of the busy routes as protobuf, as Querator's
// own client does, and has the answers in JSON, as that client gets them.
type queratorProto struct{ querator }

func (querator) create(c *conn, s *spec) error {
	var b builder
	b.body = fmt.Appendf(nil, `{"queue_name":%q,"lease_timeout":"10m","expire_timeout":"24h","requested_partitions":%d}`, s.queue, s.partitions)
	return call(c, b.post(s, "/v1/queues.create"), 200)
}

func (querator) drop(c *conn, s *spec) error {
	var b builder
	b.body = fmt.Appendf(nil, `{"queue_name":%q,"force":true}`, s.queue)
	return call(c, b.post(s, "/v1/queues.delete"), 200)
}

func (querator) push(s *spec, _ int) *template {
	var b builder
	payload := base64.StdEncoding.EncodeToString(text(s.payload))
	b.body = fmt.Appendf(nil, `{"queue_name":%q,"request_timeout":"1m","items":[`, s.queue)
	for i := range s.batch {
		if i > 0 {
			b.body = append(b.body, ',')
		}
		b.body = fmt.Appendf(b.body, `{"encoding":"text","kind":"bench","bytes":%q}`, payload)
	}
	b.body = append(b.body, `]}`...)
	return &template{request: bytes.Clone(b.post(s, "/v1/queue.produce"))}
}

func (querator) claim(s *spec, client int) []byte {
	var b builder
	b.body = fmt.Appendf(nil, `{"queue_name":%q,"batch_size":%d,"client_id":"%s-%d","request_timeout":"1s"}`, s.queue, s.batch, s.run, client)
	return bytes.Clone(b.post(s, "/v1/queue.lease"))
}

func (querator) settle(b *builder, s *spec, status int, answer []byte) ([]byte, int, error) {
	if status == 454 { // nothing came before the timeout
		return nil, 0, nil
	}
	if status != 200 {
		return nil, 0, refusal(status, answer)
	}
	b.body = append(b.body[:0], `{"queue_name":"`...)
	b.body = append(b.body, s.queue...)
	b.body = append(b.body, `","partition":`...)
	b.body = strconv.AppendInt(b.body, int64(numberMember(answer, `"partition"`)), 10)
	list, before, after, path := `,"request_timeout":"1m","ids":[`, `"`, `"`, "/v1/queue.complete"
	if s.fails {
		list, before, after, path = `,"items":[`, `{"id":"`, `"}`, "/v1/queue.retry"
	}
	b.body = append(b.body, list...)
	n := 0
	for rest := answer; ; n++ {
		id, more, ok := stringMember(rest, `"id"`)
		if !ok {
			break
		}
		if n > 0 {
			b.body = append(b.body, ',')
		}
		b.body = append(b.body, before...)
		b.body = append(b.body, id...)
		b.body = append(b.body, after...)
		rest = more
	}
	if n == 0 {
		return nil, 0, nil
	}
	b.body = append(b.body, `]}`...)
	return b.post(s, path), n, nil
}

func (querator) check(op operation, status int, answer []byte, n int) error {
	if status != 200 {
		return refusal(status, answer)
	}
	if got := bytes.Count(answer, []byte(`"id"`)); op == opClaim && got != n {
		return fmt.Errorf("%d of %d messages leased", got, n)
	}
	return nil
}

// Field numbers of the lease family (Querator v0.0.11).
const (
	fieldQueue = 1

	fieldProduceTimeout, fieldProduceItems    = 2, 3
	fieldItemEncoding, fieldItemKind          = 1, 2
	fieldItemBytes                            = 5
	fieldLeaseBatch, fieldLeaseClient         = 2, 3
	fieldLeaseTimeout                         = 4
	fieldCompletePartition, fieldCompleteTime = 2, 3
	fieldCompleteIDs                          = 4
)

// appendField appends a field of bytes.
func appendField[T []byte | string](to []byte, field uint64, v T) []byte {
	to = binary.AppendUvarint(to, field<<3|2)
	to = binary.AppendUvarint(to, uint64(len(v)))
	return append(to, v...)
}

// appendNumber appends a field of a number, left out when it is 0.
func appendNumber(to []byte, field uint64, v int) []byte {
	if v == 0 {
		return to
	}
	return binary.AppendUvarint(binary.AppendUvarint(to, field<<3), uint64(v)) //nolint:gosec // never negative
}

func (queratorProto) push(s *spec, _ int) *template {
	var b builder
	item := appendField(nil, fieldItemEncoding, "text")
	item = appendField(item, fieldItemKind, "bench")
	item = appendField(item, fieldItemBytes, text(s.payload))
	b.body = appendField(appendField(nil, fieldQueue, s.queue), fieldProduceTimeout, "1m")
	for range s.batch {
		b.body = appendField(b.body, fieldProduceItems, item)
	}
	return &template{request: bytes.Clone(b.postProto(s, "/v1/queue.produce"))}
}

func (queratorProto) claim(s *spec, client int) []byte {
	var b builder
	b.body = appendNumber(appendField(nil, fieldQueue, s.queue), fieldLeaseBatch, s.batch)
	b.body = appendField(b.body, fieldLeaseClient, fmt.Sprintf("%s-%d", s.run, client))
	b.body = appendField(b.body, fieldLeaseTimeout, "1s")
	return bytes.Clone(b.postProto(s, "/v1/queue.lease"))
}

func (queratorProto) settle(b *builder, s *spec, status int, answer []byte) ([]byte, int, error) {
	if status == 454 {
		return nil, 0, nil
	}
	if status != 200 {
		return nil, 0, refusal(status, answer)
	}
	b.body = appendField(b.body[:0], fieldQueue, s.queue)
	b.body = appendNumber(b.body, fieldCompletePartition, numberMember(answer, `"partition"`))
	b.body = appendField(b.body, fieldCompleteTime, "1m")
	n := 0
	for rest := answer; ; n++ {
		id, after, ok := stringMember(rest, `"id"`)
		if !ok {
			break
		}
		b.body = appendField(b.body, fieldCompleteIDs, id)
		rest = after
	}
	if n == 0 {
		return nil, 0, nil
	}
	return b.postProto(s, "/v1/queue.complete"), n, nil
}
