package queen

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/leasehold/leasehold/adapters/queen/spool"
	"github.com/leasehold/leasehold/core"
)

// The records of maintenance: the switch that all gateways obey, and how far each spool has been drained.
const (
	recordSwitch  = "queen-maintenance"
	recordDrained = "queen-spool"
	switchName    = "switch"
)

const (
	// switchAge is how old what is known of the switch may be when a push or a pop obeys it, lookEvery how often it is read besides.
	switchAge = time.Second
	lookEvery = 500 * time.Millisecond
	// lookTimeout bounds a look at the store; one that takes longer counts as away.
	lookTimeout = 2 * time.Second
	// drainMessages and drainBytes bound what one commit of a drain stores.
	drainMessages = 1000
	drainBytes    = 4 << 20
)

// MaintenanceOptions are the settings of Maintenance; a zero field is its default.
type MaintenanceOptions struct {
	// Engine stores what is drained. Required.
	Engine *core.Engine
	// Clock is the engine's clock. Required.
	Clock core.Clock
	// Spool keeps pushes while they cannot be stored. Default: none, and then push maintenance cannot be switched on.
	Spool *spool.Spool
	// Failed keeps spooled messages that can never be stored. Default: they are only counted and logged.
	Failed *spool.Spool
	// MaxMessageBytes refuses larger payloads before they are spooled, as the engine does. Default: 64 MiB.
	MaxMessageBytes int
	// HoldFor is how long this server's spool waits for another server that has earlier messages of the same partition in its own and does not
	// drain them. Default: DefaultHoldFor.
	HoldFor time.Duration
	// Logger receives what happens. Default: discarded.
	Logger *slog.Logger
}

// Maintenance holds Queen's two maintenance switches and the spool of pushes. The switches are stored, so that they survive a restart and all
// servers of a store obey them within a second. While push maintenance is on, or the store is away, pushes are written to the spool and answered
// as buffered; afterwards they are stored in their order, each once. Its methods may be called from any goroutine.
type Maintenance struct {
	o     MaintenanceOptions
	spool *spool.Spool

	mu sync.Mutex
	// now is what the switches say, raw the record that says it, lookedAt when it was read.
	now      switches
	raw      []byte
	lookedAt core.Time
	away     bool
	// pending counts what is spooled and not stored, by partition.
	pending map[partName]int
	spooled int
	failed  int
	// mine tells since when partitions are in the spool, untold which of them the store does not know of yet.
	mine   map[partName]core.Time
	untold map[partName]struct{}
	// held are the partitions in other servers' spools, left how many each has, waits those that are waited for and givenUp those that no longer
	// are.
	held    map[partName]holder
	left    map[string]int
	waits   map[string]patience
	givenUp map[string]bool
	// drained is the number of the last record that is stored.
	drained uint64
	// settling is closed when the last part of a drain has ended; nil while there is none.
	settling chan struct{}
	// parked are the pops that wait.
	parked map[*parkedPop]struct{}
	closed bool
	stop   func() bool

	looking sync.Mutex
	wake    chan struct{}
	ended   chan struct{}
	ctx     context.Context //nolint:containedctx // ends the drain, which no request began
	cancel  context.CancelFunc
}

// switches is the record of the switches.
type switches struct {
	Push bool `json:"push"`
	Pop  bool `json:"pop"`
}

// partName names a partition before there is one.
type partName struct{ queue, partition string }

// parkedPop is a pop that waits for messages.
type parkedPop struct{ cancel context.CancelFunc }

// NewMaintenance reads the switches and what the spool holds, and begins to drain it. Close ends it, before the engine and the spool end.
func NewMaintenance(ctx context.Context, o MaintenanceOptions) (*Maintenance, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxMessageBytes <= 0 {
		o.MaxMessageBytes = 64 << 20
	}
	m := &Maintenance{
		o: o, spool: o.Spool, pending: map[partName]int{}, mine: map[partName]core.Time{}, untold: map[partName]struct{}{},
		waits: map[string]patience{}, givenUp: map[string]bool{}, parked: map[*parkedPop]struct{}{}, wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	if o.Failed != nil {
		m.failed = int(o.Failed.Last()) //nolint:gosec // numbers count records
	}
	setDefault(&m.o.HoldFor, DefaultHoldFor)
	m.ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := m.look(ctx); err != nil {
		return nil, err
	}
	if err := m.load(ctx); err != nil {
		return nil, err
	}
	go m.drain()
	m.arm()
	m.ring()
	return m, nil
}

// Close ends the drain; what is left stays in the spool. It may be called twice.
func (m *Maintenance) Close() error {
	m.mu.Lock()
	m.closed = true
	stop := m.stop
	m.mu.Unlock()
	if stop != nil {
		stop()
	}
	m.cancel()
	<-m.ended
	return nil
}

func (m *Maintenance) arm() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.stop = m.o.Clock.AfterFunc(m.o.Clock.Now().Add(lookEvery), func() {
		if err := m.look(m.ctx); err != nil && m.ctx.Err() == nil {
			m.o.Logger.DebugContext(m.ctx, "the maintenance switch cannot be read", "error", err)
		}
		m.ring()
		m.arm()
	})
}

// ring has the drain look whether there is something to do.
func (m *Maintenance) ring() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// look reads the switches. A store that does not answer is away until it answers again.
func (m *Maintenance) look(ctx context.Context) error {
	m.looking.Lock()
	defer m.looking.Unlock()
	return m.read(ctx)
}

func (m *Maintenance) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	at := m.o.Clock.Now()
	raw, err := m.o.Engine.Record(ctx, recordSwitch, switchName)
	if err == nil {
		err = m.readHeld(ctx) // before the switch: who sees it off must know who else has something spooled
	}
	if err == nil {
		err = m.learn(raw, at)
	}
	if core.CodeOf(err) == core.CodeClosed {
		return err
	}
	m.setAway(ctx, err != nil, err)
	return err
}

// learn takes over what the record of the switches says.
func (m *Maintenance) learn(raw []byte, at core.Time) error {
	var now switches
	if raw != nil {
		if err := json.Unmarshal(raw, &now); err != nil {
			return core.WrapError(core.CodeFormat, "read the maintenance switch", err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Pop && !m.now.Pop {
		for p := range m.parked {
			p.cancel()
		}
	}
	m.now, m.raw, m.lookedAt = now, raw, at
	return nil
}

// setAway notes whether the store answers.
func (m *Maintenance) setAway(ctx context.Context, away bool, err error) {
	m.mu.Lock()
	changed := m.away != away
	m.away = away
	m.mu.Unlock()
	switch {
	case !changed:
	case away:
		m.o.Logger.WarnContext(ctx, "the store is away, and pushes go to the spool", "error", err)
	default:
		m.o.Logger.InfoContext(ctx, "the store answers again, and the spool is drained")
		m.ring()
	}
}

// current returns what the switches say now, read anew when it is older than a second, and whether the store is away.
func (m *Maintenance) current(ctx context.Context) (switches, bool) {
	m.mu.Lock()
	now, away, old := m.now, m.away, m.o.Clock.Now().Sub(m.lookedAt) >= switchAge
	m.mu.Unlock()
	if !old || away {
		return now, away
	}
	m.looking.Lock()
	defer m.looking.Unlock()
	m.mu.Lock()
	old = m.o.Clock.Now().Sub(m.lookedAt) >= switchAge
	m.mu.Unlock()
	if old {
		if err := m.read(context.WithoutCancel(ctx)); err != nil {
			m.o.Logger.DebugContext(ctx, "the maintenance switch cannot be read", "error", err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now, m.away
}

// change turns the switches and stores them.
func (m *Maintenance) change(ctx context.Context, turn func(*switches)) error {
	m.looking.Lock()
	defer m.looking.Unlock()
	for {
		if err := m.read(ctx); err != nil {
			return err
		}
		m.mu.Lock()
		now, old := m.now, m.raw
		m.mu.Unlock()
		turn(&now)
		raw, err := json.Marshal(now)
		if err != nil {
			return core.WrapError(core.CodeInternal, "store the maintenance switch", err)
		}
		err = m.o.Engine.PutRecord(ctx, recordSwitch, switchName, old, raw)
		if err != nil && core.CodeOf(err) == core.CodeConflict {
			continue // another server turned a switch meanwhile
		}
		if err != nil {
			return err
		}
		if err := m.learn(raw, m.o.Clock.Now()); err != nil {
			return err
		}
		m.ring()
		return nil
	}
}

// spoolState is what the routes show.
type spoolState struct {
	switches
	pending, failed int
	away, healthy   bool
	bytes           int64
}

func (m *Maintenance) state(ctx context.Context) spoolState {
	if m == nil {
		return spoolState{healthy: true}
	}
	now, away := m.current(ctx)
	s := spoolState{switches: now, away: away, healthy: true}
	if m.spool != nil {
		s.healthy, s.bytes = m.spool.Healthy() == nil, m.spool.Bytes()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.pending, s.failed = m.spooled, m.failed
	return s
}

// park returns a context for a pop that waits, which ends when pop maintenance is switched on. The pop must call done.
func (m *Maintenance) park(ctx context.Context, wait time.Duration) (out context.Context, done func()) {
	if m == nil || wait <= 0 {
		return ctx, func() {}
	}
	out, cancel := context.WithCancel(ctx)
	p := &parkedPop{cancel}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now.Pop {
		cancel()
	}
	m.parked[p] = struct{}{}
	return out, func() {
		m.mu.Lock()
		delete(m.parked, p)
		m.mu.Unlock()
		cancel()
	}
}

// popPaused reports whether pop maintenance is on.
func (m *Maintenance) popPaused(ctx context.Context) bool {
	if m == nil {
		return false
	}
	now, _ := m.current(ctx)
	return now.Pop
}

// setAside keeps a message that can never be stored in a spool of its own, so that it stands in nobody's way and is not lost.
func (m *Maintenance) setAside(e *spool.Entry, why error) error {
	m.o.Logger.ErrorContext(m.ctx, "a spooled message cannot be stored and is set aside", "record", e.Seq, "error", why)
	if m.o.Failed != nil {
		if _, err := m.o.Failed.Append([][]byte{e.Data}); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed++
	return nil
}
