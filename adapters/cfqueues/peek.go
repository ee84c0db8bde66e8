package cfqueues

import (
	"context"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// peekChunk is how many messages are read from the store at a time: they may be large,
// and the byte limit is only known to be reached once they are read.
const peekChunk = 10

// peek answers POST /queues/{queue}/messages/peek: what a pull could get now, without a
// lease and without counting an attempt. It needs no consumer and works on a paused
// queue, since nothing is delivered.
func (s *server) peek(c *gin.Context) *apiError { return s.look(c, true) }

// preview answers POST /queues/{queue}/messages/preview, the older form of peek: its
// references are called lease ids.
func (s *server) preview(c *gin.Context) *apiError { return s.look(c, false) }

// look shows messages under references.
func (s *server) look(c *gin.Context, ref bool) *apiError {
	b, q, bad := s.bodyAndQueue(c)
	if bad != nil {
		return bad
	}
	defer release(c, b)
	in, bad := decodePeek(b.Bytes, &s.o)
	if bad != nil {
		return bad
	}
	batch := int64(defaultBatchSize)
	if con := consumerOf(&q); con != nil {
		batch = int64(con.BatchSize)
	}
	items, err := s.waiting(c.Request.Context(), &q, int(valueOr(in.batchSize, batch)))
	if err != nil {
		return fromMessages(err)
	}
	plain := s.plainJSON(&q)
	out := append([]byte(nil), `{"messages":[`...)
	for i := range items {
		if i > 0 {
			out = append(out, ',')
		}
		m := &items[i]
		d := delivery{
			id: m.ID, createdMS: m.CreatedAt.Milli(), attempts: m.Attempts, payload: m.Payload,
			contentType: m.ContentType.String(), delaySeconds: m.DelaySeconds, ref: ref,
			lease: lease{queue: q.ID, partition: m.partition, message: m.ID, offset: m.Offset, attempt: m.Attempts},
		}
		out = appendDelivery(out, &d, s.tokens, plain)
	}
	writeRaw(c, append(out, `]}`...))
	return nil
}

// peeked is a message that waits, with the partition that it is in.
type peeked struct {
	core.Item
	partition uuid.UUID
}

// waiting lists up to n messages of a queue that a pull could get now.
func (s *server) waiting(ctx context.Context, q *core.Queue, n int) ([]peeked, error) {
	stats, err := s.engine.QueueStats(ctx, q.Name, core.QueueModeGroup)
	if err != nil {
		return nil, err
	}
	out := []peeked{}
	room := s.o.Limits.MaxPullBytes
	for i := range stats.Partitions {
		p := &stats.Partitions[i]
		if p.Unleased() <= 0 {
			continue
		}
		from := core.ItemRef{}
		for len(out) < n {
			items, err := s.engine.Items(ctx, core.ItemsParams{
				Queue: q.Name, Ordinal: p.Partition.Ordinal, From: from, Limit: peekChunk, Unleased: true,
			})
			if err != nil {
				return nil, err
			}
			now := s.engine.Now()
			for j := range items {
				from = core.ItemRef{Turn: items[j].Turn, Offset: items[j].Offset + 1}
				size := int64(len(items[j].Payload))
				if len(out) == n || len(out) > 0 && room < size {
					return out, nil
				}
				if items[j].Expired(now) {
					continue
				}
				room -= size
				out = append(out, peeked{items[j], p.Partition.ID})
			}
			if len(items) < peekChunk {
				break
			}
		}
	}
	return out, nil
}

// plainJSON says whether a queue's JSON payloads are shown as their text.
func (s *server) plainJSON(q *core.Queue) bool {
	if cf := q.Options.Cloudflare; cf != nil && cf.JSONBodies != "" {
		return cf.JSONBodies == encodingPlain
	}
	return s.o.PlainJSONBodies
}

// encodingPlain is the value of json_body_encoding that shows JSON as its text.
const encodingPlain = "plain"

// purgeMessages answers POST /queues/{queue}/messages/purge: messages go by the
// references of a peek, at once and whoever holds them. A message that is gone already
// is no fault.
func (s *server) purgeMessages(c *gin.Context) *apiError {
	b, q, bad := s.bodyAndQueue(c)
	if bad != nil {
		return bad
	}
	defer release(c, b)
	refs, bad := decodeRefs(b.Bytes)
	if bad != nil {
		return bad
	}
	result, bad := s.settle(c, &q, &ackRequest{acks: refs}, true)
	if bad != nil {
		return bad
	}
	for ref, text := range result.Warnings {
		if text == warnUnknown {
			result.Warnings[ref] = warnBadRef
		}
	}
	writeResult(c, refsObject{Errors: []struct{}{}, Warnings: result.Warnings})
	return nil
}

// warnBadRef is for a reference that no peek of this queue gave.
const warnBadRef = "reference is not valid for this queue"

// refsObject is the answer to a deletion by reference. What is wrong with a reference
// is a warning; errors is always empty, since nothing else can go wrong for a part.
type refsObject struct {
	Errors   []struct{}        `json:"errors"`
	Warnings map[string]string `json:"warnings"` // reference to text
}

// ackPreview answers POST /queues/{queue}/messages/preview/ack: acks deletes what a
// preview showed. Lease ids of a pull are taken too, and only those can be retried.
func (s *server) ackPreview(c *gin.Context) *apiError {
	b, q, bad := s.bodyAndQueue(c)
	if bad != nil {
		return bad
	}
	defer release(c, b)
	in, bad := decodeAck(b.Bytes, &s.o)
	if bad != nil {
		return bad
	}
	result, bad := s.settle(c, &q, &in, true)
	if bad != nil {
		return bad
	}
	writeResult(c, struct {
		Warnings map[string]string `json:"warnings"`
	}{result.Warnings})
	return nil
}
