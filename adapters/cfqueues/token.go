package cfqueues

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"sync"

	"github.com/google/uuid"
)

// lease is what a lease id says: which delivery of which message it is for. It names
// the message by its place, so an acknowledgement needs no look-up and works at every
// replica, after a restart and after the lease has expired.
type lease struct {
	queue     uuid.UUID
	partition uuid.UUID
	message   uuid.UUID
	id        uuid.UUID // of the batch that the message was leased in
	offset    int64
	attempt   int32
}

// A lease id is the URL-safe base64 of version, fields and a MAC: 127 characters, of
// which the vendor's clients know nothing but that it is a string.
const (
	tokenVersion = 2
	tokenFields  = 1 + 4*16 + 8 + 4
	tokenMAC     = aes.BlockSize
	tokenLen     = tokenFields + tokenMAC
	// macPurpose separates the key of these tokens from other uses of the secret.
	macPurpose = "cfqueues lease token 2"
)

// tokens writes and reads lease ids. Its key comes from the store, so that all
// replicas and all later starts understand each other's.
//
// The MAC is AES-CMAC (NIST SP 800-38B) under a key of 256 bits. A pull writes one per
// message and an acknowledgement reads one; an HMAC took a sixth of the CPU of both.
type tokens struct {
	block cipher.Block
	// last is what the last block, which is never full, is mixed with.
	last    [aes.BlockSize]byte
	scratch sync.Pool
}

// tokenScratch is the memory for one token. It is kept, since what goes through an
// interface would be allocated anew for each.
type tokenScratch struct {
	raw [tokenLen]byte
	sum [aes.BlockSize]byte
}

// newTokens derives the key from the engine's secret.
func newTokens(secret []byte) *tokens {
	derive := hmac.New(sha256.New, secret)
	derive.Write([]byte(macPurpose))
	return tokensWithKey(derive.Sum(nil))
}

func tokensWithKey(key []byte) *tokens {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // 32 bytes are a key
	}
	t := &tokens{block: block, scratch: sync.Pool{New: func() any { return new(tokenScratch) }}}
	block.Encrypt(t.last[:], t.last[:])
	double(&t.last)
	double(&t.last)
	return t
}

// double multiplies by x in the field of CMAC's subkeys.
func double(b *[aes.BlockSize]byte) {
	carry := b[0] >> 7
	for i := range len(b) - 1 {
		b[i] = b[i]<<1 | b[i+1]>>7
	}
	b[len(b)-1] = b[len(b)-1]<<1 ^ carry*0x87
}

// append adds the lease id of l to dst.
func (t *tokens) append(dst []byte, l *lease) []byte {
	s, _ := t.scratch.Get().(*tokenScratch)
	defer t.scratch.Put(s)
	raw := &s.raw
	raw[0] = tokenVersion
	at := 1
	for _, id := range []*uuid.UUID{&l.queue, &l.partition, &l.message, &l.id} {
		at += copy(raw[at:], id[:])
	}
	binary.BigEndian.PutUint64(raw[at:], uint64(l.offset))    //nolint:gosec // the same bits, see parse
	binary.BigEndian.PutUint32(raw[at+8:], uint32(l.attempt)) //nolint:gosec // the same bits, see parse
	t.mac(&s.sum, raw[:tokenFields])
	copy(raw[tokenFields:], s.sum[:])
	return base64.RawURLEncoding.AppendEncode(dst, raw[:])
}

// strictBase64 refuses bits that an encoder would not have written.
var strictBase64 = base64.RawURLEncoding.Strict()

// parse reads a lease id. It reports false for everything that append did not write
// with the same key.
func (t *tokens) parse(text string) (lease, bool) {
	var l lease
	if len(text) != base64.RawURLEncoding.EncodedLen(tokenLen) {
		return l, false
	}
	s, _ := t.scratch.Get().(*tokenScratch)
	defer t.scratch.Put(s)
	raw := &s.raw
	n, err := strictBase64.Decode(raw[:], []byte(text))
	if err != nil || n != tokenLen || raw[0] != tokenVersion {
		return l, false
	}
	t.mac(&s.sum, raw[:tokenFields])
	if subtle.ConstantTimeCompare(s.sum[:], raw[tokenFields:]) != 1 {
		return l, false
	}
	at := 1
	for _, id := range []*uuid.UUID{&l.queue, &l.partition, &l.message, &l.id} {
		at += copy(id[:], raw[at:])
	}
	l.offset = int64(binary.BigEndian.Uint64(raw[at:]))    //nolint:gosec // the same bits, see append
	l.attempt = int32(binary.BigEndian.Uint32(raw[at+8:])) //nolint:gosec // the same bits, see append
	return l, true
}

// mac computes the MAC of a text whose length is no multiple of a block.
func (t *tokens) mac(sum *[aes.BlockSize]byte, text []byte) {
	clear(sum[:])
	for len(text) > aes.BlockSize {
		subtle.XORBytes(sum[:], sum[:], text[:aes.BlockSize])
		t.block.Encrypt(sum[:], sum[:])
		text = text[aes.BlockSize:]
	}
	subtle.XORBytes(sum[:], sum[:], text)
	sum[len(text)] ^= 0x80
	subtle.XORBytes(sum[:], sum[:], t.last[:])
	t.block.Encrypt(sum[:], sum[:])
}
