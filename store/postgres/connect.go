package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/core"
)

// connectTimeout bounds the attempt to reach one host, unless the URL says otherwise.
const connectTimeout = 5 * time.Second

// plans are settings that make every statement look up what it wants by an index, once and for all. Otherwise the plan would
// depend on what the statistics of a moment say of tables that are empty now and hold millions of rows a minute later.
var plans = map[string]string{
	"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
	"enable_material": "off", "enable_incremental_sort": "off", "jit": "off", "max_parallel_workers_per_gather": "0",
}

// poolConfig reads a URL. The schema may be named in its query.
func poolConfig(url string, o *Options) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The text of the error may hold the URL, and that a password.
		return nil, core.Errorf(core.CodeInvalid, "open store", "the address of the database cannot be understood")
	}
	c := cfg.ConnConfig
	if name := c.RuntimeParams["schema"]; name != "" {
		o.Schema = name
		delete(c.RuntimeParams, "schema")
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	cfg.MaxConns = o.MaxConns
	c.RuntimeParams["search_path"] = pgx.Identifier{o.Schema}.Sanitize()
	c.RuntimeParams["application_name"] = "leasehold"
	// A gateway that hangs must not hold its locks for ever.
	c.RuntimeParams["idle_in_transaction_session_timeout"] = "30000"
	for name, value := range plans {
		c.RuntimeParams[name] = value
	}
	if o.tracer != nil {
		c.Tracer = o.tracer
	}
	theirs := c.ValidateConnect
	c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if theirs != nil {
			if err := theirs(ctx, conn); err != nil {
				return err
			}
		}
		return validate(ctx, conn)
	}
	return cfg, nil
}

// identityKey is where a connection keeps which history of which database it writes.
const identityKey = "leasehold identity"

// validate refuses a server that cannot be written, so that the next host is tried, and keeps which cluster and timeline it
// is: both stay as they are as long as a connection to a server that can be written.
func validate(ctx context.Context, conn *pgconn.PgConn) error {
	results, err := conn.Exec(ctx, `SELECT current_setting('transaction_read_only'), CASE WHEN pg_is_in_recovery() THEN '' ELSE
		(SELECT system_identifier FROM pg_control_system()) || '.' || left(pg_walfile_name(pg_current_wal_lsn()), 8) END`).ReadAll()
	if err != nil {
		return err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return core.Errorf(core.CodeUnavailable, "connect", "the server does not say what it is")
	}
	row := results[0].Rows[0]
	if string(row[0]) == "on" || len(row[1]) == 0 {
		return core.Errorf(core.CodeUnavailable, "connect", "the server is read-only")
	}
	conn.CustomData()[identityKey] = string(row[1])
	return nil
}

func identity(conn session) string {
	name, _ := conn.Conn().PgConn().CustomData()[identityKey].(string)
	return name
}

// withConn runs f with a connection of the pool. Where its server can no longer be written, all connections are made again, so
// that the next ones go to where it can.
func (s *Store) withConn(ctx context.Context, f func(conn *pgxpool.Conn) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err == nil {
		s.cache.from(identity(conn))
		s.recall.from(identity(conn))
		defer conn.Release() // closes the connection when it is still inside a transaction
		if err = f(conn); stateOf(err) == stateReadOnly || strings.HasPrefix(stateOf(err), classIntervention+"P") {
			_ = conn.Conn().Close(context.WithoutCancel(ctx)) // it is of no use any more
			s.pool.Reset()
		}
	}
	if ours(err) {
		s.outage.observe(nil)
	} else {
		s.outage.observe(err)
	}
	return err
}
