package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"

	"github.com/leasehold/leasehold/core"
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID is what migrations/00001_init.sql writes into the header of the file.
const applicationID = 1280526404

// readers is how many connections read beside the writer.
const readers = 4

// database is an open file: one connection that writes, some that read, one that checkpoints. Statements stay prepared.
type database struct {
	path    string
	writers *sql.DB
	conn    *sql.Conn
	stmts   map[string]*sql.Stmt
	readers *sql.DB
	reads   readStatements
	checks  *sql.DB
	// inUse is held for reading by whoever reads and for writing by close.
	inUse sync.RWMutex
}

// openDatabase opens the file, made and migrated as needed. It changes nothing in a file that it refuses.
func openDatabase(ctx context.Context, path string, o *Options) (_ *database, err error) {
	if err := inspect(ctx, path); err != nil {
		return nil, err
	}
	_, _ = sqlite.Fdatasync(true) // where there is none, fsync does the same for longer
	d := &database{path: path, stmts: map[string]*sql.Stmt{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	pragmas := []string{"journal_mode(WAL)", "synchronous(FULL)", "wal_autocheckpoint(0)", "cache_size(-32768)"}
	if d.writers, err = pool(path, 1, pragmas...); err != nil {
		return nil, err
	}
	if err := migrate(ctx, d.writers); err != nil {
		return nil, err
	}
	if d.conn, err = d.writers.Conn(ctx); err != nil {
		return nil, err
	}
	if o.MaxBytes > 0 {
		if _, err := d.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", o.MaxBytes/4096)); err != nil {
			return nil, err
		}
	}
	if d.readers, err = pool(path, readers, "query_only(1)", "cache_size(-8192)"); err != nil {
		return nil, err
	}
	if d.checks, err = pool(path, 1, "wal_autocheckpoint(0)", "synchronous(FULL)"); err != nil {
		return nil, err
	}
	return d, d.reads.prepare(ctx, d.readers)
}

func pool(path string, size int, pragmas ...string) (*sql.DB, error) {
	q := url.Values{"_pragma": append([]string{"busy_timeout(10000)"}, pragmas...)}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db, nil
}

// inspect looks at an existing file without changing it.
func inspect(ctx context.Context, path string) (err error) {
	const op = "open database"
	f, err := os.OpenFile(path, os.O_RDWR, 0) // SQLite would silently open a file read-only that it may not write
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil || info.Size() == 0 {
		return err
	}
	db, err := pool(path, 1, "query_only(1)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var id, tables, version int64
	if err := db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return err
	}
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return err
	}
	if id == 0 && tables == 0 {
		return nil
	}
	if id != applicationID {
		return core.Errorf(core.CodeFormat, op, "%s is not a store of Leasehold", path)
	}
	row := db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied")
	if err := row.Scan(&version); err != nil {
		return err
	}
	if newest, err := newestMigration(); err != nil || version > newest {
		return errors.Join(err, core.Errorf(core.CodeFormat, op,
			"%s was written by a newer version: its format is %d, this build knows %d", path, version, newest))
	}
	return nil
}

func newestMigration() (int64, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return 0, err
	}
	return goose.NumericComponent(filepath.Base(names[len(names)-1]))
}

func migrate(ctx context.Context, db *sql.DB) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, sub,
		goose.WithLogger(goose.NopLogger()), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// close ends all connections. The last one to go puts the write-ahead log into the file.
func (d *database) close() error {
	d.inUse.Lock()
	defer d.inUse.Unlock()
	var errs []error
	d.reads.close()
	for _, s := range d.stmts {
		errs = append(errs, s.Close())
	}
	if d.conn != nil {
		errs = append(errs, d.conn.Close())
	}
	for _, db := range []*sql.DB{d.readers, d.checks, d.writers} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// exec runs a statement on the writing connection. Only one goroutine may write at a time.
func (d *database) exec(query string, args ...any) error {
	s, err := d.prepared(query) //nolint:sqlclosecheck // it stays prepared, close does
	if err != nil {
		return err
	}
	_, err = s.ExecContext(context.Background(), args...)
	return err
}

// returning is exec for a statement that tells of the rows it changed.
func (d *database) returning(query string, scan func(*sql.Rows) error, args ...any) error {
	s, err := d.prepared(query) //nolint:sqlclosecheck // it stays prepared, close does
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), args...)
	if err != nil {
		return err
	}
	return each(rows, scan)
}

// prepared returns a statement of the writing connection, which stays prepared.
func (d *database) prepared(query string) (*sql.Stmt, error) {
	s := d.stmts[query]
	if s == nil {
		var err error
		if s, err = d.conn.PrepareContext(context.Background(), query); err != nil {
			return nil, err
		}
		d.stmts[query] = s
	}
	return s, nil
}

// query reads on the reading connections and calls scan for each row.
func (d *database) query(query string, scan func(*sql.Rows) error, args ...any) error {
	d.inUse.RLock()
	defer d.inUse.RUnlock()
	rows, err := d.readers.QueryContext(context.Background(), query, args...)
	if err != nil {
		return err
	}
	return each(rows, scan)
}

func each(rows *sql.Rows, scan func(*sql.Rows) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
