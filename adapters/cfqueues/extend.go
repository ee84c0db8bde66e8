package cfqueues

import (
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// extendObject is the answer to an extension of leases.
type extendObject struct {
	ExtendCount int               `json:"extendCount"`
	Warnings    map[string]string `json:"warnings"` // lease id to text
}

// extend answers POST /queues/{queue}/messages/extend: the messages stay leased for the
// given time from now, under the lease ids that they have. Attempts do not change.
func (s *server) extend(c *gin.Context) *apiError {
	b, q, bad := s.bodyAndQueue(c)
	if bad != nil {
		return bad
	}
	defer release(c, b)
	in, bad := decodeExtend(b.Bytes, &s.o)
	if bad != nil {
		return bad
	}
	if in.visibility == nil {
		s.renewed(c, &q) // another gateway may have changed the consumer a moment ago
	}
	d := defaultVisibility
	if con := consumerOf(&q); con != nil && con.Type == typeHTTPPull {
		d = time.Duration(con.VisibilityMillis) * time.Millisecond
	}
	if in.visibility != nil {
		d = *in.visibility
	}
	result, bad := s.extendAll(c, &q, in.leases, max(d, shortestLease))
	if bad != nil {
		return bad
	}
	var notices []string
	if in.usedAlias {
		notices = append(notices, aliasNotice)
	}
	writeResult(c, result, notices...)
	return nil
}

// extendAll extends leases by their ids. One that is named twice counts twice.
func (s *server) extendAll(c *gin.Context, q *core.Queue, leases []string, d time.Duration) (extendObject, *apiError) {
	result := extendObject{Warnings: map[string]string{}}
	tokens := make([]core.MessageToken, 0, len(leases))
	texts, counts, foreign := make([]string, 0, len(leases)), map[string]int{}, false
	for _, text := range leases {
		if counts[text]++; counts[text] > 1 {
			continue
		}
		l, ok := s.tokens.parse(text)
		if !ok || l.queue != q.ID || l.id == uuid.Nil {
			foreign = foreign || ok && l.queue != q.ID
			result.Warnings[text] = warnUnknown
			continue
		}
		tokens = append(tokens, core.MessageToken{
			Partition: l.partition, Offset: l.offset, Message: l.message, Lease: l.id, Attempt: l.attempt,
		})
		texts = append(texts, text)
	}
	if foreign && s.renewed(c, q) {
		return s.extendAll(c, q, leases, d)
	}
	if len(tokens) == 0 {
		return result, nil
	}
	extended, err := s.engine.ExtendMessages(c.Request.Context(), q.Name, tokens, d)
	if err != nil {
		return result, fromMessages(err)
	}
	for i := range extended {
		switch {
		case extended[i].Counted:
			result.ExtendCount += counts[texts[i]]
		case extended[i].Code == core.CodeNotLeased:
			result.Warnings[texts[i]] = warnLeaseOver
		default:
			result.Warnings[texts[i]] = warnGone
		}
	}
	return result, nil
}

// warnLeaseOver is for a lease that ran out, or was given back: there is nothing left
// to extend, and the message may be in other hands.
const warnLeaseOver = "lease is over, the message is back in the queue or leased by another consumer"
