package cfqueues

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func sampleLease() lease {
	return lease{
		queue: uuid.New(), partition: uuid.New(), message: uuid.New(), id: uuid.New(),
		offset: 1<<48 + 7, attempt: 101,
	}
}

func TestLeaseIDsRoundTripBetweenServersOfOneStore(t *testing.T) {
	secret := bytes.Repeat([]byte{7}, 32)
	l := sampleLease()
	s := string(newTokens(secret).append(nil, &l))
	assert.LessOrEqual(t, len(s), 512)
	assert.Regexp(t, `^[A-Za-z0-9_-]+$`, s)
	got, ok := newTokens(secret).parse(s)
	require.True(t, ok)
	assert.Equal(t, l, got)
}

// The MAC is the standard's: its example of 40 bytes under a key of 256 bits.
func TestLeaseIDsCarryAStandardMAC(t *testing.T) {
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		require.NoError(t, err)
		return b
	}
	tok := tokensWithKey(unhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"))
	var sum [16]byte
	tok.mac(&sum, unhex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411"))
	assert.Equal(t, unhex("aaf3d8f1de5640c232f5b169b9c911e6"), sum[:])
}

func TestForeignAndForgedLeaseIDsAreRefused(t *testing.T) {
	tok := newTokens([]byte("one"))
	l := sampleLease()
	s := string(tok.append(nil, &l))
	_, ok := newTokens([]byte("two")).parse(s)
	assert.False(t, ok, "another store's lease id")
	for i := range len(s) {
		for _, c := range "A_z=\x00" {
			forged := s[:i] + string(c) + s[i+1:]
			if forged == s {
				continue
			}
			_, ok := tok.parse(forged)
			assert.False(t, ok, "character %d changed to %q", i, c)
		}
	}
	for _, bad := range []string{"", "lease_id1", s[1:], s + "A", s + "=", strings.ToUpper(s), " " + s, strings.Repeat("é", 64)} {
		_, ok := tok.parse(bad)
		assert.False(t, ok, bad)
	}
}

func FuzzLeaseID(f *testing.F) {
	tok := newTokens([]byte("secret"))
	l := sampleLease()
	f.Add(string(tok.append(nil, &l)))
	f.Add("eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2Q0JDLUhTNTEyIn0..Q8p21d7dceR6vUfwftONdQ.JVqZgAS.T2_HV99CYzGaQuhTyW8RsgbnpTRZHRM6N7UoSaAKeK0")
	f.Fuzz(func(t *testing.T, s string) {
		if l, ok := tok.parse(s); ok {
			require.Equal(t, s, string(tok.append(nil, &l)), "one lease has one id")
		}
	})
}
