// Package httpapi is what the protocol adapters and the admin listener share
// about HTTP: reading a body within a limit, request ids, recovery from a
// panic in the protocol's own words, the access log and the measuring of
// requests.
//
// An adapter wraps its whole router once:
//
//	return httpapi.Wrap(router, httpapi.Options{
//		Protocol: "queen", Logger: o.Logger, Now: o.Now, Observer: o.Observer,
//		Panic: func(w http.ResponseWriter, r *http.Request) { writeError(w, internal) },
//	})
//
// and names the route of each request with [SetRoute], since the log and the
// metrics show the route's pattern and never the path as sent: a path may
// hold a lease id, a query a token.
//
// # Paths
//
// The server hands paths over as they came. A gin router must be built with
// UseRawPath on and UnescapePathValues off (gin would turn "+" into a space;
// url.PathUnescape, once per value, does not) and with RedirectTrailingSlash,
// RedirectFixedPath and HandleMethodNotAllowed off: then "%2F" does not split
// a segment and no client meets a redirect, on which several drop the body. A
// handler that does its own routing uses [Segments], which follows the same
// rules. A request line that is no URL at all ("%zz", a control character) is
// refused by net/http with 400 before any handler runs.
package httpapi
