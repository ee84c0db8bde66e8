package blackbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMixed lets exclusive and shared consumers loose on one queue at once: two Queen groups, one
// of them shared with Querator and Cloudflare consumers. No message is leased twice at a time,
// Queen's order holds in each partition and group, and the others' attempts are exact.
func TestMixed(t *testing.T) {
	length := duration(t, "LEASEHOLD_MIXED_TIME", 3*time.Second)
	everywhere(t, func(t *testing.T, p *place) {
		server := p.start(t)
		m := &mixed{
			Clients: NewClients(server.Target), dice: newDice(t), ledger: NewLedger(), holds: NewHolds(), attempts: NewAttempts(),
		}
		prepareMixed(t, m)
		m.runFor(t, length)
		m.drainMixed(t)
		requireEmpty(t, m.Clients, mixedQueue)
		m.verdict(t, length)
		server.Stop(t)
		p.requireSound(t)
	})
}

func prepareMixed(t *testing.T, m *mixed) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, m.Querator.Create(ctx, QueratorQueue{
		Name: mixedQueue, LeaseTimeout: mixedHold.String(), ExpireTimeout: "24h", Partitions: mixedPartitions,
	}))
	require.NoError(t, m.Queen.Configure(ctx, mixedQueue, `{"retryLimit":1000000000}`))
	require.NoError(t, m.Cf.CreateConsumer(ctx, mixedQueue, CfConsumer{MaxRetries: 100}))
	// From here on the groups see everything.
	for _, group := range []string{auditGroup, autoGroup} {
		none, err := m.Queen.Pop(ctx, mixedQueue, "", popQuery(1, 1, 0, group))
		require.NoError(t, err)
		require.Empty(t, none)
	}
}

// runFor runs everybody for a while, and then the consumers a little longer.
func (m *mixed) runFor(t *testing.T, length time.Duration) {
	t.Helper()
	var producers, consumers sync.WaitGroup
	var stop, finish atomic.Bool
	loop := func(wg *sync.WaitGroup, end *atomic.Bool, step func() error) {
		wg.Go(func() {
			for !end.Load() {
				if err := step(); err != nil {
					m.ledger.Fault("request failed: %v", err)
					return
				}
			}
		})
	}
	ctx := t.Context()
	for _, step := range m.producers(ctx) {
		loop(&producers, &stop, step)
	}
	for i := range 3 {
		who := func(kind string) string { return fmt.Sprintf("%s-%d", kind, i) }
		loop(&consumers, &finish, m.exclusive(ctx, who("audit"), auditGroup))
		if i < 2 {
			loop(&consumers, &finish, m.exclusive(ctx, who("queen"), ""))
		}
		loop(&consumers, &finish, m.queratorShared(ctx, who("querator")))
		loop(&consumers, &finish, m.cfShared(ctx, who("cf")))
	}
	loop(&consumers, &finish, m.auto(ctx))
	time.Sleep(length)
	stop.Store(true)
	producers.Wait()
	finish.Store(true)
	consumers.Wait()
}

// drainMixed settles what is left, in both groups, once every lease and delay is over.
func (m *mixed) drainMixed(t *testing.T) {
	t.Helper()
	NewClock(m.Target).Advance(t, time.Minute)
	l := &load{Clients: m.Clients, ledger: m.ledger, dice: m.dice, name: "drain"}
	require.NoError(t, l.drain(t.Context(), mixedQueue))
	for n := 1; n > 0; {
		var err error
		n, err = m.drainAudit(t.Context())
		require.NoError(t, err)
	}
	query := popQuery(1000, 0, 0, autoGroup)
	query.Set("autoAck", "true")
	for {
		messages, err := m.Queen.Pop(t.Context(), mixedQueue, "", query)
		require.NoError(t, err)
		if len(messages) == 0 {
			return
		}
		m.autoSettled(messages)
	}
}

func (m *mixed) drainAudit(ctx context.Context) (int, error) {
	messages, err := m.Queen.Pop(ctx, mixedQueue, "", popQuery(1000, 60, 0, auditGroup))
	if err != nil || len(messages) == 0 {
		return 0, err
	}
	ids := make([]string, len(messages))
	for i, msg := range messages {
		ids[i] = PayloadID(string(msg.Data))
	}
	last := messages[len(messages)-1]
	entry := m.journal(auditGroup, last.Partition).Delivered(ids)
	return len(ids), m.exclusiveAck(ctx, auditGroup, entry, ids, []QueenAck{{
		TransactionID: last.TransactionID, PartitionID: last.PartitionID, LeaseID: last.LeaseID,
	}})
}

// verdict holds what everybody saw against the rules and prints the counts.
func (m *mixed) verdict(t *testing.T, length time.Duration) {
	t.Helper()
	counts, faults := m.ledger.Close()
	holds, overlaps := m.holds.Check()
	highest, wrong := m.attempts.Check()
	settled, disorder := m.orders()
	did := m.counted()
	report(t, map[string]any{
		"seconds": length.Seconds(), "counts": counts, "did": did, "holds": holds, "overlaps": len(overlaps),
		"attempts_wrong": len(wrong), "attempts_highest": highest, "disorder": len(disorder),
		"in_order": settled,
	})
	require.Empty(t, first(faults))
	require.Empty(t, first(overlaps))
	require.Empty(t, first(wrong))
	require.Empty(t, first(disorder))
	for _, group := range []string{auditGroup, autoGroup} {
		require.EqualValues(t, did["pushed"], settled[group], "messages that group %s settled, each once and in order", group)
	}
	require.Equal(t, did["pushed"], did["queenauto deliveries"], "settled with the claim, so never twice")
	for _, what := range []string{"queen", "queenaudit", "querator", "cloudflare"} {
		require.Positive(t, did[what+" deliveries"])
	}
	require.Positive(t, settled[""])
	require.Greater(t, highest, 1, "nothing was delivered twice")
}

func first(faults []string) []string { return faults[:min(len(faults), maxFaults)] }

// orders checks the order of all groups, and returns how many messages each settled. In queue mode
// only messages count that no shared consumer ever had: the others may have been to the tail.
func (m *mixed) orders() (settled map[string]int, faults []string) {
	settled = map[string]int{}
	m.journals.Range(func(k, v any) bool {
		key, j := k.([2]string), v.(*Journal)
		keep := func(string) bool { return true }
		if key[0] == "" {
			keep = func(id string) bool { return !m.attempts.Has(id) }
		}
		order, n, wrong := j.Check(keep)
		for _, w := range wrong {
			faults = append(faults, fmt.Sprintf("group %q, partition %s: %s", key[0], key[1], w))
		}
		faults = append(faults, producersOrder(order)...)
		settled[key[0]] += n
		return true
	})
	return settled, faults
}

// producersOrder checks that the messages of each producer are in the order in which they were
// pushed. Ids are a producer's name and a number of fixed width.
func producersOrder(order []string) (faults []string) {
	last := map[string]string{}
	for _, id := range order {
		producer, _, _ := strings.Cut(id, "-")
		if cmp.Compare(last[producer], id) >= 0 {
			faults = append(faults, fmt.Sprintf("%q came after %q", id, last[producer]))
		}
		last[producer] = id
	}
	return slices.Clip(faults)
}
