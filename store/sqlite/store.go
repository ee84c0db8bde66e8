// Package sqlite is the embedded store: core.Store over one SQLite file in a directory that one server owns.
//
// Segments lie in an append-only table and are found by row id; where a partition's segments lie is kept in memory (see
// index.go) and written behind. Delivery state is in memory, read on first touch, with its rows written in the commit that
// changes it. One connection writes, under Store.writing; memory changes under Store.mu after the commit.
package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/internal/recent"
)

// Options configure a Store. The zero value of each field means its default.
type Options struct {
	// Logger receives the store's log; default discards.
	Logger *slog.Logger
	// MaxBytes bounds the database file, write-ahead log aside; 0 is no bound. Beyond it writes fail with CodeFull.
	MaxBytes int64
	// CacheBytes bounds the memory for recently appended and read segments; default 64 MiB.
	CacheBytes int64
}

// Store implements core.Store over a SQLite file.
type Store struct {
	opts Options
	dir  string
	lock *os.File

	// life is held for reading by every call and for writing by Close.
	life   sync.RWMutex
	closed bool

	// writing is held by whoever writes to the database.
	writing sync.Mutex
	fault   func(point string) error // tests make commits fail with it

	// mu guards the fields below: writers change them while they hold writing too.
	mu    sync.RWMutex
	db    *database
	state *state
	// broken is why the database could not be read again after a failed commit; nil when all is well.
	broken error

	commits recent.Commits
	behind  behind
}

var (
	_ core.Store        = (*Store)(nil)
	_ core.RecordLister = (*Store)(nil)
)

// Open opens the store in a directory, which is made when it is missing. A directory that another server uses is
// CodeLocked; one that a newer version wrote, or that is damaged, CodeFormat; one that cannot be written CodeReadOnly.
func Open(ctx context.Context, dir string, o Options) (_ *Store, err error) {
	const op = "open store"
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, classify(op, err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, classify(op, err)
	}
	s := &Store{opts: o, dir: dir}
	if s.lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, classify(op, err)
	}
	if err := lockFile(s.lock); err != nil {
		return nil, errors.Join(core.Errorf(core.CodeLocked, op, "another server is using %s", dir), s.lock.Close())
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(classify(op, err), unlockFile(s.lock), s.lock.Close())
	}
	s.behind.start(s)
	return s, nil
}

// open opens the database and reads what memory holds of it.
func (s *Store) open(ctx context.Context) error {
	db, err := openDatabase(ctx, filepath.Join(s.dir, "leasehold.db"), &s.opts)
	if err != nil {
		return err
	}
	st, err := load(db, s.opts.CacheBytes)
	if err != nil {
		return errors.Join(err, db.close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db, s.state, s.broken = db, st, nil
	return nil
}

// Close implements core.Store.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.behind.stop()
	var errs []error
	if s.broken == nil {
		if err := s.writeIndex(); err != nil {
			s.opts.Logger.Warn("segment index was not written at close, the next start takes longer", "error", err)
		}
		errs = append(errs, s.db.close())
	}
	return classify("close store", errors.Join(append(errs, unlockFile(s.lock), s.lock.Close())...))
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

// enterWriting begins a call that may change the store: one at a time, and none on a database that a failed commit left unread. The
// caller ends it with leaveWriting when there is no error.
func (s *Store) enterWriting(ctx context.Context, op string) error {
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	s.writing.Lock()
	if s.broken == nil {
		return nil
	}
	defer s.leaveWriting()
	return s.again(op)
}

func (s *Store) leaveWriting() {
	s.writing.Unlock()
	s.life.RUnlock()
}

// view returns the database and its memory for reading; the caller holds mu for as long as it uses the memory.
func (s *Store) view(op string) (*database, *state, error) {
	if s.broken != nil {
		return nil, nil, core.WrapError(core.CodeUnavailable, op, s.broken)
	}
	return s.db, s.state, nil
}
