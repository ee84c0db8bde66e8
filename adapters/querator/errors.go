package querator

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leasehold/leasehold/core"
)

// The codes of a reply, which are also its HTTP status.
const (
	codeOK             = 200
	codeBadRequest     = 400
	codeUnauthorized   = 401
	codeForbidden      = 403
	codeRequestFailed  = 453
	codeRetryRequest   = 454
	codeClientContent  = 455
	codeInternal       = 500
	codeNotImplemented = 501
	codeTransport      = 512
)

// codeTexts are the names of the codes; the client shows them in its error text.
var codeTexts = map[int]string{
	codeOK:             "OK",
	codeBadRequest:     "Bad Request",
	codeUnauthorized:   "Unauthorized",
	codeForbidden:      "Forbidden",
	codeRequestFailed:  "Request Failed",
	codeRetryRequest:   "Retry Request",
	codeClientContent:  "Client Content Error",
	codeInternal:       "Internal Service Error",
	codeNotImplemented: "Not Implemented",
	codeTransport:      "Transport Error",
}

// fault is an answer that is not a success.
type fault struct {
	code int
	text string
}

// Error returns the message.
func (f *fault) Error() string { return f.text }

// maxMessage bounds a message in bytes: decoders quote what they could not read, however long.
const maxMessage = 4096

// failWith joins the parts of a message to a fault.
func failWith(code int, parts ...string) *fault {
	m := strings.Join(parts, "")
	if len(m) > maxMessage {
		m = m[:maxMessage]
	}
	if !utf8.ValidString(m) {
		m = strings.ToValidUTF8(m, "\uFFFD")
	}
	return &fault{code: code, text: m}
}

// reply returns the fault as an answer.
func (f *fault) reply() reply { return faultReply{f.code, f.text} }

// Transport.

func badMethod(method string) *fault {
	return failWith(codeBadRequest, "http method '", method, "' not allowed; only POST")
}

func noMethod(path string) *fault {
	return failWith(codeNotImplemented, "no such method; ", path)
}

func bodyTooLarge(limit int64) *fault {
	return failWith(codeBadRequest, "request body exceeds ", formatSize(limit), " limit")
}

func badContentType(value string) *fault {
	return failWith(codeClientContent, "Content-Type header '", value, "' is invalid format or unrecognized content type")
}

func badAccept(value string) *fault {
	return failWith(codeClientContent, "Accept header '", value, "' is invalid format or unrecognized content type, "+
		"only [application/json,application/protobuf] are supported by this method")
}

// undecodable passes on what the decoder says. Its blank after "proto:" is one of two by the
// build's whim; a plain one is always sent.
func undecodable(err error) *fault {
	return failWith(codeClientContent, strings.ReplaceAll(err.Error(), "\u00a0", " "))
}

var (
	errUnreadable = &fault{codeTransport, "while reading request body"}
	errInternal   = &fault{codeInternal, "Internal Error"}
)

// Queue names and lookup.

var errNameEmpty = &fault{codeBadRequest, "queue name is invalid; queue name cannot be empty"}

func tooLong(what string, limit string) *fault {
	return failWith(codeBadRequest, what, " is invalid; cannot be greater than '", limit, "' characters")
}

func hasWhitespace(what, value string) *fault {
	return failWith(codeBadRequest, what, " is invalid; '", value, "' cannot contain whitespace")
}

func hasCharacter(what, value, char string) *fault {
	return failWith(codeBadRequest, what, " is invalid; '", value, "' cannot contain '", char, "' character")
}

func noQueue(name string) *fault {
	return failWith(codeBadRequest, "queue does not exist; no such queue named '", name, "'")
}

func queueExists(name string) *fault {
	return failWith(codeBadRequest, "invalid queue; '", name, "' already exists")
}

// Timeouts of requests.

var errTimeoutRequired = &fault{codeBadRequest, "request timeout is required; '5m' is recommended, 15m is the maximum"}

func badTimeout(err error) *fault {
	return failWith(codeBadRequest, "request timeout is invalid; ", err.Error(), " - expected format: 900ms, 5m or 15m")
}

func timeoutTooLong(d time.Duration, over string) *fault {
	return failWith(codeBadRequest, "request timeout is invalid; maximum timeout is '15m' but '", d.String(), "' ", over)
}

func timeoutTooShort(d time.Duration) *fault {
	return failWith(codeBadRequest, "request timeout is invalid; minimum timeout is '10ms' but '", d.String(), "' was requested")
}

// Items and ids.

var (
	errNoProduceItems = &fault{codeBadRequest, "items cannot be empty; at least one item is required"}
	errNoIDs          = &fault{codeBadRequest, "ids is invalid; list of ids cannot be empty"}
	errNoItems        = &fault{codeBadRequest, "items is invalid; list of items cannot be empty"}
	errNoClient       = &fault{codeBadRequest, "invalid client id; cannot be empty"}
	errNoBatchSize    = &fault{codeBadRequest, "invalid batch size; must be greater than zero"}
)

func batchTooLarge(what, limitName, limit, got string) *fault {
	return failWith(codeBadRequest, what, " is invalid; ", limitName, " is ", limit, " but received ", got)
}

func batchSizeTooLarge(d *dialect, limit, got string) *fault {
	return failWith(codeBadRequest, "invalid batch size; max_", d.verb, "_batch_size is ", limit, ", but ", got, " was requested")
}

func duplicateClient(d *dialect) *fault {
	return failWith(codeBadRequest, "duplicate client id; a client cannot make multiple ", d.simultaneous, " to the same queue")
}

// noPartition is a code of its own in R1, which meant to move partitions between servers.
func noPartition(d *dialect, number string) *fault {
	if d.gen == R1 {
		return failWith(codeRetryRequest, "partition not found; partition '", number, "' may have moved, retry again")
	}
	return badPartition(number)
}

func badPartition(number string) *fault {
	return failWith(codeBadRequest, "partition is invalid; '", number, "' is not a valid partition")
}

func malformedID(id string, err error) *fault {
	return failWith(codeBadRequest, "invalid storage id; '", id, "': ", err.Error())
}

func noItem(id string) *fault {
	return failWith(codeBadRequest, "invalid storage id; '", id, "' does not exist")
}

func notLeased(d *dialect, act, id string) *fault {
	return failWith(codeBadRequest, "item(s) cannot be ", act, "; '", id, "' is not marked as ", d.past)
}

// Queue records.

func cannotBeEmpty(what string) *fault {
	return failWith(codeBadRequest, what, " is invalid; cannot be empty")
}

func cannotBeNegative(what string) *fault {
	return failWith(codeBadRequest, what, " is invalid; cannot be negative")
}

func badQueueTimeout(what string, err error, dash, formats string) *fault {
	return failWith(codeBadRequest, what, " is invalid; ", err.Error(), dash, "expected format: ", formats)
}

func leaseOverExpire(d *dialect, lease, expire time.Duration) *fault {
	return failWith(codeBadRequest, d.verb, " timeout is too long; ", lease.String(),
		" cannot be greater than the ", d.expire, " timeout ", expire.String())
}

var (
	errMaxAttemptsNegative = &fault{codeBadRequest, "max attempts is invalid; cannot be negative number"}
	errMaxAttemptsLarge    = &fault{codeBadRequest, "max attempts is invalid; cannot be greater than 65536"}
	errNoPartitions        = &fault{codeBadRequest, "partitions is invalid; cannot be less than 1"}
	errManyPartitions      = &fault{codeBadRequest, "partitions is invalid; cannot be greater than 10000"}
	errDeadQueueSelf       = &fault{codeBadRequest, "dead_queue cannot reference itself"}
	errLimitNegative       = &fault{codeBadRequest, "limit is invalid; limit cannot be negative"}
	errLimitLarge          = &fault{codeBadRequest, "limit is invalid; cannot be greater than 65536"}
)

// errNoQueueToUpdate is what every generation but the newest says of an unknown queue, here only.
var errNoQueueToUpdate = &fault{codeRequestFailed, "queue does not exist"}

// nothingToClear names the flags of the generation, with the one for retries that did nothing.
func nothingToClear(d *dialect) *fault {
	again := ""
	switch d.gen {
	case R1, R2:
		again = "'defer', "
	case L1:
		again = "'retry', "
	default:
	}
	return failWith(codeBadRequest, "invalid clear request; one of 'queue', ", again, "'scheduled' must be true")
}

func noDeadQueue(d *dialect, name string) *fault {
	if d.gen == L1 {
		return failWith(codeBadRequest, "dead_queue '", name, "' does not exist; create it first")
	}
	return failWith(codeBadRequest, "dead_queue does not exist; '", name, "' was not found, create it first")
}

func deadQueueHasDeadQueue(d *dialect, name string) *fault {
	if d.gen == L1 {
		return failWith(codeBadRequest, "dead_queue '", name, "' cannot have its own dead_queue")
	}
	return failWith(codeBadRequest, "dead_queue is invalid; '", name, "' already has its own dead_queue configured")
}

// operation is what an error of the core needs beside its code to be worded: whose words, which
// queue, and what was being done to which items.
type operation struct {
	dialect *dialect
	queue   string
	// partition is the number as given, for messages about it.
	partition string
	// act is "completed" or "retried" ("deferred" in the reserve family).
	act string
	// ids are the request's item ids, which the core names by index.
	ids []string
}

// id returns the item that err blames, or "" for none.
func (o *operation) id(err error) string {
	if i := core.ItemOf(err); i >= 0 && i < len(o.ids) {
		return o.ids[i]
	}
	return ""
}

// errStoreFailed is what the originals say when a change could not be written; nothing was.
var errStoreFailed = &fault{codeRetryRequest, "internal error, try your request again"}

// coreFaults is the one table from the core's codes to answers. A code that is not in it is an
// internal error: it is logged, and its text is not shown.
var coreFaults = map[core.Code]func(*operation, error) *fault{
	core.CodeInvalid: func(_ *operation, err error) *fault {
		return failWith(codeBadRequest, "invalid request; ", causeOf(err))
	},
	core.CodeTooLarge: func(*operation, error) *fault {
		return failWith(codeBadRequest, "items is invalid; an item is larger than the server allows")
	},
	core.CodeNoQueue:     func(o *operation, _ error) *fault { return noQueue(o.queue) },
	core.CodeQueueExists: func(o *operation, _ error) *fault { return queueExists(o.queue) },
	core.CodeQueueInUse: func(o *operation, _ error) *fault {
		return failWith(codeBadRequest, "invalid queue; '", o.queue, "' is the dead_queue of another queue")
	},
	core.CodeNoPartition: func(o *operation, _ error) *fault { return noPartition(o.dialect, o.partition) },
	core.CodeNoMessage:   func(o *operation, err error) *fault { return noItem(o.id(err)) },
	core.CodeLeaseLost:   func(o *operation, err error) *fault { return noItem(o.id(err)) },
	core.CodeNotLeased:   func(o *operation, err error) *fault { return notLeased(o.dialect, o.act, o.id(err)) },
	core.CodeDuplicateClient: func(o *operation, _ error) *fault {
		return duplicateClient(o.dialect)
	},
	core.CodeNothing: func(*operation, error) *fault {
		return &fault{codeRetryRequest, "request timeout; no items are in the queue, try again"}
	},
	core.CodeOverloaded: func(*operation, error) *fault { return errOverloaded },
	core.CodePaused: func(*operation, error) *fault {
		return &fault{codeRetryRequest, "queue is paused; delivery is paused, try again later"}
	},
	core.CodeClosed:      func(*operation, error) *fault { return errShutdown },
	core.CodeDeleted:     func(*operation, error) *fault { return errShutdown },
	core.CodeConflict:    func(*operation, error) *fault { return errStoreFailed },
	core.CodeUnavailable: func(*operation, error) *fault { return errStoreFailed },
	// The client must not repeat what may be stored, and its library repeats 454 and 500.
	core.CodeUnknown: func(*operation, error) *fault {
		return &fault{codeRequestFailed, "request failed; the server cannot tell whether it took effect"}
	},
	core.CodeFull: func(*operation, error) *fault {
		return &fault{codeRequestFailed, "request failed; the server's storage is full"}
	},
	core.CodeReadOnly: func(*operation, error) *fault {
		return &fault{codeRequestFailed, "request failed; the server's storage is read only"}
	},
	core.CodeCanceled: func(*operation, error) *fault {
		return &fault{codeRequestFailed, "request failed; context canceled"}
	},
}

var (
	errOverloaded = &fault{codeRetryRequest, "queue is overloaded; try again later"}
	errShutdown   = &fault{codeRequestFailed, "queue is shutting down"}
)

// causeOf returns the sentence inside a core error, without the operation that logs show.
func causeOf(err error) string {
	var e *core.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err.Error()
	}
	return err.Error()
}
