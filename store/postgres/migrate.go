package postgres

import (
	"context"
	"embed"
	"errors"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

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
		return core.Errorf(core.CodeUnavailable, op, "PostgreSQL 14 or newer is needed, the server is %d", server/10_000)
	}
	unlock, err := lockSchema(ctx, cfg, schema)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, sub, goose.WithLogger(goose.NopLogger()),
		goose.WithDisableGlobalRegistry(true))
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

// lockSchema makes the schema where it is missing and keeps other gateways from migrating it until unlock.
func lockSchema(ctx context.Context, cfg *pgx.ConnConfig, schema string) (unlock func() error, err error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	unlock = func() error { return conn.Close(context.WithoutCancel(ctx)) } // the lock ends with the connection
	defer func() {
		if err != nil {
			err = errors.Join(err, unlock())
		}
	}()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended('leasehold ' || $1, 0))", schema); err != nil {
		return nil, err
	}
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema).Scan(&exists); err != nil || exists {
		return unlock, err
	}
	_, err = conn.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{schema}.Sanitize())
	return unlock, err
}
