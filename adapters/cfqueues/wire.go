package cfqueues

import (
	"bytes"
	"encoding/base64"
	"time"
)

// Content types of a message, as they are named on the wire.
const (
	contentText  = "text"
	contentJSON  = "json"
	contentBytes = "bytes"
	contentV8    = "v8"
)

// pushMessage is one message of a push or of a batch, decoded.
type pushMessage struct {
	payload     []byte         // the exact bytes to keep
	contentType string         // text, json or bytes
	delay       *time.Duration // nil when the message names none
}

// pushBatch is a decoded batch of pushes.
type pushBatch struct {
	messages []pushMessage
	delay    *time.Duration // the batch's own delay, nil when it names none
}

// pullRequest is a decoded pull. Nil fields fall back to the consumer's settings.
type pullRequest struct {
	batchSize  *int64
	visibility *time.Duration
	usedAlias  bool // visibility_timeout was given, see aliasNotice
	// wait is an extension: how long to wait for messages. Nil means what the header says.
	wait *time.Duration
}

// ackRequest is a decoded acknowledgement.
type ackRequest struct {
	acks    []string
	retries []retryEntry
}

// retryEntry is one element of retries: a lease id and, where given, its own delay.
type retryEntry struct {
	leaseID string
	delay   *time.Duration
	// keepAttempts is an extension: the delivery does not count.
	keepAttempts bool
}

// slowPush reads the body of a single push.
func slowPush(body []byte, o *Options) (pushMessage, *apiError) {
	v, err := checkJSON(body)
	if err != nil {
		return pushMessage{}, err
	}
	return decodeMessage(v, root, o)
}

// decodeMessage reads one push object at a place of a body.
func decodeMessage(v rawValue, at path, o *Options) (pushMessage, *apiError) {
	m := pushMessage{contentType: contentJSON}
	var body rawValue
	err := v.eachMember(at, func(name string, value rawValue) *apiError {
		var err *apiError
		switch name {
		case "body":
			body = value
		case "content_type":
			m.contentType, err = decodeContentType(value, at.in(name))
		case "delay_seconds":
			m.delay, err = decodeDelay(value, at.in(name), o.Limits.MaxDelay, errMetadata)
		}
		return err
	})
	if err != nil {
		return m, err
	}
	if body == nil && o.Lenient {
		body = rawValue("null")
	}
	if body == nil {
		return m, errShape("Required", at.in("body"))
	}
	if m.payload, err = decodeBody(body, m.contentType, at.in("body"), o); err != nil {
		return m, err
	}
	if int64(len(m.payload)) > o.Limits.MaxMessageBytes {
		return m, errMessageSize(len(m.payload), o.Limits.MaxMessageBytes)
	}
	return m, nil
}

// decodeContentType reads content_type; null means the default.
func decodeContentType(v rawValue, at path) (string, *apiError) {
	if v.isNull() {
		return contentJSON, nil
	}
	s, err := v.text(at)
	if err != nil {
		return "", err
	}
	switch s {
	case contentText, contentJSON, contentBytes:
		return s, nil
	case contentV8:
		return "", errMetadata(`Content type "v8" cannot be produced over HTTP`, at)
	default:
		return "", errMetadata(`Invalid content type, expected "text", "json" or "bytes"`, at)
	}
}

// decodeBody turns the body of a message into the bytes to keep. For json these are
// the bytes of the value as received: white space inside it, number notation,
// duplicate names and key order all survive.
func decodeBody(v rawValue, contentType string, at path, o *Options) ([]byte, *apiError) {
	switch contentType {
	case contentText:
		if v.kind() == "string" && bytes.IndexByte(v, '\\') < 0 {
			return v[1 : len(v)-1], nil
		}
		s, err := v.text(at)
		return []byte(s), err
	case contentBytes:
		s, err := v.text(at)
		if err != nil {
			return nil, err
		}
		payload, decodeErr := base64.StdEncoding.Strict().DecodeString(s)
		if decodeErr != nil {
			return nil, errShape("Invalid base64", at)
		}
		return payload, nil
	}
	if k := v.kind(); o.StrictJSONPush && k != "object" && k != "array" {
		return nil, errExpected("object", v, at)
	}
	return v, nil
}

// slowBatch reads the body of a batch push. It validates everything, sizes
// included, so that a batch is stored whole or not at all.
func slowBatch(body []byte, o *Options) (pushBatch, *apiError) {
	var b pushBatch
	v, err := checkJSON(body)
	if err != nil {
		return b, err
	}
	var list rawValue
	err = v.eachMember(root, func(name string, value rawValue) *apiError {
		var err *apiError
		switch name {
		case "messages":
			list = value
		case "delay_seconds":
			b.delay, err = decodeDelay(value, root.in(name), o.Limits.MaxDelay, errBatchDelay)
		}
		return err
	})
	if err != nil {
		return b, err
	}
	if list == nil || list.isNull() {
		if o.Lenient {
			return b, nil
		}
		return b, errBatchEmpty()
	}
	if b.messages, err = decodeMessages(list, o); err != nil {
		return b, err
	}
	return b, nil
}

// decodeMessages reads the array of a batch push and checks its count and total size.
func decodeMessages(list rawValue, o *Options) ([]pushMessage, *apiError) {
	var messages []pushMessage
	var total int64
	at := root.in("messages")
	err := list.eachElement(at, func(i int, value rawValue) *apiError {
		if i >= o.Limits.MaxBatchMessages {
			return errBatchCount(o.Limits.MaxBatchMessages)
		}
		m, err := decodeMessage(value, at.at(i), o)
		if err != nil {
			return err
		}
		messages = append(messages, m)
		if total += int64(len(m.payload)); total > o.Limits.MaxBatchBytes {
			return errBatchSize(o.Limits.MaxBatchBytes)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(messages) == 0 && !o.Lenient {
		return nil, errBatchEmpty()
	}
	return messages, nil
}

// decodePull reads the body of a pull; an empty body is {}. The documented
// visibility_timeout is taken as milliseconds and gives way to visibility_timeout_ms.
func decodePull(body []byte, o *Options) (pullRequest, *apiError) {
	var p pullRequest
	var alias *time.Duration
	v, err := checkOptional(body)
	if err != nil {
		return p, err
	}
	err = v.eachMember(root, func(name string, value rawValue) *apiError {
		if value.isNull() {
			return nil
		}
		var err *apiError
		at := root.in(name)
		switch name {
		case "batch_size":
			p.batchSize, err = decodeBounded(value, at, 1, int64(o.Limits.MaxPullMessages))
		case "visibility_timeout_ms":
			p.visibility, err = decodeTimeout(value, at, o)
		case "visibility_timeout":
			alias, err = decodeTimeout(value, at, o)
		case "wait_ms":
			var ms *int64
			if ms, err = decodeBounded(value, at, 0, o.Limits.MaxWait.Milliseconds()); err == nil {
				wait := time.Duration(*ms) * time.Millisecond
				p.wait = &wait
			}
		}
		return err
	})
	if alias != nil {
		p.usedAlias = true
		if p.visibility == nil {
			p.visibility = alias
		}
	}
	return p, err
}

// slowAck reads the body of an acknowledgement; an empty body is {}. Lease ids are
// only required to be strings here: one that means nothing is a warning, not an error.
func slowAck(body []byte, o *Options) (ackRequest, *apiError) {
	var a ackRequest
	v, err := checkOptional(body)
	if err != nil {
		return a, err
	}
	err = v.eachMember(root, func(name string, value rawValue) *apiError {
		if value.isNull() || (name != "acks" && name != "retries") {
			return nil
		}
		at := root.in(name)
		if name == "acks" {
			a.acks = nil
		} else {
			a.retries = nil
		}
		return value.eachElement(at, func(i int, element rawValue) *apiError {
			entry, err := decodeEntry(element, at.at(i), name == "retries", o)
			if err != nil {
				return err
			}
			if name == "acks" {
				a.acks = append(a.acks, entry.leaseID)
			} else {
				a.retries = append(a.retries, entry)
			}
			return nil
		})
	})
	return a, err
}

// decodeEntry reads one element of acks or retries.
func decodeEntry(v rawValue, at path, retry bool, o *Options) (retryEntry, *apiError) {
	var e retryEntry
	found := false
	err := v.eachMember(at, func(name string, value rawValue) *apiError {
		var err *apiError
		switch {
		case name == "lease_id":
			found = true
			e.leaseID, err = value.text(at.in(name))
		case name == "delay_seconds" && retry:
			e.delay, err = decodeDelay(value, at.in(name), o.Limits.MaxDelay, errMetadata)
		case name == "keep_attempts" && retry:
			if e.keepAttempts = false; !value.isNull() {
				e.keepAttempts, err = value.boolean(at.in(name))
			}
		}
		return err
	})
	if err == nil && !found {
		err = errShape("Required", at.in("lease_id"))
	}
	return e, err
}

// decodePurge reads the body of a purge and wants the confirmation in it, unless the
// server is lenient.
func decodePurge(body []byte, lenient bool) *apiError {
	v, err := checkOptional(body)
	if err != nil {
		return err
	}
	confirmed := false
	at := root.in("delete_messages_permanently")
	err = v.eachMember(root, func(name string, value rawValue) *apiError {
		var err *apiError
		if name == at.field {
			if confirmed = false; !value.isNull() {
				confirmed, err = value.boolean(at)
			}
		}
		return err
	})
	if err == nil && !confirmed && !lenient {
		err = errShape("Invalid literal value, expected true", at)
	}
	return err
}

// checkOptional is checkJSON for routes where an empty body means {}.
func checkOptional(body []byte) (rawValue, *apiError) {
	if skipSpace(body, 0) == len(body) {
		return rawValue("{}"), nil
	}
	return checkJSON(body)
}

// decodeDelay reads a delay in whole seconds between 0 and limit; null means none was
// given. Each place has its own code for a delay out of bounds, which refuse builds.
func decodeDelay(v rawValue, at path, limit time.Duration, refuse func(string, path) *apiError) (*time.Duration, *apiError) {
	if v.isNull() {
		return nil, nil
	}
	n, err := v.integer(at)
	if err != nil {
		return nil, err
	}
	if text := outOfBounds(n, 0, int64(limit/time.Second)); text != "" {
		return nil, refuse(text, at)
	}
	d := time.Duration(n) * time.Second
	return &d, nil
}

// decodeTimeout reads a visibility timeout in whole milliseconds.
func decodeTimeout(v rawValue, at path, o *Options) (*time.Duration, *apiError) {
	if v.isNull() {
		return nil, nil
	}
	n, err := decodeBounded(v, at, 0, o.Limits.MaxVisibilityTimeout.Milliseconds())
	if err != nil {
		return nil, err
	}
	d := time.Duration(*n) * time.Millisecond
	return &d, nil
}

// decodeBounded reads a whole number between low and high.
func decodeBounded(v rawValue, at path, low, high int64) (*int64, *apiError) {
	n, err := v.integer(at)
	if err != nil {
		return nil, err
	}
	if text := outOfBounds(n, low, high); text != "" {
		return nil, errShape(text, at)
	}
	return &n, nil
}
