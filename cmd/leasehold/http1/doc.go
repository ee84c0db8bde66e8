// Package http1 serves a handler over HTTP/1.1 at less cost per request than
// net/http, and leaves to net/http whatever is out of the ordinary.
//
// A request of a queue's client is small, arrives in one piece and is followed
// by the next one on the same connection. For such requests the work of
// net/http (a goroutine that reads ahead to notice a client that leaves, two
// deadlines, a header parsed anew though it is the last one's) costs more than
// storing the message. The server here reads a request that is plain in every
// respect itself. At the first one that is not (another version of HTTP, a
// transfer encoding, "Expect", an upgrade, a header in several pieces, any
// byte that the strict grammar has no place for) it gives the connection, with
// the bytes read so far, to a [net/http.Server] of the same settings, which
// keeps it. So there is one arbiter of odd and malformed requests, and it is the
// standard library: what is read here is a subset on which no two readers of
// HTTP disagree.
//
// What a handler sees is as with net/http: the request's context ends when the
// client leaves, a body is read as it arrives, an answer without a length is
// given one or is sent in chunks, a panic closes the connection. It differs in
// three ways: answers are sent when the handler returns or when there are more
// than [streamAfter] bytes of them or on Flush; a request's header must not be
// changed, since it may be shown again for the next request; and connections
// cannot be hijacked.
package http1
