package blackbox

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"
)

// Payload returns the payload of a message by its id, so that a reader can tell by the id alone
// whether the bytes are the right ones. Its length and spelling vary with the id.
func Payload(id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // a hash takes everything
	n := h.Sum32()
	return `{ "id":"` + id + `", "n" : ` + fmt.Sprintf("%d.50", n) + `, "pad":"` + strings.Repeat("<é>", int(n%200)) + `"}`
}

// PayloadID returns the id inside a payload, "" when it is none.
func PayloadID(payload string) string {
	rest, ok := strings.CutPrefix(payload, `{ "id":"`)
	id, _, found := strings.Cut(rest, `"`)
	if !ok || !found {
		return ""
	}
	return id
}

// Ledger is what a client knows of messages that are pushed, delivered and settled by many at
// once, through a server that may die at any time. It holds what it is told against these rules:
//
//   - what is delivered was pushed, with these bytes;
//   - a message whose settlement was acknowledged is in no claim that began afterwards;
//   - in the end every acknowledged push was delivered and settled.
//
// A push whose answer was lost may or may not exist; a settlement whose answer was lost may or may
// not have happened. The ledger may be used from any goroutine.
type Ledger struct {
	mu       sync.Mutex
	entries  map[string]*entry
	faults   []string
	missed   int
	delivers int
	again    int
	returned int
	// waiting counts, by queue, acknowledged messages whose settlement was not acknowledged.
	waiting map[string]int
}

// entry is what is known of one message.
type entry struct {
	queue         string
	pushed, acked bool
	// buffered messages were acknowledged before they had a place in the log.
	buffered   bool
	deliveries int
	// unknown counts settlements without an answer.
	unknown   int
	settled   bool
	settledAt time.Time
}

// maxFaults is how many broken rules are kept word for word.
const maxFaults = 20

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{entries: map[string]*entry{}, waiting: map[string]int{}} }

// Pushing notes that a message is about to be pushed.
func (l *Ledger) Pushing(ids ...string) { l.PushingTo("", ids...) }

// PushingTo is Pushing with the name of the queue, for Waiting.
func (l *Ledger) PushingTo(queue string, ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.entries[id] = &entry{queue: queue, pushed: true}
	}
}

// Pushed notes that a push was acknowledged.
func (l *Ledger) Pushed(ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		e := l.entries[id]
		if !e.acked && !e.settled {
			l.waiting[e.queue]++
		}
		e.acked = true
	}
}

// Waiting is how many messages of a queue were acknowledged and wait to be settled.
func (l *Ledger) Waiting(queue string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting[queue]
}

// NotPushed notes that a push was refused: the message must not exist.
func (l *Ledger) NotPushed(ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.entries[id].pushed = false
	}
}

// Delivered notes a message of a claim that was sent at a time, and returns its id.
func (l *Ledger) Delivered(payload string, claimed time.Time) string {
	id := PayloadID(payload)
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[id]
	switch {
	case e == nil || !e.pushed:
		l.fault("%q was delivered, and nobody pushed it", id)
		return id
	case payload != Payload(id):
		l.fault("%q was delivered with other bytes", id)
	case e.settled && claimed.After(e.settledAt):
		l.returned++
		l.fault("%q was delivered to a claim sent %s after its settlement was acknowledged", id, claimed.Sub(e.settledAt))
	}
	l.delivers++
	if e.deliveries > 0 {
		l.again++
	}
	e.deliveries++
	return id
}

// Settling notes that settlements are about to be sent.
func (l *Ledger) Settling(ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if e := l.entries[id]; e != nil {
			e.unknown++
		}
	}
}

// Settled notes that settlements were acknowledged just now.
func (l *Ledger) Settled(ids ...string) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if e := l.entries[id]; e != nil {
			e.unknown--
			if !e.settled {
				if e.acked {
					l.waiting[e.queue]--
				}
				e.settled, e.settledAt = true, now
			}
		}
	}
}

// NotSettled notes that settlements were refused and did nothing.
func (l *Ledger) NotSettled(ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if e := l.entries[id]; e != nil {
			e.unknown--
		}
	}
}

// Fault notes a broken rule.
func (l *Ledger) Fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault(format, args...)
}

func (l *Ledger) fault(format string, args ...any) {
	if len(l.faults) < maxFaults {
		l.faults = append(l.faults, fmt.Sprintf(format, args...))
		return
	}
	l.missed++
}

// Counts are a ledger's totals.
type Counts struct {
	// PushesAcked were acknowledged; PushesLost had no answer, of which PushesLostButStored were
	// delivered all the same.
	PushesAcked         int `json:"pushes_acked"`
	PushesLost          int `json:"pushes_lost"`
	PushesLostButStored int `json:"pushes_lost_but_stored"`
	// Deliveries counts all, Redeliveries those of messages that had been delivered before.
	Deliveries   int `json:"deliveries"`
	Redeliveries int `json:"redeliveries"`
	// SettlesAcked counts messages; SettlesLost those whose settlement never had an answer.
	SettlesAcked int `json:"settles_acked"`
	SettlesLost  int `json:"settles_lost"`
	// Undelivered and Unsettled are acknowledged messages that got lost or stuck: always 0.
	Undelivered int `json:"undelivered"`
	Unsettled   int `json:"unsettled"`
	// Returned counts deliveries to claims that were sent after the settlement was acknowledged: always 0.
	Returned int `json:"returned"`
	// Faults counts broken rules: always 0.
	Faults int `json:"faults"`
}

// Close draws the line, once everything has been drained: it returns the totals and every rule
// that was broken.
func (l *Ledger) Close() (Counts, []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := Counts{Deliveries: l.delivers, Redeliveries: l.again, Returned: l.returned}
	for id, e := range l.entries {
		switch {
		case !e.pushed:
		case e.acked:
			c.PushesAcked++
		default:
			c.PushesLost++
			if e.deliveries > 0 {
				c.PushesLostButStored++
			}
		}
		switch {
		case e.settled:
			c.SettlesAcked++
		case e.unknown > 0:
			c.SettlesLost++
		case e.deliveries > 0:
			c.Unsettled++
			l.fault("%q was delivered %d times, never settled, and is gone", id, e.deliveries)
		case e.acked:
			c.Undelivered++
			l.fault("%q was acknowledged and never delivered", id)
		}
	}
	c.Faults = len(l.faults) + l.missed
	return c, slices.Clone(l.faults)
}

// Deliveries returns how often a message was delivered.
func (l *Ledger) Deliveries(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[id]; e != nil {
		return e.deliveries
	}
	return 0
}

// Buffered notes messages that a gateway keeps on its disk until its database is back.
func (l *Ledger) Buffered(ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.entries[id].buffered = true
	}
}

// Placed tells whether a message had its place in the log when its push was acknowledged.
func (l *Ledger) Placed(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[id]
	return e != nil && e.acked && !e.buffered
}

// Total returns how many deliveries there were.
func (l *Ledger) Total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delivers
}
