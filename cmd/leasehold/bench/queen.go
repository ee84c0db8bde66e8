package bench

import (
	"bytes"
	"fmt"
	"strconv"
)

// queen speaks Queen's protocol. Queues and partitions come to be on first use.
type queen struct{}

func (queen) create(c *conn, s *spec) error {
	var b builder
	b.body = fmt.Appendf(nil, `{"queue":%q,"options":{"leaseTime":600,"retryLimit":1000000}}`, s.queue)
	return call(c, b.post(s, "/api/v1/configure"), 200, 201)
}

func (queen) drop(c *conn, s *spec) error {
	return call(c, bare(s, "DELETE", "/api/v1/resources/queues/"+s.queue), 200, 204)
}

func (queen) push(s *spec, client int) *template {
	// Clients begin far apart, so that they seldom meet in a partition.
	t := &template{partitions: uint64(s.partitions), partition: uint64(client * apart % s.partitions)} //nolint:gosec // not negative
	var b builder
	payload := text(max(0, s.payload-2))
	b.body = append(b.body, `{"items":[`...)
	for i := range s.batch {
		if i > 0 {
			b.body = append(b.body, ',')
		}
		b.body = fmt.Appendf(b.body, `{"queue":%q,"partition":"p`, s.queue)
		t.partitionAt = append(t.partitionAt, len(b.body))
		b.body = fmt.Appendf(b.body, `%0*d"`, partitionDigits, 0)
		if s.names {
			b.body = fmt.Appendf(b.body, `,"transactionId":"%s-%05d-`, s.run, client)
			t.nameAt = append(t.nameAt, len(b.body))
			b.body = fmt.Appendf(b.body, `%0*d"`, nameDigits, 0)
		}
		b.body = append(b.body, `,"payload":"`...)
		if s.marks {
			t.markAt = append(t.markAt, len(b.body))
		}
		b.body = append(append(b.body, payload...), `"}`...)
	}
	b.body = append(b.body, `]}`...)
	t.request = bytes.Clone(b.post(s, "/api/v1/push"))
	t.place(len(b.body))
	return t
}

// marks finds the numbers at the beginning of the payloads.
func (queen) marks(answer []byte, see func(mark uint64)) {
	for {
		payload, rest, ok := stringMember(answer, `"data"`)
		if !ok {
			return
		}
		if answer = rest; len(payload) < markDigits {
			continue
		}
		if mark, err := strconv.ParseUint(string(payload[:markDigits]), 10, 64); err == nil {
			see(mark)
		}
	}
}

func (queen) claim(s *spec, client int) []byte {
	path := fmt.Sprintf("/api/v1/pop/queue/%s?batch=%d&partitions=1&wait=true&timeout=1000", s.queue, s.batch)
	if s.takes {
		path += "&autoAck=true"
	}
	if s.groups > 1 {
		path += fmt.Sprintf("&consumerGroup=g%d&subscriptionMode=all", client%s.groups)
	}
	return bare(s, "GET", path)
}

func (queen) settle(b *builder, s *spec, status int, answer []byte) ([]byte, int, error) {
	if status == 204 {
		return nil, 0, nil
	}
	if status != 200 {
		return nil, 0, refusal(status, answer)
	}
	if s.takes {
		return nil, bytes.Count(answer, []byte(`"transactionId"`)), nil
	}
	partition, _, ok := stringMember(answer, `"partitionId"`)
	lease, _, ok2 := stringMember(answer, `"leaseId"`)
	group, _, ok3 := stringMember(answer, `"consumerGroup"`)
	if !ok || !ok2 || !ok3 {
		return nil, 0, fmt.Errorf("pop without ids: %.200s", answer)
	}
	if s.batch == 1 {
		name, _, ok := stringMember(answer, `"transactionId"`)
		if !ok {
			return nil, 0, fmt.Errorf("pop without ids: %.200s", answer)
		}
		b.body = append(b.body[:0], '{')
		b.body = ackMembers(b.body, s, name, partition, lease)
		b.body = append(b.body, `,"consumerGroup":"`...)
		b.body = append(b.body, group...)
		b.body = append(b.body, `"}`...)
		return b.post(s, "/api/v1/ack"), 1, nil
	}
	b.body = append(b.body[:0], `{"acknowledgments":[`...)
	n := 0
	for rest := answer; ; n++ {
		name, after, ok := stringMember(rest, `"transactionId"`)
		if !ok {
			break
		}
		if n > 0 {
			b.body = append(b.body, ',')
		}
		b.body = append(b.body, '{')
		b.body = append(ackMembers(b.body, s, name, partition, lease), '}')
		rest = after
	}
	b.body = append(b.body, `],"consumerGroup":"`...)
	b.body = append(b.body, group...)
	b.body = append(b.body, `"}`...)
	return b.post(s, "/api/v1/ack/batch"), n, nil
}

// ackMembers appends what an SDK sends for one message.
func ackMembers(to []byte, s *spec, name, partition, lease []byte) []byte {
	to = append(to, `"transactionId":"`...)
	to = append(to, name...)
	to = append(to, `","partitionId":"`...)
	to = append(to, partition...)
	to = append(to, `","status":"`...)
	if s.fails {
		to = append(to, `failed","leaseId":"`...)
	} else {
		to = append(to, `completed","leaseId":"`...)
	}
	to = append(to, lease...)
	return append(to, '"')
}

func (queen) check(op operation, status int, answer []byte, n int) error {
	want, word := 200, `"success":true`
	if op == opPush {
		want, word = 201, `"status":"queued"`
	}
	if status != want {
		return refusal(status, answer)
	}
	if got := bytes.Count(answer, []byte(word)); got != n {
		return fmt.Errorf("%d of %d messages have %s: %s", got, n, word, strconv.Quote(string(answer[:min(len(answer), 200)])))
	}
	return nil
}
