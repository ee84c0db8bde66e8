package core

import (
	"errors"
	"fmt"
)

// Code classifies an error. Adapters turn codes into their protocol's answers
// in one table each; nothing above the store looks at anything but the code.
type Code int

// The codes, from the most general to the most particular.
const (
	// CodeInternal is anything unclassified; the text is logged, not shown.
	CodeInternal Code = iota
	// CodeInvalid marks an argument that no state of the server would accept.
	CodeInvalid
	// CodeTooLarge marks a message or request over a size limit.
	CodeTooLarge
	// CodeNoQueue marks a queue that does not exist.
	CodeNoQueue
	// CodeQueueExists marks a queue name that is taken.
	CodeQueueExists
	// CodeQueueInUse marks a queue that another queue names as its dead queue.
	CodeQueueInUse
	// CodeNoPartition marks a partition that does not exist in its queue.
	CodeNoPartition
	// CodeNoMessage marks a message that is settled, never existed or went by another id.
	CodeNoMessage
	// CodeNotLeased marks a message that exists but is not leased.
	CodeNotLeased
	// CodeNoConsumer marks a group that has never touched the partition, or a queue without the consumer that an operation needs.
	CodeNoConsumer
	// CodeLeaseLost marks a lease that is not, or no longer, live.
	CodeLeaseLost
	// CodeCommitted marks a message that its group has already passed.
	CodeCommitted
	// CodeUnresolvable marks a transaction id that the acknowledgement window does not hold.
	CodeUnresolvable
	// CodeDuplicate marks a transaction id that was seen inside the deduplication window.
	CodeDuplicate
	// CodeNothing marks a claim that waited its full time and got nothing.
	CodeNothing
	// CodeDuplicateClient marks a second simultaneous waiting claim by one client id.
	CodeDuplicateClient
	// CodePaused marks a queue whose delivery is paused.
	CodePaused
	// CodeOverloaded marks a request that found its waiting room full.
	CodeOverloaded
	// CodeClosed marks a request that met a server shutting down.
	CodeClosed
	// CodeConflict marks a change that lost against a concurrent one and may be tried again.
	CodeConflict
	// CodeUnavailable marks a store that cannot be reached; nothing was stored.
	CodeUnavailable
	// CodeUnknown marks a commit whose outcome is not known; it must not be repeated blindly.
	CodeUnknown
	// CodeFull marks a store without room for the change.
	CodeFull
	// CodeLocked marks a data directory that another server is using.
	CodeLocked
	// CodeFormat marks a store written by a newer version, or damaged.
	CodeFormat
	// CodeReadOnly marks a store that cannot be written.
	CodeReadOnly
	// CodeCanceled marks a request whose caller went away.
	CodeCanceled
	// CodeDeleted marks a request that met the deletion of its queue.
	CodeDeleted
	// CodeUnimplemented marks an operation that this build does not have.
	CodeUnimplemented
)

var codeNames = [...]string{
	"internal", "invalid", "too_large", "no_queue", "queue_exists", "queue_in_use", "no_partition",
	"no_message", "not_leased", "no_consumer", "lease_lost", "committed", "unresolvable", "duplicate",
	"nothing", "duplicate_client", "paused", "overloaded", "closed", "conflict", "unavailable", "unknown",
	"full", "locked", "format", "read_only", "canceled", "deleted", "unimplemented",
}

// String returns the code's name in snake case, as logs and metrics show it.
func (c Code) String() string {
	if c < 0 || int(c) >= len(codeNames) {
		return "internal"
	}
	return codeNames[c]
}

// Error is the only error type that leaves the core and the stores.
type Error struct {
	Code Code
	// Op names the operation that failed, for logs.
	Op string
	// Item is the index of the request's item at fault, or -1.
	Item int
	// Err is the cause or a sentence about it; adapters do not show it unless the code is CodeInvalid.
	Err error
}

// Error returns the operation, the code and the cause.
func (e *Error) Error() string {
	switch {
	case e.Err == nil:
		return e.Op + ": " + e.Code.String()
	case e.Op == "":
		return e.Err.Error()
	default:
		return e.Op + ": " + e.Err.Error()
	}
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an *Error with a formatted cause and no item.
func Errorf(code Code, op, format string, args ...any) *Error {
	return &Error{Code: code, Op: op, Item: -1, Err: fmt.Errorf(format, args...)}
}

// WrapError gives err a code and an operation. An error that already carries a code
// keeps it. A nil err stays nil.
func WrapError(code Code, op string, err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return &Error{Code: code, Op: op, Item: -1, Err: err}
}

// CodeOf returns the code that err carries, or CodeInternal.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// ItemOf returns the index of the item that err blames, or -1.
func ItemOf(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Item
	}
	return -1
}
