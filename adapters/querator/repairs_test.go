package querator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/querator"
	"github.com/leasehold/leasehold/store/memory"
	"github.com/leasehold/leasehold/store/sqlite"
)

// The tests of this file are named for what they prevent: each is a defect of the originals that a
// user would have met.

func (f *fixture) in(d time.Duration) string {
	return f.clock.Now().Std().Add(d).Format(time.RFC3339Nano)
}

func retryBody(id, more string) string {
	return fmt.Sprintf(`{"queue_name":"q","items":[{"id":%q%s}]}`, id, more)
}

func TestNoScheduledItemIsForgottenBehindAnEarlierOne(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%t", restart), func(t *testing.T) {
			f := newFixture(t, querator.Options{})
			f.create("q")
			f.ok("/v1/queue.produce", produceBody(2))
			_, ids, _ := f.lease("q", 2)
			f.ok("/v1/queue.produce", fmt.Sprintf(`{"queue_name":"q","request_timeout":"1m","items":[{"reference":"s1","enqueue_at":%q},{"reference":"s3","enqueue_at":%q}]}`,
				f.in(time.Second), f.in(3*time.Second)))
			f.ok("/v1/queue.retry", retryBody(ids["r0"], `,"retry_at":"`+f.in(2*time.Second)+`"`))
			f.ok("/v1/queue.retry", retryBody(ids["r1"], `,"retry_at":"`+f.in(4*time.Second)+`"`))
			if restart {
				f.restart()
			}
			for _, want := range []string{"s1", "r0", "s3", "r1"} {
				waiter := f.later(t.Context(), "/v1/queue.lease", leaseBody("q", "c", 10, "1m"))
				f.waiting("q", 1)
				f.clock.Advance(time.Second)
				items := soon(t, waiter).items(t)
				require.Len(t, items, 1)
				require.Equal(t, want, items[0]["reference"])
			}
		})
	}
}

func TestAnItemScheduledBeyondTheExpireTimeoutIsNotDeadWhenItBecomesDue(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	f.ok("/v1/queue.produce", fmt.Sprintf(`{"queue_name":"q","request_timeout":"1m","items":[{"reference":"late","enqueue_at":%q}]}`, f.in(24*time.Hour)))

	f.clock.Advance(24 * time.Hour)

	refs, _, _ := f.lease("q", 1)
	require.Equal(t, []string{"late"}, refs)
}

func TestTheLastAttemptIsNotCutShortWhenAnotherLeaseExpires(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q", `,"max_attempts":1`)
	f.ok("/v1/queue.produce", produceBody(2))
	f.lease("q", 1)
	f.clock.Advance(30 * time.Second)
	_, ids, _ := f.lease("q", 1)

	f.clock.Advance(30 * time.Second)

	f.ok("/v1/queue.complete", completeBody("q", ids["r1"]))
	f.empty()
}

func TestRetriesAreNotUnlimited(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("dead")
	f.create("q", `,"max_attempts":2,"dead_queue":"dead"`)
	f.ok("/v1/queue.produce", produceBody(1))
	for range 2 {
		_, ids, _ := f.lease("q", 1)
		f.ok("/v1/queue.retry", retryBody(ids["r0"], ""))
	}
	f.empty()
	refs, _, _ := f.lease("dead", 1)
	require.Equal(t, []string{"r0"}, refs)
}

func TestADeadRetryIsNotDeleted(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("dead")
	f.create("q", `,"dead_queue":"dead"`)
	f.ok("/v1/queue.produce", produceBody(1))
	_, ids, _ := f.lease("q", 1)

	f.ok("/v1/queue.retry", retryBody(ids["r0"], `,"dead":true,"retry_at":"`+f.in(time.Hour)+`"`))

	stored := f.ok("/v1/storage/items.list", `{"queue_name":"dead"}`)
	require.Contains(t, stored.body, `"source_id":"`+ids["r0"]+`"`)
	require.Contains(t, stored.body, `"expire_deadline":"`+f.in(time.Hour)+`"`, "by the dead queue's own rule")
}

func TestAPartialUpdateChangesNothingElse(t *testing.T) {
	f := newFixture(t, querator.Options{Generation: querator.L2})
	f.create("dead")
	f.create("q", `,"dead_queue":"dead","reference":"ref","max_attempts":3`)
	f.ok("/v1/queues.update", `{"queue_name":"q","max_attempts":5}`)

	for _, body := range []string{f.ok("/v1/queues.info", `{"queue_name":"q"}`).body, f.ok("/v1/queues.list", `{"pivot":"q"}`).body} {
		for _, want := range []string{`"max_attempts":5`, `"reference":"ref"`, `"dead_queue":"dead"`, `"lease_timeout":"1m0s"`, `"expire_timeout":"1h0m0s"`} {
			require.Contains(t, body, want)
		}
	}
	f.ok("/v1/queue.produce", produceBody(1))
	_, _, items := f.lease("q", 1)
	require.Equal(t, f.in(time.Minute), items[0]["lease_deadline"])
	waiter := f.later(t.Context(), "/v1/queue.lease", leaseBody("q", "other", 1, "1s"))
	f.waiting("q", 1)
	f.clock.Advance(time.Second)
	require.Equal(t, 454, soon(t, waiter).status, "the item is leased")
}

func TestADeletedQueueDoesNotComeBackWithItsItems(t *testing.T) {
	store, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
	require.NoError(t, err)
	f := newFixtureOn(t, store, querator.Options{})
	f.create("q")
	f.ok("/v1/queue.produce", produceBody(3))
	f.lease("q", 1)
	f.ok("/v1/queue.produce", fmt.Sprintf(`{"queue_name":"q","request_timeout":"1m","items":[{"enqueue_at":%q}]}`, f.in(time.Hour)))
	f.ok("/v1/queues.delete", `{"queue_name":"q"}`)
	f.restart()
	f.create("q")

	require.JSONEq(t, `{"items":[]}`, f.ok("/v1/storage/items.list", `{"queue_name":"q"}`).body)
	require.JSONEq(t, `{"items":[]}`, f.ok("/v1/storage/scheduled.list", `{"queue_name":"q"}`).body)
	f.clock.Advance(2 * time.Hour)
	f.empty()
}

func TestAnItemThatComesBackIsNotMissedInItsPartition(t *testing.T) {
	for name, comeBack := range map[string]func(f *fixture, partition int, id string){
		"retried": func(f *fixture, partition int, id string) {
			f.ok("/v1/queue.retry", fmt.Sprintf(`{"queue_name":"q","partition":%d,"items":[{"id":%q}]}`, partition, id))
		},
		"expired": func(f *fixture, _ int, _ string) { f.clock.Advance(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, querator.Options{})
			f.ok("/v1/queues.create", `{"queue_name":"q","lease_timeout":"1m","expire_timeout":"1h","requested_partitions":2}`)
			f.ok("/v1/queue.produce", produceBody(1))
			a := f.ok("/v1/queue.lease", leaseBody("q", "c", 1, "1m"))
			_, _, items := "", "", a.items(t)
			id, _ := items[0]["id"].(string)

			comeBack(f, strings.Count(a.body, `"partition":1`), id)

			again := f.ok("/v1/queue.lease", leaseBody("q", "c", 1, "1m")).items(t)
			require.Equal(t, "r0", again[0]["reference"])
		})
	}
}

func TestWhatWasLeasedOnceIsNotCountedForEver(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	f.ok("/v1/queue.produce", produceBody(3))
	_, ids, _ := f.lease("q", 2)
	require.Contains(t, f.ok("/v1/queue.stats", `{"queue_name":"q"}`).body, `"total":3,"total_leased":2`)
	f.ok("/v1/queue.complete", completeBody("q", ids["r0"], ids["r1"]))
	require.Contains(t, f.ok("/v1/queue.stats", `{"queue_name":"q"}`).body, `"total":1,"average_age"`)
}

func TestBothTimeoutsCanBeRaisedAtOnce(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	f.ok("/v1/queues.update", `{"queue_name":"q","lease_timeout":"2h","expire_timeout":"3h"}`)
	require.Contains(t, f.ok("/v1/queues.info", `{"queue_name":"q"}`).body, `"lease_timeout":"2h0m0s","expire_timeout":"3h0m0s"`)
}

func TestProducedLeasedAndScheduledItemsSurviveARestart(t *testing.T) {
	store, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
	require.NoError(t, err)
	f := newFixtureOn(t, store, querator.Options{})
	f.create("q")
	f.ok("/v1/queue.produce", produceBody(3))
	_, ids, _ := f.lease("q", 2)
	f.ok("/v1/queue.complete", completeBody("q", ids["r0"]))

	f.restart()

	f.ok("/v1/queue.complete", completeBody("q", ids["r1"]))
	refs, _, _ := f.lease("q", 5)
	require.Equal(t, []string{"r2"}, refs)
	f.restart()
	f.clock.Advance(time.Minute)
	refs, _, items := f.lease("q", 5)
	require.Equal(t, []string{"r2"}, refs, "a lease that ended meanwhile")
	require.InDelta(t, 2, items[0]["attempts"], 0)
}

func TestADeadQueueThatIsOnlyNamedTakesItsItems(t *testing.T) {
	f := newFixtureOn(t, memory.New(), querator.Options{Generation: querator.R2})
	f.ok("/v1/queues.create", `{"queue_name":"q","reserve_timeout":"1m","expire_timeout":"1h","requested_partitions":1,"dead_queue":"later","max_attempts":1}`)
	require.NotContains(t, f.ok("/v1/queues.list", `{}`).body, `"queue_name":"later"`, "nothing could be dead yet")
	f.ok("/v1/queue.produce", produceBody(1))
	f.ok("/v1/queue.reserve", leaseBody("q", "c", 1, "1m"))

	f.clock.Advance(time.Minute)

	waiter := f.later(t.Context(), "/v1/queue.reserve", leaseBody("later", "c", 1, "1m"))
	require.Equal(t, "r0", soon(t, waiter).items(t)[0]["reference"])
	require.Contains(t, f.ok("/v1/queues.list", `{"pivot":"q"}`).body, `"dead_queue":"later"`)
}

func TestAQueueWithTheLongestNameCanBeUsed(t *testing.T) {
	f := newFixture(t, querator.Options{})
	name := strings.Repeat("n", 512)
	f.create(name)
	f.ok("/v1/queue.produce", `{"queue_name":"`+name+`","request_timeout":"1m","items":[{}]}`)
	require.Len(t, f.ok("/v1/queue.lease", leaseBody(name, "c", 1, "1m")).items(t), 1)
	f.ok("/v1/queue.stats", `{"queue_name":"`+name+`"}`)
	f.ok("/v1/queue.clear", `{"queueName":"`+name+`","queue":true}`)
	a := f.do("POST", "/v1/queue.stats", string(wire(field{1, name})), "Content-Type", "application/protobuf")
	require.Equal(t, 200, a.status)
	for _, body := range []string{
		leaseBody(name, strings.Repeat("c", 450), 1, "1m"), leaseBody(strings.Repeat("n", 513), "c", 1, "1m"), leaseBody("q", strings.Repeat("c", 512), 1, "1m"),
		string(wire(field{3, strings.Repeat("c", 513)})),
	} {
		a := f.post("/v1/queue.lease", body)
		require.Equal(t, 400, a.status)
	}
	require.Equal(t, "request body exceeds 512B limit", f.post("/v1/queue.lease", leaseBody("q", strings.Repeat("c", 512), 1, "1m")).message(t))
}
