package queen

import "strings"

// ackItem is one acknowledgement as it came.
type ackItem struct {
	transactionID, partitionID string
	status                     ackStatus
	group                      string // single acks and transactions only
	leaseID                    string // empty: lease-less
	errorText                  string

	hasTransaction, hasPartition bool
	// oddStatus marks a status word that the protocol does not know.
	oddStatus bool
}

// ackStatus is the word of an acknowledgement, reduced to the four that mean
// something (protocol §3.3).
type ackStatus uint8

const (
	statusCompleted ackStatus = iota
	statusRetry
	statusFailed
	statusDLQ
)

// parseStatus is case-sensitive; a word that it does not know is a failure,
// the empty one included.
func parseStatus(word string) (status ackStatus, known bool) {
	switch word {
	case "completed", "success", "acked", "ok":
		return statusCompleted, true
	case "retry":
		return statusRetry, true
	case "dlq":
		return statusDLQ, true
	}
	return statusFailed, word == "failed"
}

// field reads one key of an acknowledgement. Ids are not checked here: one that
// nothing has fails its own item and none beside it.
func (a *ackItem) field(s *scanner, key []byte, last *ackItem) (err error) {
	switch string(key) {
	case "transactionId":
		a.transactionID, a.hasTransaction, err = s.id("transactionId", "")
	case "partitionId":
		a.partitionID, a.hasPartition, err = s.id("partitionId", last.partitionID)
	case "status":
		word, given, err := s.id("status", "completed")
		if err == nil && given {
			status, known := parseStatus(word)
			a.status, a.oddStatus = status, !known
		}
		return err
	case "consumerGroup":
		a.group, _, err = s.name("consumerGroup", last.group)
	case "leaseId":
		a.leaseID, _, err = s.id("leaseId", last.leaseID)
	case "error":
		return s.errorText(&a.errorText)
	default:
		return s.skip(0)
	}
	return err
}

// errorText reads what a consumer says about a failure. SDKs send a string or
// null; anything else is kept as the JSON that it is.
func (s *scanner) errorText(to *string) error {
	if s.null() {
		return nil
	}
	start := s.i
	if err := s.skip(0); err != nil {
		return err
	}
	text := s.b[start:s.i]
	if text[0] == '"' {
		// Half a surrogate pair is no reason to lose an acknowledgement.
		if plain, err := unescape(text[1 : len(text)-1]); err == nil {
			text = plain
		}
	}
	*to = strings.ToValidUTF8(string(text), "\uFFFD")
	return nil
}

// check looks for what an acknowledgement must have.
func (a *ackItem) check() error {
	if !a.hasTransaction {
		return bodyErrorf("transactionId is required")
	}
	if !a.hasPartition {
		return bodyErrorf("partitionId is required to ensure message uniqueness")
	}
	return nil
}

// decodeAck reads the body of a single acknowledgement.
func decodeAck(body []byte) (ackItem, error) {
	var a, none ackItem
	err := decodeObject(body, func(s *scanner, key string) error { return a.field(s, []byte(key), &none) })
	if err == nil {
		err = a.check()
	}
	return a, err
}

// decodeAckBatch reads the body of a batch of acknowledgements and its group.
// A group inside an item is ignored (protocol §3.3).
func decodeAckBatch(body []byte) (items []ackItem, group string, err error) {
	found := false
	err = decodeObject(body, func(s *scanner, key string) error {
		switch key {
		case "acknowledgments":
			if found = s.peek() == '['; !found {
				return s.skip(0)
			}
			var err error
			items, err = s.ackItems()
			return err
		case "consumerGroup":
			var err error
			group, _, err = s.name("consumerGroup", "")
			return err
		}
		return s.skip(0)
	})
	switch {
	case err != nil:
		return nil, "", err
	case !found:
		return nil, "", bodyErrorf("acknowledgments array is required")
	}
	return items, group, nil
}

func (s *scanner) ackItems() ([]ackItem, error) {
	items := make([]ackItem, 0, 4)
	err := s.array(func(i int) error {
		last := &ackItem{}
		if i > 0 {
			last = &items[i-1]
		}
		var a ackItem
		err := s.object(func(key []byte) error {
			if string(key) == "consumerGroup" {
				return s.skip(0)
			}
			return a.field(s, key, last)
		})
		if err == nil {
			err = a.check()
		}
		if err != nil {
			return bodyErrorf("acknowledgments[%d]: %s", i, err.Error())
		}
		items = append(items, a)
		return nil
	})
	return items, err
}
