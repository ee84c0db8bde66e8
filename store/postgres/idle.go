package postgres

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/core"
)

// What somebody else holds is in use, so none of these waits. A partition whose log is held stays empty and gets no rows.
const (
	lockIdleLogs = `SELECT l.partition FROM unnest($1::bigint[]) AS k(partition) CROSS JOIN LATERAL (SELECT x.partition FROM partition_logs x
	WHERE x.partition = k.partition AND x.start > x.head AND x.head_at <= $2 FOR UPDATE SKIP LOCKED) l`
	lockIdleRows = `SELECT f.partition FROM unnest($1::bigint[]) AS k(partition) CROSS JOIN LATERAL (SELECT x.partition FROM frontiers x
	WHERE x.partition = k.partition FOR UPDATE SKIP LOCKED) f`
	// selectIdle reads, with all of that locked, how many rows a partition has, where nothing else is left of it.
	selectIdle = `SELECT p.key, (SELECT count(*) FROM frontiers f WHERE f.partition = p.key) FROM unnest($1::bigint[]) AS k(key)
	CROSS JOIN LATERAL (SELECT x.key FROM partitions x WHERE x.key = k.key AND x.queue = $3 AND x.created_at <= $2 OFFSET 0) p
	WHERE NOT EXISTS (SELECT FROM frontiers f WHERE f.partition = p.key AND f.moved AND f.moved_at > $2 OFFSET 0)
	AND NOT EXISTS (SELECT FROM batches b WHERE b.partition = p.key OFFSET 0)
	AND NOT EXISTS (SELECT FROM schedule s WHERE s.partition = p.key OFFSET 0)`
	selectLettered = "SELECT DISTINCT partition FROM dead_letters WHERE queue = $2 AND partition = ANY($1)"
)

// RemoveIdle implements core.Idler.
func (s *Store) RemoveIdle(ctx context.Context, p core.RemoveIdleParams) (gone []core.PartitionKey, err error) {
	const op = "remove idle partitions"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	err = s.commit(ctx, &transaction{op: op, id: uuid.New(), run: func(ctx context.Context, tx session, t *transaction) error {
		keys, err := findIdle(ctx, tx, &p)
		gone = nil
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			return errNothing
		}
		t.changed.logs, t.changed.queues = keys, []uuid.UUID{p.Queue}
		for _, table := range []string{"frontiers", "sources", "partition_logs"} {
			t.final.Queue("DELETE FROM "+table+" WHERE partition = ANY($1)", keys)
		}
		t.final.Queue("DELETE FROM partitions WHERE key = ANY($1)", keys)
		for _, key := range keys {
			gone = append(gone, core.PartitionKey(key))
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return gone, nil
}

// findIdle locks what is idle and returns its keys in order.
func findIdle(ctx context.Context, tx session, p *core.RemoveIdleParams) ([]int64, error) {
	keys := make([]int64, 0, len(p.Partitions))
	for _, key := range p.Partitions {
		keys = append(keys, int64(key))
	}
	slices.Sort(keys)
	keys, err := keysIn(ctx, tx, lockIdleLogs, slices.Compact(keys), int64(p.Since))
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	held := map[int64]int64{}
	rowsHeld, err := keysIn(ctx, tx, lockIdleRows, keys)
	if err != nil {
		return nil, err
	}
	for _, key := range rowsHeld {
		held[key]++
	}
	lettered, err := keysIn(ctx, tx, selectLettered, keys, id(p.Queue))
	if err != nil {
		return nil, err
	}
	var idle []int64
	err = rows(ctx, tx, selectIdle, func(r pgx.Rows) error {
		var key, all int64
		err := r.Scan(&key, &all)
		if all == held[key] && !slices.Contains(lettered, key) {
			idle = append(idle, key)
		}
		return err
	}, keys, int64(p.Since), id(p.Queue))
	slices.Sort(idle)
	return idle, err
}

// keysIn returns the keys of partitions that a query says.
func keysIn(ctx context.Context, tx session, query string, args ...any) ([]int64, error) {
	var out []int64
	err := rows(ctx, tx, query, func(r pgx.Rows) error {
		var key int64
		err := r.Scan(&key)
		out = append(out, key)
		return err
	}, args...)
	return nonNil(out), err
}
