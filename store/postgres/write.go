package postgres

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/internal/placing"
)

func compareKeys(a, b core.RowKey) int {
	return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Group, b.Group))
}

// rowChange is all that a change set does to one row.
type rowChange struct {
	key core.RowKey
	// clear deletes all batches, reset makes the frontier as if there had been none, move writes it.
	clear, reset, move bool
	// still tells that the frontier is written as it was.
	still    bool
	frontier core.Frontier
	deletes  map[int64]bool
	puts     map[int64]core.Batch
}

// compose makes one change of all changes of a row.
func (u *update) compose(c *core.ChangeSet) ([]*rowChange, error) {
	const op = "update"
	byKey := map[core.RowKey]*rowChange{}
	var out []*rowChange
	for i := range c.Rows {
		in := &c.Rows[i]
		if !u.asked[in.Key] {
			return nil, core.Errorf(core.CodeInternal, op, "row %d/%q is written but was not locked", in.Key.Partition, in.Key.Group)
		}
		if u.rows[in.Key] == nil {
			return nil, core.Errorf(core.CodeNoPartition, op, "partition %d does not exist, or its row was skipped", in.Key.Partition)
		}
		r := byKey[in.Key]
		if r == nil {
			r = &rowChange{key: in.Key, deletes: map[int64]bool{}, puts: map[int64]core.Batch{}}
			byKey[in.Key] = r
			out = append(out, r)
		}
		r.take(in)
	}
	slices.SortFunc(out, func(a, b *rowChange) int { return compareKeys(a.key, b.key) })
	return out, nil
}

func (r *rowChange) take(in *core.RowChange) {
	if in.Drop || in.DeleteAll {
		r.clear = true
		clear(r.deletes)
		clear(r.puts)
	}
	if in.Drop {
		r.reset, r.move, r.frontier = true, false, core.Frontier{}
		return
	}
	if in.Move {
		r.move, r.frontier = true, in.Frontier
	}
	for _, id := range in.Delete {
		r.deletes[id] = true
		delete(r.puts, id)
	}
	for _, b := range in.Put {
		r.puts[b.ID] = b
	}
}

// queueRows queues what changes rows: deletes, then frontiers, then batches, those that end an exclusive lease first. exist reports
// whether a batch is stored already, as far as is known. Every change of a row writes its frontier, whose version others go by.
func queueRows(b *pgx.Batch, changes []*rowChange, exist func(core.RowKey, int64) bool) {
	queueFrontiers(b, changes)
	queueBatches(b, changes, exist)
}

func queueBatches(b *pgx.Batch, changes []*rowChange, exist func(core.RowKey, int64) bool) {
	var cleared, deleted keys
	var ids []int64
	var plain, fresh, exclusive batchArrays
	for _, r := range changes {
		if r.clear {
			cleared.add(r.key)
		} else {
			for id := range r.deletes {
				deleted.add(r.key)
				ids = append(ids, id)
			}
		}
		for _, batch := range r.puts {
			switch {
			case exist(r.key, batch.ID) && (!batch.Exclusive || batch.State != core.BatchLeased):
				plain.add(r.key, &batch)
			case exist(r.key, batch.ID):
				exclusive.add(r.key, &batch)
			default:
				fresh.add(r.key, &batch)
			}
		}
	}
	if len(cleared.partitions) > 0 {
		b.Queue(`DELETE FROM batches b USING unnest($1::bigint[], $2::bytea[]) AS k(partition, grp) CROSS JOIN LATERAL
			(SELECT ctid FROM batches y WHERE y.partition = k.partition AND y.grp = k.grp OFFSET 0) AS y(place) WHERE b.ctid = y.place`, cleared.partitions, cleared.groups)
	}
	if len(ids) > 0 {
		b.Queue(`DELETE FROM batches b USING unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS k(partition, grp, id) CROSS JOIN LATERAL
			(SELECT ctid FROM batches y WHERE y.partition = k.partition AND y.grp = k.grp AND y.id = k.id OFFSET 0) AS y(place)
			WHERE b.ctid = y.place`, deleted.partitions, deleted.groups, ids)
	}
	plain.queue(b, upsertBatches)
	exclusive.queue(b, upsertBatches)
	fresh.queue(b, insertBatches)
}

// keys are row keys as arrays for unnest.
type keys struct {
	partitions []int64
	groups     [][]byte
}

func (k *keys) add(key core.RowKey) {
	k.partitions = append(k.partitions, int64(key.Partition))
	k.groups = append(k.groups, []byte(key.Group))
}

func queueFrontiers(b *pgx.Batch, changes []*rowChange) {
	if len(changes) == 0 {
		return
	}
	b.Queue(`UPDATE frontiers f SET moved = x.moved, "offset" = x.o, retries = x.r, last_turn = x.t, next_batch = x.n, before_messages = x.bm,
		before_bytes = x.bb, before_created = x.bc, moved_at = x.at FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
		$5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[], $11::boolean[])
		AS x(o, r, t, n, bm, bb, bc, at, partition, grp, moved) CROSS JOIN LATERAL
		(SELECT ctid FROM frontiers y WHERE y.partition = x.partition AND y.grp = x.grp OFFSET 0) AS y(place) WHERE f.ctid = y.place`,
		frontierArgs(changes)...)
}

// frontierArgs returns frontiers as arrays for unnest, with their keys.
func frontierArgs(changes []*rowChange) []any {
	var k keys
	c := newColumns(len(changes), 8)
	exists := make([]bool, len(changes))
	for i, r := range changes {
		k.add(r.key)
		f := &r.frontier
		exists[i] = r.move
		c.set(i, f.Offset, int64(f.Retries), int64(f.LastTurn), f.NextBatch, f.Before.Messages, f.Before.Bytes, f.Before.Created, int64(f.MovedAt)) //nolint:gosec // all 64 bits, read back alike
	}
	return c.args(k.partitions, k.groups, exists)
}

// batchArrays are batches as arrays for unnest.
type batchArrays struct {
	keys
	numbers           [16][]int64
	pending           [][]byte
	leases            [][16]byte
	redraw, exclusive []bool
}

func (a *batchArrays) add(key core.RowKey, b *core.Batch) {
	a.keys.add(key)
	h, c := &b.Held, &b.Covered
	for i, v := range [...]int64{
		b.ID, b.First, b.Last, int64(b.State), int64(b.Attempts), int64(b.Turn), int64(b.TurnAt), int64(b.Protocol), int64(b.Until), //nolint:gosec // all 64 bits, read back alike
		h.Messages, h.Bytes, h.Created, c.Messages, c.Bytes, c.Created, int64(b.FirstTurn()), //nolint:gosec // all 64 bits, sorted as far as offsets go
	} {
		a.numbers[i] = append(a.numbers[i], v)
	}
	a.pending = append(a.pending, b.Pending.AppendBinary([]byte{}, b.First))
	a.leases = append(a.leases, b.Lease)
	a.redraw, a.exclusive = append(a.redraw, b.Redraw), append(a.exclusive, b.Exclusive)
}

const insertBatches = `INSERT INTO batches (id, first, last, state, attempts, turn, turn_at, protocol, until, held_messages, held_bytes,
	held_created, covered_messages, covered_bytes, covered_created, served, partition, grp, pending, lease, redraw, exclusive)
	SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
	$9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[],
	$18::bytea[], $19::bytea[], $20::uuid[], $21::boolean[], $22::boolean[])`

const upsertBatches = insertBatches + `
	ON CONFLICT (partition, grp, id) DO UPDATE SET first = excluded.first, last = excluded.last, pending = excluded.pending,
	state = excluded.state, attempts = excluded.attempts, turn = excluded.turn, turn_at = excluded.turn_at, redraw = excluded.redraw,
	lease = excluded.lease, exclusive = excluded.exclusive, protocol = excluded.protocol, until = excluded.until,
	held_messages = excluded.held_messages, held_bytes = excluded.held_bytes, held_created = excluded.held_created,
	covered_messages = excluded.covered_messages, covered_bytes = excluded.covered_bytes, covered_created = excluded.covered_created,
	served = excluded.served`

func (a *batchArrays) queue(b *pgx.Batch, statement string) {
	if len(a.pending) == 0 {
		return
	}
	args := make([]any, 0, 22)
	for _, numbers := range a.numbers {
		args = append(args, numbers)
	}
	b.Queue(statement, append(args, a.partitions, a.groups, a.pending, a.leases, a.redraw, a.exclusive)...)
}

// queuePurge empties partitions: their segments, the state of all groups, their schedule and source ids. The logs are
// written with those that are appended to.
func queuePurge(b *pgx.Batch, now core.Time, purged map[core.PartitionKey]core.LogState) {
	if len(purged) == 0 {
		return
	}
	c := newColumns(len(purged), 5)
	i := 0
	for key, log := range purged {
		c.set(i, int64(key), log.Head, log.HeadTotals.Messages, log.HeadTotals.Bytes, log.HeadTotals.Created)
		i++
	}
	for _, table := range []string{"batches", "segments", "sources", "schedule"} {
		b.Queue("DELETE FROM "+table+" WHERE partition = ANY($1)", c[0])
	}
	b.Queue(`UPDATE frontiers f SET "offset" = x.head, before_messages = x.m, before_bytes = x.b, before_created = x.c, moved_at = $6
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) AS x(partition, head, m, b, c) CROSS JOIN LATERAL
		(SELECT ctid FROM frontiers y WHERE y.partition = x.partition AND y.moved OFFSET 0) AS y(place) WHERE f.ctid = y.place`, c.args(int64(now))...)
}

func queueRemovals(b *pgx.Batch, c *core.ChangeSet) {
	if len(c.FreeSources) > 0 {
		partitions, sources := make([]int64, len(c.FreeSources)), make([][]byte, len(c.FreeSources))
		for i, key := range c.FreeSources {
			partitions[i], sources[i] = int64(key.Partition), []byte(key.SourceID)
		}
		b.Queue(`DELETE FROM sources s USING unnest($1::bigint[], $2::bytea[]) AS k(partition, source_id) CROSS JOIN LATERAL
			(SELECT ctid FROM sources y WHERE y.partition = k.partition AND y.source_id = k.source_id OFFSET 0) AS y(place)
			WHERE s.ctid = y.place`, partitions, sources)
	}
	if len(c.Unschedule) > 0 {
		b.Queue("DELETE FROM schedule WHERE seq = ANY($1)", c.Unschedule)
	}
	if len(c.DropDeadLetters) > 0 {
		b.Queue("DELETE FROM dead_letters WHERE id = ANY($1)", uuids(c.DropDeadLetters))
	}
	if len(c.Unregister) > 0 {
		queues, groups := make([][16]byte, len(c.Unregister)), make([][]byte, len(c.Unregister))
		for i, key := range c.Unregister {
			queues[i], groups[i] = key.Queue, []byte(key.Group)
		}
		b.Queue(`DELETE FROM registrations r USING unnest($1::uuid[], $2::bytea[]) AS k(queue, grp) CROSS JOIN LATERAL
			(SELECT ctid FROM registrations y WHERE y.queue = k.queue AND y.grp = k.grp OFFSET 0) AS y(place) WHERE r.ctid = y.place`, queues, groups)
	}
}

func uuids(list []uuid.UUID) [][16]byte {
	out := make([][16]byte, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

func queueAdditions(b *pgx.Batch, now core.Time, c *core.ChangeSet) {
	queueSchedule(b, c.Schedule)
	queueDeadLetters(b, c.DeadLetters)
	queueRecords(b, now, c.Records)
	if n := len(c.Register); n > 0 {
		queues, groups, modes := make([][16]byte, n), make([][]byte, n), make([][]byte, n)
		cols := newColumns(n, 2)
		for i := range c.Register {
			r := &c.Register[i]
			queues[i], groups[i], modes[i] = r.Queue, []byte(r.Group), []byte(r.Mode)
			cols.set(i, int64(r.Start), int64(r.CreatedAt))
		}
		// The first of two for the same group counts: what exists keeps what it says.
		b.Queue(`INSERT INTO registrations (start, created_at, queue, grp, mode) SELECT DISTINCT ON (queue, grp) start, created_at, queue, grp, mode
			FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::bytea[], $5::bytea[]) WITH ORDINALITY AS x(start, created_at, queue, grp, mode, n)
			ORDER BY queue, grp, n ON CONFLICT DO NOTHING`, cols.args(queues, groups, modes)...)
	}
}

func queueSchedule(b *pgx.Batch, list []core.ScheduledSegment) {
	if len(list) == 0 {
		return
	}
	c := newColumns(len(list), 7)
	sources, headers, bodies := make([][]byte, len(list)), make([][]byte, len(list)), make([][]byte, len(list))
	for i := range list {
		n := &list[i].Segment
		c.set(i, int64(list[i].Due), int64(n.Partition), int64(n.Count), n.Totals.Messages, n.Totals.Bytes, n.Totals.Created, int64(n.Expires))
		sources[i], headers[i], bodies[i] = placing.EncodeSources(n.Sources), n.Header, n.Body
	}
	b.Queue(`INSERT INTO schedule (seq, due, partition, count, messages, bytes, created, expires, sources, header, body)
		SELECT nextval('schedule_seq'), x.due, x.partition, x.count, x.m, x.b, x.c, x.expires, x.sources, x.header, x.body FROM (
		SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bytea[],
		$9::bytea[], $10::bytea[]) WITH ORDINALITY AS y(due, partition, count, m, b, c, expires, sources, header, body, n) ORDER BY n) x`,
		c.args(sources, headers, bodies)...)
}

func queueDeadLetters(b *pgx.Batch, list []core.DeadLetter) {
	if len(list) == 0 {
		return
	}
	n := len(list)
	c := newColumns(n, 5)
	ids, queues := make([][16]byte, n), make([][16]byte, n)
	texts := [5][][]byte{}
	for i := range texts {
		texts[i] = make([][]byte, n)
	}
	for i := range list {
		d := &list[i]
		m := d.Message
		var seg core.NewSegment
		seg.Add(&m)
		ids[i], queues[i] = d.ID, d.Queue
		c.set(i, int64(d.Partition), int64(d.Retries), int64(d.FailedAt), m.Offset, int64(m.AppendedAt))
		for k, text := range [...][]byte{[]byte(d.Group), []byte(d.Error), []byte(m.Transaction()), seg.Header, seg.Body} {
			texts[k][i] = text
		}
	}
	b.Queue(`INSERT INTO dead_letters (partition, retries, failed_at, "offset", appended_at, id, queue, grp, error, transaction_id, header, body)
		SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::uuid[], $7::uuid[], $8::bytea[],
		$9::bytea[], $10::bytea[], $11::bytea[], $12::bytea[]) ON CONFLICT (id) DO NOTHING`,
		c.args(ids, queues, texts[0], texts[1], texts[2], texts[3], texts[4])...)
}

func queueRecords(b *pgx.Batch, now core.Time, list []core.Record) {
	if len(list) == 0 {
		return
	}
	type name struct{ kind, name string }
	last := map[name]*core.Record{}
	for i := range list {
		last[name{list[i].Kind, list[i].Name}] = &list[i]
	}
	var deleted, kept [2][][]byte
	var values [][]byte
	for key, r := range last {
		to := &kept
		if r.Value == nil {
			to = &deleted
		} else {
			values = append(values, r.Value)
		}
		to[0], to[1] = append(to[0], []byte(key.kind)), append(to[1], []byte(key.name))
	}
	if len(deleted[0]) > 0 {
		b.Queue(`DELETE FROM records r USING unnest($1::bytea[], $2::bytea[]) AS k(kind, name) CROSS JOIN LATERAL
			(SELECT ctid FROM records y WHERE y.kind = k.kind AND y.name = k.name OFFSET 0) AS y(place) WHERE r.ctid = y.place`,
			deleted[0], deleted[1])
	}
	if len(values) > 0 {
		sortRecords(kept, values)
		b.Queue(`INSERT INTO records (kind, name, value, at) SELECT k, n, v, $4 FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) AS x(k, n, v)
			ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value, at = excluded.at`, kept[0], kept[1], values, int64(now))
	}
}

// sortRecords brings records into the order of their locks.
func sortRecords(names [2][][]byte, values [][]byte) {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(bytes.Compare(names[0][a], names[0][b]), bytes.Compare(names[1][a], names[1][b]))
	})
	for _, list := range [][][]byte{names[0], names[1], values} {
		old := slices.Clone(list)
		for i, at := range order {
			list[i] = old[at]
		}
	}
}
