// Package cfqueues speaks the HTTP pull side of Cloudflare Queues: queues, pull
// consumers, pushes, pulls, acknowledgements, purges and metrics.
//
// A request passes three steps. The decoders (decode.go, wire.go) turn a body into a
// plain struct or into the protocol's own error, the handlers translate that struct
// into one call of the engine, and the encoders (encode.go, envelope.go) put the
// protocol's envelope around the answer. Every rule about leases, delays and dead
// letters is the engine's; this package only knows how they look on the wire.
//
// Bodies are scanned by a decoder of our own on top of [encoding/json.Valid]. The
// payload of a message must be kept byte for byte, field names are case-sensitive in
// this protocol, and an error has to name the path of the field; the standard decoder
// gives none of the three.
package cfqueues
