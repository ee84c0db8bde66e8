package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/core"
)

const selectQueues = "SELECT id, name, version, origin, created_at, updated_at, options FROM queues"

func scanQueue(r pgx.Row) (core.Queue, error) {
	var q core.Queue
	var name, options []byte
	if err := r.Scan((*[16]byte)(&q.ID), &name, &q.Version, &q.Origin, &q.CreatedAt, &q.UpdatedAt, &options); err != nil {
		return q, err
	}
	q.Name = string(name)
	return q, core.WrapError(core.CodeFormat, "decode queue options", json.Unmarshal(options, &q.Options))
}

// Queues implements core.Catalog.
func (s *Store) Queues(ctx context.Context) ([]core.Queue, error) {
	const op = "queues"
	return collect(ctx, s, op, func(r pgx.Rows) (core.Queue, error) { return scanQueue(r) }, selectQueues+" ORDER BY name")
}

// PutQueue implements core.Catalog.
func (s *Store) PutQueue(ctx context.Context, p core.PutQueueParams) (core.Queue, error) {
	const op = "put queue"
	if err := s.enter(ctx, op); err != nil {
		return core.Queue{}, err
	}
	defer s.life.RUnlock()
	options, err := json.Marshal(&p.Queue.Options)
	if err != nil {
		return core.Queue{}, core.WrapError(core.CodeInvalid, op, err)
	}
	var out core.Queue
	err = s.commit(ctx, &transaction{op: op, id: uuid.New(), run: func(ctx context.Context, tx session, t *transaction) error {
		old, err := lockQueue(ctx, tx, p.Queue.ID)
		if err != nil {
			return err
		}
		if err := checkQueue(op, &p.Queue, old); err != nil {
			return err
		}
		created := cmp.Or(p.Queue.CreatedAt, p.Now)
		if old != nil {
			created = cmp.Or(old.CreatedAt, created)
		}
		out, err = scanQueue(tx.QueryRow(ctx, `INSERT INTO queues (id, name, version, origin, created_at, updated_at, options)
			VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET name = excluded.name, version = excluded.version,
			origin = excluded.origin, updated_at = excluded.updated_at, options = excluded.options
			RETURNING id, name, version, origin, created_at, updated_at, options`, id(p.Queue.ID), []byte(p.Queue.Name),
			p.Queue.Version+1, int16(p.Queue.Origin), int64(created), int64(cmp.Or(p.Now, p.Queue.UpdatedAt)), string(options)))
		if core.CodeOf(classify(op, err)) == core.CodeConflict && !again(err) {
			return core.Errorf(core.CodeQueueExists, op, "the name is taken")
		}
		if err != nil {
			return err
		}
		for i := range p.Partitions {
			p.Partitions[i].Queue = p.Queue.ID
		}
		made, err := createPartitions(ctx, tx, p.Now, p.Partitions)
		t.changed = changes{queues: []uuid.UUID{p.Queue.ID}, logs: keysOfLogs(made)}
		return err
	}})
	return out, err
}

// lockQueue locks a queue and returns it, nil when there is none.
func lockQueue(ctx context.Context, tx session, queue uuid.UUID) (*core.Queue, error) {
	q, err := scanQueue(tx.QueryRow(ctx, selectQueues+" WHERE id = $1 FOR UPDATE", id(queue)))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // no queue is an answer
	}
	return &q, err
}

func checkQueue(op string, q, old *core.Queue) error {
	switch {
	case q.Version == 0 && old != nil:
		return core.Errorf(core.CodeQueueExists, op, "queue %s exists", q.ID)
	case q.Version != 0 && old == nil:
		return core.Errorf(core.CodeNoQueue, op, "queue %s does not exist", q.ID)
	case old != nil && old.Version != q.Version:
		return core.Errorf(core.CodeConflict, op, "queue %s moved to version %d", q.ID, old.Version)
	}
	return nil
}

// CreatePartitions implements core.Catalog.
func (s *Store) CreatePartitions(ctx context.Context, now core.Time, ps []core.Partition) (out []core.PartitionLog, err error) {
	const op = "create partitions"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	err = s.commit(ctx, &transaction{op: op, id: uuid.New(), run: func(ctx context.Context, tx session, t *transaction) error {
		queues := make([][16]byte, len(ps))
		for i := range ps {
			queues[i] = ps[i].Queue
		}
		// Ordinals are given out under the lock of the queue.
		if _, err := tx.Exec(ctx, "SELECT FROM queues WHERE id = ANY($1) ORDER BY id FOR UPDATE", queues); err != nil {
			return err
		}
		var err error
		out, err = createPartitions(ctx, tx, now, ps)
		t.changed.logs = keysOfLogs(out)
		return err
	}})
	return out, err
}

// keysOfLogs returns the keys of partitions that exist.
func keysOfLogs(list []core.PartitionLog) []int64 {
	var out []int64
	for i := range list {
		if list[i].Key != 0 {
			out = append(out, int64(list[i].Key))
		}
	}
	return out
}

type partitionName struct {
	queue uuid.UUID
	name  string
}

// createPartitions makes what is missing; the queues are locked. What belongs to a queue that is gone comes back empty.
func createPartitions(ctx context.Context, tx session, now core.Time, ps []core.Partition) ([]core.PartitionLog, error) {
	if len(ps) == 0 {
		return nil, nil
	}
	have, counts, err := existing(ctx, tx, ps)
	if err != nil {
		return nil, err
	}
	var made []partitionName
	for _, p := range ps {
		name := partitionName{p.Queue, p.Name}
		if _, exists := have[name]; exists {
			continue
		}
		ordinal, ok := counts[p.Queue]
		if !ok {
			continue
		}
		counts[p.Queue]++
		p.Ordinal, p.CreatedAt = ordinal, cmp.Or(p.CreatedAt, now)
		have[name] = core.PartitionLog{Partition: p, Log: core.LogState{Start: 1}}
		made = append(made, name)
	}
	if err := insertPartitions(ctx, tx, have, made); err != nil {
		return nil, err
	}
	out := make([]core.PartitionLog, len(ps))
	for i := range ps {
		out[i] = have[partitionName{ps[i].Queue, ps[i].Name}]
	}
	return out, nil
}

func insertPartitions(ctx context.Context, tx session, have map[partitionName]core.PartitionLog, made []partitionName) error {
	if len(made) == 0 {
		return nil
	}
	var keys []int64
	err := rows(ctx, tx, "SELECT nextval('partition_keys') FROM generate_series(1, $1::int)", func(r pgx.Rows) error {
		var key int64
		err := r.Scan(&key)
		keys = append(keys, key)
		return err
	}, len(made))
	if err != nil {
		return err
	}
	ids, queues := make([][16]byte, len(made)), make([][16]byte, len(made))
	names, ordinals, created := make([][]byte, len(made)), make([]int32, len(made)), make([]int64, len(made))
	for i, name := range made {
		p := have[name]
		p.Key = core.PartitionKey(keys[i])
		have[name] = p
		ids[i], queues[i], names[i], ordinals[i], created[i] = p.ID, p.Queue, []byte(p.Name), p.Ordinal, int64(p.CreatedAt)
	}
	_, err = tx.Exec(ctx, `INSERT INTO partitions (key, id, queue, name, ordinal, created_at)
		SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::bytea[], $5::int[], $6::bigint[])`,
		keys, ids, queues, names, ordinals, created)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO partition_logs (partition) SELECT unnest($1::bigint[])", keys)
	return err
}

const logColumns = `l.start, l.head, l.head_at, l.start_messages, l.start_bytes, l.start_created, l.head_messages, l.head_bytes,
	l.head_created`

// logTargets are where logColumns go.
func logTargets(l *core.LogState) []any {
	st, ht := &l.StartTotals, &l.HeadTotals
	return []any{&l.Start, &l.Head, &l.HeadAt, &st.Messages, &st.Bytes, &st.Created, &ht.Messages, &ht.Bytes, &ht.Created}
}

const selectPartitions = "SELECT p.key, p.id, p.queue, p.name, p.ordinal, p.created_at, " + logColumns + `
	FROM partitions p` + logOfPartition

// logOfPartition joins the log of p. The OFFSET keeps the planner from turning the join around, here and elsewhere: whatever the
// statistics say, each row is looked up by its key.
const logOfPartition = " CROSS JOIN LATERAL (SELECT * FROM partition_logs x WHERE x.partition = p.key OFFSET 0) l"

// partitionsByName reads the wanted ones.
const partitionsByName = "SELECT p.key, p.id, p.queue, p.name, p.ordinal, p.created_at, " + logColumns + `
	FROM unnest($1::uuid[], $2::bytea[]) AS k(queue, name)
	CROSS JOIN LATERAL (SELECT * FROM partitions x WHERE x.queue = k.queue AND x.name = k.name OFFSET 0) p` + logOfPartition

func scanPartition(r pgx.Rows) (core.PartitionLog, error) {
	var p core.PartitionLog
	var name []byte
	err := r.Scan(append([]any{&p.Key, (*[16]byte)(&p.ID), (*[16]byte)(&p.Queue), &name, &p.Ordinal, &p.CreatedAt}, logTargets(&p.Log)...)...)
	p.Name = string(name)
	return p, err
}

// existing returns the wanted partitions that exist, and how many partitions each queue has that exists.
func existing(ctx context.Context, tx session, ps []core.Partition) (map[partitionName]core.PartitionLog, map[uuid.UUID]int32, error) {
	queues, names := make([][16]byte, len(ps)), make([][]byte, len(ps))
	for i := range ps {
		queues[i], names[i] = ps[i].Queue, []byte(ps[i].Name)
	}
	have, counts := map[partitionName]core.PartitionLog{}, map[uuid.UUID]int32{}
	err := rows(ctx, tx, partitionsByName, func(r pgx.Rows) error {
		p, err := scanPartition(r)
		have[partitionName{p.Queue, p.Name}] = p
		return err
	}, queues, names)
	if err != nil {
		return nil, nil, err
	}
	err = rows(ctx, tx, `SELECT q.id, (SELECT coalesce(max(ordinal) + 1, 0) FROM partitions p WHERE p.queue = q.id)
		FROM queues q WHERE q.id = ANY($1)`, func(r pgx.Rows) error {
		var queue uuid.UUID
		var n int32
		err := r.Scan((*[16]byte)(&queue), &n)
		counts[queue] = n
		return err
	}, queues)
	return have, counts, err
}

// Partitions implements core.Catalog.
func (s *Store) Partitions(ctx context.Context, queue uuid.UUID) ([]core.PartitionLog, error) {
	const op = "partitions"
	return collect(ctx, s, op, scanPartition, selectPartitions+" WHERE p.queue = $1 ORDER BY p.ordinal", id(queue))
}

// Registrations implements core.Catalog.
func (s *Store) Registrations(ctx context.Context, queue uuid.UUID) ([]core.Registration, error) {
	const op = "registrations"
	return collect(ctx, s, op, func(r pgx.Rows) (core.Registration, error) {
		reg := core.Registration{Queue: queue}
		var group, mode []byte
		err := r.Scan(&group, &reg.Start, &reg.CreatedAt, &mode)
		reg.Group, reg.Mode = string(group), string(mode)
		return reg, err
	}, "SELECT grp, start, created_at, mode FROM registrations WHERE queue = $1 ORDER BY grp", id(queue))
}

// DeleteQueue implements core.Catalog. Locks go as everywhere: frontiers before logs, each by key.
func (s *Store) DeleteQueue(ctx context.Context, queue uuid.UUID) error {
	const op = "delete queue"
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	defer s.life.RUnlock()
	return s.commit(ctx, &transaction{op: op, id: uuid.New(), run: func(ctx context.Context, tx session, t *transaction) error {
		q, err := lockQueue(ctx, tx, queue)
		if err != nil {
			return err
		}
		if q == nil {
			return core.Errorf(core.CodeNoQueue, op, "queue %s does not exist", queue)
		}
		err = rows(ctx, tx, "SELECT key FROM partitions WHERE queue = $1 ORDER BY key", func(r pgx.Rows) error {
			var key int64
			err := r.Scan(&key)
			t.changed.logs = append(t.changed.logs, key)
			return err
		}, id(queue))
		if err != nil {
			return err
		}
		t.changed.queues = []uuid.UUID{queue}
		b, keys := t.final, nonNil(t.changed.logs)
		b.Queue("SELECT FROM frontiers WHERE partition = ANY($1) ORDER BY partition, grp FOR UPDATE", keys)
		b.Queue("SELECT FROM schedule WHERE partition = ANY($1) ORDER BY seq FOR UPDATE", keys)
		b.Queue("SELECT FROM partition_logs WHERE partition = ANY($1) ORDER BY partition FOR UPDATE", keys)
		for _, table := range []string{"batches", "frontiers", "segments", "sources", "schedule", "partition_logs"} {
			b.Queue("DELETE FROM "+table+" WHERE partition = ANY($1)", keys)
		}
		b.Queue("DELETE FROM partitions WHERE queue = $1", id(queue))
		b.Queue("DELETE FROM dead_letters WHERE queue = $1", id(queue))
		b.Queue("DELETE FROM registrations WHERE queue = $1", id(queue))
		b.Queue("DELETE FROM queues WHERE id = $1", id(queue))
		return nil
	}})
}
