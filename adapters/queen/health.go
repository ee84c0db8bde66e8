package queen

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// health answers GET /health with the words that queenctl looks for: whether
// the store can be read and written (protocol §5.1).
func (s *server) health(c *gin.Context) error {
	s.writeHealth(c.Writer, s.engine.Ready(c.Request.Context()))
	return nil
}

// writeHealth answers with what is wrong with the store, nil being nothing.
func (s *server) writeHealth(w http.ResponseWriter, err error) {
	status, healthy, database := http.StatusOK, "healthy", "connected"
	if err != nil {
		status, healthy, database = http.StatusServiceUnavailable, "unhealthy", "disconnected"
	}
	answer(w, status, func(b []byte) []byte {
		b = appendStringField(append(b, '{'), "status", healthy)
		b = appendStringField(b, "database", database)
		b = appendStringField(b, "engine", "leasehold")
		b = appendStringField(b, "version", s.o.Version)
		return append(b, '}')
	})
}
