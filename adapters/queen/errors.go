package queen

import (
	"errors"
	"net/http"

	"github.com/leasehold/leasehold/adapters/internal/httpapi"
	"github.com/leasehold/leasehold/core"
)

// reply is what the protocol says to an error: a status with
// {"error":"<text>"} (protocol §1, rule 9).
type reply struct {
	status int
	text   string
}

// replies is the one table from the core's codes to this protocol's answers.
// A storage failure is one of the two texts of §1, rule 17; what is particular
// about a route (a pop that found nothing, the texts of acknowledgement items)
// is in that route's file and in itemTexts.
var replies = map[core.Code]reply{
	core.CodeInternal:      {http.StatusInternalServerError, "internal error"},
	core.CodeTooLarge:      {http.StatusRequestEntityTooLarge, "message too large"},
	core.CodeNoQueue:       {http.StatusNotFound, "Queue not found"},
	core.CodeDeleted:       {http.StatusNotFound, "Queue not found"},
	core.CodeQueueExists:   {http.StatusConflict, "Queue already exists"},
	core.CodeQueueInUse:    {http.StatusConflict, "Queue is the dead letter queue of another queue"},
	core.CodeNoPartition:   {http.StatusNotFound, "Partition not found"},
	core.CodeNoMessage:     {http.StatusNotFound, "Message not found"},
	core.CodeConflict:      {http.StatusInternalServerError, "changed concurrently, try again"},
	core.CodeOverloaded:    {http.StatusInternalServerError, "pool"},
	core.CodeUnavailable:   {http.StatusInternalServerError, "pool"},
	core.CodeClosed:        {http.StatusInternalServerError, "pool"},
	core.CodeFull:          {http.StatusInternalServerError, "storage is full"},
	core.CodeReadOnly:      {http.StatusInternalServerError, "storage is read-only"},
	core.CodeFormat:        {http.StatusInternalServerError, "storage is damaged"},
	core.CodeUnknown:       {http.StatusInternalServerError, "outcome unknown, the change may have been stored"},
	core.CodeUnimplemented: {http.StatusNotFound, "Not Found"},
}

// itemTexts are the errors of single acknowledgements (protocol §3.3). A
// partition that does not exist is one that the group has never touched.
var itemTexts = map[core.Code]string{
	core.CodeLeaseLost:    "invalid or expired lease",
	core.CodeCommitted:    "already committed: the cursor moved past this message before this ack",
	core.CodeUnresolvable: "unresolvable: transaction not in the ack window (hash purged or never pushed); if leased, the message redelivers",
	core.CodeNoConsumer:   "consumer not found",
	core.CodeNoPartition:  "consumer not found",
	core.CodeDeleted:      "consumer not found",
}

// ackFlushFailed is the error of an acknowledgement that the store did not take.
const ackFlushFailed = "ack flush failed; lease will expire and redeliver"

func itemText(err error) string {
	if text, ok := itemTexts[core.CodeOf(err)]; ok {
		return text
	}
	return ackFlushFailed
}

// replyTo finds the answer to an error of the decoders, of the body's reader
// or of the engine.
func replyTo(err error) reply {
	var body *bodyError
	switch {
	case errors.As(err, &body):
		return reply{http.StatusBadRequest, body.text}
	case errors.Is(err, httpapi.ErrTooLarge):
		return reply{http.StatusRequestEntityTooLarge, "request body too large"}
	case errors.Is(err, httpapi.ErrUnreadable):
		return reply{http.StatusBadRequest, "bad body: could not be read"}
	}
	code := core.CodeOf(err)
	if code == core.CodeInvalid {
		return reply{http.StatusBadRequest, causeText(err)}
	}
	if r, ok := replies[code]; ok {
		return r
	}
	return replies[core.CodeInternal]
}

// causeText is what the core says about an invalid argument, without the name
// of its operation.
func causeText(err error) string {
	var e *core.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err.Error()
	}
	return "invalid request"
}

// badBody marks what a decoder found as the fault of the body (protocol §1,
// rule 10). Errors of other kinds pass through.
func badBody(err error) error {
	var body *bodyError
	if errors.As(err, &body) {
		return bodyErrorf("bad body: %s", body.text)
	}
	return err
}

func writeError(w http.ResponseWriter, r reply) {
	answer(w, r.status, func(b []byte) []byte {
		return append(appendStringField(append(b, '{'), "error", r.text), '}')
	})
}

// writeNoRoute answers what no route matches (protocol §1, rule 13), and what
// this build does not have.
func writeNoRoute(w http.ResponseWriter) {
	answer(w, http.StatusNotFound, func(b []byte) []byte {
		return append(b, `{"error":"Not Found","code":"no_such_route"}`...)
	})
}
