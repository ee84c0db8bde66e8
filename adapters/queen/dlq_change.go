package queen

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// purgePage is how many dead letters one commit of a purge deletes.
const purgePage = 500

// replay answers POST /api/v1/dlq/:id/replay: it moves one dead letter back to its partition, atomically. The id is the row's, or the
// message's as older servers showed it (protocol §12, 6). The replayed message has a transaction id of its own, made of the row's.
func (s *server) replay(c *gin.Context) error {
	text, err := pathName(c, "id")
	if err != nil {
		return err
	}
	id, err := uuid.Parse(text)
	if err != nil {
		id = uuid.Nil
	}
	rename := func(d *core.DeadLetter) string { return "dlq:" + d.ID.String() }
	done, err := s.move(c.Request.Context(), id, rename)
	if err == nil && done == nil {
		if id, err = s.deadLetterOf(c.Request.Context(), id); err == nil && id != uuid.Nil {
			done, err = s.move(c.Request.Context(), id, rename)
		}
	}
	if err != nil {
		return err
	}
	if done == nil {
		answer(c.Writer, http.StatusNotFound, func(b []byte) []byte {
			b = append(b, `{"success":false,"result":"gone"`...)
			b = appendStringField(b, "dlqId", text)
			return append(appendStringField(b, "error", replies[core.CodeNoMessage].text), '}')
		})
		return nil
	}
	s.answerReplayed(c.Writer, done)
	return nil
}

// retry answers POST /api/v1/messages/:partitionId/:transactionId/retry: it moves the newest dead letter of a message back, atomically
// and under the transaction id that it had (protocol §3.8).
func (s *server) retry(c *gin.Context) error {
	at, err := addressIn(c)
	if err != nil {
		return err
	}
	letters, err := s.lettersOf(c.Request.Context(), at, 1)
	if err != nil {
		return err
	}
	for i := range letters {
		done, err := s.move(c.Request.Context(), letters[i].ID, nil)
		if err != nil {
			return err
		}
		if done != nil {
			s.answerReplayed(c.Writer, done)
			return nil
		}
	}
	at.answerGone(c.Writer)
	return nil
}

// deleteMessage answers DELETE /api/v1/messages/:partitionId/:transactionId: it deletes dead letters, never a live message.
func (s *server) deleteMessage(c *gin.Context) error {
	at, err := addressIn(c)
	if err != nil {
		return err
	}
	letters, err := s.lettersOf(c.Request.Context(), at, purgePage)
	if err != nil {
		return err
	}
	dropped, err := s.engine.DropDeadLetters(c.Request.Context(), idsOf(letters))
	if err != nil {
		return err
	}
	if dropped == 0 {
		at.answerGone(c.Writer)
		return nil
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte {
		b = appendBoolField(append(b, '{'), "success", true)
		b = at.append(b)
		return append(appendStringField(b, "message", "Message deleted successfully"), '}')
	})
	return nil
}

// purgeDeadLetters answers DELETE /api/v1/dlq: it deletes what the filters of the list select, as far as it had failed when the call
// came. A purge without a queue is refused: nobody means all queues by leaving the name out.
func (s *server) purgeDeadLetters(c *gin.Context) error {
	p, err := parseDLQ(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	if p.queue == "" {
		answer(c.Writer, http.StatusBadRequest, func(b []byte) []byte {
			return append(b, `{"success":false,"error":"queue is required"}`...)
		})
		return nil
	}
	ctx := c.Request.Context()
	now := s.engine.Now()
	if p.to == 0 || p.to > now {
		p.to = now
	}
	p.limit, p.offset = purgePage, 0
	deleted := 0
	for {
		letters, _, err := s.deadLetters(ctx, &p)
		if err != nil {
			return err
		}
		n, err := s.engine.DropDeadLetters(ctx, idsOf(letters))
		if err != nil {
			return err
		}
		if deleted += n; n == 0 {
			break
		}
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte {
		b = appendBoolField(append(b, '{'), "success", true)
		b = appendStringField(b, "queue", p.queue)
		b = appendOptional(b, "consumerGroup", p.group)
		return append(appendIntField(b, "deleted", int64(deleted)), '}')
	})
	return nil
}

func idsOf(letters []core.DeadLetter) []uuid.UUID {
	ids := make([]uuid.UUID, len(letters))
	for i := range letters {
		ids[i] = letters[i].ID
	}
	return ids
}

// address is how management routes name a message.
type address struct{ partitionID, transactionID string }

func addressIn(c *gin.Context) (a address, err error) {
	if a.partitionID, err = pathName(c, "partitionId"); err != nil {
		return a, err
	}
	a.transactionID, err = pathName(c, "transactionId")
	return a, err
}

func (a *address) append(b []byte) []byte {
	b = appendStringField(b, "partitionId", a.partitionID)
	return appendStringField(b, "transactionId", a.transactionID)
}

func (a *address) answerGone(w http.ResponseWriter) {
	answer(w, http.StatusNotFound, func(b []byte) []byte {
		b = appendBoolField(append(b, '{'), "success", false)
		b = a.append(b)
		return append(appendStringField(b, "error", replies[core.CodeNoMessage].text), '}')
	})
}

// lettersOf returns dead letters of a message, newest failure first; none for an address that nothing can have.
func (s *server) lettersOf(ctx context.Context, a address, limit int) ([]core.DeadLetter, error) {
	id := uuid.Nil // which no partition has
	if parsed, err := uuid.Parse(a.partitionID); err == nil {
		id = parsed
	}
	part, _, ok := s.engine.PartitionByID(id)
	if !ok || a.transactionID == "" {
		return nil, nil
	}
	letters, _, err := s.engine.DeadLetters(ctx, core.DeadLetterFilter{
		Queue: part.Queue, Partition: part.Key, TransactionID: a.transactionID, Limit: limit,
	})
	return letters, err
}

// deadLetterOf finds the newest dead letter of a message by the message's id, the zero id when there is none.
func (s *server) deadLetterOf(ctx context.Context, message uuid.UUID) (uuid.UUID, error) {
	made, ok := core.MessageIDTime(message)
	if !ok {
		return uuid.Nil, nil
	}
	// It failed after it was made, so older failures need no look.
	f := core.DeadLetterFilter{From: max(made, 1), Limit: purgePage}
	for ; f.Offset < maxDLQLimit; f.Offset += purgePage {
		letters, _, err := s.engine.DeadLetters(ctx, f)
		if err != nil || len(letters) == 0 {
			return uuid.Nil, err
		}
		for i := range letters {
			if letters[i].Message.ID == message {
				return letters[i].ID, nil
			}
		}
	}
	return uuid.Nil, nil
}

// move replays one dead letter; nil when it is gone.
func (s *server) move(ctx context.Context, id uuid.UUID, rename func(*core.DeadLetter) string) (*core.Replayed, error) {
	done, err := s.engine.ReplayDeadLetters(ctx, []uuid.UUID{id}, rename)
	if err != nil || done[0].ID == uuid.Nil {
		return nil, err
	}
	return &done[0], nil
}

func (s *server) answerReplayed(w http.ResponseWriter, done *core.Replayed) {
	part, queue, _ := s.engine.PartitionByKey(done.Was.Partition)
	answer(w, http.StatusOK, func(b []byte) []byte {
		b = append(b, `{"success":true,"result":"moved"`...)
		b = appendStringField(b, "queue", queue)
		b = appendStringField(b, "partition", part.Name)
		b = appendStringField(b, "consumerGroup", done.Was.Group)
		b = appendIDField(b, "dlqId", done.Was.ID)
		b = appendStringField(b, "originalTransactionId", done.Was.Message.Transaction())
		b = append(appendKey(b, "replayedAs"), `{"index":0`...)
		b = appendIDField(b, "message_id", done.ID)
		b = appendStringField(b, "transaction_id", done.TransactionID)
		b = appendStringField(b, "queueName", queue)
		b = append(appendStringField(b, "status", "queued"), '}')
		return append(appendBoolField(b, "dlqRowRemoved", true), '}')
	})
}
