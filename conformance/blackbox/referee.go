package blackbox

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Holds watches who held what, and when. A consumer held a message for certain from the moment
// its claim was answered until it sent the settlement, or until its lease, counted from when the
// claim was sent, was over. Two such times of one message never overlap. Holds may be used from
// any goroutine.
type Holds struct {
	mu  sync.Mutex
	all map[string][]hold
}

type hold struct {
	holder      string
	from, until time.Time
}

// NewHolds returns an empty Holds.
func NewHolds() *Holds { return &Holds{all: map[string][]hold{}} }

// Add notes that a holder had a message, or whatever else the key names, for certain. Nothing is
// noted when until is not after from.
func (h *Holds) Add(key, holder string, from, until time.Time) {
	if !until.After(from) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[key] = append(h.all[key], hold{holder, from, until})
}

// Check returns how many holds there were and what overlapped.
func (h *Holds) Check() (n int, faults []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, list := range h.all {
		n += len(list)
		slices.SortFunc(list, func(a, b hold) int { return a.from.Compare(b.from) })
		for i := 1; i < len(list); i++ {
			a, b := list[i-1], list[i]
			if b.from.Before(a.until) {
				faults = append(faults, fmt.Sprintf("%s was held by %s and %s at once for %s", key, a.holder, b.holder, a.until.Sub(b.from)))
			}
			if a.until.After(b.until) {
				list[i].until = a.until
			}
		}
	}
	return n, faults
}

// Attempts collects the attempt numbers that deliveries of a message carried: whatever the order
// in which answers arrive, together they are 1, 2, 3 and so on.
type Attempts struct {
	mu  sync.Mutex
	all map[string][]int
}

// NewAttempts returns an empty Attempts.
func NewAttempts() *Attempts { return &Attempts{all: map[string][]int{}} }

// Add notes the number of one delivery.
func (a *Attempts) Add(id string, attempt int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[id] = append(a.all[id], attempt)
}

// Has tells whether a message was ever delivered with a number.
func (a *Attempts) Has(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.all[id]) > 0
}

// Check returns the highest number and what was out of line.
func (a *Attempts) Check() (highest int, faults []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, got := range a.all {
		slices.Sort(got)
		for i, n := range got {
			if n != i+1 {
				faults = append(faults, fmt.Sprintf("%q had the attempts %v", id, got))
				break
			}
		}
		highest = max(highest, len(got))
	}
	return highest, faults
}
