package queen

// The decoders of the message plane. Each reads its body in one pass and
// returns either what the body says or a *bodyError; none of them touches the
// engine. A null stands for an absent key everywhere but in a payload
// (protocol §1, rule 4), an empty array for an empty object, and keys that a
// route does not know are passed over.

const (
	// defaultPartition is the partition of a message that names none.
	defaultPartition = "Default"
	// maxTransactionID bounds a transaction id, in bytes (protocol §1, rule 6).
	maxTransactionID = 65535
)

// optionalString reads a string that may be null; a null leaves *to alone.
func (s *scanner) optionalString(what string, to *string) error {
	if s.null() {
		return nil
	}
	value, err := s.str(what, *to)
	if err != nil {
		return err
	}
	*to = value
	return nil
}

// id reads a string that may be null and reports whether there was one; prev
// is reused where it is the same text.
func (s *scanner) id(what, prev string) (value string, ok bool, err error) {
	if s.null() {
		return "", false, nil
	}
	value, err = s.str(what, prev)
	return value, err == nil, err
}

// name is id for what becomes a name: of a queue, a partition or a group, or
// the transaction id of a message.
func (s *scanner) name(what, prev string) (value string, ok bool, err error) {
	if value, ok, err = s.id(what, prev); !ok {
		return "", false, err
	}
	return value, true, checkName(what, value)
}

// lenientString reads a string, and takes a value of another type, or half a
// surrogate pair, for absent: it is for keys that the original reads and
// ignores.
func (s *scanner) lenientString(to *string) error {
	if s.peek() != '"' {
		return s.skip(0)
	}
	start := s.i + 1
	if _, err := s.skipString(); err != nil {
		return err
	}
	if text, err := unescape(s.b[start : s.i-1]); err == nil {
		*to = string(text)
	}
	return nil
}

// decodeObject runs a decoder over an object that is the whole body. No body at all is
// an empty object, as Python sends it (protocol §7.4).
func decodeObject(b []byte, field func(s *scanner, key string) error) error {
	s, err := newScanner(b)
	if err != nil {
		return err
	}
	if s.peek(); s.i >= len(s.b) {
		return nil
	}
	if s.null() {
		return s.end()
	}
	err = s.object(func(key []byte) error { return field(s, string(key)) })
	if err != nil {
		return err
	}
	return s.end()
}

// pushItem is one message of a push, of a transaction's push or of a body that
// has the keys of one.
type pushItem struct {
	queue, partition string
	transactionID    string // empty: the server makes one
	traceID          string // empty: none
	messageID        string // empty: the server makes one; read inside a stream cycle only
	payload          []byte // aliases the body

	hasQueue, hasPayload bool
}

// field reads one key of a message. alias says whether "data" is another word
// for the payload, as it is inside a transaction (protocol §3.5).
func (it *pushItem) field(s *scanner, key []byte, last *pushItem, alias bool) (err error) {
	var ok bool
	switch string(key) {
	case "queue":
		it.queue, it.hasQueue, err = s.name("queue", last.queue)
	case "partition":
		if it.partition, ok, err = s.name("partition", last.partition); !ok {
			it.partition = defaultPartition
		}
	case "transactionId":
		if it.transactionID, _, err = s.name("transactionId", ""); err != nil {
			return err
		}
		if len(it.transactionID) > maxTransactionID {
			return bodyErrorf("transactionId must not be longer than %d bytes", maxTransactionID)
		}
	case "traceId":
		return s.lenientString(&it.traceID)
	case "messageId":
		return s.lenientString(&it.messageID)
	case "payload":
		it.payload, err = s.raw()
		it.hasPayload = true
	case "data":
		if !alias || it.hasPayload {
			return s.skip(0)
		}
		it.payload, err = s.raw()
	default:
		return s.skip(0)
	}
	return err
}

// decodePush reads the body of a push: {"items":[…]}.
func decodePush(body []byte) ([]pushItem, error) {
	var items []pushItem
	found := false
	err := decodeObject(body, func(s *scanner, key string) error {
		if key != "items" {
			return s.skip(0)
		}
		if found = s.peek() == '['; !found {
			return s.skip(0)
		}
		var err error
		items, err = s.pushItems(false)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, bodyErrorf("items array is required")
	}
	return items, nil
}

// pushItems reads an array of messages.
func (s *scanner) pushItems(alias bool) ([]pushItem, error) {
	items := make([]pushItem, 0, 1)
	err := s.array(func(i int) error {
		last := &pushItem{}
		if i > 0 {
			last = &items[i-1]
		}
		it := pushItem{partition: defaultPartition}
		err := s.object(func(key []byte) error { return it.field(s, key, last, alias) })
		if err == nil {
			err = it.check(alias)
		}
		if err != nil {
			return bodyErrorf("items[%d]: %s", i, err.Error())
		}
		items = append(items, it)
		return nil
	})
	return items, err
}

// check looks for what a message must have. A transaction's message without a
// payload has an empty object (protocol §3.5).
func (it *pushItem) check(transaction bool) error {
	if !it.hasQueue {
		return bodyErrorf("queue is required")
	}
	if it.payload == nil {
		if !transaction {
			return bodyErrorf("payload is required")
		}
		it.payload = []byte("{}")
	}
	return nil
}
