package cfqueues_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
)

// wrangler takes the account that is in both lists.
func TestAccountIsListed(t *testing.T) {
	h := start(t, cfqueues.Options{})
	var accounts []struct {
		ID, Name, Type string
		Settings       map[string]any
		CreatedOn      time.Time `json:"created_on"`
	}
	var members []struct {
		ID, Status string
		Roles      []string
		Account    struct{ ID, Name string }
	}
	a := h.send("GET", "/client/v4/accounts?page=1", "")
	h.decode(a, &accounts)
	require.Len(t, accounts, 1)
	assert.Equal(t, 1, a.ResultInfo.TotalPages)
	assert.Regexp(t, "^[0-9a-f]{32}$", accounts[0].ID)
	assert.Equal(t, "standard", accounts[0].Type)
	h.decode(h.send("GET", "/memberships?page=1", ""), &members)
	require.Len(t, members, 1)
	assert.Equal(t, "accepted", members[0].Status)
	assert.NotEmpty(t, members[0].Roles)
	assert.Equal(t, accounts[0].ID, members[0].Account.ID)
	h.decode(h.send("GET", "/accounts?page=2", ""), &accounts)
	assert.Empty(t, accounts)
	assert.Equal(t, 400, h.send("GET", "/accounts?page=0", "").status)

	again := cfqueues.New(h.engine, cfqueues.Options{})
	h.handler = again
	h.decode(h.send("GET", "/accounts", ""), &accounts)
	assert.Equal(t, members[0].Account.ID, accounts[0].ID, "the same after a restart")
	h.handler = cfqueues.New(h.engine, cfqueues.Options{Account: "mine"})
	h.decode(h.send("GET", "/accounts", ""), &accounts)
	assert.Equal(t, "mine", accounts[0].ID)
	var one struct{ ID string }
	h.decode(h.send("GET", "/accounts/mine", ""), &one)
	assert.Equal(t, "mine", one.ID)
}

func TestUserIsSomebodyWithoutTokens(t *testing.T) {
	h := start(t, cfqueues.Options{})
	var user struct{ ID, Email string }
	h.decode(h.send("GET", "/client/v4/user", ""), &user)
	assert.NotEmpty(t, user.ID)
	assert.Contains(t, user.Email, "@")
	for _, path := range []string{"/client/v4/user/tokens/verify", base + "/tokens/verify"} {
		var v struct{ ID, Status string }
		h.decode(h.send("GET", path, ""), &v)
		assert.Equal(t, "active", v.Status)
		assert.Len(t, v.ID, 32)
	}
}
