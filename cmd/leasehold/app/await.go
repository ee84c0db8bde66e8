package app

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/adapters/admin"
	"github.com/leasehold/leasehold/adapters/cfqueues"
	"github.com/leasehold/leasehold/adapters/queen"
	"github.com/leasehold/leasehold/adapters/querator"
	"github.com/leasehold/leasehold/core"
)

// awaitAtLeast and awaitAtMost are how long a server waits before it looks again for a database that it cannot use: twice as long each time.
const awaitAtLeast, awaitAtMost = 100 * time.Millisecond, 2 * time.Second

// begin starts everything. Where the database cannot be used yet, the listeners are opened all the same and refuse in their protocols' words
// until it can, so that whoever starts both at once need not know in which order they come up.
func (a *App) begin(ctx context.Context, done *steps) error {
	began, wait, told := time.Now(), awaitAtLeast, core.CodeInternal
	for {
		err := a.start(ctx, done)
		code := core.CodeOf(err)
		switch {
		case err == nil:
			if told != core.CodeInternal {
				a.log.InfoContext(ctx, "the database can be used", "outage", time.Since(began).Round(time.Millisecond))
			}
			return nil
		case !a.worthWaiting(code):
			return a.giveUp(ctx, err)
		case code != told:
			told = code
			a.log.ErrorContext(ctx, "the database cannot be used, requests are refused until it can", "code", code.String(), "error", err)
		}
		if err := done.unwind(context.WithoutCancel(ctx)); err != nil {
			return a.giveUp(ctx, err)
		}
		if err := a.refuse(ctx); err != nil {
			return a.giveUp(ctx, err)
		}
		pause := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			pause.Stop()
			return a.giveUp(ctx, core.WrapError(core.CodeCanceled, "wait for the database", ctx.Err()))
		case err := <-a.failed:
			pause.Stop()
			return a.giveUp(ctx, err)
		case <-pause.C:
		}
		wait = min(2*wait, awaitAtMost)
	}
}

// worthWaiting reports whether a start that failed so may succeed later: a database of several servers comes and goes without them.
func (a *App) worthWaiting(code core.Code) bool {
	shared := strings.HasPrefix(a.cfg.Store, "postgres:") || strings.HasPrefix(a.cfg.Store, "postgresql:")
	return shared && (code == core.CodeUnavailable || code == core.CodeReadOnly)
}

// refuse opens the listeners, once, with handlers that tell every client to try again.
func (a *App) refuse(ctx context.Context) error {
	if a.early != nil {
		return nil
	}
	// Clients hear that nothing was done, whatever it is that the database lacks.
	err := core.Errorf(core.CodeUnavailable, "open store", "the database cannot be used yet")
	specs := append(a.listeners(
		func(o queen.Options) http.Handler { return queen.Refuse(err, o) },
		func(o cfqueues.Options) http.Handler { return cfqueues.Refuse(err, o) },
		func(o querator.Options) http.Handler { return querator.Refuse(err, o) },
	), spec{"admin", "admin-addr", a.cfg.AdminAddr, admin.New(admin.Options{
		Ready: func(context.Context) error { return err }, Metrics: a.metrics.handler(), Token: a.cfg.AdminToken,
		Logger: a.log, Now: time.Now, Observer: a.metrics,
	})})
	group, failed := a.open(ctx, specs)
	a.early, a.servers = group, nil
	return failed
}

// take returns the listener of a spec: the one that is open already, with the spec's handler from now on, or a new one.
func (a *App) take(ctx context.Context, sp spec) (*server, error) {
	for i, s := range a.early {
		if s.name == sp.name && s.asked == sp.addr {
			a.early = slices.Delete(a.early, i, i+1)
			s.handler.Store(&sp.handler)
			return s, nil
		}
	}
	return listen(ctx, sp.name, sp.addr, sp.handler, a.log)
}

// giveUp closes the listeners that were opened early.
func (a *App) giveUp(ctx context.Context, err error) error {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), acceptTimeout)
	defer cancel()
	for _, s := range a.early {
		s.stopAccepting(ending)
		_ = s.finish(ending) // whoever is cut off hears of it
	}
	a.early = nil
	return err
}
