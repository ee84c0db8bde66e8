package app

import (
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// otherQueue is the label of all queues beyond the bound.
	otherQueue = "_other"
	// maxLabelBytes cuts the label of a longer name.
	maxLabelBytes = 200
	// forgetAfter is how long a queue must have been gone before its label is
	// given to another.
	forgetAfter = time.Minute
)

// labels hands out queue labels, at most limit of them, in order of first use.
// What it hands out is a legal label value whatever the name's bytes are.
type labels struct {
	limit  int
	forget func(label string)

	mu    sync.RWMutex
	known map[string]*labelled
}

// labelled is a queue with a label of its own.
type labelled struct {
	label string
	// missing is since when the queue is gone; zero while it is there.
	missing time.Time
}

func newLabels(limit int, forget func(string)) *labels {
	return &labels{limit: limit, forget: forget, known: map[string]*labelled{}}
}

// of returns the label of a queue.
func (l *labels) of(queue string) string {
	l.mu.RLock()
	k, ok := l.known[queue]
	full := len(l.known) >= l.limit
	l.mu.RUnlock()
	if ok {
		return k.label
	}
	if full {
		return otherQueue
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k, ok := l.known[queue]; ok {
		return k.label
	}
	if len(l.known) >= l.limit {
		return otherQueue
	}
	k = &labelled{label: legalLabel(queue)}
	l.known[queue] = k
	return k.label
}

// exist tells which queues there are at now. A queue that has been missing
// for a while loses its label and its figures, so that queues which come and
// go do not use up the bound.
func (l *labels) exist(queues map[string]bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, k := range l.known {
		switch {
		case queues[name]:
			k.missing = time.Time{}
		case k.missing.IsZero():
			k.missing = now
		case now.Sub(k.missing) >= forgetAfter:
			delete(l.known, name)
			l.forget(k.label)
		}
	}
}

// legalLabel makes a name, which may be any bytes, a short UTF-8 string.
func legalLabel(name string) string {
	name = strings.ToValidUTF8(name, "\uFFFD")
	if len(name) <= maxLabelBytes {
		return name
	}
	cut := maxLabelBytes
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "…"
}
