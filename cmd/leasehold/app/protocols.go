package app

import (
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
	specs := make([]spec, 0, 2+len(a.cfg.QueratorAddr))
	options := a.cfg.queenOptions()
	options.Logger, options.Now, options.Observer = a.log, time.Now, a.metrics
	options.Meter, options.Maintenance = desk.meter, desk.maintenance
	specs = append(specs,
		spec{"queen", "queen-addr", a.cfg.QueenAddr, queen.New(engine, options)},
		spec{"cfqueues", "cfqueues-addr", a.cfg.CfqueuesAddr, cfqueues.New(engine, a.cfqueuesOptions())})
	for _, s := range a.cfg.QueratorAddr {
		e := splitFamily(s)
		// The family was checked with the rest of the configuration.
		generation, _ := querator.ParseGeneration(e.family)
		options := a.cfg.queratorOptions()
		options.Generation, options.Version, options.Metrics = generation, version(), admin.Guard(a.cfg.AdminToken, a.metrics.handler())
		options.Logger, options.Now, options.Observer = a.log, time.Now, a.metrics
		specs = append(specs, spec{"querator", "querator-addr", e.addr, querator.New(engine, options)})
	}
	return specs
}

// pid is the process's id, for the log line that a supervisor may look for.
func pid() int { return os.Getpid() }
