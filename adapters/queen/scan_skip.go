package queen

import "bytes"

// skip passes over the value that comes next and validates it.
func (s *scanner) skip(depth int) error {
	if depth > maxDepth {
		return bodyErrorf("nested deeper than %d", maxDepth)
	}
	switch c := s.peek(); c {
	case '{':
		return s.skipObject(depth)
	case '[':
		return s.skipArray(depth)
	case '"':
		_, err := s.skipString()
		return err
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		if c == '-' || (c >= '0' && c <= '9') {
			return s.skipNumber()
		}
		return s.syntax("a value")
	}
}

func (s *scanner) literal(word string) error {
	if !bytes.HasPrefix(s.b[s.i:], []byte(word)) {
		return s.syntax(word)
	}
	s.i += len(word)
	return nil
}

func (s *scanner) skipObject(depth int) error {
	s.i++
	if s.peek() == '}' {
		s.i++
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.syntax("a key")
		}
		if _, err := s.skipString(); err != nil {
			return err
		}
		if s.peek() != ':' {
			return s.syntax("':'")
		}
		s.i++
		if err := s.skip(depth + 1); err != nil {
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

func (s *scanner) skipArray(depth int) error {
	s.i++
	if s.peek() == ']' {
		s.i++
		return nil
	}
	for {
		if err := s.skip(depth + 1); err != nil {
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

// skipString passes over a string and says whether it contains an escape.
func (s *scanner) skipString() (escaped bool, err error) {
	i := s.i + 1
	for i < len(s.b) {
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			return escaped, nil
		case c < ' ':
			s.i = i
			return false, s.syntax("an escaped control character")
		case c == '\\':
			escaped = true
			n := escapeLength(s.b[i:])
			if n == 0 {
				s.i = i
				return false, s.syntax("a valid escape")
			}
			i += n
		default:
			i++
		}
	}
	s.i = len(s.b)
	return false, s.syntax("'\"'")
}

// escapeLength is the number of bytes of the escape that text begins with, or
// 0 when it is none.
func escapeLength(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(text) < 6 {
			return 0
		}
		for _, c := range text[2:6] {
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return 0
			}
		}
		return 6
	}
	return 0
}

func (s *scanner) skipNumber() error {
	if s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else if !s.digits() {
		return s.syntax("a digit")
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !s.digits() {
			return s.syntax("a digit")
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if !s.digits() {
			return s.syntax("a digit")
		}
	}
	return nil
}

// digits passes over one or more digits.
func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > start
}
