package queen

import (
	"bytes"
	"fmt"
	"math"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a JSON body, so that a hostile one cannot
// grow the stack without end. encoding/json stops at the same depth.
const maxDepth = 10000

// scanner reads a JSON text once, from front to back, and hands out the parts
// that a decoder asks for. It validates everything that it passes over, so the
// spans that raw returns are complete JSON values, byte for byte as they came.
// It is stricter than encoding/json where a name is concerned (keys match
// exactly, half a surrogate pair is an error) and equal to it for the rest.
type scanner struct {
	b []byte
	i int
}

// bodyError is what a decoder says of a body that it cannot read. Its text is
// meant for the client.
type bodyError struct{ text string }

func (e *bodyError) Error() string { return e.text }

func bodyErrorf(format string, args ...any) error {
	return &bodyError{text: fmt.Sprintf(format, args...)}
}

// newScanner refuses a body that is not UTF-8: JSON on the wire has no other
// encoding, and a name with bad bytes would be another name in the answer.
func newScanner(b []byte) (*scanner, error) {
	if !utf8.Valid(b) {
		return nil, bodyErrorf("invalid UTF-8")
	}
	return &scanner{b: b}, nil
}

func (s *scanner) syntax(want string) error {
	if s.i >= len(s.b) {
		return bodyErrorf("unexpected end of body, expected %s", want)
	}
	return bodyErrorf("expected %s at byte %d", want, s.i)
}

// peek skips white space and returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// end reports an error when anything but white space is left.
func (s *scanner) end() error {
	if s.peek(); s.i < len(s.b) {
		return s.syntax("end of body")
	}
	return nil
}

// null consumes the literal null, if it comes next.
func (s *scanner) null() bool {
	if s.peek() == 'n' && bytes.HasPrefix(s.b[s.i:], []byte("null")) {
		s.i += len("null")
		return true
	}
	return false
}

// object calls field for every key of the object that comes next; field
// consumes the value. An empty array is an empty object: PHP writes one so.
func (s *scanner) object(field func(key []byte) error) error {
	switch s.peek() {
	case '[':
		s.i++
		if s.peek() != ']' {
			return bodyErrorf("expected an object, got an array at byte %d", s.i-1)
		}
		s.i++
		return nil
	case '{':
		s.i++
	default:
		return s.syntax("an object")
	}
	if s.peek() == '}' {
		s.i++
		return nil
	}
	for {
		key, err := s.key()
		if err != nil {
			return err
		}
		if err := field(key); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.i++
		case '}':
			s.i++
			return nil
		default:
			return s.syntax("',' or '}'")
		}
	}
}

// key reads an object key and the colon behind it.
func (s *scanner) key() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.syntax("a key")
	}
	start := s.i + 1
	escaped, err := s.skipString()
	if err != nil {
		return nil, err
	}
	key := s.b[start : s.i-1]
	if escaped {
		if key, err = unescape(key); err != nil {
			key = nil // no key of ours has half a surrogate pair in it
		}
	}
	if s.peek() != ':' {
		return nil, s.syntax("':'")
	}
	s.i++
	return key, nil
}

// array calls element for every element of the array that comes next; element
// consumes the value.
func (s *scanner) array(element func(i int) error) error {
	if s.peek() != '[' {
		return s.syntax("an array")
	}
	s.i++
	if s.peek() == ']' {
		s.i++
		return nil
	}
	for i := 0; ; i++ {
		if err := element(i); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.i++
		case ']':
			s.i++
			return nil
		default:
			return s.syntax("',' or ']'")
		}
	}
}

// str reads the string that comes next. Where it equals prev, prev itself is
// returned: the items of one push mostly name the same queue.
func (s *scanner) str(what, prev string) (string, error) {
	if s.peek() != '"' {
		if err := s.skip(0); err != nil {
			return "", err
		}
		return "", bodyErrorf("%s must be a string", what)
	}
	start := s.i + 1
	escaped, err := s.skipString()
	if err != nil {
		return "", err
	}
	text := s.b[start : s.i-1]
	if escaped {
		if text, err = unescape(text); err != nil {
			return "", bodyErrorf("%s: %s", what, err.Error())
		}
	}
	if string(text) == prev {
		return prev, nil
	}
	return string(text), nil
}

// integer reads an integer of 64 bits. A fraction or an exponent is refused,
// even where its value is whole.
func (s *scanner) integer(what string) (int64, error) {
	raw, err := s.raw()
	if err != nil {
		return 0, err
	}
	n, ok := parseInteger(raw)
	if !ok {
		return 0, bodyErrorf("%s must be an integer", what)
	}
	return n, nil
}

func (s *scanner) boolean(what string) (bool, error) {
	raw, err := s.raw()
	if err != nil {
		return false, err
	}
	switch string(raw) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, bodyErrorf("%s must be a boolean", what)
}

// raw returns the bytes of the value that comes next.
func (s *scanner) raw() ([]byte, error) {
	s.peek()
	start := s.i
	if err := s.skip(0); err != nil {
		return nil, err
	}
	return s.b[start:s.i:s.i], nil
}

// parseInteger reads an optional sign and digits, without overflow.
func parseInteger(text []byte) (int64, bool) {
	digits, negative := text, false
	if len(digits) > 0 && digits[0] == '-' {
		digits, negative = digits[1:], true
	}
	if len(digits) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range digits {
		if c < '0' || c > '9' || n > math.MaxInt64/10 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	switch {
	case negative && n <= math.MaxInt64:
		return -int64(n), true
	case n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}

// unescape resolves the escapes of a string that skipString has accepted.
func unescape(text []byte) ([]byte, error) {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			out = append(out, text[i])
			continue
		}
		i++
		switch c := text[i]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := hex4(text[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				low := rune(utf8.RuneError)
				if i+6 < len(text) && text[i+1] == '\\' && text[i+2] == 'u' {
					low = hex4(text[i+3:])
				}
				if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
					return nil, bodyErrorf("half of a surrogate pair")
				}
				i += 6
			}
			out = utf8.AppendRune(out, r)
		default: // '"', '\\' and '/'
			out = append(out, c)
		}
	}
	return out, nil
}

func hex4(text []byte) rune {
	var r rune
	for _, c := range text[:4] {
		switch {
		case c <= '9':
			r = r<<4 | rune(c-'0')
		case c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			r = r<<4 | rune(c-'a'+10)
		}
	}
	return r
}
