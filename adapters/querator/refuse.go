package querator

import (
	"net/http"
	"time"

	"github.com/leasehold/leasehold/adapters/internal/httpapi"
)

// Refuse returns a handler that answers every request as [New]'s would where err is what the store says: for a server whose store is not
// there yet. GET /health, where the generation has it, tells that it is not well.
func Refuse(err error, o Options) http.Handler {
	o = o.withDefaults()
	if o.Now == nil {
		o.Now = func() time.Time { return time.Time{} }
	}
	s := &server{o: o}
	return httpapi.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/health" && s.hasHealth() {
			s.writeHealth(w, s.o.Now(), err)
			return
		}
		c := &call{server: s, ctx: r.Context(), dialect: dialectOf(s.o.Generation)}
		s.answer(w, r, nil, c.failed(operation{}, err))
	}), httpapi.Options{Protocol: "querator", Logger: o.Logger, Now: o.Now, Observer: o.Observer, Panic: s.panicked})
}
