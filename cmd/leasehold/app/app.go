// Package app is the server as a value: configuration, start, orderly end.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/adapters/admin"
	"github.com/leasehold/leasehold/adapters/cfqueues"
	"github.com/leasehold/leasehold/adapters/querator"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store"
	"github.com/leasehold/leasehold/store/observe"
)

// How long each part of the end may take. Together they stay below the 30 s
// that container runtimes wait before they kill.
const (
	acceptTimeout = 2 * time.Second
	engineTimeout = 10 * time.Second
	answerTimeout = 8 * time.Second
	adminTimeout  = 2 * time.Second
	storeTimeout  = 8 * time.Second
)

// Options are what the command line does not say. Zero fields take the
// default named with them.
type Options struct {
	// Logger is the program's log. Default: discarded.
	Logger *slog.Logger
	// Clock is the engine's clock. Default: the database's where several servers share one, else the system's.
	Clock core.Clock
}

// App is one server.
type App struct {
	cfg     Config
	log     *slog.Logger
	clock   core.Clock
	metrics *metrics
	ready   chan struct{}
	failed  chan error
	ending  atomic.Bool
	servers []*server
	// early are the listeners that refuse everything until the store is open.
	early []*server
	// tokens are those of the Cloudflare Queues listener.
	tokens *cfqueues.Tokens
}

// New prepares a server of a valid configuration; Run starts it.
func New(cfg Config, o Options) *App {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &App{
		cfg: cfg, log: o.Logger, clock: o.Clock, metrics: newMetrics(cfg.MetricsQueues),
		ready: make(chan struct{}), failed: make(chan error, 1),
	}
}

// Ready is closed once every listener accepts requests.
func (a *App) Ready() <-chan struct{} { return a.ready }

// Addr returns the address of a listener by name ("queen", "querator",
// "cfqueues", "admin", "control"), the first one of several, or "" for one that
// is off. It may be called once Ready is closed.
func (a *App) Addr(name string) string {
	for _, s := range a.servers {
		if s.name == name {
			return s.ln.Addr().String()
		}
	}
	return ""
}

// Run serves until ctx ends or a listener fails, then ends in order. It
// returns nil after an orderly end. Run may be called once.
func (a *App) Run(ctx context.Context) error {
	done := &steps{log: a.log}
	// The end needs time of its own after ctx has ended.
	ending := context.WithoutCancel(ctx)
	if err := a.begin(ctx, done); err != nil {
		err = errors.Join(err, done.unwind(ending))
		if ctx.Err() != nil && core.CodeOf(err) == core.CodeCanceled {
			return nil // it was ended while it waited for its database
		}
		return err
	}
	close(a.ready)
	a.log.InfoContext(ctx, "server is ready", "version", version(), "pid", pid())
	var err error
	select {
	case <-ctx.Done():
	case err = <-a.failed:
	}
	a.ending.Store(true)
	a.log.InfoContext(ending, "server is shutting down")
	err = errors.Join(err, done.unwind(ending))
	a.log.InfoContext(ending, "server has stopped")
	return err
}

// start brings everything up, and notes in done how each part is ended. What
// comes first ends last.
func (a *App) start(ctx context.Context, done *steps) error {
	s, err := store.Open(ctx, a.cfg.Store, store.Options{Dir: a.cfg.DataDir, Schema: a.cfg.Schema, Logger: a.log})
	if err != nil {
		return err
	}
	done.push("close store", storeTimeout, func(context.Context) error { return s.Close() })

	clock := a.clock
	if shared, ok := s.(core.Shared); ok && clock == nil {
		clock = shared.Clock() // gateways that share a database share its clock
	}
	if clock == nil {
		clock = core.NewSystemClock()
	}
	var ctl *control
	if a.cfg.ControlAddr != Off {
		adjustable := newAdjustableClock(clock)
		a.cfg.stand(adjustable)
		clock, ctl = adjustable, &control{clock: adjustable}
	}
	desk, err := a.openDesk(clock, done)
	if err != nil {
		return err
	}
	engine, err := core.New(ctx, observe.Wrap(a.cfg.seal(s, a.log), observe.Options{Recorder: a.metrics, Logger: a.log, Now: time.Now}),
		core.Options{Clock: clock, Logger: a.log, Observer: observers{a.metrics, desk.meter}, SourceID: querator.SourceID, SweepEvery: a.cfg.SweepEvery, PartitionIdle: a.cfg.partitionIdle()})
	if err != nil {
		return fmt.Errorf("start engine: %w", err)
	}
	// Should a later part fail to start, the engine must end before the store.
	done.push("end engine", engineTimeout, engine.Shutdown)
	if err := a.openTokens(ctx, engine); err != nil {
		return err
	}
	if err := desk.start(ctx, a, engine, clock, done); err != nil {
		return err
	}
	a.metrics.watch(engine.Gauges, engine.Now, time.Now)

	if err := a.startAdmin(ctx, done, engine, ctl); err != nil {
		return err
	}
	return a.startProtocols(ctx, done, engine, desk)
}

// startAdmin opens the listeners that must outlive the protocols', so that the
// end can be watched.
func (a *App) startAdmin(ctx context.Context, done *steps, engine *core.Engine, ctl *control) error {
	ready := func(ctx context.Context) error {
		if a.ending.Load() {
			return errors.New("shutting down")
		}
		return engine.Ready(ctx)
	}
	specs := []spec{{"admin", "admin-addr", a.cfg.AdminAddr, admin.New(admin.Options{
		Ready: ready, Metrics: a.metrics.handler(), Token: a.cfg.AdminToken, Tokens: a.tokens,
		Logger: a.log, Now: time.Now, Observer: a.metrics,
	})}}
	if ctl != nil {
		ctl.pause, ctl.forget = engine.Pause, engine.ForgetRecords
		specs = append(specs, spec{"control", "control-addr", a.cfg.ControlAddr, ctl.handler()})
		a.log.WarnContext(ctx, "control listener is on: any local process can move the server's clock")
	}
	group, err := a.open(ctx, specs)
	if err != nil {
		return err
	}
	done.push("close admin", adminTimeout, func(ctx context.Context) error {
		group.stopAccepting(ctx)
		return group.finish(ctx)
	})
	return nil
}

// startProtocols opens the protocols' listeners. Their end has three parts:
// nobody new is let in, whoever waits is answered, and the answers are sent.
func (a *App) startProtocols(ctx context.Context, done *steps, engine *core.Engine, desk *desk) error {
	group, err := a.open(ctx, a.protocols(engine, desk))
	if err != nil {
		return err
	}
	draining, cut := context.WithCancel(context.Background())
	done.push("send answers", answerTimeout, func(ctx context.Context) error {
		defer cut()
		return group.finish(ctx)
	})
	done.push("answer waiting consumers", engineTimeout, engine.Shutdown)
	done.push("stop accepting", acceptTimeout, func(context.Context) error {
		group.stopAccepting(draining)
		return nil
	})
	return nil
}

// spec is a listener to open.
type spec struct {
	name, flag, addr string
	handler          http.Handler
}

// servers are listeners that start and end together.
type servers []*server

// open opens all listeners before the first of them serves, so that a taken
// port is found before a request is.
func (a *App) open(ctx context.Context, specs []spec) (servers, error) {
	var group servers
	for _, sp := range specs {
		if sp.addr == Off {
			a.log.InfoContext(ctx, "listener is off", "protocol", sp.name)
			continue
		}
		s, err := a.take(ctx, sp)
		if err != nil {
			for _, s := range group {
				_ = s.ln.Close()
			}
			return nil, fmt.Errorf("--%s: %w", sp.flag, err)
		}
		group = append(group, s)
	}
	for _, s := range group {
		if s.serving {
			continue // since before the store was open
		}
		s.serve(func(err error) {
			select {
			case a.failed <- fmt.Errorf("listener %s: %w", s.name, err):
			default:
			}
		})
		a.log.InfoContext(ctx, "listening", "protocol", s.name, "addr", s.ln.Addr().String())
	}
	a.servers = append(a.servers, group...)
	return group, nil
}

func (g servers) stopAccepting(ctx context.Context) {
	for _, s := range g {
		s.stopAccepting(ctx)
	}
}

func (g servers) finish(ctx context.Context) error {
	var failed []error
	for _, s := range g {
		if err := s.finish(ctx); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(failed...)
}
