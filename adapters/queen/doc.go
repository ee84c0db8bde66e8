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
// # What is not here yet
//
// Seek, subscription and group routes, message and trace routes, streams, maintenance, metrics, dead-letter replay and
// authentication answer the protocol's "no such route". The options windowBuffer, minPopWaitTime and
// encryptionEnabled are stored and shown, not enforced; priority, ttl, maxSize, retryDelay and the sink options never
// are, by the original neither.
package queen
