package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Idling checks which partitions go because nobody uses them, and that whoever comes at that moment or later notices nothing.
func Idling(t *testing.T, open Open) {
	all := map[string]func(*rig){
		"what is empty and unused goes":              idleGoes,
		"what was used goes later":                   idleUsed,
		"what waits stays":                           idleWaiting,
		"what is a dead letter stays":                idleLetters,
		"what a stream processor keeps stays":        idleState,
		"what others number or move to stays":        idleOthers,
		"progress goes with it":                      idleProgress,
		"a claim by its name waits on":               idleParked,
		"numbers keep their meaning":                 idleNumbers,
		"many at a time":                             idleMany,
		"pushes of every kind find the next of it":   idlePushes,
		"pushes, pops and removals at the same time": idleStorm,
	}
	cases(t, open, all)
	t.Run("never", func(t *testing.T) {
		r := newRig(t, open, func(o *core.Options) { o.PartitionIdle = -1 })
		r.idleQueue("a")
		r.days(400)
		require.Equal(t, "a", r.parts("q"))
	})
}

// day is a day.
const day = 24 * time.Hour

// idleQueue makes queue q, whose messages are gone after a minute, with the named partitions, and a queue that stays.
func (r *rig) idleQueue(names ...string) {
	r.t.Helper()
	r.queue("still", core.ProtocolCloudflare)
	q := core.Queue{Name: "q", Origin: core.ProtocolQueen}
	q.Options.Queen = core.ImplicitQueen()
	retention(0, 0, 60)(&q.Options)
	_, err := r.CreateQueue(context.Background(), q, 0)
	require.NoError(r.t, err)
	r.pushTo("q", names...)
	r.allLook()
}

// allLook lets every engine see what the others have done.
func (r *rig) allLook() {
	r.t.Helper()
	for _, e := range r.all {
		require.NoError(r.t, e.Refresh(context.Background()))
	}
}

// days moves the clock and lets the engines sweep.
func (r *rig) days(n int) {
	r.t.Helper()
	r.allLook()
	r.advance(time.Duration(n)*day, "still")
	for range 3 {
		r.advance(6*time.Second, "still")
	}
}

// parts lists the partitions of a queue by name.
func (r *rig) parts(queue string) string {
	r.t.Helper()
	list, err := r.Partitions(context.Background(), queue)
	require.NoError(r.t, err)
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	return strings.Join(names, " ")
}

// popAll pops and completes what a group gets of queue q.
func (r *rig) popAll(group string) []string {
	r.t.Helper()
	p := waitingPop("q", group, 1000, 0)
	p.Partitions, p.AutoAck = 0, true
	var all []string
	for got := r.claim(p).payloads(); len(got) > 0; got = r.claim(p).payloads() {
		all = append(all, got...)
	}
	slices.Sort(all)
	return all
}

func idleGoes(r *rig) {
	r.idleQueue("a", "b", "c")
	require.Equal(r.t, []string{"a", "b", "c"}, r.popAll("g"))
	r.days(29)
	require.Equal(r.t, "a b c", r.parts("q"))
	r.pushTo("q", "b")
	r.days(2)
	require.Equal(r.t, "b", r.parts("q"))
	require.Empty(r.t, r.popAll("g"), "it waited for longer than a minute")
	for _, name := range []string{"b", "c", "a"} {
		r.pushTo("q", name)
		require.Equal(r.t, []string{name}, r.popAll("g"))
		require.Equal(r.t, []string{name}, r.popAll("h"), "a group that is new gets what is there")
		r.advance(2*time.Minute, "still")
		r.days(0)
	}
	require.Equal(r.t, "b c a", r.parts("q"))
	r.days(31)
	require.Empty(r.t, r.parts("q"))
	_, err := r.Queue(context.Background(), "q")
	require.NoError(r.t, err, "the queue stays")
}

// idleUsed counts the days from the last use: a push, a claim and a seek are one.
func idleUsed(r *rig) {
	r.idleQueue("pushed", "claimed", "sought", "left")
	r.days(20)
	r.pushTo("q", "pushed")
	r.days(0)
	_, err := r.Seek(context.Background(), core.SeekParams{Queue: "q", Partition: "sought", Group: "g", ToEnd: true})
	require.NoError(r.t, err)
	r.days(11)
	require.Equal(r.t, "pushed sought", r.parts("q"))
	r.days(18)
	require.Equal(r.t, "pushed sought", r.parts("q"))
	r.days(2)
	require.Empty(r.t, r.parts("q"))
}

// idleWaiting keeps what holds a message, in the log or for later, and gives it out whole.
func idleWaiting(r *rig) {
	r.queue("still", core.ProtocolCloudflare)
	r.pushTo("q", "log", "leased")
	p := waitingPop("q", "", 10, 0)
	p.Partition, p.Lease = "leased", 100*day
	held := r.claim(p)
	require.Equal(r.t, []string{"leased"}, held.payloads())
	_, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: []core.PushItem{
		{Queue: "q", Partition: "later", NewMessage: core.NewMessage{Payload: []byte("later"), Due: r.Now().Add(90 * day)}},
	}})
	require.NoError(r.t, err)
	r.days(80)
	require.Equal(r.t, "log leased later", r.parts("q"))
	p.Partition, p.Partitions = "", 0
	require.Equal(r.t, []string{"log"}, r.claim(p).payloads())
	r.days(11)
	require.Equal(r.t, []string{"later"}, r.claim(p).payloads())
	acked, err := r.Ack(context.Background(), []core.Ack{{
		Partition: held.Partitions[0].Partition.ID, TransactionID: held.Partitions[0].Messages[0].Transaction(), Lease: held.lease,
	}})
	require.NoError(r.t, err)
	require.NoError(r.t, acked[0].Err)
}

func idleLetters(r *rig) {
	r.idleQueue("a", "b")
	p := waitingPop("q", "g", 10, 0)
	p.Partition = "a"
	b := r.claim(p)
	acked, err := r.Ack(context.Background(), []core.Ack{{
		Partition: b.Partitions[0].Partition.ID, TransactionID: b.Partitions[0].Messages[0].Transaction(), Group: "g", Lease: b.lease, Status: core.AckDead,
	}})
	require.NoError(r.t, err)
	require.True(r.t, acked[0].Dead)
	r.days(400)
	require.Equal(r.t, "a", r.parts("q"))
	letters, _, err := r.DeadLetters(context.Background(), core.DeadLetterFilter{})
	require.NoError(r.t, err)
	require.Len(r.t, letters, 1)
	_, err = r.ReplayDeadLetters(context.Background(), []uuid.UUID{letters[0].ID}, nil)
	require.NoError(r.t, err)
	require.Equal(r.t, []string{"a"}, r.popAll("g"))
	r.days(31)
	require.Empty(r.t, r.parts("q"))
}

func idleState(r *rig) {
	r.idleQueue("a", "b")
	ctx := context.Background()
	q, err := r.all[0].RegisterStream(ctx, core.StreamQuery{Name: "s", Source: "q", Hash: "1"}, false)
	require.NoError(r.t, err)
	list, err := r.Partitions(ctx, "q")
	require.NoError(r.t, err)
	_, err = r.all[0].Cycle(ctx, core.CycleParams{Partition: list[1].ID, Records: []core.Record{core.StateRecord(q.ID, list[1].ID, "k", []byte("1"))}})
	require.NoError(r.t, err)
	r.days(60)
	require.Equal(r.t, "b", r.parts("q"))
	state, err := r.all[0].StreamState(ctx, q.ID, list[1].ID, nil, "")
	require.NoError(r.t, err)
	require.Len(r.t, state, 1)
	r.days(31) // the state is too old then
	r.days(1)
	require.Empty(r.t, r.parts("q"))
}

// idleOthers leaves partitions alone that Querator counts, that Cloudflare consumes from, or that dead messages go to.
func idleOthers(r *rig) {
	r.idleQueue("a")
	r.queue("counted", core.ProtocolQuerator, querator(time.Minute, time.Hour))
	r.queue("consumed", core.ProtocolQueen, cloudflare(3, time.Minute))
	dead := r.queue("dead", core.ProtocolQueen, retention(0, 0, 60))
	r.queue("deadly", core.ProtocolCloudflare, func(o *core.QueueOptions) { o.DeadQueue = dead.ID })
	r.days(100)
	require.Empty(r.t, r.parts("q"))
	require.Equal(r.t, "0", r.parts("counted"))
	for _, name := range []string{"consumed", "dead", "deadly", "still"} {
		require.Equal(r.t, core.DefaultPartition, r.parts(name), name)
	}
}

// idleProgress shows that a partition that comes again begins where the registration of each group says.
func idleProgress(r *rig) {
	r.idleQueue("a")
	require.Empty(r.t, r.claim(subscription("new", true, 0)).names())
	require.Equal(r.t, []string{"a"}, r.popAll("all"))
	list, err := r.Partitions(context.Background(), "q")
	require.NoError(r.t, err)
	r.days(31)
	_, err = r.Ack(context.Background(), []core.Ack{{Partition: list[0].ID, TransactionID: "x"}})
	require.NoError(r.t, err)
	rows, err := r.store.Rows(context.Background(), core.RowsParams{Queue: list[0].Queue, Now: r.Now()})
	require.NoError(r.t, err)
	require.Empty(r.t, rows)
	regs, err := r.Registrations(context.Background(), "q")
	require.NoError(r.t, err)
	require.Len(r.t, regs, 2, "groups stay registered")
	r.pushTo("q", "a")
	for _, group := range []string{"all", "new", "late"} {
		require.Equal(r.t, []string{"a"}, r.popAll(group), group)
		require.Empty(r.t, r.popAll(group), group)
	}
}

func idleParked(r *rig) {
	r.idleQueue("a", "b")
	require.Equal(r.t, []string{"a", "b"}, r.popAll(""))
	p := waitingPop("q", "", 1, 300*day)
	p.Partition = "a"
	named := r.park(p)
	first := r.park(waitingPop("q", "", 1, 300*day))
	r.days(31)
	require.Empty(r.t, r.parts("q"))
	r.pushTo("q", "b")
	require.Equal(r.t, []string{"b"}, first.answer().payloads())
	named.waits("still")
	r.pushTo("q", "a")
	require.Equal(r.t, []string{"a"}, named.answer().payloads())
}

// idleNumbers reads by the numbers of partitions of which one in the middle is gone.
func idleNumbers(r *rig) {
	r.idleQueue("a", "b", "c")
	r.days(20)
	r.pushTo("q", "a", "c")
	r.days(11)
	require.Equal(r.t, "a c", r.parts("q"))
	r.pushTo("q", "c", "d", "b")
	list, err := r.Partitions(context.Background(), "q")
	require.NoError(r.t, err)
	for i, want := range []struct {
		name    string
		ordinal int32
	}{{"a", 0}, {"c", 2}, {"d", 3}, {"b", 4}} {
		require.Equal(r.t, want.name, list[i].Name)
		require.Equal(r.t, want.ordinal, list[i].Ordinal)
		items, err := r.Items(context.Background(), core.ItemsParams{Queue: "q", Ordinal: want.ordinal, Limit: 10})
		require.NoError(r.t, err)
		if want.name == "a" {
			require.Empty(r.t, items)
			continue
		}
		require.Len(r.t, items, 1)
		require.Equal(r.t, want.name, string(items[0].Payload))
	}
	for _, missing := range []int32{-1, 1, 5} {
		_, err = r.Items(context.Background(), core.ItemsParams{Queue: "q", Ordinal: missing, Limit: 10})
		require.Equal(r.t, core.CodeNoPartition, core.CodeOf(err))
		err = r.SettleItems(context.Background(), core.SettleItemsParams{Queue: "q", Ordinal: missing, Items: []core.ItemSettlement{{}}})
		require.Equal(r.t, core.CodeNoPartition, core.CodeOf(err))
	}
}

// idleMany has more partitions than one sweep looks at; some of them stay, and others come after those.
func idleMany(r *rig) {
	r.idleQueue()
	var items []core.PushItem
	for i := range 700 {
		items = append(items, core.PushItem{Queue: "q", Partition: fmt.Sprint(i), NewMessage: core.NewMessage{Payload: []byte("1")}})
	}
	_, err := r.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: items})
	require.NoError(r.t, err)
	r.days(20)
	r.pushTo("q", "3", "699")
	r.days(11)
	for range 10 {
		r.advance(6*time.Second, "still")
	}
	require.Equal(r.t, "3 699", r.parts("q"))
}

// idlePushes sends what another engine, or this one, has to put into a partition that was removed since it last saw it.
func idlePushes(r *rig) {
	r.idleQueue("a")
	ctx := context.Background()
	item := func(id string) core.PushItem {
		return core.PushItem{Queue: "q", Partition: "a", NewMessage: core.NewMessage{TransactionID: id, Payload: []byte(id)}}
	}
	source := r.partition("still").ID
	for name, push := range map[string]func(e *core.Engine){
		"plain": func(e *core.Engine) {
			out, err := e.Push(ctx, core.PushParams{Protocol: core.ProtocolQueen, Items: []core.PushItem{item("x"), item("x")}})
			require.NoError(r.t, err)
			require.Equal(r.t, []core.PushStatus{core.PushQueued, core.PushDuplicate}, []core.PushStatus{out[0].Status, out[1].Status})
		},
		"atomic": func(e *core.Engine) {
			_, err := e.Push(ctx, core.PushParams{Protocol: core.ProtocolQuerator, Items: []core.PushItem{item("x")}, Atomic: true})
			require.NoError(r.t, err)
		},
		"delayed": func(e *core.Engine) {
			it := item("x")
			it.Due = r.Now().Add(time.Second)
			_, err := e.Push(ctx, core.PushParams{Protocol: core.ProtocolQueen, Items: []core.PushItem{it}})
			require.NoError(r.t, err)
			r.advance(time.Second, "still")
		},
		"transaction": func(e *core.Engine) {
			_, err := e.Transact(ctx, core.TransactParams{Pushes: []core.PushItem{item("x")}})
			require.NoError(r.t, err)
		},
		"cycle": func(e *core.Engine) {
			_, err := e.Cycle(ctx, core.CycleParams{Partition: source, Pushes: []core.PushItem{item("x")}})
			require.NoError(r.t, err)
		},
	} {
		for _, e := range r.all {
			r.days(31)
			push(e)
			require.Equal(r.t, []string{"x"}, r.popAll("g"), name)
		}
	}
}
