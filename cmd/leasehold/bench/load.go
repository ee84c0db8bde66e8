package bench

import (
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
	// kindFail claims and gives everything back as failed.
	kindFail kind = "fail"
	// kindBoth has as many producers as consumers at once.
	kindBoth kind = "both"
)

// load is one load, e.g. push:100x8.
type load struct {
	kind    kind
	batch   int // messages per request
	clients int // connections; kindBoth has this many producers and as many consumers
}

// String is the name of the load on the command line.
func (l load) String() string { return fmt.Sprintf("%s:%dx%d", l.kind, l.batch, l.clients) }

// parseLoad reads KIND:BATCHxCLIENTS.
func parseLoad(s string) (load, error) {
	wrong := fmt.Errorf("%q is not a load: want push, settle, fail or both, then :BATCHxCLIENTS, as in push:100x8", s)
	name, shape, ok := strings.Cut(s, ":")
	batch, clients, ok2 := strings.Cut(shape, "x")
	if !ok || !ok2 {
		return load{}, wrong
	}
	l := load{kind: kind(name)}
	var err, err2 error
	l.batch, err = strconv.Atoi(batch)
	l.clients, err2 = strconv.Atoi(clients)
	switch l.kind {
	case kindPush, kindSettle, kindFail, kindBoth:
	default:
		return load{}, wrong
	}
	if err != nil || err2 != nil || l.batch < 1 || l.batch > 1000 || l.clients < 1 || l.clients > 8192 {
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
