package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// patience is how long a test waits for something that must happen without the clock moving.
const patience = 3 * time.Second

// answer is how a claim ended.
type answer struct {
	batch
	err error
}

// parked is a claim that runs in its own goroutine.
type parked struct {
	r      *rig
	done   chan answer
	cancel context.CancelFunc
}

// begin runs a claim beside the test.
func (r *rig) begin(p core.ClaimParams) *parked {
	ctx, cancel := context.WithCancel(context.Background())
	c := &parked{r: r, done: make(chan answer, 1), cancel: cancel}
	go func() {
		got, err := r.Claim(ctx, p)
		c.done <- answer{batch{got.Lease, got}, err}
	}()
	r.t.Cleanup(cancel)
	return c
}

// park runs a claim beside the test and returns when the queue shows one more that waits.
func (r *rig) park(p core.ClaimParams) *parked {
	r.t.Helper()
	before := r.claimsWaiting(p.Queue, p.Group)
	c := r.begin(p)
	r.eventually(func() bool { return r.claimsWaiting(p.Queue, p.Group) == before+1 }, "the claim does not wait")
	return c
}

func (r *rig) claimsWaiting(queue, group string) int {
	s, err := r.QueueStats(context.Background(), queue, group)
	if core.CodeOf(err) == core.CodeNoQueue {
		return 0
	}
	require.NoError(r.t, err)
	return s.ClaimsWaiting
}

// eventually waits for what other goroutines bring about.
func (r *rig) eventually(ok func() bool, text string) {
	r.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			require.Fail(r.t, text)
		}
	}
}

// answer returns how the claim ended; it must end without the clock moving.
func (c *parked) answer() answer {
	c.r.t.Helper()
	select {
	case a := <-c.done:
		return a
	case <-time.After(patience):
		require.Fail(c.r.t, "a waiting claim is not answered")
		return answer{}
	}
}

// names returns what the claim got; it must have got something.
func (c *parked) names() []string {
	c.r.t.Helper()
	a := c.answer()
	require.NoError(c.r.t, a.err)
	return a.names()
}

// code returns the code of the error that the claim ended with.
func (c *parked) code() core.Code {
	c.r.t.Helper()
	a := c.answer()
	require.Error(c.r.t, a.err)
	return core.CodeOf(a.err)
}

// waits fails when the claim has been answered although the engine has looked at everything there is.
func (c *parked) waits(queue string) {
	c.r.t.Helper()
	c.r.settleDown(queue)
	select {
	case a := <-c.done:
		require.Failf(c.r.t, "a claim that should wait is answered", "%v %v", a.names(), a.err)
	default:
	}
}

// settleDown returns when the engine has worked off what it had to do at the clock's present time. Listing items is done by the
// goroutine that does that work, between its turns.
func (r *rig) settleDown(queue string) {
	r.t.Helper()
	r.allLook()
	for range 5 {
		r.Wake()
		_, err := r.Items(context.Background(), core.ItemsParams{Queue: queue, Limit: 1})
		require.NoError(r.t, err)
	}
}

// advance moves the clock and lets the engine do what has come due.
func (r *rig) advance(d time.Duration, queue string) {
	r.t.Helper()
	r.clock.Advance(d)
	r.settleDown(queue)
}

// cases runs one subtest per function, each with a fresh engine and store.
func cases(t *testing.T, open Open, all map[string]func(*rig)) {
	t.Helper()
	for name, run := range all {
		t.Run(name, func(t *testing.T) { run(newRig(t, open)) })
	}
}

// waitingPop is a Queen pop that waits.
func waitingPop(queue, group string, n int, wait time.Duration) core.ClaimParams {
	return core.ClaimParams{
		Protocol: core.ProtocolQueen, Exclusive: true, Queue: queue, Group: group, Messages: n, Partitions: 1, Wait: wait, Create: true,
	}
}

// waitingLease is a Querator lease that waits.
func waitingLease(queue string, n int, wait time.Duration) core.ClaimParams {
	return core.ClaimParams{Protocol: core.ProtocolQuerator, Queue: queue, Messages: n, Partitions: 1, Wait: wait}
}
