package bench

import (
	"bytes"
	"fmt"
)

// cfqueues speaks the protocol of Cloudflare Queues.
type cfqueues struct{}

// path is below the account, where every route is. A queue's name is accepted
// in the place of its id by Leasehold, so no id has to be looked up.
func (cfqueues) path(s *spec, rest string) string {
	return "/accounts/" + s.account + "/queues/" + s.queue + rest
}

func (d cfqueues) create(c *conn, s *spec) error {
	var b builder
	b.body = fmt.Appendf(nil, `{"queue_name":%q}`, s.queue)
	if err := call(c, b.post(s, "/accounts/"+s.account+"/queues"), 200); err != nil {
		return err
	}
	b.body = []byte(`{"type":"http_pull","settings":{"batch_size":100,"max_retries":100,"visibility_timeout_ms":600000}}`)
	return call(c, b.post(s, d.path(s, "/consumers")), 200)
}

func (d cfqueues) drop(c *conn, s *spec) error {
	return call(c, bare(s, "DELETE", d.path(s, "")), 200)
}

func (d cfqueues) push(s *spec, _ int) *template {
	var b builder
	message := fmt.Appendf(nil, `{"body":%q,"content_type":"text"`, text(s.payload))
	if s.delay > 0 {
		message = fmt.Appendf(message, `,"delay_seconds":%d`, s.delay)
	}
	message = append(message, '}')
	if s.batch == 1 {
		b.body = message
		return &template{request: bytes.Clone(b.post(s, d.path(s, "/messages")))}
	}
	b.body = append(b.body, `{"messages":[`...)
	for i := range s.batch {
		if i > 0 {
			b.body = append(b.body, ',')
		}
		b.body = append(b.body, message...)
	}
	b.body = append(b.body, `]}`...)
	return &template{request: bytes.Clone(b.post(s, d.path(s, "/messages/batch")))}
}

func (d cfqueues) claim(s *spec, _ int) []byte {
	var b builder
	b.body = fmt.Appendf(nil, `{"batch_size":%d,"visibility_timeout_ms":600000}`, s.batch)
	return bytes.Clone(b.post(s, d.path(s, "/messages/pull")))
}

func (cfqueues) settle(b *builder, s *spec, status int, answer []byte) ([]byte, int, error) {
	if status != 200 {
		return nil, 0, refusal(status, answer)
	}
	b.body = append(b.body[:0], `{"acks":[`...)
	if s.fails {
		b.body = append(b.body[:0], `{"retries":[`...)
	}
	n := 0
	for rest := answer; ; n++ {
		lease, after, ok := stringMember(rest, `"lease_id"`)
		if !ok {
			break
		}
		if n > 0 {
			b.body = append(b.body, ',')
		}
		b.body = append(b.body, `{"lease_id":"`...)
		b.body = append(b.body, lease...)
		b.body = append(b.body, `"}`...)
		rest = after
	}
	if n == 0 {
		return nil, 0, nil
	}
	b.body = append(b.body, `]}`...)
	return b.post(s, "/accounts/", s.account, "/queues/", s.queue, "/messages/ack"), n, nil
}

func (cfqueues) check(op operation, status int, answer []byte, n int) error {
	if status != 200 {
		return refusal(status, answer)
	}
	switch op {
	case opClaim:
		if got := bytes.Count(answer, []byte(`"lease_id"`)); got != n {
			return fmt.Errorf("%d of %d messages pulled", got, n)
		}
	case opSettle:
		if got := numberMember(answer, `"ackCount"`) + numberMember(answer, `"retryCount"`); got != n {
			return fmt.Errorf("%d of %d messages settled", got, n)
		}
	case opPush: // its answer only has the queue's figures
	}
	return nil
}
