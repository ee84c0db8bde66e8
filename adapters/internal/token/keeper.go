package token

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/core"
)

// The kinds of records: tokens by their hash, and the switch that says that tokens are
// asked for.
const (
	kindToken  = "token"
	kindSwitch = "token.switch"
	nameSwitch = "required"
)

// believed is how long something read from the store is believed without looking again.
// A token made or revoked at another server of the store works, or ends, there after so
// long; at this server it does at once.
const believed = 5 * time.Second

// maxKnown bounds how many texts are remembered, unknown ones included.
const maxKnown = 10_000

// idDigits is how much of a token's hash is its id.
const idDigits = 32

// ErrUnknown is returned for the revocation of a token that does not exist.
var ErrUnknown = errors.New("no such token")

// Keeper makes, finds and revokes tokens. It is safe for concurrent use; its errors are
// the core's, except for [ErrUnknown].
type Keeper struct {
	engine *core.Engine
	key    []byte
	// fixed is the token of the configuration, and its text's hash.
	fixed     *Token
	fixedHash string

	required atomic.Pointer[required]
	mu       sync.RWMutex
	known    map[string]known // by hash
	changes  int              // tokens made and revoked here
}

// required says whether tokens are asked for, and until when that is believed.
type required struct {
	on    bool
	until core.Time
}

// known is what a look at the store found; a nil token is one that does not exist.
type known struct {
	token *Token
	until core.Time
}

// stored is a token as its record has it; the id is the record's name.
type stored struct {
	Name      string    `json:"name"`
	Email     string    `json:"email,omitempty"`
	Read      bool      `json:"read,omitempty"`
	Write     bool      `json:"write,omitempty"`
	Queues    []string  `json:"queues"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// NewKeeper returns a keeper of the tokens in an engine's store. A text that is not
// empty is a token of the configuration: it may do everything, is asked for from the
// start, and no call can revoke it.
func NewKeeper(engine *core.Engine, text string) *Keeper {
	derive := hmac.New(sha256.New, engine.Secret())
	derive.Write([]byte("token hash 1"))
	k := &Keeper{engine: engine, key: derive.Sum(nil), known: map[string]known{}}
	if text != "" {
		k.fixedHash = k.hash(text)
		k.fixed = &Token{ID: k.fixedHash[:idDigits], Name: "configuration", Read: true, Write: true, Queues: []string{"*"}}
	}
	return k
}

// hash is what a token is stored under.
func (k *Keeper) hash(text string) string {
	mac := hmac.New(sha256.New, k.key)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// Required reports whether requests need a token.
func (k *Keeper) Required(ctx context.Context) (bool, error) {
	if k.fixed != nil {
		return true, nil
	}
	now := k.engine.Now()
	r := k.required.Load()
	if r != nil && (r.on || now < r.until) {
		return r.on, nil
	}
	v, err := k.engine.Record(ctx, kindSwitch, nameSwitch)
	if err != nil {
		return false, err
	}
	// Not a plain store: a token may have been made since the record was read.
	k.required.CompareAndSwap(r, &required{on: v != nil, until: now.Add(believed)})
	return k.required.Load().on, nil
}

// Find returns the token with a text, nil where there is none, or none any more.
func (k *Keeper) Find(ctx context.Context, text string) (*Token, error) {
	if text == "" || len(text) > maxText {
		return nil, nil
	}
	hash := k.hash(text)
	if k.fixed != nil && subtle.ConstantTimeCompare([]byte(hash), []byte(k.fixedHash)) == 1 {
		return k.fixed, nil
	}
	now := k.engine.Now()
	k.mu.RLock()
	got, ok := k.known[hash]
	k.mu.RUnlock()
	if !ok || now >= got.until {
		var err error
		if got, err = k.read(ctx, hash, now); err != nil {
			return nil, err
		}
	}
	if got.token == nil || got.token.Expired(now.Std()) {
		return nil, nil
	}
	return got.token, nil
}

// read looks a hash up in the store and remembers what it found, unless a token was made
// or revoked between the look and the remembering.
func (k *Keeper) read(ctx context.Context, hash string, now core.Time) (known, error) {
	k.mu.RLock()
	changes := k.changes
	k.mu.RUnlock()
	v, err := k.engine.Record(ctx, kindToken, hash)
	if err != nil {
		return known{}, err
	}
	got := known{until: now.Add(believed)}
	if v != nil {
		if got.token, err = decode(hash, v); err != nil {
			return known{}, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if changes != k.changes {
		return got, nil
	}
	if len(k.known) >= maxKnown {
		clear(k.known)
	}
	k.known[hash] = got
	return got, nil
}

// decode reads a record.
func decode(hash string, v []byte) (*Token, error) {
	var s stored
	if err := json.Unmarshal(v, &s); err != nil {
		return nil, fmt.Errorf("read token record: %w", err)
	}
	return &Token{
		ID: hash[:idDigits], Name: s.Name, Email: s.Email, Read: s.Read, Write: s.Write, Queues: s.Queues,
		CreatedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt,
	}, nil
}

// Create makes a token and returns it with its text, which cannot be had again. What is
// wrong with n is CodeInvalid, a text that is a token already CodeConflict.
func (k *Keeper) Create(ctx context.Context, n New) (*Token, string, error) {
	now := k.engine.Now().Std()
	if err := n.complete(now); err != nil {
		return nil, "", err
	}
	if n.Text == "" {
		n.Text = newText()
	}
	hash := k.hash(n.Text)
	v, err := json.Marshal(stored{
		Name: n.Name, Email: n.Email, Read: n.Read, Write: n.Write, Queues: n.Queues, CreatedAt: now, ExpiresAt: n.ExpiresAt,
	})
	if err != nil {
		return nil, "", err
	}
	// The switch comes first: a token that nobody is asked for would be a promise broken.
	err = k.engine.PutRecord(ctx, kindSwitch, nameSwitch, nil, []byte("1"))
	if err != nil && core.CodeOf(err) != core.CodeConflict {
		return nil, "", err
	}
	k.required.Store(&required{on: true})
	if err := k.engine.PutRecord(ctx, kindToken, hash, nil, v); err != nil {
		return nil, "", err
	}
	k.forget(hash)
	t, err := decode(hash, v)
	return t, n.Text, err
}

// List returns all tokens of the store, those that have ended included, in the order of
// their ids.
func (k *Keeper) List(ctx context.Context) ([]Token, error) {
	const page = 500
	var out []Token
	for after := ""; ; {
		records, err := k.engine.ListRecords(ctx, core.ListRecordsParams{Kind: kindToken, After: after, Limit: page})
		if err != nil {
			return nil, err
		}
		for i := range records {
			t, err := decode(records[i].Name, records[i].Value)
			if err != nil {
				return nil, err
			}
			out = append(out, *t)
		}
		if len(records) < page {
			return out, nil
		}
		after = records[len(records)-1].Name
	}
}

// Revoke ends a token by its id, or by enough of its beginning to be the only one;
// [ErrUnknown] where there is none.
func (k *Keeper) Revoke(ctx context.Context, id string) (*Token, error) {
	if len(id) < 8 || len(id) > idDigits {
		return nil, ErrUnknown
	}
	records, err := k.engine.ListRecords(ctx, core.ListRecordsParams{Kind: kindToken, Prefix: id, Limit: 2})
	if err != nil {
		return nil, err
	}
	if len(records) != 1 {
		return nil, ErrUnknown
	}
	err = k.engine.PutRecord(ctx, kindToken, records[0].Name, records[0].Value, nil)
	k.forget(records[0].Name)
	if err != nil && core.CodeOf(err) == core.CodeConflict {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	return decode(records[0].Name, records[0].Value)
}

// Ended reports whether a token has ended by now.
func (k *Keeper) Ended(t *Token) bool { return t.Expired(k.engine.Now().Std()) }

// forget lets the next request with a token look it up anew.
func (k *Keeper) forget(hash string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes++
	delete(k.known, hash)
}

// alphabet are the digits of a token's text.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// newText makes the text of a token: a mark that scanners for secrets can find and 36
// base-62 digits (214 bits), 40 characters like the vendor's, should a client count.
func newText() string {
	const mark, digits = "lhd_", 36
	out := append(make([]byte, 0, len(mark)+digits), mark...)
	var b [64]byte
	for len(out) < len(mark)+digits {
		_, _ = rand.Read(b[:])
		for _, v := range b {
			// 248 is the largest multiple of 62 in a byte: the rest would favor some digits.
			if v < 248 && len(out) < len(mark)+digits {
				out = append(out, alphabet[v%62])
			}
		}
	}
	return string(out)
}
