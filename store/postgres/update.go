package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/internal/placing"
)

// errMoved tells that a head was not what fn knew.
var errMoved = errors.New("a head moved")

// Update implements core.Ledger. When a head moved, fn runs again with the logs locked, so that it does not move twice.
func (s *Store) Update(ctx context.Context, p core.UpdateParams, fn func(core.Tx) (*core.ChangeSet, error)) (out []core.Placed, err error) {
	const op = "update"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	requests := mergeRequests(p.Rows)
	var lockFirst []int64
	var refused error
	var u *update
	t := &transaction{op: op, id: p.Commit, now: p.Now}
	t.start = func(b *pgx.Batch) {
		u = &update{now: p.Now}
		u.queueLocks(b, requests)
		u.queueReads(b, requests)
	}
	t.run = func(ctx context.Context, tx session, t *transaction) error {
		u.tx, u.ctx = tx, ctx
		if err := u.load(requests, lockFirst); err != nil {
			return err
		}
		c, err := fn(u)
		if err != nil {
			refused = err
			return errNothing
		}
		refused = nil
		if c.Empty() {
			return errNothing
		}
		out, err = u.write(c, t.final)
		if core.CodeOf(err) == core.CodeConflict && core.ItemOf(err) >= 0 && lockFirst == nil {
			lockFirst = keysOf(c.Segments)
			return errMoved
		}
		t.changed = u.changed(c)
		return err
	}
	if err = s.commit(ctx, t); errors.Is(err, errMoved) {
		err = s.commit(ctx, t)
	}
	if refused != nil {
		err = refused
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// mergeRequests makes one request of several for the same row, and sorts them by key: the order of all locks.
func mergeRequests(list []core.RowRequest) []core.RowRequest {
	at := make(map[core.RowKey]int, len(list))
	out := make([]core.RowRequest, 0, len(list))
	for _, r := range list {
		i, twice := at[r.Key]
		if !twice {
			at[r.Key] = len(out)
			out = append(out, r)
			continue
		}
		a := &out[i]
		// Two different leases load everything, which is more than asked and does no harm.
		a.All = a.All || r.All || a.Lease != uuid.Nil && r.Lease != uuid.Nil && a.Lease != r.Lease
		a.Offsets = append(slices.Clip(a.Offsets), r.Offsets...)
		a.Due, a.Must = max(a.Due, r.Due), a.Must || r.Must
		if a.Lease == uuid.Nil {
			a.Lease = r.Lease
		}
	}
	slices.SortFunc(out, func(a, b core.RowRequest) int { return compareKeys(a.Key, b.Key) })
	return out
}

// update is a transaction of Update; it is what fn sees.
type update struct {
	tx  session
	ctx context.Context //nolint:containedctx // core.Tx has no contexts: it lives as long as one call
	now core.Time

	asked  map[core.RowKey]bool
	locked map[core.RowKey]bool
	rows   map[core.RowKey]*core.Row
	// batches are all that were read, until load has picked from them.
	batches map[core.RowKey][]core.Batch
	logs    logs
	seen    []int64
}

// keyArrays returns the keys of requests as arrays for unnest.
func keyArrays(list []core.RowRequest, must bool) (partitions []int64, groups [][]byte) {
	partitions, groups = []int64{}, [][]byte{}
	for i := range list {
		if list[i].Must == must {
			partitions = append(partitions, int64(list[i].Key.Partition))
			groups = append(groups, []byte(list[i].Key.Group))
		}
	}
	return partitions, groups
}

// A row that does not exist cannot be locked, so it is made first; the key share keeps its partition from being deleted.
const makeRows = `INSERT INTO frontiers (partition, grp) SELECT k.partition, k.grp
	FROM unnest($1::bigint[], $2::bytea[]) AS k(partition, grp) JOIN partition_logs l ON l.partition = k.partition
	WHERE NOT EXISTS (SELECT FROM frontiers f WHERE f.partition = k.partition AND f.grp = k.grp)
	ORDER BY k.partition, k.grp FOR KEY SHARE OF l ON CONFLICT DO NOTHING`

const lockRows = `SELECT f.partition, f.grp FROM frontiers f JOIN unnest($1::bigint[], $2::bytea[]) AS k(partition, grp)
	ON f.partition = k.partition AND f.grp = k.grp ORDER BY f.partition, f.grp FOR UPDATE OF f`

// queueLocks locks the rows that must be and those that may be. Nothing that they protect is read in the same statement.
func (u *update) queueLocks(b *pgx.Batch, requests []core.RowRequest) {
	u.asked, u.locked = map[core.RowKey]bool{}, map[core.RowKey]bool{}
	if len(requests) == 0 {
		return
	}
	for i := range requests {
		u.asked[requests[i].Key] = true
	}
	mustKeys, mustGroups := keyArrays(requests, true)
	mayKeys, mayGroups := keyArrays(requests, false)
	b.Queue(makeRows, append(slices.Clone(mustKeys), mayKeys...), append(slices.Clone(mustGroups), mayGroups...))
	locked := func(r pgx.Rows) error {
		return each(r, func(r pgx.Rows) error {
			var key core.PartitionKey
			var group []byte
			err := r.Scan(&key, &group)
			u.locked[core.RowKey{Partition: key, Group: string(group)}] = true
			return err
		})
	}
	if len(mustKeys) > 0 {
		b.Queue(lockRows, mustKeys, mustGroups).Query(locked)
	}
	if len(mayKeys) > 0 {
		b.Queue(lockRows+" SKIP LOCKED", mayKeys, mayGroups).Query(locked)
	}
}

const selectRows = `SELECT f.partition, f.grp, f.moved, f."offset", f.retries, f.last_turn, f.next_batch, f.before_messages,
	f.before_bytes, f.before_created, f.moved_at, ` + logColumns + `
	FROM unnest($1::bigint[], $2::bytea[]) AS k(partition, grp) JOIN frontiers f ON f.partition = k.partition AND f.grp = k.grp
	JOIN partition_logs l ON l.partition = f.partition`

const selectBatches = `SELECT b.partition, b.grp, b.id, b.first, b.last, b.pending, b.state, b.attempts, b.turn, b.turn_at, b.redraw,
	b.lease, b.exclusive, b.protocol, b.until, b.held_messages, b.held_bytes, b.held_created, b.covered_messages, b.covered_bytes,
	b.covered_created FROM batches b`

// queueReads reads the rows that were asked for; those that were not locked are left out when the answers come.
func (u *update) queueReads(b *pgx.Batch, requests []core.RowRequest) {
	u.rows, u.batches = map[core.RowKey]*core.Row{}, map[core.RowKey][]core.Batch{}
	if len(requests) == 0 {
		return
	}
	var k keys
	for i := range requests {
		k.add(requests[i].Key)
	}
	b.Queue(selectRows, k.partitions, k.groups).Query(func(r pgx.Rows) error {
		return each(r, func(r pgx.Rows) error {
			row := &core.Row{}
			err := scanRow(r, row, logTargets(&row.Log)...)
			if u.locked[row.Key] {
				u.rows[row.Key] = row
			}
			return err
		})
	})
	b.Queue(selectBatches+` JOIN unnest($1::bigint[], $2::bytea[]) AS k(partition, grp) ON b.partition = k.partition AND b.grp = k.grp
		ORDER BY b.first, b.id`, k.partitions, k.groups).Query(func(r pgx.Rows) error {
		return each(r, func(r pgx.Rows) error {
			key, batch, err := scanBatch(r)
			u.batches[key] = append(u.batches[key], batch)
			return err
		})
	})
}

// load picks from what was read what the requests ask for. With lockFirst it locks and reads logs that an append will want.
func (u *update) load(requests []core.RowRequest, lockFirst []int64) (err error) {
	if u.logs, err = readLogs(u.ctx, u.tx, lockLogs, lockFirst); err != nil {
		return err
	}
	for i := range requests {
		row := u.rows[requests[i].Key]
		if row == nil {
			continue
		}
		row.Batches, row.Rest = core.SelectBatches(u.batches[row.Key], requests[i], row.Frontier, u.now)
		if _, locked := u.logs[row.Key.Partition]; !locked {
			u.logs[row.Key.Partition] = row.Log
		}
	}
	u.batches = nil
	return nil
}

func scanRow(r pgx.Rows, row *core.Row, more ...any) error {
	var group []byte
	var turn int64
	f := &row.Frontier
	err := r.Scan(append([]any{
		&row.Key.Partition, &group, &row.Exists, &f.Offset, &f.Retries, &turn, &f.NextBatch, &f.Before.Messages,
		&f.Before.Bytes, &f.Before.Created, &f.MovedAt,
	}, more...)...)
	row.Key.Group = string(group)
	f.LastTurn = core.Turn(turn) //nolint:gosec // all 64 bits, as they were written
	return err
}

func scanBatch(r pgx.Rows) (key core.RowKey, b core.Batch, err error) {
	var group, pending []byte
	var turn int64
	h, c := &b.Held, &b.Covered
	err = r.Scan(&key.Partition, &group, &b.ID, &b.First, &b.Last, &pending, &b.State, &b.Attempts, &turn, &b.TurnAt, &b.Redraw,
		(*[16]byte)(&b.Lease), &b.Exclusive, &b.Protocol, &b.Until, &h.Messages, &h.Bytes, &h.Created, &c.Messages, &c.Bytes, &c.Created)
	if err != nil {
		return key, b, err
	}
	key.Group = string(group)
	b.Turn = core.Turn(turn) //nolint:gosec // all 64 bits, as they were written
	b.Pending, err = core.DecodeRuns(pending, b.First)
	return key, b, err
}

// Row implements core.Tx.
func (u *update) Row(key core.RowKey) *core.Row { return u.rows[key] }

// Headers implements core.Tx.
func (u *update) Headers(p core.PartitionKey, first, last int64) ([]core.SegmentHeader, error) {
	out, err := headers(u.ctx, u.tx, core.HeadersParams{Partition: p, From: first, To: last})
	return out, classify("headers", err)
}

// Read implements core.Tx.
func (u *update) Read(p core.PartitionKey, offsets core.Runs) ([]core.Message, error) {
	out, err := read(u.ctx, u.tx, core.ReadParams{Partition: p, Offsets: offsets})
	return out, classify("read", err)
}

// Log implements core.Tx. Logs of the rows that were asked for are at hand, others are looked up.
func (u *update) Log(p core.PartitionKey) (core.LogState, bool) {
	if log, ok := u.logs[p]; ok {
		return log, true
	}
	found, err := readLogs(u.ctx, u.tx, selectLogs, []int64{int64(p)})
	if err != nil {
		return core.LogState{}, false // the transaction is broken: its next statement says so
	}
	log, ok := found[p]
	if ok {
		u.logs[p] = log
	}
	return log, ok
}

// Scheduled implements core.Tx.
func (u *update) Scheduled(seqs []int64) ([]int64, error) {
	there := make(map[int64]bool, len(seqs))
	err := rows(u.ctx, u.tx, "SELECT seq FROM schedule WHERE seq = ANY($1) ORDER BY seq FOR UPDATE", func(r pgx.Rows) error {
		var seq int64
		err := r.Scan(&seq)
		there[seq] = true
		return err
	}, nonNil(seqs))
	return slices.DeleteFunc(slices.Clone(seqs), func(seq int64) bool { return !there[seq] }), classify("scheduled", err)
}

// DeadLetter implements core.Tx.
func (u *update) DeadLetter(dead uuid.UUID) (core.DeadLetter, bool, error) {
	d, ok, err := deadLetter(u.ctx, u.tx, dead)
	return d, ok, classify("dead letter", err)
}

// write checks a change set, locks what else it needs and queues what writes it.
func (u *update) write(c *core.ChangeSet, b *pgx.Batch) ([]core.Placed, error) {
	const op = "update"
	if err := placing.Check(op, c.Segments); err != nil {
		return nil, err
	}
	for i := range c.Schedule {
		if err := placing.Check(op, []core.NewSegment{c.Schedule[i].Segment}); err != nil {
			return nil, err
		}
	}
	changes, err := u.compose(c)
	if err != nil {
		return nil, err
	}
	found, err := u.lockLogs(c)
	if err != nil {
		return nil, err
	}
	placed, _ := placing.Admit(c.Segments, found.of)
	if err := placing.AllIn(op, placed); err != nil {
		return nil, err
	}
	if err := u.checkNamed(c); err != nil {
		return nil, err
	}
	purged := map[core.PartitionKey]core.LogState{}
	for _, key := range c.Purge {
		if log, ok := found[key]; ok {
			log.Start, log.StartTotals = log.Head+1, log.HeadTotals
			purged[key] = log
		}
	}
	plan := placing.New(u.now, c.Segments, placed, found.of, purged)
	u.seen = planned(plan)
	queuePurge(b, u.now, purged)
	queueRemovals(b, c)
	queueRows(b, changes)
	queueAppend(b, plan)
	queueAdditions(b, u.now, c)
	return placed, nil
}

// changed returns the partitions that other gateways should look at.
func (u *update) changed(c *core.ChangeSet) []int64 {
	for i := range c.Rows {
		u.seen = append(u.seen, int64(c.Rows[i].Key.Partition))
	}
	slices.Sort(u.seen)
	return slices.Compact(u.seen)
}

// lockLogs locks the logs that the change set appends to or purges.
func (u *update) lockLogs(c *core.ChangeSet) (logs, error) {
	if err := u.lockPurged(c); err != nil {
		return nil, err
	}
	keys := keysOf(c.Segments)
	for _, key := range c.Purge {
		keys = append(keys, int64(key))
	}
	slices.Sort(keys)
	return readLogs(u.ctx, u.tx, lockLogs, slices.Compact(keys))
}

// checkNamed makes sure that what else a change set names exists, and stays.
func (u *update) checkNamed(c *core.ChangeSet) error {
	const op = "update"
	named := make([]int64, 0, len(c.Schedule)+len(c.DeadLetters))
	for i := range c.Schedule {
		named = append(named, int64(c.Schedule[i].Segment.Partition))
	}
	for i := range c.DeadLetters {
		named = append(named, int64(c.DeadLetters[i].Partition))
	}
	slices.Sort(named)
	if err := existAll(u, op, core.CodeNoPartition, "SELECT FROM partition_logs WHERE partition = ANY($1) ORDER BY partition FOR KEY SHARE",
		slices.Compact(named)); err != nil {
		return err
	}
	queues := map[uuid.UUID]bool{}
	ids := [][16]byte{}
	for i := range c.Register {
		if q := c.Register[i].Queue; !queues[q] {
			queues[q] = true
			ids = append(ids, q)
		}
	}
	return existAll(u, op, core.CodeNoQueue, "SELECT FROM queues WHERE id = ANY($1) ORDER BY id FOR KEY SHARE", ids)
}

// existAll locks rows so that they stay, and returns an error with the code where one is missing.
func existAll[T any](u *update, op string, code core.Code, query string, keys []T) error {
	if len(keys) == 0 {
		return nil
	}
	n := 0
	if err := rows(u.ctx, u.tx, query, func(pgx.Rows) error { n++; return nil }, keys); err != nil {
		return err
	}
	if n < len(keys) {
		return core.Errorf(code, op, "%d of %d things that the change set names do not exist", len(keys)-n, len(keys))
	}
	return nil
}

// lockPurged locks the rows of all groups of partitions that are purged, which nobody asked for by name.
func (u *update) lockPurged(c *core.ChangeSet) error {
	if len(c.Purge) == 0 {
		return nil
	}
	_, err := u.tx.Exec(u.ctx, "SELECT FROM frontiers WHERE partition = ANY($1) ORDER BY partition, grp FOR UPDATE", c.Purge)
	return err
}
