package blackbox

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/fleet"
)

// soak is a fleet that is broken again and again under load.
type soak struct {
	t     *testing.T
	fleet *fleet.Fleet
	dice  *dice
	// faults counts what was done, by kind.
	faults map[string]int
}

// fault is one way to break something; it mends it again.
type fault struct {
	name string
	do   func(context.Context, *soak) error
}

// node is what faults are done to.
type node interface {
	Kill(context.Context) error
	Stop(context.Context) error
	Start(context.Context) error
	Pause(context.Context) error
	Resume(context.Context) error
	Cut(context.Context) error
	Heal(context.Context) error
}

// TestSoak runs PostgreSQL and two gateways in containers under the load of TestKill, whose every request goes to
// either gateway at random, while gateways and database are killed, stopped, paused and cut off. Then it drains
// everything and holds what clients were told against what was there.
func TestSoak(t *testing.T) {
	if os.Getenv("LEASEHOLD_SOAK_TIME") == "" {
		t.Skip("set LEASEHOLD_SOAK_TIME, for example to 60s; it needs Docker")
	}
	length := duration(t, "LEASEHOLD_SOAK_TIME", time.Minute)
	if err := fleet.Available(); err != nil && os.Getenv("CI") == "" {
		t.Skipf("no Docker: %v", err)
	}
	f, err := fleet.Start(t.Context(), fleet.Options{})
	require.NoError(t, err)
	s := &soak{t: t, fleet: f, dice: newDice(t), faults: map[string]int{}}
	t.Cleanup(func() {
		if t.Failed() {
			s.logs()
		}
		require.NoError(t, f.Close())
	})
	clients := s.clients()
	ledger := NewLedger()
	l := &load{Clients: clients, ledger: ledger, pipe: newPipeline(ledger), poison: newPoison(), dice: s.dice, name: "soak", faulty: true}
	prepareKill(t, clients)

	loading, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	wait := l.run(loading)
	s.breakThings(loading)
	wait()
	s.verdict(l, length)
}

// clients are clients whose requests go to the gateways at random.
func (s *soak) clients() *Clients {
	servers := map[string][]string{}
	for _, g := range s.fleet.Gateways {
		for name, url := range map[string]string{"queen": g.Queen, "querator": g.Querator, "cfqueues": g.Cfqueues} {
			servers[name] = append(servers[name], strings.TrimPrefix(url, "http://"))
		}
	}
	conn := NewSpreadConn(servers)
	s.t.Cleanup(conn.Close)
	target := Target{Queen: "http://queen", Querator: "http://querator", Cfqueues: "http://cfqueues"}
	return &Clients{target, conn, Queen{target.Queen, conn}, Querator{target.Querator, conn}, Cfqueues{target.Cfqueues, conn}}
}

// faults are all ways to break something.
func faults() []fault {
	gateway := func(s *soak) node { return s.fleet.Gateways[s.dice.upTo(len(s.fleet.Gateways))-1] }
	database := func(s *soak) node { return s.fleet.Database }
	var out []fault
	for what, pick := range map[string]func(*soak) node{"gateway": gateway, "database": database} {
		out = append(out,
			fault{"kill " + what, func(ctx context.Context, s *soak) error { n := pick(s); return s.between(ctx, n.Kill, n.Start, 500) }},
			fault{"stop " + what, func(ctx context.Context, s *soak) error { n := pick(s); return s.between(ctx, n.Stop, n.Start, 200) }},
			fault{"pause " + what, func(ctx context.Context, s *soak) error { n := pick(s); return s.between(ctx, n.Pause, n.Resume, 3500) }},
			fault{"cut off " + what, func(ctx context.Context, s *soak) error { n := pick(s); return s.between(ctx, n.Cut, n.Heal, 3500) }},
		)
	}
	slices.SortFunc(out, func(a, b fault) int { return strings.Compare(a.name, b.name) })
	return out
}

// between does one thing, and after a while of at most so many milliseconds undoes it.
func (s *soak) between(ctx context.Context, do, undo func(context.Context) error, most int) error {
	if err := do(ctx); err != nil {
		return err
	}
	time.Sleep(time.Duration(s.dice.upTo(most)) * time.Millisecond)
	return undo(ctx)
}

// breakThings goes round all faults, in another order each time, until the load ends. What was broken serves again
// before the next one.
func (s *soak) breakThings(loading context.Context) {
	ctx := context.WithoutCancel(loading)
	all := faults()
	for {
		for i := range all {
			j := i + s.dice.upTo(len(all)-i) - 1
			all[i], all[j] = all[j], all[i]
		}
		for _, f := range all {
			select {
			case <-loading.Done():
				return
			case <-time.After(time.Duration(500+s.dice.upTo(1500)) * time.Millisecond):
			}
			require.NoError(s.t, f.do(ctx, s), f.name)
			s.faults[f.name]++
			for _, g := range s.fleet.Gateways {
				require.NoError(s.t, g.WaitReady(ctx), "after %s", f.name)
			}
		}
	}
}

// verdict drains everything once all leases are over, and compares.
func (s *soak) verdict(l *load, length time.Duration) {
	t := s.t
	for _, g := range s.fleet.Gateways {
		NewClock(Target{Control: g.Control}).Advance(t, time.Hour)
	}
	began := time.Now()
	require.NoError(t, l.drainAll(t.Context(), killQueues...))
	for _, queue := range append([]string{pipeIn, poisonQueue, deadQueue}, killQueues...) {
		requireEmpty(t, l.Clients, queue)
	}
	through := l.pipe.check()
	dead, deadFaults := l.poison.check()
	counts, faulty := l.ledger.Close()
	n := 0
	for _, k := range slices.Sorted(maps.Keys(s.faults)) {
		t.Logf("%4d × %s", s.faults[k], k)
		n += s.faults[k]
	}
	t.Logf("soak of %s: operations %d (failed among faults %d), faults %d, acknowledged %d, delivered %d, settled %d, dead letters %d, through transactions %d, "+
		"lost %d, returned %d, out of order %d", length, l.requests.Load(), l.failures.Load(), n, counts.PushesAcked, counts.Deliveries, counts.SettlesAcked,
		dead.SettlesAcked, through, counts.Undelivered+counts.Unsettled+dead.Undelivered+dead.Unsettled, counts.Returned+dead.Returned, l.pipe.disorder)
	report(t, map[string]any{"counts": counts, "dead": dead, "drain_s": time.Since(began).Seconds()})
	require.Empty(t, faulty)
	require.Empty(t, deadFaults)
	require.Positive(t, counts.PushesAcked)
	require.Positive(t, counts.SettlesAcked)
	require.Positive(t, through)
	require.Positive(t, n)
}

// logs shows the end of every log.
func (s *soak) logs() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, g := range s.fleet.Gateways {
		s.t.Log(fmt.Sprintf("log of %s:", g.Name()), g.Log(ctx))
	}
	s.t.Log("log of the database:", s.fleet.Database.Log(ctx))
}
