package cfqueues_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
	"github.com/leasehold/leasehold/core"
)

// pullLater starts a pull that waits and returns where its answer comes.
func (h *harness) pullLater(ctx context.Context, path, body, prefer string) <-chan answer {
	h.t.Helper()
	done := make(chan answer, 1)
	go func() {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", base+path+"/messages/pull", strings.NewReader(body)).WithContext(ctx)
		if prefer != "" {
			r.Header.Set("Prefer", prefer)
		}
		h.handler.ServeHTTP(w, r)
		if ctx.Err() == nil {
			done <- readAnswer(h.t, w)
		}
		close(done)
	}()
	name := strings.TrimPrefix(path, "/queues/")
	require.Eventually(h.t, func() bool {
		if h.remote != nil {
			n, _ := h.remote.Waiting(h.t, name)
			return n > 0
		}
		stats, err := h.engine.QueueStats(h.t.Context(), name, core.QueueModeGroup)
		return err == nil && stats.ClaimsWaiting > 0
	}, 5*time.Second, time.Millisecond, "the pull does not wait")
	return done
}

func TestPullWaits(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		h.make("jobs", "")
		for _, w := range [][2]string{{`{"wait_ms":20000}`, ""}, {`{}`, "wait=20"}, {``, `respond-async, Wait = "5" ; x=1`}} {
			done := h.pullLater(t.Context(), "/queues/jobs", w[0], w[1])
			h.push("/queues/jobs", "now")
			a := <-done
			require.Equal(t, 200, a.status, a.raw)
			assert.Contains(t, a.raw, `"body":"now"`)
			if w[1] != "" {
				assert.Contains(t, a.header.Get("Preference-Applied"), "wait=")
			} else {
				assert.Empty(t, a.header.Get("Preference-Applied"))
			}
		}
	})
}

func TestPullWaitsToTheEnd(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		h.make("jobs", "")
		for _, w := range [][2]string{{`{"wait_ms":3000}`, ""}, {`{"wait_ms":3000}`, "wait=9"}, {`{}`, "wait=3"}} {
			done := h.pullLater(t.Context(), "/queues/jobs", w[0], w[1])
			h.clock.Advance(2999 * time.Millisecond)
			select {
			case a := <-done:
				t.Fatal("too early", a.raw)
			default:
			}
			h.clock.Advance(time.Millisecond)
			a := <-done
			require.Equal(t, 200, a.status, a.raw)
			assert.Contains(t, a.raw, `"messages":[],"metadata"`, "an empty pull is no error")
		}
		done := h.pullLater(t.Context(), "/queues/jobs", ``, "wait=86400")
		h.clock.Advance(20 * time.Second)
		a := <-done
		assert.Equal(t, "wait=20", a.header.Get("Preference-Applied"), "a preference goes as far as the bound")
	})
}

// A waiting pull is woken by everything that makes a message available.
func TestWhatWakesAPull(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		h.make("jobs", `"visibility_timeout_ms":5000,"max_retries":100`)
		path := "/queues/jobs"
		h.push(path, "a")
		for _, wake := range []func(message){
			func(m message) { h.retry(path, nil, m.LeaseID) },
			func(m message) { h.retry(path, seconds(3), m.LeaseID); h.clock.Advance(3 * time.Second) },
			func(message) { h.clock.Advance(5 * time.Second) },
		} {
			m := h.one(path)
			done := h.pullLater(t.Context(), path, `{"wait_ms":20000}`, "")
			wake(m)
			a := <-done
			var p pulled
			h.decode(a, &p)
			require.Len(t, p.Messages, 1)
			h.settle(path, nil, []string{p.Messages[0].LeaseID}, nil)
		}
	})
}

func TestPullThatWaitsOnAQueueThatIsPausedOrDeleted(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		h.make("jobs", "")
		done := h.pullLater(t.Context(), "/queues/jobs", `{"wait_ms":20000}`, "")
		h.ok("PATCH", "/queues/jobs", `{"settings":{"delivery_paused":true}}`, nil)
		h.push("/queues/jobs", "held")
		h.ok("PATCH", "/queues/jobs", `{}`, nil)
		select {
		case a := <-done:
			t.Fatal("delivered on a paused queue", a.raw)
		default:
		}
		h.ok("PATCH", "/queues/jobs", `{"settings":{"delivery_paused":false}}`, nil)
		a := <-done
		assert.Contains(t, a.raw, `"body":"held"`)
		done = h.pullLater(t.Context(), "/queues/jobs", `{"wait_ms":20000}`, "")
		h.ok("DELETE", "/queues/jobs", "", nil)
		a = <-done
		assert.Equal(t, 404, a.status, a.raw)
	})
}

func TestClientThatLeavesWhileItWaits(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		h.make("jobs", "")
		ctx, cancel := context.WithCancel(t.Context())
		done := h.pullLater(ctx, "/queues/jobs", `{"wait_ms":20000}`, "")
		cancel()
		<-done
		if h.remote != nil { // which learns of it a moment later
			h.remote.AwaitWaiting(t, "jobs", 0)
		}
		h.push("/queues/jobs", "a")
		assert.Equal(t, 1, h.one("/queues/jobs").Attempts)
	})
}

func TestPullWithoutWaitAnswersAtOnce(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	for _, body := range []string{`{}`, `{"wait_ms":0}`, `{"wait_ms":null}`} {
		assert.Empty(t, h.pull(path, body))
	}
	for _, prefer := range []string{"wait", "wait=", "wait=-1", "wait=soon", "respond-async", "waiting=5", "wait=99999999999999"} {
		h.header.Set("Prefer", prefer)
		assert.Empty(t, h.pull(path, ""))
	}
	h.header.Set("Prefer", "wait=9")
	assert.Empty(t, h.pull(path, `{"wait_ms":0}`), "the body decides")
	for _, n := range []string{"20001", "-1", "1.5", `"1"`, "true"} {
		h.refused("POST", path+"/messages/pull", fmt.Sprintf(`{"wait_ms":%s}`, n), 400, 10207)
	}
}
