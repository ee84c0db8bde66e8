package cfqueues

import (
	"bytes"
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
