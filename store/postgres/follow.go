package postgres

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/core"
)

// cursorMark stands in a cursor between the identity of the database and a snapshot: what is committed and was not visible
// in it is new.
const cursorMark = "/"

// news is the condition of what others committed since the snapshot $1. No commit is older than the oldest transaction that
// ran then.
const news = `c.xid >= pg_snapshot_xmin($1::pg_snapshot) AND NOT pg_visible_in_snapshot(c.xid, $1::pg_snapshot)
	AND c.gateway IS DISTINCT FROM $2 AND NOT c.lost`

// followCommits returns the next cursor with what is new, both in one snapshot. The old cursor is lost where commits that it
// needs were deleted, or its snapshot is not of the past.
const followCommits = `SELECT s.next, s.lost, s.version, c.changed_rows, c.queues FROM (SELECT pg_current_snapshot()::text AS next,
	pg_snapshot_xmin($1::pg_snapshot) < (SELECT below FROM pruned)
	OR pg_snapshot_xmax($1::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot()) AS lost, version FROM catalog) s LEFT JOIN commits c ON ` + news

// followLogs reads logs as they are now, which may be a little newer than the cursor; of partitions that are gone only the key.
const followLogs = "SELECT k.key, p.id, p.queue, p.name, p.ordinal, p.created_at, " + logColumns + `
	FROM (SELECT DISTINCT unnest(c.logs) AS key FROM commits c WHERE ` + news + `) k
	LEFT JOIN LATERAL (SELECT * FROM partitions x WHERE x.key = k.key OFFSET 0) p ON true
	LEFT JOIN LATERAL (SELECT * FROM partition_logs x WHERE x.partition = p.key OFFSET 0) l ON true`

// Follow implements core.Shared.
func (s *Store) Follow(ctx context.Context, since string) (out core.Followed, err error) {
	const op = "follow"
	err = s.reading(ctx, op, func(q session) (err error) {
		if out, err = s.follow(ctx, q, since); err == nil {
			s.recall.followed(&out)
		}
		return err
	})
	return out, err
}

func (s *Store) follow(ctx context.Context, conn session, since string) (core.Followed, error) {
	where := identity(conn)
	database, old, ok := strings.Cut(since, cursorMark)
	switch {
	case since == "" || ok && database != where:
		// The transactions of another database, or of another history, are not the ones that the cursor speaks of.
		var next string
		var catalog int64
		err := conn.QueryRow(ctx, "SELECT pg_current_snapshot()::text, version FROM catalog").Scan(&next, &catalog)
		return core.Followed{Next: where + cursorMark + next, Lost: since != "", Catalog: catalog}, err
	case !ok:
		return core.Followed{}, core.Errorf(core.CodeInvalid, "follow", "%q is not a cursor", since)
	}
	f := followed{groups: map[core.RowKey]bool{}, queues: map[uuid.UUID]bool{}}
	b := &pgx.Batch{}
	b.Queue(followCommits, old, id(s.gateway)).Query(func(r pgx.Rows) error { return each(r, f.commit) })
	b.Queue(followLogs, old, id(s.gateway)).Query(func(r pgx.Rows) error { return each(r, f.log) })
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return core.Followed{}, err
	}
	f.out.Next = where + cursorMark + f.out.Next
	if f.out.Lost {
		return core.Followed{Next: f.out.Next, Lost: true, Catalog: f.out.Catalog}, nil
	}
	return f.out, nil
}

// followed gathers an answer; what several commits changed is named once.
type followed struct {
	out    core.Followed
	groups map[core.RowKey]bool
	queues map[uuid.UUID]bool
}

func (f *followed) commit(r pgx.Rows) error {
	var rows []byte
	var queues [][16]byte
	if err := r.Scan(&f.out.Next, &f.out.Lost, &f.out.Catalog, &rows, &queues); err != nil {
		return err
	}
	keys, err := decodeRows(rows)
	for _, k := range keys {
		if !f.groups[k] {
			f.groups[k] = true
			f.out.Rows = append(f.out.Rows, k)
		}
	}
	for _, q := range queues {
		if !f.queues[q] {
			f.queues[q] = true
			f.out.Queues = append(f.out.Queues, q)
		}
	}
	return err
}

func (f *followed) log(r pgx.Rows) error {
	if values := r.RawValues(); values[1] == nil {
		key, to := core.PartitionKey(0), make([]any, len(values)) // what is nil there is passed over
		to[0] = &key
		err := r.Scan(to...)
		f.out.Gone = append(f.out.Gone, key)
		return err
	}
	p, err := scanPartition(r)
	f.out.Logs = append(f.out.Logs, p)
	return err
}

// Leased implements core.Shared.
func (s *Store) Leased(ctx context.Context, lease uuid.UUID) ([]core.RowKey, error) {
	return collect(ctx, s, "leased", scanKey, selectLeased, id(lease))
}

const selectLeased = "SELECT partition, grp FROM batches WHERE lease = $1 AND state < 1 AND exclusive"

func scanKey(r pgx.Rows) (key core.RowKey, err error) {
	var group []byte
	err = r.Scan(&key.Partition, &group)
	key.Group = string(group)
	return key, err
}
