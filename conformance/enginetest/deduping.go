package enginetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Deduplication checks transaction ids: the first message with one is stored, and acknowledgements find it.
func Deduplication(t *testing.T, open Open) {
	cases(t, open, map[string]func(*rig){
		"the first wins":                          dedupFirst,
		"inside one request":                      dedupRequest,
		"between requests at once":                dedupConcurrent,
		"after a restart":                         dedupRestart,
		"only inside the window":                  dedupWindow,
		"per partition":                           dedupPartitions,
		"switched off":                            dedupOff,
		"all or nothing":                          dedupAtomic,
		"all or nothing over partitions":          dedupAtomicPartitions,
		"many ids":                                dedupMany,
		"after what a duplicate left out":         dedupOffsets,
		"acknowledged by the ids that we made":    ackOwnIDs,
		"acknowledged after a restart":            ackRestart,
		"acknowledged under a lease when old":     ackOld,
		"acknowledged by an invented id":          ackInvented,
		"the lowest of several with the same id":  ackLowest,
		"replayed outside the window of the dead": dedupReplay,
	})
}

// pushNamed stores messages with the given transaction ids as one request and returns the outcomes.
func (r *rig) pushNamed(atomic bool, names ...string) ([]core.Pushed, error) {
	r.t.Helper()
	items := make([]core.PushItem, len(names))
	for i, n := range names {
		items[i] = core.PushItem{Queue: "q", NewMessage: core.NewMessage{TransactionID: n, Payload: []byte(n)}}
	}
	return r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: items, Create: true, Atomic: atomic})
}

func (r *rig) statuses(names ...string) string {
	r.t.Helper()
	out, err := r.pushNamed(false, names...)
	require.NoError(r.t, err)
	text := ""
	for i := range out {
		text += map[core.PushStatus]string{core.PushQueued: "+", core.PushDuplicate: "d", core.PushFailed: "f"}[out[i].Status]
	}
	return text
}

func dedupFirst(r *rig) {
	first, err := r.pushNamed(false, "a")
	require.NoError(r.t, err)
	second, err := r.pushNamed(false, "a")
	require.NoError(r.t, err)
	require.Equal(r.t, core.PushDuplicate, second[0].Status)
	require.Equal(r.t, first[0].ID, second[0].ID, "a duplicate answers with the first message's id")
	require.Equal(r.t, "a", second[0].TransactionID)
	b := r.pop("q", "", 10)
	require.Equal(r.t, []string{"a"}, b.names())
	require.Equal(r.t, first[0].ID, b.at(r.t, 1).ID)
	require.True(r.t, r.ack("q", "", b.lease, "a", core.AckCompleted).Released)
	require.Equal(r.t, "d+", r.statuses("a", "b"), "a settled message still counts")
}

func dedupRequest(r *rig) {
	require.Equal(r.t, "++dd+", r.statuses("a", "b", "a", "b", "c"))
	require.Equal(r.t, []string{"a", "b", "c"}, r.pop("q", "", 10).names())
}

func dedupConcurrent(r *rig) {
	const workers, ids = 8, 40
	var mu sync.Mutex
	queued := map[string]int{}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range ids {
				name := fmt.Sprint("t", i)
				out, err := r.pushNamed(false, name)
				if err == nil && out[0].Status == core.PushQueued {
					mu.Lock()
					queued[name]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	require.Len(r.t, queued, ids)
	for name, n := range queued {
		require.Equal(r.t, 1, n, name)
	}
	require.Len(r.t, r.pop("q", "", 1000).names(), ids)
}

func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

func dedupRestart(r *rig) {
	require.Equal(r.t, "++", r.statuses("a", "b"))
	r.restart()
	require.Equal(r.t, "d+d", r.statuses("b", "c", "a"))
	r.restart()
	require.Equal(r.t, "ddd", r.statuses("a", "b", "c"))
}

func dedupWindow(r *rig) {
	require.Equal(r.t, "+", r.statuses("a"))
	r.clock.Advance(time.Hour - time.Microsecond)
	require.Equal(r.t, "d", r.statuses("a"))
	r.clock.Advance(time.Microsecond)
	require.Equal(r.t, "+", r.statuses("a"))
	require.Equal(r.t, "d", r.statuses("a"))
	r.restart()
	require.Equal(r.t, "d", r.statuses("a"))
}

func dedupPartitions(r *rig) {
	for _, p := range []string{"x", "y", "x"} {
		out, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Create: true, Items: []core.PushItem{
			{Queue: "q", Partition: p, NewMessage: core.NewMessage{TransactionID: "a"}},
			{Queue: "p", Partition: p, NewMessage: core.NewMessage{TransactionID: "a"}},
		}})
		require.NoError(r.t, err)
		require.Equal(r.t, out[0].Status, out[1].Status)
	}
	require.EqualValues(r.t, 2, r.pending("q", ""))
	require.EqualValues(r.t, 2, r.pending("p", ""))
}

func dedupOff(r *rig) {
	r.queue("q", core.ProtocolQueen, func(o *core.QueueOptions) { o.Queen.DedupWindowSeconds = 0 })
	require.Equal(r.t, "++", r.statuses("a", "a"))
	require.Equal(r.t, "+", r.statuses("a"))
	require.EqualValues(r.t, 3, r.pending("q", ""))
	r.configure("q", func(o *core.QueueOptions) { o.Queen.DedupWindowSeconds = 60 })
	require.Equal(r.t, "d", r.statuses("a"))
}

func dedupAtomic(r *rig) {
	require.Equal(r.t, "+", r.statuses("a"))
	_, err := r.pushNamed(true, "b", "a", "c")
	require.Equal(r.t, core.CodeDuplicate, core.CodeOf(err))
	require.Equal(r.t, 1, core.ItemOf(err))
	require.EqualValues(r.t, 1, r.pending("q", ""))
	require.Equal(r.t, "++", r.statuses("b", "c"))
}

// dedupAtomicPartitions refuses a request of several groups of messages; what follows must find the right offsets.
func dedupAtomicPartitions(r *rig) {
	require.Equal(r.t, "+", r.statuses("a"))
	var items []core.PushItem
	for i := range 1500 {
		items = append(items, core.PushItem{Queue: "q", NewMessage: core.NewMessage{TransactionID: fmt.Sprint("x", i)}})
	}
	items = append(items, core.PushItem{Queue: "q", NewMessage: core.NewMessage{TransactionID: "a"}})
	require.NoError(r.t, r.Pause(context.Background(), "q", true))
	type result struct {
		out []core.Pushed
		err error
	}
	refused, stored := make(chan result, 1), make(chan result, 1)
	waiting := func(n int) func() bool {
		return func() bool {
			s, err := r.QueueStats(context.Background(), "q", "")
			require.NoError(r.t, err)
			return s.PushesWaiting == n
		}
	}
	go func() {
		out, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: items, Atomic: true})
		refused <- result{out, err}
	}()
	r.eventually(waiting(1), "the push does not wait")
	go func() {
		out, err := r.pushNamed(false, "b", "c")
		stored <- result{out, err}
	}()
	r.eventually(waiting(2), "the push does not wait")
	require.NoError(r.t, r.Pause(context.Background(), "q", false))
	require.Equal(r.t, core.CodeDuplicate, core.CodeOf((<-refused).err))
	require.NoError(r.t, (<-stored).err)
	require.Equal(r.t, "dd+", r.statuses("b", "c", "x0"))
}

func dedupMany(r *rig) {
	const n = 5000
	for from := 0; from < n; from += 500 {
		names := make([]string, 500)
		for i := range names {
			names[i] = fmt.Sprint("t", from+i)
		}
		_, err := r.pushNamed(false, names...)
		require.NoError(r.t, err)
	}
	for range 2 {
		for i := 0; i < n; i += 97 {
			require.Equal(r.t, "d", r.statuses(fmt.Sprint("t", i)))
		}
		r.restart()
	}
	require.EqualValues(r.t, n, r.pending("q", ""))
}

func dedupOffsets(r *rig) {
	require.Equal(r.t, "++", r.statuses("a", "b"))
	require.Equal(r.t, "d+d+", r.statuses("a", "c", "b", "d"))
	b := r.pop("q", "", 10)
	require.Equal(r.t, []string{"a", "b", "c", "d"}, b.names())
	r.clock.Advance(time.Hour / 2) // what the lease remembers is forgotten
	r.settleDown("q")
	require.NoError(r.t, r.ack("q", "", uuid.UUID{}, "c", core.AckCompleted).Err)
	require.Equal(r.t, []string{"d"}, r.pop("q", "", 10).names())
}

// pushPlain stores n messages without transaction ids and returns the ids that they got.
func (r *rig) pushPlain(n int) []string {
	r.t.Helper()
	out, err := r.pushNamed(false, make([]string, n)...)
	require.NoError(r.t, err)
	ids := make([]string, n)
	for i := range out {
		require.Equal(r.t, out[i].ID.String(), out[i].TransactionID)
		ids[i] = out[i].TransactionID
	}
	return ids
}

func ackOwnIDs(r *rig) {
	ids := r.pushPlain(5)
	b := r.pop("q", "", 3)
	require.False(r.t, r.ack("q", "", b.lease, ids[1], core.AckCompleted).Released)
	require.True(r.t, r.ack("q", "", b.lease, ids[2], core.AckCompleted).Released)
	require.True(r.t, r.ack("q", "", uuid.UUID{}, ids[0], core.AckCompleted).Noop)
	require.Equal(r.t, core.CodeCommitted, core.CodeOf(r.ack("q", "", uuid.UUID{}, ids[0], core.AckFailed).Err))
	r.clock.Advance(30 * time.Minute)
	require.NoError(r.t, r.ack("q", "", uuid.UUID{}, ids[3], core.AckCompleted).Err)
	require.Equal(r.t, "F=4", r.show("q", ""))
}

func ackRestart(r *rig) {
	ids := r.pushPlain(3)
	require.Equal(r.t, "+++", r.statuses("a", "b", "c"))
	b := r.pop("q", "", 10)
	r.restart()
	require.False(r.t, r.ack("q", "", b.lease, ids[1], core.AckCompleted).Released)
	require.Equal(r.t, "F=6 leased-x[3-6] 3-6", r.show("q", ""))
	r.restart()
	require.NoError(r.t, r.ack("q", "", b.lease, "b", core.AckCompleted).Err)
	require.Equal(r.t, "F=6 leased-x[6] 6", r.show("q", ""))
	x, err := r.Extend(context.Background(), core.ExtendParams{Lease: b.lease, For: time.Hour})
	require.NoError(r.t, err)
	require.Equal(r.t, core.Extended{Renewed: 1, Until: r.Now().Add(time.Hour)}, x)
	require.True(r.t, r.ack("q", "", b.lease, "c", core.AckCompleted).Released)
}

// ackOld settles messages that are older than the window in which ids are remembered: while they are leased they can be.
func ackOld(r *rig) {
	ids := r.pushPlain(2)
	require.Equal(r.t, "++", r.statuses("a", "b"))
	r.clock.Advance(5 * time.Hour)
	b := r.pop("q", "", 10)
	require.False(r.t, r.ack("q", "", b.lease, ids[0], core.AckCompleted).Released)
	r.restart()
	require.NoError(r.t, r.ack("q", "", b.lease, ids[1], core.AckCompleted).Err)
	require.NoError(r.t, r.ack("q", "", b.lease, "a", core.AckCompleted).Err)
	require.True(r.t, r.ack("q", "", b.lease, "b", core.AckCompleted).Released)
}

func ackInvented(r *rig) {
	r.push("q", 1, 3)
	part := r.partition("q").ID
	require.Equal(r.t, core.CodeNoConsumer, core.CodeOf(r.ack("q", "", uuid.UUID{}, "m1", core.AckCompleted).Err))
	b := r.pop("q", "", 2)
	for _, id := range []string{"", "nothing", "\x00", uuid.NewString(), core.NewMessageID(r.Now()).String(), core.NewMessageID(r.Now() - 7_200_000_000).String()} {
		for _, lease := range []uuid.UUID{b.lease, {}} {
			require.Equal(r.t, core.CodeUnresolvable, core.CodeOf(r.ack("q", "", lease, id, core.AckCompleted).Err), "%q", id)
		}
	}
	require.Equal(r.t, core.CodeLeaseLost, core.CodeOf(r.ack("q", "", uuid.New(), "m1", core.AckCompleted).Err))
	require.Equal(r.t, core.CodeNoConsumer, core.CodeOf(r.ack("q", "stranger", uuid.UUID{}, "m1", core.AckCompleted).Err))
	require.Equal(r.t, core.CodeUnresolvable, core.CodeOf(r.ack("q", "", b.lease, "m3", core.AckCompleted).Err), "not in the lease")
	out, err := r.Ack(context.Background(), []core.Ack{
		{Partition: uuid.New(), TransactionID: "m1"}, {Partition: part, TransactionID: "no", Lease: b.lease}, {Partition: part, TransactionID: "m1", Lease: b.lease},
	})
	require.NoError(r.t, err)
	require.Equal(r.t, core.CodeNoPartition, core.CodeOf(out[0].Err))
	require.Equal(r.t, core.CodeUnresolvable, core.CodeOf(out[1].Err))
	require.NoError(r.t, out[2].Err, "an item that fails does not disturb the others")
	require.Equal(r.t, "F=2 leased-x[2] 2", r.show("q", ""))
}

func ackLowest(r *rig) {
	r.queue("q", core.ProtocolQueen, func(o *core.QueueOptions) { o.Queen.DedupWindowSeconds = 0 })
	require.Equal(r.t, "++++", r.statuses("a", "b", "a", "b"))
	for _, restart := range []bool{false, true} {
		b := r.pop("q", "", 4)
		if restart {
			r.restart()
		}
		require.False(r.t, r.ack("q", "", b.lease, "b", core.AckCompleted).Released)
		require.Equal(r.t, "F=4 leased-x[3-4] 3-4", r.show("q", ""))
		require.True(r.t, r.ack("q", "", b.lease, "b", core.AckCompleted).Released)
		_, err := r.Seek(context.Background(), core.SeekParams{Queue: "q", Group: core.QueueModeGroup, At: 1})
		require.NoError(r.t, err)
	}
}

func dedupReplay(r *rig) {
	require.Equal(r.t, "++", r.statuses("a", "b"))
	b := r.pop("q", "", 10)
	require.True(r.t, r.ack("q", "", b.lease, "a", core.AckDead).Dead)
	letters, _, err := r.DeadLetters(context.Background(), core.DeadLetterFilter{Limit: 10})
	require.NoError(r.t, err)
	ids, err := r.ReplayDeadLetters(context.Background(), []uuid.UUID{letters[0].ID, uuid.New()}, nil)
	require.NoError(r.t, err)
	require.NotZero(r.t, ids[0])
	require.Zero(r.t, ids[1])
	_, n, err := r.DeadLetters(context.Background(), core.DeadLetterFilter{Limit: 10})
	require.NoError(r.t, err)
	require.Zero(r.t, n)
	c := r.pop("q", "", 10)
	require.Equal(r.t, []string{"b", "a"}, c.names())
	require.Equal(r.t, "d", r.statuses("a"))
	r.restart()
	require.True(r.t, r.ack("q", "", c.lease, "a", core.AckCompleted).Released)
}
