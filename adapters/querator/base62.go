package querator

import (
	"encoding/binary"
	"errors"
)

// A KSUID is 20 bytes, shown as 27 base-62 digits that sort like the bytes do.
const (
	ksuidBytes  = 20
	ksuidDigits = 27
	// ksuidEpoch is the second from which a KSUID's timestamp counts: 2014-05-13 16:53:20 UTC.
	ksuidEpoch = 1_400_000_000
)

const base62Alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// chunk is 62^5, the largest power that leaves room for a 32-bit digit above it in 64 bits.
const (
	chunkDigits = 5
	chunk       = 62 * 62 * 62 * 62 * 62
)

var (
	errKSUIDLength = errors.New("Valid encoded KSUIDs are 27 characters") //nolint:staticcheck // the protocol's own text, with its capital
	//nolint:staticcheck // the protocol's own text, with its capital
	errKSUIDBounds = errors.New("Valid encoded KSUIDs are bounded by 000000000000000000000000000 and aWgEPTl1tmebfsQzFP4bxwgy80V")
)

// base62Values maps a digit to its value; 0xff is no digit.
var base62Values = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i := range len(base62Alphabet) {
		t[base62Alphabet[i]] = byte(i)
	}
	return t
}()

// appendKSUID appends the 27 digits of k to dst.
func appendKSUID(dst []byte, k *[ksuidBytes]byte) []byte {
	var limbs [5]uint32
	for i := range limbs {
		limbs[i] = binary.BigEndian.Uint32(k[4*i:])
	}
	var digits [ksuidDigits]byte
	for at := ksuidDigits; at > 0; {
		var rest uint64
		for i := range limbs {
			v := rest<<32 | uint64(limbs[i])
			limbs[i] = uint32(v / chunk) //nolint:gosec // v < chunk·2^32, so the quotient fits
			rest = v % chunk
		}
		for range min(chunkDigits, at) {
			at--
			digits[at] = base62Alphabet[rest%62]
			rest /= 62
		}
	}
	return append(dst, digits[:]...)
}

// parseKSUID reads 27 digits. Its errors are the texts that the protocol shows.
func parseKSUID(s string) (k [ksuidBytes]byte, err error) {
	if len(s) != ksuidDigits {
		return k, errKSUIDLength
	}
	var limbs [5]uint32
	for at := 0; at < ksuidDigits; {
		// 27 is 2 + 5·5: the short chunk comes first.
		n, scale := chunkDigits, uint64(chunk)
		if at == 0 {
			n, scale = ksuidDigits%chunkDigits, 62*62
		}
		var carry uint64
		for range n {
			d := base62Values[s[at]]
			if d == 0xff {
				return k, errKSUIDBounds
			}
			carry = carry*62 + uint64(d)
			at++
		}
		for i := len(limbs) - 1; i >= 0; i-- {
			v := uint64(limbs[i])*scale + carry
			limbs[i] = uint32(v) //nolint:gosec // the low half; the high half is carried
			carry = v >> 32
		}
		if carry != 0 {
			return k, errKSUIDBounds
		}
	}
	for i, l := range limbs {
		binary.BigEndian.PutUint32(k[4*i:], l)
	}
	return k, nil
}
