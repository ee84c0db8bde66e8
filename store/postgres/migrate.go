package postgres

import (
	"context"
	"embed"
	"errors"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/leasehold/leasehold/core"
)

//go:embed migrations/*.sql
var migrations embed.FS

// oldest is the oldest server that the store's statements run on.
const oldest = 140_000

// migrate brings the schema to what this build knows. Gateways that start together take turns.
func migrate(ctx context.Context, cfg *pgx.ConnConfig, schema string) (err error) {
	const op = "migrate"
	db := stdlib.OpenDB(*cfg)
	defer func() { err = errors.Join(err, db.Close()) }()
	var server int
	if err := db.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int").Scan(&server); err != nil {
		return err
	}
	if server < oldest {
		return core.Errorf(core.CodeFormat, op, "PostgreSQL 14 or newer is needed, the server is %d", server/10_000)
	}
	if err := makeSchema(ctx, cfg, schema); err != nil {
		return err
	}
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 120))
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, sub, goose.WithSessionLocker(locker),
		goose.WithLogger(goose.NopLogger()), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return err
	}
	current, known, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if current > known {
		return core.Errorf(core.CodeFormat, op, "the schema was migrated by a newer version: its format is %d, this build knows %d", current, known)
	}
	return nil
}

// schemaLock is the advisory lock under which schemas are made: two at once fail in PostgreSQL's catalog.
const schemaLock = 0x4c534844

func makeSchema(ctx context.Context, cfg *pgx.ConnConfig, schema string) (err error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", schemaLock); err != nil {
			return err
		}
		var exists bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema).Scan(&exists); err != nil || exists {
			return err
		}
		_, err := tx.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{schema}.Sanitize())
		return err
	})
}
