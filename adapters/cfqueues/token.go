package cfqueues

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"hash"
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

// A lease id is the URL-safe base64 of version, fields and a truncated HMAC: 127
// characters, of which the vendor's clients know nothing but that it is a string.
const (
	tokenVersion = 1
	tokenFields  = 1 + 4*16 + 8 + 4
	tokenMAC     = 16
	tokenLen     = tokenFields + tokenMAC
	// macPurpose separates the key of these tokens from other uses of the secret.
	macPurpose = "cfqueues lease token 1"
)

// tokens writes and reads lease ids. Its key comes from the store, so that all
// replicas and all later starts understand each other's.
type tokens struct {
	macs sync.Pool
}

// newTokens derives the key from the engine's secret.
func newTokens(secret []byte) *tokens {
	derive := hmac.New(sha256.New, secret)
	derive.Write([]byte(macPurpose))
	key := derive.Sum(nil)
	return &tokens{macs: sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// append adds the lease id of l to dst.
func (t *tokens) append(dst []byte, l *lease) []byte {
	var raw [tokenFields + sha256.Size]byte
	raw[0] = tokenVersion
	at := 1
	for _, id := range []uuid.UUID{l.queue, l.partition, l.message, l.id} {
		at += copy(raw[at:], id[:])
	}
	binary.BigEndian.PutUint64(raw[at:], uint64(l.offset))    //nolint:gosec // the same bits, see parse
	binary.BigEndian.PutUint32(raw[at+8:], uint32(l.attempt)) //nolint:gosec // the same bits, see parse
	t.sum(raw[:tokenFields], raw[tokenFields:tokenFields])
	return base64.RawURLEncoding.AppendEncode(dst, raw[:tokenLen])
}

// parse reads a lease id. It reports false for everything that append did not write
// with the same key.
func (t *tokens) parse(s string) (lease, bool) {
	var raw [tokenLen]byte
	var l lease
	if len(s) != base64.RawURLEncoding.EncodedLen(tokenLen) {
		return l, false
	}
	n, err := base64.RawURLEncoding.Strict().Decode(raw[:], []byte(s))
	if err != nil || n != tokenLen || raw[0] != tokenVersion {
		return l, false
	}
	var sum [sha256.Size]byte
	t.sum(raw[:tokenFields], sum[:0])
	if subtle.ConstantTimeCompare(sum[:tokenMAC], raw[tokenFields:]) != 1 {
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

// sum appends the HMAC of fields to dst.
func (t *tokens) sum(fields, dst []byte) {
	mac, ok := t.macs.Get().(hash.Hash)
	if !ok {
		return
	}
	mac.Reset()
	mac.Write(fields)
	mac.Sum(dst)
	t.macs.Put(mac)
}
