package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/internal/placing"
)

// A gateway that remembers what a commit builds on sends it in one round trip, with what it remembers as a condition. Where the condition
// does not hold, the database refuses the whole, and the commit is made again with what is read under locks.

// stateNotNull and stateLockTimeout are how the database refuses: a commit's row without an id, and a row that another gateway holds.
const stateNotNull, stateLockTimeout = "23502", "55P03"

// patience is how long such a commit waits for a row, in milliseconds: by the other way claims pass over what others hold.
const patience = "SET LOCAL lock_timeout = 50"

// guardedRows writes frontiers on the versions that are remembered, and the row of the commit. It is refused when one of them has changed,
// when a row that was only looked at has ($12 to $14), when a segment is gone ($15 and $16), or when queues or groups have changed.
const guardedRows = `WITH w AS (UPDATE frontiers f SET moved = x.moved, "offset" = x.o, retries = x.r, last_turn = x.t, next_batch = x.n, before_messages = x.bm,
	before_bytes = x.bb, before_created = x.bc, moved_at = x.at FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
	$5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[], $11::boolean[], $12::int[])
	AS x(o, r, t, n, bm, bb, bc, at, partition, grp, moved, version) CROSS JOIN LATERAL
	(SELECT ctid FROM frontiers y WHERE y.partition = x.partition AND y.grp = x.grp AND y.xmin = x.version OFFSET 0) AS y(place)
	WHERE f.ctid = y.place RETURNING 1)
	INSERT INTO commits (id, gateway, changed_rows) SELECT CASE WHEN (SELECT count(*) FROM w) = cardinality($9::bigint[])
	AND NOT EXISTS (SELECT FROM unnest($13::bigint[], $14::bytea[], $15::int[]) AS x(partition, grp, version) WHERE NOT EXISTS
		(SELECT FROM frontiers y WHERE y.partition = x.partition AND y.grp = x.grp AND y.xmin = x.version OFFSET 0))
	AND NOT EXISTS (SELECT FROM unnest($16::bigint[], $17::bigint[]) AS x(partition, first) WHERE NOT EXISTS
		(SELECT FROM segments y WHERE y.partition = x.partition AND y.first = x.first OFFSET 0))
	AND (SELECT version FROM catalog) = $18 THEN $19::uuid END, $20::uuid, $21::bytea RETURNING pg_current_xact_id()::text::bigint`

// guardedLogs appends to logs on the heads that are remembered, or were read under locks.
const guardedLogs = `WITH s AS (` + insertSegments + `),
	l AS (UPDATE partition_logs l SET head = x.head, head_at = x.head_at, head_messages = x.hm, head_bytes = x.hb, head_created = x.hc
	FROM unnest($13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[])
	AS x(partition, known, head, head_at, hm, hb, hc) CROSS JOIN LATERAL
	(SELECT ctid FROM partition_logs y WHERE y.partition = x.partition AND y.head = x.known OFFSET 0) AS y(place) WHERE l.ctid = y.place RETURNING 1)
	INSERT INTO commits (id, gateway, logs) SELECT CASE WHEN (SELECT count(*) FROM l) = cardinality($13::bigint[])
	AND ($20::bigint IS NULL OR (SELECT version FROM catalog) = $20) THEN $21::uuid END, $22::uuid, $13::bigint[]`

// withoutID reports whether the row of a commit was left without an id, since what the commit builds on is not so.
func withoutID(e *pgconn.PgError) bool { return e.Code == stateNotNull && e.TableName == "commits" }

// refusedBy reports whether an error is how the database says that something is not as it was remembered.
func refusedBy(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return false
	}
	return withoutID(e) || e.Code == stateLockTimeout || again(err)
}

// commitRecalled sends a commit that builds on what is remembered of one database. Its errors are errRecall, by which nothing was stored;
// CodeUnknown; or any other, by which nothing was stored either.
func (s *Store) commitRecalled(ctx context.Context, op string, commit uuid.UUID, history string, send func(ctx context.Context, conn *pgxpool.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	oldest := s.oldest.Load()
	sent := false
	err := s.withConn(ctx, func(conn *pgxpool.Conn) error {
		if !s.recall.is(history) || identity(conn) != history {
			return refusal{errRecall}
		}
		for _, point := range []string{"write", "commit"} {
			if err := s.at(point); err != nil {
				return core.WrapError(core.CodeUnavailable, op, err)
			}
		}
		sent = true
		err := send(ctx, conn)
		if err == nil {
			err = s.at("after commit")
		}
		if refusedBy(err) {
			return refusal{errRecall}
		}
		if err != nil && lost(err) && !pgconn.SafeToRetry(err) {
			return core.WrapError(core.CodeUnknown, op, errors.New(err.Error()))
		}
		return err
	})
	switch {
	case err == nil:
		s.committed()
		return nil
	case errors.Is(err, errRecall):
		return errRecall
	case core.CodeOf(err) == core.CodeUnknown:
		s.recall.doubt()
		s.mu.Lock()
		s.unknown[commit] = oldest
		s.mu.Unlock()
		return err
	case !sent, broken(err), pgconn.SafeToRetry(err):
		return errRecall // the other way tries again for longer
	default:
		return classify(op, err)
	}
}

// updateRecalled makes an update that builds on what is remembered; errRecall where that does not do.
func (s *Store) updateRecalled(ctx context.Context, p *core.UpdateParams, requests []core.RowRequest, fn func(core.Tx) (*core.ChangeSet, error)) error {
	if len(requests) == 0 {
		return errRecall
	}
	r, ok := s.recall.recallRows(requests, p.Now)
	if !ok {
		return errRecall
	}
	r.s, r.claims, r.seen = s, map[core.PartitionKey]bool{}, map[[2]int64]bool{}
	for i := range requests {
		if requests[i].Due > 0 {
			r.claims[requests[i].Key.Partition] = true
		}
	}
	c, err := fn(r)
	if err != nil || !r.fits(c) {
		return errRecall
	}
	u := &update{s: s, now: p.Now, rows: r.rows, asked: map[core.RowKey]bool{}}
	for key := range r.rows {
		u.asked[key] = true
	}
	changes, err := u.compose(c)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue(patience)
	var xid int64
	b.Queue(guardedRows, r.guard(changes, p.Commit, s.gateway)...).QueryRow(func(row pgx.Row) error { return row.Scan(&xid) })
	queueRemovals(b, c)
	queueBatches(b, changes, r.exist)
	b.Queue("COMMIT")
	err = s.commitRecalled(ctx, "update", p.Commit, r.history, func(ctx context.Context, conn *pgxpool.Conn) error {
		return sendClosing(ctx, conn, b)
	})
	switch {
	case err == nil:
		s.recall.wrote(r, changes, uint32(xid)) //nolint:gosec // rows are stamped with the low half
	case errors.Is(err, errRecall):
		s.recall.refuse(requests, nil)
	}
	return err
}

// sendClosing sends a whole transaction. After an error the connection is left outside of it.
func sendClosing(ctx context.Context, conn *pgxpool.Conn, b *pgx.Batch) error {
	err := conn.SendBatch(ctx, b).Close()
	if err != nil && !conn.Conn().IsClosed() && conn.Conn().PgConn().TxStatus() != 'I' {
		_, _ = conn.Exec(ctx, "ROLLBACK") // where it fails, the connection is closed when it is released
	}
	return err
}

// exist reports whether a batch of a row is among those that are stored.
func (r *recalled) exist(key core.RowKey, id int64) bool {
	return slices.ContainsFunc(r.known[key].batches, func(b core.Batch) bool { return b.ID == id })
}

// guard returns the arguments of guardedRows.
func (r *recalled) guard(changes []*rowChange, commit, gateway uuid.UUID) []any {
	written := make(map[core.RowKey]bool, len(changes))
	changed := make([]core.RowKey, len(changes))
	versions := make([]int32, len(changes))
	for i, ch := range changes {
		known := r.known[ch.key]
		if !ch.move {
			ch.move, ch.frontier, ch.still = known.exists, known.frontier, true
		}
		written[ch.key], changed[i], versions[i] = true, ch.key, int32(known.version) //nolint:gosec // the same bits
	}
	var looked keys
	lookedVersions := []int32{}
	for key, known := range r.known {
		if !written[key] {
			looked.add(key)
			lookedVersions = append(lookedVersions, int32(known.version)) //nolint:gosec // the same bits
		}
	}
	segments := newColumns(len(r.seen), 2)
	i := 0
	for key := range r.seen {
		segments.set(i, key[0], key[1])
		i++
	}
	return append(frontierArgs(changes), versions, nonNil(looked.partitions), nonNil(looked.groups), lookedVersions, segments[0], segments[1], r.catalog,
		id(commit), id(gateway), encodeRows(changed))
}

// wrote remembers rows as a commit left them.
func (m *recollection) wrote(r *recalled, changes []*rowChange, version uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.history != r.history {
		return
	}
	for _, ch := range changes {
		known := r.known[ch.key]
		m.keepRow(ch.key, recalledRow{version: version, exists: ch.move, frontier: ch.frontier, batches: ch.apply(known.batches)}, known.version)
	}
}

// apply returns a row's batches after a change, by first offset.
func (r *rowChange) apply(to []core.Batch) []core.Batch {
	out := make([]core.Batch, 0, len(to)+len(r.puts))
	for i := range to {
		if _, put := r.puts[to[i].ID]; !put && !r.clear && !r.deletes[to[i].ID] {
			out = append(out, to[i])
		}
	}
	for _, b := range r.puts {
		out = append(out, b)
	}
	slices.SortFunc(out, compareBatches)
	return out
}

// appendRecalled appends on the heads that are remembered; errRecall where that does not do.
func (s *Store) appendRecalled(ctx context.Context, p *core.AppendParams) ([]core.Placed, error) {
	for i := range p.Segments {
		if len(p.Segments[i].Sources) > 0 {
			return nil, errRecall
		}
	}
	found, history, ok := s.recall.recallLogs(p.Segments)
	if !ok || len(placing.Gaps(p.Segments, found.of)) > 0 {
		return nil, errRecall
	}
	out, _ := placing.Admit(p.Segments, found.of)
	for i := range out {
		if out[i].First == 0 {
			return nil, errRecall
		}
	}
	plan := placing.New(p.Now, p.Segments, out, found.of, nil)
	args := s.guardedArgs(p, plan, found)
	err := s.commitRecalled(ctx, "append", p.Commit, history, func(ctx context.Context, conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, guardedLogs, args...)
		return err
	})
	if errors.Is(err, errRecall) {
		s.recall.refuse(nil, p.Segments)
	}
	if err != nil {
		return nil, err
	}
	s.keepPlanned(plan, found)
	s.cache.appended(plan)
	return out, nil
}

// guardedArgs returns the arguments of guardedLogs; before are the logs on which a plan builds.
func (s *Store) guardedArgs(p *core.AppendParams, plan *placing.Plan, before logs) []any {
	after := planned(plan)
	c := newColumns(len(after), 7)
	for i, key := range after {
		l := &plan.Logs[core.PartitionKey(key)].State
		c.set(i, key, before[core.PartitionKey(key)].Head, l.Head, int64(l.HeadAt), l.HeadTotals.Messages, l.HeadTotals.Bytes, l.HeadTotals.Created)
	}
	var catalog *int64
	if p.CheckCatalog {
		catalog = &p.Catalog
	}
	return append(append(segmentArgs(plan), c.args()...), catalog, id(p.Commit), id(s.gateway))
}

// keepPlanned remembers the logs that a commit appended to.
func (s *Store) keepPlanned(plan *placing.Plan, before logs) {
	after := make(logs, len(plan.Logs))
	for key, l := range plan.Logs {
		after[key] = l.State
	}
	s.keepLogs(after, before)
}
