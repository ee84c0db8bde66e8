package queen_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen/spool"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/memory"
)

// maintenanceRules are the paragraphs about maintenance.
var maintenanceRules = []rule{
	{covers: "8.2 maintenance.js", run: withDesk(switchUnderLoad)},
	{covers: "8.3 cli maintenance", run: withDesk(switchesAreShown)},
	{covers: "9.1 maintenance", run: withDesk(newPartitionsAreFound)},
	{covers: "5.2 push", run: withDesk(buffersAndDrains)},
	{covers: "5.2 pop", run: withDesk(popsEnd)},
	{covers: "5.2 dedup", run: withDesk(deduplicates)},
}

// maintain turns push maintenance.
func (d *desk) maintain(t *testing.T, on bool) {
	t.Helper()
	r := d.do(t, http.MethodPost, "/api/v1/system/maintenance", fmt.Sprintf(`{"enabled":%t}`, on))
	require.Equal(t, http.StatusOK, r.status, r.body)
}

// statuses pushes one message for each id and returns what became of each.
func (d *desk) statuses(t *testing.T, queue, partition string, ids ...string) (out []string) {
	t.Helper()
	items := make([]string, 0, len(ids))
	for _, id := range ids {
		items = append(items, `{"queue":"`+queue+`","partition":"`+partition+`","payload":{"id":"`+id+`"},"transactionId":"`+id+`"}`)
	}
	for _, p := range d.push(t, `{"items":[`+strings.Join(items, ",")+`]}`) {
		out = append(out, p.Status)
	}
	return out
}

// buffered is how many messages the server says are in its spool.
func (d *desk) buffered(t *testing.T) int {
	t.Helper()
	n, ok := d.get(t, "/api/v1/system/maintenance")["bufferedMessages"].(float64)
	require.True(t, ok)
	return int(n)
}

// drained waits until the spool is empty, while the server looks at its clock.
func (d *desk) drained(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		d.local.Advance(500 * time.Millisecond)
		return d.buffered(t) == 0
	}, 10*time.Second, 5*time.Millisecond)
}

// takeAll pops everything from a queue with autoAck, by partition.
func (d *desk) takeAll(t *testing.T, queue string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for {
		p := d.pop(t, "/queue/"+queue+"?batch=1000&partitions=0&autoAck=true")
		if len(p.Messages) == 0 {
			return out
		}
		for i := range p.Messages {
			out[p.Messages[i].Partition] = append(out[p.Messages[i].Partition], p.Messages[i].TransactionID)
		}
	}
}

func switchesAreShown(t *testing.T, d *desk) {
	t.Helper()
	exactly(t, `{"bufferHealthy":true,"bufferStats":{"bytes":0,"dbHealthy":true,"failedCount":0,"failedFiles":{"count":0,"failoverCount":0,"qos0Count":0,"totalBytes":0,"totalMB":0},"pendingCount":0},"bufferedMessages":0,"maintenanceMode":false,"popMaintenanceMode":false}`,
		d.do(t, http.MethodGet, "/api/v1/system/maintenance", "").body)
	exactly(t, `{"bufferHealthy":true,"bufferedMessages":0,"maintenanceMode":true,"message":"Maintenance mode ENABLED. All PUSHes routing to file buffer."}`,
		d.do(t, http.MethodPost, "/api/v1/system/maintenance", `{"enabled":true}`).body)
	assert.Equal(t, true, d.get(t, "/api/v1/system/maintenance")["maintenanceMode"])
	assert.Contains(t, d.do(t, http.MethodGet, "/metrics/prometheus", "").body, "queen_maintenance_mode_enabled 1\n")
	exactly(t, `{"bufferHealthy":true,"bufferedMessages":0,"maintenanceMode":false,"message":"Maintenance mode DISABLED. Background processor will drain buffer to DB."}`,
		d.do(t, http.MethodPost, "/api/v1/system/maintenance", `{"enabled":false}`).body)
	exactly(t, `{"message":"Pop maintenance mode is OFF. Normal operation.","popMaintenanceMode":false}`,
		d.do(t, http.MethodGet, "/api/v1/system/maintenance/pop", "").body)
	exactly(t, `{"message":"Pop maintenance mode ENABLED. All POP operations will return empty arrays.","popMaintenanceMode":true}`,
		d.do(t, http.MethodPost, "/api/v1/system/maintenance/pop", `{"enabled":true}`).body)
	assert.Equal(t, true, d.get(t, "/api/v1/system/maintenance")["popMaintenanceMode"])
	assert.Equal(t, true, d.get(t, "/api/v1/system/maintenance/pop")["popMaintenanceMode"])
	for _, path := range []string{"/api/v1/system/maintenance", "/api/v1/system/maintenance/pop"} {
		for _, body := range []string{"", "{}", `{"enabled":1}`, `{"enabled":"true"}`, `{"enabled":null}`, "null", "[]"} {
			r := d.do(t, http.MethodPost, path, body)
			assert.Equal(t, http.StatusBadRequest, r.status, body)
			exactly(t, `{"error":"enabled (boolean) is required"}`, r.body)
		}
		r := d.do(t, http.MethodPost, path, `{"enabled":tru`)
		assert.Equal(t, http.StatusBadRequest, r.status)
		assert.Contains(t, r.body, "bad body")
	}
	assert.Equal(t, true, d.get(t, "/api/v1/system/maintenance")["popMaintenanceMode"], "a bad body turns nothing")
}

func newPartitionsAreFound(t *testing.T, d *desk) {
	t.Helper()
	d.maintain(t, true)
	assert.Equal(t, []string{"buffered", "buffered"}, d.statuses(t, "fresh", "new", "a", "b"))
	assert.Empty(t, d.pop(t, "/queue/fresh").Messages, "nothing is stored yet")
	d.maintain(t, false)
	d.drained(t)
	p := d.pop(t, "/queue/fresh?batch=10")
	assert.Equal(t, []string{"a", "b"}, p.ids())
	assert.Equal(t, "new", p.Partition)
}

func TestPushMaintenanceBuffersAndDrainsInOrder(t *testing.T) { overStores(t, buffersAndDrains) }

func buffersAndDrains(t *testing.T, d *desk) {
	t.Helper()
	assert.Equal(t, []string{"queued"}, d.statuses(t, "q", "p", "a"))
	d.maintain(t, true)
	out := d.push(t, `{"items":[{"queue":"q","partition":"p","payload":{ "n": 1.50 }},{"queue":"q","partition":"p","payload":2,"transactionId":"c"}]}`)
	require.Len(t, out, 2)
	assert.Equal(t, "buffered", out[0].Status)
	assert.Equal(t, out[0].MessageID, out[0].TransactionID)
	assert.Equal(t, 1, out[1].Index)
	assert.Equal(t, 2, d.buffered(t))
	buffers := d.get(t, "/api/v1/status/buffers")
	assert.InDelta(t, 2, buffers["pending"], 0)
	assert.Equal(t, true, buffers["dbHealthy"])

	p := d.pop(t, "/queue/q?batch=10")
	require.Equal(t, []string{"a"}, p.ids(), "pops go on, and get what is stored")
	assert.True(t, d.ack(t, "", p.PartitionID, p.LeaseID, "a=completed")[0].Success, "so do acks")

	d.maintain(t, false)
	d.drained(t)
	r := d.do(t, http.MethodGet, "/api/v1/pop/queue/q?batch=10", "")
	p = asPopped(t, r)
	assert.Equal(t, []string{out[0].TransactionID, "c"}, p.ids())
	assert.Equal(t, out[0].MessageID, p.Messages[0].ID, "the id that was answered is the message's")
	assert.Contains(t, r.body, `"data":{ "n": 1.50 }`, "byte for byte")
	assert.True(t, d.ack(t, "", p.PartitionID, "", out[0].TransactionID+"=completed")[0].Success, "without a lease too")
	assert.Equal(t, []string{"queued"}, d.statuses(t, "q", "p", "d"))
}

func TestMaintenanceRespectsDeduplication(t *testing.T) { overStores(t, deduplicates) }

func deduplicates(t *testing.T, d *desk) {
	t.Helper()
	d.statuses(t, "q", "p", "a")
	d.maintain(t, true)
	assert.Equal(t, []string{"buffered", "buffered", "buffered"}, d.statuses(t, "q", "p", "a", "b", "b"))
	assert.Equal(t, []string{"buffered"}, d.statuses(t, "q", "other", "a"))
	d.maintain(t, false)
	d.drained(t)
	assert.Equal(t, map[string][]string{"p": {"a", "b"}, "other": {"a"}}, d.takeAll(t, "q"))
	assert.Equal(t, []string{"duplicate"}, d.statuses(t, "q", "p", "b"))
}

func TestMaintenanceSurvivesARestart(t *testing.T) {
	store := memory.New()
	d := newDeskWith(t, store, coretest.New(coretest.Start), spool.Options{Dir: t.TempDir()})
	d.statuses(t, "q", "p", "a")
	d.maintain(t, true)
	d.do(t, http.MethodPost, "/api/v1/system/maintenance/pop", `{"enabled":true}`)
	d.statuses(t, "q", "p", "b")
	d.end(t)
	d.begin(t)
	assert.Equal(t, true, d.get(t, "/api/v1/system/maintenance")["maintenanceMode"])
	assert.Equal(t, true, d.get(t, "/api/v1/system/maintenance")["popMaintenanceMode"])
	assert.Equal(t, 1, d.buffered(t))
	assert.Equal(t, []string{"buffered"}, d.statuses(t, "q", "p", "c"))
	d.maintain(t, false)
	d.do(t, http.MethodPost, "/api/v1/system/maintenance/pop", `{"enabled":false}`)
	d.drained(t)
	d.end(t)
	d.begin(t)
	assert.Equal(t, 0, d.buffered(t))
	assert.Equal(t, map[string][]string{"p": {"a", "b", "c"}}, d.takeAll(t, "q"), "nothing is drained twice")
	d.end(t)
}

func TestEveryServerObeysTheSwitchWithinASecond(t *testing.T) {
	store, clock := memory.New(), coretest.New(coretest.Start)
	one, two := newDeskWith(t, store, clock, spool.Options{}), newDeskWith(t, store, clock, spool.Options{})
	one.maintain(t, true)
	assert.Equal(t, []string{"buffered"}, one.statuses(t, "q", "p", "a"), "at once where it was turned")
	clock.Advance(time.Second)
	assert.Equal(t, []string{"buffered"}, two.statuses(t, "q", "r", "b"))
	two.do(t, http.MethodPost, "/api/v1/system/maintenance/pop", `{"enabled":true}`)
	clock.Advance(time.Second)
	assert.Equal(t, true, one.get(t, "/api/v1/system/maintenance")["popMaintenanceMode"])
	assert.Equal(t, true, one.get(t, "/api/v1/system/maintenance")["maintenanceMode"], "one switch leaves the other alone")
	two.maintain(t, false)
	two.drained(t)
	one.drained(t)
	one.end(t)
	two.end(t)
}

func TestPopMaintenanceEndsPopsThatWait(t *testing.T) { overStores(t, popsEnd) }

func popsEnd(t *testing.T, d *desk) {
	t.Helper()
	d.pushIDs(t, "q", "p", "a")
	d.pop(t, "/queue/q?autoAck=true")
	parked := d.park(t.Context(), t, "q", "/queue/q?wait=true&timeout=30000")
	d.do(t, http.MethodPost, "/api/v1/system/maintenance/pop", `{"enabled":true}`)
	select {
	case r := <-parked:
		assert.Equal(t, http.StatusNoContent, r.status)
		assert.Empty(t, r.body)
	case <-time.After(10 * time.Second):
		t.Fatal("the pop still waits")
	}
	d.pushIDs(t, "q", "p", "b")
	for _, path := range []string{"/queue/q", "/queue/q?wait=true&timeout=30000", "/queue/q/partition/p", "?namespace=q"} {
		r := d.do(t, http.MethodGet, "/api/v1/pop"+path, "")
		assert.Equal(t, http.StatusNoContent, r.status, path)
	}
	d.do(t, http.MethodPost, "/api/v1/system/maintenance/pop", `{"enabled":false}`)
	assert.Equal(t, []string{"b"}, d.pop(t, "/queue/q").ids(), "nothing was claimed meanwhile")
}

func TestAFullSpoolRefusesItemByItem(t *testing.T) {
	store := memory.New()
	d := newDeskWith(t, store, coretest.New(coretest.Start), spool.Options{Dir: t.TempDir(), MaxBytes: 2000, FileBytes: 500})
	d.maintain(t, true)
	accepted := []string{}
	for i := range 50 {
		id := strconv.Itoa(i)
		if d.statuses(t, "q", "p", id)[0] == "buffered" {
			accepted = append(accepted, id)
		}
	}
	require.NotEmpty(t, accepted)
	require.Less(t, len(accepted), 50)
	r := d.do(t, http.MethodPost, "/api/v1/push", `{"items":[{"queue":"q","partition":"p","payload":"`+strings.Repeat("x", 3000)+`"}]}`)
	assert.Equal(t, http.StatusCreated, r.status)
	assert.Contains(t, r.body, `"status":"failed","error":"storage is full"`)
	assert.Equal(t, len(accepted), d.buffered(t))
	d.maintain(t, false)
	d.drained(t)
	assert.Equal(t, map[string][]string{"p": accepted}, d.takeAll(t, "q"))
	assert.Equal(t, []string{"queued"}, d.statuses(t, "q", "p", "later"))
	d.end(t)
}

func TestWhatCanNeverBeStoredIsRefusedAtTheDoor(t *testing.T) {
	d := newDesk(t, memory.New())
	d.maintain(t, true)
	for _, body := range []string{
		`{"items":[{"queue":"q","payload":1},{"queue":"q","payload":1,"transactionId":"` + strings.Repeat("t", 65536) + `"}]}`,
		`{"items":[{"queue":"q\u001f","payload":1}]}`, `{"items":[{"queue":"q"}]}`, `{"items":[{"queue":"q","payload":}]}`,
	} {
		r := d.do(t, http.MethodPost, "/api/v1/push", body)
		assert.Equal(t, http.StatusBadRequest, r.status)
	}
	assert.Equal(t, 0, d.buffered(t), "no part of such a request is spooled")
}

// switchUnderLoad pushes from several producers, each to a partition of its own and to one that all share, while maintenance goes on and off.
func switchUnderLoad(t *testing.T, d *desk) {
	t.Helper()
	const producers = 6
	stop, sent := make(chan struct{}), make([]int, producers)
	var all sync.WaitGroup
	for p := range producers {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("%d-%d", p, n)
				body := fmt.Sprintf(`{"items":[{"queue":"load","partition":"own%d","payload":%d,"transactionId":"%s"},{"queue":"load","partition":"all","payload":%d,"transactionId":"%s"}]}`, p, n, id, n, id)
				r, err := d.send(context.WithoutCancel(t.Context()), http.MethodPost, "/api/v1/push", body)
				if err != nil || r.status != http.StatusCreated || strings.Contains(r.body, "failed") {
					t.Errorf("push %s: %v %s", id, err, r.body)
					return
				}
				sent[p] = n + 1
			}
		})
	}
	for range 4 {
		d.maintain(t, true)
		require.Eventually(t, func() bool { return d.buffered(t) > 100 }, 20*time.Second, time.Millisecond)
		d.maintain(t, false)
		require.Eventually(t, func() bool { return d.buffered(t) == 0 }, 20*time.Second, time.Millisecond, "the spool is emptied under load")
	}
	close(stop)
	all.Wait()
	d.drained(t)
	got := d.takeAll(t, "load")
	next := make([]int, producers)
	for _, id := range got["all"] {
		p, n := split(t, id)
		assert.Equal(t, next[p], n, "each producer's messages are in order and there once")
		next[p]++
	}
	for p := range producers {
		assert.Positive(t, sent[p])
		assert.Equal(t, sent[p], next[p], "all are there")
		require.Len(t, got[fmt.Sprintf("own%d", p)], sent[p])
		for n, id := range got[fmt.Sprintf("own%d", p)] {
			assert.Equal(t, fmt.Sprintf("%d-%d", p, n), id)
		}
	}
}

func split(t *testing.T, id string) (producer, n int) {
	t.Helper()
	a, b, _ := strings.Cut(id, "-")
	producer, err := strconv.Atoi(a)
	require.NoError(t, err)
	n, err = strconv.Atoi(b)
	require.NoError(t, err)
	return producer, n
}
