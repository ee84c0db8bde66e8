package admin

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/leasehold/leasehold/adapters/internal/httpapi"
	"github.com/leasehold/leasehold/adapters/internal/token"
	"github.com/leasehold/leasehold/core"
)

// pathTokens lists and makes tokens; one of them is below it, by its id.
const pathTokens = "/tokens"

// maxTokenBody bounds the body of a token to be made, in bytes.
const maxTokenBody = 64 << 10

// tokenBody is a token to be made, as a request gives it.
type tokenBody struct {
	Name        string     `json:"name"`
	Email       string     `json:"email"`
	Permissions []string   `json:"permissions"`
	Queues      []string   `json:"queues"`
	ExpiresAt   *time.Time `json:"expires_at"`
	// Token is the text of one that exists elsewhere; "" has one made.
	Token string `json:"token"`
}

// tokenObject is a token as it is shown.
type tokenObject struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Email       string     `json:"email,omitempty"`
	Permissions []string   `json:"permissions"`
	Queues      []string   `json:"queues"`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   *time.Time `json:"expires_at"` // null is never
	Expired     bool       `json:"expired"`
	// Token is in the answer that made it, and never again.
	Token string `json:"token,omitempty"`
}

func (s *server) showToken(t *token.Token) tokenObject {
	o := tokenObject{
		ID: t.ID, Name: t.Name, Email: t.Email, Permissions: t.Permissions(), Queues: t.Queues, CreatedAt: t.CreatedAt.UTC(),
	}
	if !t.ExpiresAt.IsZero() {
		at := t.ExpiresAt.UTC()
		o.ExpiresAt = &at
		o.Expired = s.o.Tokens.Ended(t)
	}
	return o
}

// tokens serves /tokens and what is below it.
func (s *server) tokens(w http.ResponseWriter, r *http.Request) {
	id, below := strings.CutPrefix(r.URL.Path, pathTokens+"/")
	switch {
	case below && r.Method == http.MethodDelete:
		s.revokeToken(w, r, id)
	case below:
		notAllowed(w, http.MethodDelete)
	case r.Method == http.MethodPost:
		s.createToken(w, r)
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		s.listTokens(w, r)
	default:
		notAllowed(w, "GET, HEAD, POST")
	}
}

// createToken answers POST /tokens.
func (s *server) createToken(w http.ResponseWriter, r *http.Request) {
	// A page in somebody's browser can send a form or plain text anywhere without
	// asking, but not this.
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		writeError(w, http.StatusUnsupportedMediaType, "the body must be application/json")
		return
	}
	b, err := httpapi.ReadBody(r, maxTokenBody)
	if errors.Is(err, httpapi.ErrTooLarge) {
		writeError(w, http.StatusRequestEntityTooLarge, "the body is too large")
		return
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, "the body could not be read")
		return
	}
	defer b.Release()
	n, err := decodeToken(b.Bytes)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	t, text, err := s.o.Tokens.Create(r.Context(), n)
	if err != nil {
		s.refused(w, r, err)
		return
	}
	s.o.Logger.InfoContext(r.Context(), "token was made", "id", t.ID, "name", t.Name)
	o := s.showToken(t)
	o.Token = text
	writeJSON(w, http.StatusCreated, o)
}

// refused answers for a token that was not made.
func (s *server) refused(w http.ResponseWriter, r *http.Request, err error) {
	switch core.CodeOf(err) {
	case core.CodeInvalid:
		writeError(w, http.StatusBadRequest, err.Error())
	case core.CodeConflict:
		writeError(w, http.StatusConflict, "this token exists already")
	default:
		s.failed(w, r, err)
	}
}

// decodeToken reads a token to be made. An unknown member is refused: a misspelt
// restriction must not make a token without it.
func decodeToken(body []byte) (token.New, error) {
	var in tokenBody
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return token.New{}, errors.New("the body is not a token: " + err.Error())
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return token.New{}, errors.New("the body has more than one value")
	}
	n := token.New{Text: in.Token, Name: in.Name, Email: in.Email, Queues: in.Queues}
	if in.ExpiresAt != nil {
		n.ExpiresAt = *in.ExpiresAt
	}
	var err error
	n.Read, n.Write, err = token.ParsePermissions(in.Permissions)
	return n, err
}

// listTokens answers GET /tokens.
func (s *server) listTokens(w http.ResponseWriter, r *http.Request) {
	list, err := s.o.Tokens.List(r.Context())
	if err != nil {
		s.failed(w, r, err)
		return
	}
	on, err := s.o.Tokens.Required(r.Context())
	if err != nil {
		s.failed(w, r, err)
		return
	}
	out := make([]tokenObject, len(list))
	for i := range list {
		out[i] = s.showToken(&list[i])
	}
	writeJSON(w, http.StatusOK, map[string]any{"required": on, "tokens": out})
}

// revokeToken answers DELETE /tokens/{id}.
func (s *server) revokeToken(w http.ResponseWriter, r *http.Request, id string) {
	t, err := s.o.Tokens.Revoke(r.Context(), id)
	if errors.Is(err, token.ErrUnknown) {
		writeError(w, http.StatusNotFound, "no such token")
		return
	}
	if err != nil {
		s.failed(w, r, err)
		return
	}
	s.o.Logger.InfoContext(r.Context(), "token was revoked", "id", t.ID, "name", t.Name)
	writeJSON(w, http.StatusOK, s.showToken(t))
}

// failed answers for a store that could not do it; the cause is for the log.
func (s *server) failed(w http.ResponseWriter, r *http.Request, err error) {
	s.o.Logger.ErrorContext(r.Context(), "token request failed", "error", err)
	if code := core.CodeOf(err); code == core.CodeClosed || code == core.CodeUnavailable || code == core.CodeConflict {
		writeError(w, http.StatusServiceUnavailable, "the store cannot be reached")
		return
	}
	writeError(w, http.StatusInternalServerError, "internal error")
}
