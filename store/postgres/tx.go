package postgres

import (
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/core"
)

// Row implements core.Tx.
func (u *update) Row(key core.RowKey) *core.Row { return u.rows[key] }

// Headers implements core.Tx.
func (u *update) Headers(p core.PartitionKey, first, last int64) ([]core.SegmentHeader, error) {
	out, err := headers(u.ctx, u.tx, core.HeadersParams{Partition: p, From: first, To: last})
	return out, classify("headers", err)
}

// Read implements core.Tx.
func (u *update) Read(p core.PartitionKey, offsets core.Runs) ([]core.Message, error) {
	out, err := u.s.readAll(u.ctx, u.tx, []core.ReadParams{{Partition: p, Offsets: offsets}})
	if err != nil {
		return nil, classify("read", err)
	}
	return out[0], nil
}

// Prefetch implements core.Tx.
func (u *update) Prefetch(ranges []core.HeadersParams) ([][]core.SegmentHeader, error) {
	out, err := u.s.prefetch(u.ctx, u.tx, ranges)
	return out, classify("prefetch", err)
}

// Log implements core.Tx. Logs of the rows that were asked for are at hand, others are looked up.
func (u *update) Log(p core.PartitionKey) (core.LogState, bool) {
	if log, ok := u.logs[p]; ok {
		return log, true
	}
	found, err := readLogs(u.ctx, u.tx, selectLogs, []int64{int64(p)})
	if err != nil {
		return core.LogState{}, false // the transaction is broken: its next statement says so
	}
	log, ok := found[p]
	if ok {
		u.logs[p] = log
	}
	return log, ok
}

// Catalog implements core.Tx.
func (u *update) Catalog() int64 { return u.catalog }

// Recalled implements core.TxEntries.
func (*update) Recalled() bool { return false }

// Scheduled implements core.Tx.
func (u *update) Scheduled(seqs []int64) ([]int64, error) {
	there := make(map[int64]bool, len(seqs))
	err := rows(u.ctx, u.tx, "SELECT seq FROM schedule WHERE seq = ANY($1) ORDER BY seq FOR UPDATE", func(r pgx.Rows) error {
		var seq int64
		err := r.Scan(&seq)
		there[seq] = true
		return err
	}, nonNil(seqs))
	return slices.DeleteFunc(slices.Clone(seqs), func(seq int64) bool { return !there[seq] }), classify("scheduled", err)
}

// DeadLetter implements core.Tx.
func (u *update) DeadLetter(dead uuid.UUID) (core.DeadLetter, bool, error) {
	d, ok, err := deadLetter(u.ctx, u.tx, dead)
	return d, ok, classify("dead letter", err)
}
