package querator

import (
	"strings"
	"time"
	"unicode"

	"github.com/leasehold/leasehold/core"
)

// lookup finds the queue that a request names. Only blank names and the reserved character are
// worth a message of their own here; any other bad name is a queue that does not exist.
func (c *call) lookup(name string) (core.Queue, error) {
	if strings.TrimSpace(name) == "" {
		return core.Queue{}, errNameEmpty
	}
	if strings.Contains(name, "~") {
		return core.Queue{}, hasCharacter("queue name", name, "~")
	}
	q, err := c.engine.Queue(c.ctx, name)
	if err != nil {
		return core.Queue{}, c.failed(operation{queue: name}, err)
	}
	return q, c.inScope(namespaceOf(&q))
}

// maxNameBytes bounds a queue's name.
const maxNameBytes = 512

// checkName makes the checks of a name that is to be made or deleted.
func (c *call) checkName(name string) error {
	switch {
	case len(name) > maxNameBytes:
		return tooLong("queue name", "512")
	case strings.TrimSpace(name) == "":
		return errNameEmpty
	case c.dialect.gen != R1 && strings.ContainsFunc(name, unicode.IsSpace):
		return hasWhitespace("queue name", name)
	case strings.Contains(name, "~"):
		return hasCharacter("queue name", name, "~")
	}
	return nil
}

// familyOf returns the family of names that a queue was made with.
func familyOf(q *core.Queue) family {
	if q.Options.Querator == nil {
		return familyUnknown
	}
	switch Generation(q.Options.Querator.Family) {
	case R1, R2:
		return familyReserve
	case L1, L2:
		return familyLease
	default:
		return familyUnknown
	}
}

// Bounds of request timeouts. Whether a bound itself is allowed differs from route to route.
const (
	maxTimeout = 15 * time.Minute
	minTimeout = 10 * time.Millisecond
)

// parseTimeout reads a request timeout; an absent one is zero.
func parseTimeout(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, badTimeout(err)
	}
	return d, nil
}
