package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

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

// reading runs f with a connection of the pool, again where the connection turns out to be broken: f starts afresh then.
func (s *Store) reading(ctx context.Context, op string, f func(q session) error) error {
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	defer s.life.RUnlock()
	for attempt := 1; ; attempt++ {
		begun := false
		err := s.withConn(ctx, func(conn *pgxpool.Conn) error {
			begun = true
			return f(conn)
		})
		if attempt == attempts || !begun || !broken(err) {
			return classify(op, err)
		}
	}
}

// collect runs a query and returns what scan makes of its rows.
func collect[T any](ctx context.Context, s *Store, op string, scan func(pgx.Rows) (T, error), query string, args ...any) ([]T, error) {
	var out []T
	err := s.reading(ctx, op, func(q session) error {
		out = nil
		return rows(ctx, q, query, func(r pgx.Rows) error {
			v, err := scan(r)
			out = append(out, v)
			return err
		}, args...)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
