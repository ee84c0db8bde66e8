package queen

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
)

// TestPathNames sends paths the way SDKs do and looks at the names that arrive.
func TestPathNames(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	g := gin.New()
	g.RedirectTrailingSlash = false
	g.NoRoute(func(c *gin.Context) { c.String(http.StatusNotFound, "none") })
	g.GET("/q/:queue", show("queue"))
	g.GET("/q/:queue/p/:partition", show("queue", "partition"))
	h := routeEscaped(g)
	for target, want := range map[string]string{
		"/q/plain":                  `"plain"`,
		"/q/a.b/p/c-d_e":            `"a.b" "c-d_e"`,
		"/q/a%2Fb":                  `"a/b"`,
		"/q/a%2fb/p/%2F":            `"a/b" "/"`,
		"/q/a|b%2Fc":                `"a|b/c"`,
		"/q/%22x%22":                `"\"x\""`,
		"/q/a+b":                    `"a+b"`,
		"/q/a%2Bb":                  `"a+b"`,
		"/q/a%20b":                  `"a b"`,
		"/q/100%25":                 `"100%"`,
		"/q/%2525":                  `"%25"`,
		"/q/%252F":                  `"%2F"`,
		"/q/é":                      `"é"`,
		"/q/%C3%A9":                 `"é"`,
		"/q/a:b;c=d,e@f!$&'()*[]^~": `"a:b;c=d,e@f!$&'()*[]^~"`,
		"/q/a%00b":                  `"a\x00b"`,
		"/q/%3F%23":                 `"?#"`,
		"/q/partition/p/p":          `"partition" "p"`,
		"/q/%ff":                    "error: queue must be valid UTF-8",
		"/q/a%1Fb":                  "error: queue must not contain the byte 0x1F",
		"/q/a/p":                    "none",
		"/q/a/":                     "none",
		"/q/a/p/b/":                 "none",
		"//q/a":                     "none",
		"/Q/a":                      "none",
	} {
		r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, want, w.Body.String(), target)
	}
}

func show(params ...string) gin.HandlerFunc {
	return func(c *gin.Context) {
		out := ""
		for _, p := range params {
			name, err := pathName(c, p)
			if err != nil {
				c.String(http.StatusBadRequest, "error: %s", err.Error())
				return
			}
			if out != "" {
				out += " "
			}
			out += fmt.Sprintf("%q", name)
		}
		c.String(http.StatusOK, "%s", out)
	}
}

func TestSpellings(t *testing.T) {
	assert.Equal(t, []string{"a b"}, spellings("a b"))
	assert.Equal(t, []string{"a+b", "a b"}, spellings("a+b"))
}
