package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/internal/placing"
)

// Update implements core.Ledger. One server owns the store, so the lock on what Update reads and writes is s.writing.
func (s *Store) Update(ctx context.Context, p core.UpdateParams, fn func(core.Tx) (*core.ChangeSet, error)) ([]core.Placed, error) {
	const op = "update"
	if err := s.enterWriting(ctx, op); err != nil {
		return nil, err
	}
	defer s.leaveWriting()
	for attempt := 0; ; attempt++ {
		t, err := s.loadTx(p)
		if err != nil {
			return nil, classify(op, err)
		}
		c, err := fn(t)
		if err != nil {
			return nil, err
		}
		if c.Empty() {
			return nil, nil
		}
		u, err := s.planUpdate(p.Now, t, c)
		if core.CodeOf(err) == core.CodeConflict && attempt == 0 && u == nil {
			continue // a head that moved: fn looks again
		}
		if err != nil {
			return nil, classify(op, err)
		}
		if err := s.commitUpdate(p.Commit, u); err != nil {
			return nil, err
		}
		return u.placed, nil
	}
}

func (s *Store) commitUpdate(id uuid.UUID, u *update) error {
	t := &transaction{op: "update", id: id, write: u.write, apply: u.apply}
	if len(u.appended.Rows) > 0 {
		u.appended.commit = id[:]
		t.firstRow = u.appended.firstRow
	}
	if err := s.commit(t); err != nil {
		return err
	}
	s.behind.appended(len(u.appended.Rows), u.appended.Bytes+len(u.rows)*512)
	return nil
}

// tx is what fn of an Update sees.
type tx struct {
	s    *Store
	rows map[core.RowKey]*core.Row
	// plans are the rows in memory that were asked for.
	plans map[core.RowKey]*rowPlan
}

// loadTx copies the rows that an Update asks for.
func (s *Store) loadTx(p core.UpdateParams) (*tx, error) {
	t := &tx{s: s, rows: make(map[core.RowKey]*core.Row, len(p.Rows)), plans: make(map[core.RowKey]*rowPlan, len(p.Rows))}
	for _, req := range mergeRequests(p.Rows) {
		part := s.state.partitions[req.Key.Partition]
		if part == nil {
			t.rows[req.Key] = nil
			continue
		}
		if err := s.loadRows(part); err != nil {
			return nil, err
		}
		r := part.rows[req.Key.Group]
		if r == nil {
			r = &row{key: req.Key}
		}
		out := &core.Row{Key: req.Key, Log: part.log, Exists: r.exists, Frontier: r.frontier}
		out.Batches, out.Rest = r.batches.load(&req, &r.frontier, p.Now)
		t.rows[req.Key], t.plans[req.Key] = out, newRowPlan(r)
	}
	return t, nil
}

// mergeRequests makes one request of several for the same row.
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
		a.Due = max(a.Due, r.Due)
		if a.Lease == uuid.Nil {
			a.Lease = r.Lease
		}
	}
	return out
}

// Row implements core.Tx.
func (t *tx) Row(key core.RowKey) *core.Row { return t.rows[key] }

// Headers implements core.Tx.
func (t *tx) Headers(p core.PartitionKey, first, last int64) ([]core.SegmentHeader, error) {
	db, c, places, err := t.s.find("headers", core.HeadersParams{Partition: p, From: first, To: last}, true)
	if err != nil {
		return nil, err
	}
	out, err := headersAt(db, c, p, places)
	return out, classify("headers", err)
}

// Read implements core.Tx.
func (t *tx) Read(p core.PartitionKey, offsets core.Runs) ([]core.Message, error) {
	return t.s.read("read", core.ReadParams{Partition: p, Offsets: offsets}, true)
}

// Log implements core.Tx.
func (t *tx) Log(p core.PartitionKey) (core.LogState, bool) { return t.s.state.logOf(p) }

// DeadLetter implements core.Tx.
func (t *tx) DeadLetter(id uuid.UUID) (d core.DeadLetter, ok bool, err error) {
	err = t.s.db.query(selectDeadLetters+" WHERE id = ?", func(r *sql.Rows) error {
		ok = true
		d, err = scanDeadLetter(r)
		return err
	}, id[:])
	return d, ok, classify("dead letter", err)
}

// Prefetch implements core.Tx.
func (t *tx) Prefetch(ranges []core.HeadersParams) ([][]core.SegmentHeader, error) {
	out := make([][]core.SegmentHeader, len(ranges))
	for i := range ranges {
		got, err := t.Headers(ranges[i].Partition, ranges[i].From, ranges[i].To)
		if err != nil {
			return nil, err
		}
		out[i] = got
	}
	return out, nil
}

// Catalog implements core.Tx. Nobody shares the store.
func (t *tx) Catalog() int64 { return 0 }

// Recalled implements core.TxEntries.
func (*tx) Recalled() bool { return false }

// Scheduled implements core.Tx.
func (t *tx) Scheduled(seqs []int64) ([]int64, error) {
	list, err := json.Marshal(seqs)
	if err != nil {
		return nil, core.WrapError(core.CodeInternal, "scheduled", err)
	}
	there := make(map[int64]bool, len(seqs))
	err = t.s.db.query("SELECT seq FROM schedule WHERE seq IN (SELECT value FROM json_each(?))", func(r *sql.Rows) error {
		var seq int64
		err := r.Scan(&seq)
		there[seq] = true
		return err
	}, string(list))
	return slices.DeleteFunc(slices.Clone(seqs), func(seq int64) bool { return !there[seq] }), classify("scheduled", err)
}

// update is a change set about to be written.
type update struct {
	s        *Store
	now      core.Time
	c        *core.ChangeSet
	placed   []core.Placed
	appended *appending
	rows     []*rowPlan
	purged   []*purging
	lastSeq  int64
	// unscheduled is what write found of the schedule's entries that go.
	unscheduled []taken
}

// planUpdate checks a change set against memory and decides what to write. A conflict without an update is a moved head.
func (s *Store) planUpdate(now core.Time, t *tx, c *core.ChangeSet) (*update, error) {
	const op = "update"
	if err := placing.Check(op, c.Segments); err != nil {
		return nil, err
	}
	u := &update{s: s, now: now, c: c, lastSeq: s.state.lastSeq}
	u.placed, _ = placing.Admit(c.Segments, s.state.logOf)
	if err := placing.AllIn(op, u.placed); err != nil {
		return nil, err
	}
	if err := s.state.check(t, c); err != nil {
		return u, err
	}
	logs := make(map[core.PartitionKey]core.LogState, len(c.Purge))
	for _, key := range c.Purge {
		if err := u.planPurge(t, key, logs); err != nil {
			return u, err
		}
	}
	u.appended = &appending{Plan: placing.New(now, c.Segments, u.placed, s.state.logOf, logs), firstRow: s.state.nextRow}
	return u, u.planRows(t)
}

// planRows takes in the changes of single rows, after those that purges made.
func (u *update) planRows(t *tx) error {
	seen := map[*rowPlan]bool{}
	for _, r := range u.rows {
		seen[r] = true
	}
	for i := range u.c.Rows {
		r := t.plans[u.c.Rows[i].Key]
		r.change(&u.c.Rows[i])
		if !seen[r] {
			seen[r] = true
			u.rows = append(u.rows, r)
		}
	}
	for _, r := range u.rows {
		if r.twoExclusives() {
			return core.Errorf(core.CodeConflict, "update", "row %d/%q would have two exclusive leases", r.row.key.Partition, r.row.key.Group)
		}
	}
	return nil
}

// check refuses a change set that names what does not exist.
func (s *state) check(t *tx, c *core.ChangeSet) error {
	const op = "update"
	for i := range c.Rows {
		key := c.Rows[i].Key
		if _, asked := t.rows[key]; !asked {
			return core.Errorf(core.CodeInternal, op, "row %d/%q is written but was not locked", key.Partition, key.Group)
		}
		if s.partitions[key.Partition] == nil {
			return core.Errorf(core.CodeNoPartition, op, "partition %d does not exist", key.Partition)
		}
	}
	for i := range c.Schedule {
		seg := &c.Schedule[i].Segment
		if s.partitions[seg.Partition] == nil {
			return core.Errorf(core.CodeNoPartition, op, "partition %d does not exist", seg.Partition)
		}
		if err := placing.Check(op, []core.NewSegment{*seg}); err != nil {
			return err
		}
	}
	for i := range c.DeadLetters {
		if s.partitions[c.DeadLetters[i].Partition] == nil {
			return core.Errorf(core.CodeNoPartition, op, "partition %d does not exist", c.DeadLetters[i].Partition)
		}
	}
	for i := range c.Register {
		if s.queues[c.Register[i].Queue] == nil {
			return core.Errorf(core.CodeNoQueue, op, "queue %s does not exist", c.Register[i].Queue)
		}
	}
	return nil
}
