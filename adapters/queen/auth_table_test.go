package queen_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
)

// roles of a token and the levels that each passes, as the protocol's table has them.
var rolePasses = map[string][]string{
	"admin":      {"admin", "read-write", "read-only", "write-only"},
	"read-write": {"read-write", "read-only", "write-only"},
	"read-only":  {"read-only"},
	"write-only": {"write-only"},
	"":           nil,
	"janitor":    nil,
}

// listedRoute is a line of testdata/levels.txt.
type listedRoute struct{ method, path, level string }

func readLevels(t *testing.T) []listedRoute {
	t.Helper()
	text, err := os.ReadFile("testdata/levels.txt")
	require.NoError(t, err)
	var out []listedRoute
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] != "#" {
			out = append(out, listedRoute{f[0], f[1], f[2]})
		}
	}
	return out
}

// credential is a way to come with a token, and the refusal that it must meet; an empty one is a good token.
type credential struct {
	name    string
	header  func(role string) string
	refusal string
}

// tableConfig is one way to configure keys, with the credentials that make sense under it.
type tableConfig struct {
	name        string
	auth        func(t *testing.T) queen.Auth
	credentials []credential
}

// tableNow is the time of every table's clock.
var tableNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// tokenOf makes the header of a token under a key, with its claims changed by change.
func tokenOf(algorithm, id string, key func() any, change func(jwt.MapClaims)) func(string) string {
	return func(role string) string {
		claims := claimsOf("someone", role, tableNow.Add(time.Hour))
		if change != nil {
			change(claims)
		}
		return "Bearer " + sign(algorithm, id, key(), claims)
	}
}

// forgeries are the credentials that no configuration lets in, whatever role they claim.
func forgeries(algorithm, id string, good, bad, confused func() any, confusedText string) []credential {
	with := func(change func(jwt.MapClaims)) func(string) string {
		return tokenOf(algorithm, id, good, change)
	}
	return []credential{
		{"valid", with(nil), ""},
		{"valid without expiry", with(func(c jwt.MapClaims) { delete(c, "exp") }), ""},
		{"bare token", func(role string) string { return strings.TrimPrefix(with(nil)(role), "Bearer ") }, ""},
		{"expired within the skew", with(func(c jwt.MapClaims) { c["exp"] = tableNow.Unix() - 29 }), ""},
		{"no token", func(string) string { return "" }, "Authentication required"},
		{"empty bearer", func(string) string { return "Bearer " }, "Authentication required"},
		{"basic", func(string) string { return "Basic YWRtaW46YWRtaW4=" }, "Authentication required"},
		{"no JWT", func(string) string { return "Bearer abc" }, "Bad token header"},
		{"expired", with(func(c jwt.MapClaims) { c["exp"] = tableNow.Unix() - 31 }), "Token has expired"},
		{"not yet valid", with(func(c jwt.MapClaims) { c["nbf"] = tableNow.Unix() + 31 }), "Token not yet valid"},
		{"issued in the future", with(func(c jwt.MapClaims) { c["iat"] = tableNow.Unix() + 31 }), "Token issued in the future"},
		{"wrong key", tokenOf(algorithm, id, bad, nil), "Invalid token signature"},
		{"wrong audience", with(func(c jwt.MapClaims) { c["aud"] = "else" }), "Invalid token audience"},
		{"no audience", with(func(c jwt.MapClaims) { delete(c, "aud") }), "Invalid token audience"},
		{"wrong issuer", with(func(c jwt.MapClaims) { c["iss"] = "else" }), "Invalid token issuer"},
		{"no issuer", with(func(c jwt.MapClaims) { delete(c, "iss") }), "Invalid token issuer"},
		{"alg none", tokenOf("none", id, func() any { return jwt.UnsafeAllowNoneSignatureType }, nil), "Unsupported token algorithm"},
		{"confusion", tokenOf("HS256", id, confused, nil), confusedText},
		{"cut", func(role string) string {
			token := with(nil)(role)
			return token[:strings.LastIndexByte(token, '.')+1]
		}, "Invalid token signature"},
	}
}

func tableConfigs() []tableConfig {
	secret := func() any { return []byte(secretKey) }
	rsaPEM := publicPEM(&newSigner().rsa.PublicKey)
	goodRSA := func() any { return newSigner().rsa }
	return []tableConfig{
		{"secret", func(*testing.T) queen.Auth {
			return queen.Auth{Secret: []byte(secretKey), Issuer: "issuer", Audience: "leasehold"}
		}, forgeries("HS256", "", secret, func() any { return []byte("another secret, just as long as the good one") },
			func() any { return rsaPEM }, "Invalid token signature")},
		{"public key", func(*testing.T) queen.Auth {
			return queen.Auth{PublicKey: rsaPEM, Issuer: "issuer", Audience: "leasehold"}
		}, forgeries("RS256", "", goodRSA, func() any { return otherSigner().rsa },
			func() any { return rsaPEM }, "Unsupported token algorithm")},
		{"key set beside a secret", func(t *testing.T) queen.Auth {
			t.Helper()
			i := newIssuer(t, rsaJWK("r", &newSigner().rsa.PublicKey), edJWK(newSigner().ed.Public()))
			return queen.Auth{Secret: []byte(secretKey), JWKS: queen.JWKS{URL: i.URL}, Issuer: "issuer", Audience: "leasehold"}
		}, append(forgeries("EdDSA", "e", func() any { return newSigner().ed }, func() any { return otherSigner().ed },
			func() any { return rsaPEM }, "Invalid token signature"),
			credential{"unknown key", tokenOf("RS256", "x", goodRSA, nil), "Unknown key ID"},
			credential{"another key's id", tokenOf("RS256", "e", goodRSA, nil), "Unknown key ID"})},
	}
}

// TestEveryRouteByEveryRole walks every route under every role with every credential, good and forged: one request for each cell.
func TestEveryRouteByEveryRole(t *testing.T) {
	listed := readLevels(t)
	table := queen.RouteTable()
	for _, r := range table {
		assert.True(t, slices.ContainsFunc(listed, func(l listedRoute) bool { return l.method == r[0] && l.path == r[1] }),
			"%v is not in testdata/levels.txt", r)
	}
	// What is not built is answered as any other path without a route.
	listed = slices.DeleteFunc(listed, func(l listedRoute) bool {
		return l.level != "unlisted" && !slices.Contains(table, [2]string{l.method, l.path})
	})
	for _, config := range tableConfigs() {
		t.Run(config.name, func(t *testing.T) {
			var log bytes.Buffer
			auth := config.auth(t)
			b := newBroker(t, queen.Options{
				Auth: auth, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
				Now: func() time.Time { return tableNow },
			})
			cells, secrets := 0, []string{secretKey, "hunter2"}
			for _, c := range config.credentials {
				for role := range rolePasses {
					header := c.header(role)
					if len(header) > 20 {
						secrets = append(secrets, header)
					}
					for _, r := range listed {
						checkCell(t, b.server.Config.Handler, r, c, role, header)
						cells++
					}
				}
			}
			for _, s := range secrets {
				require.NotContains(t, log.String(), s)
			}
			t.Logf("%d cells: %d routes, %d roles, %d credentials", cells, len(listed), len(rolePasses), len(config.credentials))
		})
	}
}

// checkCell sends one request and compares its answer with the table's. A body that no route takes keeps what is let in from doing anything.
func checkCell(t *testing.T, h http.Handler, r listedRoute, c credential, role, header string) {
	t.Helper()
	path := r.path
	for _, name := range []string{":queue", ":partitionId", ":partition", ":transactionId", ":group", ":leaseId", ":id", ":traceName"} {
		path = strings.ReplaceAll(path, name, "x")
	}
	request := httptest.NewRequest(r.method, path, strings.NewReader("no JSON"))
	if header != "" {
		request.Header.Set("Authorization", header)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request)
	level := r.level
	if level == "unlisted" {
		level = "read-write"
	}
	switch {
	case level == "public" || level == "skipped":
		assert.NotContains(t, []int{401, 403}, w.Code, "%v %s as %q", r, c.name, role)
	case c.refusal != "":
		assert.Equal(t, 401, w.Code, "%v %s as %q", r, c.name, role)
		assert.Equal(t, `{"error":"`+c.refusal+`"}`, w.Body.String(), "%v %s as %q", r, c.name, role)
	case slices.Contains(rolePasses[role], level):
		assert.NotContains(t, []int{401, 403}, w.Code, "%v %s as %q: %s", r, c.name, role, w.Body.String())
	default:
		assert.Equal(t, 403, w.Code, "%v %s as %q", r, c.name, role)
		exactly(t, `{"error":"Insufficient permissions"}`, w.Body.String())
	}
}
