package queen

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// health answers GET /health with the words that queenctl looks for: whether
// the store can be read and written (protocol §5.1).
func (s *server) health(c *gin.Context) error {
	status, healthy, database := http.StatusOK, "healthy", "connected"
	if err := s.engine.Ready(c.Request.Context()); err != nil {
		status, healthy, database = http.StatusServiceUnavailable, "unhealthy", "disconnected"
	}
	answer(c.Writer, status, func(b []byte) []byte {
		b = appendStringField(append(b, '{'), "status", healthy)
		b = appendStringField(b, "database", database)
		b = appendStringField(b, "engine", "leasehold")
		b = appendStringField(b, "version", s.o.Version)
		return append(b, '}')
	})
	return nil
}
