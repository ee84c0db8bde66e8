package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/core"
)

const (
	// lookEvery is how often the store sets its clock, and finds out that a database that nobody asks has come back.
	lookEvery = 10 * time.Second
	// keepCommits is how long rows of commits stay at least: nobody looks for a commit, or follows, from longer ago.
	keepCommits = 2 * time.Minute
	// pruneEvery is how often older ones go.
	pruneEvery = 30 * time.Second
)

// sight is a transaction that no later commit comes before, and when that was so.
type sight struct {
	oldest int64
	at     core.Time
}

// keep does what has to be done from time to time, until ctx ends.
func (s *Store) keep(ctx context.Context) {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	var seen []sight
	pruned := s.mono.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		try, cancel := context.WithTimeout(ctx, lookEvery)
		err := s.lookAround(try)
		if err == nil && s.listening.Load() {
			err = s.tell(try, s.says())
		}
		cancel()
		now := s.mono.Now()
		if err != nil { // an outage is in the log; who lost a commit in it has the whole time again
			seen = nil
			continue
		}
		seen = append(seen, sight{s.oldest.Load(), now})
		if now.Sub(pruned) < pruneEvery {
			continue
		}
		pruned = now
		for len(seen) > 1 && now.Sub(seen[1].at) >= keepCommits {
			seen = seen[1:]
		}
		if now.Sub(seen[0].at) >= keepCommits {
			s.prune(ctx, seen[0].oldest)
		}
	}
}

// lookAround sets the clock and notes the oldest transaction that runs.
func (s *Store) lookAround(ctx context.Context) error {
	return s.withConn(ctx, func(conn *pgxpool.Conn) error {
		if err := s.setClock(ctx, conn); err != nil {
			return err
		}
		var oldest int64
		err := conn.QueryRow(ctx, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint").Scan(&oldest)
		if err == nil {
			s.oldest.Store(oldest)
		}
		return err
	})
}

// prune deletes the rows of commits below a transaction. One gateway at a time is enough.
func (s *Store) prune(ctx context.Context, below int64) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := s.withConn(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, `WITH mark AS (UPDATE pruned SET below = $1::bigint::text::xid8 WHERE ctid IN
			(SELECT ctid FROM pruned WHERE below < $1::bigint::text::xid8 FOR UPDATE SKIP LOCKED) RETURNING below)
			DELETE FROM commits c USING mark m WHERE c.xid < m.below`, below)
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.opts.Logger.WarnContext(ctx, "old commits were not deleted", "error", err)
	}
}
