package querator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/querator"
)

// lease leases n items at once as client c, and returns them by reference.
func (f *fixture) lease(queue string, n int) (refs []string, ids map[string]string, items []map[string]any) {
	f.t.Helper()
	items = f.ok("/v1/queue.lease", leaseBody(queue, "c", n, "1m")).items(f.t)
	ids = map[string]string{}
	for _, it := range items {
		ref, _ := it["reference"].(string)
		id, _ := it["id"].(string)
		refs = append(refs, ref)
		ids[ref] = id
	}
	return refs, ids, items
}

// empty requires that a lease of q gets nothing.
func (f *fixture) empty() {
	f.t.Helper()
	c := f.later(f.t.Context(), "/v1/queue.lease", leaseBody("q", "probe", 1, "20ms"))
	f.waiting("q", 1)
	f.clock.Advance(20 * time.Millisecond)
	require.Equal(f.t, 454, soon(f.t, c).status)
}

func completeBody(queue string, ids ...string) string {
	return fmt.Sprintf(`{"queue_name":%q,"partition":0,"request_timeout":"1m","ids":["%s"]}`, queue, strings.Join(ids, `","`))
}

func TestExpiredLeaseGoesToTheTailUnderANewID(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	f.ok("/v1/queue.produce", produceBody(3))
	refs, old, _ := f.lease("q", 3)
	require.Equal(t, []string{"r0", "r1", "r2"}, refs)
	f.ok("/v1/queue.complete", completeBody("q", old["r1"]))

	f.clock.Advance(time.Minute)
	f.ok("/v1/queue.produce", `{"queue_name":"q","request_timeout":"1m","items":[{"reference":"late"}]}`)
	late := f.post("/v1/queue.complete", completeBody("q", old["r0"]))
	require.Equal(t, 400, late.status)
	require.Equal(t, "invalid storage id; '"+old["r0"]+"' does not exist", late.message(t))

	refs, ids, items := f.lease("q", 10)
	require.ElementsMatch(t, []string{"r0", "r2", "late"}, refs)
	require.NotEqual(t, old["r0"], ids["r0"])
	for _, it := range items {
		want := 2
		if it["reference"] == "late" {
			want = 1
		}
		require.InDelta(t, want, it["attempts"], 0, it["reference"])
	}
	f.ok("/v1/queue.complete", completeBody("q", ids["r0"], ids["r2"], ids["late"]))
	f.empty()
}

func TestRetryNowMovesToTheTail(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	f.ok("/v1/queue.produce", produceBody(3))
	_, ids, _ := f.lease("q", 1)

	f.ok("/v1/queue.retry", fmt.Sprintf(`{"queue_name":"q","items":[{"id":%q}]}`, ids["r0"]))
	again := f.post("/v1/queue.retry", fmt.Sprintf(`{"queue_name":"q","items":[{"id":%q}]}`, ids["r0"]))

	require.Equal(t, "invalid storage id; '"+ids["r0"]+"' does not exist", again.message(t))
	refs, now, items := f.lease("q", 3)
	require.Equal(t, []string{"r1", "r2", "r0"}, refs)
	require.Greater(t, now["r0"], now["r2"], "ids are in the order of the queue")
	require.InDelta(t, 2, items[2]["attempts"], 0)
}

func TestRetryLaterWaitsForItsTime(t *testing.T) {
	for name, tt := range map[string]struct{ path, key string }{
		"retry": {"/v1/queue.retry", "retry_at"}, "defer": {"/v1/queue.defer", "enqueue_at"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, querator.Options{})
			f.create("q")
			f.ok("/v1/queue.produce", produceBody(1))
			_, ids, _ := f.lease("q", 1)
			due := f.clock.Now().Std().Add(5 * time.Minute)

			f.ok(tt.path, fmt.Sprintf(`{"queue_name":"q","items":[{"id":%q,%q:%q}]}`, ids["r0"], tt.key, due.Format(time.RFC3339Nano)))

			f.empty()
			done := f.post("/v1/queue.complete", completeBody("q", ids["r0"]))
			require.Equal(t, 400, done.status, done.body)
			waiter := f.later(t.Context(), "/v1/queue.lease", leaseBody("q", "c", 1, "10m"))
			f.waiting("q", 1)
			f.clock.Set(due.Add(-time.Microsecond))
			f.waiting("q", 1)
			f.clock.Set(due)
			items := soon(t, waiter).items(t)
			require.Len(t, items, 1)
			require.InDelta(t, 2, items[0]["attempts"], 0)
		})
	}
}

func TestScheduledItemWaitsForItsTime(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	now := f.clock.Now().Std()
	f.ok("/v1/queue.produce", fmt.Sprintf(`{"queue_name":"q","request_timeout":"1m","items":[
		{"reference":"later","enqueue_at":%q},{"reference":"soon","enqueue_at":%q},{"reference":"past","enqueue_at":"2020-01-01T00:00:00Z"}]}`,
		now.Add(time.Minute).Format(time.RFC3339Nano), now.Add(50*time.Millisecond).Format(time.RFC3339Nano)))

	refs, ids, _ := f.lease("q", 10)
	require.Equal(t, []string{"soon", "past"}, refs)
	f.ok("/v1/queue.complete", completeBody("q", ids["soon"], ids["past"]))
	waiter := f.later(t.Context(), "/v1/queue.lease", leaseBody("q", "c", 1, "10m"))
	f.waiting("q", 1)
	f.clock.Advance(time.Minute)
	items := soon(t, waiter).items(t)
	require.Equal(t, "later", items[0]["reference"])
}

func TestDeadItemsGoToTheDeadQueue(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("dead")
	f.create("q", `,"dead_queue":"dead","max_attempts":2`)
	f.ok("/v1/queue.produce", produceBody(2))

	_, ids, _ := f.lease("q", 1)
	f.ok("/v1/queue.retry", fmt.Sprintf(`{"queue_name":"q","items":[{"id":%q,"dead":true}]}`, ids["r0"]))
	refs, deadIDs, items := f.lease("dead", 10)
	require.Equal(t, []string{"r0"}, refs)
	require.InDelta(t, 1, items[0]["attempts"], 0, "attempts begin anew")
	require.Equal(t, "bTA=", items[0]["bytes"])
	f.ok("/v1/queue.complete", completeBody("dead", deadIDs["r0"]))

	for range 2 {
		refs, _, _ = f.lease("q", 10)
		require.Equal(t, []string{"r1"}, refs)
		f.clock.Advance(time.Minute)
	}
	f.empty()
	refs, _, _ = f.lease("dead", 10)
	require.Equal(t, []string{"r1"}, refs)
}

func TestWithoutADeadQueueTheLastAttemptDeletes(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q", `,"max_attempts":1`)
	f.ok("/v1/queue.produce", produceBody(1))
	f.lease("q", 1)
	f.clock.Advance(time.Minute)
	f.empty()
	require.NotContains(t, f.ok("/v1/queue.stats", `{"queue_name":"q"}`).body, `"total"`)
}

func TestItemsExpire(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	f.ok("/v1/queue.produce", produceBody(1))
	f.clock.Advance(time.Hour)
	f.empty()
}

func TestCompleteIsAllOrNothing(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	f.ok("/v1/queue.produce", produceBody(3))
	_, ids, _ := f.lease("q", 3)

	bad := f.post("/v1/queue.complete", completeBody("q", ids["r0"], "0ujtsYcgvSTl8PAuAdqWYSMnLOv", ids["r1"]))
	require.Equal(t, 400, bad.status)
	require.Equal(t, "invalid storage id; '0ujtsYcgvSTl8PAuAdqWYSMnLOv' does not exist", bad.message(t))

	f.ok("/v1/queue.complete", completeBody("q", ids["r0"], ids["r1"], ids["r0"]))
	gone := f.post("/v1/queue.complete", completeBody("q", ids["r2"], ids["r0"]))
	require.Equal(t, "invalid storage id; '"+ids["r0"]+"' does not exist", gone.message(t))
	f.ok("/v1/queue.complete", completeBody("q", ids["r2"]))
}

func TestIDsOfAnotherQueueNameNothing(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	f.ok("/v1/queue.produce", produceBody(1))
	_, ids, _ := f.lease("q", 1)
	f.ok("/v1/queues.delete", `{"queue_name":"q"}`)
	f.create("q")
	f.ok("/v1/queue.produce", produceBody(1))
	f.lease("q", 1)

	a := f.post("/v1/queue.complete", completeBody("q", ids["r0"]))
	require.Equal(t, "invalid storage id; '"+ids["r0"]+"' does not exist", a.message(t))
}

func TestPartitions(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.ok("/v1/queues.create", `{"queue_name":"q","lease_timeout":"1m","expire_timeout":"1h","requested_partitions":2}`)
	f.ok("/v1/queue.produce", produceBody(10))
	f.ok("/v1/queue.produce", produceBody(11))

	first := f.ok("/v1/queue.lease", leaseBody("q", "c", 20, "1m"))
	require.Contains(t, first.body, `"partition":1`, "the partition with the most unleased items")
	items := first.items(t)
	require.Len(t, items, 11, "a lease is served by one partition")
	id := fmt.Sprint(items[0]["id"])

	wrong := f.post("/v1/queue.complete", completeBody("q", id))
	require.Equal(t, "invalid storage id; '"+id+"' does not exist", wrong.message(t))
	f.ok("/v1/queue.complete", `{"queue_name":"q","partition":1,"request_timeout":"1m","ids":["`+id+`"]}`)
	second := f.ok("/v1/queue.lease", leaseBody("q", "c", 20, "1m"))
	require.Contains(t, second.body, `"partition":0`)
	require.Len(t, second.items(t), 10)

	stats := f.ok("/v1/queue.stats", `{"queue_name":"q"}`)
	exact(t, `{"queue_name":"q","logicalQueues":[{"partitions":[`+
		`{"total":10,"total_leased":10,"average_age":"0s","average_leased_age":"1m0s"},`+
		`{"partition":1,"total":10,"total_leased":10,"average_age":"0s","average_leased_age":"1m0s"}]}]}`, stats.body)
}

func TestStatsTellWhatIsScheduled(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	f.ok("/v1/queue.produce", produceBody(3))
	later := f.clock.Now().Std().Add(time.Hour).Format(time.RFC3339Nano)
	f.ok("/v1/queue.produce", fmt.Sprintf(`{"queue_name":"q","request_timeout":"1m","items":[{"enqueue_at":%q}]}`, later))
	_, ids, _ := f.lease("q", 2)
	f.ok("/v1/queue.retry", fmt.Sprintf(`{"queue_name":"q","items":[{"id":%q,"retry_at":%q}]}`, ids["r0"], later))
	waiter := f.later(t.Context(), "/v1/queue.reserve", leaseBody("q", "c", 1, "1m"))
	require.Len(t, soon(t, waiter).items(t), 1)
	waiter = f.later(t.Context(), "/v1/queue.reserve", leaseBody("q", "c", 1, "1m"))
	f.waiting("q", 1)
	f.clock.Advance(10 * time.Second)

	a := f.ok("/v1/queue.stats", `{"queue_name":"q"}`)

	exact(t, `{"queue_name":"q","logicalQueues":[{"lease_waiting":1,"in_flight":1,"partitions":[`+
		`{"total":2,"total_leased":2,"average_age":"10s","average_leased_age":"50s","scheduled":2}]}]}`, a.body)
	f.clock.Advance(time.Minute)
	soon(t, waiter)
}
