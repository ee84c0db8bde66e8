package blackbox

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// quickOpen is how long a start after a kill may take, on a machine that does other things too.
const quickOpen = 5 * time.Second

// killQueues are all queues of TestKill but the pipeline's entrance.
var killQueues = []string{"kill-queen", "kill-querator", "kill-cf", sharedQueue, pipeOut}

// TestKill kills the server under push and claim+settle load through all three protocols, again
// and again, and then holds what clients were told against what is there.
func TestKill(t *testing.T) {
	rounds := number(t, "LEASEHOLD_KILL_ROUNDS", 2)
	dice, ledger := newDice(t), NewLedger()
	pipe := newPipeline(ledger)
	dir := t.TempDir()
	server := Start(t, dir)
	prepareKill(t, server.Target)
	var slowest, sum time.Duration
	began := time.Now()
	for round := range rounds {
		l := &load{Clients: NewClients(server.Target), ledger: ledger, pipe: pipe, dice: dice, name: fmt.Sprintf("r%d", round)}
		wait := l.run(t.Context())
		time.Sleep(time.Duration(300+dice.upTo(900)) * time.Millisecond)
		l.dying.Store(true)
		server.Kill(t)
		wait()
		l.Conn.Close()
		server = Start(t, dir)
		slowest, sum = max(slowest, server.Startup), sum+server.Startup
	}
	last := &load{Clients: NewClients(server.Target), ledger: ledger, pipe: pipe, dice: dice, name: "drain"}
	loaded := time.Since(began)
	// Every lease and every delay of the load is over after this.
	NewClock(server.Target).Advance(t, time.Hour)
	require.NoError(t, last.drainAll(t.Context(), killQueues...))
	for _, queue := range append([]string{pipeIn}, killQueues...) {
		requireEmpty(t, last.Clients, queue)
	}
	afterwards(t, server, dir, last)
	through := pipe.check()
	counts, faults := ledger.Close()
	report(t, map[string]any{
		"rounds": rounds, "counts": counts, "pipeline_exactly_once": through,
		"open_after_kill_mean_ms": (sum / time.Duration(rounds)).Milliseconds(), "open_after_kill_max_ms": slowest.Milliseconds(),
		"load_s": loaded.Seconds(), "drain_s": (time.Since(began) - loaded).Seconds(),
	})
	require.Empty(t, faults)
	require.Positive(t, counts.PushesAcked)
	require.Positive(t, counts.SettlesAcked)
	require.Less(t, slowest, quickOpen)
}

// afterwards makes sure that an orderly end and another start bring nothing back either.
func afterwards(t *testing.T, server *Server, dir string, l *load) {
	t.Helper()
	server.Stop(t)
	again := Start(t, dir)
	NewClock(again.Target).Advance(t, 2*time.Hour)
	l.Clients = NewClients(again.Target)
	before := l.ledger.Total()
	require.NoError(t, l.drainAll(t.Context(), killQueues...))
	require.Equal(t, before, l.ledger.Total(), "deliveries after everything was settled")
	again.Stop(t)
	requireSound(t, dir)
}

// prepareKill makes the queues, so that every protocol may read each.
func prepareKill(t *testing.T, target Target) {
	t.Helper()
	ctx, c := t.Context(), NewClients(target)
	defer c.Conn.Close()
	for _, queue := range []string{"kill-queen", pipeIn, pipeOut} {
		require.NoError(t, c.Queen.Configure(ctx, queue, `{"retryLimit":1000000}`))
	}
	for _, queue := range []string{"kill-querator", sharedQueue} {
		require.NoError(t, c.Querator.Create(ctx, QueratorQueue{
			Name: queue, LeaseTimeout: fmt.Sprintf("%ds", holdSeconds), ExpireTimeout: "96h", Partitions: 2,
		}))
	}
	_, err := c.Cf.Create(ctx, "kill-cf")
	require.NoError(t, err)
	for _, queue := range append([]string{pipeIn}, killQueues...) {
		require.NoError(t, c.Cf.CreateConsumer(ctx, queue, CfConsumer{MaxRetries: 100}))
	}
}

// report prints figures as one line of JSON.
func report(t *testing.T, figures map[string]any) {
	t.Helper()
	b, err := json.Marshal(figures)
	require.NoError(t, err)
	t.Logf("%s %s", t.Name(), b)
}
