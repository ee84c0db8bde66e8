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

// logs are the logs of some partitions as they were read.
type logs map[core.PartitionKey]core.LogState

func (l logs) of(key core.PartitionKey) (core.LogState, bool) {
	log, ok := l[key]
	return log, ok
}

const (
	selectLogs = "SELECT l.partition, " + logColumns + " FROM partition_logs l WHERE l.partition = ANY($1) ORDER BY l.partition"
	// lockLogs takes the rows, by key, for an append.
	lockLogs = selectLogs + " FOR NO KEY UPDATE"
)

func (l logs) scan(r pgx.Rows) error {
	var key core.PartitionKey
	var log core.LogState
	err := r.Scan(append([]any{&key}, logTargets(&log)...)...)
	l[key] = log
	return err
}

// readLogs reads the logs of partitions with one of the statements above.
func readLogs(ctx context.Context, tx session, query string, keys []int64) (logs, error) {
	out := logs{}
	if len(keys) == 0 {
		return out, nil
	}
	return out, rows(ctx, tx, query, out.scan, keys)
}

// keysOf returns the partitions of segments, each once.
func keysOf(segments []core.NewSegment) []int64 {
	keys := make([]int64, len(segments))
	for i := range segments {
		keys[i] = int64(segments[i].Partition)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Append implements core.Log.
func (s *Store) Append(ctx context.Context, p core.AppendParams) (out []core.Placed, err error) {
	const op = "append"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	if err := placing.Check(op, p.Segments); err != nil {
		return nil, err
	}
	if out, err = s.appendRecalled(ctx, &p); !errors.Is(err, errRecall) {
		return out, err
	}
	var found logs
	var newer map[core.PartitionKey][]core.SegmentHeader
	var plan *placing.Plan
	err = s.commit(ctx, &transaction{
		op: op, id: p.Commit,
		start: func(b *pgx.Batch) {
			found, newer = logs{}, map[core.PartitionKey][]core.SegmentHeader{}
			b.Queue(lockLogs, keysOf(p.Segments)).Query(func(r pgx.Rows) error { return each(r, found.scan) })
			queueNewer(b, &p, newer)
		},
		run: func(_ context.Context, _ session, t *transaction) error {
			segments, err := fillGaps(&p, found, newer)
			if err != nil {
				return err
			}
			var in bool
			if out, in = placing.Admit(segments, found.of); !in {
				return errNothing
			}
			plan = placing.New(p.Now, segments, out, found.of, nil)
			t.final.Queue(guardedLogs, s.guardedArgs(&p, plan, found)...)
			queueSources(t.final, plan)
			t.noted = true
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	if plan != nil {
		s.keepPlanned(plan, found)
		s.cache.appended(plan)
	}
	return out, nil
}

// queueNewer queues what reads the headers that segments do not know. Locks are taken before it, so that it finds them up to the head.
func queueNewer(b *pgx.Batch, p *core.AppendParams, newer map[core.PartitionKey][]core.SegmentHeader) {
	from := make(map[core.PartitionKey]int64, len(p.Segments))
	for i := range p.Segments {
		n := &p.Segments[i]
		if first, known := from[n.Partition]; n.Know >= 0 && (!known || n.Know < first) {
			from[n.Partition] = n.Know + 1
		}
	}
	if len(from) == 0 || p.Moved == nil {
		return
	}
	c := newColumns(len(from), 2)
	i := 0
	for key, first := range from {
		c.set(i, int64(key), first)
		i++
	}
	b.Queue(selectNewer, c.args()...).Query(func(r pgx.Rows) error {
		return each(r, func(r pgx.Rows) error {
			var h core.SegmentHeader
			err := scanHeader(r, &h, &h.Partition)
			newer[h.Partition] = append(newer[h.Partition], h)
			return err
		})
	})
}

// fillGaps asks what goes into partitions whose head moved.
func fillGaps(p *core.AppendParams, found logs, newer map[core.PartitionKey][]core.SegmentHeader) ([]core.NewSegment, error) {
	if p.Moved == nil {
		return p.Segments, nil
	}
	gaps := placing.Gaps(p.Segments, found.of)
	if len(gaps) == 0 {
		return p.Segments, nil
	}
	out, err := placing.Fill(p, gaps, found.of, func(g placing.Gap) ([]core.SegmentHeader, error) { return newer[g.Partition], nil })
	if err != nil {
		return nil, refusal{err}
	}
	return out, nil
}

// selectNewer reads headers from an offset on, which begins a segment: a head that was known ends one.
const selectNewer = `SELECT k.partition, s.first, s.count, s.appended_at, s.before_messages, s.before_bytes, s.before_created, s.header
	FROM unnest($1::bigint[], $2::bigint[]) AS k(partition, first)
	CROSS JOIN LATERAL (SELECT * FROM segments g WHERE g.partition = k.partition AND g.first >= k.first ORDER BY g.first) s`

func planned(plan *placing.Plan) []int64 {
	keys := make([]int64, 0, len(plan.Logs))
	for key := range plan.Logs {
		keys = append(keys, int64(key))
	}
	slices.Sort(keys) // the order of all locks
	return keys
}

// queueAppend queues the statements that write what was planned; the logs are locked.
func queueAppend(b *pgx.Batch, plan *placing.Plan) {
	if len(plan.Rows) > 0 {
		b.Queue(insertSegments, segmentArgs(plan)...)
		queueSources(b, plan)
	}
	if n := len(plan.Logs); n > 0 {
		queueLogs(b, plan)
	}
}

func queueSources(b *pgx.Batch, plan *placing.Plan) {
	var sourceKeys, offsets []int64
	var sources [][]byte
	for _, r := range plan.Rows {
		g := &r.Segment
		for _, src := range g.Sources {
			sourceKeys = append(sourceKeys, int64(g.Partition))
			sources = append(sources, []byte(src.SourceID))
			offsets = append(offsets, r.First+int64(src.Index))
		}
	}
	if len(sources) > 0 {
		// The last one wins where a source id comes twice in one commit.
		b.Queue(`INSERT INTO sources (partition, source_id, "offset") SELECT DISTINCT ON (p, s) p, s, o
			FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS x(p, s, o) ORDER BY p, s, o DESC
			ON CONFLICT (partition, source_id) DO UPDATE SET "offset" = excluded."offset"`, sourceKeys, sources, offsets)
	}
}

// insertSegments writes segments. Their headers and bodies come as one value: an array of them would be copied twice more by the server.
const insertSegments = `INSERT INTO segments (partition, first, count, appended_at, expires, before_messages, before_bytes, before_created, header, body)
	SELECT partition, first, count, appended_at, expires, bm, bb, bc, substring($12::bytea, at::int, header::int), substring($12, (at + header)::int, body::int)
	FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
	$9::bigint[], $10::bigint[], $11::bigint[]) AS x(partition, first, count, appended_at, expires, bm, bb, bc, at, header, body)`

// segmentArgs returns the arguments of insertSegments.
func segmentArgs(plan *placing.Plan) []any {
	c := newColumns(len(plan.Rows), 11)
	bytes := make([]byte, 0, plan.Bytes)
	for i, r := range plan.Rows {
		g := &r.Segment
		c.set(i, int64(g.Partition), r.First, int64(g.Count), int64(r.At), int64(g.Expires), r.Before.Messages, r.Before.Bytes, r.Before.Created,
			int64(len(bytes)+1), int64(len(g.Header)), int64(len(g.Body)))
		bytes = append(append(bytes, g.Header...), g.Body...)
	}
	return c.args(bytes)
}

// updateLogs writes logs, which are locked.
const updateLogs = `UPDATE partition_logs l SET start = x.start, head = x.head, head_at = x.head_at, start_messages = x.sm, start_bytes = x.sb,
	start_created = x.sc, head_messages = x.hm, head_bytes = x.hb, head_created = x.hc
	FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
	$9::bigint[], $10::bigint[]) AS x(partition, start, head, head_at, sm, sb, sc, hm, hb, hc)
	CROSS JOIN LATERAL (SELECT ctid FROM partition_logs y WHERE y.partition = x.partition OFFSET 0) AS y(place) WHERE l.ctid = y.place`

func queueLogs(b *pgx.Batch, plan *placing.Plan) {
	c := newColumns(len(plan.Logs), 10)
	i := 0
	for key, l := range plan.Logs {
		st, ht := &l.State.StartTotals, &l.State.HeadTotals
		c.set(i, int64(key), l.State.Start, l.State.Head, int64(l.State.HeadAt), st.Messages, st.Bytes, st.Created, ht.Messages, ht.Bytes, ht.Created)
		i++
	}
	b.Queue(updateLogs, c.args()...)
}

// columns are arrays for unnest.
type columns [][]int64

func newColumns(rows, n int) columns {
	c := make(columns, n)
	for i := range c {
		c[i] = make([]int64, rows)
	}
	return c
}

func (c columns) set(row int, values ...int64) {
	for i, v := range values {
		c[i][row] = v
	}
}

// args returns the arrays, and more after them, as arguments.
func (c columns) args(more ...any) []any {
	out := make([]any, 0, len(c)+len(more))
	for i := range c {
		out = append(out, c[i])
	}
	return append(out, more...)
}

const selectHeaders = `SELECT first, count, appended_at, before_messages, before_bytes, before_created, header FROM segments
	WHERE partition = $1 AND first <= $3 AND first + count > $2
	AND first >= coalesce((SELECT max(first) FROM segments WHERE partition = $1 AND first <= $2), 0) ORDER BY first LIMIT $4`

// Headers implements core.Log.
func (s *Store) Headers(ctx context.Context, p core.HeadersParams) (out []core.SegmentHeader, err error) {
	const op = "headers"
	err = s.reading(ctx, op, func(q session) (err error) {
		out, err = headers(ctx, q, p)
		return err
	})
	return out, err
}

func headers(ctx context.Context, q querier, p core.HeadersParams) ([]core.SegmentHeader, error) {
	if p.To < p.From {
		return nil, nil
	}
	var out []core.SegmentHeader
	err := rows(ctx, q, selectHeaders, func(r pgx.Rows) error {
		h := core.SegmentHeader{Partition: p.Partition}
		err := scanHeader(r, &h)
		out = append(out, h)
		return err
	}, int64(p.Partition), p.From, p.To, limited(p.Limit))
	return out, err
}

// scanHeader reads a header whose columns come after others.
func scanHeader(r pgx.Rows, h *core.SegmentHeader, before ...any) error {
	var count int
	var header []byte
	err := r.Scan(append(before, &h.First, &count, &h.AppendedAt, &h.Before.Messages, &h.Before.Bytes, &h.Before.Created, &header)...)
	if err != nil {
		return err
	}
	h.Messages, err = core.DecodeHeaders(header, count)
	return err
}

// Locate implements core.Log.
func (s *Store) Locate(ctx context.Context, key core.PartitionKey, t core.Time) (int64, error) {
	const op = "locate"
	found, err := collect(ctx, s, op, scanNumber, `SELECT CASE WHEN head_at < $2 THEN head + 1 ELSE locate(partition, start, head, $2) END
		FROM partition_logs WHERE partition = $1`, int64(key), int64(t))
	switch {
	case err != nil:
		return 0, err
	case len(found) == 0:
		return 0, core.Errorf(core.CodeNoPartition, op, "partition %d does not exist", key)
	}
	return found[0], nil
}

// Source implements core.Log.
func (s *Store) Source(ctx context.Context, key core.PartitionKey, source string) (int64, error) {
	found, err := collect(ctx, s, "source", scanNumber, `SELECT "offset" FROM sources WHERE partition = $1 AND source_id = $2`,
		int64(key), []byte(source))
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return found[0], nil
}

// deadLetter reads a dead letter and keeps others from replaying or dropping it until the transaction has ended.
func deadLetter(ctx context.Context, q querier, dead uuid.UUID) (d core.DeadLetter, ok bool, err error) {
	err = rows(ctx, q, selectDeadLetters+" WHERE id = $1 FOR UPDATE", func(r pgx.Rows) error {
		ok = true
		d, err = scanDeadLetter(r)
		return err
	}, id(dead))
	return d, ok, err
}
