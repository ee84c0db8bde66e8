package cfqueues

import (
	"net/http"

	"github.com/leasehold/leasehold/adapters/internal/httpapi"
)

// Refuse returns a handler that answers every request as [New]'s would where err is what the store says: for a server whose store is not
// there yet.
func Refuse(err error, o Options) http.Handler {
	o = o.withDefaults()
	return httpapi.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeError(w, fromCore(err)) }),
		httpapi.Options{Protocol: "cfqueues", Logger: o.Logger, Now: o.Now, Observer: o.Observer})
}
