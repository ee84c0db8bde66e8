package queen_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// waitRules are §6.10.
var waitRules = []rule{
	{covers: "6.10 wait", run: ruleWait},
	{covers: "6.10 wake", run: ruleWake},
	{covers: "6.10 time", run: ruleWaitTime},
	{covers: "6.10 disconnect", run: ruleDisconnect},
}

// optionRules are §6.11 to §6.15.
var optionRules = []rule{
	{covers: "6.11 delayedProcessing, 6.13 delayedProcessing, 8.2 push.js delay", run: ruleDelayedProcessing},
	{covers: "6.11 windowBuffer, 6.13 windowBuffer, 8.2 push.js window", run: ruleWindowBuffer},
	{covers: "6.11 minPopWaitTime, 6.13 minPopWaitTime", run: ruleMinPopWait},
	{covers: "6.12 retention, 6.13 retentionSeconds, 8.2 retention.js", run: ruleRetention},
	{covers: "6.12 completed, 6.13 completedRetentionSeconds", run: ruleCompletedRetention},
	{covers: "6.12 switch, 6.13 retentionEnabled", run: ruleRetentionSwitch},
	{covers: "6.12 maxWait, 6.13 maxWaitTimeSeconds, 8.2 retention.js", run: ruleMaxWait},
	{covers: "6.12 start", run: ruleLogStart},
	{covers: "6.12 kept", run: ruleKept},
	{covers: "6.13 namespace task, 6.14 derived", run: ruleNamespace},
	{covers: "6.13 echoed only, 8.3 python maxSize", run: ruleEchoedOnly},
	{covers: "6.14 discovery, 8.2 semantics.js discovery", run: ruleDiscovery},
	{covers: "6.15 order", run: ruleOrder},
	{covers: "6.15 retries", run: ruleSafeRepeats},
}

func ruleWait(t *testing.T, b *broker) {
	t.Helper()
	assert.Equal(t, 204, b.do(t, http.MethodGet, "/api/v1/pop/queue/q?wait=false&timeout=60000", "").status, "one attempt")
	for _, query := range []string{"", "&timeout=30000"} { // the default
		parked := b.park(t.Context(), t, "q", "/queue/q?wait=true"+query)
		b.clock.Advance(30 * time.Second)
		assert.Equal(t, 204, (<-parked).status)
	}
}

func ruleWake(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "src", "a", "1", "2")
	src := b.pop(t, "/queue/src?batch=2")
	for name, wake := range map[string]func(){
		"push": func() { b.pushIDs(t, "ns.task.x", "a", "p") },
		"transaction": func() {
			require.True(t, b.transact(t, tx(pushOp("ns.task.x", "t"), ackOp("1", src.PartitionID, ""))).Success)
		},
		"ack": func() {
			p := b.pop(t, "/queue/ns.task.x?consumerGroup=a")
			require.Empty(t, p.Messages)
			b.pushIDs(t, "ns.task.x", "c", "c")
		},
		"seek": func() {
			b.post(t, "/api/v1/consumer-groups/g/queues/ns.task.x/seek", `{"timestamp":"1970-01-01T00:00:00Z"}`, 200)
		},
	} {
		for _, path := range []string{"/queue/ns.task.x", "?namespace=ns", "?task=task", "?namespace=ns&task=task"} {
			sep := "?"
			if strings.Contains(path, "?") {
				sep = "&"
			}
			b.do(t, http.MethodDelete, "/api/v1/resources/queues/ns.task.x", "")
			b.pushIDs(t, "ns.task.x", "a", "before")
			b.pop(t, "/queue/ns.task.x?partitions=0&consumerGroup=g&autoAck=true")
			b.pop(t, "/queue/ns.task.x?partitions=0&consumerGroup=a&autoAck=true")
			parked := b.parkAny(t, "ns.task.x", path+sep+"wait=true&timeout=60000&consumerGroup=g")
			if name == "transaction" {
				b.do(t, http.MethodDelete, "/api/v1/resources/queues/src", "")
				b.pushIDs(t, "src", "a", "1", "2")
				src = b.pop(t, "/queue/src?batch=2")
			}
			wake()
			assert.Equal(t, 200, (<-parked).status, "%s wakes %s", name, path)
		}
	}
}

// parkAny is park for a path that may be discovery.
func (b *broker) parkAny(t *testing.T, queue, path string) <-chan result {
	t.Helper()
	return b.park(t.Context(), t, queue, path)
}

func ruleWaitTime(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"delayedProcessing":2`)
	b.pushIDs(t, "q", "a", "1")
	parked := b.park(t.Context(), t, "q", "/queue/q?wait=true&timeout=60000&leaseSeconds=10")
	b.clock.Advance(2 * time.Second)
	require.Equal(t, []string{"1"}, asPopped(t, <-parked).ids(), "a delay that passes")
	parked = b.park(t.Context(), t, "q", "/queue/q?wait=true&timeout=60000")
	b.clock.Advance(10 * time.Second)
	assert.Equal(t, []string{"1"}, asPopped(t, <-parked).ids(), "a lease that runs out")
}

func ruleDisconnect(t *testing.T, b *broker) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	parked := b.park(ctx, t, "q", "/queue/q?wait=true&timeout=30000")
	leave()
	<-parked
	require.Eventually(t, func() bool { return b.waiting(t, "q", "") == 0 }, 5*time.Second, time.Millisecond)
	b.pushIDs(t, "q", "a", "1")
	assert.Equal(t, []string{"1"}, b.pop(t, "/queue/q").ids(), "no batch is stranded")
}

func ruleDelayedProcessing(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"delayedProcessing":2`)
	b.pushIDs(t, "q", "a", "1")
	for _, path := range []string{"/queue/q", "/queue/q/partition/a"} {
		assert.Empty(t, b.pop(t, path).Messages, "hidden on every route")
	}
	b.configure(t, "ns.x", `"delayedProcessing":2`)
	b.post(t, "/api/v1/configure", `{"queue":"ns.x","namespace":"ns","options":{"delayedProcessing":2}}`, 200)
	b.pushIDs(t, "ns.x", "a", "1")
	assert.Empty(t, b.pop(t, "?namespace=ns").Messages)
	parked := b.park(t.Context(), t, "q", "/queue/q?wait=true&timeout=10000&batch=9")
	b.clock.Advance(time.Second)
	b.pushIDs(t, "q", "a", "2")
	b.clock.Advance(1500 * time.Millisecond)
	p := asPopped(t, <-parked)
	assert.Equal(t, []string{"1"}, p.ids(), "after 2.5 s, and the younger one is still hidden")
	b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed")
	assert.Empty(t, b.pop(t, "/queue/q").Messages)
	b.clock.Advance(500 * time.Millisecond)
	assert.Equal(t, []string{"2"}, b.pop(t, "/queue/q").ids())
	assert.Equal(t, []string{"1"}, b.pop(t, "?namespace=ns").ids())
}

func ruleWindowBuffer(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"windowBuffer":2`)
	for _, id := range []string{"1", "2", "3"} {
		b.pushIDs(t, "q", "a", id)
	}
	assert.Empty(t, b.pop(t, "/queue/q?batch=9").Messages)
	parked := b.park(t.Context(), t, "q", "/queue/q?wait=true&timeout=10000&batch=9")
	b.clock.Advance(2500 * time.Millisecond)
	p := asPopped(t, <-parked)
	assert.Equal(t, []string{"1", "2", "3"}, p.ids(), "all three after 2.5 s")
	b.ack(t, "", p.PartitionID, p.LeaseID, "3=completed")

	// A steady trickle is released one window after the first write that nobody has seen.
	for i := range 4 {
		assert.Empty(t, b.pop(t, "/queue/q?batch=9").Messages)
		b.pushIDs(t, "q", "a", fmt.Sprint("t", i))
		b.clock.Advance(500 * time.Millisecond)
	}
	assert.Equal(t, []string{"t0", "t1", "t2", "t3"}, b.pop(t, "/queue/q?batch=9").ids())

	items := make([]string, 0, 100)
	for range 100 {
		items = append(items, `{"queue":"q","partition":"full","payload":1}`)
	}
	b.push(t, `{"items":[`+strings.Join(items[1:], ",")+`]}`)
	assert.Empty(t, b.pop(t, "/queue/q/partition/full?batch=200").Messages)
	b.push(t, `{"items":[`+items[0]+`]}`)
	assert.Len(t, b.pop(t, "/queue/q/partition/full?batch=200").Messages, 100, "100 are enough")
}

func ruleMinPopWait(t *testing.T, b *broker) {
	t.Helper()
	assert.EqualValues(t, 60000, b.configure(t, "q", `"minPopWaitTime":999999`)["minPopWaitTime"])
	assert.EqualValues(t, 0, b.configure(t, "q", `"minPopWaitTime":-1`)["minPopWaitTime"])
	b.configure(t, "q", `"minPopWaitTime":1000`)
	b.pushIDs(t, "q", "a", "1")
	assert.Equal(t, []string{"1"}, b.pop(t, "/queue/q?batch=9&consumerGroup=nowait").ids(), "not without wait")
	assert.Equal(t, []string{"1"}, b.pop(t, "/queue/q?wait=true&batch=1&consumerGroup=one").ids(), "not for one message")
	assert.Equal(t, []string{"1"}, b.pop(t, "/queue/q/partition/a?wait=true&batch=9&consumerGroup=part").ids(), "not on one partition")
	hold := func(group, timeout string) <-chan result {
		return b.park(t.Context(), t, "q", "/queue/q?wait=true&batch="+map[string]string{"g": "3", "h": "3", "i": "9", "j": "9"}[group]+"&partitions=2&timeout="+timeout+"&consumerGroup="+group)
	}
	held := hold("g", "60000")
	b.clock.Advance(999 * time.Millisecond)
	assert.Equal(t, 1, b.waiting(t, "q", "g"), "held")
	b.clock.Advance(time.Millisecond)
	assert.Equal(t, []string{"1"}, asPopped(t, <-held).ids(), "what there is, when the time is over")
	held = hold("h", "60000")
	b.pushIDs(t, "q", "a", "2", "3")
	assert.Len(t, asPopped(t, <-held).Messages, 3, "at once when it is full")
	held = hold("i", "500")
	b.clock.Advance(500 * time.Millisecond)
	assert.Len(t, asPopped(t, <-held).Messages, 3, "never beyond the caller's timeout")
	held = hold("j", "300")
	b.clock.Advance(300 * time.Millisecond)
	assert.Equal(t, 200, (<-held).status)
}

// swept waits until the queue q holds so many messages: retention works in cycles of 5 s.
func (b *broker) swept(t *testing.T, n int64) {
	t.Helper()
	if b.remote != nil {
		want := fmt.Sprintf(`"messages":{"total":%d,`, n)
		require.Eventually(t, func() bool {
			r, err := b.send(t.Context(), http.MethodGet, "/api/v1/resources/queues", "")
			return err == nil && strings.Contains(r.body, want)
		}, 10*time.Second, 20*time.Millisecond, "the queue should hold %d", n)
		return
	}
	require.Eventually(t, func() bool {
		stats, err := b.engine.QueueStats(t.Context(), "q", "")
		if err != nil {
			return false
		}
		left := int64(0)
		for i := range stats.Partitions {
			left += stats.Partitions[i].Log.Head - stats.Partitions[i].Log.Start + 1
		}
		return left == n
	}, 5*time.Second, time.Millisecond, "the queue should hold %d", n)
}

func ruleRetention(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"retentionEnabled":true,"retentionSeconds":10`)
	b.pushIDs(t, "q", "a", "1", "2")
	b.clock.Advance(8 * time.Second)
	b.pushIDs(t, "q", "a", "3")
	p := b.pop(t, "/queue/q?consumerGroup=g&batch=1&autoAck=true")
	require.Equal(t, []string{"1"}, p.ids())
	b.clock.Advance(6 * time.Second)
	b.swept(t, 1)
	assert.Equal(t, []string{"3"}, b.pop(t, "/queue/q?batch=9").ids(), "older ones are gone, consumed or not")
	assert.Equal(t, []string{"3"}, b.pop(t, "/queue/q?batch=9&consumerGroup=g").ids())
}

func ruleCompletedRetention(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"retentionEnabled":true,"completedRetentionSeconds":10,"dedupWindowSeconds":0`)
	b.push(t, `{"items":[{"queue":"q","payload":1},{"queue":"q","payload":2}]}`)
	require.Len(t, b.pop(t, "/queue/q?consumerGroup=g&autoAck=true").Messages, 2)
	require.Len(t, b.pop(t, "/queue/q?consumerGroup=h&batch=1&autoAck=true").Messages, 1)
	b.clock.Advance(20 * time.Second)
	b.clock.Advance(20 * time.Second)
	b.swept(t, 2) // h has not passed it
	require.Len(t, b.pop(t, "/queue/q?consumerGroup=h&autoAck=true").Messages, 1)
	b.clock.Advance(20 * time.Minute) // the ids of messages that can still be acked keep their headers
	b.swept(t, 0)
}

func ruleRetentionSwitch(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"retentionSeconds":1,"completedRetentionSeconds":1,"dedupWindowSeconds":0`)
	b.push(t, `{"items":[{"queue":"q","payload":1}]}`)
	b.pop(t, "/queue/q?autoAck=true")
	for range 5 {
		b.clock.Advance(time.Hour)
	}
	assert.Len(t, b.pop(t, "/queue/q?consumerGroup=g").Messages, 1, "off")
	b.configure(t, "q", `"retentionEnabled":true`)
	b.clock.Advance(time.Hour)
	b.swept(t, 0)
}

func ruleMaxWait(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"maxWaitTimeSeconds":10,"leaseTime":1000`)
	b.pushIDs(t, "q", "a", "1", "2")
	p := b.pop(t, "/queue/q?batch=2")
	b.clock.Advance(16 * time.Second)
	b.swept(t, 0)
	assert.Empty(t, b.letters(t, ""), "no dead letter")
	assert.Equal(t, []string{leaseLost, leaseLost}, texts(b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed", "2=completed")), "the lease has nothing left to hold")
	b.pushIDs(t, "q", "a", "3")
	assert.Equal(t, []string{"3"}, b.pop(t, "/queue/q?consumerGroup=g&batch=9").ids())
	assert.Equal(t, []string{"3"}, b.pop(t, "/queue/q?batch=9").ids(), "the lease on what is gone is in nobody's way")
}

func ruleLogStart(t *testing.T, b *broker) {
	t.Helper()
	b.configure(t, "q", `"retentionEnabled":true,"retentionSeconds":10`)
	b.pushIDs(t, "q", "a", "1", "2")
	require.Equal(t, []string{"1"}, b.pop(t, "/queue/q?consumerGroup=g&batch=1&autoAck=true").ids())
	b.clock.Advance(16 * time.Second)
	b.swept(t, 0)
	b.pushIDs(t, "q", "a", "3")
	b.restart(t)
	assert.Equal(t, []string{"3"}, b.pop(t, "/queue/q?consumerGroup=g&batch=9").ids(), "it goes on with the next that exists")
	assert.Equal(t, []string{"3"}, b.pop(t, "/queue/q?consumerGroup=new&batch=9").ids())
}

func ruleKept(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1", "2")
	p := b.pop(t, "/queue/q?batch=2")
	b.ack(t, "", p.PartitionID, p.LeaseID, "2=completed")
	for range 3 {
		b.clock.Advance(24 * time.Hour)
	}
	assert.Equal(t, []string{"1", "2"}, b.pop(t, "/queue/q?batch=9&consumerGroup=future").ids())
}

func ruleNamespace(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "billing.invoice.eu", "a", "1")
	b.pushIDs(t, "plain", "a", "2")
	b.pop(t, "/queue/popped.only")
	require.True(t, b.transact(t, tx(pushOp("tx.made", "3"))).Success)
	b.post(t, "/api/v1/configure", `{"queue":"con.figured"}`, 200)
	b.post(t, "/api/v1/configure", `{"queue":"exact","namespace":"n s","task":"t"}`, 200)
	list := b.do(t, http.MethodGet, "/api/v1/resources/queues", "").body
	for name, want := range map[string][2]string{
		"billing.invoice.eu": {"billing", "invoice"}, "plain": {"plain", ""}, "popped.only": {"popped", "only"},
		"tx.made": {"tx", "made"}, "con.figured": {"", ""}, "exact": {"n s", "t"},
	} {
		assert.Contains(t, list, `"name":"`+name+`","namespace":"`+want[0]+`","task":"`+want[1]+`"`)
	}
	b.pushIDs(t, "exact", "a", "4")
	assert.Equal(t, []string{"4"}, b.pop(t, "?namespace=n+s&task=t").ids())
}

func ruleEchoedOnly(t *testing.T, b *broker) {
	t.Helper()
	o := b.configure(t, "q", `"priority":9,"ttl":1,"maxSize":1,"retryDelay":60000`)
	assert.Equal(t, []any{9.0, 1.0, 1.0, 60000.0}, []any{o["priority"], o["ttl"], o["maxSize"], o["retryDelay"]})
	b.pushIDs(t, "q", "a", "1", "2", "3")
	b.clock.Advance(time.Minute)
	p := b.pop(t, "/queue/q?batch=9")
	assert.Len(t, p.Messages, 3)
	b.ack(t, "", p.PartitionID, p.LeaseID, "1=failed")
	assert.Len(t, b.pop(t, "/queue/q?batch=9").Messages, 3)
}

func ruleDiscovery(t *testing.T, b *broker) {
	t.Helper()
	for _, q := range []string{"a.x.1", "a.y", "b.x", "c"} {
		b.pushIDs(t, q, "p", q)
	}
	for query, want := range map[string][]string{
		"namespace=a": {"a.x.1", "a.y"}, "task=x": {"a.x.1", "b.x"}, "namespace=a&task=x": {"a.x.1"}, "namespace=c": {"c"}, "namespace=z": {}, "namespace=c&task=x": {},
	} {
		p := b.pop(t, "?partitions=0&batch=9&consumerGroup="+fmt.Sprintf("%x", query)+"&"+query)
		assert.ElementsMatch(t, want, p.ids(), query)
		assert.Empty(t, p.Queue)
	}
	assert.Len(t, b.pop(t, "?namespace=a&partitions=1&batch=9").Messages, 1, "the cap is over all queues")
	assert.NotContains(t, b.do(t, http.MethodGet, "/api/v1/resources/queues", "").body, `"z"`)
	r := b.do(t, http.MethodGet, "/api/v1/pop?namespace=&task=&batch=1", "")
	assert.Equal(t, 400, r.status)
	exactly(t, `{"success":false,"error":"namespace or task is required","messages":[]}`, r.body)
}

func ruleOrder(t *testing.T, b *broker) {
	t.Helper()
	want := make([]string, 0, 80)
	for i := range 40 {
		want = append(want, fmt.Sprint(i, "a"), fmt.Sprint(i, "b"))
		b.pushIDs(t, "q", "p", fmt.Sprint(i, "a"), fmt.Sprint(i, "b"))
	}
	got := []string{}
	for i := 1; len(got) < len(want); i++ {
		p := b.pop(t, fmt.Sprintf("/queue/q?batch=%d", 1+i%7))
		require.NotEmpty(t, p.Messages)
		last := p.ids()[len(p.Messages)-1]
		if i%3 == 0 { // comes back
			b.ack(t, "", p.PartitionID, p.LeaseID, p.ids()[0]+"=retry")
			continue
		}
		got = append(got, p.ids()...)
		b.ack(t, "", p.PartitionID, p.LeaseID, last+"=completed")
	}
	assert.Equal(t, want, got)
}

func ruleSafeRepeats(t *testing.T, b *broker) {
	t.Helper()
	push := `{"items":[{"queue":"q","partition":"a","payload":1,"transactionId":"1"}]}`
	first := b.push(t, push)[0]
	again := b.push(t, push)[0]
	assert.Equal(t, []string{"duplicate", first.MessageID}, []string{again.Status, again.MessageID})
	p := b.pop(t, "/queue/q")
	for range 2 {
		assert.Contains(t, b.post(t, "/api/v1/lease/"+p.LeaseID+"/extend", `{"seconds":90}`, 200), `"success":true,"renewed":1`)
	}
	b.ack(t, "", p.PartitionID, "", "1=completed")
	assert.True(t, b.ack(t, "", p.PartitionID, "", "1=completed")[0].Noop)
	for range 2 {
		b.configure(t, "q", `"leaseTime":5`)
	}
	for range 2 {
		assert.Equal(t, 200, b.do(t, http.MethodDelete, "/api/v1/resources/queues/q", "").status)
	}
}
