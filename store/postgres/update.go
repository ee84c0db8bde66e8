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
	if err = s.updateRecalled(ctx, &p, requests, fn); !errors.Is(err, errRecall) {
		return nil, err
	}
	var lockFirst []int64
	var refused error
	var u *update
	t := &transaction{op: op, id: p.Commit}
	t.start = func(b *pgx.Batch) {
		u = &update{s: s, now: p.Now}
		u.queueLocks(b, requests)
		u.queueReads(b, requests)
		b.Queue(selectCommit).QueryRow(func(r pgx.Row) error { return r.Scan(&u.catalog, &u.xid) })
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
	u.keep()
	return out, nil
}

// selectCommit comes after the locks, which have given the transaction its number; a commit without locks has none yet.
const selectCommit = "SELECT version, pg_current_xact_id_if_assigned()::text::bigint FROM catalog"

// keep remembers what a commit, or one that had nothing to write, read and wrote.
func (u *update) keep() {
	s := u.s
	m := s.recall
	if u.plan != nil {
		s.keepPlanned(u.plan, u.appended)
		s.cache.appended(u.plan)
	}
	if len(u.purged) > 0 {
		m.forget(u.seen)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.catalog = u.catalog
	for key, read := range u.read {
		m.readLog(key.Partition, u.logs[key.Partition])
		made := u.xid != nil && read.version == uint32(*u.xid) //nolint:gosec // rows are stamped with the low half
		if !read.whole || made && u.changes[key] == nil {      // a row that was made to be locked may be gone again
			delete(m.rows, key)
			continue
		}
		row, before := read.recalledRow, read.version
		if ch := u.changes[key]; ch != nil {
			if u.xid == nil || ch.reset {
				delete(m.rows, key)
				continue
			}
			row = recalledRow{version: uint32(*u.xid), exists: ch.move, frontier: ch.frontier, batches: ch.apply(row.batches)} //nolint:gosec // rows are stamped with the low half
		}
		m.keepRow(key, row, before)
	}
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
	s   *Store
	tx  session
	ctx context.Context //nolint:containedctx // core.Tx has no contexts: it lives as long as one call
	now core.Time

	catalog int64
	// xid is the number of the transaction, nil where it has none.
	xid *int64
	// read are the rows as they were read, changes what is done to them, and appended the logs before that.
	read     map[core.RowKey]*readRow
	changes  map[core.RowKey]*rowChange
	appended logs

	asked  map[core.RowKey]bool
	locked map[core.RowKey]bool
	rows   map[core.RowKey]*core.Row
	// batches are those that were read, until load has picked from them.
	batches map[core.RowKey][]core.Batch
	logs    logs
	// seen are the partitions whose log the change set changes, purged the rows that a purge does.
	seen   []int64
	plan   *placing.Plan
	purged []core.RowKey
}

// readRow is a row as it was read; whole tells that all its batches are there.
type readRow struct {
	recalledRow

	whole bool
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
const makeRows = `INSERT INTO frontiers (partition, grp) SELECT k.partition, k.grp FROM unnest($1::bigint[], $2::bytea[]) AS k(partition, grp)
	CROSS JOIN LATERAL (SELECT FROM partition_logs x WHERE x.partition = k.partition FOR KEY SHARE) l
	WHERE NOT EXISTS (SELECT FROM frontiers f WHERE f.partition = k.partition AND f.grp = k.grp OFFSET 0) ON CONFLICT DO NOTHING`

// lockRows takes the rows one by one, in the order of the arrays.
const (
	lockRows = `SELECT f.partition, f.grp FROM unnest($1::bigint[], $2::bytea[]) AS k(partition, grp) CROSS JOIN LATERAL
	(SELECT x.partition, x.grp FROM frontiers x WHERE x.partition = k.partition AND x.grp = k.grp FOR UPDATE) f`
	lockFreeRows = `SELECT f.partition, f.grp FROM unnest($1::bigint[], $2::bytea[]) AS k(partition, grp) CROSS JOIN LATERAL
	(SELECT x.partition, x.grp FROM frontiers x WHERE x.partition = k.partition AND x.grp = k.grp FOR UPDATE SKIP LOCKED) f`
)

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
		b.Queue(lockFreeRows, mayKeys, mayGroups).Query(locked)
	}
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
	u.seen, u.plan, u.appended = planned(plan), plan, found
	u.changes = make(map[core.RowKey]*rowChange, len(changes))
	for _, ch := range changes {
		if read := u.read[ch.key]; !ch.move && !ch.reset {
			ch.move, ch.frontier = read.exists, read.frontier
		}
		u.changes[ch.key] = ch
	}
	queuePurge(b, u.now, purged)
	queueRemovals(b, c)
	queueRows(b, changes, u.exist)
	queueAppend(b, plan)
	queueAdditions(b, u.now, c)
	return placed, nil
}

// exist reports whether a batch may be stored: it was read, or not all were.
func (u *update) exist(key core.RowKey, id int64) bool {
	read := u.read[key]
	return read == nil || !read.whole || slices.ContainsFunc(read.batches, func(b core.Batch) bool { return b.ID == id })
}

// changed returns what other gateways should know of a change set.
func (u *update) changed(c *core.ChangeSet) changes {
	out := changes{logs: u.seen, rows: u.purged}
	for i := range c.Rows {
		out.rows = append(out.rows, c.Rows[i].Key)
	}
	for i := range c.Register {
		out.queues = append(out.queues, c.Register[i].Queue)
	}
	for i := range c.Unregister {
		out.queues = append(out.queues, c.Unregister[i].Queue)
	}
	return out
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

// lockPurged locks the rows of all groups of partitions that are purged, which nobody asked for by name, and their schedule.
func (u *update) lockPurged(c *core.ChangeSet) error {
	if len(c.Purge) == 0 {
		return nil
	}
	err := rows(u.ctx, u.tx, "SELECT partition, grp FROM frontiers WHERE partition = ANY($1) ORDER BY partition, grp FOR UPDATE", func(r pgx.Rows) error {
		key, err := scanKey(r)
		u.purged = append(u.purged, key)
		return err
	}, c.Purge)
	if err != nil {
		return err
	}
	_, err = u.tx.Exec(u.ctx, "SELECT FROM schedule WHERE partition = ANY($1) ORDER BY seq FOR UPDATE", c.Purge)
	return err
}
