package queen

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Defaults of a key set.
const (
	DefaultJWKSRefresh = time.Hour
	DefaultJWKSTimeout = 5 * time.Second
)

const (
	// maxKeySet bounds a key set, in bytes, and maxKeys the keys taken from it.
	maxKeySet = 1 << 20
	maxKeys   = 100
	// refetchAfter is how long after a fetch an unknown key id may cause another one. Tokens with invented ids must not become requests.
	refetchAfter = time.Second
)

// JWKS is a key set behind a URL.
type JWKS struct {
	// URL is http or https. It may hold credentials, and is never logged.
	URL string
	// Refresh is the age at which the set is fetched again. Default: DefaultJWKSRefresh.
	Refresh time.Duration
	// Timeout bounds one fetch. Default: DefaultJWKSTimeout.
	Timeout time.Duration
}

// keySet is a key set in memory. It is fetched when a token asks for a key, and again once it is old or a token names a key that is not
// in it. While it cannot be fetched the keys that were fetched last stay good.
type keySet struct {
	from   JWKS
	logger *slog.Logger
	now    func() time.Time
	client http.Client

	mu      sync.Mutex
	keys    []namedKey
	fetched time.Time     // of the last success
	tried   time.Time     // the start of the last fetch
	running chan struct{} // closed when the fetch that runs has ended; nil when none does
	ever    bool          // there was a success
	began   bool          // there was a fetch
}

// namedKey is one key of a set.
type namedKey struct {
	id, algorithm string // either may be empty
	key           crypto.PublicKey
}

func newKeySet(from JWKS, o verifierOptions) (*keySet, error) {
	u, err := url.Parse(from.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errors.New("the URL of the key set is not an http or https URL") // and is not shown: it may hold a password
	}
	if from.Refresh <= 0 {
		from.Refresh = DefaultJWKSRefresh
	}
	if from.Timeout <= 0 {
		from.Timeout = DefaultJWKSTimeout
	}
	return &keySet{from: from, logger: o.logger, now: o.now}, nil
}

// find returns the keys with an id, or all of an algorithm's when the token names none. It waits for a fetch only where nothing can be said without one.
func (s *keySet) find(ctx context.Context, id, algorithm string) ([]crypto.PublicKey, error) {
	s.mu.Lock()
	now := s.now()
	if s.ever && now.Sub(s.fetched) >= s.from.Refresh && now.Sub(s.tried) >= refetchAfter {
		s.start(ctx, now) // nobody waits: the old keys are good meanwhile
	}
	found := s.matching(id, algorithm)
	if len(found) > 0 || !s.mayAsk(now) {
		defer s.mu.Unlock()
		return found, s.missing(found)
	}
	running := s.start(ctx, now)
	s.mu.Unlock()
	select {
	case <-running:
	case <-ctx.Done():
		return nil, errNoKeys
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found = s.matching(id, algorithm)
	return found, s.missing(found)
}

// mayAsk reports whether a key that is not there is worth a fetch, or one that runs is worth waiting for.
func (s *keySet) mayAsk(now time.Time) bool {
	return s.running != nil || !s.began || now.Sub(s.tried) >= refetchAfter
}

// missing is the error for a key that was not found.
func (s *keySet) missing(found []crypto.PublicKey) error {
	switch {
	case len(found) > 0:
		return nil
	case !s.ever:
		return errNoKeys
	}
	return errUnknownKey
}

func (s *keySet) matching(id, algorithm string) []crypto.PublicKey {
	var out []crypto.PublicKey
	for _, k := range s.keys {
		if (id == "" || k.id == id) && (k.algorithm == "" || k.algorithm == algorithm) && slices.Contains(algorithmsOf(k.key), algorithm) {
			out = append(out, k.key)
		}
	}
	return out
}

// start begins a fetch unless one runs, and returns what is closed at its end. The request that caused it may go meanwhile.
func (s *keySet) start(ctx context.Context, now time.Time) <-chan struct{} {
	if s.running != nil {
		return s.running
	}
	done := make(chan struct{})
	s.running, s.tried, s.began = done, now, true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.from.Timeout)
	go func() {
		defer cancel()
		keys, err := s.fetch(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.logger.ErrorContext(ctx, "the key set for tokens could not be fetched", "error", err.Error(), "keys_kept", len(s.keys))
		} else {
			s.keys, s.fetched, s.ever = keys, now, true
		}
		s.running = nil
		close(done)
	}()
	return done
}

func (s *keySet) fetch(ctx context.Context) ([]namedKey, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.from.URL, nil)
	if err != nil {
		return nil, errors.New("bad URL")
	}
	request.Header.Set("Accept", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the URL
		}
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxKeySet+1))
	switch {
	case err != nil:
		return nil, errors.New("the answer ended early")
	case len(text) > maxKeySet:
		return nil, errors.New("the answer is too large")
	}
	return parseKeySet(text)
}

// jwk is a key of a set; secrets and keys for encryption are passed over.
type jwk struct {
	KeyType   string `json:"kty"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	Curve     string `json:"crv"`
	N         string `json:"n"`
	E         string `json:"e"`
	X         string `json:"x"`
}

// parseKeySet reads a key set. One without a usable key is an error, so that it does not take the place of one that has some.
func parseKeySet(text []byte) ([]namedKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(text, &set) != nil {
		return nil, errors.New("the answer is no key set")
	}
	var out []namedKey
	for _, raw := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var k jwk
		if json.Unmarshal(raw, &k) != nil || (k.Use != "" && k.Use != "sig") {
			continue
		}
		if key, err := k.public(); err == nil {
			out = append(out, namedKey{k.ID, k.Algorithm, key})
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the key set has no key for signatures by RSA or Ed25519")
	}
	return out, nil
}

func (k *jwk) public() (crypto.PublicKey, error) {
	switch {
	case k.KeyType == "RSA":
		n, err := base64.RawURLEncoding.DecodeString(k.N)
		if err != nil {
			return nil, err
		}
		e, err := base64.RawURLEncoding.DecodeString(k.E)
		if err != nil || len(e) == 0 || len(e) > 4 {
			return nil, errors.New("bad exponent")
		}
		exponent := int(new(big.Int).SetBytes(e).Int64())
		if exponent < 3 || exponent%2 == 0 {
			return nil, errors.New("bad exponent")
		}
		return usableKey(&rsa.PublicKey{N: new(big.Int).SetBytes(n), E: exponent})
	case k.KeyType == "OKP" && k.Curve == "Ed25519":
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, errors.New("bad key")
		}
		return usableKey(ed25519.PublicKey(x))
	}
	return nil, errors.New("unknown kind of key")
}
