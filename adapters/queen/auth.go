package queen

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
)

// DefaultClockSkew is how far apart the clocks of this server and of a token's issuer may be.
const DefaultClockSkew = 30 * time.Second

// DefaultSkipPaths need no token (protocol §5.4).
func DefaultSkipPaths() []string { return []string{"/health", "/metrics", "/metrics/prometheus", "/"} }

// Auth says which tokens are let in. The zero value lets everybody in.
type Auth struct {
	// Secret is the key of HS256, HS384 and HS512.
	Secret []byte
	// PublicKey is the key of RS256, RS384 and RS512, or of EdDSA, as PEM: a public key or a certificate.
	PublicKey []byte
	// JWKS fetches a key set for RS256, RS384, RS512 and EdDSA.
	JWKS JWKS
	// Algorithm is one of HS256, HS384, HS512, RS256, RS384, RS512 and EdDSA, or "auto" (the default) for every one that there is a key for.
	Algorithm string
	// Issuer and Audience, where set, must be the token's "iss" and among its "aud".
	Issuer, Audience string
	// ClockSkew is allowed on a token's times; negative is none. Default: DefaultClockSkew.
	ClockSkew time.Duration
	// SkipPaths need no token, by exact path. Default (nil): DefaultSkipPaths.
	SkipPaths []string
	// Roles are the words for the roles.
	Roles Roles
}

// Enabled reports whether there is a key at all.
func (a *Auth) Enabled() bool { return len(a.Secret) > 0 || len(a.PublicKey) > 0 || a.JWKS.URL != "" }

// Check reports what is wrong with the settings: keys that cannot be read, and an algorithm without a key.
func (a *Auth) Check() error {
	_, err := newVerifier(*a, verifierOptions{logger: slog.New(slog.DiscardHandler), now: func() time.Time { return time.Time{} }})
	return err
}

// verifier checks tokens.
type verifier struct {
	auth   Auth
	keys   keyRing
	parser *jwt.Parser
}

// verifierOptions are what a verifier needs of the server around it.
type verifierOptions struct {
	logger *slog.Logger
	now    func() time.Time
}

func newVerifier(a Auth, o verifierOptions) (*verifier, error) {
	if a.ClockSkew == 0 {
		a.ClockSkew = DefaultClockSkew
	}
	if a.SkipPaths == nil {
		a.SkipPaths = DefaultSkipPaths()
	}
	a.Roles.fill()
	v := &verifier{auth: a}
	if err := v.keys.load(&v.auth, o); err != nil {
		return nil, err
	}
	options := []jwt.ParserOption{jwt.WithLeeway(max(a.ClockSkew, 0)), jwt.WithIssuedAt(), jwt.WithStrictDecoding(), jwt.WithTimeFunc(o.now)}
	if a.Issuer != "" {
		options = append(options, jwt.WithIssuer(a.Issuer))
	}
	if a.Audience != "" {
		options = append(options, jwt.WithAudience(a.Audience))
	}
	v.parser = jwt.NewParser(options...)
	return v, nil
}

// caller is who a verified token says is calling.
type caller struct {
	subject string
	roles   role
}

// What can be wrong with a token's header or its key.
var (
	errUnknownKey  = errors.New("unknown key id")
	errUnsupported = errors.New("unsupported algorithm")
	errCritical    = errors.New("critical header")
	// errNoKeys tells that no token can be checked now.
	errNoKeys = errors.New("token keys are not available")
)

// tokenTexts are the protocol's words for what is wrong with a token (protocol §5.4), in the order in which they are looked for.
var tokenTexts = []struct {
	err  error
	text string
}{
	{errUnknownKey, "Unknown key ID"},
	{errUnsupported, "Unsupported token algorithm"},
	{errCritical, "Bad token header"},
	{jwt.ErrTokenMalformed, "Bad token header"},
	{jwt.ErrTokenSignatureInvalid, "Invalid token signature"},
	{jwt.ErrTokenUnverifiable, "Unsupported token algorithm"}, // a name that no algorithm has
	{jwt.ErrTokenExpired, "Token has expired"},
	{jwt.ErrTokenNotValidYet, "Token not yet valid"},
	{jwt.ErrTokenUsedBeforeIssued, "Token issued in the future"},
	{jwt.ErrTokenInvalidIssuer, "Invalid token issuer"},
	{jwt.ErrTokenInvalidAudience, "Invalid token audience"},
}

// verify checks a token and returns who it speaks for, or the text of the refusal. Its error is errNoKeys.
func (v *verifier) verify(ctx context.Context, token string) (who caller, refusal string, err error) {
	claims := jwt.MapClaims{}
	_, err = v.parser.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) { return v.keys.find(ctx, t) })
	if errors.Is(err, errNoKeys) {
		return caller{}, "", errNoKeys
	}
	if err != nil {
		return caller{}, v.refusal(claims, err), nil
	}
	subject, _ := claims["sub"].(string)
	return caller{subject: subject, roles: v.auth.Roles.of(claims)}, "", nil
}

// refusal finds the words for an error of the parser, which does not say which required claim is missing.
func (v *verifier) refusal(claims jwt.MapClaims, err error) string {
	for _, t := range tokenTexts {
		if errors.Is(err, t.err) {
			return t.text
		}
	}
	if issuer, _ := claims.GetIssuer(); errors.Is(err, jwt.ErrTokenRequiredClaimMissing) && v.auth.Issuer != "" && issuer == "" {
		return "Invalid token issuer"
	}
	if errors.Is(err, jwt.ErrTokenRequiredClaimMissing) {
		return "Invalid token audience"
	}
	return "Bad token header" // a claim of the wrong type
}

// callerKey is where a request keeps who sent it.
const callerKey = "leasehold.caller"

// authorize lets a request through or answers it. It reports whether the route may run.
func (s *server) authorize(c *gin.Context, want level) bool {
	if !s.o.Auth.Enabled() || want == levelPublic {
		return true
	}
	if s.verifier == nil { // its keys could not be read: nobody gets in
		writeError(c.Writer, reply{http.StatusServiceUnavailable, errNoKeys.Error()})
		return false
	}
	if slices.Contains(s.verifier.auth.SkipPaths, c.Request.URL.Path) {
		return true
	}
	token, refusal := bearer(c.Request)
	if refusal != "" {
		unauthorized(c.Writer, refusal)
		return false
	}
	who, refusal, err := s.verifier.verify(c.Request.Context(), token)
	switch {
	case err != nil:
		writeError(c.Writer, reply{http.StatusServiceUnavailable, err.Error()})
		return false
	case refusal != "":
		unauthorized(c.Writer, refusal)
		return false
	case !want.allows(who.roles):
		writeError(c.Writer, reply{http.StatusForbidden, "Insufficient permissions"})
		return false
	}
	c.Set(callerKey, who)
	return true
}

func unauthorized(w http.ResponseWriter, text string) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	writeError(w, reply{http.StatusUnauthorized, text})
}

// subject is the verified subject of a request's token, empty for none.
func subject(c *gin.Context) string {
	who, _ := c.Get(callerKey)
	known, _ := who.(caller)
	return known.subject
}
