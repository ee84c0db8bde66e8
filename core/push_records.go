package core

import (
	"context"
	"errors"

	"github.com/google/uuid"
)

// Deposited is the outcome of Engine.PushRecords.
type Deposited struct {
	Pushed []Pushed
	// Commit names the commit for Engine.Outcome, where the error is CodeUnknown.
	Commit uuid.UUID
}

// PushRecords stores messages and writes records in one change set, all of it or nothing, so that who reads the messages again after a crash
// finds in the records that they are stored. Messages whose transaction id lies in the window are left out and reported, as by Push. After
// CodeUnknown nothing may be sent again before Outcome has said that the commit did not take place.
func (e *Engine) PushRecords(ctx context.Context, x PushParams, records []Record) (Deposited, error) {
	if e.closing.Load() {
		return Deposited{}, errClosed("push")
	}
	r, err := e.newPush(ctx, x)
	if err != nil {
		return Deposited{}, err
	}
	if err := e.readyPush(ctx, r); err != nil {
		return Deposited{}, err
	}
	var lands []landing
	op := &opReq{pushes: true, bytes: r.bytes}
	op.apply = func(p *pass) (err error) {
		if lands, err = p.pushAll(r, false); err != nil {
			p.forgetFresh(r)
			return err
		}
		p.cs.Records = append(p.cs.Records, records...)
		return nil
	}
	op.after = func(p *pass) { e.land(ctx, p, lands) }
	if err := e.submit(op); err != nil {
		if errors.Is(err, errForgotten) {
			return e.PushRecords(ctx, x, records)
		}
		return Deposited{Commit: op.commit}, err
	}
	e.countPushed(r)
	return Deposited{Pushed: r.out, Commit: op.commit}, nil
}

// Outcome reports whether a commit whose answer was lost took place. It waits for one that is still under way, and one that has not come
// by then never will.
func (e *Engine) Outcome(ctx context.Context, commit uuid.UUID) (bool, error) {
	took, err := e.store.Outcome(ctx, commit)
	return took, WrapError(CodeInternal, "outcome", err)
}
