package core

import (
	"context"
	"slices"
)

// Where nobody shares the store, pushes go along with the settlements and claims of their turn: one commit, and one wait for the disk,
// in place of two. (Where others share it, the commits of both kinds are on their way side by side instead, see air.)

// mayRide reports whether the pushes of a turn are to go along with its Update: one is made anyway, and nothing in it has to know what became
// of them. Claims among which messages are dealt get their share of what is pushed with them, so that comes first.
func (e *Engine) mayRide(ops []*opReq) bool {
	if e.shared || len(e.extraOps) > 0 || slices.ContainsFunc(ops, func(op *opReq) bool { return op.pushes }) {
		return false
	}
	some := len(ops) > 0
	for g := range e.active {
		if slices.ContainsFunc(g.waiting[:min(len(g.waiting), maxPlanClaims)], (*claimReq).dealt) {
			return false
		}
		some = some || len(g.waiting) > 0 && g.ready.n > 0
	}
	return some
}

// ride makes an Append part of the turn's Update. Where that fails because of what is in it, the Append is made by itself after all.
func (e *Engine) ride(ctx context.Context, a *appending) {
	op := &opReq{}
	var at int
	var placed []Placed
	op.apply = func(p *pass) error {
		at = len(p.cs.Segments)
		for _, s := range a.params.Segments {
			// A later segment of the pass may be joined to it.
			s.Header, s.Body, s.Sources = slices.Clip(s.Header), slices.Clip(s.Body), slices.Clip(s.Sources)
			p.cs.Segments = append(p.cs.Segments, s)
		}
		return nil
	}
	op.after = func(p *pass) {
		if p.placed != nil { // it is not known where they lie when only the answer was lost
			placed = p.placed[at : at+len(a.params.Segments)]
		}
	}
	op.finish = func(err error) {
		if err != nil && !final(err) {
			e.takeBack(a.reqs)
			e.commitPushes(ctx, a.reqs)
			return
		}
		a.params.Commit = op.commit
		e.finishAppending(ctx, a, placed, err)
	}
	e.riding = append(e.riding, op)
}
