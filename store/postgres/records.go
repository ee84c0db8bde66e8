package postgres

import (
	"bytes"
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/core"
)

// Record implements core.Records.
func (s *Store) Record(ctx context.Context, kind, name string) ([]byte, error) {
	const op = "record"
	found, err := collect(ctx, s, op, func(r pgx.Rows) (value []byte, err error) {
		err = r.Scan(&value)
		return value, err
	}, "SELECT value FROM records WHERE kind = $1 AND name = $2", []byte(kind), []byte(name))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// PutRecord implements core.Records.
func (s *Store) PutRecord(ctx context.Context, kind, name string, old, value []byte) error {
	const op = "put record"
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	defer s.life.RUnlock()
	conflict := core.Errorf(core.CodeConflict, op, "the record is not what the caller knows")
	return s.commit(ctx, &transaction{op: op, id: uuid.New(), run: func(ctx context.Context, tx session, _ *transaction) error {
		var have []byte
		err := tx.QueryRow(ctx, "SELECT value FROM records WHERE kind = $1 AND name = $2 FOR UPDATE", []byte(kind), []byte(name)).Scan(&have)
		found := !errors.Is(err, pgx.ErrNoRows)
		if found && err != nil {
			return err
		}
		switch {
		case found != (old != nil) || !bytes.Equal(have, old):
			return conflict
		case value == nil:
			_, err = tx.Exec(ctx, "DELETE FROM records WHERE kind = $1 AND name = $2", []byte(kind), []byte(name))
		case found:
			_, err = tx.Exec(ctx, "UPDATE records SET value = $3, at = 0 WHERE kind = $1 AND name = $2", []byte(kind), []byte(name), value)
		default: // somebody else may make it at the same time: then the insert fails, which is a conflict
			_, err = tx.Exec(ctx, "INSERT INTO records (kind, name, value, at) VALUES ($1, $2, $3, 0)", []byte(kind), []byte(name), value)
		}
		return err
	}})
}

// ListRecords implements core.RecordLister.
func (s *Store) ListRecords(ctx context.Context, p core.ListRecordsParams) ([]core.Record, error) {
	const op = "list records"
	query := `SELECT name, value, at FROM records WHERE kind = $1 AND name >= $2 AND ($3::bytea IS NULL OR name < $3)
		AND ($4::bytea = '' OR name > $4) ORDER BY name LIMIT $5`
	if p.Reverse {
		query = `SELECT name, value, at FROM records WHERE kind = $1 AND name >= $2 AND ($3::bytea IS NULL OR name < $3)
			AND ($4::bytea = '' OR name < $4) ORDER BY name DESC LIMIT $5`
	}
	return collect(ctx, s, op, func(r pgx.Rows) (core.Record, error) {
		rec := core.Record{Kind: p.Kind}
		var name []byte
		err := r.Scan(&name, &rec.Value, &rec.At)
		rec.Name = string(name)
		return rec, err
	}, query, []byte(p.Kind), []byte(p.Prefix), after(p.Prefix), []byte(p.After), limited(p.Limit))
}

// after returns the first name that is behind all with a prefix, nil when every name is.
func after(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] != 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}

// limited turns a limit of which 0 is none into what SQL understands.
func limited(n int) *int64 {
	if n <= 0 {
		return nil
	}
	l := int64(n)
	return &l
}
