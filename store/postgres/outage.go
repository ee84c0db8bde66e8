package postgres

import (
	"log/slog"
	"sync"
	"time"

	"github.com/leasehold/leasehold/core"
)

// outage writes one line into the log when the database cannot be used and one when it can again.
type outage struct {
	log  *slog.Logger
	mono core.Clock

	mu    sync.Mutex
	down  bool
	since core.Time
}

// observe takes note of how something went that needed the database.
func (o *outage) observe(err error) {
	code, down := core.CodeInternal, false
	if err != nil {
		switch code = codeOf(err); code {
		case core.CodeCanceled:
			return // it says nothing of the database
		case core.CodeUnavailable, core.CodeFull, core.CodeUnknown:
			down = true
		default: // it answers
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case down && !o.down:
		o.down, o.since = true, o.mono.Now()
		o.log.Error("the database cannot be used, requests are refused until it can", "code", code.String(), "error", err)
	case !down && o.down:
		o.down = false
		o.log.Info("the database can be used again", "outage", o.mono.Now().Sub(o.since).Round(time.Millisecond))
	}
}
