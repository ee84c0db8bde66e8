package queen

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// messageView is all that is known of one message.
type messageView struct {
	message   core.Message
	partition core.Partition
	part      *partLens
	standing
	// dead is its dead letter, nil when it is none.
	dead *core.DeadLetter
}

// messageDetail answers GET /api/v1/messages/:partitionId/:transactionId: the newest message with that id that still exists.
func (s *server) messageDetail(c *gin.Context) error {
	at, err := addressIn(c)
	if err != nil {
		return err
	}
	missing := reply{http.StatusNotFound, "Message not found"}
	var m *messageView
	if id, invalid := uuid.Parse(at.partitionID); invalid == nil {
		if m, err = s.lookUp(c.Request.Context(), id, at.transactionID); err != nil && !isGone(err) {
			return err
		}
	}
	if m == nil {
		writeError(c.Writer, missing)
		return nil
	}
	answer(c.Writer, http.StatusOK, m.append)
	return nil
}

// lookUp finds a message by its address, nil when there is none.
func (s *server) lookUp(ctx context.Context, partition uuid.UUID, transaction string) (*messageView, error) {
	part, queue, ok := s.engine.PartitionByID(partition)
	if !ok {
		return nil, nil
	}
	q, err := s.engine.Queue(ctx, queue)
	if err != nil {
		return nil, err
	}
	l, err := s.lensOf(ctx, &q)
	if err != nil {
		return nil, err
	}
	out := &messageView{partition: part}
	if out.part, err = s.onPartition(ctx, l, part.Ordinal); err != nil {
		return nil, err
	}
	var found bool
	if out.message, found, err = s.engine.MessageOf(ctx, partition, transaction); err != nil {
		return nil, err
	}
	if !found {
		if out.message, found, err = s.scanFor(ctx, &q, &part, transaction); err != nil {
			return nil, err
		}
	}
	dead, _, err := s.engine.DeadLetters(ctx, core.DeadLetterFilter{Queue: q.ID, Partition: part.Key, TransactionID: transaction, Limit: 1})
	switch {
	case err != nil:
		return nil, err
	case !found && len(dead) == 0:
		return nil, nil
	case !found:
		out.message = dead[0].Message
		out.standing = standing{status: textDead, queueStatus: textDead}
	default:
		out.standing = out.part.of(out.message.ID, out.message.Offset)
	}
	if len(dead) > 0 && dead[0].Message.ID == out.message.ID {
		out.dead = &dead[0]
	}
	return out, nil
}

// scanFor looks for a transaction id that has left the window in what a partition still holds.
func (s *server) scanFor(ctx context.Context, q *core.Queue, part *core.Partition, transaction string) (core.Message, bool, error) {
	before := int64(0)
	for range scanned / logPage {
		entries, err := s.engine.LogHeaders(ctx, core.LogParams{Queue: q.Name, Ordinal: part.Ordinal, Before: before, Limit: logPage})
		if err != nil {
			return core.Message{}, false, err
		}
		for i := range entries {
			if entries[i].Transaction() != transaction {
				continue
			}
			msgs, err := s.engine.MessagesAt(ctx, q.Name, part.Ordinal, []int64{entries[i].Offset})
			if err != nil || len(msgs) == 0 {
				return core.Message{}, false, err
			}
			return msgs[0], true, nil
		}
		if len(entries) < logPage {
			break
		}
		before = entries[len(entries)-1].Offset
	}
	return core.Message{}, false, nil
}

func (m *messageView) append(b []byte) []byte {
	q, msg := m.part.queue, &m.message
	b = appendIDField(append(b, '{'), "id", msg.ID)
	b = appendStringField(b, "transactionId", msg.Transaction())
	b = appendData(appendKey(b, "data"), msg.ContentType, msg.Payload)
	b = appendData(appendKey(b, "payload"), msg.ContentType, msg.Payload)
	b = appendOptional(b, "traceId", msg.TraceID)
	b = appendOptional(b, "producerSub", msg.Subject)
	b = appendTimeField(b, "createdAt", msg.AppendedAt)
	b = appendIDField(b, "partitionId", m.partition.ID)
	b = appendStringField(b, "partition", m.partition.Name)
	b = appendBoolField(b, "isEncrypted", q.Options.Queen.EncryptionEnabled)
	b = appendStringField(b, "queue", q.Name)
	b = appendStringField(b, "queuePath", q.Name+"/"+m.partition.Name)
	b = appendStringField(b, "namespace", q.Options.Namespace)
	b = appendStringField(b, "task", q.Options.Task)
	b = appendStringField(b, "status", m.status)
	b = m.appendFailure(b)
	b = appendTimeField(b, "leaseExpiresAt", m.leasedUntil)
	b = m.appendGroups(append(appendKey(b, "consumerGroups"), '['))
	mode := m.part.mode()
	b = appendBoolField(append(appendKey(append(b, ']'), "mode"), '{'), "hasQueueMode", m.part.hasQueueMode)
	b = appendIntField(b, "busGroupsCount", int64(len(m.part.groups)))
	b = appendIntField(b, "consumedByGroups", int64(m.consumedBy))
	kind, _ := mode["type"].(string)
	b = append(appendStringField(b, "type", kind), '}')
	o := &q.Options.Queen
	b = appendIntField(append(appendKey(b, "queueConfig"), '{'), "leaseTime", o.LeaseTimeSeconds)
	b = appendIntField(b, "retryLimit", o.RetryLimit)
	b = appendIntField(b, "retryDelay", o.RetryDelayMillis)
	b = appendIntField(b, "ttl", o.TTLSeconds)
	b = appendIntField(b, "priority", o.Priority)
	return append(b, "}}"...)
}

// appendFailure appends what went wrong with the message so far: its dead letter's error, else the failures of whom it waits for.
func (m *messageView) appendFailure(b []byte) []byte {
	text, retries := "", int32(0)
	if m.dead != nil {
		text, retries = m.dead.Error, m.dead.Retries
	} else if m.status != textCompleted {
		for i := range m.part.views {
			retries = max(retries, m.part.views[i].Retries())
		}
	}
	b = appendOptional(b, "errorMessage", text)
	return appendIntField(b, "retryCount", int64(retries))
}

// appendGroups appends the groups that have touched the partition or are registered on the queue.
func (m *messageView) appendGroups(b []byte) []byte {
	first := true
	for i := range m.part.views {
		v := &m.part.views[i]
		if v.Group == core.QueueModeGroup && !v.Touched {
			continue
		}
		st, until := m.part.place(i, m.message.Offset)
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendStringField(append(b, '{'), "name", v.Group)
		b = appendStringField(b, "group", v.Group)
		b = appendBoolField(b, "consumed", st == core.StandingSettled)
		b = append(appendTimeField(b, "leaseExpiresAt", until), '}')
	}
	return b
}
