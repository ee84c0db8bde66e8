package queen

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/core"
)

// configure answers POST /api/v1/configure: it makes a queue or changes its
// options, merging them unless told to replace (protocol §3.6).
func (s *server) configure(c *gin.Context) error {
	var call *configureBody
	err := s.copied(c.Request, func(b []byte) (err error) {
		call, err = decodeConfigure(b)
		return err
	})
	if err != nil {
		return err
	}
	if call.encrypts() && !s.o.CanEncrypt {
		// The original stores plaintext here and says so in its log only (protocol §5.5).
		return bodyErrorf("encryptionEnabled: the server has no encryption key")
	}
	q, err := s.configureQueue(c.Request.Context(), call)
	if err != nil {
		return err
	}
	if o := &q.Options.Queen; !o.RetentionEnabled && (o.RetentionSeconds > 0 || o.CompletedSeconds > 0) {
		// The Go client and queenctl can set these but not the switch (protocol §9, 14).
		s.logger.WarnContext(c.Request.Context(), "retention options have no effect without retentionEnabled", "queue", q.Name)
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte {
		b = appendBoolField(append(b, '{'), "configured", true)
		b = appendIDField(b, "queueId", q.ID)
		b = append(appendKey(b, "partitionId"), "null"...)
		b = appendStringField(b, "queue", q.Name)
		b = appendStringField(b, "namespace", q.Options.Namespace)
		b = appendStringField(b, "task", q.Options.Task)
		b = appendStringField(b, "storage", "segments")
		b = append(appendKey(b, "options"), '{')
		b = appendOptions(b, &q.Options.Queen)
		return append(b, "}}"...)
	})
	return nil
}

// configureQueue changes the queue or makes it; another client may do either
// in between, so both are tried again, a few times.
func (s *server) configureQueue(ctx context.Context, call *configureBody) (core.Queue, error) {
	replace := call.Mode == "replace" || (call.Mode == "" && s.o.ReplaceOptions)
	for attempt := 0; ; attempt++ {
		q, err := s.engine.ConfigureQueue(ctx, *call.Queue, func(q *core.Queue) error {
			q.Options = call.apply(q.Options, replace)
			return nil
		})
		if core.CodeOf(err) != core.CodeNoQueue || err == nil {
			return q, err
		}
		fresh := core.Queue{Name: *call.Queue, Origin: core.ProtocolQueen}
		fresh.Options = call.apply(core.QueueOptions{Queen: core.ImplicitQueen()}, replace)
		q, err = s.engine.CreateQueue(ctx, fresh, 0)
		if core.CodeOf(err) != core.CodeQueueExists || err == nil || attempt == 3 {
			return q, err
		}
	}
}
