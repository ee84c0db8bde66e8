package postgres

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/core"
)

// writeTimeout bounds how long a commit may take once it began; the caller's context ends no commit half-way.
const writeTimeout = 60 * time.Second

// attempts is how often a transaction runs that others get in the way of, or whose connection breaks before its COMMIT.
const attempts = 8

// transaction is one commit. Its statements go in as few round trips as there are answers to wait for: start with the BEGIN,
// what run needs to know in between, final with the COMMIT.
type transaction struct {
	op string
	id uuid.UUID
	// changed is what other gateways should know.
	changed changes
	// start queues what is asked first; it may be nil.
	start func(b *pgx.Batch)
	// run does the work; an errNothing ends the transaction without a commit. It may run more than once.
	run func(ctx context.Context, tx session, t *transaction) error
	// final is what run leaves to be written with the commit; noted tells that the row of the commit is in it.
	final *pgx.Batch
	noted bool
}

// session is a connection within a transaction.
type session interface {
	querier
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	// Conn returns the connection itself.
	Conn() *pgx.Conn
}

// errNothing tells that a transaction has nothing to write.
var errNothing = errors.New("nothing to write")

// refusal is an error of our caller's, who ends a transaction with it.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// ours reports whether a transaction ended with an error that says nothing of the database.
func ours(err error) bool {
	var r refusal
	return errors.Is(err, errNothing) || errors.Is(err, errMoved) || errors.As(err, &r)
}

// commit runs a transaction. Without error it took place; CodeUnknown leaves it open; any other error means that nothing
// was stored.
func (s *Store) commit(ctx context.Context, t *transaction) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		oldest := s.oldest.Load()
		begun := false
		err := s.withConn(ctx, func(conn *pgxpool.Conn) error {
			begun = true
			return s.attempt(ctx, conn, t)
		})
		switch {
		case err == nil:
			s.committed()
			return nil
		case errors.Is(err, errNothing):
			return nil
		case core.CodeOf(err) == core.CodeUnknown:
			s.mu.Lock()
			s.unknown[t.id] = oldest
			s.mu.Unlock()
			return err
		case ours(err):
			var r refusal
			if errors.As(err, &r) {
				return r.error
			}
			return err
		case attempt == attempts || !again(err) && (!begun || !broken(err)):
			return classify(t.op, err)
		}
	}
}

func (s *Store) attempt(ctx context.Context, conn *pgxpool.Conn, t *transaction) (err error) {
	open := true
	defer func() {
		if open && !conn.Conn().IsClosed() {
			_, _ = conn.Exec(ctx, "ROLLBACK") // where it fails, the connection is closed when it is released
		}
	}()
	t.changed, t.final, t.noted = changes{}, &pgx.Batch{}, false
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
	if len(t.changed.queues) > 0 { // as late as can be: commits of this kind take turns from here on
		t.final.Queue("UPDATE catalog SET version = version + 1")
	}
	if !t.noted {
		t.final.Queue("INSERT INTO commits (id, gateway, logs, changed_rows, queues) VALUES ($1, $2, $3, $4, $5)",
			id(t.id), id(s.gateway), nonNil(t.changed.logs), encodeRows(t.changed.rows), uuids(t.changed.queues))
	}
	t.final.Queue("COMMIT")
	for _, point := range []string{"write", "commit"} {
		if err := s.at(point); err != nil {
			return core.WrapError(core.CodeUnavailable, t.op, err)
		}
	}
	took, err := sendAll(ctx, conn, t.final)
	if took {
		open = false
		err = s.at("after commit")
	}
	if err != nil && lost(err) {
		return core.WrapError(core.CodeUnknown, t.op, errors.New(err.Error()))
	}
	return err
}

// sendAll sends statements and reports whether the last one took place: its answer counts even where the connection breaks
// right after it.
func sendAll(ctx context.Context, conn *pgxpool.Conn, b *pgx.Batch) (took bool, err error) {
	results := conn.SendBatch(ctx, b)
	for range b.Len() {
		if _, err = results.Exec(); err != nil {
			break
		}
	}
	_ = results.Close() // what went wrong is known, or came too late
	return err == nil, err
}

// Outcome implements core.Ledger. It waits for a commit that is still under way, and one that has not come so far never
// will: the mark left in its place keeps it out.
func (s *Store) Outcome(ctx context.Context, commit uuid.UUID) (bool, error) {
	const op = "outcome"
	s.mu.Lock()
	oldest, noted := s.unknown[commit]
	s.mu.Unlock()
	var missing, forgotten bool
	err := s.reading(ctx, op, func(q session) error {
		b := &pgx.Batch{}
		b.Queue("INSERT INTO commits (id, lost) VALUES ($1, true) ON CONFLICT (id) DO NOTHING", id(commit))
		b.Queue("SELECT c.lost, p.below > $2::text::xid8 FROM commits c, pruned p WHERE c.id = $1", id(commit), strconv.FormatInt(oldest, 10)).
			QueryRow(func(r pgx.Row) error { return r.Scan(&missing, &forgotten) })
		return q.SendBatch(ctx, b).Close()
	})
	switch {
	case err != nil:
		return false, err
	case missing && noted && forgotten:
		return false, core.Errorf(core.CodeUnknown, op, "what was committed at that time is no longer known")
	}
	s.mu.Lock()
	delete(s.unknown, commit)
	s.mu.Unlock()
	return !missing, nil
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
