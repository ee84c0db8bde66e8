package blackbox

import (
	"fmt"
	"slices"
	"sync"
)

// line is the order in which one consumer group sees one partition, while nobody but exclusive
// consumers of that group settle there: each claim continues exactly behind what was settled, and
// what comes back comes in the order in which it came before.
type line struct {
	order []string
	place map[string]int
	// start is what was settled for certain; maybe are the places up to which settlements are on
	// their way.
	start  int
	maybe  map[int]int
	faults []string
}

// delivered takes a batch and returns the place of its first message.
func (l *line) delivered(batch []string) int {
	at, known := l.place[batch[0]]
	if !known {
		at = len(l.order)
	}
	if at != l.start && l.maybe[at] == 0 {
		l.fault("a claim began with %q at %d, but settled is %d, and maybe %v", batch[0], at, l.start, l.maybe)
	}
	for i, id := range batch {
		switch {
		case at+i == len(l.order):
			l.place[id] = len(l.order)
			l.order = append(l.order, id)
		case l.order[at+i] != id:
			l.fault("%q came where %q had come before", id, l.order[at+i])
		}
	}
	l.start = max(l.start, at)
	return at
}

// settling takes that everything before a place is about to be settled.
func (l *line) settling(place int) { l.maybe[place]++ }

// settled takes how that ended.
func (l *line) settled(place int, done bool) {
	if l.maybe[place]--; l.maybe[place] == 0 {
		delete(l.maybe, place)
	}
	if done {
		l.start = max(l.start, place)
	}
}

func (l *line) fault(format string, args ...any) {
	if len(l.faults) < maxFaults {
		l.faults = append(l.faults, fmt.Sprintf(format, args...))
	}
}

// Journal writes down what one consumer group gets of one partition and settles there, so that
// its order can be checked in the end, when it is known which messages nobody else had. It may be
// used from any goroutine.
type Journal struct {
	mu    sync.Mutex
	steps []func(l *line, keep func(string) bool)
}

// JournalBatch is one delivery in a Journal.
type JournalBatch struct {
	j   *Journal
	ids []string
	at  int
}

func (j *Journal) add(step func(*line, func(string) bool)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.steps = append(j.steps, step)
}

// Delivered notes a batch. It has to be called before the batch's settlement is sent.
func (j *Journal) Delivered(ids []string) *JournalBatch {
	b := &JournalBatch{j: j, ids: ids}
	j.add(func(l *line, keep func(string) bool) {
		if kept := only(ids, keep); len(kept) > 0 {
			b.at = l.delivered(kept)
		}
	})
	return b
}

// Settling notes that the first n messages of the batch are about to be settled.
func (b *JournalBatch) Settling(n int) {
	b.j.add(func(l *line, keep func(string) bool) {
		if kept := only(b.ids[:n], keep); len(kept) > 0 {
			l.settling(b.at + len(kept))
		}
	})
}

// Settled notes how that ended.
func (b *JournalBatch) Settled(n int, done bool) {
	b.j.add(func(l *line, keep func(string) bool) {
		if kept := only(b.ids[:n], keep); len(kept) > 0 {
			l.settled(b.at+len(kept), done)
		}
	})
}

// only returns the ids that are kept.
func only(ids []string, keep func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !keep(id) })
}

// Check replays the journal for the messages to keep. It returns them in order, how many of them
// were settled, and what was out of line.
func (j *Journal) Check(keep func(string) bool) (order []string, settled int, faults []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := &line{place: map[string]int{}, maybe: map[int]int{}}
	for _, step := range j.steps {
		step(l, keep)
	}
	return l.order, l.start, l.faults
}
