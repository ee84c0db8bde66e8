package postgres

import (
	"errors"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// errRecall tells that what is remembered is not enough for a commit, or no longer true: it is made again with what the database says.
var errRecall = errors.New("what is remembered does not do")

// recalled is an update that is decided by what is remembered; it is what fn sees then. Where it is asked for more, missed is set, and what
// fn did is of no account.
type recalled struct {
	s       *Store
	history string
	catalog int64
	now     core.Time
	rows    map[core.RowKey]*core.Row
	known   map[core.RowKey]recalledRow
	logs    logs
	// claims are the partitions from which something may be claimed, and seen the segments there that fn looked at: they have to exist.
	claims map[core.PartitionKey]bool
	seen   map[[2]int64]bool
	missed bool
}

// Row implements core.Tx.
func (r *recalled) Row(key core.RowKey) *core.Row { return r.rows[key] }

// Headers implements core.Tx.
func (r *recalled) Headers(p core.PartitionKey, first, last int64) ([]core.SegmentHeader, error) {
	list, ok, err := r.s.cache.whole(p, first, last)
	if err != nil || !ok {
		r.missed = true
		return nil, errRecall
	}
	out := make([]core.SegmentHeader, len(list))
	for i, g := range list {
		out[i] = g.whole()
		if r.claims[p] {
			r.seen[[2]int64{int64(p), g.bare.First}] = true
		}
	}
	return out, nil
}

// Prefetch implements core.TxEntries: a look costs no round trip here.
func (*recalled) Prefetch([]core.HeadersParams) ([][]core.SegmentHeader, error) { return nil, nil }

// Log implements core.Tx.
func (r *recalled) Log(p core.PartitionKey) (core.LogState, bool) {
	log, ok := r.logs[p]
	r.missed = r.missed || !ok
	return log, ok
}

// Recalled implements core.TxEntries.
func (*recalled) Recalled() bool { return true }

// Catalog implements core.TxEntries.
func (r *recalled) Catalog() int64 { return r.catalog }

// Read implements core.Tx.
func (r *recalled) Read(core.PartitionKey, core.Runs) ([]core.Message, error) {
	r.missed = true
	return nil, errRecall
}

// Scheduled implements core.TxEntries.
func (r *recalled) Scheduled([]int64) ([]int64, error) {
	r.missed = true
	return nil, errRecall
}

// DeadLetter implements core.TxEntries.
func (r *recalled) DeadLetter(uuid.UUID) (core.DeadLetter, bool, error) {
	r.missed = true
	return core.DeadLetter{}, false, errRecall
}

// fits reports whether a change set is of the kind that is written on what is remembered: rows alone, without a new tail turn, which needs
// the head as it is.
func (r *recalled) fits(c *core.ChangeSet) bool {
	if r.missed || c.Empty() || len(c.Segments)+len(c.Purge)+len(c.Schedule)+len(c.Unschedule)+len(c.DeadLetters)+len(c.DropDeadLetters)+
		len(c.Records)+len(c.Register)+len(c.Unregister) > 0 {
		return false
	}
	for i := range c.Rows {
		in := &c.Rows[i]
		known, ok := r.known[in.Key]
		if !ok || in.Drop || in.DeleteAll || in.Move && in.Frontier.LastTurn != known.frontier.LastTurn {
			return false
		}
	}
	return r.s.Alone() || !r.reachesHead(c)
}

// reachesHead reports whether a claim may have ended at a head that is remembered: another gateway may have appended since, and have answered.
func (r *recalled) reachesHead(c *core.ChangeSet) bool {
	for i := range c.Rows {
		in := &c.Rows[i]
		reached := r.known[in.Key].frontier.Offset
		if in.Move {
			reached = in.Frontier.Offset
		}
		if p := in.Key.Partition; r.claims[p] && reached >= r.logs[p].Head {
			return true
		}
	}
	return false
}
