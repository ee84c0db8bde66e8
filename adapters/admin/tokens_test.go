package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/admin"
	"github.com/leasehold/leasehold/adapters/internal/token"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/memory"
)

// tokenServer is an admin listener with tokens.
type tokenServer struct {
	t       *testing.T
	clock   *coretest.Clock
	keeper  *token.Keeper
	engine  *core.Engine
	handler http.Handler
	log     bytes.Buffer
}

func startTokens(t *testing.T, adminToken string) *tokenServer {
	t.Helper()
	s := &tokenServer{t: t, clock: coretest.New(coretest.Start)}
	store := memory.New()
	engine, err := core.New(t.Context(), store, core.Options{Clock: s.clock})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, engine.Shutdown(context.WithoutCancel(t.Context())))
		assert.NoError(t, store.Close())
	})
	s.engine, s.keeper = engine, token.NewKeeper(engine, "")
	s.handler = admin.New(admin.Options{Tokens: s.keeper, Token: adminToken, Logger: slog.New(slog.NewTextHandler(&s.log, nil))})
	return s
}

// shown is a token as the listener shows it.
type shown struct {
	ID, Name, Email, Token string
	Permissions, Queues    []string
	CreatedAt              time.Time  `json:"created_at"`
	ExpiresAt              *time.Time `json:"expires_at"`
	Expired                bool
}

// send makes a request and decodes the answer.
func (s *tokenServer) send(method, path, body string, status int, into any) *httptest.ResponseRecorder {
	s.t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	s.handler.ServeHTTP(w, r)
	require.Equal(s.t, status, w.Code, w.Body.String())
	if into != nil {
		require.NoError(s.t, json.Unmarshal(w.Body.Bytes(), into))
	}
	return w
}

func TestTokenIsShownOnce(t *testing.T) {
	s := startTokens(t, "")
	var made shown
	s.send("POST", "/tokens", `{"name":"ci","email":"a@b.c","permissions":["read"],"queues":["jobs-*"],"expires_at":"2027-01-01T00:00:00Z"}`, 201, &made)
	assert.NotEmpty(t, made.Token)
	found, err := s.keeper.Find(t.Context(), made.Token)
	require.NoError(t, err)
	assert.Equal(t, made.ID, found.ID)
	var list struct {
		Required bool
		Tokens   []shown
	}
	w := s.send("GET", "/tokens", "", 200, &list)
	assert.NotContains(t, w.Body.String(), made.Token)
	assert.True(t, list.Required)
	want := made
	want.Token = ""
	assert.Equal(t, []shown{want}, list.Tokens)
	assert.Equal(t, []string{"read"}, list.Tokens[0].Permissions)
	assert.Equal(t, []string{"jobs-*"}, list.Tokens[0].Queues)
	assert.NotContains(t, s.log.String(), made.Token, "nor is it in the log")
	s.clock.Set(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	s.send("GET", "/tokens", "", 200, &list)
	assert.True(t, list.Tokens[0].Expired)
	var gone shown
	s.send("DELETE", "/tokens/"+made.ID[:8], "", 200, &gone)
	assert.Equal(t, made.ID, gone.ID)
	s.send("DELETE", "/tokens/"+made.ID, "", 404, nil)
	s.send("GET", "/tokens", "", 200, &list)
	assert.Empty(t, list.Tokens)
}

func TestDefaultsOfAToken(t *testing.T) {
	s := startTokens(t, "")
	var made shown
	s.send("POST", "/tokens", `{"name":"all"}`, 201, &made)
	assert.Equal(t, []string{"read", "write"}, made.Permissions)
	assert.Equal(t, []string{"*"}, made.Queues)
	assert.Nil(t, made.ExpiresAt)
	s.send("POST", "/tokens", `{"name":"old","token":"Sn3lZJTBX6kkg7OdcBUAxOO963GEIyGQqnFTOFYY"}`, 201, &made)
	assert.Equal(t, "Sn3lZJTBX6kkg7OdcBUAxOO963GEIyGQqnFTOFYY", made.Token)
	s.send("POST", "/tokens", `{"name":"old","token":"Sn3lZJTBX6kkg7OdcBUAxOO963GEIyGQqnFTOFYY"}`, 409, nil)
}

func TestBadTokensAreNotMade(t *testing.T) {
	s := startTokens(t, "")
	for body, text := range map[string]string{
		`{`: "not a token", `[]`: "not a token", `{"name":"a"}{}`: "more than one value", `{}`: "a name",
		`{"name":"a","queue":["x"]}`:         "unknown field", // a misspelt restriction
		`{"name":"a","permissions":["all"]}`: "unknown permission", `{"name":"a","expires_at":"soon"}`: "not a token",
		`{"name":"a","expires_at":"2020-01-01T00:00:00Z"}`: "in the past", `{"name":"a","token":"short"}`: "visible ASCII",
		`{"name":"a","queues":[""]}`: "pattern",
	} {
		w := s.send("POST", "/tokens", body, 400, nil)
		assert.Contains(t, w.Body.String(), text, body)
	}
	s.send("POST", "/tokens", `{"name":"`+strings.Repeat("a", 70_000)+`"}`, 413, nil)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/tokens", strings.NewReader(`{"name":"a"}`))
	r.Header.Set("Content-Type", "text/plain")
	s.handler.ServeHTTP(w, r)
	assert.Equal(t, 415, w.Code, "what a foreign page can send is not taken")
	for _, r := range [][2]string{{"PUT", "/tokens"}, {"DELETE", "/tokens"}, {"GET", "/tokens/abc"}, {"POST", "/tokens/abc"}} {
		w := s.send(r[0], r[1], "", 405, nil)
		assert.NotEmpty(t, w.Header().Get("Allow"))
	}
	for _, id := range []string{"", "x", "00000000", strings.Repeat("0", 32), strings.Repeat("0", 64), "%2e%2e"} {
		s.send("DELETE", "/tokens/"+id, "", 404, nil)
	}
	s.send("GET", "/tokensx", "", 404, nil)
	list, err := s.keeper.List(t.Context())
	require.NoError(t, err)
	assert.Empty(t, list)
}

func TestAdminTokenGuardsTheTokens(t *testing.T) {
	s := startTokens(t, "hush")
	for _, r := range [][2]string{{"GET", "/tokens"}, {"POST", "/tokens"}, {"DELETE", "/tokens/00000000"}} {
		s.send(r[0], r[1], "", 401, nil)
		w := get(s.handler, r[0], r[1], "Bearer hush")
		assert.NotEqual(t, 401, w.Code)
	}
	off := admin.New(admin.Options{})
	assert.Equal(t, 404, get(off, "GET", "/tokens", "").Code)
}
