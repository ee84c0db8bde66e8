package blackbox

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// quickOpen is how long a start after a kill may take, on a machine that does other things too.
const quickOpen = 5 * time.Second

// killQueues are all queues of the crash tests that are drained the ordinary way.
var killQueues = []string{"kill-queen", "kill-querator", "kill-cf", sharedQueue, pipeOut}

// crash is a server that ends again and again under load, and what its clients know.
type crash struct {
	server *Server
	at     *place
	last   *load
	starts []time.Duration
	began  time.Time
	loaded time.Duration
	// outages counts the ends of the database, back is how long after its start the server needed to work again.
	outages int
	back    []time.Duration
}

// TestKill kills the server under push and claim+settle load through all three protocols, again
// and again, and then holds what clients were told against what is there. On PostgreSQL it kills the database too, in rounds of their own.
func TestKill(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		c := newCrash(t, p)
		for round := range number(t, "LEASEHOLD_KILL_ROUNDS", 2) {
			c.round(t, round, func(l *load) {
				// Now and then the next one comes while the server has hardly got up.
				for l.dice.within(20) {
					c.server.Kill(t)
					c.restart(t)
				}
				c.server.Kill(t)
			})
			if p.database != nil {
				c.databaseRound(t, round)
			}
		}
		c.settle(t)
	})
}

// TestStopUnderLoad ends the server in order instead. What it refuses meanwhile did not happen.
func TestStopUnderLoad(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		c := newCrash(t, p)
		for round := range 2 {
			c.round(t, round, func(l *load) {
				l.stopping.Store(true)
				c.server.Stop(t)
			})
		}
		c.settle(t)
	})
}

func newCrash(t *testing.T, p *place) *crash {
	t.Helper()
	ledger := NewLedger()
	c := &crash{at: p, last: &load{ledger: ledger, pipe: newPipeline(ledger), poison: newPoison(), dice: newDice(t), name: "drain"}}
	c.server = p.start(t)
	prepareKill(t, NewClients(c.server.Target))
	c.began = time.Now()
	return c
}

// round runs the load for a while, ends the server and starts it again.
func (c *crash) round(t *testing.T, round int, end func(*load)) {
	t.Helper()
	l := c.load(fmt.Sprintf("r%d", round))
	wait := l.run(t.Context())
	time.Sleep(time.Duration(300+l.dice.upTo(900)) * time.Millisecond)
	l.dying.Store(true)
	end(l)
	wait()
	l.Conn.Close()
	c.restart(t)
}

// load returns a load of its own that shares what is known of messages.
func (c *crash) load(name string) *load {
	return &load{
		Clients: NewClients(c.server.Target), ledger: c.last.ledger, pipe: c.last.pipe, poison: c.last.poison, dice: c.last.dice, name: name,
	}
}

func (c *crash) restart(t *testing.T) {
	t.Helper()
	c.server = c.at.start(t)
	c.starts = append(c.starts, c.server.Startup)
}

// settle drains everything and gives the verdict.
func (c *crash) settle(t *testing.T) {
	t.Helper()
	c.loaded = time.Since(c.began)
	c.server.spoolEmpty(t)
	c.last.Clients = NewClients(c.server.Target)
	// Every lease and every delay of the load is over after this.
	NewClock(c.server.Target).Advance(t, time.Hour)
	require.NoError(t, c.last.drainAll(t.Context(), killQueues...))
	for _, queue := range append([]string{pipeIn, poisonQueue, deadQueue}, killQueues...) {
		requireEmpty(t, c.last.Clients, queue)
	}
	c.afterwards(t)
	through := c.last.pipe.check()
	dead, deadFaults := c.last.poison.check()
	counts, faults := c.last.ledger.Close()
	slowest := slices.Max(c.starts)
	report(t, map[string]any{
		"ends": len(c.starts), "database_ends": c.outages, "back_mean_ms": mean(c.back).Milliseconds(), "counts": counts, "pipeline_exactly_once": through, "dead_letters": dead,
		"open_mean_ms": mean(c.starts).Milliseconds(), "open_max_ms": slowest.Milliseconds(),
		"load_s": c.loaded.Seconds(), "drain_s": (time.Since(c.began) - c.loaded).Seconds(),
	})
	require.Empty(t, faults)
	require.Empty(t, deadFaults)
	require.Positive(t, counts.PushesAcked)
	require.Positive(t, counts.SettlesAcked)
	require.Positive(t, dead.SettlesAcked)
	require.Positive(t, through)
	require.Less(t, slowest, quickOpen)
}

// afterwards makes sure that an orderly end and another start bring nothing back either.
func (c *crash) afterwards(t *testing.T) {
	t.Helper()
	l := c.last
	c.server.Stop(t)
	again := c.at.start(t)
	NewClock(again.Target).Advance(t, 2*time.Hour)
	l.Clients = NewClients(again.Target)
	before := l.ledger.Total() + l.poison.ledger.Total()
	require.NoError(t, l.drainAll(t.Context(), killQueues...))
	require.Equal(t, before, l.ledger.Total()+l.poison.ledger.Total(), "deliveries after everything was settled")
	again.Stop(t)
	c.at.requireSound(t)
}

// prepareKill makes the queues, so that every protocol may read each.
func prepareKill(t *testing.T, c *Clients) {
	t.Helper()
	ctx := t.Context()
	for _, queue := range []string{"kill-queen", pipeIn, pipeOut} {
		require.NoError(t, c.Queen.Configure(ctx, queue, `{"retryLimit":1000000}`))
	}
	for _, queue := range []string{"kill-querator", sharedQueue} {
		require.NoError(t, c.Querator.Create(ctx, QueratorQueue{
			Name: queue, LeaseTimeout: fmt.Sprintf("%ds", holdSeconds), ExpireTimeout: "96h", Partitions: 2,
		}))
	}
	for _, queue := range []string{"kill-cf", poisonQueue, deadQueue} {
		_, err := c.Cf.Create(ctx, queue)
		require.NoError(t, err)
	}
	for _, queue := range append([]string{pipeIn, deadQueue}, killQueues...) {
		require.NoError(t, c.Cf.CreateConsumer(ctx, queue, CfConsumer{MaxRetries: 100}))
	}
	require.NoError(t, c.Cf.CreateConsumer(ctx, poisonQueue, CfConsumer{MaxRetries: poisonRetries, DeadLetterQueue: deadQueue}))
}

// report prints figures as one line of JSON.
func report(t *testing.T, figures map[string]any) {
	t.Helper()
	b, err := json.Marshal(figures)
	require.NoError(t, err)
	t.Logf("%s %s", t.Name(), b)
}
