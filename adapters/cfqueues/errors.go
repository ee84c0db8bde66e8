package cfqueues

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/leasehold/leasehold/core"
)

// apiError is a failure in this protocol's words: the HTTP status, the code and the
// text of errors[0].
type apiError struct {
	status  int
	code    int
	message string
	// retryAfter is sent with 429 and passing failures of the server as Retry-After and retry-after-ms.
	retryAfter time.Duration
	// chain are the errors behind this one, for clients that print them.
	chain []errorEntry
	// final forbids the client to send the request again whatever the status says.
	final bool
	// cause is for the log only and never leaves the server.
	cause error
}

// Error makes apiError an error, for wrapping and tests.
func (e *apiError) Error() string { return fmt.Sprintf("%d: %s", e.code, e.message) }

// shouldRetry says what x-should-retry has to be. The official clients retry 408,
// 409, 429 and every 5xx by themselves; the 409 of a paused queue must not be, and no
// other 4xx ever is.
func (e *apiError) shouldRetry() bool {
	if e.final {
		return false
	}
	return e.status >= 500 || e.status == http.StatusRequestTimeout || e.status == http.StatusTooManyRequests
}

// Codes of this protocol. The control plane uses 11xxx and 1001xx, the message routes
// 101xx and 102xx.
const (
	// codePull is what the live service sends with a refused pull (405). For the 409
	// of a paused queue no code is published, so the same is used.
	codePull           = 0
	codeNoRoute        = 7003
	codeConsumerBody   = 10026
	codeMessageQueue   = 10104
	codeClientGone     = 10201
	codeBatchDelay     = 10202
	codeMetadata       = 10203
	codeMessageSize    = 10204
	codeBatchSize      = 10205
	codeBatchCount     = 10206
	codeBodyInvalid    = 10207
	codeBodyMalformed  = 10208
	codeOverloaded     = 10250
	codeStorageLimit   = 10251
	codeQueueNotFound  = 11000
	codeNoConsumer     = 11002 // the vendor publishes none
	codeQueueName      = 11003
	codeConsumerExists = 11004
	codeQueueInUse     = 11005
	codeQueueNameTaken = 11009
	codeQueueCount     = 11010 // the vendor publishes none
	codeInternal       = 15000
	codeConsumer       = 100127
	codeQueueSettings  = 100128
)

// refusal is the common case: a request that can never succeed as it is.
func refusal(status, code int, format string, args ...any) *apiError {
	return &apiError{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

// errMalformed is for a body that is not JSON.
func errMalformed(text string) *apiError {
	return refusal(http.StatusBadRequest, codeBodyMalformed, "%s", text)
}

// errShape is for JSON of the wrong shape, worded as the vendor's validator does it.
func errShape(text string, at path) *apiError {
	if at == root {
		return refusal(http.StatusBadRequest, codeBodyInvalid, "%s", text)
	}
	return refusal(http.StatusBadRequest, codeBodyInvalid, "%s at %q", text, at.String())
}

// errExpected is errShape for a value of the wrong type.
func errExpected(want string, got rawValue, at path) *apiError {
	return errShape(fmt.Sprintf("Expected %s, received %s", want, got.kind()), at)
}

// errMetadata is for a content type or a delay that this protocol does not know.
func errMetadata(text string, at path) *apiError {
	return refusal(http.StatusBadRequest, codeMetadata, "%s at %q", text, at.String())
}

// errBatchDelay is for a delay of a whole batch out of bounds.
func errBatchDelay(text string, at path) *apiError {
	return refusal(http.StatusBadRequest, codeBatchDelay, "%s at %q", text, at.String())
}

// errMessageSize is for a message above the size limit.
func errMessageSize(size int, limit int64) *apiError {
	return refusal(http.StatusRequestEntityTooLarge, codeMessageSize,
		"message length of %d bytes exceeds limit of %d", size, limit)
}

// errBatchSize is for a batch whose messages together are above the size limit.
func errBatchSize(limit int64) *apiError {
	return refusal(http.StatusRequestEntityTooLarge, codeBatchSize,
		"batch size exceeds limit of %d bytes", limit)
}

// errBatchCount is for a batch of too many messages.
func errBatchCount(limit int) *apiError {
	return refusal(http.StatusRequestEntityTooLarge, codeBatchCount,
		"batch message count exceeds limit of %d", limit)
}

// errBatchEmpty is for a batch without messages.
func errBatchEmpty() *apiError {
	return refusal(http.StatusBadRequest, codeBatchCount, `A batch needs at least one message at "messages"`)
}

// errBodyTooLarge is for a request above the body limit. Which code says so depends
// on the route: the message routes have one of their own.
func errBodyTooLarge(code int, limit int64) *apiError {
	return refusal(http.StatusRequestEntityTooLarge, code, "request body exceeds limit of %d bytes", limit)
}

// errNoRoute is for a path or method that this protocol, or this server, does not have.
func errNoRoute(path string) *apiError {
	return refusal(http.StatusNotFound, codeNoRoute,
		"Could not route to %s, perhaps your object identifier is invalid?", path)
}

// errQueueNotFound is for a queue that does not exist, on the control plane.
func errQueueNotFound() *apiError {
	return refusal(http.StatusNotFound, codeQueueNotFound, "Queue does not exist.")
}

// errMessageQueue is for a queue that does not exist, on the message routes.
func errMessageQueue() *apiError {
	return refusal(http.StatusNotFound, codeMessageQueue, "Queue not found")
}

// errConsumerNotFound is for a consumer that does not exist.
func errConsumerNotFound() *apiError {
	return refusal(http.StatusNotFound, codeNoConsumer, "Consumer does not exist.")
}

// errQueueName is for a name that the vendor's rule does not allow.
func errQueueName(name string) *apiError {
	return refusal(http.StatusBadRequest, codeQueueName,
		"Queue name '%s' is invalid: it must be 1 to 63 characters long and contain only lowercase letters, "+
			"digits and hyphens, with no hyphen at the start or the end.", clip(name))
}

// errQueueCount is for a queue above the limit of the account.
func errQueueCount(limit int) *apiError {
	return refusal(http.StatusBadRequest, codeQueueCount, "This server takes at most %d queues", limit)
}

// errQueueNameTaken is for the creation of a queue that exists. It is a 400, because
// the official clients would retry a 409 up to ten times.
func errQueueNameTaken(name string) *apiError {
	return refusal(http.StatusBadRequest, codeQueueNameTaken,
		"Queue name '%s' is already taken. Please use a different name and try again.", clip(name))
}

// errQueueInUse is for the deletion of a queue that takes the dead letters of another.
func errQueueInUse(name string) *apiError {
	return refusal(http.StatusBadRequest, codeQueueInUse,
		"Cannot delete queue '%s' that serves as dead letter queue for consumers", clip(name))
}

// errConsumerExists is for a second consumer. Beside the vendor's text it names the
// consumer that is in the way and the request that removes it.
func errConsumerExists(queue, queueID string, con *core.CloudflareConsumer) *apiError {
	return refusal(http.StatusBadRequest, codeConsumerExists,
		"Queue '%s' (UUID '%s') already has a consumer. It is '%s' (%s); "+
			"remove it with DELETE /queues/%s/consumers/%s.", clip(queue), queueID, con.ID, con.Type, queueID, con.ID)
}

// errConsumerType is for the creation of a consumer without a type that is known.
func errConsumerType() *apiError {
	return refusal(http.StatusBadRequest, codeConsumerBody,
		`Request body not recognised: "type" must be "http_pull"`)
}

// errWorkerConsumer is for a consumer that would need the vendor's Workers runtime.
func errWorkerConsumer() *apiError {
	return refusal(http.StatusBadRequest, codeConsumer,
		`Worker consumers cannot run on this server, use "type": "http_pull"`)
}

// errConsumerSettings is for consumer settings out of bounds.
func errConsumerSettings(text string) *apiError {
	return refusal(http.StatusBadRequest, codeConsumer, "Invalid consumer settings: %s", text)
}

// errQueueSettings is for queue settings out of bounds.
func errQueueSettings(text string) *apiError {
	return refusal(http.StatusBadRequest, codeQueueSettings, "Invalid queue settings: %s", text)
}

// errPullDisabled is for a pull from a queue without an http_pull consumer.
func errPullDisabled() *apiError {
	return refusal(http.StatusMethodNotAllowed, codePull,
		"messages cannot be pulled unless http_pull mode is enabled")
}

// errPaused is for a pull from a paused queue.
func errPaused() *apiError {
	return refusal(http.StatusConflict, codePull, "queue_delivery_paused")
}

// errInternal hides its cause: what went wrong inside is for the log.
func errInternal(cause error) *apiError {
	return &apiError{
		status: http.StatusInternalServerError, code: codeInternal,
		message: "UnknownInternalError", cause: cause,
	}
}

// outOfBounds words a number outside low and high as the vendor's validator does, or
// returns "" for a number inside.
func outOfBounds(n, low, high int64) string {
	switch {
	case n < low:
		return fmt.Sprintf("Number must be greater than or equal to %d", low)
	case n > high:
		return fmt.Sprintf("Number must be less than or equal to %d", high)
	}
	return ""
}

// clip keeps a name from a request short enough to be repeated in an error text.
func clip(name string) string {
	const most = 100
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}
