package cfqueues

import (
	"net/http"
	"net/url"
	"strings"
)

// vendorPrefix is the path that the vendor's base URL ends with. Users set their base
// URL with it or without it, so both are served.
const vendorPrefix = "/client/v4"

// normalize lets the router see one form of every path: no doubled slashes, no slash
// at the end, no vendor prefix. It never redirects, because several clients drop
// their body or their credentials on a redirect. Escapes stay as they are: "%2F" is
// part of a name, and only the router's parameters are decoded.
func normalize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Not EscapedPath alone: it escapes anew when the client left a byte such as
		// '|' as it is, and then an escaped slash would split a segment.
		escaped := r.URL.RawPath
		if escaped == "" {
			escaped = r.URL.EscapedPath()
		}
		clean := cleanPath(escaped)
		if clean != r.URL.RawPath {
			decoded, err := url.PathUnescape(clean)
			if err != nil {
				writeError(w, errNoRoute(clip(escaped)))
				return
			}
			u := *r.URL
			u.Path, u.RawPath = decoded, clean
			copied := *r
			copied.URL = &u
			r = &copied
		}
		next.ServeHTTP(w, r)
	})
}

// cleanPath is the form of an escaped path that the routes are written in.
func cleanPath(p string) string {
	if strings.Contains(p, "//") {
		var b strings.Builder
		for _, segment := range strings.Split(p, "/") {
			if segment != "" {
				b.WriteByte('/')
				b.WriteString(segment)
			}
		}
		p = b.String()
	}
	p = strings.TrimSuffix(p, "/")
	if rest, ok := strings.CutPrefix(p, vendorPrefix); ok && (rest == "" || rest[0] == '/') {
		p = rest
	}
	if p == "" {
		return "/"
	}
	return p
}
