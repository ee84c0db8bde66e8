package querator

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/leasehold/leasehold/core"
)

// grantTime is how long a key that was looked up is believed without looking again. Keys deleted
// through another server of the same store work there for so long.
const grantTime = 5 * time.Second

// maxGrants bounds how many keys are remembered, unknown ones included.
const maxGrants = 10_000

// guard decides who may make requests.
type guard struct {
	mu     sync.Mutex
	grants map[string]grant
}

// grant is what is known of the text of a key, by its hash.
type grant struct {
	// fault refuses the key; scope bounds it to a namespace where it is not empty.
	fault *fault
	scope string
	// expires is when the key ends; zero is never. until is when to look again.
	expires time.Time
	until   core.Time
}

// forget drops what is remembered.
func (g *guard) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.grants = nil
}

func (g *guard) recall(hash string, now core.Time) (grant, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	got, ok := g.grants[hash]
	return got, ok && now < got.until
}

func (g *guard) keep(hash string, it grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.grants) >= maxGrants || g.grants == nil {
		g.grants = make(map[string]grant)
	}
	g.grants[hash] = it
}

// pathFirstKey may be asked without a key while there is none.
const pathFirstKey = "/v1/apikeys.create"

// admit checks the authorization of a request and returns the namespace that its key is bound to,
// "" for none. Without RequireKey any bearer token will do, and none.
func (s *server) admit(r *http.Request) (scope string, err error) {
	header := r.Header.Get("Authorization")
	newest := s.o.Generation == Auto || s.o.Generation == L2
	if header != "" && !strings.HasPrefix(header, "Bearer ") && (newest || s.o.RequireKey) {
		return "", errAuthorization
	}
	if !s.o.RequireKey {
		return "", nil
	}
	key := strings.TrimPrefix(header, "Bearer ")
	switch {
	case s.o.RootKey != "" && subtle.ConstantTimeCompare([]byte(key), []byte(s.o.RootKey)) == 1:
		return "", nil
	case key == "" && s.o.RootKey == "" && r.URL.Path == pathFirstKey:
		return "", s.openWhileEmpty(r.Context())
	case key == "":
		return "", errNoKey
	case !strings.HasPrefix(key, "qtr-"):
		return "", errKeyInvalid
	}
	g, err := s.grantOf(r.Context(), hashKey(key))
	switch {
	case err != nil:
		return "", err
	case g.fault != nil:
		return "", g.fault
	case !g.expires.IsZero() && !s.engine.Now().Std().Before(g.expires):
		return "", errKeyExpired
	}
	return g.scope, nil
}

// openWhileEmpty lets the first key be made on a server that has none.
func (s *server) openWhileEmpty(ctx context.Context) error {
	keys, err := s.engine.ListRecords(ctx, core.ListRecordsParams{Kind: kindKey, Limit: 1})
	if err == nil && len(keys) > 0 {
		return errNoKey
	}
	return err
}

// grantOf looks a key up by the hash of its text.
func (s *server) grantOf(ctx context.Context, hash string) (grant, error) {
	now := s.engine.Now()
	if g, ok := s.guard.recall(hash, now); ok {
		return g, nil
	}
	g := grant{fault: errKeyUnknown, until: now.Add(grantTime)}
	v, err := s.engine.Record(ctx, kindKeyHash, hash)
	if err != nil {
		return g, err
	}
	var id string
	if v != nil {
		if err := json.Unmarshal(v, &id); err != nil {
			return g, err
		}
		k, stored, err := s.findKey(ctx, id)
		if err != nil {
			return g, err
		}
		if stored != nil && k.Hash == hash {
			g.fault, g.scope, g.expires = nil, k.Scope, k.ExpiresAt
		}
	}
	s.guard.keep(hash, g)
	return g, nil
}

// unscoped refuses a key that is bound to a namespace: what it asks for belongs to all of them.
func (c *call) unscoped() error { return c.inScope(systemNamespace) }

// inScope refuses a key that is bound to another namespace. One bound to the default namespace is
// bound to none, as a role in it holds everywhere.
func (c *call) inScope(namespace string) error {
	if c.scope == "" || c.scope == systemNamespace || c.scope == namespace {
		return nil
	}
	return errForbidden
}
