package queen_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"

	"github.com/leasehold/leasehold/adapters/queen"
)

// tryKey asks for something with a token of one key of the set.
func (b *broker) tryKey(t *testing.T, algorithm, id string, key any) (status int, text string) {
	t.Helper()
	return b.call(t, sign(algorithm, id, key, jwt.MapClaims{"role": "admin"}), http.MethodGet, "/api/v1/dlq", "")
}

func TestKeySetsRotate(t *testing.T) {
	first, second := newSigner(), otherSigner()
	i := newIssuer(t, rsaJWK("1", &first.rsa.PublicKey))
	b := newBroker(t, queen.Options{Auth: queen.Auth{JWKS: queen.JWKS{URL: i.URL, Refresh: time.Minute}}})
	expect := func(want int, algorithm, id string, key any) {
		t.Helper()
		status, text := b.tryKey(t, algorithm, id, key)
		assert.Equal(t, want, status, text)
	}
	assert.Zero(t, i.count(), "nothing is fetched before a token asks for a key")
	for range 5 {
		expect(200, "RS256", "1", first.rsa)
	}
	expect(200, "RS512", "", first.rsa)
	assert.Equal(t, 1, i.count())

	// A new key is found at once, by its id; so is an old one that is no longer published, until the set is old.
	i.publish(rsaJWK("2", &second.rsa.PublicKey), edJWK(second.ed.Public()))
	b.clock.Advance(time.Second)
	expect(200, "RS256", "2", second.rsa)
	expect(200, "EdDSA", "e", second.ed)
	assert.Equal(t, 2, i.count())
	expect(401, "RS256", "1", first.rsa)
	expect(401, "RS256", "2", first.rsa)

	// Tokens with invented ids are no way to make the server ask again and again.
	for range 50 {
		expect(401, "RS256", "invented", first.rsa)
	}
	assert.Equal(t, 2, i.count())
	b.clock.Advance(time.Second)
	for range 50 {
		expect(401, "RS256", "invented", first.rsa)
	}
	assert.Equal(t, 3, i.count())

	// While the issuer is down the known keys stay good; it is asked again once it may be back.
	i.set(true)
	b.clock.Advance(time.Hour)
	expect(200, "RS256", "2", second.rsa)
	assert.Eventually(t, func() bool { return i.count() == 4 }, 5*time.Second, time.Millisecond)
	expect(200, "EdDSA", "e", second.ed)
	i.set(false)
	i.publish(edJWK(second.ed.Public()))
	b.clock.Advance(time.Second)
	assert.Eventually(t, func() bool { status, _ := b.tryKey(t, "RS256", "2", second.rsa); return status == 401 }, 5*time.Second, 10*time.Millisecond,
		"a key that is withdrawn is gone after the next fetch")
	expect(200, "EdDSA", "e", second.ed)
}

func TestKeySetThatCannotBeHad(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	i := newIssuer(t, rsaJWK("1", &newSigner().rsa.PublicKey))
	i.set(true)
	url := strings.Replace(i.URL, "http://", "http://user:hunter2@", 1) + "/keys?token=hunter2"
	b := newBroker(t, queen.Options{
		Auth:   queen.Auth{JWKS: queen.JWKS{URL: url}},
		Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	status, text := b.tryKey(t, "RS256", "1", newSigner().rsa)
	assert.Equal(t, 503, status, "clients try again what is 5xx")
	exactly(t, `{"error":"token keys are not available"}`, text)
	status, text = b.tryKey(t, "HS256", "1", []byte(secretKey))
	assert.Equal(t, 401, status)
	exactly(t, `{"error":"Unsupported token algorithm"}`, text)
	i.set(false)
	b.clock.Advance(time.Second)
	status, _ = b.tryKey(t, "RS256", "1", newSigner().rsa)
	assert.Equal(t, 200, status)
	i.Close()
	b.clock.Advance(2 * time.Hour)
	status, _ = b.tryKey(t, "RS256", "1", newSigner().rsa)
	assert.Equal(t, 200, status)
	assert.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Count(log.String(), "could not be fetched") == 2
	}, 5*time.Second, time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	assert.NotContains(t, log.String(), "hunter2")
}

func TestKeySetsWithWhatIsNotForSignatures(t *testing.T) {
	good := newSigner()
	encryption := rsaJWK("enc", &good.rsa.PublicKey)
	encryption["use"] = "enc"
	bound := rsaJWK("512", &good.rsa.PublicKey)
	bound["alg"] = "RS512"
	i := newIssuer(t,
		map[string]any{"kty": "oct", "kid": "s", "k": "YSBzZWNyZXQ"}, map[string]any{"kty": "EC", "kid": "c", "crv": "P-256"},
		map[string]any{"kty": "RSA", "kid": "bad", "n": "!", "e": "AQAB"}, map[string]any{"kty": 5}, encryption, bound)
	b := newBroker(t, queen.Options{Auth: queen.Auth{JWKS: queen.JWKS{URL: i.URL}}})
	for _, c := range []struct {
		algorithm, id string
		key           any
		status        int
	}{
		{"RS512", "512", good.rsa, 200},
		{"RS256", "512", good.rsa, 401},
		{"RS256", "enc", good.rsa, 401},
		{"HS256", "s", []byte("a secret"), 401},
		{"RS256", "bad", good.rsa, 401},
		{"EdDSA", "512", good.ed, 401},
	} {
		status, text := b.tryKey(t, c.algorithm, c.id, c.key)
		assert.Equal(t, c.status, status, "%s %s: %s", c.algorithm, c.id, text)
	}
}

func TestManyRequestsAskForTheKeySetOnce(t *testing.T) {
	i := newIssuer(t, edJWK(newSigner().ed.Public()))
	b := newBroker(t, queen.Options{Auth: queen.Auth{JWKS: queen.JWKS{URL: i.URL}}})
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			status, text := b.tryKey(t, "EdDSA", "e", newSigner().ed)
			assert.Equal(t, 200, status, text)
		})
	}
	wg.Wait()
	assert.Equal(t, 1, i.count())
}

// lockedWriter writes under a lock that readers of w hold too.
type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
