package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

const (
	// KeySize is the length of a key, in bytes.
	KeySize = 32
	// Overhead is how many bytes a sealed payload is longer.
	Overhead = 1 + keyIDSize + nonceSize + tagSize

	version   = 1
	keyIDSize = 4
	nonceSize = 12
	tagSize   = 16
)

// Key seals and opens payloads. It is safe for concurrent use.
type Key struct {
	raw [KeySize]byte
	id  [keyIDSize]byte
}

// What can go wrong with a payload.
var (
	// ErrNoKey tells of a payload that was sealed under a key which this server does not have.
	ErrNoKey = errors.New("the payload is sealed under a key that this server does not have")
	// ErrDamaged tells of a payload that is not what was sealed for this message.
	ErrDamaged = errors.New("the sealed payload is damaged")
)

// ParseKey reads a key of 64 hex digits. Its error does not show them.
func ParseKey(text string) (*Key, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != KeySize {
		return nil, errors.New("a key is 64 hex digits")
	}
	k := &Key{}
	copy(k.raw[:], raw)
	sum := hmac256(raw, "leasehold key id", nil)
	copy(k.id[:], sum[:])
	return k, nil
}

// ID is the name of the key that its payloads carry, as 8 hex digits. It tells nothing of the key.
func (k *Key) ID() string { return hex.EncodeToString(k.id[:]) }

// Seal returns payload sealed for what context names, in memory of its own.
func (k *Key) Seal(context, payload []byte) ([]byte, error) {
	gcm, err := k.aead(context)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 1+keyIDSize+nonceSize, len(payload)+Overhead)
	out[0] = version
	copy(out[1:], k.id[:])
	nonce := out[1+keyIDSize:]
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return gcm.Seal(out, nonce, payload, context), nil
}

// Ring is a key to seal with and any number of older ones to open with. A nil
// Ring, or one without a key, seals nothing.
type Ring struct {
	key  *Key
	keys map[[keyIDSize]byte]*Key
}

// NewRing makes a ring. key may be nil: then there are old keys only, and nothing can be sealed.
func NewRing(key *Key, old ...*Key) *Ring {
	r := &Ring{key: key, keys: map[[keyIDSize]byte]*Key{}}
	for _, k := range append(old, key) {
		if k != nil {
			r.keys[k.id] = k
		}
	}
	return r
}

// CanSeal reports whether there is a key to seal with.
func (r *Ring) CanSeal() bool { return r != nil && r.key != nil }

// Seal seals under the ring's key. Its error is ErrNoKey where there is none.
func (r *Ring) Seal(context, payload []byte) ([]byte, error) {
	if !r.CanSeal() {
		return nil, ErrNoKey
	}
	return r.key.Seal(context, payload)
}

// Open returns what was sealed for the same context, in memory of its own. Its errors are ErrNoKey and ErrDamaged.
func (r *Ring) Open(context, sealed []byte) ([]byte, error) {
	if len(sealed) < Overhead || sealed[0] != version {
		return nil, ErrDamaged
	}
	var k *Key
	if r != nil {
		k = r.keys[[keyIDSize]byte(sealed[1:])]
	}
	if k == nil {
		return nil, ErrNoKey
	}
	gcm, err := k.aead(context)
	if err != nil {
		return nil, err
	}
	const head = 1 + keyIDSize
	payload, err := gcm.Open(make([]byte, 0, len(sealed)-Overhead), sealed[head:head+nonceSize], sealed[head+nonceSize:], context)
	if err != nil {
		return nil, ErrDamaged
	}
	return payload, nil
}

// aead is the cipher under the key that belongs to one context alone.
func (k *Key) aead(context []byte) (cipher.AEAD, error) {
	own := hmac256(k.raw[:], "leasehold payload", context)
	block, err := aes.NewCipher(own[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func hmac256(key []byte, label string, context []byte) (out [sha256.Size]byte) {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(label))
	h.Write([]byte{0})
	h.Write(context)
	h.Sum(out[:0])
	return out
}
