package blackbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/testenv"
)

const (
	// spoolQueue is what the tests of the spool push to.
	spoolQueue = "spooled.load"
	// producersEach is how many producers push to each gateway.
	producersEach = 6
	// drainLimit is how long a spool may take to be drained after a test's load.
	drainLimit = 60 * time.Second
)

// gateway is one of several servers. It may be killed and started anew, on another port.
type gateway struct {
	name, dir string
	flags     []string
	server    atomic.Pointer[Server]
}

func startGateway(t *testing.T, name string, flags ...string) *gateway {
	t.Helper()
	g := &gateway{name: name, dir: t.TempDir(), flags: flags}
	g.server.Store(Start(t, g.dir, flags...))
	return g
}

// again starts the gateway's next process, after the last one was killed.
func (g *gateway) again(t *testing.T) {
	t.Helper()
	g.server.Store(Start(t, g.dir, g.flags...))
}

// get reads a JSON object from the gateway.
func (g *gateway) get(t *testing.T, path string) map[string]any {
	t.Helper()
	conn := NewConn()
	defer conn.Close()
	a, err := conn.Do(t.Context(), "GET", g.server.Load().Queen+path, nil)
	require.NoError(t, err)
	require.Equal(t, 200, a.Status, a.String())
	var out map[string]any
	require.NoError(t, json.Unmarshal(a.Body, &out))
	return out
}

// maintain turns push maintenance at the gateway.
func (g *gateway) maintain(t *testing.T, on bool) {
	t.Helper()
	conn := NewConn()
	defer conn.Close()
	a, err := conn.JSON(t.Context(), "POST", g.server.Load().Queen+"/api/v1/system/maintenance", fmt.Sprintf(`{"enabled":%t}`, on))
	require.NoError(t, err)
	require.Equal(t, 200, a.Status, a.String())
}

// drained waits until nothing is left in the gateway's spool.
func (g *gateway) drained(t *testing.T) {
	t.Helper()
	began := time.Now()
	require.Eventually(t, func() bool { return g.get(t, "/api/v1/system/maintenance")["bufferedMessages"] == 0.0 },
		drainLimit, 50*time.Millisecond, g.name)
	t.Logf("%s: the spool was empty %s after the load", g.name, time.Since(began).Round(time.Millisecond))
}

// spoolLoad are producers that each push numbered messages, one after the other, to partitions of their own: one from the beginning, and one
// from the moment at which fresh is set. A push whose fate is unknown is sent again under its transaction id.
type spoolLoad struct {
	fresh, stopping           atomic.Bool
	queued, buffered, repeats atomic.Int64

	mu sync.Mutex
	// sent counts the messages of each partition that were confirmed.
	sent map[string]int
	all  sync.WaitGroup
}

func newSpoolLoad(gateways ...*gateway) *spoolLoad {
	l := &spoolLoad{sent: map[string]int{}}
	for _, g := range gateways {
		for p := range producersEach {
			l.all.Go(func() { l.produce(fmt.Sprintf("%s-%d", g.name, p), g, g) })
		}
	}
	return l
}

// roam adds producers that go on at another gateway when the first one fails them.
func (l *spoolLoad) roam(from, to *gateway) {
	for p := range producersEach / 2 {
		l.all.Go(func() { l.produce(fmt.Sprintf("roam-%d", p), from, to) })
	}
}

func (l *spoolLoad) produce(name string, g, next *gateway) {
	conn := NewConn()
	defer conn.Close()
	late := 0
	for n := 0; !l.stopping.Load(); n++ {
		items := []QueenItem{{spoolQueue, name, strconv.Itoa(n), name + "/" + strconv.Itoa(n)}}
		if l.fresh.Load() {
			fresh := name + "-fresh"
			items = append(items, QueenItem{spoolQueue, fresh, strconv.Itoa(late), fresh + "/" + strconv.Itoa(late)})
			late++
		}
		for !l.push(conn, g, items) {
			l.repeats.Add(1)
			g = next
			time.Sleep(20 * time.Millisecond)
		}
		l.mu.Lock()
		for _, it := range items {
			l.sent[it.Partition]++
		}
		l.mu.Unlock()
	}
}

// push reports whether every item was confirmed.
func (l *spoolLoad) push(conn *Conn, g *gateway, items []QueenItem) bool {
	parts := make([]string, len(items))
	for i := range items {
		parts[i] = items[i].json()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	a, err := conn.JSON(ctx, "POST", g.server.Load().Queen+"/api/v1/push", `{"items":[`+strings.Join(parts, ",")+`]}`)
	var out []QueenPushed
	if err != nil || a.Status != 201 || json.Unmarshal(a.Body, &out) != nil || len(out) != len(items) {
		return false
	}
	good := true
	for i := range out {
		switch out[i].Status {
		case "queued", "duplicate":
			l.queued.Add(1)
		case "buffered":
			l.buffered.Add(1)
		default:
			good = false
		}
	}
	return good
}

func (l *spoolLoad) stop() {
	l.stopping.Store(true)
	l.all.Wait()
}

// check reads everything with a group of its own and compares it with what was confirmed: each message once, in order.
func (l *spoolLoad) check(t *testing.T, g *gateway) {
	t.Helper()
	conn := NewConn()
	defer conn.Close()
	q := Queen{g.server.Load().Queen, conn}
	got := map[string]int{}
	for {
		list, err := q.Pop(t.Context(), spoolQueue, "", url.Values{
			"batch": {"1000"}, "partitions": {"0"}, "autoAck": {"true"}, "consumerGroup": {"check"}, "subscriptionMode": {"all"},
		})
		require.NoError(t, err)
		if len(list) == 0 {
			break
		}
		for i := range list {
			want := got[list[i].Partition]
			require.Equal(t, list[i].Partition+"/"+strconv.Itoa(want), list[i].TransactionID, "in order, each once")
			got[list[i].Partition]++
		}
	}
	total := 0
	for partition, n := range l.sent {
		assert.Equal(t, n, got[partition], partition)
		total += n
	}
	assert.Len(t, got, len(l.sent))
	t.Logf("%d messages in %d partitions: %d answered as stored, %d as buffered, %d requests repeated",
		total, len(got), l.queued.Load(), l.buffered.Load(), l.repeats.Load())
}

// TestMaintenanceUnderLoadWithAKill switches push maintenance on for ten seconds while two gateways of one database are pushed to, and kills
// one of them meanwhile.
func TestMaintenanceUnderLoadWithAKill(t *testing.T) {
	t.Parallel()
	// The pauses are how long the load runs in each state; real servers have real time. 1.1 s is the second within which the switch must be
	// obeyed, and no assertion waits for anything else.
	database := testenv.Own(t)
	a, b := startGateway(t, "a", "--store", database.URL), startGateway(t, "b", "--store", database.URL)
	l := newSpoolLoad(a, b)
	l.roam(b, a)
	time.Sleep(time.Second)
	a.maintain(t, true)
	time.Sleep(1100 * time.Millisecond)
	assert.Equal(t, true, b.get(t, "/api/v1/system/maintenance")["maintenanceMode"], "the other gateway obeys within a second")
	stored := l.queued.Load()
	l.fresh.Store(true)
	rest := time.Duration(number(t, "LEASEHOLD_MAINTENANCE_SECONDS", 10))*time.Second - 1100*time.Millisecond
	time.Sleep(rest / 2)
	b.server.Load().Kill(t)
	time.Sleep(500 * time.Millisecond)
	b.again(t)
	assert.Equal(t, true, b.get(t, "/api/v1/system/maintenance")["maintenanceMode"], "it survives a restart")
	time.Sleep(rest/2 - 500*time.Millisecond)
	assert.Less(t, l.queued.Load()-stored, int64(6*producersEach), "hardly anything was stored meanwhile")
	buffered := l.buffered.Load()
	a.maintain(t, false)
	time.Sleep(2 * time.Second)
	l.stop()
	a.drained(t)
	b.drained(t)
	assert.Positive(t, buffered)
	l.check(t, a)
}

// TestTheDatabaseIsStoppedUnderLoad stops the database for half a minute, in the hardest way.
func TestTheDatabaseIsStoppedUnderLoad(t *testing.T) {
	t.Parallel()
	// The pauses are how long the load runs before, during and after the outage.
	database := testenv.Own(t)
	a := startGateway(t, "a", "--store", database.URL)
	l := newSpoolLoad(a)
	time.Sleep(time.Second)
	database.Stop(t)
	time.Sleep(2 * time.Second)
	l.fresh.Store(true)
	before := l.buffered.Load()
	time.Sleep(time.Duration(number(t, "LEASEHOLD_AWAY_SECONDS", 30))*time.Second - 2*time.Second)
	assert.Positive(t, l.buffered.Load()-before, "pushes are taken while the database is away")
	assert.Equal(t, false, a.get(t, "/api/v1/status/buffers")["dbHealthy"])
	database.Start(t)
	time.Sleep(2 * time.Second)
	l.stop()
	a.drained(t)
	assert.Equal(t, true, a.get(t, "/api/v1/status/buffers")["dbHealthy"])
	l.check(t, a)
	// That its database is away is an error, and the log says so.
	s := a.server.Load()
	s.mu.Lock()
	s.alarms = nil
	s.mu.Unlock()
}

// TestKillsWhileTheSpoolIsDrained kills a server over and over while it drains, in a queue that deduplicates nothing.
func TestKillsWhileTheSpoolIsDrained(t *testing.T) {
	t.Parallel()
	const batches, each = 60, 100
	g := startGateway(t, "a")
	conn := NewConn()
	defer conn.Close()
	q := Queen{g.server.Load().Queen, conn}
	_, err := conn.JSON(t.Context(), "POST", q.Base+"/api/v1/configure", `{"queue":"`+spoolQueue+`","options":{"dedupWindowSeconds":0}}`)
	require.NoError(t, err)
	g.maintain(t, true)
	l := &spoolLoad{sent: map[string]int{}}
	for n := range batches {
		items := make([]QueenItem, each)
		for i := range items {
			p := fmt.Sprintf("p%d", i%4)
			items[i] = QueenItem{spoolQueue, p, strconv.Itoa(l.sent[p]), p + "/" + strconv.Itoa(l.sent[p])}
			l.sent[p]++
		}
		require.True(t, l.push(conn, g, items), n)
	}
	assert.EqualValues(t, batches*each, g.get(t, "/api/v1/system/maintenance")["bufferedMessages"])
	g.maintain(t, false)
	dice, kills := newDice(t), 0
	for kills < 20 && g.get(t, "/api/v1/system/maintenance")["bufferedMessages"] != 0.0 {
		time.Sleep(time.Duration(dice.upTo(12)) * time.Millisecond)
		g.server.Load().Kill(t)
		g.again(t)
		kills++
	}
	g.drained(t)
	t.Logf("killed %d times", kills)
	assert.Positive(t, kills)
	l.check(t, g)
}
