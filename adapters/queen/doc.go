// Package queen speaks the HTTP API of Queen MQ over the core engine, so that
// Queen's own SDKs and its command line can use Leasehold unchanged.
//
// It holds no rule of delivery: it decodes a request, calls the engine and puts
// the outcome into the protocol's words. The rules that it does hold are the
// wire's: bodies may be missing, "{}", "[]" or full of nulls and carry any
// content type; names are cut out of the path before they are decoded, once;
// payloads come out byte for byte as they went in; an empty pop is a bare 204.
//
// # Long polls
//
// A pop with wait=true parks for its timeout. Queen's Go client caps a request
// at 30 s, which is also its usual timeout, so an answer at the deadline itself
// comes too late for it: where the timeout is a second or more, the wait ends
// 100 ms before it. A pop whose client has gone claims nothing.
//
// # Dead letters
//
// A replay is one commit: the message is appended to its partition again and its dead letter is gone, or neither. Under
// /api/v1/dlq/:id/replay it gets the transaction id "dlq:<row id>", so that a repetition of the call can be told from a second
// message; under /api/v1/messages/…/retry it keeps the id that it had.
//
// # Streams
//
// A cycle is one commit of pushes, state and acknowledgement. A pushed message whose transaction id is known already is left out and
// reported as a duplicate; it does not refuse the cycle, since a step that is done again must be able to succeed. A cycle whose
// lease is not live stores nothing. State that nobody writes for 90 days and traces older than 7 days are deleted (core.Options).
//
// # Features of later releases
//
// conflation and autopilot are understood, since newer SDKs send them and check the echo: conflation is fixed by a group's first contact
// with a queue, a pop of such a group is answered with 200 even when it is empty, and what a newer message overtakes is settled when that one
// is delivered. deliveryAttempt is a setting. Key/value, timers and ephemeral queues are "no such route".
//
// # Tests by paragraph
//
// The suite in spec_*_test.go runs every rule over every store; "go test -run TestParagraphs -v" lists the paragraphs that are covered and
// the gaps. TestModel compares a random run with a model; LEASEHOLD_QUEEN_MODEL_TIME=10m makes it a long one.
//
// # Tokens
//
// Every route has a level, and with a key configured every request needs a token whose role passes it, before anything of the request is
// read (auth.go). What a message says of its producer is the verified token's subject.
//
// # What is not here
//
// priority, ttl, maxSize, retryDelay and the sink options are stored and shown and never enforced, by the original neither. Idle partitions
// are kept. Acknowledgements do not count what a newer message overtook: that is settled when the newer one is delivered, not when it is
// acknowledged.
package queen
