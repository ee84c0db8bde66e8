package queen

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
)

// separator may not occur in a queue, partition, group or transaction id:
// the original joins names with it (protocol §3.1).
const separator = "\x1f"

// routeEscaped lets the router see the path as the client wrote it. Splitting
// the decoded path would tear a name with "%2F" in two, and decoding what
// net/http has decoded would turn "%2525" into "%". A path without any escape
// is the common case and passes as it is.
func routeEscaped(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawPath == "" && !strings.ContainsRune(r.URL.Path, '%') {
			next.ServeHTTP(w, r)
			return
		}
		escaped := r.URL.RawPath
		if escaped == "" {
			// The text differs from what came in at most by escapes that
			// stand for the same bytes.
			escaped = (&url.URL{Path: r.URL.Path}).EscapedPath()
		}
		u := *r.URL
		u.Path, u.RawPath = escaped, ""
		clone := *r
		clone.URL = &u
		next.ServeHTTP(w, &clone)
	})
}

// pathName decodes one segment of the path, once. A '+' stays a '+'.
func pathName(c *gin.Context, param string) (string, error) {
	value := c.Param(param)
	if strings.ContainsRune(value, '%') {
		decoded, err := url.PathUnescape(value)
		if err != nil {
			return "", bodyErrorf("%s in the path: invalid percent escape", param)
		}
		value = decoded
	}
	return value, checkName(param, value)
}

// checkName refuses what no name may contain. The empty name is legal
// (protocol §3.6).
func checkName(what, name string) error {
	if strings.Contains(name, separator) {
		return bodyErrorf("%s must not contain the byte 0x1F", what)
	}
	if !utf8.ValidString(name) {
		return bodyErrorf("%s must be valid UTF-8", what)
	}
	return nil
}

// spellings lists the names that a management path can mean, in the order in
// which to try them: PHP writes a space as '+' in a path (protocol §7.4).
func spellings(name string) []string {
	if !strings.ContainsRune(name, '+') {
		return []string{name}
	}
	return []string{name, strings.ReplaceAll(name, "+", " ")}
}
