package app

import (
	"net/http"
	"os"
	"time"

	"github.com/leasehold/leasehold/adapters/admin"
	"github.com/leasehold/leasehold/adapters/cfqueues"
	"github.com/leasehold/leasehold/adapters/queen"
	"github.com/leasehold/leasehold/adapters/querator"
	"github.com/leasehold/leasehold/core"
)

// protocols lists the protocols' listeners.
func (a *App) protocols(engine *core.Engine, desk *desk) []spec {
	return a.listeners(
		func(o queen.Options) http.Handler {
			o.Meter, o.Maintenance = desk.meter, desk.maintenance
			return queen.New(engine, o)
		},
		func(o cfqueues.Options) http.Handler { return cfqueues.New(engine, o) },
		func(o querator.Options) http.Handler { return querator.New(engine, o) })
}

// listeners lists the protocols' listeners with the handlers that are made for them.
func (a *App) listeners(q func(queen.Options) http.Handler, cf func(cfqueues.Options) http.Handler, qr func(querator.Options) http.Handler) []spec {
	specs := make([]spec, 0, 2+len(a.cfg.QueratorAddr))
	options := a.cfg.queenOptions()
	options.Logger, options.Now, options.Observer = a.log, time.Now, a.metrics
	specs = append(specs,
		spec{"queen", "queen-addr", a.cfg.QueenAddr, q(options)},
		spec{"cfqueues", "cfqueues-addr", a.cfg.CfqueuesAddr, cf(a.cfqueuesOptions())})
	for _, s := range a.cfg.QueratorAddr {
		e := splitFamily(s)
		// The family was checked with the rest of the configuration.
		generation, _ := querator.ParseGeneration(e.family)
		options := a.cfg.queratorOptions()
		options.Generation, options.Version, options.Metrics = generation, version(), admin.Guard(a.cfg.AdminToken, a.metrics.handler())
		options.Logger, options.Now, options.Observer = a.log, time.Now, a.metrics
		specs = append(specs, spec{"querator", "querator-addr", e.addr, qr(options)})
	}
	return specs
}

// pid is the process's id, for the log line that a supervisor may look for.
func pid() int { return os.Getpid() }
