package blackbox

import (
	"context"
	"time"
)

// queratorShared is a Querator consumer: it completes, gives back at once, gives back for later,
// or forgets.
func (m *mixed) queratorShared(ctx context.Context, who string) func() error {
	return func() error {
		c := newClaim(who)
		lease, err := m.Querator.Lease(ctx, mixedQueue, who, m.dice.upTo(12), 100*time.Millisecond)
		if err != nil || len(lease.Items) == 0 {
			return err
		}
		c.answered = time.Now()
		var done, messages []string
		var back []QueratorRetry
		for _, item := range lease.Items {
			id := m.ledger.Delivered(string(item.Bytes), c.sent)
			m.attempts.Add(id, item.Attempts)
			fate := m.dice.upTo(100)
			m.held(" "+id, c, fate <= 95)
			switch {
			case fate <= 85:
				done, messages = append(done, item.ID), append(messages, id)
			case fate <= 90:
				back = append(back, QueratorRetry{ID: item.ID})
			case fate <= 95:
				back = append(back, QueratorRetry{ID: item.ID, At: time.Now().Add(400 * time.Millisecond)})
			default:
				m.count("querator forgotten", 1)
			}
		}
		m.count("querator deliveries", len(lease.Items))
		return m.queratorSettle(ctx, lease.Partition, done, messages, back)
	}
}

func (m *mixed) queratorSettle(ctx context.Context, partition int, done, messages []string, back []QueratorRetry) error {
	if len(done) > 0 {
		m.ledger.Settling(messages...)
		ok, err := stillLeased(m.Querator.Complete(ctx, mixedQueue, partition, done...))
		switch {
		case err != nil:
			return err
		case ok:
			m.ledger.Settled(messages...)
		default:
			m.ledger.NotSettled(messages...)
			m.count("querator too late", len(done))
		}
	}
	if len(back) > 0 {
		ok, err := stillLeased(m.Querator.Retry(ctx, mixedQueue, partition, back...))
		if err != nil {
			return err
		}
		if ok {
			m.count("querator retries", len(back))
		}
	}
	return nil
}

// late is an acknowledgement that a Cloudflare consumer sends when its lease is long over.
type late struct {
	lease, id string
	due       time.Time
}

// cfShared is a Cloudflare consumer: it acknowledges, also much too late, retries with and without
// a delay, or forgets.
func (m *mixed) cfShared(ctx context.Context, who string) func() error {
	var lates []late
	return func() error {
		for len(lates) > 0 && time.Now().After(lates[0].due) {
			m.count("cloudflare late acks", 1)
			if err := m.cfSettle(ctx, []string{lates[0].lease}, []string{lates[0].id}, nil); err != nil {
				return err
			}
			lates = lates[1:]
		}
		c := newClaim(who)
		messages, err := m.Cf.Pull(ctx, mixedQueue, m.dice.upTo(12), int(mixedHold/time.Millisecond))
		if err != nil {
			return err
		}
		if len(messages) == 0 {
			time.Sleep(3 * time.Millisecond)
			return nil
		}
		c.answered = time.Now()
		var acks, ids []string
		var retries []CfRetry
		for _, msg := range messages {
			id := m.ledger.Delivered(decodeBody(msg), c.sent)
			m.attempts.Add(id, msg.Attempts)
			fate := m.dice.upTo(100)
			m.held(" "+id, c, fate <= 92)
			switch {
			case fate <= 85:
				acks, ids = append(acks, msg.LeaseID), append(ids, id)
			case fate <= 92:
				delay := m.dice.upTo(2) - 1
				retries = append(retries, CfRetry{LeaseID: msg.LeaseID, DelaySeconds: &delay})
			case fate <= 96:
				lates = append(lates, late{msg.LeaseID, id, c.sent.Add(mixedHold * 3 / 2)})
			default:
				m.count("cloudflare forgotten", 1)
			}
		}
		m.count("cloudflare deliveries", len(messages))
		return m.cfSettle(ctx, acks, ids, retries)
	}
}

func (m *mixed) cfSettle(ctx context.Context, acks, ids []string, retries []CfRetry) error {
	m.ledger.Settling(ids...)
	out, err := m.Cf.Ack(ctx, mixedQueue, acks, retries...)
	if err != nil {
		return err
	}
	if out.AckCount != len(acks) {
		m.ledger.Fault("%d of %d acks counted: %v", out.AckCount, len(acks), out.Warnings)
	}
	m.ledger.Settled(ids...)
	m.count("cloudflare retries", out.RetryCount)
	return nil
}
