package blackbox

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"
)

// decodeBody returns what a pulled message holds.
func decodeBody(m CfPulled) string {
	if m.ContentType() == "text" {
		return m.Body
	}
	b, err := base64.StdEncoding.DecodeString(m.Body)
	if err != nil {
		return fmt.Sprintf("no base64: %.40q", m.Body)
	}
	return string(b)
}

// drain settles everything in a queue, through one protocol after the other, until none of them
// finds anything.
func (l *load) drain(ctx context.Context, queue string) error {
	ways := []func(context.Context, string) (int, error){l.drainQueen, l.drainQuerator, l.drainCf}
	for idle, way := 0, 0; idle < len(ways); way = (way + 1) % len(ways) {
		n, err := ways[way](ctx, queue)
		if err != nil {
			return fmt.Errorf("drain %s: %w", queue, err)
		}
		if idle++; n > 0 {
			idle = 0
		}
	}
	return nil
}

func (l *load) drainQueen(ctx context.Context, queue string) (int, error) {
	claimed := time.Now()
	batch, err := l.Queen.Pop(ctx, queue, "", popQuery(500, 60, 0, ""))
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	var ids []string
	var acks []QueenAck
	for _, m := range batch {
		ids = append(ids, l.ledger.Delivered(string(m.Data), claimed))
		acks = append(acks, QueenAck{TransactionID: m.TransactionID, PartitionID: m.PartitionID, LeaseID: m.LeaseID})
	}
	return len(batch), l.settle(ids, func() (bool, error) {
		out, err := l.Queen.Ack(ctx, "", acks...)
		for i := range out {
			if !out[i].Success {
				return false, fmt.Errorf("ack %d: %s", i, *out[i].Error)
			}
		}
		return true, err
	})
}

func (l *load) drainQuerator(ctx context.Context, queue string) (int, error) {
	claimed := time.Now()
	lease, err := l.Querator.Lease(ctx, queue, "drain", 500, 11*time.Millisecond)
	if err != nil || len(lease.Items) == 0 {
		return 0, err
	}
	var ids, messages []string
	for _, item := range lease.Items {
		ids, messages = append(ids, item.ID), append(messages, l.ledger.Delivered(string(item.Bytes), claimed))
	}
	return len(ids), l.settle(messages, func() (bool, error) {
		return true, l.Querator.Complete(ctx, queue, lease.Partition, ids...)
	})
}

func (l *load) drainCf(ctx context.Context, queue string) (int, error) {
	claimed := time.Now()
	messages, err := l.Cf.Pull(ctx, queue, 100, 60_000)
	if err != nil || len(messages) == 0 {
		return 0, err
	}
	var acks, ids []string
	for _, m := range messages {
		acks, ids = append(acks, m.LeaseID), append(ids, l.ledger.Delivered(decodeBody(m), claimed))
	}
	return len(acks), l.cfAck(ctx, queue, acks, ids, nil)
}

// drainAll empties the pipeline, the poison and then every queue.
func (l *load) drainAll(ctx context.Context, queues ...string) error {
	if err := l.poison.drain(ctx, l.Clients); err != nil {
		return fmt.Errorf("drain the poison: %w", err)
	}
	for {
		n, err := l.pipe.move(ctx, l.Clients, 0)
		if err != nil {
			return fmt.Errorf("drain the pipeline: %w", err)
		}
		if n == 0 {
			break
		}
	}
	for _, queue := range queues {
		if err := l.drain(ctx, queue); err != nil {
			return err
		}
	}
	return nil
}
