package queen_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// secretKey is the secret of the tests' HS tokens.
const secretKey = "a secret of forty-eight characters, not a short one"

// signer makes RSA and Ed25519 tokens.
type signer struct {
	rsa *rsa.PrivateKey
	ed  ed25519.PrivateKey
}

// newSigner makes keys once for all tests: RSA keys take their time.
var newSigner = sync.OnceValue(makeSigner)

// otherSigner makes tokens that nobody should believe.
var otherSigner = sync.OnceValue(makeSigner)

func makeSigner() signer {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return signer{key, ed}
}

// publicPEM is a public key as PEM.
func publicPEM(key crypto.PublicKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// sign makes a token; key is a []byte, an *rsa.PrivateKey or an ed25519.PrivateKey.
func sign(algorithm, id string, key any, claims jwt.MapClaims) string {
	token := jwt.NewWithClaims(jwt.GetSigningMethod(algorithm), claims)
	if id != "" {
		token.Header["kid"] = id
	}
	text, err := token.SignedString(key)
	if err != nil {
		panic(err)
	}
	return text
}

// claimsOf are the claims of a good token: who, as what, until when.
func claimsOf(subject, role string, until time.Time) jwt.MapClaims {
	c := jwt.MapClaims{"sub": subject, "iss": "issuer", "aud": []string{"leasehold", "else"}, "exp": until.Unix()}
	if role != "" {
		c["role"] = role
	}
	return c
}

// rsaJWK and edJWK write public keys as members of a key set; the latter's id is "e".
func rsaJWK(id string, key *rsa.PublicKey) map[string]any {
	enc := base64.RawURLEncoding
	return map[string]any{
		"kty": "RSA", "kid": id, "use": "sig",
		"n": enc.EncodeToString(key.N.Bytes()), "e": enc.EncodeToString(big.NewInt(int64(key.E)).Bytes()),
	}
}

func edJWK(key crypto.PublicKey) map[string]any {
	raw, _ := key.(ed25519.PublicKey)
	return map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "e", "alg": "EdDSA", "x": base64.RawURLEncoding.EncodeToString(raw)}
}

// issuer is a server of key sets.
type issuer struct {
	*httptest.Server

	mu      sync.Mutex
	keys    []map[string]any
	down    bool
	fetches int
}

func newIssuer(t *testing.T, keys ...map[string]any) *issuer {
	t.Helper()
	i := &issuer{keys: keys}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.fetches++
		if i.down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": i.keys})
	}))
	t.Cleanup(i.Close)
	return i
}

// publish replaces the set; set puts the server out of order or back.
func (i *issuer) publish(keys ...map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

func (i *issuer) set(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

func (i *issuer) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}
