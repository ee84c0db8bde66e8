package queen_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
)

// leaseRules are §6.2 to §6.5 and §6.7.
var leaseRules = []rule{
	{covers: "6.2 span", run: ruleSpan},
	{covers: "6.2 one lease", run: ruleOneLease},
	{covers: "6.2 shared id, 9.9, 8.2 consume.js renewal", run: ruleSharedID},
	{covers: "6.2 length, 6.13 leaseTime, 8.1 TestPopLeaseSecondsOverride", run: ruleLeaseLength},
	{covers: "6.2 expiry, 8.1 TestLeaseExpiryDoesNotChargeRetryBudget, 8.2 pop.js reconsume", run: ruleExpiry},
	{covers: "6.2 full", run: ruleFull},
	{covers: "6.3.1", run: ruleCandidates},
	{covers: "6.3.2, 8.2 pop.js multi-partition", run: ruleCaps},
	{covers: "6.3.3", run: ruleBudget},
	{covers: "6.3.4", run: ruleSkips},
	{covers: "6.3.5", run: ruleFair},
	{covers: "6.3.6", run: ruleNoticesExpiry},
	{covers: "6.4 commit, 6.4 noop", run: ruleAutoAck},
	{covers: "6.5 queue mode", run: ruleQueueMode},
	{covers: "6.5 registration", run: ruleRegistration},
	{covers: "6.5 precedence", run: rulePrecedence},
	{covers: "6.5 seeds, 8.2 subscription.js", run: ruleSeeds},
	{covers: "6.5 later partition, 8.1 TestSubscriptionNewLateCreatedPartition", run: ruleLaterPartition},
	{covers: "6.5 zones", run: ruleZones},
	{covers: "6.5 partition route", run: rulePartitionRoute},
	{covers: "6.7", run: ruleExtendDead},
	{covers: "8.2 subscription.js", options: queen.Options{SubscribeNew: true}, run: ruleServerDefault},
}

func ruleSpan(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1", "2", "3", "4", "5")
	p := b.pop(t, "/queue/q?batch=2")
	assert.Equal(t, []string{"1", "2"}, p.ids())
	b.ack(t, "", p.PartitionID, p.LeaseID, "2=completed")
	p = b.pop(t, "/queue/q?batch=2")
	assert.Equal(t, []string{"3", "4"}, p.ids(), "just past the cursor, without a gap")
	b.ack(t, "", p.PartitionID, p.LeaseID, "3=completed")
	b.clock.Advance(time.Hour)
	assert.Equal(t, []string{"4", "5"}, b.pop(t, "/queue/q?batch=9").ids())
}

func ruleOneLease(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1", "2")
	b.pushIDs(t, "q", "b", "3")
	first := b.pop(t, "/queue/q?batch=1&consumerGroup=g")
	second := b.pop(t, "/queue/q?batch=9&partitions=0&consumerGroup=g")
	assert.Equal(t, 1, second.PartitionsClaimed)
	assert.NotEqual(t, first.PartitionID, second.PartitionID)
	assert.Empty(t, b.pop(t, "/queue/q?consumerGroup=g").Messages, "skipped, neither waiting nor failing")
	assert.Len(t, b.pop(t, "/queue/q?batch=9&partitions=0&consumerGroup=h").Messages, 3, "groups are independent")
	assert.Len(t, b.pop(t, "/queue/q?batch=9&partitions=0").Messages, 3, "and queue mode is one")
}

func ruleSharedID(t *testing.T, b *broker) {
	t.Helper()
	for _, p := range []string{"a", "b", "c"} {
		b.pushIDs(t, "q", p, p)
	}
	p := b.pop(t, "/queue/q?partitions=3&leaseSeconds=10")
	require.Equal(t, 3, p.PartitionsClaimed)
	for _, m := range p.Messages {
		assert.Equal(t, p.LeaseID, m.LeaseID)
	}
	b.clock.Advance(9 * time.Second)
	assert.Contains(t, b.post(t, "/api/v1/lease/"+p.LeaseID+"/extend", `{"seconds":20}`, 200), `"success":true,"renewed":3,"newExpiresAt":"2026-01-02T03:04:34.000000Z"`)
	b.clock.Advance(19 * time.Second)
	assert.Empty(t, b.pop(t, "/queue/q?partitions=3").Messages, "one call held all three")
	b.ack(t, "", p.Messages[1].PartitionID, p.LeaseID, p.Messages[1].TransactionID+"=completed")
	assert.Contains(t, b.post(t, "/api/v1/lease/"+p.LeaseID+"/extend", "", 200), `"renewed":2`, "what is acked is not held any more")
}

func ruleLeaseLength(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "own", `"leaseTime":7`)
	b.configure(t, "configured", "")
	for queue, seconds := range map[string]int{"own": 7, "configured": 300, "implicit": 60} {
		b.pushIDs(t, queue, "a", "1")
		for _, lease := range []struct {
			query string
			held  int
		}{{"", seconds}, {"?leaseSeconds=0", seconds}, {"?leaseSeconds=-5", seconds}, {"?leaseSeconds=3", 3}, {"?leaseSeconds=1000", 1000}, {"", seconds}} {
			require.Len(t, b.pop(t, "/queue/"+queue+lease.query).Messages, 1, "%s%s", queue, lease.query)
			b.clock.Advance(time.Duration(lease.held)*time.Second - time.Microsecond)
			assert.Empty(t, b.pop(t, "/queue/"+queue).Messages, "%s%s: still held", queue, lease.query)
			b.clock.Advance(time.Microsecond)
		}
	}
}

func ruleExpiry(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"retryLimit":1,"leaseTime":10`)
	b.pushIDs(t, "q", "a", "1", "2", "3")
	for i := range 6 {
		p := b.pop(t, fmt.Sprintf("/queue/q?batch=%d", 1+i%3))
		assert.Equal(t, []string{"1", "2", "3"}[:1+i%3], p.ids(), "the same order, in another size")
		b.clock.Advance(10 * time.Second)
	}
	p := b.pop(t, "/queue/q?batch=3")
	assert.False(t, b.ack(t, "", p.PartitionID, p.LeaseID, "1=failed")[0].DLQ, "the budget is whole")
}

func ruleFull(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1", "2", "3")
	p := b.pop(t, "/queue/q?batch=2")
	assert.False(t, b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed")[0].LeaseReleased)
	assert.Empty(t, b.pop(t, "/queue/q").Messages)
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, "2=completed")[0].LeaseReleased)
	assert.Equal(t, []string{"3"}, b.pop(t, "/queue/q").ids())
	assert.Contains(t, b.post(t, "/api/v1/lease/"+p.LeaseID+"/extend", "{}", 200), `"renewed":0`)
}

func ruleCandidates(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"delayedProcessing":5`)
	b.pushIDs(t, "q", "leased", "1")
	b.pushIDs(t, "q", "done", "2")
	b.clock.Advance(5 * time.Second)
	p := b.pop(t, "/queue/q/partition/done")
	b.ack(t, "", p.PartitionID, p.LeaseID, "2=completed")
	b.pop(t, "/queue/q/partition/leased")
	b.pushIDs(t, "q", "young", "3")
	assert.Empty(t, b.pop(t, "/queue/q?partitions=0&batch=9").Messages, "leased, done and young")
	b.clock.Advance(5 * time.Second)
	assert.Equal(t, []string{"3"}, b.pop(t, "/queue/q?partitions=0&batch=9").ids())
}

func ruleCaps(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "empty", "x")
	b.pop(t, "/queue/q/partition/empty?autoAck=true&consumerGroup=c")
	for i := range 6 {
		b.pushIDs(t, "q", fmt.Sprint("p", i), fmt.Sprint(i, "a"), fmt.Sprint(i, "b"), fmt.Sprint(i, "c"))
	}
	claim := func(query string) []int {
		p := b.pop(t, "/queue/q?autoAck=true&consumerGroup=c&"+query)
		return []int{p.PartitionsClaimed, len(p.Messages)}
	}
	assert.Equal(t, []int{1, 3}, claim("batch=50"), "one partition is the default")
	assert.Equal(t, []int{2, 6}, claim("batch=50&partitions=2"))
	assert.Equal(t, []int{2, 4}, claim("batch=4&partitions=9"), "the budget ends it")
	rest := b.pop(t, "/queue/q?partitions=-1&batch=50&consumerGroup=c")
	assert.Len(t, rest.Messages, 5)
	assert.Equal(t, 2, rest.PartitionsClaimed, "no cap; what is empty is not counted")
}

func ruleBudget(t *testing.T, b *broker) {
	t.Helper()
	for i := range 5 {
		b.pushIDs(t, "q", fmt.Sprint("p", i), fmt.Sprint(i, "a"), fmt.Sprint(i, "b"), fmt.Sprint(i, "c"))
	}
	for batch := 1; batch <= 16; batch++ {
		p := b.pop(t, fmt.Sprintf("/queue/q?partitions=0&batch=%d&consumerGroup=g%d", batch, batch))
		assert.Len(t, p.Messages, min(batch, 15))
	}
	for _, batch := range []string{"0", "-7"} {
		assert.Len(t, b.pop(t, "/queue/q?partitions=0&consumerGroup=low"+batch+"&batch="+batch).Messages, 1, "below 1 acts as 1")
	}
	assert.Len(t, b.pop(t, "/queue/q?partitions=0&consumerGroup=default").Messages, 15, "the default is 200")
}

func ruleSkips(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	b.pushIDs(t, "q", "b", "2")
	got := map[string]bool{}
	for range 2 {
		for _, id := range b.pop(t, "/queue/q?batch=10").ids() {
			got[id] = true
		}
	}
	assert.Len(t, got, 2)
	r := b.do(t, http.MethodGet, "/api/v1/pop/queue/q?batch=10", "")
	assert.Equal(t, 204, r.status, "and a pop that may not wait comes back at once")
}

func ruleFair(t *testing.T, b *broker) {
	t.Helper()
	for i := range 20 {
		b.pushIDs(t, "q", fmt.Sprint("p", i), fmt.Sprint(i, "-0"), fmt.Sprint(i, "-1"), fmt.Sprint(i, "-2"))
	}
	seen := map[string]int{}
	for range 20 {
		p := b.pop(t, "/queue/q?batch=1")
		seen[p.Partition]++
		b.ack(t, "", p.PartitionID, p.LeaseID, p.ids()[0]+"=completed")
	}
	assert.Len(t, seen, 20, "every partition gets its turn before one gets its second")
}

func ruleNoticesExpiry(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	b.pop(t, "/queue/q?leaseSeconds=5")
	for range 10 {
		require.Empty(t, b.pop(t, "/queue/q").Messages)
	}
	b.clock.Advance(5 * time.Second)
	assert.Equal(t, []string{"1"}, b.pop(t, "/queue/q").ids(), "without a new push")
}

func ruleAutoAck(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1", "2", "3")
	p := b.pop(t, "/queue/q?batch=2&autoAck=true&consumerGroup=g")
	assert.Empty(t, p.LeaseID)
	assert.Empty(t, p.Messages[0].LeaseID)
	assert.Equal(t, []string{"3"}, b.pop(t, "/queue/q?autoAck=true&consumerGroup=g&batch=2").ids(), "no lease is in the way")
	for _, a := range b.ack(t, "g", p.PartitionID, "", "1=completed", "2=completed") {
		assert.Equal(t, []bool{true, true, false}, []bool{a.Success, a.Noop, a.LeaseReleased})
	}
	b.restart(t)
	b.clock.Advance(time.Hour)
	assert.Empty(t, b.pop(t, "/queue/q?consumerGroup=g").Messages)
}

func ruleQueueMode(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	b.clock.Advance(time.Minute)
	assert.Equal(t, []string{"1"}, b.pop(t, "/queue/q?subscriptionMode=new&subscriptionFrom=now&consumerGroup=").ids())
}

func ruleRegistration(t *testing.T, b *broker) {
	t.Helper()
	assert.Empty(t, b.pop(t, "/queue/a.b.c?consumerGroup=g&subscriptionMode=new").Messages, "there is not even a queue")
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/resources/queues", "").body, `"name":"a.b.c","namespace":"a","task":"b"`)
	b.restart(t)
	b.clock.Advance(time.Second)
	b.pushIDs(t, "a.b.c", "p", "1")
	assert.Equal(t, []string{"1"}, b.pop(t, "/queue/a.b.c?consumerGroup=g").ids())
	b.pushIDs(t, "q", "p", "old")
	b.clock.Advance(time.Second)
	assert.Empty(t, b.pop(t, "/queue/q?consumerGroup=g&subscriptionMode=new").Messages)
	assert.Empty(t, b.pop(t, "/queue/q?consumerGroup=g&subscriptionMode=all").Messages, "what was registered holds")
}

func rulePrecedence(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	b.clock.Advance(time.Minute)
	b.pushIDs(t, "q", "a", "2")
	b.clock.Advance(time.Minute)
	read := func(group, query string) []string {
		return b.pop(t, "/queue/q?batch=9&autoAck=true&consumerGroup="+group+"&"+query).ids()
	}
	assert.Equal(t, []string{"2"}, read("from", "subscriptionFrom=2026-01-02T03:04:30Z&subscriptionMode=all"), "a time before the mode")
	assert.Empty(t, read("now", "subscriptionFrom=now&subscriptionMode=all"), "now before the mode")
	assert.Equal(t, []string{"1", "2"}, read("bad", "subscriptionFrom=soon"), "what cannot be read is ignored")
	assert.Empty(t, read("now", "subscriptionFrom=1970-01-01T00:00:00Z"), "what is stored before all")
}

func ruleSeeds(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1", "2")
	b.pushIDs(t, "q", "b", "3")
	b.clock.Advance(time.Minute)
	b.pushIDs(t, "q", "b", "4")
	b.clock.Advance(time.Minute)
	for query, want := range map[string][]string{
		"": {"1", "2", "3", "4"}, "subscriptionMode=all": {"1", "2", "3", "4"}, "subscriptionMode=from_beginning": {"1", "2", "3", "4"},
		"subscriptionMode=new": {}, "subscriptionMode=new-only": {}, "subscriptionFrom=now": {}, "subscriptionFrom=2026-01-02T03:05:05Z": {"4"},
		"subscriptionFrom=2026-01-02T03:04:05Z": {"1", "2", "3", "4"}, "subscriptionFrom=2027-01-01T00:00:00Z": {},
	} {
		group := fmt.Sprintf("g%x", query)
		assert.ElementsMatch(t, want, b.pop(t, "/queue/q?partitions=0&autoAck=true&consumerGroup="+group+"&"+query).ids(), query)
	}
}

func ruleLaterPartition(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "old")
	b.clock.Advance(time.Second)
	require.Empty(t, b.pop(t, "/queue/q?consumerGroup=g&subscriptionMode=new").Messages)
	b.pushIDs(t, "q", "born", "first", "second")
	assert.Equal(t, []string{"first", "second"}, b.pop(t, "/queue/q?consumerGroup=g&batch=9").ids(), "its first message too, in the same instant")
}

func ruleZones(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	b.clock.Advance(time.Minute)
	b.pushIDs(t, "q", "a", "2")
	for i, from := range []string{"2026-01-02T03:04:30Z", "2026-01-02T05:04:30%2B02:00", "2026-01-02T05:04:30+02:00", "2026-01-01T22:04:30-05:00", "2026-01-02T03:04:30.123456789Z", "2026-01-02T03:05:05Z"} {
		assert.Equal(t, []string{"2"}, b.pop(t, fmt.Sprintf("/queue/q?batch=9&consumerGroup=g%d&subscriptionFrom=%s", i, from)).ids(), from)
	}
}

func rulePartitionRoute(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	b.pushIDs(t, "q", "b", "2")
	b.clock.Advance(time.Minute)
	require.Empty(t, b.pop(t, "/queue/q?consumerGroup=g&subscriptionMode=new").Messages)
	assert.Empty(t, b.pop(t, "/queue/q/partition/b?consumerGroup=g&subscriptionMode=all").Messages, "the stored registration rules here as well")
	assert.Equal(t, []string{"2"}, b.pop(t, "/queue/q/partition/b?consumerGroup=h").ids())
	assert.Empty(t, b.pop(t, "/queue/q/partition/none?consumerGroup=h").Messages)
	assert.NotContains(t, b.do(t, http.MethodGet, "/api/v1/resources/queues/q", "").body, `"none"`, "no partition is made")
}

func ruleExtendDead(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1", "2")
	p := b.pop(t, "/queue/q?leaseSeconds=5&batch=1")
	b.clock.Advance(5 * time.Second)
	dead := `{"leaseId":"` + p.LeaseID + `","success":false,"renewed":0,"newExpiresAt":null,"expiresAt":null,"lease_expires_at":null}`
	assert.Equal(t, dead, b.post(t, "/api/v1/lease/"+p.LeaseID+"/extend", `{"seconds":60}`, 200), "expired")
	q := b.pop(t, "/queue/q?leaseSeconds=5&batch=1")
	assert.Equal(t, []string{"1"}, q.ids())
	assert.Equal(t, dead, b.post(t, "/api/v1/lease/"+p.LeaseID+"/extend", `{"seconds":60}`, 200), "it is another's now")
	b.ack(t, "", q.PartitionID, q.LeaseID, "1=completed")
	assert.Contains(t, b.post(t, "/api/v1/lease/"+q.LeaseID+"/extend", `{}`, 200), `"success":false`, "released")
}

func ruleServerDefault(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	b.clock.Advance(time.Second)
	assert.Empty(t, b.pop(t, "/queue/q?consumerGroup=g").Messages)
	assert.True(t, slices.Equal([]string{"1"}, b.pop(t, "/queue/q?consumerGroup=h&subscriptionMode=all").ids()))
}
