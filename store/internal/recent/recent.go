// Package recent remembers the last commits of a process, for whoever asks what became of one. It is what stores share whose
// commits are their own process's alone.
package recent

import "github.com/google/uuid"

// Remembered is how many commits are remembered: the answer to one that is asked about is lost within seconds, not hours.
const Remembered = 16384

// Commits are the ids of the last commits. The zero value remembers none. It is not safe for concurrent use.
type Commits struct {
	known map[uuid.UUID]struct{}
	ring  []uuid.UUID
	next  int
}

// Add remembers a commit, in place of the oldest once there are as many as are remembered.
func (c *Commits) Add(id uuid.UUID) {
	if c.known == nil {
		c.known = map[uuid.UUID]struct{}{}
	}
	if len(c.ring) < Remembered {
		c.ring = append(c.ring, id)
	} else {
		delete(c.known, c.ring[c.next])
		c.ring[c.next] = id
		c.next = (c.next + 1) % Remembered
	}
	c.known[id] = struct{}{}
}

// Has reports whether a commit is remembered.
func (c *Commits) Has(id uuid.UUID) bool {
	_, ok := c.known[id]
	return ok
}
