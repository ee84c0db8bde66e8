package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// database is the PostgreSQL below the servers that are measured. A nil database is that of
// the embedded store, which has none.
type database struct {
	conn   *pgx.Conn
	schema string // of the servers that use it, made by them and dropped by close
	// postmaster is the process that all others of the database belong to; nil if it runs elsewhere.
	postmaster *process
}

// openDatabase connects; a store that is no PostgreSQL has no database.
func openDatabase(ctx context.Context, store, schema string) (*database, error) {
	if !strings.HasPrefix(store, "postgres://") && !strings.HasPrefix(store, "postgresql://") {
		return nil, nil //nolint:nilnil // see database
	}
	cfg, err := pgx.ParseConfig(store)
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	delete(cfg.RuntimeParams, "schema") // the gateway's own
	db := &database{schema: schema}
	if db.conn, err = pgx.ConnectConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	db.postmaster = postmasterOf(int(db.conn.PgConn().PID()))
	_, err = db.conn.Exec(ctx, "DROP TABLE IF EXISTS "+db.floor()+"; CREATE TABLE "+db.floor()+" (data text)")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--store: %w", err), db.conn.Close(ctx))
	}
	return db, nil
}

// floor is the table of the durability floor.
func (db *database) floor() string { return pgx.Identifier{db.schema + "_floor"}.Sanitize() }

// close drops what the measurement left.
func (db *database) close(ctx context.Context) error {
	if db == nil {
		return nil
	}
	_, err := db.conn.Exec(ctx, "DROP TABLE IF EXISTS "+db.floor())
	if err == nil {
		_, err = db.conn.Exec(ctx, "SET client_min_messages = warning; DROP SCHEMA IF EXISTS "+pgx.Identifier{db.schema}.Sanitize()+" CASCADE")
	}
	return errors.Join(err, db.conn.Close(ctx))
}

// commit copies lines into the floor's table, durably.
func (db *database) commit(lines []byte) error {
	_, err := db.conn.PgConn().CopyFrom(context.Background(), bytes.NewReader(lines), "COPY "+db.floor()+" FROM STDIN")
	return err
}

// empty forgets what was committed.
func (db *database) empty() error {
	_, err := db.conn.Exec(context.Background(), "TRUNCATE "+db.floor())
	return err
}

// cpu is what all processes of the database have used, 0 where that is not known.
func (db *database) cpu() time.Duration {
	if db == nil || db.postmaster == nil {
		return 0
	}
	own, ok := cpuTime(db.postmaster.pid)
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", db.postmaster.pid))
	if err != nil || !ok {
		return 0
	}
	own += ended(db.postmaster.pid)
	for _, s := range bytes.Fields(children) {
		pid, err := strconv.Atoi(string(s))
		if err != nil {
			continue
		}
		if used, ok := cpuTime(pid); ok {
			own += used
		}
	}
	return own
}

// postmasterOf is the parent of a backend, if both are processes of PostgreSQL on this machine.
func postmasterOf(backend int) *process {
	stat := statOf(backend)
	if len(stat) < 2 || !isPostgres(backend) {
		return nil
	}
	parent, err := strconv.Atoi(stat[1])
	if err != nil || !isPostgres(parent) {
		return nil
	}
	return &process{pid: parent}
}

func isPostgres(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && (strings.HasPrefix(string(name), "postgres") || strings.HasPrefix(string(name), "postmaster"))
}

// statOf are the fields of /proc/PID/stat after the name: the state, the parent and so on.
func statOf(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// ended is what children of a process used that have ended, to a hundredth of a second.
func ended(pid int) time.Duration {
	const user, system, perSecond = 13, 14, 100 // fields 16 and 17 of the file
	stat := statOf(pid)
	if len(stat) <= system {
		return 0
	}
	a, _ := strconv.Atoi(stat[user])
	b, _ := strconv.Atoi(stat[system])
	return time.Duration(a+b) * time.Second / perSecond
}
