package core

import (
	"context"
	"slices"

	"github.com/google/uuid"
)

// headerAt reads the segment that holds an offset: from the store between commits, from the transaction inside one.
type headerAt func(partition PartitionKey, offset int64) ([]SegmentHeader, error)

func (e *Engine) storedHeader(ctx context.Context) headerAt {
	return func(p PartitionKey, off int64) ([]SegmentHeader, error) {
		return e.store.Headers(ctx, HeadersParams{Partition: p, From: off, To: off})
	}
}

// seen looks for an earlier message with the same transaction id inside the window. It names a request when that message goes into the commit being
// built.
func (e *Engine) seen(p *part, m *Message, since Time, header headerAt) (first flightRef, found bool, err error) {
	p.dedup.each(m.Hash, func(off int64) bool {
		if n := off - e.known(p); n > 0 {
			if n <= int64(len(p.flight)) && p.flight[n-1].transaction == m.TransactionID {
				first, found = p.flight[n-1], true
			}
			return !found
		}
		var segs []SegmentHeader
		if segs, err = header(p.Key, off); err != nil {
			return false
		}
		if len(segs) == 1 && segs[0].AppendedAt > since {
			if h := &segs[0].Messages[off-segs[0].First]; h.TransactionID == m.TransactionID {
				first, found = flightRef{id: h.ID}, true
			}
		}
		return !found
	})
	return first, found, err
}

// candidates returns the offsets that may carry a transaction id, ascending: found by hash, or for ids that the engine
// made by the time in them. What is older than the acknowledgement window is not found.
func (e *Engine) candidates(ctx context.Context, p *part, transaction string) ([]int64, error) {
	offs, err := e.recall(ctx, p, transaction)
	if err != nil || len(offs) > 0 || !e.shared {
		return offs, err
	}
	if err := e.look(ctx); err != nil { // another gateway may have appended it a moment ago
		return nil, err
	}
	return e.recall(ctx, p, transaction)
}

// recall looks for a transaction id in what the engine knows of the partition.
func (e *Engine) recall(ctx context.Context, p *part, transaction string) ([]int64, error) {
	hash := HashTransaction(transaction)
	found := make(chan []int64, 1)
	var failed error
	var look func(error)
	look = func(err error) {
		if err != nil {
			failed = err
			close(found)
			return
		}
		if !e.whenLoaded(p, 0, look) {
			return
		}
		var hits []int64
		p.dedup.each(hash, func(off int64) bool {
			hits = append(hits, off)
			return true
		})
		found <- hits
	}
	e.post(func() { look(nil) })
	var hits []int64
	select {
	case hits = <-found:
		if failed != nil {
			return nil, WrapError(CodeInternal, "ack", failed)
		}
	case <-e.stopped:
		return nil, errClosed("ack")
	}
	var offs []int64
	for _, off := range hits {
		segs, err := e.store.Headers(ctx, HeadersParams{Partition: p.Key, From: off, To: off})
		if err != nil {
			return nil, err
		}
		if len(segs) == 1 && segs[0].Messages[off-segs[0].First].TransactionID == transaction {
			offs = append(offs, off)
		}
	}
	if len(offs) > 0 {
		slices.Sort(offs)
		return offs, nil
	}
	id, invalid := uuid.Parse(transaction)
	if at, ok := MessageIDTime(id); ok && invalid == nil {
		if off, err := e.byTime(ctx, p, id, at); err != nil || off != 0 {
			return []int64{off}, err
		}
	}
	return nil, nil
}

// idSlack is how long after its making an id of ours is looked for in the log: the longest that a commit may take.
const idSlack = 10_000_000

// byTime finds a message by the id that the engine made for it.
func (e *Engine) byTime(ctx context.Context, p *part, id uuid.UUID, at Time) (int64, error) {
	if at.Add(p.entry.q().ageLimit()) < e.clock.Now() {
		return 0, nil
	}
	from, err := e.store.Locate(ctx, p.Key, at)
	if err != nil {
		return 0, err
	}
	for n := 0; n < 64; n++ {
		segs, err := e.store.Headers(ctx, HeadersParams{Partition: p.Key, From: from, To: from + MaxBatchSpan, Limit: 64})
		if err != nil || len(segs) == 0 {
			return 0, err
		}
		for i := range segs {
			if segs[i].AppendedAt > at+idSlack {
				return 0, nil
			}
			for j := range segs[i].Messages {
				if h := &segs[i].Messages[j]; h.ID == id && h.TransactionID == "" {
					return segs[i].First + int64(j), nil
				}
			}
		}
		from = segs[len(segs)-1].Last() + 1
	}
	return 0, nil
}
