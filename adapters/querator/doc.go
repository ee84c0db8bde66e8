// Package querator speaks the HTTP protocol of Querator over the engine: POST requests whose body
// is one message in JSON or protobuf, for both families of names that its clients use
// (queue.reserve with reserve_timeout, queue.lease with lease_timeout).
//
// A request passes the checks in a fixed order, and the first failure is the answer: method,
// authorization header, route, body size, body decoding, queue, partition, durations, remaining
// fields. Messages are in errors.go and nowhere else.
//
// What a generation spells differently is in its dialect; what a message is called in JSON is in
// the .proto files under pb, whose field numbers are the protocol's.
package querator
