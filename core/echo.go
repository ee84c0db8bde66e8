package core

import "errors"

// A push may repeat a message that is not stored yet: one that goes into the same commit. It is answered as that one's echo, once it is known what
// became of the first.

// errTheirs ends an Append of which an atomic push repeats what others pushed meanwhile: the push fails, and what was decided on the assumption that it
// would be stored is decided again.
var errTheirs = errors.New("an atomic push repeats what others pushed")

// errInFlight ends the deduplication of an atomic push that repeats a message of the commit being built: whether it is refused for it will be known when
// that commit has ended.
var errInFlight = errors.New("an atomic push repeats what is not stored yet")

// pushLater has those pushes come again.
func (e *Engine) pushLater() {
	for _, r := range e.later {
		e.enqueuePush(r)
	}
	e.later = nil
}

// echo is a message that repeats one of a request of the same commit.
type echo struct {
	item   int
	of     *pushReq
	ofItem int
}

// heard gives the echoes of a request what became of the messages that they repeat: the id of what is stored. Those that repeat what is not stored
// are left to be sent again. It comes before any request of the commit is answered.
func (r *pushReq) heard() {
	for _, x := range r.echoes {
		first, out := &x.of.out[x.ofItem], &r.out[x.item]
		if first.Status != PushFailed {
			out.ID = first.ID
			continue
		}
		out.Status, out.Err = PushFailed, first.Err
		r.unheard = append(r.unheard, x.item)
	}
}

// replaced takes what a group entered about offsets that it did not get out of the table again, since others of its commit were left out.
func (g *pushGroup) replaced() {
	for _, m := range g.marks {
		g.part.dedup.drop(m.hash, m.offset)
	}
	g.marks, g.late = nil, true
}
