package querator

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// itemPlace is what an item id says: the place of an item among what waits in its partition. It
// changes whenever the item comes back, and the id with it, so that ids ascend in the order in
// which a partition hands items out and an old id names nothing.
type itemPlace struct {
	// second is the second of the turn, in seconds since the Unix epoch.
	second int64
	// turn orders the partition's items; offset is the item's place in the log, below 2^48.
	turn   uint64
	offset int64
}

// idCodec makes and reads item ids. The last two bytes of an id are a keyed hash over the
// partition and all of it, so that an id of another partition, of an older queue of the same name
// or a guess names no item instead of somebody else's.
type idCodec struct {
	k0, k1 uint64
}

// newIDCodec derives its key from a secret that every server of one store shares, so that ids say
// nothing about other uses of the secret.
func newIDCodec(secret []byte) *idCodec {
	key := sha256.Sum256(append([]byte("querator item id\x00"), secret...))
	return &idCodec{k0: binary.LittleEndian.Uint64(key[:8]), k1: binary.LittleEndian.Uint64(key[8:16])}
}

// SourceID returns the item id of the message at ref in partition, as a claim would show it. It is
// what a message that moves to a dead queue remembers of where it came from; secret is the
// store's, as Engine.Secret returns it.
func SourceID(secret []byte, partition uuid.UUID, ref core.ItemRef) string {
	place := itemPlace{second: ref.Second, turn: uint64(ref.Turn), offset: ref.Offset}
	if place.turn == 0 {
		place.turn = uint64(core.OwnTurn(ref.Offset))
	}
	return string(newIDCodec(secret).append(nil, partition, place))
}

// scheduledSecond stands for the second in the id of an item that is not in the log yet: it has no
// turn to tell the second of. No second of the log has its upper bit before 2082, so that such ids
// come after all others.
const scheduledSecond = 1<<31 + ksuidEpoch

// scheduledPlace is the place of an item that its producer scheduled: the sequence of its push and
// its index in it.
func scheduledPlace(sequence int64, index int) itemPlace {
	return itemPlace{second: scheduledSecond, turn: uint64(sequence), offset: int64(index)} //nolint:gosec // sequences are positive
}

// scheduled reports whether the place is one of scheduledPlace; sequence and offset are then the
// push's sequence and the index in it.
func (p itemPlace) scheduled() bool { return p.second == scheduledSecond }

func (p itemPlace) sequence() int64 { return int64(p.turn) } //nolint:gosec // what was put in, or a guess

// append appends the id of the item at place in partition to dst.
func (c *idCodec) append(dst []byte, partition uuid.UUID, place itemPlace) []byte {
	k := c.bytes(partition, place)
	return appendKSUID(dst, &k)
}

// bytes returns the id of the item at place in partition.
func (c *idCodec) bytes(partition uuid.UUID, place itemPlace) (k [ksuidBytes]byte) {
	binary.BigEndian.PutUint32(k[:], uint32(place.second-ksuidEpoch)) //nolint:gosec // wraps in 2150, as every KSUID does
	binary.BigEndian.PutUint64(k[4:], place.turn)
	putUint48(k[12:], uint64(place.offset)) //nolint:gosec // offsets are positive
	binary.BigEndian.PutUint16(k[18:], c.hash(partition, k[:18]))
	return k
}

// gave reports whether partition gave out the id k, or the one after it: clients step back by one
// to ask for what comes before nothing.
func (c *idCodec) gave(partition uuid.UUID, k *[ksuidBytes]byte) bool {
	low := binary.BigEndian.Uint16(k[18:])
	h := c.hash(partition, k[:18])
	return low == h || low+1 == h && h > 0
}

// parse reads an id of partition. ok is false for a well-formed id that this partition never
// gave out; an error is one of the protocol's texts about malformed ids.
func (c *idCodec) parse(id string, partition uuid.UUID) (place itemPlace, ok bool, err error) {
	k, err := parseKSUID(id)
	if err != nil {
		return place, false, err
	}
	if binary.BigEndian.Uint16(k[18:]) != c.hash(partition, k[:18]) {
		return place, false, nil
	}
	return placeIn(&k), true, nil
}

// placeIn returns what the bytes of an id say.
func placeIn(k *[ksuidBytes]byte) itemPlace {
	return itemPlace{
		second: int64(binary.BigEndian.Uint32(k[:])) + ksuidEpoch,
		turn:   binary.BigEndian.Uint64(k[4:]),
		offset: int64(uint48(k[12:])), //nolint:gosec // 48 bits fit
	}
}

func putUint48(b []byte, v uint64) {
	binary.BigEndian.PutUint16(b, uint16(v>>32)) //nolint:gosec // the upper 16 of 48 bits
	binary.BigEndian.PutUint32(b[2:], uint32(v)) //nolint:gosec // the lower 32 of 48 bits
}

func uint48(b []byte) uint64 {
	return uint64(binary.BigEndian.Uint16(b))<<32 | uint64(binary.BigEndian.Uint32(b[2:]))
}

// hash returns 16 bits of SipHash-2-4 over the partition and the rest of the id. SipHash is made
// for keyed hashes of short inputs; an HMAC would cost more than the rest of a claim.
func (c *idCodec) hash(partition uuid.UUID, rest []byte) uint16 {
	_ = rest[17]
	// 34 bytes in all: the last word holds two bytes and the length.
	words := [5]uint64{
		binary.LittleEndian.Uint64(partition[:8]), binary.LittleEndian.Uint64(partition[8:]),
		binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[8:]),
		uint64(rest[16]) | uint64(rest[17])<<8 | 34<<56,
	}
	// The state is in variables of its own, so that all of it stays in registers.
	a, b, d, e := c.k0^0x736f6d6570736575, c.k1^0x646f72616e646f6d, c.k0^0x6c7967656e657261, c.k1^0x7465646279746573
	for _, m := range words {
		e ^= m
		a, b, d, e = sipRound(a, b, d, e)
		a, b, d, e = sipRound(a, b, d, e)
		a ^= m
	}
	d ^= 0xff
	for range 4 {
		a, b, d, e = sipRound(a, b, d, e)
	}
	return uint16(a ^ b ^ d ^ e) //nolint:gosec // 16 bits are what the id has room for
}

// sipRound is one round of SipHash.
func sipRound(a, b, c, d uint64) (w, x, y, z uint64) {
	a += b
	b = bits.RotateLeft64(b, 13) ^ a
	a = bits.RotateLeft64(a, 32)
	c += d
	d = bits.RotateLeft64(d, 16) ^ c
	a += d
	d = bits.RotateLeft64(d, 21) ^ a
	c += b
	b = bits.RotateLeft64(b, 17) ^ c
	return a, b, bits.RotateLeft64(c, 32), d
}
