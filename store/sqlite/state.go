package sqlite

import (
	"database/sql"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// state is what memory holds of the database. It is made anew from the file after a failed commit.
type state struct {
	queues     map[uuid.UUID]*queue
	names      map[string]uuid.UUID
	partitions map[core.PartitionKey]*partition
	lastKey    core.PartitionKey
	lastSeq    int64

	// nextRow is the row id of the next segment; row ids are never used twice. nextBlock, nextFrontier and nextSlot count
	// the rows of segment_blocks, frontiers and commits.
	nextRow, nextBlock, nextFrontier, nextSlot int64
	// watermark is the segment row up to which the index is written.
	watermark int64
	// dirty are the partitions that changed since their index was written.
	dirty map[*partition]bool

	resolve  timeHeap[*row]
	expiries timeHeap[*partition]
	cache    *cache

	scheduled scheduled
}

type queue struct {
	core.Queue
	options    []byte // Options as JSON, so that nobody shares their pointers
	partitions []*partition
	byName     map[string]*partition
}

type partition struct {
	core.Partition
	log core.LogState
	index
	rows map[string]*row
	// rowsLoaded tells that rows holds all groups of the partition and not only those with a time to meet.
	rowsLoaded bool
	expiry     heapEntry
}

func (q *queue) value() (core.Queue, error) {
	v := q.Queue
	v.Options = core.QueueOptions{}
	err := json.Unmarshal(q.options, &v.Options)
	return v, core.WrapError(core.CodeFormat, "decode queue options", err)
}

func (q *queue) add(p *partition) {
	q.partitions = append(q.partitions, p)
	q.byName[p.Name] = p
}

// load reads what a start needs: catalog, logs, the newest segments' places and what has a time to meet.
func load(db *database, cacheBytes int64) (*state, error) {
	s := &state{
		queues: map[uuid.UUID]*queue{}, names: map[string]uuid.UUID{}, partitions: map[core.PartitionKey]*partition{},
		dirty: map[*partition]bool{}, cache: newCache(cacheBytes),
	}
	for _, part := range []func(*database) error{
		s.loadMeta, s.loadQueues, s.loadPartitions, s.loadLogs, s.loadNewSegments, s.loadResolve,
	} {
		if err := part(db); err != nil {
			return nil, err
		}
	}
	for _, p := range s.partitions {
		s.expiries.set(p, p.minExpires())
	}
	return s, nil
}

func (s *state) loadMeta(db *database) error {
	values := map[string]int64{}
	err := db.query("SELECT name, value FROM meta", func(r *sql.Rows) error {
		var name string
		var value int64
		err := r.Scan(&name, &value)
		values[name] = value
		return err
	})
	s.watermark, s.lastKey, s.lastSeq = values["watermark"], core.PartitionKey(values["partition_key"]), values["schedule_seq"]
	if err != nil {
		return err
	}
	return db.query(`SELECT max(coalesce((SELECT max(id) FROM segments), 0), ?) + 1,
		coalesce((SELECT max(id) FROM segment_blocks), 0) + 1, coalesce((SELECT max(id) FROM frontiers), 0) + 1`,
		func(r *sql.Rows) error { return r.Scan(&s.nextRow, &s.nextBlock, &s.nextFrontier) }, s.watermark)
}

func (s *state) loadQueues(db *database) error {
	const query = "SELECT id, name, version, origin, created_at, updated_at, options FROM queues"
	return db.query(query, func(r *sql.Rows) error {
		q := &queue{byName: map[string]*partition{}}
		var name sql.RawBytes
		err := r.Scan((*blobID)(&q.ID), &name, &q.Version, &q.Origin, &q.CreatedAt, &q.UpdatedAt, &q.options)
		q.Name = string(name)
		s.queues[q.ID], s.names[q.Name] = q, q.ID
		return err
	})
}

func (s *state) loadPartitions(db *database) error {
	const query = "SELECT key, id, queue, name, ordinal, created_at FROM partitions ORDER BY key"
	return db.query(query, func(r *sql.Rows) error {
		p := newPartition(core.Partition{})
		p.loaded, p.rowsLoaded = false, false
		var name sql.RawBytes
		if err := r.Scan(&p.Key, (*blobID)(&p.ID), (*blobID)(&p.Queue), &name, &p.Ordinal, &p.CreatedAt); err != nil {
			return err
		}
		p.Name = string(name)
		q := s.queues[p.Queue]
		if q == nil {
			return core.Errorf(core.CodeFormat, "load partitions", "partition %d has no queue", p.Key)
		}
		q.add(p)
		s.partitions[p.Key] = p
		return nil
	})
}

func newPartition(p core.Partition) *partition {
	return &partition{Partition: p, log: core.LogState{Start: 1}, index: index{loaded: true}, rowsLoaded: true}
}

func (s *state) loadLogs(db *database) error {
	const query = `SELECT partition, start, head, head_at, start_messages, start_bytes, start_created,
		head_messages, head_bytes, head_created, indexed, min_expires FROM partition_logs`
	return db.query(query, func(r *sql.Rows) error {
		var key core.PartitionKey
		var l core.LogState
		var indexed int64
		var expires core.Time
		st, ht := &l.StartTotals, &l.HeadTotals
		err := r.Scan(&key, &l.Start, &l.Head, &l.HeadAt, &st.Messages, &st.Bytes, &st.Created,
			&ht.Messages, &ht.Bytes, &ht.Created, &indexed, &expires)
		if p := s.partitions[key]; p != nil {
			p.log, p.written, p.unloadedExpires = l, indexed, expires
		}
		return err
	})
}

// loadNewSegments finds the segments that the written index does not cover.
func (s *state) loadNewSegments(db *database) error {
	const query = `SELECT id, partition, first, count, appended_at, expires, before_messages + messages,
		before_bytes + bytes, before_created + created FROM segments WHERE id > ? ORDER BY id`
	return db.query(query, func(r *sql.Rows) error {
		var row, first, count int64
		var key core.PartitionKey
		var at, expires core.Time
		var after core.Totals
		if err := r.Scan(&row, &key, &first, &count, &at, &expires, &after.Messages, &after.Bytes, &after.Created); err != nil {
			return err
		}
		p := s.partitions[key]
		if p == nil || first <= p.written {
			return nil
		}
		p.add(place{row: row, first: first, count: count}, fromStored(expires))
		s.dirty[p] = true
		if last := first + count - 1; last > p.log.Head {
			p.log.Head, p.log.HeadAt, p.log.HeadTotals = last, at, after
		}
		return nil
	}, s.watermark)
}

// loadResolve finds the rows that have a deadline or a new turn to meet; their batches are read on first touch.
func (s *state) loadResolve(db *database) error {
	const query = `SELECT f.partition, f.grp, min(b.until) FROM batches b JOIN frontiers f ON f.id = b.frontier
		WHERE b.state = 0 OR b.state = 1 AND b.redraw = 1 GROUP BY f.id`
	return db.query(query, func(r *sql.Rows) error {
		var key core.PartitionKey
		var group sql.RawBytes
		var until core.Time
		err := r.Scan(&key, &group, &until)
		if p := s.partitions[key]; p != nil {
			stub := p.stub(string(group))
			s.resolve.set(stub, until)
		}
		return err
	})
}

// blobID reads a uuid from a BLOB.
type blobID uuid.UUID

// Scan implements sql.Scanner.
func (id *blobID) Scan(v any) error {
	b, ok := v.([]byte)
	if !ok || len(b) != len(id) {
		return core.Errorf(core.CodeFormat, "read id", "not an id of 16 bytes")
	}
	copy(id[:], b)
	return nil
}
