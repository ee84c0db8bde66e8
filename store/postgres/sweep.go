package postgres

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/core"
)

// needsResolving is the condition of the index batches_until.
const needsResolving = "(state = 0 OR state = 1 AND redraw)"

// NextDue implements core.Sweeping. Each part is the first entry of an index.
func (s *Store) NextDue(ctx context.Context) (schedule, lease, expiry core.Time, err error) {
	const op = "next due"
	_, err = collect(ctx, s, op, func(r pgx.Rows) (bool, error) { return true, r.Scan(&schedule, &lease, &expiry) }, `SELECT coalesce((SELECT due FROM schedule ORDER BY due, seq LIMIT 1), 0),
		coalesce((SELECT until FROM batches WHERE `+needsResolving+` ORDER BY until LIMIT 1), 0),
		coalesce((SELECT expires FROM segments WHERE expires <> 0 ORDER BY expires LIMIT 1), 0)`)
	return schedule, lease, expiry, err
}

// Expired implements core.Sweeping. The rows come by their earliest time.
func (s *Store) Expired(ctx context.Context, now core.Time, limit int) ([]core.RowKey, error) {
	const op = "expired"
	return collect(ctx, s, op, scanKey, "SELECT partition, grp FROM (SELECT partition, grp, until FROM batches WHERE "+needsResolving+` AND until <= $1
		ORDER BY until OFFSET 0) b GROUP BY partition, grp ORDER BY min(until), partition, grp LIMIT $2`, int64(now), limited(limit))
}

func (s *Store) refs(ctx context.Context, op, where string, args ...any) ([]core.SegmentRef, error) {
	return collect(ctx, s, op, func(r pgx.Rows) (ref core.SegmentRef, err error) {
		err = r.Scan(&ref.Partition, &ref.First, &ref.Last, &ref.AppendedAt, &ref.Expires)
		return ref, err
	}, "SELECT partition, first, first + count - 1, appended_at, expires FROM "+where, args...)
}

// ExpiredSegments implements core.Sweeping. What has expired is looked up first and put in order then: many segments that have not expired would
// make the planner read all of them in order until it has found enough.
func (s *Store) ExpiredSegments(ctx context.Context, now core.Time, limit int) ([]core.SegmentRef, error) {
	return s.refs(ctx, "expired segments", `(SELECT partition, first, count, appended_at, expires FROM segments WHERE expires <> 0 AND expires <= $1 OFFSET 0) s
		ORDER BY partition, first LIMIT $2`, int64(now), limited(limit))
}

// Segments implements core.Sweeping.
func (s *Store) Segments(ctx context.Context, key core.PartitionKey, from int64, limit int) ([]core.SegmentRef, error) {
	return s.refs(ctx, "segments", `segments WHERE partition = $1 AND first + count > $2
		AND first >= coalesce((SELECT max(first) FROM segments WHERE partition = $1 AND first <= $2), 0) ORDER BY first LIMIT $3`,
		int64(key), from, limited(limit))
}

// DeleteSegments implements core.Sweeping. Segments that are gone already are passed over.
func (s *Store) DeleteSegments(ctx context.Context, _ core.Time, remove, expiries []core.SegmentRef) error {
	const op = "delete segments"
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	defer s.life.RUnlock()
	if len(remove)+len(expiries) == 0 {
		return nil
	}
	defer func() { s.recall.forget(refColumns(remove)[0]) }()
	return s.commit(ctx, &transaction{op: op, id: uuid.New(), run: func(_ context.Context, _ session, t *transaction) error {
		gone, kept := refColumns(remove), refColumns(expiries)
		keys := slices.Clone(gone[0])
		slices.Sort(keys)
		keys = slices.Compact(keys)
		t.changed.logs = keys
		b := t.final
		b.Queue("SELECT FROM partition_logs WHERE partition = ANY($1) ORDER BY partition FOR NO KEY UPDATE", keys)
		b.Queue(`UPDATE segments s SET expires = k.expires FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
			AS k(partition, first, last, expires) CROSS JOIN LATERAL (SELECT ctid FROM segments y WHERE y.partition = k.partition
			AND y.first = k.first OFFSET 0) AS y(place) WHERE s.ctid = y.place`, kept.args()...)
		b.Queue(`WITH gone AS (DELETE FROM segments s USING unnest($1::bigint[], $2::bigint[]) AS k(partition, first) CROSS JOIN LATERAL
			(SELECT ctid FROM segments y WHERE y.partition = k.partition AND y.first = k.first OFFSET 0) AS y(place)
			WHERE s.ctid = y.place RETURNING s.partition, s.first, s.count)
			DELETE FROM sources s USING gone g CROSS JOIN LATERAL (SELECT ctid FROM sources y WHERE y.partition = g.partition
			AND y."offset" >= g.first AND y."offset" < g.first + g.count OFFSET 0) AS y(place) WHERE s.ctid = y.place`,
			gone[0], gone[1])
		// The old start bounds the search: what was deleted long ago may still lie in the index as dead entries.
		b.Queue(`UPDATE partition_logs l SET start = coalesce(n.first, l.head + 1),
			start_messages = CASE WHEN n.first IS NULL THEN l.head_messages ELSE n.before_messages END,
			start_bytes = CASE WHEN n.first IS NULL THEN l.head_bytes ELSE n.before_bytes END,
			start_created = CASE WHEN n.first IS NULL THEN l.head_created ELSE n.before_created END
			FROM partition_logs o LEFT JOIN LATERAL (SELECT s.first, s.before_messages, s.before_bytes, s.before_created FROM segments s
				WHERE s.partition = o.partition AND s.first >= o.start ORDER BY s.first LIMIT 1) n ON true
			WHERE l.partition = o.partition AND o.partition = ANY($1) AND l.start <> coalesce(n.first, l.head + 1)`, keys)
		return nil
	}})
}

func refColumns(list []core.SegmentRef) columns {
	c := newColumns(len(list), 4)
	for i := range list {
		c.set(i, int64(list[i].Partition), list[i].First, list[i].Last, int64(list[i].Expires))
	}
	return c
}
