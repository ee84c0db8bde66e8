package cfqueues

import (
	"errors"
	"net/http"
	"time"

	"github.com/leasehold/leasehold/core"
)

// Waits that an overloaded or closing server asks for. The official clients always
// honour them, so they are short.
const (
	waitOverloaded = time.Second
	waitFull       = 5 * time.Second
)

// coreErrors is what the codes of the core mean in this protocol. Codes that are not
// in it never reach a client of this protocol, or are faults of ours: both are 15000.
var coreErrors = map[core.Code]apiError{
	core.CodeInvalid:    {status: http.StatusBadRequest, code: codeBodyInvalid, message: "Invalid request"},
	core.CodeTooLarge:   {status: http.StatusRequestEntityTooLarge, code: codeMessageSize, message: "MessageSizeOutOfBounds"},
	core.CodeNoQueue:    *errQueueNotFound(),
	core.CodeDeleted:    *errQueueNotFound(),
	core.CodePaused:     *errPaused(),
	core.CodeNoConsumer: *errPullDisabled(),
	core.CodeOverloaded: {status: http.StatusTooManyRequests, code: codeOverloaded, message: "QueueOverloaded", retryAfter: waitOverloaded},
	core.CodeFull:       {status: http.StatusTooManyRequests, code: codeStorageLimit, message: "QueueStorageLimitExceeded", retryAfter: waitFull},
	// Nothing was stored, so another try is safe.
	core.CodeClosed:      {status: http.StatusServiceUnavailable, code: codeInternal, message: "The server is closing", retryAfter: waitOverloaded},
	core.CodeConflict:    {status: http.StatusServiceUnavailable, code: codeInternal, message: "Lost against a concurrent change", retryAfter: waitOverloaded},
	core.CodeUnavailable: {status: http.StatusInternalServerError, code: codeInternal, message: "The store cannot be reached", retryAfter: waitOverloaded},
	// A push that may be stored must not be sent again: pushes carry no idempotency key.
	core.CodeUnknown:  {status: http.StatusInternalServerError, code: codeInternal, message: "The outcome of the request is not known", final: true},
	core.CodeReadOnly: {status: http.StatusInternalServerError, code: codeInternal, message: "The store cannot be written", final: true},
	core.CodeCanceled: {status: http.StatusBadRequest, code: codeClientGone, message: "ClientDisconnected"},
}

// fromCore turns an error of the engine into this protocol's words.
func fromCore(err error) *apiError {
	if own := (*apiError)(nil); errors.As(err, &own) {
		// In this protocol's words already: a refusal of ours came back through a call.
		return own
	}
	code := core.CodeOf(err)
	known, ok := coreErrors[code]
	if !ok {
		return errInternal(err)
	}
	e := known
	e.cause = err
	if code == core.CodeInvalid {
		// The one code whose text is meant for the client.
		e.message = err.Error()
	}
	return &e
}

// fromMessages is fromCore for the message routes, where a missing queue has another
// code than on the control plane.
func fromMessages(err error) *apiError {
	if own := (*apiError)(nil); errors.As(err, &own) {
		return own
	}
	if code := core.CodeOf(err); code == core.CodeNoQueue || code == core.CodeDeleted {
		return errMessageQueue()
	}
	return fromCore(err)
}
