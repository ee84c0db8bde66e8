package queen

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// ack answers POST /api/v1/ack. The answer is an array for one item too
// (protocol §3.3).
func (s *server) ack(c *gin.Context) error {
	items := make([]ackItem, 1)
	err := s.copied(c.Request, func(b []byte) (err error) {
		items[0], err = decodeAck(b)
		return err
	})
	if err != nil {
		return err
	}
	return s.settle(c, items, items[0].group)
}

// ackBatch answers POST /api/v1/ack/batch.
func (s *server) ackBatch(c *gin.Context) error {
	var items []ackItem
	var group string
	err := s.copied(c.Request, func(b []byte) (err error) {
		items, group, err = decodeAckBatch(b)
		return err
	})
	if err != nil {
		return err
	}
	return s.settle(c, items, group)
}

// settle carries out the acknowledgements of one group. Whatever happens to an
// item, the answer is 200 with one object for it.
func (s *server) settle(c *gin.Context, items []ackItem, group string) error {
	s.warnOfStatuses(c.Request.Context(), items)
	outcomes := make([]core.Acked, len(items))
	texts := make([]string, len(items))
	acks := make([]core.Ack, 0, len(items))
	places := make([]int, 0, len(items))
	for i := range items {
		items[i].group = group
		ack, text := items[i].core()
		if texts[i] = text; text != "" {
			continue
		}
		acks = append(acks, ack)
		places = append(places, i)
	}
	if err := s.settleAll(c.Request.Context(), acks, func(k int, a core.Acked) {
		i := places[k]
		if outcomes[i] = a; a.Err != nil {
			texts[i] = itemText(a.Err)
		}
	}); err != nil {
		return err
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte { return appendAcked(b, items, outcomes, texts) })
	return nil
}

// warnOfStatuses says that a word was taken for a failure: a misspelling burns
// the retry budget, and nothing in the answer shows it.
func (s *server) warnOfStatuses(ctx context.Context, items []ackItem) {
	odd := 0
	for i := range items {
		if items[i].oddStatus {
			odd++
		}
	}
	if odd > 0 {
		s.logger.WarnContext(ctx, "acknowledgements with an unknown status count as failed", "items", odd)
	}
}

// settleAll hands the acknowledgements to the engine. A failure of the whole
// call is one of each item, which the protocol answers with 200 as well; only a
// client that has gone gets nothing.
func (s *server) settleAll(ctx context.Context, acks []core.Ack, each func(int, core.Acked)) error {
	if len(acks) == 0 {
		return nil
	}
	done, err := s.engine.Ack(ctx, acks)
	code := core.CodeOf(err)
	switch {
	case err == nil:
	case code == core.CodeCanceled || code == core.CodeUnimplemented || code == core.CodeInvalid:
		return err
	default:
		s.logger.ErrorContext(ctx, "acknowledgements failed", "code", code.String(), "error", err.Error())
	}
	for i := range acks {
		if err != nil {
			each(i, core.Acked{Err: err})
			continue
		}
		each(i, done[i])
	}
	return nil
}

// core turns an item into the engine's, or says what is wrong with it.
func (a *ackItem) core() (core.Ack, string) {
	partition, err := uuid.Parse(a.partitionID)
	if err != nil {
		return core.Ack{}, `invalid input syntax for type uuid: "` + a.partitionID + `"`
	}
	return core.Ack{
		Partition: partition, TransactionID: a.transactionID, Group: groupOf(a.group),
		Status: coreStatus[a.status], Lease: parseLease(a.leaseID), Error: a.errorText,
	}, ""
}

var coreStatus = [...]core.AckStatus{
	statusCompleted: core.AckCompleted, statusRetry: core.AckRetry,
	statusFailed: core.AckFailed, statusDLQ: core.AckDead,
}

func groupOf(group string) string {
	if group == "" {
		return core.QueueModeGroup
	}
	return group
}

// parseLease reads a lease id; the empty one is none. A text that no lease can
// have becomes an id that none has, so that it fails where a lost lease would
// and is not taken for an acknowledgement without one.
func parseLease(text string) uuid.UUID {
	if text == "" {
		return uuid.Nil
	}
	id, err := uuid.Parse(text)
	if err != nil || id == uuid.Nil || len(text) != 36 {
		return uuid.Max
	}
	return id
}

// appendAcked appends the answer of an acknowledgement, in request order.
func appendAcked(b []byte, items []ackItem, outcomes []core.Acked, texts []string) []byte {
	b = append(b, '[')
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		b = appendIntField(b, "index", int64(i))
		b = appendStringField(b, "transactionId", items[i].transactionID)
		b = appendBoolField(b, "success", texts[i] == "")
		b = appendOptional(b, "error", texts[i])
		b = appendBoolField(b, "leaseReleased", outcomes[i].Released)
		b = appendBoolField(b, "dlq", outcomes[i].Dead)
		b = appendBoolField(b, "noop", outcomes[i].Noop)
		b = append(b, '}')
	}
	return append(b, ']')
}
