package clients

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/blackbox"
)

// The two pull consumers of the race lease for different times, both short enough that leases run
// out again and again.
var visibilities = []time.Duration{400 * time.Millisecond, 1500 * time.Millisecond}

const (
	// raceBatch is how many messages a pull asks for, raceWindow how many unsettled ones keep the
	// producers waiting.
	raceBatch  = 20
	raceWindow = 1000
	// raceWorkers is how many requests each consumer has under way.
	raceWorkers = 3
	// raceEnd bounds the time after the race in which everything has to be settled.
	raceEnd = 2 * time.Minute
)

// TestPullRace lets two pull consumers with different visibility timeouts race for the messages of
// one queue, each at a server of its own on one database. No message is leased twice at a time, no
// message is lost, each delivery counts one attempt, an acknowledgement counts however late it
// comes, and once it is answered the message never comes again.
func TestPullRace(t *testing.T) {
	length := setting(t, "LEASEHOLD_RACE_TIME", 5*time.Second, time.ParseDuration)
	servers := setting(t, "LEASEHOLD_RACE_SERVERS", 2, strconv.Atoi)
	t.Run("sqlite", func(t *testing.T) { newRace(t, blackbox.Start(t, t.TempDir())).run(length) })
	t.Run("postgres", func(t *testing.T) {
		url := database(t)
		var all []*blackbox.Server
		for range servers {
			all = append(all, blackbox.Start(t, t.TempDir(), "--store", url))
		}
		newRace(t, all...).run(length)
	})
}

type race struct {
	*testing.T
	servers  []*blackbox.Server
	clients  []blackbox.Cfqueues
	queue    string
	holds    *blackbox.Holds
	attempts *blackbox.Attempts

	pushed atomic.Int64
	// stop ends the producers, finish lets the consumers acknowledge everything at once.
	stop, finish, over atomic.Bool

	mu sync.Mutex
	// settled is when the answer to a message's first acknowledgement came, by body; latest is the
	// lease of its last delivery that was seen.
	settled map[string]time.Time
	latest  map[string]string
	counts  map[string]int
	faults  []string
}

func newRace(t *testing.T, servers ...*blackbox.Server) *race {
	t.Helper()
	r := &race{
		T: t, servers: servers, holds: blackbox.NewHolds(), attempts: blackbox.NewAttempts(),
		settled: map[string]time.Time{}, latest: map[string]string{}, counts: map[string]int{},
	}
	for _, s := range servers {
		r.clients = append(r.clients, blackbox.Cfqueues{Base: s.Cfqueues, Conn: blackbox.NewConn()})
	}
	var err error
	r.queue, err = r.clients[0].Create(t.Context(), "race")
	require.NoError(t, err)
	require.NoError(t, r.clients[0].CreateConsumer(t.Context(), r.queue, blackbox.CfConsumer{MaxRetries: 100}))
	return r
}

// client returns the server that the i-th of something uses.
func (r *race) client(i int) blackbox.Cfqueues { return r.clients[i%len(r.clients)] }

func (r *race) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

func (r *race) count(what string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[what] += n
}

func (r *race) unsettled() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.pushed.Load()) - len(r.settled)
}

func (r *race) run(length time.Duration) {
	r.Helper()
	var producers, consumers sync.WaitGroup
	for i := range 2 {
		producers.Go(func() { r.produce(i) })
	}
	for i, visibility := range visibilities {
		for range raceWorkers {
			consumers.Go(func() { r.consume(i, visibility) })
		}
	}
	time.Sleep(length)
	r.stop.Store(true)
	producers.Wait()
	r.finish.Store(true)
	for end := time.Now().Add(raceEnd); r.unsettled() > 0 && time.Now().Before(end) && !r.over.Load(); {
		time.Sleep(10 * time.Millisecond)
	}
	r.over.Store(true)
	consumers.Wait()
	r.verdict(length)
}

// produce pushes numbered messages through one server while the backlog is small.
func (r *race) produce(i int) {
	for !r.stop.Load() && !r.over.Load() {
		if r.unsettled() > raceWindow {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		batch := make([]blackbox.CfMessage, 1+rand.IntN(raceBatch))
		for k := range batch {
			batch[k] = blackbox.CfMessage{Body: strconv.Quote(fmt.Sprintf("m%d", r.pushed.Add(1))), ContentType: "text"}
		}
		if err := r.client(i).Push(r.Context(), r.queue, batch...); err != nil {
			r.fault("push: %v", err)
			r.over.Store(true)
		}
	}
}

// lease is a delivery as its consumer sees it. Until end the consumer has the message to itself.
type lease struct {
	blackbox.CfPulled
	from, end time.Time
	// due is when a message that is kept too long is acknowledged.
	due time.Time
}

// consume is one request loop of a consumer: it pulls, and settles in one of the ways that there are.
func (r *race) consume(i int, visibility time.Duration) {
	who := fmt.Sprintf("the %s consumer", visibility)
	var kept []lease
	for {
		over := r.over.Load()
		var late []lease
		kept = slices.DeleteFunc(kept, func(l lease) bool {
			due := over || r.finish.Load() || time.Now().After(l.due)
			if due {
				late = append(late, l)
			}
			return due
		})
		if !r.acknowledge(i, who, late, nil) || over {
			return
		}
		sent := time.Now()
		pulled, err := r.client(i).Pull(r.Context(), r.queue, raceBatch, int(visibility.Milliseconds()))
		got := time.Now()
		if err != nil {
			r.fault("pull: %v", err)
			r.over.Store(true)
			return
		}
		if len(pulled) == 0 {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		var now []lease
		var back []blackbox.CfRetry
		for _, m := range pulled {
			l := lease{CfPulled: m, from: got, end: sent.Add(visibility)}
			r.delivered(who, l, sent)
			switch kind := rand.IntN(100); {
			case r.finish.Load() || kind < 65:
				now = append(now, l)
			case kind < 80: // beyond its lease, by up to twice its time
				l.due = l.end.Add(rand.N(2 * visibility))
				kept = append(kept, l)
			case kind < 90:
				r.holds.Add(l.Body, who, l.from, minTime(time.Now(), l.end))
				zero := 0
				back = append(back, blackbox.CfRetry{LeaseID: l.LeaseID, DelaySeconds: &zero})
			default: // forgotten
				r.holds.Add(l.Body, who, l.from, l.end)
				r.count("forgotten", 1)
			}
		}
		if !r.acknowledge(i, who, now, back) {
			return
		}
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// delivered notes a delivery; a message whose acknowledgement was answered before the pull was
// sent must not come.
func (r *race) delivered(who string, l lease, sent time.Time) {
	r.attempts.Add(l.Body, l.Attempts)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts["deliveries to "+who]++
	r.latest[l.Body] = l.LeaseID
	if at, ok := r.settled[l.Body]; ok && at.Before(sent) {
		r.faults = append(r.faults, fmt.Sprintf("%s came to %s %s after its acknowledgement", l.Body, who, sent.Sub(at)))
	}
}

// acknowledge settles leases and gives others back in one request. Every lease must count, however
// old it is, and it tells whether the loop may go on.
func (r *race) acknowledge(i int, who string, leases []lease, back []blackbox.CfRetry) bool {
	if len(leases)+len(back) == 0 {
		return true
	}
	ids := make([]string, len(leases))
	sent := time.Now()
	for k, l := range leases {
		ids[k] = l.LeaseID
		r.holds.Add(l.Body, who, l.from, minTime(sent, l.end))
	}
	res, err := r.client(i).Ack(r.Context(), r.queue, ids, back...)
	answered := time.Now()
	if err == nil && res.AckCount != len(ids) {
		err = fmt.Errorf("%d of %d acknowledgements counted: %v", res.AckCount, len(ids), res.Warnings)
	}
	if err != nil {
		r.fault("ack: %v", err)
		r.over.Store(true)
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts["retries"] += res.RetryCount
	r.counts["stale retries"] += len(back) - res.RetryCount
	for _, l := range leases {
		_, before := r.settled[l.Body]
		switch {
		case before:
			r.counts["acknowledged again"]++
		case sent.Before(l.end):
			r.counts["acknowledged in time"]++
		case r.latest[l.Body] == l.LeaseID:
			r.counts["acknowledged late"]++
		default:
			r.counts["acknowledged late, while somebody else had it"]++
		}
		if !before {
			r.settled[l.Body] = answered
		}
	}
	return true
}

// verdict holds what the consumers saw against the rules and prints the counts.
func (r *race) verdict(length time.Duration) {
	r.Helper()
	held, overlaps := r.holds.Check()
	highest, wrong := r.attempts.Check()
	r.counts["pushed"], r.counts["settled"], r.counts["lost"] = int(r.pushed.Load()), len(r.settled), r.unsettled()
	r.counts["holds"], r.counts["leased twice at a time"] = held, len(overlaps)
	r.counts["attempts out of line"], r.counts["most attempts"] = len(wrong), highest
	text, err := json.Marshal(r.counts)
	require.NoError(r, err)
	fmt.Printf("%s: %s at %d servers: %s\n", r.Name(), length, len(r.servers), text)
	require.Empty(r, first(r.faults))
	require.Empty(r, first(overlaps))
	require.Empty(r, first(wrong))
	require.Zero(r, r.unsettled(), "messages lost")
	r.counts["late"] = r.counts["acknowledged late"] + r.counts["acknowledged late, while somebody else had it"]
	for _, what := range []string{"acknowledged in time", "late", "acknowledged again", "retries", "forgotten"} {
		require.Positive(r, r.counts[what], "%s: the race does not show what it is for", what)
	}
	for _, c := range r.clients {
		require.Eventually(r, func() bool {
			m, err := c.Metrics(r.Context(), r.queue)
			require.NoError(r, err)
			return m == blackbox.CfMetrics{}
		}, 10*time.Second, 20*time.Millisecond, "the queue is not empty")
	}
	for _, s := range r.servers {
		s.Stop(r)
	}
}

// first keeps a failure readable.
func first(list []string) []string { return list[:min(len(list), 10)] }
