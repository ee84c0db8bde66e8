package bench

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// consumers are what takes single messages out of a queue in this process: each claims one, reads it and settles it.
type consumers struct {
	l         *local
	queue     string
	parts     []core.Partition
	exclusive bool
}

// heldFor is longer than any measurement.
const heldFor = 10 * time.Minute

// fused lets the engine claim and settle, which commits together whatever is there.
func (c *consumers) fused(ctx context.Context, _, _ int) error {
	p := core.ClaimParams{Protocol: core.ProtocolQuerator, Queue: c.queue, Messages: 1, Partitions: 1, Lease: heldFor, Wait: time.Second}
	if c.exclusive {
		p.Protocol, p.Exclusive = core.ProtocolQueen, true
	}
	claimed, err := c.l.engine.Claim(ctx, p)
	if err != nil {
		return err
	}
	part := &claimed.Partitions[0]
	m := &part.Messages[0]
	if c.exclusive {
		acked, err := c.l.engine.Ack(ctx, []core.Ack{{
			Partition: part.Partition.ID, TransactionID: m.Transaction(), Group: core.QueueModeGroup, Status: core.AckCompleted, Lease: claimed.Lease,
		}})
		if err == nil {
			err = acked[0].Err
		}
		return err
	}
	ref := core.ItemRef{Offset: m.Offset, Turn: core.OwnTurn(m.Offset), Second: m.AppendedAt.Second()}
	return c.l.engine.SettleItems(ctx, core.SettleItemsParams{
		Queue: c.queue, Ordinal: part.Partition.Ordinal, Items: []core.ItemSettlement{{ItemRef: ref}},
	})
}

// alone claims and settles by commits of its own, on the same tables: what a server does that fuses nothing. Consumers of exclusive
// claims go over partitions that nobody else works on, so that none waits for another.
func (c *consumers) alone(ctx context.Context, client, round int) error {
	part := &c.parts[0]
	if c.exclusive {
		share := len(c.parts) / fusedClients
		part = &c.parts[client*share+round%share]
	}
	key := core.RowKey{Partition: part.Key, Group: core.QueueModeGroup}
	b := core.Batch{
		State: core.BatchLeased, Attempts: 1, Lease: uuid.New(), Exclusive: c.exclusive, Protocol: core.ProtocolQueen,
	}
	err := c.update(ctx, core.RowRequest{Key: key, Must: true}, func(tx core.Tx, now core.Time) (core.RowChange, error) {
		f := tx.Row(key).Frontier
		off := f.Offset + 1
		headers, err := tx.Headers(key.Partition, off, off)
		if err != nil || len(headers) == 0 {
			return core.RowChange{}, errors.Join(err, errUsedUp)
		}
		b.ID, b.First, b.Last, b.Pending, b.Until = f.NextBatch, off, off, core.Runs{{First: off, Last: off}}, now.Add(heldFor)
		before := f.Before
		f.Offset, f.NextBatch, f.MovedAt, f.Before = off, f.NextBatch+1, now, headers[0].TotalsUpto(off)
		b.Held = f.Before.Minus(before)
		return core.RowChange{Key: key, Move: true, Frontier: f, Put: []core.Batch{b}}, nil
	})
	if err != nil {
		return err
	}
	read, err := c.l.store.Read(ctx, core.ReadParams{Partition: key.Partition, Offsets: b.Pending, Leased: true})
	if err != nil || len(read) != 1 {
		return errors.Join(err, errUsedUp)
	}
	return c.update(ctx, core.RowRequest{Key: key, Must: true, Offsets: []int64{b.First}}, func(core.Tx, core.Time) (core.RowChange, error) {
		return core.RowChange{Key: key, Delete: []int64{b.ID}}, nil
	})
}

// errUsedUp ends a measurement that has nothing left to claim.
var errUsedUp = errors.New("the backlog is used up")

// update makes a commit that changes one row.
func (c *consumers) update(ctx context.Context, row core.RowRequest, fn func(core.Tx, core.Time) (core.RowChange, error)) error {
	now := c.l.engine.Now()
	_, err := c.l.store.Update(ctx, core.UpdateParams{Commit: uuid.New(), Now: now, Rows: []core.RowRequest{row}}, func(tx core.Tx) (*core.ChangeSet, error) {
		change, err := fn(tx, now)
		return &core.ChangeSet{Rows: []core.RowChange{change}}, err
	})
	return err
}
