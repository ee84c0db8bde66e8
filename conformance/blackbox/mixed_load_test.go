package blackbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// mixed is the one queue of TestMixed with everybody who works on it.
type mixed struct {
	*Clients
	dice     *dice
	ledger   *Ledger
	holds    *Holds
	attempts *Attempts
	// journals are by consumer group and partition.
	journals sync.Map

	did sync.Map
}

const (
	mixedQueue = "mixed"
	// auditGroup is a second consumer group, which only exclusive consumers use.
	auditGroup = "audit"
	// autoGroup is a third one, whose only consumer settles with the claim itself.
	autoGroup       = "auto"
	mixedPartitions = 4
	// mixedHold is how long every lease lasts.
	mixedHold = time.Second
)

// count counts what happened, by a word for it.
func (m *mixed) count(what string, n int) {
	v, _ := m.did.LoadOrStore(what, &atomic.Int64{})
	v.(*atomic.Int64).Add(int64(n))
}

func (m *mixed) counted() map[string]int64 {
	out := map[string]int64{}
	m.did.Range(func(k, v any) bool {
		out[k.(string)] = v.(*atomic.Int64).Load()
		return true
	})
	return out
}

func (m *mixed) journal(group, partition string) *Journal {
	v, _ := m.journals.LoadOrStore([2]string{group, partition}, &Journal{})
	return v.(*Journal)
}

// produce pushes a few messages by one of the ways in, as one producer who waits for each answer.
func (m *mixed) produce(ctx context.Context, way string, send func(context.Context, []string) error) func() error {
	n := 0
	return func() error {
		ids := make([]string, m.dice.upTo(10))
		for i := range ids {
			n++
			ids[i] = fmt.Sprintf("%s-%07d", way, n)
		}
		m.ledger.Pushing(ids...)
		if err := send(ctx, ids); err != nil {
			return err
		}
		m.ledger.Pushed(ids...)
		m.count("pushed", len(ids))
		time.Sleep(time.Duration(m.dice.upTo(20)) * time.Millisecond)
		return nil
	}
}

// producers are one per way in, and per partition by Queen.
func (m *mixed) producers(ctx context.Context) []func() error {
	byQueen := func(partition int) func(context.Context, []string) error {
		return func(ctx context.Context, ids []string) error {
			items := make([]QueenItem, len(ids))
			for i, id := range ids {
				items[i] = QueenItem{Queue: mixedQueue, Partition: strconv.Itoa(partition), Payload: Payload(id)}
			}
			return m.Queen.Push(ctx, items...)
		}
	}
	byQuerator := func(ctx context.Context, ids []string) error {
		items := make([]QueratorItem, len(ids))
		for i, id := range ids {
			items[i] = QueratorItem{Encoding: "json", Bytes: []byte(Payload(id))}
		}
		return m.Querator.Produce(ctx, mixedQueue, items...)
	}
	byCf := func(ctx context.Context, ids []string) error {
		messages := make([]CfMessage, len(ids))
		for i, id := range ids {
			messages[i] = CfMessage{Body: Payload(id)}
		}
		return m.Cf.Push(ctx, mixedQueue, messages...)
	}
	all := make([]func() error, 0, 2+mixedPartitions)
	all = append(all, m.produce(ctx, "querator", byQuerator), m.produce(ctx, "cf", byCf))
	for partition := range mixedPartitions {
		all = append(all, m.produce(ctx, fmt.Sprintf("queen%d", partition), byQueen(partition)))
	}
	return all
}

// claim is what is known of a claim for certain: messages were held from its answer on, for the
// time of a lease that began no earlier than the claim was sent.
type claim struct {
	who                   string
	sent, answered, until time.Time
}

func newClaim(who string) claim {
	now := time.Now()
	return claim{who: who, sent: now, until: now.Add(mixedHold)}
}

// held notes that a message was held until now, when its settlement is about to be sent, or to the
// end of the lease when it is not settled at all.
func (m *mixed) held(key string, c claim, settled bool) {
	until := c.until
	if now := time.Now(); settled && now.Before(until) {
		until = now
	}
	m.holds.Add(key, c.who, c.answered, until)
}

// exclusive is a Queen consumer of a group.
func (m *mixed) exclusive(ctx context.Context, who, group string) func() error {
	return func() error {
		query := popQuery(m.dice.upTo(12), int(mixedHold/time.Second), 100, group)
		query.Set("partitions", strconv.Itoa(m.dice.upTo(2)))
		c := newClaim(who)
		messages, err := m.Queen.Pop(ctx, mixedQueue, "", query)
		if err != nil {
			return err
		}
		c.answered = time.Now()
		time.Sleep(time.Duration(m.dice.upTo(5)) * time.Millisecond)
		byPartition := map[string][]QueenMessage{}
		for _, msg := range messages {
			byPartition[msg.PartitionID] = append(byPartition[msg.PartitionID], msg)
		}
		for _, batch := range byPartition {
			if err := m.exclusiveSettle(ctx, c, group, batch); err != nil {
				return err
			}
		}
		return nil
	}
}

// exclusiveSettle settles a batch of one partition up to somewhere, and what is there goes well,
// fails, is to be tried again, or is forgotten.
func (m *mixed) exclusiveSettle(ctx context.Context, c claim, group string, batch []QueenMessage) error {
	ids := make([]string, len(batch))
	for i, msg := range batch {
		ids[i] = PayloadID(string(msg.Data))
		if group == "" {
			m.ledger.Delivered(string(msg.Data), c.sent)
		}
	}
	entry := m.journal(group, batch[0].Partition).Delivered(ids)
	m.count("queen"+group+" deliveries", len(ids))
	if m.dice.within(1) {
		if err := m.extend(ctx, &c, batch[0].LeaseID); err != nil {
			return err
		}
	}
	done, then := len(batch), ""
	if fate := m.dice.upTo(100); fate <= 20 {
		done = m.dice.upTo(len(batch)+1) - 1
		// Whoever neither settles nor gives back keeps the others out to the end of the lease.
		then = []string{"retry", "failed", ""}[min(fate/9, 2)]
	}
	var acks []QueenAck
	ack := func(i int, status string) {
		acks = append(acks, QueenAck{
			TransactionID: batch[i].TransactionID, PartitionID: batch[i].PartitionID, LeaseID: batch[i].LeaseID, Status: status,
		})
	}
	if done > 0 {
		ack(done-1, "completed")
	}
	over := done == len(batch)
	if !over && then != "" {
		ack(done, then)
		over = true
	}
	for i, id := range ids {
		m.held(group+" "+id, c, i < done || over)
	}
	if group != "" {
		m.held("partition "+batch[0].Partition, c, over)
	}
	if len(acks) == 0 {
		m.count("queen"+group+" forgotten", len(ids))
		return nil
	}
	return m.exclusiveAck(ctx, group, entry, ids[:done], acks)
}

// extend extends a lease before it ends, and sleeps until long after that. The server's lease is over
// no earlier than the client believes.
func (m *mixed) extend(ctx context.Context, c *claim, lease string) error {
	sent := time.Now()
	if !sent.Before(c.until.Add(-mixedHold / 2)) {
		return nil // too late to be sure
	}
	ok, err := m.Queen.Extend(ctx, lease, 3*int(mixedHold/time.Second))
	if err != nil {
		return err
	}
	if !ok && time.Now().Before(c.until) {
		m.ledger.Fault("a live lease could not be extended")
	}
	if ok {
		time.Sleep(time.Until(c.until.Add(mixedHold / 2)))
		c.until = sent.Add(3 * mixedHold)
		m.count("queen extended", 1)
	}
	return nil
}

// auto is the consumer of the group that settles with the claim. It never sees a message twice.
func (m *mixed) auto(ctx context.Context) func() error {
	return func() error {
		query := popQuery(m.dice.upTo(50), 0, 100, autoGroup)
		query.Set("autoAck", "true")
		messages, err := m.Queen.Pop(ctx, mixedQueue, "", query)
		if err != nil || len(messages) == 0 {
			return err
		}
		m.autoSettled(messages)
		return nil
	}
}

func (m *mixed) autoSettled(messages []QueenMessage) {
	ids := make([]string, len(messages))
	for i, msg := range messages {
		ids[i] = PayloadID(string(msg.Data))
		if msg.LeaseID != "" {
			m.ledger.Fault("a message that was settled with its claim has a lease")
		}
	}
	entry := m.journal(autoGroup, messages[0].Partition).Delivered(ids)
	entry.Settling(len(ids))
	entry.Settled(len(ids), true)
	m.count("queenauto deliveries", len(ids))
}

// exclusiveAck sends acknowledgements of which the first completes ids, when there are any.
func (m *mixed) exclusiveAck(ctx context.Context, group string, entry *JournalBatch, ids []string, acks []QueenAck) error {
	entry.Settling(len(ids))
	if group == "" {
		m.ledger.Settling(ids...)
	}
	out, err := m.Queen.Ack(ctx, group, acks...)
	if err != nil {
		return err
	}
	done := out[0].Success
	for _, o := range out {
		late := o.Noop || !o.Success && strings.HasPrefix(*o.Error, "already committed")
		if late && group == "" {
			// A late acknowledgement by Cloudflare was faster. What this one did to the messages before
			// it cannot be known.
			m.count("queen behind", 1)
			return nil
		}
		if late || !o.Success && *o.Error != "invalid or expired lease" {
			m.ledger.Fault("ack under a lease of %q: %+v", group, o)
		}
	}
	entry.Settled(len(ids), done)
	switch {
	case group != "": // the ledger is about queue mode
	case done:
		m.ledger.Settled(ids...)
	default:
		m.ledger.NotSettled(ids...)
	}
	if !done {
		m.count("queen"+group+" too late", len(ids))
	}
	return nil
}
