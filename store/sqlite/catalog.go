package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// Queues implements core.Catalog.
func (s *Store) Queues(ctx context.Context) ([]core.Queue, error) {
	const op = "queues"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, st, err := s.view(op)
	if err != nil {
		return nil, err
	}
	out := make([]core.Queue, 0, len(st.queues))
	for _, q := range st.queues {
		v, err := q.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b core.Queue) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// PutQueue implements core.Catalog.
func (s *Store) PutQueue(ctx context.Context, p core.PutQueueParams) (core.Queue, error) {
	const op = "put queue"
	options, err := json.Marshal(&p.Queue.Options)
	if err != nil {
		return core.Queue{}, core.WrapError(core.CodeInvalid, op, err)
	}
	if err := s.enterWriting(ctx, op); err != nil {
		return core.Queue{}, err
	}
	defer s.leaveWriting()
	old, err := s.state.checkQueue(op, &p.Queue)
	if err != nil {
		return core.Queue{}, err
	}
	q := &queue{Queue: p.Queue, options: options, byName: map[string]*partition{}}
	q.UpdatedAt, q.CreatedAt = cmp.Or(p.Now, p.Queue.UpdatedAt), cmp.Or(p.Queue.CreatedAt, p.Now)
	q.Version++
	if old != nil {
		q.CreatedAt, q.partitions, q.byName = cmp.Or(old.CreatedAt, q.CreatedAt), old.partitions, old.byName
	}
	made := s.state.newPartitions(p.Now, q, p.Partitions)
	err = s.commit(&transaction{
		op: op, id: uuid.New(),
		write: func(db *database) error {
			if err := q.write(db); err != nil {
				return err
			}
			return writePartitions(db, made)
		},
		apply: func(st *state) {
			if old != nil {
				delete(st.names, old.Name)
			}
			st.queues[q.ID], st.names[q.Name] = q, q.ID
			st.addPartitions(made)
		},
	})
	if err != nil {
		return core.Queue{}, err
	}
	return q.value()
}

// checkQueue returns the queue as it is, nil for a new one.
func (s *state) checkQueue(op string, q *core.Queue) (*queue, error) {
	old := s.queues[q.ID]
	owner, taken := s.names[q.Name]
	switch {
	case q.Version == 0 && old != nil:
		return nil, core.Errorf(core.CodeQueueExists, op, "queue %s exists", q.ID)
	case q.Version != 0 && old == nil:
		return nil, core.Errorf(core.CodeNoQueue, op, "queue %s does not exist", q.ID)
	case old != nil && old.Version != q.Version:
		return nil, core.Errorf(core.CodeConflict, op, "queue %s moved to version %d", q.ID, old.Version)
	case taken && owner != q.ID:
		return nil, core.Errorf(core.CodeQueueExists, op, "the name is taken")
	}
	return old, nil
}

func (q *queue) write(db *database) error {
	return db.exec(`INSERT OR REPLACE INTO queues (id, name, version, origin, created_at, updated_at, options)
		VALUES (?, ?, ?, ?, ?, ?, ?)`, q.ID[:], []byte(q.Name), q.Version, int64(q.Origin), int64(q.CreatedAt), int64(q.UpdatedAt),
		string(q.options))
}

// newPartitions returns those of the wanted partitions that their queues do not have, with keys and ordinals. A nil queue
// means each partition's own; partitions of queues that are gone are passed over.
func (s *state) newPartitions(now core.Time, q *queue, want []core.Partition) []*partition {
	type name struct {
		queue uuid.UUID
		name  string
	}
	var made []*partition
	planned, ordinals := map[name]bool{}, map[uuid.UUID]int32{}
	for _, p := range want {
		of := q
		if of == nil {
			of = s.queues[p.Queue]
		}
		if of == nil || of.byName[p.Name] != nil || planned[name{of.ID, p.Name}] {
			continue
		}
		planned[name{of.ID, p.Name}] = true
		p.Queue, p.CreatedAt = of.ID, cmp.Or(p.CreatedAt, now)
		p.Key = s.lastKey + 1 + core.PartitionKey(len(made))
		if n := len(of.partitions); n > 0 && ordinals[of.ID] == 0 {
			ordinals[of.ID] = of.partitions[n-1].Ordinal + 1
		}
		p.Ordinal = ordinals[of.ID]
		ordinals[of.ID]++
		made = append(made, newPartition(p))
	}
	return made
}

func writePartitions(db *database, made []*partition) error {
	if len(made) == 0 {
		return nil
	}
	for _, p := range made {
		err := db.exec("INSERT INTO partitions (key, id, queue, name, ordinal, created_at) VALUES (?, ?, ?, ?, ?, ?)",
			int64(p.Key), p.ID[:], p.Queue[:], []byte(p.Name), int64(p.Ordinal), int64(p.CreatedAt))
		if err != nil {
			return err
		}
	}
	return db.exec("UPDATE meta SET value = ? WHERE name = 'partition_key'", int64(made[len(made)-1].Key))
}

func (s *state) addPartitions(made []*partition) {
	for _, p := range made {
		s.queues[p.Queue].add(p)
		s.partitions[p.Key] = p
		s.lastKey = p.Key
	}
}

// CreatePartitions implements core.Catalog.
func (s *Store) CreatePartitions(ctx context.Context, now core.Time, ps []core.Partition) ([]core.PartitionLog, error) {
	const op = "create partitions"
	if err := s.enterWriting(ctx, op); err != nil {
		return nil, err
	}
	defer s.leaveWriting()
	made := s.state.newPartitions(now, nil, ps)
	if len(made) > 0 {
		err := s.commit(&transaction{
			op: op, id: uuid.New(),
			write: func(db *database) error { return writePartitions(db, made) },
			apply: func(st *state) { st.addPartitions(made) },
		})
		if err != nil {
			return nil, err
		}
	}
	out := make([]core.PartitionLog, len(ps))
	for i, want := range ps {
		if q := s.state.queues[want.Queue]; q != nil {
			p := q.byName[want.Name]
			out[i] = core.PartitionLog{Partition: p.Partition, Log: p.log}
		}
	}
	return out, nil
}

// Partitions implements core.Catalog.
func (s *Store) Partitions(ctx context.Context, id uuid.UUID) ([]core.PartitionLog, error) {
	const op = "partitions"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, st, err := s.view(op)
	if err != nil || st.queues[id] == nil {
		return nil, err
	}
	var out []core.PartitionLog
	for _, p := range st.queues[id].partitions {
		out = append(out, core.PartitionLog{Partition: p.Partition, Log: p.log})
	}
	return out, nil
}

// Registrations implements core.Catalog.
func (s *Store) Registrations(ctx context.Context, id uuid.UUID) ([]core.Registration, error) {
	const op = "registrations"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	db, err := s.reading(op)
	if err != nil {
		return nil, err
	}
	var out []core.Registration
	err = db.query("SELECT grp, start, created_at, mode FROM registrations WHERE queue = ? ORDER BY grp", func(r *sql.Rows) error {
		reg := core.Registration{Queue: id}
		var group, mode sql.RawBytes
		err := r.Scan(&group, &reg.Start, &reg.CreatedAt, &mode)
		reg.Group, reg.Mode = string(group), string(mode)
		out = append(out, reg)
		return err
	}, id[:])
	return out, classify(op, err)
}

// reading returns the database for a read that needs none of the memory.
func (s *Store) reading(op string) (*database, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	db, _, err := s.view(op)
	return db, err
}

// DeleteQueue implements core.Catalog.
func (s *Store) DeleteQueue(ctx context.Context, id uuid.UUID) error {
	const op = "delete queue"
	if err := s.enterWriting(ctx, op); err != nil {
		return err
	}
	defer s.leaveWriting()
	q := s.state.queues[id]
	if q == nil {
		return core.Errorf(core.CodeNoQueue, op, "queue %s does not exist", id)
	}
	var rows []int64
	for _, p := range q.partitions {
		if err := s.loadIndex(p.Key); err != nil {
			return classify(op, err)
		}
		rows = append(rows, p.index.rows()...)
	}
	return s.commit(&transaction{
		op: op, id: uuid.New(),
		write: func(db *database) error { return q.delete(db, rows) },
		apply: func(st *state) { st.forget(q, rows) },
	})
}

func (q *queue) delete(db *database, rows []int64) error {
	if err := deleteSegmentRows(db, rows); err != nil {
		return err
	}
	if err := deletePartitions(db, q.partitions); err != nil {
		return err
	}
	for _, query := range []string{
		"DELETE FROM dead_letters WHERE queue = ?", "DELETE FROM registrations WHERE queue = ?", "DELETE FROM queues WHERE id = ?",
	} {
		if err := db.exec(query, q.ID[:]); err != nil {
			return err
		}
	}
	return nil
}

// deletePartitions deletes what the file holds of partitions, their segments aside.
func deletePartitions(db *database, list []*partition) error {
	for _, p := range list {
		for _, query := range []string{
			"DELETE FROM batches WHERE frontier IN (SELECT id FROM frontiers WHERE partition = ?)",
			"DELETE FROM frontiers WHERE partition = ?", "DELETE FROM sources WHERE partition = ?",
			"DELETE FROM schedule WHERE partition = ?", "DELETE FROM segment_blocks WHERE partition = ?",
			"DELETE FROM partition_logs WHERE partition = ?", "DELETE FROM partitions WHERE key = ?",
		} {
			if err := db.exec(query, int64(p.Key)); err != nil {
				return err
			}
		}
	}
	return nil
}

// forgetPartitions drops what memory holds of partitions, the lists of their queues aside.
func (s *state) forgetPartitions(list []*partition) {
	for _, p := range list {
		for _, r := range p.rows {
			s.resolve.set(r, 0)
		}
		s.expiries.set(p, 0)
		delete(s.partitions, p.Key)
		delete(s.dirty, p)
	}
}

func (s *state) forget(q *queue, rows []int64) {
	s.forgetPartitions(q.partitions)
	s.cache.remove(rows)
	s.scheduled.forget(q)
	delete(s.names, q.Name)
	delete(s.queues, q.ID)
}
