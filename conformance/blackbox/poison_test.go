package blackbox

import (
	"context"
	"time"
)

// The queue whose messages nobody can process, and where they end.
const (
	poisonQueue = "kill-poison"
	deadQueue   = "kill-dead"
	// poisonRetries is the queue's max_retries: one delivery more, then the message moves.
	poisonRetries = 2
)

// poison is messages that fail until they move to the dead letter queue. Each must be there exactly
// once, however often the server dies in between, and never more often delivered than allowed.
type poison struct {
	// ledger holds the dead letter queue against what was pushed to the other.
	ledger *Ledger
}

func newPoison() *poison { return &poison{NewLedger()} }

func (p *poison) push(ctx context.Context, c *Clients, ids []string) error {
	messages := make([]CfMessage, len(ids))
	for i, id := range ids {
		messages[i] = CfMessage{Body: Payload(id)}
	}
	p.ledger.Pushing(ids...)
	err := c.Cf.Push(ctx, poisonQueue, messages...)
	if err == nil {
		p.ledger.Pushed(ids...)
	} else if rejected(err) {
		p.ledger.NotPushed(ids...)
	}
	time.Sleep(10 * time.Millisecond)
	return err
}

// fail pulls a batch and gives it back.
func (p *poison) fail(ctx context.Context, c *Clients) error {
	_, err := p.failBatch(ctx, c)
	return err
}

func (p *poison) failBatch(ctx context.Context, c *Clients) (int, error) {
	claimed := time.Now()
	messages, err := c.Cf.Pull(ctx, poisonQueue, 50, holdSeconds*1000)
	if err != nil || len(messages) == 0 {
		return 0, err
	}
	retries := make([]CfRetry, len(messages))
	for i, m := range messages {
		retries[i] = CfRetry{LeaseID: m.LeaseID}
		if m.Attempts > poisonRetries+1 {
			p.ledger.Fault("delivery %d of %q", m.Attempts, PayloadID(decodeBody(m)))
		}
	}
	out, err := c.Cf.Ack(ctx, poisonQueue, nil, retries...)
	// Leases that ran out meanwhile may be somebody else's.
	if err == nil && out.RetryCount != len(retries) && time.Since(claimed) < holdSeconds*time.Second {
		p.ledger.Fault("%d of %d retries counted: %v", out.RetryCount, len(retries), out.Warnings)
	}
	return len(messages), err
}

// drain lets every message fail to its end, and takes the dead ones.
func (p *poison) drain(ctx context.Context, c *Clients) error {
	for {
		n, err := p.failBatch(ctx, c)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
	}
	for {
		claimed := time.Now()
		messages, err := c.Cf.Pull(ctx, deadQueue, 100, 60_000)
		if err != nil || len(messages) == 0 {
			return err
		}
		var acks, ids []string
		for _, m := range messages {
			acks, ids = append(acks, m.LeaseID), append(ids, p.ledger.Delivered(decodeBody(m), claimed))
			if m.Attempts != 1 {
				p.ledger.Fault("a dead letter that nobody had has attempt %d", m.Attempts)
			}
		}
		p.ledger.Settling(ids...)
		out, err := c.Cf.Ack(ctx, deadQueue, acks)
		if err != nil {
			return err
		}
		if out.AckCount == len(acks) {
			p.ledger.Settled(ids...)
		}
	}
}

// check returns the counts of the dead letters and what was wrong.
func (p *poison) check() (Counts, []string) {
	counts, faults := p.ledger.Close()
	if counts.Redeliveries > 0 {
		faults = append(faults, "a message is in the dead letter queue twice")
	}
	return counts, faults
}
