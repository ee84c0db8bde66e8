package querator

import "strings"

// encoding is one of the two encodings of a message.
type encoding uint8

const (
	encodeJSON encoding = iota
	encodeProtobuf
)

// The content types that replies carry.
const (
	typeJSON     = "application/json"
	typeProtobuf = "application/protobuf"
)

// mediaType cuts a header at its first parameter or alternative, so that only the first media
// type of a list counts.
func mediaType(header string) string {
	if i := strings.IndexAny(header, ";,"); i >= 0 {
		header = header[:i]
	}
	return strings.TrimSpace(header)
}

// encodingOf maps a media type to an encoding; ok is false for one that no route understands.
func encodingOf(media string) (e encoding, ok bool) {
	switch strings.ToLower(media) {
	case "", "*/*", "application/*", typeJSON:
		return encodeJSON, true
	case typeProtobuf:
		return encodeProtobuf, true
	}
	return encodeJSON, false
}

// replyEncoding decides how to answer. A request that says nothing of the answer gets it as it
// sent the question: every official client sends protobuf without an Accept header and reads
// either, and protobuf spares it the names that differ between generations.
func replyEncoding(accept, contentType string) (encoding, error) {
	media := mediaType(accept)
	if media == "" {
		e, _ := encodingOf(mediaType(contentType))
		return e, nil
	}
	e, ok := encodingOf(media)
	if !ok {
		return encodeJSON, badAccept(media)
	}
	return e, nil
}
