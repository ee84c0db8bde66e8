package querator

import (
	"bytes"
	"encoding/json"
)

// renameName renames the member "name" of a JSON object to queue_name; the 2024-09 document calls
// it so. A body that is no JSON object is left for the decoder to refuse.
func renameName(body []byte) []byte {
	const old, key = `"name"`, `"queue_name"`
	if !bytes.Contains(body, []byte(old)) || !json.Valid(body) {
		return body
	}
	// The body is valid, so that counting brackets outside of strings tells where its own members are.
	depth, member := 0, false
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			depth++
			member = depth == 1 && body[i] == '{'
		case '}', ']':
			depth--
		case ',':
			member = depth == 1 && body[0] != '['
		case '"':
			if member && bytes.HasPrefix(body[i:], []byte(old)) {
				return append(append(bytes.Clone(body[:i]), key...), body[i+len(old):]...)
			}
			member = false
			i = endOfString(body, i)
		default:
		}
	}
	return body
}

// endOfString returns where the string that begins at i ends.
func endOfString(body []byte, i int) int {
	for i++; i < len(body) && body[i] != '"'; i++ {
		if body[i] == '\\' {
			i++
		}
	}
	return i
}
