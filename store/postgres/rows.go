package postgres

import (
	"cmp"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/core"
)

const selectRows = `SELECT f.partition, f.grp, f.moved, f."offset", f.retries, f.last_turn, f.next_batch, f.before_messages,
	f.before_bytes, f.before_created, f.moved_at, f.version, ` + logColumns + `
	FROM unnest($1::bigint[], $2::bytea[]) AS k(partition, grp)
	CROSS JOIN LATERAL (SELECT x.*, x.xmin::text::bigint AS version FROM frontiers x WHERE x.partition = k.partition AND x.grp = k.grp OFFSET 0) f
	CROSS JOIN LATERAL (SELECT * FROM partition_logs x WHERE x.partition = f.partition OFFSET 0) l`

const batchColumns = `b.partition, b.grp, b.id, b.first, b.last, b.pending, b.state, b.attempts, b.turn, b.turn_at, b.redraw, b.lease,
	b.exclusive, b.protocol, b.until, b.held_messages, b.held_bytes, b.held_created, b.covered_messages, b.covered_bytes, b.covered_created`

const selectBatches = "SELECT " + batchColumns + " FROM batches b"

// fewBatches is how many batches of a row are read without looking for those that are wanted: nearly every row has fewer.
const fewBatches = 64

// selectFew reads up to so many batches of each row.
const selectFew = "SELECT " + batchColumns + ` FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS k(partition, grp, n)
	CROSS JOIN LATERAL (SELECT * FROM batches x WHERE x.partition = k.partition AND x.grp = k.grp ORDER BY x.id LIMIT k.n) b`

// selectMany reads from rows of many batches those that may be wanted: the exclusive one, those of a lease, those above the
// frontier, those around the wanted offsets, and the next due ones of either kind.
const selectMany = `WITH k AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::uuid[], $5::bigint[],
	$6::bigint[], $7::bigint[]) AS k(partition, grp, reached, lease, low, high, due))
	SELECT ` + batchColumns + ` FROM k CROSS JOIN LATERAL (
	SELECT * FROM batches x WHERE x.partition = k.partition AND x.grp = k.grp
		AND (x.last > k.reached OR x.state = 0 AND (x.exclusive OR x.lease = k.lease) OR x.first <= k.high AND x.last >= k.low)
	UNION (SELECT * FROM batches x WHERE x.partition = k.partition AND x.grp = k.grp AND x.state = 0 AND x.until <= $8
		ORDER BY x.until, x.first, x.id LIMIT k.due)
	UNION (SELECT * FROM batches x WHERE x.partition = k.partition AND x.grp = k.grp AND x.state = 1 AND x.until <= $8
		ORDER BY x.served, x.first, x.id LIMIT k.due)) b`

// selectRest sums up the batches of rows other than those given.
const selectRest = `SELECT k.partition, k.grp, coalesce(r.until, 0), coalesce(r.leased, 0)::bigint, coalesce(r.waiting, 0)::bigint
	FROM unnest($1::bigint[], $2::bytea[]) AS k(partition, grp) CROSS JOIN LATERAL (SELECT min(nullif(b.until, 0)) AS until,
	sum(b.held_messages) FILTER (WHERE b.state = 0) AS leased, sum(b.held_messages) FILTER (WHERE b.state = 1) AS waiting
	FROM batches b WHERE b.partition = k.partition AND b.grp = k.grp AND b.state < 2 AND (b.partition, b.grp, b.id) NOT IN
	(SELECT * FROM unnest($3::bigint[], $4::bytea[], $5::bigint[]))) r`

// queueReads reads the rows that were asked for; those that were not locked are left out when the answers come.
func (u *update) queueReads(b *pgx.Batch, requests []core.RowRequest) {
	u.rows, u.batches, u.read = map[core.RowKey]*core.Row{}, map[core.RowKey][]core.Batch{}, map[core.RowKey]*readRow{}
	if len(requests) == 0 {
		return
	}
	var k keys
	limits := make([]*int64, len(requests))
	for i := range requests {
		k.add(requests[i].Key)
		if !requests[i].All {
			limits[i] = limited(fewBatches + 1)
		}
	}
	b.Queue(selectRows, k.partitions, k.groups).Query(func(r pgx.Rows) error {
		return each(r, func(r pgx.Rows) error {
			row, version := &core.Row{}, int64(0)
			err := scanRow(r, row, append([]any{&version}, logTargets(&row.Log)...)...)
			if u.locked[row.Key] {
				u.rows[row.Key] = row
				u.read[row.Key] = &readRow{recalledRow: recalledRow{version: uint32(version), exists: row.Exists, frontier: row.Frontier}}
			}
			return err
		})
	})
	b.Queue(selectFew, k.partitions, k.groups, limits).Query(func(r pgx.Rows) error { return each(r, u.takeBatch) })
}

func (u *update) takeBatch(r pgx.Rows) error {
	key, batch, err := scanBatch(r)
	if u.locked[key] {
		u.batches[key] = append(u.batches[key], batch)
	}
	return err
}

// load picks from what was read what the requests ask for. With lockFirst it locks and reads logs that an append will want.
func (u *update) load(requests []core.RowRequest, lockFirst []int64) (err error) {
	if u.logs, err = readLogs(u.ctx, u.tx, lockLogs, lockFirst); err != nil {
		return err
	}
	var many []*core.RowRequest
	for i := range requests {
		r := &requests[i]
		row := u.rows[r.Key]
		if row == nil {
			continue
		}
		if _, locked := u.logs[row.Key.Partition]; !locked {
			u.logs[row.Key.Partition] = row.Log
		}
		if !r.All && len(u.batches[r.Key]) > fewBatches {
			many = append(many, r)
			continue
		}
		list := u.batches[r.Key]
		slices.SortFunc(list, compareBatches)
		row.Batches, row.Rest = core.SelectBatches(list, *r, row.Frontier, u.now)
		read := u.read[r.Key]
		read.batches, read.whole = list, len(list) <= fewBatches
	}
	err = u.loadMany(many)
	u.batches = nil
	return err
}

// loadMany picks from rows of many batches. It takes two more round trips, whatever the number of rows.
func (u *update) loadMany(many []*core.RowRequest) error {
	if len(many) == 0 {
		return nil
	}
	var k keys
	c := newColumns(len(many), 4)
	leases := make([][16]byte, len(many))
	for i, r := range many {
		k.add(r.Key)
		low, high := int64(0), int64(-1)
		if len(r.Offsets) > 0 {
			low, high = slices.Min(r.Offsets), slices.Max(r.Offsets)
		}
		leases[i] = r.Lease
		c.set(i, u.rows[r.Key].Frontier.Offset, low, high, int64(r.Due))
		delete(u.batches, r.Key)
	}
	err := rows(u.ctx, u.tx, selectMany, u.takeBatch, k.partitions, k.groups, c[0], leases, c[1], c[2], c[3], int64(u.now))
	if err != nil {
		return err
	}
	var picked keys
	var ids []int64
	for _, r := range many {
		row, list := u.rows[r.Key], u.batches[r.Key]
		slices.SortFunc(list, compareBatches)
		row.Batches, _ = core.SelectBatches(list, *r, row.Frontier, u.now)
		for i := range row.Batches {
			picked.add(r.Key)
			ids = append(ids, row.Batches[i].ID)
		}
	}
	return rows(u.ctx, u.tx, selectRest, func(r pgx.Rows) error {
		var key core.RowKey
		var group []byte
		var rest core.Rest
		err := r.Scan(&key.Partition, &group, &rest.NextUntil, &rest.Leased, &rest.Waiting)
		key.Group = string(group)
		u.rows[key].Rest = rest
		return err
	}, k.partitions, k.groups, nonNil(picked.partitions), nonNil(picked.groups), nonNil(ids))
}

func compareBatches(a, b core.Batch) int {
	return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.ID, b.ID))
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
