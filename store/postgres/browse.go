package postgres

import (
	"context"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/internal/placing"
)

// Rows implements core.Browser.
func (s *Store) Rows(ctx context.Context, p core.RowsParams) ([]core.RowSummary, error) {
	const op = "rows"
	const where = ` IN (SELECT key FROM partitions WHERE queue = $1) AND ($2::bytea = '' OR grp = $2)`
	list, err := s.wholeRows(ctx, op, "f.partition"+where, "b.partition"+where, id(p.Queue), []byte(p.Group))
	out := make([]core.RowSummary, 0, len(list))
	for i := range list {
		out = append(out, core.Summarize(list[i].Key, list[i].Frontier, list[i].Batches, p.Now))
	}
	return out, err
}

// wholeRows reads rows with their batches in one snapshot, by partition and group. Rows that exist only to be locked are
// left out.
func (s *Store) wholeRows(ctx context.Context, op, whereRows, whereBatches string, args ...any) (out []core.Row, err error) {
	err = s.reading(ctx, op, func(q session) error {
		out = nil
		batches := map[core.RowKey][]core.Batch{}
		b := &pgx.Batch{}
		b.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
		b.Queue(selectBatches+" WHERE "+whereBatches+" ORDER BY b.first, b.id", args...).Query(func(r pgx.Rows) error {
			return each(r, func(r pgx.Rows) error {
				key, b, err := scanBatch(r)
				batches[key] = append(batches[key], b)
				return err
			})
		})
		b.Queue(`SELECT f.partition, f.grp, f.moved, f."offset", f.retries, f.last_turn, f.next_batch, f.before_messages,
			f.before_bytes, f.before_created, f.moved_at FROM frontiers f WHERE `+whereRows+" ORDER BY f.partition, f.grp", args...).
			Query(func(r pgx.Rows) error {
				return each(r, func(r pgx.Rows) error {
					var row core.Row
					err := scanRow(r, &row)
					if row.Batches = batches[row.Key]; row.Exists || len(row.Batches) > 0 {
						out = append(out, row)
					}
					return err
				})
			})
		b.Queue("COMMIT")
		return q.SendBatch(ctx, b).Close()
	})
	return out, err
}

// Batches implements core.Browser.
func (s *Store) Batches(ctx context.Context, key core.RowKey) ([]core.Batch, core.Frontier, error) {
	const op = "batches"
	list, err := s.wholeRows(ctx, op, "f.partition = $1 AND f.grp = $2", "b.partition = $1 AND b.grp = $2", int64(key.Partition), []byte(key.Group))
	if err != nil || len(list) == 0 {
		return nil, core.Frontier{}, err
	}
	return list[0].Batches, list[0].Frontier, nil
}

func (s *Store) scheduled(ctx context.Context, op, where string, args ...any) ([]core.ScheduledSegment, error) {
	return collect(ctx, s, op, scanScheduled,
		"SELECT seq, due, partition, count, messages, bytes, created, expires, sources, header, body FROM schedule "+where, args...)
}

func scanScheduled(r pgx.Rows) (core.ScheduledSegment, error) {
	e := core.ScheduledSegment{Segment: core.NewSegment{Know: -1}}
	n, t := &e.Segment, &e.Segment.Totals
	var sources []byte
	err := r.Scan(&e.Seq, &e.Due, &n.Partition, &n.Count, &t.Messages, &t.Bytes, &t.Created, &n.Expires, &sources, &n.Header, &n.Body)
	if err != nil {
		return e, err
	}
	n.Sources, err = placing.DecodeSources(sources)
	return e, err
}

// Scheduled implements core.Browser.
func (s *Store) Scheduled(ctx context.Context, p core.ScheduledParams) ([]core.ScheduledSegment, error) {
	return s.scheduled(ctx, "scheduled", "WHERE partition = $1 AND seq > $2 ORDER BY seq LIMIT $3", int64(p.Partition), p.After, limited(p.Limit))
}

// Due implements core.Sweeping.
func (s *Store) Due(ctx context.Context, now core.Time, limit int) ([]core.ScheduledSegment, error) {
	return s.scheduled(ctx, "due", "WHERE due <= $1 ORDER BY due, seq LIMIT $2", int64(now), limited(limit))
}

// ScheduledTotals implements core.Browser.
func (s *Store) ScheduledTotals(ctx context.Context, queue uuid.UUID) (map[core.PartitionKey]core.Totals, error) {
	const op = "scheduled totals"
	out := map[core.PartitionKey]core.Totals{}
	_, err := collect(ctx, s, op, func(r pgx.Rows) (key core.PartitionKey, err error) {
		var t core.Totals
		err = r.Scan(&key, &t.Messages, &t.Bytes, &t.Created)
		out[key] = t
		return key, err
	}, `SELECT partition, sum(messages)::bigint, sum(bytes)::bigint, sum(created)::bigint FROM schedule
		WHERE partition IN (SELECT key FROM partitions WHERE queue = $1) GROUP BY partition`, id(queue))
	return out, err
}

const selectDeadLetters = `SELECT id, queue, partition, grp, error, retries, failed_at, "offset", appended_at, header, body FROM dead_letters`

func scanDeadLetter(r pgx.Rows) (core.DeadLetter, error) {
	var d core.DeadLetter
	var group, text, header, body []byte
	h := core.SegmentHeader{}
	err := r.Scan((*[16]byte)(&d.ID), (*[16]byte)(&d.Queue), &d.Partition, &group, &text, &d.Retries, &d.FailedAt,
		&h.First, &h.AppendedAt, &header, &body)
	if err != nil {
		return d, err
	}
	d.Group, d.Error = string(group), string(text)
	if h.Messages, err = core.DecodeHeaders(header, 1); err != nil {
		return d, err
	}
	ms, err := core.DecodeMessages(&h, 0, 0, body)
	if err != nil {
		return d, err
	}
	d.Message = ms[0]
	return d, nil
}

// DeadLetters implements core.Browser.
func (s *Store) DeadLetters(ctx context.Context, f core.DeadLetterFilter) ([]core.DeadLetter, int64, error) {
	const op = "dead letters"
	where, args := deadLetterConditions(&f)
	totals, err := collect(ctx, s, op, scanNumber, "SELECT count(*) FROM dead_letters"+where, args...)
	if err != nil {
		return nil, 0, err
	}
	n := len(args)
	page := " ORDER BY failed_at DESC, id LIMIT $" + strconv.Itoa(n+1) + " OFFSET $" + strconv.Itoa(n+2)
	out, err := collect(ctx, s, op, scanDeadLetter, selectDeadLetters+where+page, append(args, limited(f.Limit), int64(max(f.Offset, 0)))...)
	return out, totals[0], err
}

func scanNumber(r pgx.Rows) (n int64, err error) {
	err = r.Scan(&n)
	return n, err
}

func deadLetterConditions(f *core.DeadLetterFilter) (where string, args []any) {
	var list []string
	add := func(wanted bool, condition string, arg any) {
		if wanted {
			args = append(args, arg)
			list = append(list, condition+"$"+strconv.Itoa(len(args)))
		}
	}
	add(f.Queue != uuid.Nil, "queue = ", id(f.Queue))
	add(f.Partition != 0, "partition = ", int64(f.Partition))
	add(f.Group != "", "grp = ", []byte(f.Group))
	add(f.TransactionID != "", "transaction_id = ", []byte(f.TransactionID))
	add(f.From != 0, "failed_at >= ", int64(f.From))
	add(f.To != 0, "failed_at <= ", int64(f.To))
	if len(list) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(list, " AND "), args
}
