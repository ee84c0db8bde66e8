package bench

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
)

// querator speaks Querator's protocol, lease family, in JSON.
type querator struct{}

func (querator) create(c *conn, s *spec) error {
	var b builder
	b.body = fmt.Appendf(nil, `{"queue_name":%q,"lease_timeout":"10m","expire_timeout":"24h","requested_partitions":%d}`, s.queue, s.partitions)
	_, err := call(c, b.post(s, "/v1/queues.create"), 200)
	return err
}

func (querator) drop(c *conn, s *spec) error {
	var b builder
	b.body = fmt.Appendf(nil, `{"queue_name":%q,"force":true}`, s.queue)
	_, err := call(c, b.post(s, "/v1/queues.delete"), 200)
	return err
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
	b.body = append(b.body, `,"request_timeout":"1m","ids":[`...)
	n := 0
	for rest := answer; ; n++ {
		id, after, ok := stringMember(rest, `"id"`)
		if !ok {
			break
		}
		if n > 0 {
			b.body = append(b.body, ',')
		}
		b.body = append(b.body, '"')
		b.body = append(b.body, id...)
		b.body = append(b.body, '"')
		rest = after
	}
	if n == 0 {
		return nil, 0, nil
	}
	b.body = append(b.body, `]}`...)
	return b.post(s, "/v1/queue.complete"), n, nil
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
