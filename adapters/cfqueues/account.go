package cfqueues

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/gin-gonic/gin"
)

// What the vendor's tools want to know of accounts and users before they come to the
// queues. One server is one account, whose only user is whoever holds a token.

// accountName is what lists call the account.
const accountName = "leasehold"

// accountCreated stands where the vendor shows an account's birthday; this one has none.
const accountCreated = "1970-01-01T00:00:00.000000Z"

// localEmail is the user's where no token says otherwise.
const localEmail = "user@localhost"

// accountObject is the account.
type accountObject struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Settings  struct{} `json:"settings"`
	CreatedOn string   `json:"created_on"`
}

// membershipObject says that the user belongs to the account.
type membershipObject struct {
	ID      string   `json:"id"`
	Status  string   `json:"status"`
	Roles   []string `json:"roles"`
	Account struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"account"`
}

// accountID is the configured id, or one made from the store's secret: the same at every
// start and every server of the store.
func accountID(o *Options, secret []byte) string {
	if o.Account != "" {
		return o.Account
	}
	return derivedID("account", secret)
}

// derivedID is an id of this protocol's form for a thing that is stored nowhere.
func derivedID(what string, secret []byte) string {
	sum := sha256.Sum256(append([]byte("cfqueues "+what+" 1 "), secret...))
	return hex.EncodeToString(sum[:16])
}

func (s *server) account() accountObject {
	return accountObject{ID: s.accountID, Name: accountName, Type: "standard", CreatedOn: accountCreated}
}

// listAccounts answers GET /accounts with the one there is.
func (s *server) listAccounts(c *gin.Context) *apiError {
	return writeOne(c, s.account())
}

// writeOne answers with a list of one element.
func writeOne[T any](c *gin.Context, element T) *apiError {
	page, perPage, bad := pageOf(c.Request.URL.Query())
	if bad != nil {
		return bad
	}
	if perPage == 0 {
		perPage = defaultPerPage
	}
	list := []T{}
	if page == 1 {
		list = append(list, element)
	}
	writeList(c, list, &resultInfo{Count: len(list), Page: page, PerPage: perPage, TotalCount: 1, TotalPages: 1})
	return nil
}

// getAccount answers GET /accounts/{account}. With authentication off any id names the
// account.
func (s *server) getAccount(c *gin.Context) *apiError {
	account := s.account()
	account.ID = param(c, "account")
	writeResult(c, account)
	return nil
}

// listMemberships answers GET /memberships. wrangler takes the accounts that are in
// this list and in that of /accounts.
func (s *server) listMemberships(c *gin.Context) *apiError {
	m := membershipObject{ID: derivedID("membership", s.engine.Secret()), Status: "accepted", Roles: []string{"Administrator"}}
	m.Account.ID, m.Account.Name = s.accountID, accountName
	return writeOne(c, m)
}

// getUser answers GET /user.
func (s *server) getUser(c *gin.Context) *apiError {
	user := struct {
		ID    string `json:"id"`
		Email string `json:"email"`
	}{derivedID("user", s.engine.Secret()), localEmail}
	if who := callerOf(c); who != nil && who.token.Email != "" {
		user.Email = who.token.Email
	}
	writeResult(c, user)
	return nil
}

// verifyToken answers GET /user/tokens/verify and its twin below the account. With
// authentication off every token is good.
func (s *server) verifyToken(c *gin.Context) *apiError {
	result := struct {
		ID        string `json:"id"`
		Status    string `json:"status"`
		ExpiresOn string `json:"expires_on,omitempty"`
	}{ID: derivedID("token", s.engine.Secret()), Status: "active"}
	if who := callerOf(c); who != nil {
		result.ID = who.token.ID
		if end := who.token.ExpiresAt; !end.IsZero() {
			result.ExpiresOn = end.UTC().Format(timeLayout)
		}
	}
	writeResult(c, result, "This API Token is valid and active")
	return nil
}
