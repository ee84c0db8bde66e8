package cfqueues

import (
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/core"
)

// aliasNotice goes into the envelope's messages when a pull used the name of the
// vendor's prose, which the live service ignores.
const aliasNotice = `"visibility_timeout" was read as "visibility_timeout_ms" (milliseconds); use that name, other servers ignore the short one`

// shortestLease stands for a visibility timeout of 0. The engine takes a lease of 0 as
// "the queue's own".
const shortestLease = time.Millisecond

// pull answers POST /queues/{queue}/messages/pull: up to a batch of messages, each
// under a lease of its own, or none at once.
func (s *server) pull(c *gin.Context) *apiError {
	b, bad := s.body(c, codeBodyInvalid)
	if bad != nil {
		return bad
	}
	defer release(c, b)
	var pulled pulling
	if bad := s.decided(c, func(q *core.Queue) (*apiError, error) {
		pulled.queue = *q
		return s.claim(c, b.Bytes, &pulled)
	}); bad != nil {
		return bad
	}
	q, claimed := &pulled.queue, &pulled.claimed
	s.notePulled(q, claimed)
	var notices []string
	if pulled.usedAlias {
		notices = append(notices, aliasNotice)
	}
	buf := takeAnswer(pulledSize(claimed))
	out := s.appendPulled(*buf, q, claimed, s.metricsOf(c.Request.Context(), q))
	writeRaw(c, out, notices...)
	giveAnswer(buf, out)
	return nil
}

// pulling is a pull under way.
type pulling struct {
	queue core.Queue
	// until is when its wait ends, 0 before it has begun.
	until     core.Time
	claimed   core.Claimed
	usedAlias bool
}

// claim claims what a pull's body asks for, as the queue's consumer says; the error is the engine's.
func (s *server) claim(c *gin.Context, body []byte, p *pulling) (*apiError, error) {
	q := &p.queue
	if con := consumerOf(q); (con == nil || con.Type != typeHTTPPull) && !s.o.ImplicitHTTPPull {
		if err := s.engine.Refresh(c.Request.Context()); err != nil { // another gateway may have made the consumer a moment ago
			return nil, err
		}
		fresh, err := s.queue(c)
		if err != nil {
			return nil, err
		}
		*q = fresh
	}
	in, bad := decodePull(body, &s.o)
	if bad != nil {
		return bad, nil
	}
	batch, lease := int64(defaultBatchSize), defaultVisibility
	switch con := consumerOf(q); {
	case con != nil && con.Type == typeHTTPPull:
		batch, lease = int64(con.BatchSize), time.Duration(con.VisibilityMillis)*time.Millisecond
	case !s.o.ImplicitHTTPPull:
		return errPullDisabled(), nil
	}
	if in.visibility != nil {
		lease = *in.visibility
	}
	if bad := s.admitPull(q); bad != nil {
		return bad, nil
	}
	now, wait := s.engine.Now(), s.waitOf(c, &in)
	if p.until == 0 {
		p.until = now.Add(wait)
	}
	p.usedAlias = in.usedAlias
	var err error
	p.claimed, err = s.engine.Claim(c.Request.Context(), core.ClaimParams{
		Protocol: core.ProtocolCloudflare, Queue: q.Name, Group: core.QueueModeGroup,
		Messages: int(valueOr(in.batchSize, batch)), Bytes: s.o.Limits.MaxPullBytes,
		Lease: max(lease, shortestLease), Wait: max(p.until.Sub(now), 0), Known: q.As(),
	})
	if core.CodeOf(err) == core.CodeNothing {
		err = nil
	}
	return nil, err
}

// appendPulled appends the result of a pull to out.
func (s *server) appendPulled(out []byte, q *core.Queue, claimed *core.Claimed, m metrics) []byte {
	plain := s.plainJSON(q)
	out = append(out, `{"message_backlog_count":`...)
	out = strconv.AppendInt(out, m.BacklogCount, 10)
	out = append(out, `,"messages":[`...)
	first := true
	for i := range claimed.Partitions {
		p := &claimed.Partitions[i]
		for j := range p.Messages {
			if !first {
				out = append(out, ',')
			}
			first = false
			d := deliveryOf(q, &p.Partition, &p.Messages[j])
			out = appendDelivery(out, &d, s.tokens, plain)
		}
	}
	out = append(out, `],"metadata":{"metrics":`...)
	out = appendMetrics(out, m)
	return append(out, `}}`...)
}

// pulledSize estimates the length of the encoded result, so that it is allocated once.
func pulledSize(claimed *core.Claimed) int {
	n := 256
	for i := range claimed.Partitions {
		for j := range claimed.Partitions[i].Messages {
			n += 384 + len(claimed.Partitions[i].Messages[j].Payload)*4/3
		}
	}
	return n
}

// deliveryOf is a claimed message as the encoder wants it.
func deliveryOf(q *core.Queue, p *core.Partition, d *core.Delivery) delivery {
	return delivery{
		id: d.ID, createdMS: d.CreatedAt.Milli(), attempts: d.Attempt, payload: d.Payload,
		contentType: d.ContentType.String(), delaySeconds: d.DelaySeconds,
		lease: lease{
			queue: q.ID, partition: p.ID, message: d.ID, id: d.Lease, offset: d.Offset, attempt: d.Attempt,
		},
	}
}
