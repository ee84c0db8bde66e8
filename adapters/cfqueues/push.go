package cfqueues

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/core"
)

// contentTypes maps the wire's content types to the core's.
var contentTypes = map[string]core.ContentType{
	contentJSON: core.ContentJSON, contentText: core.ContentText, contentBytes: core.ContentBytes,
}

// pushMessage answers POST /queues/{queue}/messages.
func (s *server) pushMessage(c *gin.Context) *apiError {
	b, bad := s.body(c, codeMessageSize)
	if bad != nil {
		return bad
	}
	defer release(c, b)
	return s.decided(c, func(q *core.Queue) (*apiError, error) {
		m, bad := decodePush(b.Bytes, &s.o)
		if bad != nil {
			return bad, nil
		}
		return s.push(c, q, []pushMessage{m}, nil)
	})
}

// pushBatch answers POST /queues/{queue}/messages/batch: all of it is stored, or none.
func (s *server) pushBatch(c *gin.Context) *apiError {
	b, bad := s.body(c, codeBatchSize)
	if bad != nil {
		return bad
	}
	defer release(c, b)
	return s.decided(c, func(q *core.Queue) (*apiError, error) {
		batch, bad := decodeBatch(b.Bytes, &s.o)
		if bad != nil {
			return bad, nil
		}
		return s.push(c, q, batch.messages, batch.delay)
	})
}

// push stores messages and answers once they are durable. The error is the engine's, for the whole push.
func (s *server) push(c *gin.Context, q *core.Queue, messages []pushMessage, batchDelay *time.Duration) (*apiError, error) {
	var queueDelay time.Duration
	p := core.PushParams{Protocol: core.ProtocolCloudflare, Atomic: true, Known: q.As()}
	if cf := q.Options.Cloudflare; cf != nil {
		queueDelay = time.Duration(cf.DeliveryDelaySeconds) * time.Second
		p.Spread = cf.Spread
	}
	p.Items = make([]core.PushItem, len(messages))
	now := s.engine.Now()
	for i := range messages {
		item := &p.Items[i]
		item.Queue = q.Name
		item.Payload = messages[i].payload
		item.ContentType = contentTypes[messages[i].contentType]
		// What a Querator client reads as the item's encoding.
		item.Encoding = messages[i].contentType
		if d := firstDelay(messages[i].delay, batchDelay, queueDelay); d > 0 {
			item.Due = now.Add(d)
			item.DelaySeconds = narrow(int64(d / time.Second))
		}
	}
	if bad := s.admitPush(c.Request.Context(), q, messages); bad != nil {
		return bad, nil
	}
	pushed, err := s.engine.Push(c.Request.Context(), p)
	if err != nil {
		return nil, err
	}
	for i := range pushed {
		if pushed[i].Err != nil {
			return fromMessages(pushed[i].Err), nil
		}
	}
	out := append([]byte(nil), `{"metadata":{"metrics":`...)
	out = appendMetrics(out, s.metricsOf(c.Request.Context(), q))
	writeRaw(c, append(out, `}}`...))
	return nil, nil
}

// firstDelay is the delay that holds: the message's own, else the batch's, else the
// queue's. An explicit 0 is a delay of none and holds too.
func firstDelay(message, batch *time.Duration, queue time.Duration) time.Duration {
	switch {
	case message != nil:
		return *message
	case batch != nil:
		return *batch
	default:
		return queue
	}
}

// metricsOf counts a queue's backlog for an answer that carries it as a courtesy. Where
// it cannot be had the zero value is sent: a push that is stored must not look failed.
func (s *server) metricsOf(ctx context.Context, q *core.Queue) metrics {
	m, err := s.counter.about(ctx, countedOf(q))
	if err != nil {
		return metrics{}
	}
	s.noteBacklog(q.Name, &m)
	return m
}

// showMetrics is a queue's backlog in this protocol's words. What is leased or
// delayed counts.
func showMetrics(stats *core.QueueStats) metrics {
	m := metrics{BacklogCount: max(stats.Total.Pending.Messages, 0), BacklogBytes: max(stats.Total.Pending.Bytes, 0)}
	if m.BacklogCount > 0 {
		m.OldestMessageTimestampMS = stats.Total.OldestAt.Milli()
	}
	return m
}

// getMetrics answers GET /queues/{queue}/metrics.
func (s *server) getMetrics(c *gin.Context) *apiError {
	q, err := s.queue(c)
	if err != nil {
		return fromCore(err)
	}
	m, err := s.counter.metrics(c.Request.Context(), countedOf(&q))
	if err != nil {
		return fromCore(err)
	}
	writeResult(c, m)
	return nil
}
