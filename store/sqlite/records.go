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
	if err := s.enterWriting(ctx, op); err != nil {
		return err
	}
	defer s.leaveWriting()
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
			return writeRecord(db, &core.Record{Kind: kind, Name: name, Value: value})
		},
		apply: func(*state) {},
	})
}

func writeRecord(db *database, r *core.Record) error {
	if r.Value == nil {
		return db.exec("DELETE FROM records WHERE kind = ? AND name = ?", []byte(r.Kind), []byte(r.Name))
	}
	return db.exec("INSERT OR REPLACE INTO records (kind, name, value, at) VALUES (?, ?, ?, ?)",
		[]byte(r.Kind), []byte(r.Name), r.Value, int64(r.At))
}

// ListRecords implements core.RecordLister.
func (s *Store) ListRecords(ctx context.Context, p core.ListRecordsParams) ([]core.Record, error) {
	const op = "list records"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	db, err := s.reading(op)
	if err != nil {
		return nil, err
	}
	where, args := " WHERE kind = ? AND name >= ?", []any{[]byte(p.Kind), []byte(p.Prefix)}
	if end := after(p.Prefix); end != nil {
		where, args = where+" AND name < ?", append(args, end)
	}
	order := " ORDER BY name"
	if p.Reverse {
		order = " ORDER BY name DESC"
	}
	switch {
	case p.After != "" && p.Reverse:
		where, args = where+" AND name < ?", append(args, []byte(p.After))
	case p.After != "":
		where, args = where+" AND name > ?", append(args, []byte(p.After))
	}
	var out []core.Record
	err = db.query("SELECT name, value, at FROM records"+where+order+" LIMIT ?", func(r *sql.Rows) error {
		rec := core.Record{Kind: p.Kind}
		var name sql.RawBytes
		err := r.Scan(&name, &rec.Value, &rec.At)
		if rec.Value == nil {
			rec.Value = []byte{}
		}
		rec.Name = string(name)
		out = append(out, rec)
		return err
	}, append(args, limited(p.Limit))...)
	return out, classify(op, err)
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
