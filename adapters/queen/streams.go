package queen

import (
	"encoding/json"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// registerStream answers POST /streams/v1/queries: a query is registered once, by its name (protocol §3.11).
func (s *server) registerStream(c *gin.Context) error {
	var q *queryBody
	if err := s.copied(c.Request, func(b []byte) (err error) { q, err = decodeQuery(b); return err }); err != nil {
		return err
	}
	if err := q.check(); err != nil {
		return err
	}
	done, err := s.engine.RegisterStream(c.Request.Context(), core.StreamQuery{Name: q.name, Source: q.source, Sink: q.sink, Hash: q.hash}, q.reset)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if done.Mismatch {
		status = http.StatusConflict
	}
	answer(c.Writer, status, func(b []byte) []byte {
		b = appendBoolField(append(b, '{'), "success", !done.Mismatch)
		b = appendIDField(b, "query_id", done.ID)
		b = appendStringField(b, "name", done.Name)
		if done.Mismatch {
			return append(appendStringField(b, "error",
				"config_hash mismatch: the query is registered with another configuration; reset it or use another name"), '}')
		}
		b = appendStringField(b, "config_hash", done.Hash)
		b = appendBoolField(b, "fresh", done.Fresh)
		return append(appendBoolField(b, "reset", done.Wiped), '}')
	})
	return nil
}

// streamIDs reads the two ids of a state read or a cycle.
func streamIDs(query, partition string) (q, p uuid.UUID, err error) {
	if q, err = idField("query_id", query); err != nil {
		return q, p, err
	}
	p, err = idField("partition_id", partition)
	return q, p, err
}

// streamState answers POST /streams/v1/state/get.
func (s *server) streamState(c *gin.Context) error {
	var st *stateBody
	if err := s.copied(c.Request, func(b []byte) (err error) { st, err = decodeState(b); return err }); err != nil {
		return err
	}
	query, partition, err := streamIDs(st.query, st.partition)
	if err != nil {
		return err
	}
	rows, err := s.engine.StreamState(c.Request.Context(), query, partition, st.keys, st.prefix)
	if err != nil {
		return err
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte {
		b = append(appendKey(appendBoolField(append(b, '{'), "success", true), "rows"), '[')
		for i := range rows {
			if st.hasRipe && !ripe(rows[i].Value, st.ripe) {
				continue
			}
			if b[len(b)-1] != '[' {
				b = append(b, ',')
			}
			b = appendStringField(append(b, '{'), "key", rows[i].Key)
			b = append(appendKey(b, "value"), rows[i].Value...)
			b = append(appendTimeField(b, "updated_at", rows[i].UpdatedAt), '}')
		}
		return append(b, "]}"...)
	})
	return nil
}

// ripe reports whether a value is that of a window that has ended: its windowEnd is a number not above the limit.
func ripe(value []byte, limit float64) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(value, &fields) != nil {
		return false
	}
	var end *float64
	return json.Unmarshal(fields["windowEnd"], &end) == nil && end != nil && *end <= limit
}

// cycle answers POST /streams/v1/cycle: state, pushes and an acknowledgement in one step, all or nothing. One that is rolled back is 200 with
// success false, since SDKs send again what is 5xx.
func (s *server) cycle(c *gin.Context) error {
	var body *cycleBody
	release, err := s.body(c.Request, func(b []byte) (err error) { body, err = decodeCycle(b); return err })
	if err != nil {
		return err
	}
	query, partition, err := streamIDs(body.query, body.partition)
	if err != nil {
		release()
		return err
	}
	ctx := c.Request.Context()
	if _, ok, err := s.engine.Stream(ctx, query); err != nil || !ok {
		release()
		if err == nil {
			body.refuse(c.Writer, "query not found")
		}
		return err
	}
	call, err := body.core(query, partition, subject(c))
	if err != nil {
		release()
		return err
	}
	done, err := s.engine.Cycle(ctx, call)
	if settled(ctx, err) {
		release()
	}
	if err != nil {
		if text, ok := cycleRefusal(err); ok {
			body.refuse(c.Writer, text)
			return nil
		}
		return err
	}
	_, queue, _ := s.engine.PartitionByID(partition)
	answer(c.Writer, http.StatusOK, func(b []byte) []byte { return body.appendDone(b, queue, &done) })
	return nil
}

// core turns the body into the engine's call. A message that names its id is addressed by it too, where it has no transaction id: so a cycle
// that is sent again finds it there.
func (c *cycleBody) core(query, partition uuid.UUID, subject string) (core.CycleParams, error) {
	p := core.CycleParams{Partition: partition, Group: groupOf(c.group), Pushes: pushItems(c.pushes, subject)}
	for i := range c.pushes {
		it := &c.pushes[i]
		if it.messageID == "" {
			continue
		}
		id, err := uuid.Parse(it.messageID)
		if err != nil || id == uuid.Nil || len(it.messageID) != 36 {
			return p, bodyErrorf("push_items[%d]: messageId must be a UUID", i)
		}
		p.Pushes[i].ID = id
		if it.transactionID == "" {
			it.transactionID = id.String()
			p.Pushes[i].TransactionID = it.transactionID
		}
	}
	for _, op := range c.ops {
		p.Records = append(p.Records, core.StateRecord(query, partition, op.key, op.value))
	}
	if a := c.ack; a != nil {
		p.Ack = &core.CycleAck{
			Lease: parseLease(a.leaseID), TransactionID: a.transactionID, Count: int(min(a.count, maxBatch)),
			Failed: a.status != statusCompleted, Keep: !c.release,
		}
	}
	return p, nil
}

// cycleRefusal is the text of a cycle that was rolled back, false when err is a failure of the server instead.
func cycleRefusal(err error) (string, bool) {
	switch code := core.CodeOf(err); code {
	case core.CodeNoPartition:
		return "partition not found", true
	case core.CodeTooLarge, core.CodeInvalid, core.CodeUnknown:
		return replyTo(err).text, true
	default:
		text, ok := itemTexts[code]
		return text, ok
	}
}

// refuse sends the envelope of a cycle that changed nothing.
func (c *cycleBody) refuse(w http.ResponseWriter, text string) {
	answer(w, http.StatusOK, func(b []byte) []byte {
		b = appendBoolField(append(b, '{'), "success", false)
		b = appendStringField(b, "query_id", c.query)
		b = appendStringField(b, "partition_id", c.partition)
		return append(appendStringField(b, "error", text), '}')
	})
}

func (c *cycleBody) appendDone(b []byte, queue string, done *core.Cycled) []byte {
	b = appendBoolField(append(b, '{'), "success", true)
	b = appendStringField(b, "query_id", c.query)
	b = appendStringField(b, "partition_id", c.partition)
	b = appendStringField(b, "queueName", queue)
	b = appendIntField(b, "state_ops_applied", int64(len(c.ops)))
	b = appendPushed(appendKey(b, "push_results"), c.pushes, done.Pushes)
	b = appendKey(b, "ack_result")
	if c.ack == nil {
		return append(b, "null}"...)
	}
	b = append(b, `{"success":true`...)
	b = appendIntField(b, "count", int64(done.Settled))
	b = appendBoolField(b, "lease_released", done.Released)
	return append(appendBoolField(b, "dlq", false), "}}"...)
}
