package queen

import (
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/adapters/queen/spool"
	"github.com/leasehold/leasehold/core"
)

// push answers POST /api/v1/push (protocol §3.1).
func (s *server) push(c *gin.Context) error {
	var items []pushItem
	release, err := s.body(c.Request, func(b []byte) (err error) {
		items, err = decodePush(b)
		return err
	})
	if err != nil {
		return err
	}
	if len(items) == 0 {
		release()
		answer(c.Writer, http.StatusCreated, func(b []byte) []byte { return append(b, "[]"...) })
		return nil
	}
	ctx := c.Request.Context()
	pushed, err := s.store(ctx, pushItems(items, subject(c)))
	if settled(ctx, err) {
		release()
	}
	if err != nil && len(pushed) != len(items) {
		if core.CodeOf(err) != core.CodeUnknown {
			return err
		}
		// What may be stored must not be sent again, and a 500 is: say it of each item.
		pushed = allFailed(len(items), err)
	}
	if err := nothingStored(pushed); err != nil {
		return err
	}
	answer(c.Writer, http.StatusCreated, func(b []byte) []byte { return appendPushed(b, items, pushed) })
	return nil
}

// pushItems turns messages into the engine's. The producer's subject is that of the verified token, whatever the body says (protocol §5.4).
func pushItems(items []pushItem, subject string) []core.PushItem {
	out := make([]core.PushItem, len(items))
	for i := range items {
		out[i] = items[i].core(subject)
	}
	return out
}

func (it *pushItem) core(subject string) core.PushItem {
	p := core.PushItem{Queue: it.queue, Partition: it.partition}
	p.ContentType = core.ContentJSON
	p.Payload = it.payload
	p.TransactionID = it.transactionID
	p.TraceID = it.traceID
	p.Subject = subject
	return p
}

func allFailed(n int, err error) []core.Pushed {
	out := make([]core.Pushed, n)
	for i := range out {
		out[i] = core.Pushed{Status: core.PushFailed, Err: err}
	}
	return out
}

// nothingStored returns the failure to answer with 500: every item failed, and
// for a reason under which a repetition is safe (protocol §3.1).
func nothingStored(pushed []core.Pushed) error {
	var first error
	for i := range pushed {
		if pushed[i].Status != core.PushFailed || pushed[i].Err == nil {
			return nil
		}
		if errors.Is(pushed[i].Err, spool.ErrFull) {
			return nil // the protocol has a status for that
		}
		code := core.CodeOf(pushed[i].Err)
		if code == core.CodeUnknown || replyTo(pushed[i].Err).status < http.StatusInternalServerError {
			return nil
		}
		if first == nil {
			first = pushed[i].Err
		}
	}
	return first
}

// appendPushed appends the answer of a push: an array with one object per
// item, two of whose keys are snake_case (protocol §1, rule 3).
func appendPushed(b []byte, items []pushItem, pushed []core.Pushed) []byte {
	b = append(b, '[')
	for i := range pushed {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendPushedItem(b, i, items[i], pushed[i])
	}
	return append(b, ']')
}

func appendPushedItem(b []byte, i int, it pushItem, p core.Pushed) []byte {
	b = append(b, '{')
	b = appendIntField(b, "index", int64(i))
	if p.Status == core.PushFailed {
		b = appendOptional(b, "transaction_id", it.transactionID)
	} else {
		b = appendIDField(b, "message_id", p.ID)
		b = appendStringField(b, "transaction_id", transactionID(it, p))
	}
	b = appendStringField(b, "queueName", it.queue)
	switch p.Status {
	case core.PushQueued:
		b = appendStringField(b, "status", "queued")
	case core.PushDuplicate:
		b = appendStringField(b, "status", "duplicate")
	case pushBuffered:
		b = appendStringField(b, "status", "buffered")
	case core.PushFailed:
		b = appendStringField(b, "status", "failed")
		b = appendStringField(b, "error", replyTo(p.Err).text)
	}
	return append(b, '}')
}

// transactionID is the id that the client gave, else the one that the engine
// made.
func transactionID(it pushItem, p core.Pushed) string {
	switch {
	case it.transactionID != "":
		return it.transactionID
	case p.TransactionID != "":
		return p.TransactionID
	}
	return p.ID.String()
}
