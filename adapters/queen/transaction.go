package queen

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

const rolledBack = "; transaction rolled back"

// transaction answers POST /api/v1/transaction: all operations or none
// (protocol §3.5, §6.9).
func (s *server) transaction(c *gin.Context) error {
	id := core.NewMessageID(s.engine.Now())
	var tx txBody
	release, err := s.body(c.Request, func(b []byte) (err error) {
		tx, err = decodeTransaction(b)
		return err
	})
	var refusal *refusalError
	if errors.As(err, &refusal) {
		answerRefused(c.Writer, http.StatusBadRequest, id, refusal.text)
		return nil
	}
	if err != nil {
		return err
	}
	call, text := tx.core(subject(c))
	if text != "" {
		release()
		answerRefused(c.Writer, http.StatusOK, id, text+rolledBack)
		return nil
	}
	if len(tx.ops) == 0 {
		release()
		answer(c.Writer, http.StatusOK, func(b []byte) []byte { return appendTransacted(b, id, nil, nil) })
		return nil
	}
	ctx := c.Request.Context()
	done, err := s.engine.Transact(ctx, call)
	if settled(ctx, err) {
		release()
	}
	if err != nil {
		if text, ok := tx.refusal(err); ok {
			answerRefused(c.Writer, http.StatusOK, id, text)
			return nil
		}
		return err
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte { return appendTransacted(b, id, tx.ops, &done) })
	return nil
}

// core turns the body into the engine's call, or says why its acknowledgements
// can never be carried out.
func (tx *txBody) core(subject string) (core.TransactParams, string) {
	var p core.TransactParams
	for i := range tx.ops {
		op := &tx.ops[i]
		if op.push {
			p.Pushes = append(p.Pushes, op.item.core(subject))
			continue
		}
		ack, text := op.ack.core()
		if text != "" {
			return p, text
		}
		p.Acks = append(p.Acks, ack)
	}
	for _, id := range tx.requiredLeases {
		p.RequiredLeases = append(p.RequiredLeases, parseLease(id))
	}
	return p, ""
}

// refusal is the text of a transaction that was rolled back, false when err is
// a failure of the server instead.
func (tx *txBody) refusal(err error) (string, bool) {
	switch code := core.CodeOf(err); code {
	case core.CodeDuplicate:
		queue, partition := tx.pushed(core.ItemOf(err))
		return "QDUP duplicate messages in queue " + quote(queue) + " partition " + quote(partition) + rolledBack, true
	case core.CodeUnresolvable:
		return "QTXN ack references unknown transactionId" + rolledBack, true
	case core.CodeTooLarge, core.CodeInvalid:
		return replyTo(err).text + rolledBack, true
	case core.CodeUnknown:
		// A 500 would be sent again, and with it the pushes (protocol §6.15).
		return replyTo(err).text, true
	default:
		text, ok := itemTexts[code]
		return text + rolledBack, ok
	}
}

// pushed names the destination of the i-th push.
func (tx *txBody) pushed(i int) (queue, partition string) {
	for k := range tx.ops {
		if !tx.ops[k].push {
			continue
		}
		if i == 0 {
			return tx.ops[k].item.queue, tx.ops[k].item.partition
		}
		i--
	}
	return "", ""
}

// quote puts a name between plain quotes, as the original does; the JSON
// encoder escapes what must be.
func quote(name string) string { return `"` + name + `"` }

// answerRefused sends the envelope of a transaction that changed nothing.
func answerRefused(w http.ResponseWriter, status int, id uuid.UUID, text string) {
	answer(w, status, func(b []byte) []byte {
		b = appendIDField(append(b, '{'), "transactionId", id)
		b = appendBoolField(b, "success", false)
		b = appendStringField(b, "error", text)
		return append(appendKey(b, "results"), "[]}"...)
	})
}

// appendTransacted appends the answer of a committed transaction; the index
// counts flattened operations.
func appendTransacted(b []byte, id uuid.UUID, ops []txOp, done *core.Transacted) []byte {
	b = appendIDField(append(b, '{'), "transactionId", id)
	b = appendBoolField(b, "success", true)
	b = append(appendKey(b, "results"), '[')
	pushes, acks := 0, 0
	for i := range ops {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		if ops[i].push {
			b = appendTxPush(b, ops[i].item, done.Pushes[pushes])
			pushes++
			continue
		}
		b = appendTxAck(b, ops[i].ack, done.Acks[acks])
		acks++
	}
	return append(b, "]}"...)
}

func appendTxPush(b []byte, it pushItem, p core.Pushed) []byte {
	b = appendStringField(b, "type", "push")
	b = appendBoolField(b, "success", true)
	b = appendStringField(b, "transactionId", transactionID(it, p))
	b = appendIDField(b, "messageId", p.ID)
	b = appendStringField(b, "queueName", it.queue)
	if p.Status == core.PushDuplicate {
		b = appendBoolField(b, "duplicate", true)
	}
	return append(b, '}')
}

func appendTxAck(b []byte, a ackItem, done core.Acked) []byte {
	b = appendStringField(b, "type", "ack")
	b = appendBoolField(b, "success", done.Err == nil)
	b = appendStringField(b, "transactionId", a.transactionID)
	text := ""
	if done.Err != nil {
		text = itemText(done.Err)
	}
	b = appendOptional(b, "error", text)
	b = appendBoolField(b, "dlq", done.Dead)
	return append(b, '}')
}
