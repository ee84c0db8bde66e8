package storetest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
)

// update writes a random change set to random rows.
func (m *machine) update(t *rapid.T) {
	p := core.UpdateParams{Commit: uuid.New(), Now: m.now}
	c := core.ChangeSet{Segments: m.segments(t, 2)}
	for i := range c.Segments {
		c.Segments[i].Know, c.Segments[i].Group = -1, 0
	}
	for range rapid.IntRange(0, 3).Draw(t, "rows") {
		req := m.request(t)
		p.Rows = append(p.Rows, req)
		if rapid.Bool().Draw(t, "change") {
			c.Rows = append(c.Rows, m.rowChange(t, req.Key))
		}
	}
	key := rapid.SampledFrom(m.keys).Draw(t, "partition")
	if rapid.IntRange(0, 9).Draw(t, "purge") == 0 {
		c.Purge = append(c.Purge, key)
	}
	if rapid.IntRange(0, 3).Draw(t, "free") == 0 {
		c.FreeSources = append(c.FreeSources, core.SourceKey{Partition: key, SourceID: "source"})
	}
	m.schedule(t, &c)
	m.deadLetters(t, &c, key)
	reg := core.Registration{Queue: rapid.SampledFrom(m.queues).Draw(t, "queue"), Group: rapid.SampledFrom(groups).Draw(t, "group"), Start: m.now}
	switch rapid.IntRange(0, 5).Draw(t, "register") {
	case 0:
		c.Register = append(c.Register, reg)
	case 1:
		c.Unregister = append(c.Unregister, core.RegistrationKey{Queue: reg.Queue, Group: reg.Group})
	}
	placed, err := both(t, m, func(s core.Store) ([]core.Placed, error) {
		return s.Update(m.b.ctx, p, func(tx core.Tx) (*core.ChangeSet, error) { return &c, m.sameRows(t, tx, s, p.Rows) })
	})
	if err == nil {
		m.placed(c.Segments, placed)
	}
}

var groups = []string{"g", "\x00", "g\x00"}

// sameRows keeps what the store shows of the rows and compares it with what the model shows after it.
func (m *machine) sameRows(t *rapid.T, tx core.Tx, s core.Store, rows []core.RowRequest) error {
	for i := range rows {
		r := tx.Row(rows[i].Key)
		if s == core.Store(m.model) {
			require.Equal(t, r, m.seen[i])
			continue
		}
		if i == 0 {
			m.seen = nil
		}
		m.seen = append(m.seen, r)
	}
	return nil
}

func (m *machine) request(t *rapid.T) core.RowRequest {
	req := core.RowRequest{Key: core.RowKey{
		Partition: rapid.SampledFrom(m.keys).Draw(t, "partition"), Group: rapid.SampledFrom(groups).Draw(t, "group"),
	}}
	switch rapid.IntRange(0, 4).Draw(t, "load") {
	case 0:
		req.All = true
	case 1:
		req.Due = rapid.IntRange(1, 3).Draw(t, "due")
	case 2:
		req.Lease = coretest.ID(rapid.IntRange(1, 3).Draw(t, "lease"))
	case 3:
		req.Offsets = rapid.SliceOfN(rapid.Int64Range(1, 30), 1, 3).Draw(t, "offsets")
	}
	return req
}

func (m *machine) rowChange(t *rapid.T, key core.RowKey) core.RowChange {
	c := core.RowChange{Key: key}
	switch rapid.IntRange(0, 7).Draw(t, "kind") {
	case 0:
		c.Drop = true
		return c
	case 1:
		c.DeleteAll = true
	case 2, 3, 4:
		c.Move = true
		c.Frontier = core.Frontier{
			Offset: rapid.Int64Range(0, 30).Draw(t, "offset"), Retries: 1, LastTurn: core.Turn(rapid.Uint64().Draw(t, "turn")),
			NextBatch: 9, MovedAt: m.now, Before: core.Totals{Messages: 1, Bytes: 2, Created: 3},
		}
	}
	c.Delete = rapid.SliceOfN(rapid.Int64Range(1, 5), 0, 2).Draw(t, "delete")
	seen := map[int64]bool{}
	for range rapid.IntRange(0, 2).Draw(t, "puts") {
		b := core.Batch{ID: rapid.Int64Range(1, 5).Draw(t, "id"), Attempts: 2, Protocol: core.ProtocolQueen}
		if seen[b.ID] {
			continue
		}
		seen[b.ID] = true
		b.First = rapid.Int64Range(1, 30).Draw(t, "first")
		b.Last = b.First + rapid.Int64Range(0, 9).Draw(t, "length")
		b.State = core.BatchState(rapid.IntRange(0, 2).Draw(t, "state")) //nolint:gosec // three of them
		b.Redraw = rapid.Bool().Draw(t, "redraw")
		b.Exclusive = rapid.IntRange(0, 2).Draw(t, "exclusive") == 0
		b.Until = m.now + core.Time(rapid.IntRange(-5, 30).Draw(t, "until"))
		b.Lease = coretest.ID(rapid.IntRange(1, 3).Draw(t, "lease"))
		b.Turn = core.Turn(rapid.IntRange(0, 1).Draw(t, "turned") * rapid.IntRange(1, 1<<22).Draw(t, "turn")) //nolint:gosec // positive
		if b.State != core.BatchEmpty {
			b.Pending = core.Runs{{First: b.First, Last: b.First}}.Add(core.Run{First: b.Last, Last: b.Last})
			b.Held = core.Totals{Messages: b.Pending.Count()}
		}
		c.Put = append(c.Put, b)
	}
	return c
}

func (m *machine) schedule(t *rapid.T, c *core.ChangeSet) {
	switch rapid.IntRange(0, 4).Draw(t, "schedule") {
	case 0:
		for _, n := range m.segments(t, 2) {
			due := m.now + core.Time(rapid.IntRange(0, 20).Draw(t, "due"))
			c.Schedule = append(c.Schedule, core.ScheduledSegment{Due: due, Segment: n})
		}
	case 1:
		due, err := m.model.Due(m.b.ctx, m.now+10, 3)
		require.NoError(t, err)
		for _, e := range due {
			c.Unschedule = append(c.Unschedule, e.Seq)
		}
	}
}

func (m *machine) deadLetters(t *rapid.T, c *core.ChangeSet, key core.PartitionKey) {
	switch rapid.IntRange(0, 5).Draw(t, "dead letters") {
	case 0:
		m.count++
		d := core.DeadLetter{
			ID: coretest.ID(m.count), Queue: rapid.SampledFrom(m.queues).Draw(t, "queue"), Partition: key, Group: "g", FailedAt: m.now,
			Message: m.encoded(coretest.Message(m.count, m.now)),
		}
		c.DeadLetters = append(c.DeadLetters, d)
	case 1:
		list, _, err := m.model.DeadLetters(m.b.ctx, core.DeadLetterFilter{Limit: 1})
		require.NoError(t, err)
		for i := range list {
			c.DropDeadLetters = append(c.DropDeadLetters, list[i].ID)
		}
	}
}

// encoded returns a message as it comes out of a log.
func (m *machine) encoded(msg core.Message) core.Message {
	n := coretest.Segment(1, msg)
	h := core.SegmentHeader{First: 5, AppendedAt: m.now}
	var err error
	h.Messages, err = core.DecodeHeaders(n.Header, 1)
	require.NoError(m, err)
	ms, err := core.DecodeMessages(&h, 0, 0, n.Body)
	require.NoError(m, err)
	return ms[0]
}
