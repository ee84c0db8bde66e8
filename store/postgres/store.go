// Package postgres is the store that several gateways share: core.Store over PostgreSQL 14 or newer.
//
// Whoever changes a (partition, group) holds its row of frontiers, whoever appends to a partition its row of
// partition_logs; locks are taken in one order, frontiers first and each by key, and what they protect is read by later
// statements. The number of statements does not grow with what a commit holds.
package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/core"
)

// Options configure a Store. The zero value of each field means its default.
type Options struct {
	// Logger receives the store's log; default discards.
	Logger *slog.Logger
	// Schema is where the tables lie; default "leasehold". A schema in the URL's query (?schema=name) goes before it.
	Schema string
	// MaxConns bounds the connections of this gateway; default 16.
	MaxConns int32
}

// Store implements core.Store over PostgreSQL.
type Store struct {
	opts    Options
	pool    *pgxpool.Pool
	gateway uuid.UUID

	// life is held for reading by every call and for writing by Close.
	life   sync.RWMutex
	closed bool

	commits atomic.Int64
	pruning sync.WaitGroup

	mu    sync.Mutex
	fault func(point string) error // tests make commits fail with it
}

var (
	_ core.Store        = (*Store)(nil)
	_ core.RecordLister = (*Store)(nil)
)

// writeTimeout bounds how long a commit may take once it began; the caller's context ends no commit half-way.
const writeTimeout = 60 * time.Second

// connectTimeout bounds the attempt to reach one host, unless the URL says otherwise.
const connectTimeout = 5 * time.Second

// Open connects to a database, makes or migrates the schema and returns the store. A database that cannot be reached is
// CodeUnavailable, one that a newer version migrated CodeFormat.
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
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The text of the error may hold the URL, and that a password.
		return nil, core.Errorf(core.CodeInvalid, op, "the address of the database cannot be understood")
	}
	if name := cfg.ConnConfig.RuntimeParams["schema"]; name != "" {
		o.Schema = name
		delete(cfg.ConnConfig.RuntimeParams, "schema")
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	cfg.MaxConns = o.MaxConns
	cfg.ConnConfig.RuntimeParams["search_path"] = pgx.Identifier{o.Schema}.Sanitize()
	cfg.ConnConfig.RuntimeParams["application_name"] = "leasehold"
	// A gateway that hangs must not hold its locks for ever.
	cfg.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "30000"
	if err := migrate(ctx, cfg.ConnConfig, o.Schema); err != nil {
		return nil, classify(op, err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, classify(op, err)
	}
	return &Store{opts: o, pool: pool, gateway: uuid.New()}, nil
}

// Close implements core.Store.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if !s.closed {
		s.closed = true
		s.pruning.Wait()
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

func (s *Store) at(point string) error {
	s.mu.Lock()
	f := s.fault
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(point)
}

// attempts is how often a transaction runs that others get in the way of.
const attempts = 8

// transaction is one commit. Its statements go in as few round trips as there are answers to wait for: start with the BEGIN,
// what run needs to know in between, final with the COMMIT.
type transaction struct {
	op  string
	id  uuid.UUID
	now core.Time
	// changed are the partitions that other gateways should look at.
	changed []int64
	// start queues what is asked first; it may be nil.
	start func(b *pgx.Batch)
	// run does the work; an errNothing ends the transaction without a commit. It may run more than once.
	run func(ctx context.Context, tx session, t *transaction) error
	// final is what run leaves to be written with the commit.
	final *pgx.Batch
}

// session is a connection within a transaction.
type session interface {
	querier
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// errNothing tells that a transaction has nothing to write.
var errNothing = errors.New("nothing to write")

// commit runs a transaction. Without error it took place; CodeUnknown leaves it open; any other error means that nothing
// was stored.
func (s *Store) commit(ctx context.Context, t *transaction) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := s.attempt(ctx, t)
		if errors.Is(err, errNothing) {
			return nil
		}
		if err == nil {
			if s.commits.Add(1)%pruneAfter == 0 {
				s.pruning.Go(func() { s.prune(keepTransactions) })
			}
			return nil
		}
		if !again(err) || attempt == attempts {
			return classify(t.op, err)
		}
	}
}

func (s *Store) attempt(ctx context.Context, t *transaction) (err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // closes the connection when it is still inside a transaction
	open := true
	defer func() {
		if open && !conn.Conn().IsClosed() {
			_, _ = conn.Exec(ctx, "ROLLBACK") // where it fails, Release closes the connection
		}
	}()
	t.changed, t.final = nil, &pgx.Batch{}
	begin := &pgx.Batch{}
	begin.Queue("BEGIN")
	if t.start != nil {
		t.start(begin)
	}
	if err := conn.SendBatch(ctx, begin).Close(); err != nil {
		return err
	}
	if err := t.run(ctx, conn, t); err != nil {
		return err
	}
	t.final.Queue("INSERT INTO commits (id, gateway, at, partitions) VALUES ($1, $2, $3, $4)",
		id(t.id), id(s.gateway), int64(t.now), nonNil(t.changed))
	t.final.Queue("COMMIT")
	for _, point := range []string{"write", "commit"} {
		if err := s.at(point); err != nil {
			return err
		}
	}
	err = conn.SendBatch(ctx, t.final).Close()
	if err == nil {
		open = false
		err = s.at("after commit")
	}
	if err != nil && lost(err) {
		return core.WrapError(core.CodeUnknown, t.op, errors.New(err.Error()))
	}
	return err
}

// pruneAfter is after how many commits of this gateway old rows of commits go, keepTransactions how many transactions of the
// whole server stay: nobody asks later than that.
const pruneAfter, keepTransactions = 20_000, 200_000

// prune deletes what is older than so many transactions in commits.
func (s *Store) prune(keep int64) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	_, err := s.pool.Exec(ctx, `DELETE FROM commits
		WHERE xid < greatest(pg_snapshot_xmin(pg_current_snapshot())::text::bigint - $1, 0)::text::xid8`, keep)
	if err != nil {
		s.opts.Logger.Warn("old commits were not deleted", "error", err)
	}
}

// Outcome implements core.Ledger. It waits for a commit that is still under way, and one that has not come so far never
// will: the mark left in its place keeps it out.
func (s *Store) Outcome(ctx context.Context, commit uuid.UUID) (bool, error) {
	const op = "outcome"
	if err := s.enter(ctx, op); err != nil {
		return false, err
	}
	defer s.life.RUnlock()
	_, err := s.pool.Exec(ctx, "INSERT INTO commits (id, at, lost) VALUES ($1, 0, true) ON CONFLICT (id) DO NOTHING", id(commit))
	if err != nil {
		return false, classify(op, err)
	}
	var missing bool
	err = s.pool.QueryRow(ctx, "SELECT lost FROM commits WHERE id = $1", id(commit)).Scan(&missing)
	return !missing, classify(op, err)
}

func id(u uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: u, Valid: true} }

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// rows runs a query and calls scan for each row.
func rows(ctx context.Context, q querier, query string, scan func(pgx.Rows) error, args ...any) error {
	r, err := q.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	return each(r, scan)
}

func each(r pgx.Rows, scan func(pgx.Rows) error) error {
	defer r.Close()
	for r.Next() {
		if err := scan(r); err != nil {
			return err
		}
	}
	return r.Err()
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}
