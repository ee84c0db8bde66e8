package queen

import (
	"log/slog"
	"net/http"

	"github.com/leasehold/leasehold/adapters/internal/httpapi"
	"github.com/leasehold/leasehold/core"
)

// Refuse returns a handler that answers every request as [New]'s would where err is what the store says: for a server whose store is not
// there yet. GET /health tells that it is not well.
func Refuse(err error, o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	s := &server{o: o}
	return httpapi.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			s.writeHealth(w, err)
			return
		}
		writeError(w, replyTo(err))
	}), httpapi.Options{Protocol: core.ProtocolQueen.String(), Logger: o.Logger, Now: o.Now, Observer: o.Observer})
}
