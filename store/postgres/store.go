// Package postgres is the store that several gateways share: core.Store over PostgreSQL 14 or newer.
//
// Whoever changes a (partition, group) holds its row of frontiers, whoever appends to a partition its row of
// partition_logs; locks are taken in one order, frontiers first and each by key, and what they protect is read by later
// statements. The number of statements does not grow with what a commit holds.
package postgres

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/core"
)

// Options configure a Store. The zero value of each field means its default.
type Options struct {
	// Logger receives the store's log; default discards.
	Logger *slog.Logger
	// Schema is where the tables lie; default "leasehold". A schema in the URL's query (?schema=name) goes before it.
	Schema string
	// MaxConns bounds the connections of this gateway's pool; default 16. Two more listen and notify.
	MaxConns int32
	// Mono is what carries the database's clock on between two settings; default is a core.SystemClock.
	Mono core.Clock

	tracer pgx.QueryTracer
}

// Store implements core.Store and core.Shared over PostgreSQL.
type Store struct {
	opts    Options
	pool    *pgxpool.Pool
	gateway uuid.UUID
	mono    core.Clock
	clock   *clock
	outage  outage
	cache   segments
	recall  *recollection

	// life is held for reading by every call and for writing by Close.
	life   sync.RWMutex
	closed bool
	// living ends with the store, and background then runs out.
	living     context.Context //nolint:containedctx // the life of what runs in the background
	end        context.CancelFunc
	background sync.WaitGroup
	announcing chan struct{}
	// heard is when another gateway last notified this one, in mono's time; listening tells that it would be heard.
	heard     atomic.Int64
	listening atomic.Bool
	// owing tells that others were not notified of a commit. awaitedUntil is up to when one of them waits for what is committed, waitingUntil up to
	// when this one does, and saidWaiting when it last said so, in mono's time.
	owing                                   atomic.Bool
	awaitedUntil, waitingUntil, saidWaiting atomic.Int64

	// oldest is a transaction that no commit from now on comes before.
	oldest atomic.Int64

	mu sync.Mutex
	// unknown are the commits whose answer was lost, with what oldest was before them.
	unknown map[uuid.UUID]int64
	fault   func(point string) error // tests make commits fail with it
}

var (
	_ core.Store        = (*Store)(nil)
	_ core.RecordLister = (*Store)(nil)
	_ core.Shared       = (*Store)(nil)
)

// Open connects to a database, makes or migrates the schema and returns the store. A database that cannot be reached
// or written, or is older than PostgreSQL 14, is CodeUnavailable; one that a newer version
// migrated CodeFormat.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	const op = "open store"
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Schema == "" {
		o.Schema = "leasehold"
	}
	if o.MaxConns == 0 {
		o.MaxConns = 16
	}
	if o.Mono == nil {
		o.Mono = core.NewSystemClock()
	}
	cfg, err := poolConfig(url, &o)
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, cfg.ConnConfig, o.Schema); err != nil {
		return nil, classify(op, err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, classify(op, err)
	}
	s := &Store{
		opts: o, pool: pool, gateway: uuid.New(), mono: o.Mono, clock: newClock(o.Mono, o.Logger), outage: outage{log: o.Logger, mono: o.Mono},
		announcing: make(chan struct{}, 1), unknown: map[uuid.UUID]int64{},
		recall: newRecollection(o.Mono),
	}
	s.living, s.end = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.lookAround(ctx); err != nil {
		s.end()
		pool.Close()
		return nil, classify(op, err)
	}
	s.background.Go(func() { s.announce(s.living) })
	s.background.Go(func() { s.keep(s.living) })
	return s, nil
}

// Close implements core.Store.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if !s.closed {
		s.closed = true
		s.end()
		s.background.Wait()
		s.pool.Close()
	}
	return nil
}

// enter begins a call; the caller ends it with s.life.RUnlock when there is no error.
func (s *Store) enter(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return core.WrapError(core.CodeCanceled, op, err)
	}
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return core.Errorf(core.CodeClosed, op, "the store is closed")
	}
	return nil
}
