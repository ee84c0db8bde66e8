package httpapi

import (
	"net/http"
	"net/url"
	"strings"
)

// Segments splits a request's path at its slashes and then decodes each
// segment once, so that "%2F" stays inside a segment. Empty segments are
// kept: "/a//b/" has the segments "a", "", "b" and "".
func Segments(r *http.Request) ([]string, error) {
	// RawPath and not EscapedPath: the latter encodes anew when a client left
	// a byte such as "|" as it was, and then "%2F" is no longer told from "/".
	if r.URL.RawPath == "" {
		return strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/"), nil
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.RawPath, "/"), "/")
	for i, p := range parts {
		s, err := url.PathUnescape(p)
		if err != nil {
			return nil, err
		}
		parts[i] = s
	}
	return parts, nil
}
