package queen

import (
	"strconv"
)

// The bodies of the streams routes; their keys are snake_case, those of the messages inside them are not (protocol §1, rule 3).

// queryBody is the body of a stream registration.
type queryBody struct {
	name, source, sink, hash string
	reset                    bool
}

func decodeQuery(body []byte) (*queryBody, error) {
	q := &queryBody{}
	err := decodeObject(body, func(s *scanner, key string) (err error) {
		switch key {
		case "name":
			q.name, _, err = s.name(key, "")
		case "source_queue":
			q.source, _, err = s.name(key, "")
		case "sink_queue":
			q.sink, _, err = s.name(key, "")
		case "config_hash":
			return s.optionalString(key, &q.hash)
		case "reset":
			return s.optionalBoolean(key, &q.reset)
		default:
			return s.skip(0)
		}
		return err
	})
	return q, err
}

// check looks for what a registration must have.
func (q *queryBody) check() error {
	for _, f := range []struct{ name, value string }{
		{"name", q.name}, {"source_queue", q.source}, {"config_hash", q.hash},
	} {
		if f.value == "" {
			return bodyErrorf("%s is required", f.name)
		}
	}
	return nil
}

// optionalBoolean reads a boolean that may be null; a null leaves *to alone.
func (s *scanner) optionalBoolean(what string, to *bool) error {
	if s.null() {
		return nil
	}
	value, err := s.boolean(what)
	if err == nil {
		*to = value
	}
	return err
}

// stateBody is the body of a state read.
type stateBody struct {
	query, partition string
	keys             []string
	prefix           string
	// ripe is the time in ms at which windows must have ended, when hasRipe is set.
	ripe    float64
	hasRipe bool
}

func decodeState(body []byte) (*stateBody, error) {
	st := &stateBody{}
	err := decodeObject(body, func(s *scanner, key string) (err error) {
		switch key {
		case "query_id":
			return s.optionalString(key, &st.query)
		case "partition_id":
			return s.optionalString(key, &st.partition)
		case "keys":
			if s.null() {
				return nil
			}
			return s.array(func(int) error {
				text, err := s.str(key, "")
				st.keys = append(st.keys, text)
				return err
			})
		case "key_prefix":
			return s.optionalString(key, &st.prefix)
		case "ripe_at_or_before":
			if s.null() {
				return nil
			}
			st.ripe, err = s.number(key)
			st.hasRipe = true
			return err
		}
		return s.skip(0)
	})
	return st, err
}

// number reads a JSON number.
func (s *scanner) number(what string) (float64, error) {
	raw, err := s.raw()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || (raw[0] != '-' && (raw[0] < '0' || raw[0] > '9')) {
		return 0, bodyErrorf("%s must be a number", what)
	}
	return n, nil
}

// stateOp is one change of state; a nil value deletes.
type stateOp struct {
	key   string
	value []byte
}

// cycleBody is the body of a stream cycle.
type cycleBody struct {
	query, partition, group string
	ops                     []stateOp
	pushes                  []pushItem
	ack                     *cycleAck
	release                 bool
}

type cycleAck struct {
	transactionID, leaseID string
	status                 ackStatus
	count                  int64
}

func decodeCycle(body []byte) (*cycleBody, error) {
	c := &cycleBody{release: true}
	err := decodeObject(body, func(s *scanner, key string) (err error) {
		switch key {
		case "query_id":
			return s.optionalString(key, &c.query)
		case "partition_id":
			return s.optionalString(key, &c.partition)
		case "consumer_group":
			c.group, _, err = s.name(key, "")
			return err
		case "state_ops":
			if s.null() {
				return nil
			}
			return s.array(func(i int) error { return c.stateOp(s, i) })
		case "push_items":
			if s.null() {
				return nil
			}
			c.pushes, err = s.pushItems(true)
			return err
		case "ack":
			if s.null() {
				return nil
			}
			c.ack = &cycleAck{}
			return s.object(func(key []byte) error { return c.ack.field(s, string(key)) })
		case "release_lease":
			return s.optionalBoolean(key, &c.release)
		}
		return s.skip(0)
	})
	return c, err
}

func (a *cycleAck) field(s *scanner, key string) (err error) {
	switch key {
	case "transactionId":
		return s.optionalString(key, &a.transactionID)
	case "leaseId":
		return s.optionalString(key, &a.leaseID)
	case "status":
		word, given, err := s.id(key, "")
		if given {
			a.status, _ = parseStatus(word)
		}
		return err
	case "count":
		if s.null() {
			return nil
		}
		a.count, err = s.integer(key)
		return err
	}
	return s.skip(0)
}

// stateOp reads one change of state.
func (c *cycleBody) stateOp(s *scanner, i int) error {
	var op stateOp
	kind, hasKey := "", false
	err := s.object(func(key []byte) (err error) {
		switch string(key) {
		case "type":
			return s.optionalString("type", &kind)
		case "key":
			op.key, hasKey, err = s.id("key", "")
		case "value":
			op.value, err = s.raw()
		default:
			return s.skip(0)
		}
		return err
	})
	switch {
	case err != nil:
	case !hasKey:
		err = bodyErrorf("key is required")
	case kind == "delete":
		op.value = nil
	case kind != "upsert":
		err = bodyErrorf("type must be upsert or delete")
	case op.value == nil:
		op.value = []byte("null")
	}
	if err != nil {
		return bodyErrorf("state_ops[%d]: %s", i, err.Error())
	}
	c.ops = append(c.ops, op)
	return nil
}
