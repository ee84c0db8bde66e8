package querator

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/segmentio/ksuid"
	"github.com/stretchr/testify/require"
)

func TestKSUIDAgreesWithTheReferenceLibrary(t *testing.T) {
	for range 2000 {
		var k [ksuidBytes]byte
		_, err := rand.Read(k[:])
		require.NoError(t, err)
		want, err := ksuid.FromBytes(k[:])
		require.NoError(t, err)

		got := string(appendKSUID([]byte("x"), &k))

		require.Equal(t, "x"+want.String(), got)
		back, err := parseKSUID(got[1:])
		require.NoError(t, err)
		require.Equal(t, k, back)
	}
}

func TestKSUIDBounds(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     error
	}{
		{"lowest", strings.Repeat("0", 27), nil},
		{"highest", "aWgEPTl1tmebfsQzFP4bxwgy80V", nil},
		{"one above the highest", "aWgEPTl1tmebfsQzFP4bxwgy80W", errKSUIDBounds},
		{"all digits at their highest", strings.Repeat("z", 27), errKSUIDBounds},
		{"no digit", strings.Repeat("0", 26) + "-", errKSUIDBounds},
		{"no digit in front", "!" + strings.Repeat("0", 26), errKSUIDBounds},
		{"short", strings.Repeat("0", 26), errKSUIDLength},
		{"long", strings.Repeat("0", 28), errKSUIDLength},
		{"empty", "", errKSUIDLength},
		{"27 characters in 28 bytes", strings.Repeat("0", 26) + "é", errKSUIDLength},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseKSUID(tt.in)
			require.Equal(t, tt.want, err)
		})
	}
}

func FuzzParseKSUID(f *testing.F) {
	for _, s := range []string{"", "invalid-id", "0ujtsYcgvSTl8PAuAdqWYSMnLOv", "aWgEPTl1tmebfsQzFP4bxwgy80V", "aWgEPTl1tmebfsQzFP4bxwgy80W", strings.Repeat("z", 27), strings.Repeat("\xff", 27)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, err := parseKSUID(s)
		if err != nil {
			return
		}
		if got := string(appendKSUID(nil, &k)); got != s {
			t.Fatalf("%q came back as %q", s, got)
		}
	})
}
