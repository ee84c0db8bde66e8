package core

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Options configure an Engine. The zero value of each field means its default.
type Options struct {
	// Clock tells the time; default a new SystemClock.
	Clock Clock
	// Logger receives the engine's log; default discards.
	Logger *slog.Logger
	// Observer receives figures for metrics; default none.
	Observer Observer
	// MaxCommitBytes and MaxCommitRequests bound the pushes that one commit fuses, and the settlements; defaults 8 MiB and 1,000. Claims
	// have a bound of their own, see maxPlanClaims.
	MaxCommitBytes    int
	MaxCommitRequests int
	// MaxClaimBytes is the byte budget of a claim that names none; default 16 MB.
	MaxClaimBytes int64
	// MaxMessageBytes refuses larger payloads; default 64 MiB.
	MaxMessageBytes int
	// MaxWaiting bounds parked claims over the whole server; default 100,000.
	MaxWaiting int
	// MaxDedupEntries bounds the transaction ids remembered over all partitions; default 50,000,000. Where
	// the bound is reached the window gets shorter, oldest first.
	MaxDedupEntries int
	// SweepEvery is the time between sweeps for retention; default 5 s. Due times and deadlines are met on time regardless.
	SweepEvery time.Duration
	// TraceAge and StateAge are how long traces and the state of stream processors are kept after they were written last; defaults
	// 7 and 90 days.
	TraceAge, StateAge time.Duration
	// PartitionIdle is after what time without a message, a push or a claim a partition that only Queen's clients use is removed; default 30
	// days, below 0 is never.
	PartitionIdle time.Duration
	// SourceID makes the source id of a message that moves to a dead queue from its partition and place, as the
	// adapter whose protocol shows source ids writes it; default a text of its own.
	SourceID func(secret []byte, partition uuid.UUID, ref ItemRef) string
}

func (o *Options) fill() {
	if o.Clock == nil {
		o.Clock = NewSystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	if o.SourceID == nil {
		o.SourceID = func(_ []byte, partition uuid.UUID, ref ItemRef) string {
			return fmt.Sprintf("%s-%d-%d", partition, ref.Offset, ref.Turn)
		}
	}
	setDefault(&o.MaxCommitBytes, 8<<20)
	setDefault(&o.MaxCommitRequests, 1000)
	setDefault(&o.MaxClaimBytes, 16_000_000)
	setDefault(&o.MaxMessageBytes, 64<<20)
	setDefault(&o.MaxWaiting, 100_000)
	setDefault(&o.MaxDedupEntries, 50_000_000)
	setDefault(&o.SweepEvery, 5*time.Second)
	setDefault(&o.TraceAge, 7*24*time.Hour)
	setDefault(&o.StateAge, 90*24*time.Hour)
	if o.PartitionIdle == 0 {
		o.PartitionIdle = 30 * 24 * time.Hour
	}
}

func setDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

type noObserver struct{}

func (noObserver) Pushed(Protocol, string, int, int)         {}
func (noObserver) ClaimedMessages(Protocol, string, int)     {}
func (noObserver) Settled(Protocol, string, string, int)     {}
func (noObserver) Committed(string, int, int, time.Duration) {}

// Engine holds every rule of the product over a Store. Its methods may be called from any goroutine.
//
// One goroutine, the dispatcher, owns all delivery state in memory and talks to the store about it:
// what arrives while a commit runs goes into the next one.
type Engine struct {
	opts   Options
	store  Store
	clock  Clock
	log    *slog.Logger
	secret []byte

	cat   catalog
	inbox inbox
	// shared tells that other gateways use the store too; others is how far they were followed.
	shared bool
	others following
	keeper keeper
	thin   idleSweep
	leases leaseIndex
	reads  reads

	// What follows belongs to the dispatcher.
	active     map[*group]struct{}
	discovery  map[*claimReq]struct{}
	deadlines  deadlineHeap
	wakes      wakeHeap
	scheduleAt Time
	leaseAt    Time
	expiryAt   Time
	retainAt   Time
	notBefore  Time
	dedupCount int
	flights    []*part
	// later are pushes that wait for the commit being built.
	later    []*pushReq
	extraOps []*opReq
	// rides tells that pushes go along with the turn's Update, riding are those that do.
	rides  bool
	riding []*opReq
	// answered are the requests that were answered in a turn.
	answered answered
	timer    func() bool
	timerAt  Time
	again    bool
	// agedUpto is how far the sweep for old stream state has come.
	agedUpto string
	// doubted are queues that a commit whose answer is lost may have changed.
	doubted map[*entry]struct{}

	air air
	// commits changes when a commit begins and when it ends; running are those between.
	commits  atomic.Uint64
	running  atomic.Int64
	waiting  atomic.Int64
	inFlight atomic.Int64
	closing  atomic.Bool
	stopped  chan struct{}
	stopOnce sync.Once
	gauges   gaugeCache
}

const secretSize = 32

// New starts an engine over a store. The caller shuts the engine down first and closes the store after it.
func New(ctx context.Context, store Store, opts Options) (*Engine, error) {
	opts.fill()
	e := &Engine{
		opts: opts, store: store, clock: opts.Clock, log: opts.Logger,
		active: map[*group]struct{}{}, discovery: map[*claimReq]struct{}{}, stopped: make(chan struct{}),
	}
	e.inbox.signal = make(chan struct{}, 1)
	e.keeper.id = uuid.New()
	e.leases.init()
	if err := e.loadSecret(ctx); err != nil {
		return nil, err
	}
	if err := e.startFollowing(ctx); err != nil {
		return nil, err
	}
	if err := e.cat.load(ctx, store); err != nil {
		return nil, err
	}
	if err := e.refreshDue(ctx); err != nil {
		return nil, err
	}
	e.retainAt = e.clock.Now().Add(opts.SweepEvery)
	e.openAir()
	e.listen()
	go e.run() //nolint:gosec // the dispatcher outlives the call that starts it
	e.inbox.wake()
	return e, nil
}

// loadSecret reads the store's secret, or makes it.
func (e *Engine) loadSecret(ctx context.Context) error {
	for {
		secret, err := e.store.Record(ctx, "engine", "secret")
		if err != nil {
			return WrapError(CodeInternal, "read secret", err)
		}
		if len(secret) == secretSize {
			e.secret = secret
			return nil
		}
		fresh := make([]byte, secretSize)
		if _, err := rand.Read(fresh); err != nil {
			return WrapError(CodeInternal, "make secret", err)
		}
		if err := e.store.PutRecord(ctx, "engine", "secret", secret, fresh); err != nil && CodeOf(err) != CodeConflict {
			return WrapError(CodeInternal, "store secret", err)
		}
	}
}

// Shutdown answers waiting claims with CodeClosed, refuses new requests with CodeClosed and finishes the commits in
// flight. It is safe to call twice.
func (e *Engine) Shutdown(ctx context.Context) error {
	e.stopOnce.Do(func() {
		e.closing.Store(true)
		if e.others.stop != nil {
			e.others.stop()
		}
		e.inbox.wake()
	})
	select {
	case <-e.stopped:
		return nil
	case <-ctx.Done():
		return WrapError(CodeCanceled, "shut down", ctx.Err())
	}
}

// Now returns the engine's time.
func (e *Engine) Now() Time { return e.clock.Now() }

// Wake makes the engine look at its clock again.
func (e *Engine) Wake() { e.inbox.wake() }

// Secret returns 32 bytes made once per store, for authenticated tokens and ids; derive a key per use.
func (e *Engine) Secret() []byte { return e.secret }

// Ready reports whether the store answers; nil is ready.
func (e *Engine) Ready(ctx context.Context) error {
	if e.closing.Load() {
		return Errorf(CodeClosed, "ready", "the server is shutting down")
	}
	_, err := e.store.Record(ctx, "engine", "secret")
	return err
}

func newCommit() uuid.UUID { return uuid.New() }

func init() { uuid.EnableRandPool() }
