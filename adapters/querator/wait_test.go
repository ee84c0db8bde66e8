package querator_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/querator"
)

func leaseBody(queue, client string, batch int, timeout string) string {
	return fmt.Sprintf(`{"queue_name":%q,"client_id":%q,"batch_size":%d,"request_timeout":%q}`, queue, client, batch, timeout)
}

// produceBody puts items with the references r0, r1, … into the queue q.
func produceBody(n int) string {
	items := make([]string, 0, n)
	for i := range n {
		items = append(items, fmt.Sprintf(`{"utf8":"m%d","reference":"r%d"}`, i, i))
	}
	return fmt.Sprintf(`{"queue_name":"q","request_timeout":"1m","items":[%s]}`, strings.Join(items, ","))
}

func TestReserveOfAnEmptyQueueEndsAtTheTimeoutAndNotBefore(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.ok("/v1/queues.create", `{"queue_name":"q","reserve_timeout":"1m","expire_timeout":"1h","requested_partitions":1}`)
	got := f.later(t.Context(), "/v1/queue.reserve", leaseBody("q", "c", 2, "30s"))
	f.waiting("q", 1)

	f.clock.Advance(30*time.Second - time.Microsecond)
	f.waiting("q", 1)
	require.Empty(t, got)
	f.clock.Advance(time.Microsecond)

	a := soon(t, got)
	require.Equal(t, 454, a.status)
	exact(t, `{"code":454,"code_text":"Retry Request","message":"request timeout; no items are in the queue, try again"}`, a.body)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
}

func TestWaitingReserveIsAnsweredByAProduce(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	got := f.later(t.Context(), "/v1/queue.reserve", leaseBody("q", "c", 10, "30s"))
	f.waiting("q", 1)

	f.ok("/v1/queue.produce", produceBody(2))

	a := soon(t, got)
	items := a.items(t)
	require.Len(t, items, 2)
	require.Contains(t, items[0], "reserve_deadline")
	require.NotContains(t, items[0], "lease_deadline")
	require.Contains(t, a.body, `"partition":0`)
}

func TestItemsAreDealtOverWaitingClients(t *testing.T) {
	for _, tt := range []struct {
		name    string
		batches []int
		items   int
		want    []int
	}{
		{"fewer than asked for", []int{20, 6, 1}, 23, []int{16, 6, 1}},
		{"enough for all", []int{5, 10, 20}, 100, []int{5, 10, 20}},
		{"evenly", []int{10, 10, 10, 10, 10}, 10, []int{2, 2, 2, 2, 2}},
		{"the rest to the first", []int{10, 10, 10, 10, 10}, 7, []int{2, 2, 1, 1, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, querator.Options{})
			f.create("q")
			answers := make([]<-chan answer, 0, len(tt.batches))
			for i, n := range tt.batches {
				answers = append(answers, f.later(t.Context(), "/v1/queue.lease", leaseBody("q", fmt.Sprintf("c%d", i), n, "1m")))
				f.waiting("q", i+1)
			}

			f.ok("/v1/queue.produce", produceBody(tt.items))

			next := 0
			for i, c := range answers {
				items := soon(t, c).items(t)
				require.Len(t, items, tt.want[i], "client %d", i)
				for _, it := range items {
					// Each answer is a stretch of the queue, in order of arrival.
					require.Equal(t, fmt.Sprintf("r%d", next), it["reference"])
					next++
				}
			}
		})
	}
}

func TestASecondWaitWithTheSameClientIDIsRefused(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/queue.lease":   "duplicate client id; a client cannot make multiple leased requests to the same queue",
		"/v1/queue.reserve": "duplicate client id; a client cannot make multiple reserve requests to the same queue",
	} {
		t.Run(path, func(t *testing.T) {
			f := newFixture(t, querator.Options{})
			f.create("q")
			f.create("other")
			first := f.later(t.Context(), path, leaseBody("q", "c", 1, "1m"))
			f.waiting("q", 1)

			second := f.post(path, leaseBody("q", "c", 1, "1m"))
			require.Equal(t, 400, second.status)
			require.Equal(t, want, second.message(t))

			elsewhere := f.later(t.Context(), path, leaseBody("other", "c", 1, "1m"))
			f.waiting("other", 1)
			f.ok("/v1/queue.produce", produceBody(2))
			require.Len(t, soon(t, first).items(t), 1, "the first wait goes on")
			require.Len(t, f.ok(path, leaseBody("q", "c", 1, "1m")).items(t), 1, "a holder may lease again")
			f.clock.Advance(time.Minute)
			require.Equal(t, 454, soon(t, elsewhere).status)
		})
	}
}

func TestAClientThatLeavesHoldsNothing(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	server := httptest.NewServer(f.handler)
	defer server.Close()
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/queue.lease", strings.NewReader(leaseBody("q", "c", 5, "10m")))
		if err == nil {
			var res *http.Response
			if res, err = server.Client().Do(r); err == nil {
				err = res.Body.Close()
			}
		}
		left <- err
	}()
	f.waiting("q", 1)

	leave()
	require.ErrorIs(t, soon(t, left), context.Canceled)
	f.waiting("q", 0)

	again := f.later(t.Context(), "/v1/queue.lease", leaseBody("q", "c", 5, "10m"))
	f.waiting("q", 1)
	f.ok("/v1/queue.produce", produceBody(1))
	items := soon(t, again).items(t)
	require.Len(t, items, 1)
	require.InDelta(t, 1, items[0]["attempts"], 0, "nobody held it before")
}

func TestShutdownAndDeletionEndWaitingLeases(t *testing.T) {
	for name, end := range map[string]func(*fixture){
		"shutdown": func(f *fixture) { require.NoError(f.t, f.engine.Shutdown(context.Background())) },
		"deletion": func(f *fixture) { f.ok("/v1/queues.delete", `{"queue_name":"q"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, querator.Options{})
			f.create("q")
			waiter := f.later(t.Context(), "/v1/queue.lease", leaseBody("q", "c", 1, "1m"))
			f.waiting("q", 1)

			end(f)

			a := soon(t, waiter)
			require.Equal(t, 453, a.status)
			exact(t, `{"code":453,"code_text":"Request Failed","message":"queue is shutting down"}`, a.body)
		})
	}
}

func TestRequestsAfterShutdownAreRefused(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	require.NoError(t, f.engine.Shutdown(context.Background()))

	for path, body := range map[string]string{
		"/v1/queue.produce": produceBody(1),
		"/v1/queue.lease":   leaseBody("q", "c", 1, "1m"),
	} {
		a := f.post(path, body)
		require.Equal(t, 453, a.status, "%s: %s", path, a.body)
		require.Contains(t, a.message(t), "shutting down", path)
	}
}

func TestWhatWakesAWaitingLease(t *testing.T) {
	for name, wake := range map[string]func(f *fixture, id string){
		"a lease that expires": func(f *fixture, _ string) { f.clock.Advance(time.Minute) },
		"a retry":              func(f *fixture, id string) { f.ok("/v1/queue.retry", `{"queue_name":"q","items":[{"id":"`+id+`"}]}`) },
		"a move to a dead queue": func(f *fixture, id string) {
			f.ok("/v1/queue.retry", `{"queue_name":"q","items":[{"id":"`+id+`","dead":true}]}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, querator.Options{})
			f.create("dead")
			f.create("q", `,"dead_queue":"dead"`)
			f.ok("/v1/queue.produce", produceBody(1))
			_, ids, _ := f.lease("q", 1)
			queue := "q"
			if name == "a move to a dead queue" {
				queue = "dead"
			}
			waiter := f.later(t.Context(), "/v1/queue.lease", leaseBody(queue, "other", 1, "10m"))
			f.waiting(queue, 1)

			wake(f, ids["r0"])

			require.Equal(t, "r0", soon(t, waiter).items(t)[0]["reference"])
		})
	}
}

func TestAPausedQueueHoldsRequestsAndReleasesThemTogether(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	f.pause("q", true)
	answers := make([]<-chan answer, 0, 3)
	for i, n := range []int{20, 6, 1} {
		answers = append(answers, f.later(t.Context(), "/v1/queue.lease", leaseBody("q", "c"+strings.Repeat("i", i), n, "1m")))
		f.waiting("q", i+1)
	}
	produced := f.later(t.Context(), "/v1/queue.produce", produceBody(23))
	f.statsShow(`"produce_waiting":1,"lease_waiting":3`)

	f.pause("q", false)

	require.Equal(t, 200, soon(t, produced).status)
	for i, want := range []int{16, 6, 1} {
		require.Len(t, soon(t, answers[i]).items(t), want)
	}
}

// statsShow waits until the stats of q hold a text.
func (f *fixture) statsShow(text string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		if strings.Contains(f.ok("/v1/queue.stats", `{"queue_name":"q"}`).body, text) {
			return
		}
		runtime.Gosched()
	}
	f.t.Fatalf("the stats never showed %s", text)
}
