package core

import (
	"context"
	"slices"
)

// repush sends a push again whose queue was deleted under it, as if it had come later.
func (e *Engine) repush(r *pushReq) {
	out, err := e.Push(context.Background(), r.params)
	r.out = out
	r.fail(err)
}

// stillPushed drops the pushes to queues that are gone and answers them, or sends them again; so it does with those to queues whose options
// were changed since they were read.
func (e *Engine) stillPushed(ctx context.Context, reqs []*pushReq) []*pushReq {
	return slices.DeleteFunc(slices.Clone(reqs), func(r *pushReq) bool {
		switch {
		case r.gone():
			e.pushedIntoNothing(ctx, r)
		case r.outdated():
			go e.repush(r)
		default:
			return false
		}
		return true
	})
}

// outdated reports whether the options of a queue of the push were changed since they were read.
func (r *pushReq) outdated() bool {
	return slices.ContainsFunc(r.groups, func(g pushGroup) bool { return g.version != g.entry.q().Version })
}

// gone reports whether a queue of the push has been deleted.
func (r *pushReq) gone() bool {
	return slices.ContainsFunc(r.groups, func(g pushGroup) bool { return g.gone || g.entry.gone.Load() })
}

// pushedIntoNothing answers a push of which some goes to a queue that is gone: it is made anew where the push would have made it, or another
// gateway has.
func (e *Engine) pushedIntoNothing(ctx context.Context, r *pushReq) {
	if e.shared {
		_ = e.follow(ctx) // another gateway deleted it; where this fails, so will what comes next
	}
	if e.shared || r.params.Create {
		go e.repush(r) //nolint:gosec // a push goes on when its caller has gone
		return
	}
	r.fail(Errorf(CodeDeleted, "push", "the queue is being deleted"))
}
