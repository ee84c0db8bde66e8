package queen_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
	"github.com/leasehold/leasehold/core"
)

func TestPopBudgetIsSharedByPartitions(t *testing.T) {
	b := newBroker(t, queen.Options{})
	for _, p := range []string{"a", "b", "c"} {
		b.pushIDs(t, "q", p, p+"1", p+"2", p+"3")
	}
	one := b.pop(t, "/queue/q?batch=10&consumerGroup=one")
	assert.Equal(t, 1, one.PartitionsClaimed)
	assert.Len(t, one.Messages, 3)

	three := b.pop(t, "/queue/q?batch=10&partitions=3&consumerGroup=three")
	assert.Equal(t, 3, three.PartitionsClaimed)
	assert.Len(t, three.Messages, 9)
	for _, m := range three.Messages {
		assert.Equal(t, three.LeaseID, m.LeaseID, "one lease for the whole call")
	}
	assert.Equal(t, three.Messages[0].PartitionID, three.PartitionID)

	four := b.pop(t, "/queue/q?batch=4&partitions=3&consumerGroup=four")
	assert.Equal(t, 2, four.PartitionsClaimed)
	assert.Len(t, four.Messages, 4)

	for _, limit := range []string{"0", "-1"} {
		all := b.pop(t, "/queue/q?batch=100&partitions="+limit+"&consumerGroup=all"+limit)
		assert.Equal(t, 3, all.PartitionsClaimed, "no cap")
	}
	alone := b.pop(t, "/queue/q/partition/b?batch=100&partitions=3&consumerGroup=alone")
	assert.Equal(t, []string{"b1", "b2", "b3"}, alone.ids())
	assert.Equal(t, "b", alone.Partition)
}

func TestPopSkipsLeasedPartitions(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "a", "a1")
	b.pushIDs(t, "q", "b", "b1")
	first := b.pop(t, "/queue/q")
	second := b.pop(t, "/queue/q")
	assert.NotEqual(t, first.PartitionID, second.PartitionID)
	assert.Empty(t, b.pop(t, "/queue/q").Messages)
	assert.Empty(t, b.pop(t, "/queue/q/partition/a").Messages)
	assert.Len(t, b.pop(t, "/queue/q?consumerGroup=other&partitions=0").Messages, 2, "groups do not see each other's leases")
}

func TestPopLeaseTimes(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "implicit", "Default", "t")
	b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"configured"}`)
	b.pushIDs(t, "configured", "Default", "t")
	b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"short","options":{"leaseTime":5}}`)
	b.pushIDs(t, "short", "Default", "t")
	for queue, seconds := range map[string]int{"implicit": 60, "configured": 300, "short": 5} {
		require.Len(t, b.pop(t, "/queue/"+queue+"?leaseSeconds=0").Messages, 1)
		lease := time.Duration(seconds) * time.Second
		b.clock.Advance(lease - time.Millisecond)
		assert.Empty(t, b.pop(t, "/queue/"+queue).Messages, "%s: still leased", queue)
		b.clock.Advance(time.Millisecond)
		require.Len(t, b.pop(t, "/queue/"+queue+"?leaseSeconds=2").Messages, 1, "%s: expired", queue)
		b.clock.Advance(2 * time.Second)
		require.Len(t, b.pop(t, "/queue/"+queue).Messages, 1, "the call's own lease time")
	}
}

func TestPopExpiryKeepsTheOrderAndTheBudget(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "Default", "1", "2", "3", "4", "5")
	p := b.pop(t, "/queue/q?batch=5")
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, "3=completed")[0].Success)
	for range 6 {
		b.clock.Advance(time.Minute)
		p = b.pop(t, "/queue/q?batch=10")
		assert.Equal(t, []string{"4", "5"}, p.ids(), "expiry never dead-letters")
	}
	b.pushIDs(t, "q", "Default", "6")
	b.clock.Advance(time.Minute)
	assert.Equal(t, []string{"4", "5", "6"}, b.pop(t, "/queue/q?batch=10").ids())
}

func TestPopAutoAck(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "Default", "1", "2", "3")
	p := b.pop(t, "/queue/q?batch=2&autoAck=true")
	assert.Equal(t, []string{"1", "2"}, p.ids())
	assert.Empty(t, p.LeaseID)
	assert.Empty(t, p.Messages[0].LeaseID)
	assert.Equal(t, []string{"3"}, b.pop(t, "/queue/q?batch=2&autoAck=1").ids())
	b.clock.Advance(time.Hour)
	assert.Empty(t, b.pop(t, "/queue/q").Messages)
	a := b.ack(t, "", p.PartitionID, "", "1=completed")[0]
	assert.True(t, a.Success && a.Noop && !a.LeaseReleased)
}

func TestPopSubscriptions(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "Default", "old")
	b.clock.Advance(10 * time.Second)
	middle := b.clock.Now()
	b.pushIDs(t, "q", "Default", "middle")
	b.clock.Advance(10 * time.Second)

	since := middle.Std().Format(time.RFC3339)
	assert.Equal(t, []string{"old", "middle"}, b.pop(t, "/queue/q?consumerGroup=all").ids())
	assert.Equal(t, []string{"old", "middle"}, b.pop(t, "/queue/q?consumerGroup=odd&subscriptionMode=from_beginning").ids())
	assert.Equal(t, []string{"middle"}, b.pop(t, "/queue/q?consumerGroup=since&subscriptionMode=new&subscriptionFrom="+since).ids())
	assert.Equal(t, []string{"old", "middle"}, b.pop(t, "/queue/q?consumerGroup=epoch&subscriptionMode=new&subscriptionFrom=1970-01-01T00:00:00Z").ids())
	assert.Equal(t, []string{"old", "middle"}, b.pop(t, "/queue/q?subscriptionMode=new").ids(), "queue mode is not seeded")
	fresh := []string{"subscriptionMode=new", "subscriptionMode=new-only", "subscriptionFrom=now", "subscriptionFrom=bad&subscriptionMode=new"}
	for i, query := range fresh {
		assert.Empty(t, b.pop(t, "/queue/q?consumerGroup=g"+string(rune('0'+i))+"&"+query).Messages, query)
	}
	b.clock.Advance(time.Second)
	b.pushIDs(t, "q", "Default", "late")
	b.pushIDs(t, "q", "born-later", "first")
	for i, query := range fresh {
		p := b.pop(t, "/queue/q?partitions=0&consumerGroup=g"+string(rune('0'+i)))
		assert.ElementsMatch(t, []string{"late", "first"}, p.ids(), "%s: registered, so what came later is its own", query)
	}
}

func TestPopSubscriptionDefaultIsASetting(t *testing.T) {
	b := newBroker(t, queen.Options{SubscribeNew: true})
	b.pushIDs(t, "q", "Default", "old")
	assert.Empty(t, b.pop(t, "/queue/q?consumerGroup=default").Messages)
	assert.Len(t, b.pop(t, "/queue/q?consumerGroup=explicit&subscriptionMode=all").Messages, 1)
	assert.Len(t, b.pop(t, "/queue/q").Messages, 1)
}

func TestPopDiscovery(t *testing.T) {
	b := newBroker(t, queen.Options{})
	for _, q := range []string{"mail.send.eu", "mail.bounce", "sms.send", "other"} {
		b.pushIDs(t, q, "Default", q)
	}
	r := b.do(t, http.MethodGet, "/api/v1/pop?batch=10&namespace=", "")
	assert.Equal(t, http.StatusBadRequest, r.status)
	exactly(t, `{"success":false,"error":"namespace or task is required","messages":[]}`, r.body)

	byNamespace := b.pop(t, "?namespace=mail&partitions=0&consumerGroup=n")
	assert.ElementsMatch(t, []string{"mail.send.eu", "mail.bounce"}, byNamespace.ids())
	assert.Empty(t, byNamespace.Queue)
	assert.ElementsMatch(t, []string{"mail.send.eu", "sms.send"}, b.pop(t, "?task=send&partitions=0&consumerGroup=t").ids())
	assert.Equal(t, []string{"mail.send.eu"}, b.pop(t, "?namespace=mail&task=send&partitions=0&consumerGroup=nt").ids())
	assert.Empty(t, b.pop(t, "?namespace=nobody").Messages)
	assert.NotContains(t, b.do(t, http.MethodGet, "/api/v1/resources/queues", "").body, "nobody", "discovery creates nothing")

	waiting := make(chan result, 1)
	go func() {
		r, _ := b.send(t.Context(), http.MethodGet, "/api/v1/pop?namespace=fresh&wait=true&timeout=60000", "")
		waiting <- r
	}()
	b.pushUntil(t, waiting, `{"items":[{"queue":"fresh.one","payload":1}]}`)
}

// pushUntil pushes and then expects the parked pop to be answered with it.
func (b *broker) pushUntil(t *testing.T, parked <-chan result, body string) {
	t.Helper()
	b.push(t, body)
	select {
	case r := <-parked:
		assert.Equal(t, http.StatusOK, r.status)
	case <-time.After(10 * time.Second):
		t.Fatal("the parked pop was not answered")
	}
}

func TestPopOfTheUnknown(t *testing.T) {
	b := newBroker(t, queen.Options{})
	r := b.do(t, http.MethodGet, "/api/v1/pop/queue/typo.task?batch=1", "")
	assert.Equal(t, http.StatusNoContent, r.status)
	assert.Empty(t, r.header.Get("Content-Length"))
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/resources/queues", "").body, `"name":"typo.task","namespace":"typo","task":"task"`)
	assert.Empty(t, b.pop(t, "/queue/typo.task/partition/nope").Messages)
	assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/resources/queues/typo.task", "").body, `"partitions":[]`)
}

func TestPopOfASubscriberBeforeTheFirstPush(t *testing.T) {
	b := newBroker(t, queen.Options{})
	assert.Empty(t, b.pop(t, "/queue/q?consumerGroup=early&subscriptionMode=new").Messages)
	b.clock.Advance(time.Second)
	b.pushIDs(t, "q", "Default", "first")
	assert.Equal(t, []string{"first"}, b.pop(t, "/queue/q?consumerGroup=early").ids())
}

func TestPopWaitsAndIsWoken(t *testing.T) {
	b := newBroker(t, queen.Options{})
	parked := b.park(t.Context(), t, "q", "/queue/q?wait=true&timeout=30000")
	b.pushIDs(t, "q", "Default", "1")
	p := asPopped(t, <-parked)
	assert.Equal(t, []string{"1"}, p.ids())

	// No push wakes this one: the lease of the other worker runs out.
	parked = b.park(t.Context(), t, "q", "/queue/q?wait=true&timeout=120000")
	b.clock.Advance(time.Minute)
	p = asPopped(t, <-parked)
	assert.Equal(t, []string{"1"}, p.ids())

	// Nor this one: the batch is given back.
	parked = b.park(t.Context(), t, "q", "/queue/q?wait=true&timeout=30000")
	b.ack(t, "", p.PartitionID, p.LeaseID, "1=retry")
	assert.Equal(t, []string{"1"}, asPopped(t, <-parked).ids())
}

func TestPopEndsShortlyBeforeItsDeadline(t *testing.T) {
	b := newBroker(t, queen.Options{})
	for query, wait := range map[string]time.Duration{
		"timeout=30000": 29900 * time.Millisecond, "timeout=1000": 900 * time.Millisecond,
		"timeout=500": 500 * time.Millisecond, "x=y": 29900 * time.Millisecond,
	} {
		parked := b.park(t.Context(), t, "q", "/queue/q?wait=true&"+query)
		b.clock.Advance(wait - time.Millisecond)
		assert.Equal(t, 1, b.waiting(t, "q", ""), "%s: not before", query)
		b.clock.Advance(time.Millisecond)
		r := <-parked
		assert.Equal(t, http.StatusNoContent, r.status, query)
	}
	r := b.do(t, http.MethodGet, "/api/v1/pop/queue/q?wait=true&timeout=0", "")
	assert.Equal(t, http.StatusNoContent, r.status)
}

func TestPopOfAClientThatLeavesClaimsNothing(t *testing.T) {
	b := newBroker(t, queen.Options{})
	ctx, leave := context.WithCancel(t.Context())
	parked := b.park(ctx, t, "q", "/queue/q?wait=true&timeout=30000")
	leave()
	<-parked
	require.Eventually(t, func() bool { return b.waiting(t, "q", "") == 0 }, 5*time.Second, time.Millisecond)
	b.pushIDs(t, "q", "Default", "1")
	assert.Equal(t, []string{"1"}, b.pop(t, "/queue/q").ids(), "nothing stayed leased")
}

func TestPopWhileDeliveryIsPausedOrTheQueueGoes(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "Default", "1")
	if b.remote != nil {
		b.remote.PauseDelivery(t, "q") // by Cloudflare's protocol, which is whose option it is
	} else {
		_, err := b.engine.ConfigureQueue(t.Context(), "q", func(q *core.Queue) error { q.Options.DeliveryPaused = true; return nil })
		require.NoError(t, err)
	}
	assert.Empty(t, b.pop(t, "/queue/q").Messages)

	parked := b.park(t.Context(), t, "gone", "/queue/gone?wait=true&timeout=30000")
	b.do(t, http.MethodDelete, "/api/v1/resources/queues/gone", "")
	assert.Equal(t, http.StatusNoContent, (<-parked).status)
}

func TestPopEndsWhenTheServerStops(t *testing.T) {
	b := newBroker(t, queen.Options{})
	parked := b.park(t.Context(), t, "stop", "/queue/stop?wait=true&timeout=30000")
	require.NoError(t, b.engine.Shutdown(t.Context()))
	assert.Equal(t, http.StatusNoContent, (<-parked).status)
}

func TestPopShowsWhatOtherProtocolsPushed(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.pushIDs(t, "q", "Default", "first")
	for _, m := range []core.NewMessage{
		{Payload: []byte(`{ "a":1.50 }`), Labels: core.Labels{ContentType: core.ContentJSON}},
		{Payload: []byte("quote \" < é \x00"), Labels: core.Labels{ContentType: core.ContentText}},
		{Payload: []byte{0, 255, 254}, Labels: core.Labels{ContentType: core.ContentBytes}},
		{Payload: nil, Labels: core.Labels{ContentType: core.ContentBytes}},
		{Payload: nil, Labels: core.Labels{ContentType: core.ContentText}},
	} {
		_, err := b.engine.Push(t.Context(), core.PushParams{
			Protocol: core.ProtocolQuerator, Items: []core.PushItem{{Queue: "q", NewMessage: m}},
		})
		require.NoError(t, err)
	}
	p := b.pop(t, "/queue/q?batch=10")
	require.Len(t, p.Messages, 6)
	for i, want := range []string{`{"id":"first"}`, `{ "a":1.50 }`, `"quote \" < é \u0000"`, `"AP/+"`, `""`, `""`} {
		assert.Equal(t, want, string(p.Messages[i].Data))
	}
	assert.Equal(t, p.Messages[1].ID, p.Messages[1].TransactionID)
}

// TestPopSeedExample is the curl example of the pop routes' page.
func TestPopSeedExample(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.push(t, `{"items":[{"queue":"orders.created","partition":"customer-42","transactionId":"order-8891-created","payload":{ "orderId": 8891, "total": 4200 }}]}`)
	r := b.do(t, http.MethodGet, "/api/v1/pop/queue/orders.created?consumerGroup=billing&batch=50&partitions=4&wait=true&timeout=10000&leaseSeconds=120", "")
	assert.Equal(t, http.StatusOK, r.status)
	known := map[string]string{}
	match(t, "seed", `{"success":true,"queue":"orders.created","partition":"customer-42","partitionId":"«p»","leaseId":"«l»","consumerGroup":"billing","messages":[{"id":"«m»","transactionId":"order-8891-created","traceId":null,"data":{ "orderId": 8891, "total": 4200 },"producerSub":null,"createdAt":"2026-01-02T03:04:05.000000Z","partitionId":"«p»","partition":"customer-42","leaseId":"«l»","consumerGroup":"billing"}],"partitionsClaimed":1}`, r.body, known)
	b.clock.Advance(119 * time.Second)
	assert.Empty(t, b.pop(t, "/queue/orders.created?consumerGroup=billing").Messages)
	b.clock.Advance(time.Second)
	assert.Len(t, b.pop(t, "/queue/orders.created?consumerGroup=billing").Messages, 1)
	parked := b.park(t.Context(), t, "orders.created", "/queue/orders.created?consumerGroup=billing&batch=50&partitions=4&wait=true&timeout=10000&leaseSeconds=120")
	b.clock.Advance(10 * time.Second)
	assert.Equal(t, http.StatusNoContent, (<-parked).status)
}

func TestPopOfDelayedProcessing(t *testing.T) {
	b := newBroker(t, queen.Options{})
	b.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"q","options":{"delayedProcessing":2}}`)
	b.pushIDs(t, "q", "Default", "1")
	assert.Empty(t, b.pop(t, "/queue/q").Messages)
	parked := b.park(t.Context(), t, "q", "/queue/q?wait=true&timeout=30000")
	b.clock.Advance(2500 * time.Millisecond)
	assert.Equal(t, []string{"1"}, asPopped(t, <-parked).ids())
}
