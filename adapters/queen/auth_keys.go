package queen

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// minRSABits is the shortest RSA key that is taken.
const minRSABits = 2048

// The algorithms by the kind of key that checks them. A key of one kind never checks another's: a public key used as a secret would let
// everybody sign.
var (
	secretAlgorithms = []string{"HS256", "HS384", "HS512"}
	rsaAlgorithms    = []string{"RS256", "RS384", "RS512"}
	edAlgorithms     = []string{"EdDSA"}
)

// keyRing holds the keys that check tokens.
type keyRing struct {
	// algorithms are those that are let in.
	algorithms []string
	secret     []byte
	// public is nil, an *rsa.PublicKey or an ed25519.PublicKey.
	public crypto.PublicKey
	set    *keySet
}

// load reads the keys and settles which algorithms they allow.
func (k *keyRing) load(a *Auth, o verifierOptions) error {
	if len(a.Secret) > 0 {
		k.secret = a.Secret
		k.algorithms = append(k.algorithms, secretAlgorithms...)
	}
	if len(a.PublicKey) > 0 {
		key, err := parsePublicKey(a.PublicKey)
		if err != nil {
			return err
		}
		k.public = key
		k.algorithms = append(k.algorithms, algorithmsOf(key)...)
	}
	if a.JWKS.URL != "" {
		set, err := newKeySet(a.JWKS, o)
		if err != nil {
			return err
		}
		k.set = set
		k.algorithms = append(append(k.algorithms, rsaAlgorithms...), edAlgorithms...)
	}
	chosen := a.Algorithm
	switch {
	case len(k.algorithms) == 0:
		return errors.New("a secret, a public key or the URL of a key set is required")
	case chosen == "" || strings.EqualFold(chosen, "auto"):
		return nil
	case !slices.Contains(Algorithms(), chosen):
		return errors.New("unknown algorithm, want one of: " + strings.Join(Algorithms(), ", "))
	case !slices.Contains(k.algorithms, chosen):
		return fmt.Errorf("algorithm %s: there is no key for it", chosen)
	}
	k.algorithms = []string{chosen}
	return nil
}

// Algorithms lists the names that Auth.Algorithm may have.
func Algorithms() []string {
	return slices.Concat(secretAlgorithms, rsaAlgorithms, edAlgorithms, []string{"auto"})
}

// algorithmsOf are the algorithms whose signatures a public key checks.
func algorithmsOf(key crypto.PublicKey) []string {
	if _, ok := key.(*rsa.PublicKey); ok {
		return rsaAlgorithms
	}
	return edAlgorithms
}

// find returns the keys that may have signed a token. It looks at the header only, nothing of which is trusted yet.
func (k *keyRing) find(ctx context.Context, t *jwt.Token) (any, error) {
	algorithm := t.Method.Alg()
	if !slices.Contains(k.algorithms, algorithm) {
		return nil, errUnsupported
	}
	if _, ok := t.Header["crit"]; ok {
		return nil, errCritical // it names what a reader must understand, and nothing is understood here
	}
	if slices.Contains(secretAlgorithms, algorithm) {
		return k.secret, nil
	}
	var found jwt.VerificationKeySet
	if k.public != nil && slices.Contains(algorithmsOf(k.public), algorithm) {
		found.Keys = append(found.Keys, k.public)
	}
	if k.set != nil {
		id, _ := t.Header["kid"].(string)
		keys, err := k.set.find(ctx, id, algorithm)
		if err != nil && len(found.Keys) == 0 {
			return nil, err
		}
		for _, key := range keys {
			found.Keys = append(found.Keys, key)
		}
	}
	if len(found.Keys) == 0 {
		return nil, errUnknownKey
	}
	return found, nil
}

// parsePublicKey reads a PEM block: a public key or a certificate.
func parsePublicKey(text []byte) (crypto.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the public key is not PEM")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		if key1, err1 := x509.ParsePKCS1PublicKey(block.Bytes); err1 == nil {
			key, err = key1, nil
		}
	}
	if cert, errCert := x509.ParseCertificate(block.Bytes); errCert == nil {
		key, err = cert.PublicKey, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the public key cannot be read: want PUBLIC KEY, RSA PUBLIC KEY or CERTIFICATE, found %s", block.Type)
	}
	return usableKey(key)
}

// usableKey refuses keys of other kinds, and RSA keys that are too short.
func usableKey(key crypto.PublicKey) (crypto.PublicKey, error) {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() < minRSABits {
			return nil, fmt.Errorf("the RSA key has %d bits, at least %d are required", key.N.BitLen(), minRSABits)
		}
		return key, nil
	case ed25519.PublicKey:
		return key, nil
	}
	return nil, errors.New("the public key is neither RSA nor Ed25519")
}
