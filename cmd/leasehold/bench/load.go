package bench

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// kind is what the clients of a load do.
type kind string

const (
	// kindPush appends messages.
	kindPush kind = "push"
	// kindSettle claims from a backlog and settles what it claimed.
	kindSettle kind = "settle"
	// kindTake claims with autoAck, which settles as well.
	kindTake kind = "take"
	// kindFail claims and gives everything back as failed.
	kindFail kind = "fail"
	// kindBoth has as many producers as consumers at once.
	kindBoth kind = "both"
)

// load is one load, e.g. push:100x8.
type load struct {
	kind    kind
	batch   int // messages per request
	clients int // connections; of kindBoth those that push
	settle  int // connections of kindBoth that settle
}

// String is the name of the load on the command line.
func (l load) String() string {
	s := fmt.Sprintf("%s:%dx%d", l.kind, l.batch, l.clients)
	if l.kind == kindBoth && l.settle != l.clients {
		s += fmt.Sprintf("+%d", l.settle)
	}
	return s
}

// parseLoad reads KIND:BATCHxCLIENTS, or both:BATCHxPRODUCERS+CONSUMERS.
func parseLoad(s string) (load, error) {
	wrong := fmt.Errorf("%q is not a load: want push, settle, take, fail or both, then :BATCHxCLIENTS, as in push:100x8 or both:100x8+16", s)
	name, shape, ok := strings.Cut(s, ":")
	batch, clients, ok2 := strings.Cut(shape, "x")
	if !ok || !ok2 {
		return load{}, wrong
	}
	l := load{kind: kind(name)}
	producers, consumers, two := strings.Cut(clients, "+")
	var err, err2, err3 error
	l.batch, err = strconv.Atoi(batch)
	l.clients, err2 = strconv.Atoi(producers)
	if l.settle = l.clients; two {
		l.settle, err3 = strconv.Atoi(consumers)
	}
	switch l.kind {
	case kindPush, kindSettle, kindTake, kindFail, kindBoth:
	default:
		return load{}, wrong
	}
	if errors.Join(err, err2, err3) != nil || two && l.kind != kindBoth ||
		l.batch < 1 || l.batch > 1000 || min(l.clients, l.settle) < 1 || max(l.clients, l.settle) > 8192 {
		return load{}, wrong
	}
	return l, nil
}

// parseLoads reads a list of loads.
func parseLoads(names []string) ([]load, error) {
	loads := make([]load, 0, len(names))
	for _, s := range names {
		l, err := parseLoad(strings.TrimSpace(s))
		if err != nil {
			return nil, fmt.Errorf("--loads: %w", err)
		}
		loads = append(loads, l)
	}
	return loads, nil
}
