package cfqueues

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// rawValue is the text of one JSON value inside a body that checkJSON accepted,
// without the white space around it and with every byte inside it as received.
type rawValue []byte

// checkJSON says whether body is one well-formed JSON value in valid UTF-8 and
// returns it without surrounding white space. All other decoders of this file
// rely on it: they skip over text that it has already found to be well-formed.
func checkJSON(body []byte) (rawValue, *apiError) {
	// The standard validator lets invalid UTF-8 pass inside strings. A payload is
	// kept raw and handed to consumers of three protocols, so it is refused here.
	if !utf8.Valid(body) {
		return nil, errMalformed("The request body is not valid UTF-8")
	}
	if !json.Valid(body) {
		return nil, errMalformed("The request body is not valid JSON")
	}
	return bytes.Trim(body, " \t\r\n"), nil
}

// kind names the type of a value as this protocol's error texts do.
func (v rawValue) kind() string {
	if len(v) == 0 {
		return "undefined"
	}
	switch v[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	default:
		return "number"
	}
}

// isNull says whether the value is null, which this protocol reads as "not given"
// for every optional field.
func (v rawValue) isNull() bool { return len(v) > 0 && v[0] == 'n' }

// eachMember calls visit for every member of an object, in order, and stops at the
// first error. A name that occurs twice is visited twice, so the last one wins.
func (v rawValue) eachMember(at path, visit func(name string, value rawValue) *apiError) *apiError {
	if v.kind() != "object" {
		return errExpected("object", v, at)
	}
	for i := skipSpace(v, 1); i < len(v) && v[i] != '}'; {
		end := skipValue(v, i)
		name, err := v[i:end].text(at)
		if err != nil {
			return err
		}
		start := skipSpace(v, skipSpace(v, end)+1)
		end = skipValue(v, start)
		if err := visit(name, v[start:end]); err != nil {
			return err
		}
		i = skipComma(v, end)
	}
	return nil
}

// eachElement calls visit for every element of an array, in order, and stops at the
// first error.
func (v rawValue) eachElement(at path, visit func(index int, value rawValue) *apiError) *apiError {
	if v.kind() != "array" {
		return errExpected("array", v, at)
	}
	index := 0
	for i := skipSpace(v, 1); i < len(v) && v[i] != ']'; index++ {
		end := skipValue(v, i)
		if err := visit(index, v[i:end]); err != nil {
			return err
		}
		i = skipComma(v, end)
	}
	return nil
}

// text decodes a string. An escaped half of a surrogate pair has no UTF-8 form; it is
// refused instead of being replaced, because a payload must not change on its way.
func (v rawValue) text(at path) (string, *apiError) {
	if v.kind() != "string" {
		return "", errExpected("string", v, at)
	}
	inner := v[1 : len(v)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	if hasLoneSurrogate(inner) {
		return "", errShape("Invalid unicode escape", at)
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return "", errShape("Invalid string", at)
	}
	return s, nil
}

// integer decodes a whole number of any notation (50, 50.0 and 5e1 are the same) and
// refuses fractions. The caller checks the bounds; a number that no int64 holds is
// reported as the nearest one, which is outside all bounds of this protocol.
func (v rawValue) integer(at path) (int64, *apiError) {
	if v.kind() != "number" {
		return 0, errExpected("number", v, at)
	}
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return n, nil
	}
	// A range error leaves the infinity of the right sign in f, which is what is wanted.
	f, _ := strconv.ParseFloat(string(v), 64)
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64, nil
	case f <= math.MinInt64:
		return math.MinInt64, nil
	case f != math.Trunc(f):
		return 0, errShape("Expected integer, received float", at)
	}
	return int64(f), nil
}

// boolean decodes true or false.
func (v rawValue) boolean(at path) (bool, *apiError) {
	if v.kind() != "boolean" {
		return false, errExpected("boolean", v, at)
	}
	return v[0] == 't', nil
}

// path names a place in a body for error texts. It is kept as its parts and written
// out only when an error needs it, since nearly every request is correct.
type path struct {
	list  string // name of the array the place is in, or ""
	index int    // position in that array
	field string // name of the member, or "" for the element itself
}

// root is the path of the body itself.
var root = path{}

// in is the path of a member of the value at p. A body nests its own fields at most
// one list or one object deep, so two levels are all that is needed.
func (p path) in(field string) path {
	if p.field != "" {
		return path{field: p.field + "." + field}
	}
	return path{list: p.list, index: p.index, field: field}
}

// at is the path of an element of the array at p.
func (p path) at(index int) path { return path{list: p.field, index: index} }

// String writes the path as the vendor's texts do: messages[3].body.
func (p path) String() string {
	switch {
	case p.list == "":
		return p.field
	case p.field == "":
		return fmt.Sprintf("%s[%d]", p.list, p.index)
	default:
		return fmt.Sprintf("%s[%d].%s", p.list, p.index, p.field)
	}
}

// skipSpace returns the first position from i on that is not white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipComma returns where the next member or element begins after the value that
// ends at i, or the closing bracket.
func skipComma(b []byte, i int) int {
	i = skipSpace(b, i)
	if i < len(b) && b[i] == ',' {
		i = skipSpace(b, i+1)
	}
	return i
}

// skipValue returns the position after the value that begins at i. It relies on the
// text being well-formed and does not recurse, so nesting costs no stack.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			i++
			continue
		default:
			i = skipScalar(b, i)
		}
		if depth <= 0 {
			return i
		}
	}
	return i
}

// skipString returns the position after the string whose quote is at i.
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// skipScalar returns the position after the number or word that begins at i.
func skipScalar(b []byte, i int) int {
	for i < len(b) {
		switch b[i] {
		case ',', ':', ' ', '\n', '\t', '\r', '}', ']':
			return i
		}
		i++
	}
	return i
}

// hasLoneSurrogate says whether the inside of a well-formed string holds an escaped
// surrogate without its partner.
func hasLoneSurrogate(s []byte) bool {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		i++
		if s[i] != 'u' {
			continue
		}
		unit := hexUnit(s, i)
		i += 4
		switch {
		case unit >= 0xDC00 && unit <= 0xDFFF:
			return true
		case unit >= 0xD800 && unit <= 0xDBFF:
			low := 0
			if i+2 < len(s) && s[i+1] == '\\' && s[i+2] == 'u' {
				low = hexUnit(s, i+2)
			}
			if low < 0xDC00 || low > 0xDFFF {
				return true
			}
			i += 6
		}
	}
	return false
}

// hexUnit reads the four hex digits after the u at position i.
func hexUnit(s []byte, i int) int {
	n, err := strconv.ParseUint(string(s[i+1:i+5]), 16, 32)
	if err != nil {
		return 0
	}
	return int(n)
}
