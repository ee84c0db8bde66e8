package sqlite

import (
	"bytes"
	"context"
	"database/sql"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// Record implements core.Records.
func (s *Store) Record(ctx context.Context, kind, name string) ([]byte, error) {
	const op = "record"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	db, err := s.reading(op)
	if err != nil {
		return nil, err
	}
	value, err := db.record(kind, name)
	return value, classify(op, err)
}

func (d *database) record(kind, name string) (value []byte, err error) {
	err = d.query("SELECT value FROM records WHERE kind = ? AND name = ?", func(r *sql.Rows) error {
		err := r.Scan(&value)
		if value == nil {
			value = []byte{}
		}
		return err
	}, []byte(kind), []byte(name))
	return value, err
}

// PutRecord implements core.Records.
func (s *Store) PutRecord(ctx context.Context, kind, name string, old, value []byte) error {
	const op = "put record"
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	defer s.life.RUnlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.broken != nil {
		return s.again(op)
	}
	have, err := s.db.record(kind, name)
	if err != nil {
		return classify(op, err)
	}
	if (have == nil) != (old == nil) || !bytes.Equal(have, old) {
		return core.Errorf(core.CodeConflict, op, "the record is not what the caller knows")
	}
	return s.commit(&transaction{
		op: op, id: uuid.New(),
		write: func(db *database) error {
			if value == nil {
				return db.exec("DELETE FROM records WHERE kind = ? AND name = ?", []byte(kind), []byte(name))
			}
			return db.exec("INSERT OR REPLACE INTO records (kind, name, value) VALUES (?, ?, ?)", []byte(kind), []byte(name), value)
		},
		apply: func(*state) {},
	})
}
