package cfqueues

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

// waitOf is how long a pull waits for messages: what its body says, else what the
// header prefers, else not at all, as the vendor does. A preference that is applied is
// confirmed in the answer's headers.
func (s *server) waitOf(c *gin.Context, in *pullRequest) time.Duration {
	if in.wait != nil {
		return *in.wait
	}
	d, ok := preferredWait(c.Request.Header)
	if !ok {
		return 0
	}
	// A preference above the bound is met as far as it goes.
	d = min(d, s.o.Limits.MaxWait)
	c.Writer.Header().Set("Preference-Applied", "wait="+strconv.FormatInt(int64(d/time.Second), 10))
	return d
}

// preferredWait reads the wait preference of RFC 7240, whole seconds. What cannot be
// read is no preference, as that document asks.
func preferredWait(h http.Header) (time.Duration, bool) {
	for _, line := range h.Values("Prefer") {
		for preference := range strings.SplitSeq(line, ",") {
			// Parameters after a semicolon belong to a preference; wait has none.
			token, _, _ := strings.Cut(preference, ";")
			name, value, _ := strings.Cut(token, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err != nil {
				return 0, false
			}
			return time.Duration(n) * time.Second, true
		}
	}
	return 0, false
}
