package blackbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The judges of the long runs have to find what they look for.

func TestLedgerFindsWhatIsLostChangedOrBack(t *testing.T) {
	pushed := func(ids ...string) *Ledger {
		l := NewLedger()
		l.Pushing(ids...)
		l.Pushed(ids...)
		return l
	}
	for name, c := range map[string]struct {
		happens func() *Ledger
		fault   string
	}{
		"lost": {func() *Ledger { return pushed("a") }, `"a" was acknowledged and never delivered`},
		"invented": {func() *Ledger {
			l := NewLedger()
			l.Delivered(Payload("x"), time.Now())
			return l
		}, `"x" was delivered, and nobody pushed it`},
		"refused and there": {func() *Ledger {
			l := NewLedger()
			l.Pushing("a")
			l.NotPushed("a")
			l.Delivered(Payload("a"), time.Now())
			return l
		}, `"a" was delivered, and nobody pushed it`},
		"changed": {func() *Ledger {
			l := pushed("a")
			l.Delivered(Payload("a")+" ", time.Now())
			l.Settling("a")
			l.Settled("a")
			return l
		}, `"a" was delivered with other bytes`},
		"back": {func() *Ledger {
			l := pushed("a")
			l.Delivered(Payload("a"), time.Now())
			l.Settling("a")
			l.Settled("a")
			l.Delivered(Payload("a"), time.Now().Add(time.Millisecond))
			return l
		}, `"a" was delivered to a claim sent `},
		"stuck": {func() *Ledger {
			l := pushed("a")
			l.Delivered(Payload("a"), time.Now())
			return l
		}, `"a" was delivered 1 times, never settled, and is gone`},
	} {
		t.Run(name, func(t *testing.T) {
			counts, faults := c.happens().Close()
			require.NotEmpty(t, faults)
			assert.Contains(t, faults[0], c.fault)
			assert.Positive(t, counts.Faults)
		})
	}
}

func TestLedgerAllowsWhatNobodyCanKnow(t *testing.T) {
	l := NewLedger()
	l.Pushing("never answered", "answered", "settlement lost", "claimed early")
	l.Pushed("answered", "settlement lost", "claimed early")
	for _, id := range []string{"answered", "settlement lost", "claimed early"} {
		l.Delivered(Payload(id), time.Now())
		l.Settling(id)
	}
	before := time.Now().Add(-time.Second)
	l.Settled("answered", "claimed early")
	l.Delivered(Payload("claimed early"), before)
	counts, faults := l.Close()
	require.Empty(t, faults)
	assert.Equal(t, Counts{PushesAcked: 3, PushesLost: 1, Deliveries: 4, Redeliveries: 1, SettlesAcked: 2, SettlesLost: 1}, counts)
}

func TestHoldsFindsOverlaps(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	h := NewHolds()
	h.Add("a", "one", at(1), at(5))
	h.Add("a", "two", at(5), at(6))
	h.Add("b", "three", at(1), at(2))
	h.Add("b", "four", at(4), at(3))
	n, faults := h.Check()
	require.Empty(t, faults)
	assert.Equal(t, 3, n)
	h.Add("a", "five", at(4), at(7))
	_, faults = h.Check()
	require.Len(t, faults, 2)
	assert.Contains(t, faults[0], "a was held by one and five at once for 1s")
}

func TestAttemptsFindsGapsAndRepeats(t *testing.T) {
	for name, got := range map[string][]int{"gap": {1, 3}, "repeat": {1, 1}, "late start": {2}, "zero": {0}} {
		t.Run(name, func(t *testing.T) {
			a := NewAttempts()
			for _, n := range got {
				a.Add("x", n)
			}
			_, faults := a.Check()
			require.Len(t, faults, 1)
		})
	}
	a := NewAttempts()
	for _, n := range []int{2, 3, 1} {
		a.Add("x", n)
	}
	highest, faults := a.Check()
	require.Empty(t, faults)
	assert.Equal(t, 3, highest)
}

func TestJournalFindsDisorder(t *testing.T) {
	all := func(string) bool { return true }
	settle := func(b *JournalBatch, n int, done bool) {
		b.Settling(n)
		b.Settled(n, done)
	}
	t.Run("right", func(t *testing.T) {
		j := &Journal{}
		settle(j.Delivered([]string{"1", "2", "3"}), 1, true)
		b := j.Delivered([]string{"2", "3", "4"})
		b.Settling(3)
		c := j.Delivered([]string{"5"}) // claimed before the settlement's answer came
		b.Settled(3, true)
		settle(c, 1, false)
		settle(j.Delivered([]string{"5", "6"}), 2, true)
		order, settled, faults := j.Check(all)
		require.Empty(t, faults)
		assert.Equal(t, []string{"1", "2", "3", "4", "5", "6"}, order)
		assert.Equal(t, 6, settled)
	})
	for name, then := range map[string][]string{
		"skipped": {"3"}, "past what came back": {"4"}, "settled again": {"1"}, "swapped": {"2", "4", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			j := &Journal{}
			settle(j.Delivered([]string{"1", "2", "3"}), 1, true)
			j.Delivered(then)
			_, _, faults := j.Check(all)
			require.NotEmpty(t, faults)
		})
	}
	require.NotEmpty(t, producersOrder([]string{"p-01", "q-01", "p-03", "p-02"}))
	require.Empty(t, producersOrder([]string{"p-01", "q-01", "p-03", "q-02"}))
}

// TestWaitingMessages are those that were acknowledged and are not settled, whichever answer came first.
func TestWaitingMessages(t *testing.T) {
	t.Parallel()
	l := NewLedger()
	l.PushingTo("q", "a", "b", "c")
	l.Pushing("d")
	l.Pushed("d")
	assert.Zero(t, l.Waiting("q"))
	l.Pushed("a", "b")
	assert.Equal(t, 2, l.Waiting("q"))
	l.Settling("a", "c")
	l.Settled("a", "c")
	l.Settled("a")
	assert.Equal(t, 1, l.Waiting("q"))
	l.Pushed("c")
	assert.Equal(t, 1, l.Waiting("q"))
}
