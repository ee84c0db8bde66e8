package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// step is one thing to undo at shutdown, within a time of its own.
type step struct {
	name    string
	timeout time.Duration
	undo    func(context.Context) error
}

// steps are what start-up has done so far, undone in reverse.
type steps struct {
	log  *slog.Logger
	list []step
}

// push notes what the part of start-up that just succeeded needs at shutdown.
func (s *steps) push(name string, timeout time.Duration, undo func(context.Context) error) {
	s.list = append(s.list, step{name, timeout, undo})
}

// unwind runs all steps, the last one first. One that fails or takes too long
// is logged and does not keep the others from running.
func (s *steps) unwind(ctx context.Context) error {
	var failed []error
	for i := len(s.list) - 1; i >= 0; i-- {
		st := s.list[i]
		if err := st.run(ctx); err != nil {
			s.log.ErrorContext(ctx, "shutdown step failed", "step", st.name, "error", err)
			failed = append(failed, fmt.Errorf("shutdown: %s: %w", st.name, err))
			continue
		}
		s.log.DebugContext(ctx, "shutdown step done", "step", st.name)
	}
	s.list = nil
	return errors.Join(failed...)
}

// run undoes one step. It does not wait longer than the step's timeout even
// if the step does not look at its context.
func (s step) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.undo(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		// The step may have ended in the same moment.
		select {
		case err := <-done:
			return err
		case <-time.After(100 * time.Millisecond):
			return fmt.Errorf("did not end within %s", s.timeout)
		}
	}
}
