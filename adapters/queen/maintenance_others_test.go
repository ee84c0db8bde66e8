package queen_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen/spool"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/memory"
)

// twoDesks returns two servers of one store, the first of which has messages of a partition in its spool and is dead, and the second of which
// has got the later ones. Maintenance is off again.
func twoDesks(t *testing.T) (one, two *desk) {
	t.Helper()
	clock := coretest.New(coretest.Start)
	store := memory.NewShared(clock)
	one, two = newDeskWith(t, store, clock, spool.Options{Dir: t.TempDir()}), newDeskWith(t, store.Another(), clock, spool.Options{Dir: t.TempDir()})
	one.maintain(t, true)
	clock.Advance(time.Second)
	require.Equal(t, []string{"buffered", "buffered"}, one.statuses(t, "q", "p", "a", "b"))
	clock.Advance(time.Second)
	one.end(t)
	require.Equal(t, []string{"buffered"}, two.statuses(t, "q", "p", "c"))
	require.Equal(t, []string{"buffered"}, two.statuses(t, "q", "other", "x"))
	two.maintain(t, false)
	return one, two
}

func TestAProducerThatFailsOverKeepsItsOrder(t *testing.T) {
	one, two := twoDesks(t)
	assert.Equal(t, []string{"buffered"}, two.statuses(t, "q", "p", "d"), "behind what the dead server has")
	assert.Equal(t, []string{"queued"}, two.statuses(t, "q", "free", "y"), "it has nothing of this one")
	for range 20 {
		two.local.Advance(time.Second)
		assert.Equal(t, 3, two.buffered(t), "the other server's messages go first")
	}
	one.begin(t)
	one.drained(t)
	two.drained(t)
	assert.Equal(t, []string{"queued"}, two.statuses(t, "q", "p", "e"))
	assert.Equal(t, map[string][]string{"p": {"a", "b", "c", "d", "e"}, "other": {"x"}, "free": {"y"}}, one.takeAll(t, "q"))
	one.end(t)
	two.end(t)
}

func TestAServerThatStaysAwayIsNotWaitedForForever(t *testing.T) {
	one, two := twoDesks(t)
	for range 50 {
		two.local.Advance(time.Second)
		require.Equal(t, 2, two.buffered(t))
	}
	two.local.Advance(15 * time.Second)
	two.drained(t)
	assert.Equal(t, []string{"queued"}, two.statuses(t, "q", "p", "d"), "and it does not hold up later pushes")
	one.begin(t)
	one.drained(t)
	got := two.takeAll(t, "q")
	assert.ElementsMatch(t, []string{"a", "b", "c", "d"}, got["p"], "late, and there")
	one.end(t)
	two.end(t)
}
