package cfqueues

import (
	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/core"
)

// startPurge answers POST /queues/{queue}/purge: every message goes, leased and
// delayed ones included. The purge is complete when the answer is sent.
func (s *server) startPurge(c *gin.Context) *apiError {
	b, bad := s.body(c, codeBodyInvalid)
	if bad != nil {
		return bad
	}
	defer release(c, b)
	q, err := s.queue(c)
	if err != nil {
		return fromCore(err)
	}
	if bad := decodePurge(b.Bytes, s.o.Lenient); bad != nil {
		return bad
	}
	ctx := c.Request.Context()
	started := s.engine.Now()
	if err := s.engine.Purge(ctx, q.Name); err != nil {
		return fromCore(err)
	}
	// The time comes after the deed, so that a status never tells of a purge that did
	// not happen. Repeating the request does no harm.
	q, err = s.engine.ConfigureQueue(ctx, q.Name, func(q *core.Queue) error {
		cf := cloudflareOf(&q.Options)
		cf.PurgeStarted = started
		q.Options.Cloudflare = &cf
		return nil
	})
	if err != nil {
		return fromCore(err)
	}
	return s.writeQueue(c, &q)
}

// purgeStatus answers GET /queues/{queue}/purge.
func (s *server) purgeStatus(c *gin.Context) *apiError {
	q, err := s.queue(c)
	if err != nil {
		return fromCore(err)
	}
	var status purgeObject
	if cf := q.Options.Cloudflare; cf != nil && cf.PurgeStarted != 0 {
		status = purgeObject{Completed: "true", StartedAt: showTime(cf.PurgeStarted)}
	}
	writeResult(c, status)
	return nil
}
