package sqlite

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// slots is how many commits without segments the file remembers.
const slots = 256

// transaction is one commit to be: what it writes, and what memory learns once it is durable.
type transaction struct {
	op string
	id uuid.UUID
	// write runs the statements. It must not change memory.
	write func(db *database) error
	// apply changes memory after the commit, under s.mu.
	apply func(st *state)
	// firstRow is the row of the first segment, which carries the id; 0 puts the id into the commits table.
	firstRow int64
}

// commit makes a transaction durable. Without error it took place; CodeUnknown leaves it open; any other error means that
// nothing was stored. The caller holds s.writing.
func (s *Store) commit(t *transaction) error {
	if s.broken != nil {
		return s.again(t.op)
	}
	if err := s.attempt(t); err != nil {
		return classify(t.op, err)
	}
	if err := s.step("commit", "COMMIT"); err != nil {
		return s.settle(t, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits.Add(t.id)
	if t.firstRow == 0 {
		s.state.nextSlot++
	}
	t.apply(s.state)
	return nil
}

// attempt does everything up to the commit itself, and takes it back when it fails.
func (s *Store) attempt(t *transaction) error {
	if err := s.step("begin", "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := t.write(s.db)
	if err == nil && t.firstRow == 0 {
		err = s.db.exec("INSERT OR REPLACE INTO commits (slot, id) VALUES (?, ?)", s.state.nextSlot%slots, t.id[:])
	}
	if err == nil && s.fault != nil {
		err = s.fault("write")
	}
	if err == nil {
		return nil
	}
	if undo := s.db.exec("ROLLBACK"); undo != nil {
		// SQLite has rolled back by itself after some failures; reading the file again is right in every case.
		if reopened := s.reopen(); reopened != nil {
			return errors.Join(err, reopened)
		}
	}
	return err
}

// step runs a statement that has no arguments, unless a test lets it fail before or after.
func (s *Store) step(point, statement string) error {
	if s.fault != nil {
		if err := s.fault(point); err != nil {
			return err
		}
	}
	if err := s.db.exec(statement); err != nil {
		return err
	}
	if s.fault != nil {
		return s.fault("after " + point)
	}
	return nil
}

// settle finds out what became of a commit that failed: the file is closed and read again, since after a failed sync
// neither SQLite's memory nor ours can be trusted.
func (s *Store) settle(t *transaction, cause error) error {
	s.opts.Logger.Error("commit failed, the database is read again", "operation", t.op, "error", cause)
	if err := s.reopen(); err != nil {
		return core.WrapError(core.CodeUnknown, t.op, errors.Join(errors.New(cause.Error()), errors.New(err.Error())))
	}
	found, err := s.lookup(t.id, t.firstRow)
	if err != nil {
		return core.WrapError(core.CodeUnknown, t.op, errors.Join(errors.New(cause.Error()), errors.New(err.Error())))
	}
	if !found {
		return classify(t.op, cause)
	}
	s.commits.Add(t.id)
	return nil
}

// reopen closes the file and reads it again.
func (s *Store) reopen() error {
	if err := s.db.close(); err != nil {
		s.opts.Logger.Warn("database did not close cleanly", "error", err)
	}
	err := s.openAgain(context.Background())
	if err == nil {
		// What was found in the log may have been written but not synced: this writes and syncs it anew.
		err = s.db.checkpoint("TRUNCATE")
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.broken = errors.New(err.Error())
		return err
	}
	return nil
}

func (s *Store) openAgain(ctx context.Context) error {
	if s.fault != nil {
		if err := s.fault("open"); err != nil {
			return err
		}
	}
	return s.open(ctx)
}

// isBroken tells that a failed commit left the database unread. The caller holds s.writing.
func (s *Store) isBroken() bool { return s.broken != nil }

// again tries to bring a broken store back; the call that does so fails nevertheless, since it began before.
func (s *Store) again(op string) error {
	if err := s.openAgain(context.Background()); err != nil {
		return core.Errorf(core.CodeUnavailable, op, "the database cannot be read: %s", err)
	}
	return core.Errorf(core.CodeUnavailable, op, "the database was read again, try once more")
}

// lookup reports whether a commit is in the file. firstRow is the row of its first segment, 0 when it is not known.
func (s *Store) lookup(id uuid.UUID, firstRow int64) (found bool, err error) {
	const query = `SELECT EXISTS (SELECT 1 FROM commits WHERE id = ?1) OR EXISTS (SELECT 1 FROM
		(SELECT commit_id FROM segments WHERE id >= ?2 ORDER BY id DESC LIMIT 20000) WHERE commit_id = ?1)`
	s.db.inUse.RLock()
	defer s.db.inUse.RUnlock()
	err = s.db.readers.QueryRowContext(context.Background(), query, id[:], firstRow).Scan(&found)
	return found, err
}

// Outcome implements core.Ledger.
func (s *Store) Outcome(ctx context.Context, id uuid.UUID) (bool, error) {
	const op = "outcome"
	if err := s.enter(ctx, op); err != nil {
		return false, err
	}
	defer s.life.RUnlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.broken != nil {
		if err := s.openAgain(ctx); err != nil {
			return false, core.Errorf(core.CodeUnavailable, op, "the database cannot be read: %s", err)
		}
	}
	if s.commits.Has(id) {
		return true, nil
	}
	found, err := s.lookup(id, 0)
	return found, classify(op, err)
}
