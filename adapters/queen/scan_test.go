package queen

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scanAll validates b as one JSON value, as a payload is validated.
func scanAll(b []byte) error {
	s, err := newScanner(b)
	if err != nil {
		return err
	}
	if err := s.skip(0); err != nil {
		return err
	}
	return s.end()
}

// FuzzScanner holds the scanner against encoding/json: both must accept the
// same texts, and decode the same strings where both do.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`null`, ` { "b":1.50, "a" : "<&>" } `, `[1,2,[3]]`, `-0.5e+10`, `01`, `1.`, `"\ud83d\ude00"`, `"\ud800"`,
		`"\u00`, "\"\x01\"", `tru`, `{"a":}`, `[1,]`, `{"a":1,"a":2}`, "\"\xff\"", ``, `"\u0000"`, `"\x"`, `-`, `{"a"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want := json.Valid(b) && utf8.Valid(b)
		got := scanAll(b) == nil
		require.Equal(t, want, got, "%q", b)
		if !got {
			return
		}
		s, err := newScanner(b)
		require.NoError(t, err)
		if s.peek() != '"' {
			return
		}
		text, err := s.str("value", "")
		var std string
		require.NoError(t, json.Unmarshal(b, &std))
		if err != nil {
			require.Contains(t, std, "\uFFFD", "only half a surrogate pair may be refused")
			return
		}
		require.Equal(t, std, text)
	})
}

func TestScannerDepthIsBounded(t *testing.T) {
	deep := strings.Repeat("[", maxDepth+2) + strings.Repeat("]", maxDepth+2)
	require.Error(t, scanAll([]byte(deep)))
	fine := strings.Repeat("[", 500) + strings.Repeat("]", 500)
	require.NoError(t, scanAll([]byte(fine)))
}

func TestScannerIntegers(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-0": 0, "7": 7, "-7": -7, "9223372036854775807": 9223372036854775807, "-9223372036854775807": -9223372036854775807,
	} {
		got, ok := parseInteger([]byte(text))
		assert.True(t, ok, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "-", "1.0", "1e3", "abc", "9223372036854775808", "99999999999999999999999", "+1", " 1"} {
		_, ok := parseInteger([]byte(text))
		assert.False(t, ok, text)
	}
}

func FuzzAppendString(f *testing.F) {
	for _, seed := range []string{"", "plain", "a\"b\\c", "\x00\x1f\n\r\t", "<&>\u2028", "é😀", "\xff\xfe", "a\xc3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := appendString(nil, s)
		var back string
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, string([]rune(s)), back, "a bad byte each becomes U+FFFD")
	})
}
