package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/core"
)

// fromStretches finds the segments that hold the offsets of several stretches, each with its number.
const fromStretches = ` FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS k(partition, low, high, most, n)
	CROSS JOIN LATERAL (SELECT * FROM segments g WHERE g.partition = k.partition AND g.first <= k.high AND g.first + g.count > k.low
	AND g.first >= coalesce((SELECT o.first FROM segments o WHERE o.partition = k.partition AND o.first <= k.low ORDER BY o.first DESC LIMIT 1), 0)
	ORDER BY g.first LIMIT k.most) s`

// newHeader is the header of a segment but for those that are known, which $5 and $6 name.
const newHeader = `k.n, s.first, s.count, s.appended_at, s.before_messages, s.before_bytes, s.before_created,
	CASE WHEN (s.partition, s.first) NOT IN (SELECT * FROM unnest($5::bigint[], $6::bigint[])) THEN s.header END`

const selectStretches = "SELECT " + newHeader + fromStretches

// selectMessages reads bodies too, but for those that are known and large ones of which only a part is wanted.
const selectMessages = "SELECT " + newHeader + `,
	CASE WHEN (s.partition, s.first) NOT IN (SELECT * FROM unnest($7::bigint[], $8::bigint[])) AND (octet_length(s.body) <= 65536
	OR 4 * (least(k.high, s.first + s.count - 1) - greatest(k.low, s.first) + 1) >= s.count) THEN s.body END` + fromStretches

// stretches returns the arguments of the statements above.
func stretches(ranges []core.HeadersParams) []any {
	c := newColumns(len(ranges), 3)
	most := make([]*int64, len(ranges))
	for i, r := range ranges {
		c.set(i, int64(r.Partition), r.From, r.To)
		most[i] = limited(r.Limit)
	}
	return c.args(most)
}

// scanSegment reads what the statements above say of a segment.
func scanSegment(r pgx.Rows, ranges []core.HeadersParams, more ...any) (n int, g segment, err error) {
	h := &g.bare
	err = r.Scan(append([]any{&n, &h.First, &g.count, &h.AppendedAt, &h.Before.Messages, &h.Before.Bytes, &h.Before.Created, &g.header}, more...)...)
	if err == nil {
		n--
		h.Partition = ranges[n].Partition
	}
	return n, g, err
}

func (s *Store) prefetch(ctx context.Context, q querier, ranges []core.HeadersParams) ([][]core.SegmentHeader, error) {
	out := make([][]core.SegmentHeader, len(ranges))
	if len(ranges) == 0 {
		return out, nil
	}
	k := s.cache.find(ranges)
	err := rows(ctx, q, selectStretches, func(r pgx.Rows) error {
		n, said, err := scanSegment(r, ranges)
		if err != nil {
			return err
		}
		g, err := s.cache.learn(k, said)
		if err == nil {
			out[n] = append(out[n], g.whole())
		}
		return err
	}, append(stretches(ranges), k.keys, k.firsts)...)
	return out, err
}

// Read implements core.Log.
func (s *Store) Read(ctx context.Context, p core.ReadParams) ([]core.Message, error) {
	out, err := s.ReadAll(ctx, []core.ReadParams{p})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// ReadAll implements core.Shared.
func (s *Store) ReadAll(ctx context.Context, list []core.ReadParams) (out [][]core.Message, err error) {
	if out, ok := s.recallMessages(list); ok {
		return out, nil
	}
	err = s.reading(ctx, "read", func(q session) (err error) {
		out, err = s.readAll(ctx, q, list)
		return err
	})
	return out, err
}

// recallMessages returns messages that were just leased, where all of them are remembered.
func (s *Store) recallMessages(list []core.ReadParams) ([][]core.Message, bool) {
	out := make([][]core.Message, len(list))
	for i, p := range list {
		if !p.Leased || p.Bytes > 0 {
			return nil, false
		}
		for _, run := range p.Offsets {
			found, ok, err := s.cache.whole(p.Partition, run.First, run.Last)
			if !ok || err != nil {
				return nil, false
			}
			for _, g := range found {
				h := g.whole()
				from, to := int(max(run.First-h.First, 0)), int(min(run.Last, g.last())-h.First)
				low, high := core.BodyRange(h.Messages, from, to)
				if high > int64(len(g.body)) {
					return nil, false
				}
				ms, err := core.DecodeMessages(&h, from, to, g.body[low:high])
				if err != nil {
					return nil, false
				}
				out[i] = append(out[i], ms...)
			}
		}
	}
	return out, true
}

// readAhead is how many segments of a stretch one statement reads at most where a number of bytes ends the reading.
const readAhead = 64

// wantedPart is what is wanted of one segment.
type wantedPart struct {
	// at is the index of the answer that it belongs to.
	at     int
	header core.SegmentHeader
	body   []byte
	i, j   int
}

// readAll reads with one statement, and a second one where a small part of a large body is wanted. What a number of bytes ends is
// read bit by bit.
func (s *Store) readAll(ctx context.Context, q querier, list []core.ReadParams) ([][]core.Message, error) {
	out := make([][]core.Message, len(list))
	var ranges []core.HeadersParams
	var at []int
	for i, p := range list {
		if p.Bytes > 0 {
			ms, err := readSome(ctx, q, &p)
			if err != nil {
				return nil, err
			}
			out[i] = ms
			continue
		}
		for _, run := range p.Offsets {
			ranges = append(ranges, core.HeadersParams{Partition: p.Partition, From: run.First, To: run.Last})
			at = append(at, i)
		}
	}
	parts, err := s.findParts(ctx, q, ranges)
	if err != nil {
		return nil, err
	}
	for i := range parts {
		parts[i].at = at[parts[i].at]
	}
	return out, finishParts(ctx, q, parts, out)
}

// findParts returns the segments of stretches, with the number of the stretch.
func (s *Store) findParts(ctx context.Context, q querier, ranges []core.HeadersParams) ([]wantedPart, error) {
	if len(ranges) == 0 {
		return nil, nil
	}
	var parts []wantedPart
	k := s.cache.find(ranges)
	err := s.fetchBodies(ctx, q, k)
	if err != nil {
		return nil, err
	}
	err = rows(ctx, q, selectMessages, func(r pgx.Rows) error {
		var body []byte
		n, said, err := scanSegment(r, ranges, &body)
		if err != nil {
			return err
		}
		said.body, said.read = body, true
		g, err := s.cache.learn(k, said)
		if err != nil {
			return err
		}
		h, want := g.whole(), &ranges[n]
		parts = append(parts, wantedPart{
			at: n, header: h, body: g.body, i: int(max(want.From-h.First, 0)), j: int(min(want.To-h.First, int64(len(h.Messages))-1)),
		})
		return nil
	}, append(stretches(ranges), k.keys, k.firsts, k.bodyKeys, k.bodyFirsts)...)
	return parts, err
}

// fetchBodies reads the large bodies that are worth keeping, each once however many read from it.
func (s *Store) fetchBodies(ctx context.Context, q querier, k *known) error {
	if len(k.readKeys) == 0 {
		return nil
	}
	return rows(ctx, q, `SELECT s.partition, s.first, s.body FROM unnest($1::bigint[], $2::bigint[]) AS k(partition, first)
		CROSS JOIN LATERAL (SELECT * FROM segments g WHERE g.partition = k.partition AND g.first = k.first OFFSET 0) s`, func(r pgx.Rows) error {
		var key [2]int64
		var body []byte
		err := r.Scan(&key[0], &key[1], &body)
		if err == nil {
			s.cache.keep(k, key, body)
		}
		return err
	}, k.readKeys, k.readFirsts)
}

// finishParts reads the bodies that are still missing, and puts the messages into the answers, in order.
func finishParts(ctx context.Context, q querier, parts []wantedPart, out [][]core.Message) error {
	var missing []*wantedPart
	for i := range parts {
		p := &parts[i]
		if p.body == nil {
			missing = append(missing, p)
			continue
		}
		from, to := core.BodyRange(p.header.Messages, p.i, p.j)
		if to > int64(len(p.body)) {
			return core.Errorf(core.CodeFormat, "read", "a body of %d bytes is too short", len(p.body))
		}
		p.body = p.body[from:to]
	}
	if err := bodies(ctx, q, missing); err != nil {
		return err
	}
	for i := range parts {
		p := &parts[i]
		if p.body == nil {
			continue // deleted meanwhile
		}
		ms, err := core.DecodeMessages(&p.header, p.i, p.j, p.body)
		if err != nil {
			return err
		}
		out[p.at] = append(out[p.at], ms...)
	}
	return nil
}

// bodies reads of each segment no more than what is wanted.
func bodies(ctx context.Context, q querier, parts []*wantedPart) error {
	if len(parts) == 0 {
		return nil
	}
	c := newColumns(len(parts), 4)
	for n, p := range parts {
		from, to := core.BodyRange(p.header.Messages, p.i, p.j)
		c.set(n, int64(p.header.Partition), p.header.First, from+1, to-from)
	}
	return rows(ctx, q, `SELECT k.n, substring(s.body FROM k.low::int FOR k.bytes::int)
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS k(partition, first, low, bytes, n)
		CROSS JOIN LATERAL (SELECT * FROM segments g WHERE g.partition = k.partition AND g.first = k.first OFFSET 0) s`, func(r pgx.Rows) error {
		var n int
		var body []byte
		err := r.Scan(&n, &body)
		parts[n-1].body = body
		return err
	}, c.args()...)
}

// readSome reads until a number of bytes is reached.
func readSome(ctx context.Context, q querier, p *core.ReadParams) ([]core.Message, error) {
	out := make([][]core.Message, 1)
	budget := p.Bytes
	for _, run := range p.Offsets {
		for from := run.First; from <= run.Last; {
			hs, err := headers(ctx, q, core.HeadersParams{Partition: p.Partition, From: from, To: run.Last, Limit: readAhead})
			if err != nil {
				return nil, err
			}
			if len(hs) == 0 {
				break
			}
			parts, full := choose(hs, run, &budget, len(out[0]) > 0)
			if err := finishParts(ctx, q, parts, out); err != nil {
				return nil, err
			}
			if full {
				return out[0], nil
			}
			from = hs[len(hs)-1].Last() + 1
		}
	}
	return out[0], nil
}

// choose returns the parts of segments that lie in a run and fit the budget; full tells that something did not fit.
func choose(hs []core.SegmentHeader, run core.Run, budget *int64, some bool) (parts []wantedPart, full bool) {
	for n := range hs {
		h := &hs[n]
		i, last := int(max(run.First-h.First, 0)), int(min(run.Last-h.First, int64(len(h.Messages))-1))
		part := wantedPart{header: *h, i: i, j: i - 1}
		for k := i; k <= last && !full; k++ {
			from, to := core.BodyRange(h.Messages[k:], 0, 0)
			if to-from > *budget && some {
				full = true
				break
			}
			*budget -= to - from
			part.j, some = k, true
		}
		if part.j >= part.i {
			parts = append(parts, part)
		}
		if full {
			break
		}
	}
	return parts, full
}
