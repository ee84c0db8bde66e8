package cfqueues

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/adapters/internal/token"
	"github.com/leasehold/leasehold/core"
)

// Tokens keeps the tokens that this protocol asks for; the admin listener makes and
// revokes them.
type Tokens = token.Keeper

// NewToken is a token to be made.
type NewToken = token.New

// NewTokens returns the tokens of an engine's store. A text that is not empty is a token
// of the configuration, which may do everything and is asked for from the start.
func NewTokens(engine *core.Engine, text string) *Tokens { return token.NewKeeper(engine, text) }

// need is what a route asks of a token. Pulls and acknowledgements change what they
// read, so they need to write; looking at messages without a lease does not.
type need uint8

const (
	needRead         need = iota // control plane
	needWrite                    //
	needMessageRead              // message routes, which have codes of their own
	needMessageWrite             //
	needToken                    // any token: routes of the account and the user
	needVerify                   // the route that tells whether a token is good
)

// write says whether the token has to be allowed to write.
func (n need) write() bool { return n == needWrite || n == needMessageWrite }

// onMessages says whether the route is one of the message routes.
func (n need) onMessages() bool { return n == needMessageRead || n == needMessageWrite }

// The headers of the vendor's older scheme.
const (
	headerKey   = "X-Auth-Key"
	headerEmail = "X-Auth-Email"
)

// callerKey is where the router keeps who makes a request.
const callerKey = "caller"

// caller is who makes a request, where tokens are asked for.
type caller struct {
	token *token.Token
	needs need
}

// callerOf returns who makes a request, nil where anybody may.
func callerOf(c *gin.Context) *caller {
	v, ok := c.Get(callerKey)
	if !ok {
		return nil
	}
	who, _ := v.(*caller)
	return who
}

// check returns the refusal of a queue that the caller's token is not for, or nil.
func (w *caller) check(queue string) *apiError {
	if w == nil || w.token.Allows(queue) {
		return nil
	}
	return errDenied(w.needs, "the token is not for queue '"+clip(queue)+"'")
}

// admit lets a request in or returns the refusal. Without tokens in the store and in
// the configuration anybody may do everything.
func (s *server) admit(c *gin.Context, needs need) *apiError {
	if s.o.Tokens == nil {
		return nil
	}
	ctx := c.Request.Context()
	required, err := s.o.Tokens.Required(ctx)
	switch {
	case err != nil:
		return fromCore(err)
	case !required:
		return nil
	}
	text, email, bad := credentials(c.Request.Header)
	if bad != nil {
		return bad
	}
	if text == "" {
		return errNoCredentials(needs)
	}
	t, err := s.o.Tokens.Find(ctx, text)
	if err != nil {
		return fromCore(err)
	}
	if t == nil || email != nil && t.Email != "" && !strings.EqualFold(*email, t.Email) {
		return errBadToken(needs)
	}
	if account := c.Param("account"); s.o.Account != "" && account != "" && account != s.o.Account {
		return errDenied(needs, "the token is not for this account")
	}
	if needs.write() && !t.Write {
		return errDenied(needs, "the token may read only")
	}
	if !t.Read && !t.Write {
		return errDenied(needs, "the token may do nothing")
	}
	c.Set(callerKey, &caller{t, needs})
	return nil
}

// credentials reads the token of a request. A bearer token wins over a key; a key comes
// with an email, which is nil for a bearer token. Nothing at all is an empty text.
func credentials(h http.Header) (text string, email *string, bad *apiError) {
	if auth := h.Get("Authorization"); auth != "" {
		scheme, rest, ok := strings.Cut(auth, " ")
		rest = strings.TrimSpace(rest)
		if !ok || !strings.EqualFold(scheme, "Bearer") || rest == "" || strings.Contains(rest, " ") {
			return "", nil, errAuthorizationHeader()
		}
		return rest, nil, nil
	}
	key, mail := h.Get(headerKey), h.Get(headerEmail)
	if key == "" || mail == "" {
		return "", nil, nil
	}
	return key, &mail, nil
}
