package queen

// txOp is one flattened operation of a transaction: a message to push or an
// acknowledgement.
type txOp struct {
	push bool
	item pushItem
	ack  ackItem
}

// txBody is the body of a transaction, its pushes flattened in request order.
type txBody struct {
	ops []txOp
	// requiredLeases guards the acknowledgements (protocol §6.9).
	requiredLeases []string
	// hasOps tells a missing operations array from an empty one.
	hasOps bool
}

// decodeTransaction reads the body of a transaction. It reports a text that is
// no JSON as a *bodyError, and what is wrong with an operation as a
// *refusalError, which is answered with the transaction's own envelope.
func decodeTransaction(body []byte) (txBody, error) {
	var tx txBody
	err := decodeObject(body, func(s *scanner, key string) error {
		switch key {
		case "operations":
			if tx.hasOps = s.peek() == '['; !tx.hasOps {
				return s.skip(0)
			}
			tx.ops = nil
			return s.array(func(i int) error { return tx.operation(s, i) })
		case "requiredLeases":
			return tx.leases(s)
		}
		return s.skip(0)
	})
	if err != nil {
		return txBody{}, err
	}
	if !tx.hasOps {
		return txBody{}, &refusalError{text: "transaction requires an operations array"}
	}
	return tx, nil
}

// refusalError is a transaction that is JSON but cannot be carried out.
type refusalError struct{ text string }

func (e *refusalError) Error() string { return e.text }

// operation reads one operation. Its type may stand behind its other keys, so
// the keys are read twice: first for the type alone.
func (tx *txBody) operation(s *scanner, i int) error {
	start := s.i
	kind := ""
	err := s.object(func(key []byte) error {
		if string(key) == "type" {
			return s.lenientString(&kind)
		}
		return s.skip(0)
	})
	if err != nil {
		return bodyErrorf("operations[%d]: %s", i, err.Error())
	}
	end := s.i
	s.i = start
	switch kind {
	case "push":
		err = tx.pushOperation(s)
	case "ack":
		err = tx.ackOperation(s)
	default:
		return &refusalError{text: "segments transaction supports only push and ack operations"}
	}
	if err != nil {
		return &refusalError{text: bodyErrorf("bad body: operations[%d]: %s", i, err.Error()).Error()}
	}
	s.i = end
	return nil
}

// pushOperation reads a push: either an items array or the keys of one message
// on the operation itself.
func (tx *txBody) pushOperation(s *scanner) error {
	var items []pushItem
	hasItems := false
	own := pushItem{partition: defaultPartition}
	err := s.object(func(key []byte) error {
		if string(key) != "items" {
			return own.field(s, key, &pushItem{}, true)
		}
		if s.null() {
			return nil
		}
		hasItems = true
		var err error
		items, err = s.pushItems(true)
		return err
	})
	if err != nil {
		return err
	}
	if !hasItems {
		if err := own.check(true); err != nil {
			return err
		}
		items = []pushItem{own}
	}
	for i := range items {
		tx.ops = append(tx.ops, txOp{push: true, item: items[i]})
	}
	return nil
}

func (tx *txBody) ackOperation(s *scanner) error {
	var a, none ackItem
	err := s.object(func(key []byte) error { return a.field(s, key, &none) })
	if err == nil {
		err = a.check()
	}
	tx.ops = append(tx.ops, txOp{ack: a})
	return err
}

// leases reads requiredLeases. A null in the list, as a client sends it for a
// message that it got without a lease, names nothing.
func (tx *txBody) leases(s *scanner) error {
	if s.null() {
		return nil
	}
	tx.requiredLeases = nil
	return s.array(func(int) error {
		if s.null() {
			return nil
		}
		id, err := s.str("requiredLeases", "")
		if err == nil && id != "" {
			tx.requiredLeases = append(tx.requiredLeases, id)
		}
		return err
	})
}

// decodeSeconds reads the body of a lease extension: the seconds asked for, 60
// for whatever is no such body, and never below 1 (protocol §3.4).
func decodeSeconds(body []byte) int64 {
	const fallback = 60
	seconds := int64(fallback)
	err := decodeObject(body, func(s *scanner, key string) (err error) {
		if key != "seconds" {
			return s.skip(0)
		}
		if s.null() {
			return nil
		}
		seconds, err = s.integer(key)
		return err
	})
	if err != nil {
		return fallback
	}
	return max(seconds, 1)
}
