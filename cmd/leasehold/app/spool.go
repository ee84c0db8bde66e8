package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leasehold/leasehold/adapters/queen"
	"github.com/leasehold/leasehold/adapters/queen/spool"
	"github.com/leasehold/leasehold/core"
)

// maintenanceTimeout bounds the end of what Queen does besides its requests.
const maintenanceTimeout = 4 * time.Second

// desk is what the Queen listener has besides the engine.
type desk struct {
	spool, failed *spool.Spool
	meter         *queen.Meter
	maintenance   *queen.Maintenance
}

// openDesk opens the spool, when there is a Queen listener, and begins to
// count. It comes before the engine, which reports to the meter.
func (a *App) openDesk(clock core.Clock, done *steps) (*desk, error) {
	d := &desk{}
	options := queen.MeterOptions{Clock: clock, Logger: a.log, Hours: a.cfg.QueenMetricsRetention}
	if a.cfg.QueenAddr != Off {
		if err := d.openSpools(a, done); err != nil {
			return nil, err
		}
		options.Gateway = d.spool.ID()
	}
	d.meter = queen.NewMeter(options)
	return d, nil
}

func (d *desk) openSpools(a *App, done *steps) (err error) {
	dir := a.cfg.QueenSpoolDir
	if dir == "" {
		dir = filepath.Join(a.cfg.DataDir, "queen-spool")
		if strings.HasPrefix(a.cfg.Store, "memory:") {
			// What the spool holds must not outlive what it is drained to.
			if dir, err = os.MkdirTemp("", "leasehold-spool"); err != nil {
				return err
			}
			done.push("remove spool", storeTimeout, func(context.Context) error { return os.RemoveAll(dir) }) //nolint:gosec // made above
		}
	}
	o := spool.Options{Dir: dir, MaxBytes: a.cfg.QueenSpoolBytes, Logger: a.log}
	o.Key, o.OldKeys = a.cfg.spoolKeys()
	if d.spool, err = spool.Open(o); err != nil {
		return fmt.Errorf("--queen-spool-dir: %w", err)
	}
	done.push("close spool", storeTimeout, func(context.Context) error { return d.spool.Close() })
	o.Dir = filepath.Join(dir, "failed")
	if d.failed, err = spool.Open(o); err != nil {
		return fmt.Errorf("--queen-spool-dir: %w", err)
	}
	done.push("close spool of failed messages", storeTimeout, func(context.Context) error { return d.failed.Close() })
	return nil
}

// spoolKeys encrypt what lies in the spool where payloads are encrypted in the
// store. They are derived, so that no key has two uses.
func (c *Config) spoolKeys() (key []byte, old [][]byte) {
	derive := func(text string) []byte {
		sum := sha256.Sum256([]byte("leasehold spool\n" + text))
		return sum[:]
	}
	if c.EncryptionKey != "" {
		key = derive(c.EncryptionKey)
	}
	for _, text := range c.EncryptionOldKeys {
		old = append(old, derive(text))
	}
	return key, old
}

// start begins to keep the history and to drain the spool.
func (d *desk) start(ctx context.Context, a *App, engine *core.Engine, clock core.Clock, done *steps) (err error) {
	if d.spool == nil {
		return nil
	}
	if err := d.meter.Start(ctx, engine); err != nil {
		return fmt.Errorf("read the history of figures: %w", err)
	}
	done.push("write figures", maintenanceTimeout, d.meter.Close)
	d.maintenance, err = queen.NewMaintenance(ctx, queen.MaintenanceOptions{
		Engine: engine, Clock: clock, Spool: d.spool, Failed: d.failed, HoldFor: a.cfg.QueenSpoolWait, Logger: a.log,
	})
	if err != nil {
		return fmt.Errorf("read the spool: %w", err)
	}
	done.push("end draining", maintenanceTimeout, func(context.Context) error { return d.maintenance.Close() })
	return nil
}

// observers tells several observers what the engine does.
type observers []core.Observer

// Pushed implements core.Observer.
func (o observers) Pushed(p core.Protocol, queue string, queued, duplicate int) {
	for _, one := range o {
		one.Pushed(p, queue, queued, duplicate)
	}
}

// ClaimedMessages implements core.Observer.
func (o observers) ClaimedMessages(p core.Protocol, queue string, messages int) {
	for _, one := range o {
		one.ClaimedMessages(p, queue, messages)
	}
}

// Settled implements core.Observer.
func (o observers) Settled(p core.Protocol, queue, outcome string, messages int) {
	for _, one := range o {
		one.Settled(p, queue, outcome, messages)
	}
}

// Committed implements core.Observer.
func (o observers) Committed(kind string, requests, messages int, took time.Duration) {
	for _, one := range o {
		one.Committed(kind, requests, messages, took)
	}
}
