package queen

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/core"
)

// extend answers POST /api/v1/lease/:leaseId/extend: always 200 and an object,
// also for a lease that is not live (protocol §3.4).
func (s *server) extend(c *gin.Context) error {
	lease, err := pathName(c, "leaseId")
	if err != nil {
		return err
	}
	var seconds int64
	if err := s.copied(c.Request, func(b []byte) error { seconds = decodeSeconds(b); return nil }); err != nil {
		return err
	}
	extended, err := s.engine.Extend(c.Request.Context(), core.ExtendParams{
		Lease: parseLease(lease), For: time.Duration(min(seconds, maxSeconds)) * time.Second,
	})
	if code := core.CodeOf(err); err != nil && code != core.CodeLeaseLost {
		return err
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte {
		b = appendStringField(append(b, '{'), "leaseId", lease)
		b = appendBoolField(b, "success", extended.Renewed > 0)
		b = appendIntField(b, "renewed", int64(extended.Renewed))
		if extended.Renewed == 0 {
			extended.Until = 0
		}
		// Three names for one time: each SDK reads another.
		b = appendTimeField(b, "newExpiresAt", extended.Until)
		b = appendTimeField(b, "expiresAt", extended.Until)
		b = appendTimeField(b, "lease_expires_at", extended.Until)
		return append(b, '}')
	})
	return nil
}
