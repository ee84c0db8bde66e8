package enginetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/core"
)

// Property runs random sequences of everything that a queue's users do, over one queue with one or two partitions, and
// compares what the engine delivers, answers, counts and stores with the model after every step.
func Property(t *testing.T, open Open) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, open(t))
		rt.Repeat(map[string]func(*rapid.T){
			"":         w.check,
			"push":     w.push,
			"delayed":  w.pushDelayed,
			"pop":      w.popAny,
			"pop one":  w.popNamed,
			"autoAck":  w.popAutoAck,
			"lease":    w.lease,
			"pull":     w.pull,
			"ack":      w.ack,
			"ack live": w.ackLive,
			"settle":   w.settleTokens,
			"complete": w.settleItems,
			"ahead":    w.deleteAhead,
			"extend":   w.extend,
			"advance":  w.advance,
			"wait":     w.advance,
			"seek":     w.seek,
			"purge":    w.purge,
			"clear":    w.clear,
			"import":   w.importItem,
			"leave":    w.leave,
			"restart":  w.restart,
		})
	})
}

// groups are the consumer groups of the property test; only the reserved one is claimed by shared claims.
var groups = []string{core.QueueModeGroup, "g"}

// delivered is something that a claim got, for settlements to come.
type delivered struct {
	core.Delivery
	log      *modelLog
	protocol core.Protocol
	epoch    int
}

// world is the engine under test beside the model.
type world struct {
	*rig
	hooks *hooked
	model
	names  int
	handed []delivered
	leases []uuid.UUID
	dead   core.Queue
}

const property = "q"

func newWorld(t *rapid.T, store core.Store) *world {
	hooks := &hooked{Store: store}
	w := &world{rig: rigOver(t, hooks), hooks: hooks}
	w.clock.Set(epoch)
	w.now = w.Now()
	w.limit = rapid.SampledFrom([]int32{0, 2, 3}).Draw(t, "deliveries")
	w.retryLimit = rapid.SampledFrom([]int32{0, 1, 3}).Draw(t, "retries")
	w.retryDelay = rapid.SampledFrom([]int64{0, 0, 7}).Draw(t, "retryDelay")
	w.expire = core.Time(rapid.SampledFrom([]int64{0, 40, 90}).Draw(t, "expire") * 1_000_000)
	w.deadQueue = rapid.Bool().Draw(t, "deadQueue")
	w.dead = w.queue("dead", core.ProtocolQueen)
	q := core.Queue{Name: property, Origin: core.ProtocolQueen}
	o := &q.Options
	o.Queen = core.ImplicitQueen()
	o.Queen.RetryLimit = int64(w.retryLimit)
	querator(30*time.Second, time.Duration(w.expire)*time.Microsecond)(o)
	cloudflare(0, 30*time.Second)(o)
	o.Cloudflare.Consumer.RetryDelaySeconds = int32(w.retryDelay) //nolint:gosec // a few seconds
	o.MaxDeliveries = w.limit
	if w.deadQueue {
		o.DeadQueue = w.dead.ID
	}
	_, err := w.CreateQueue(context.Background(), q, rapid.IntRange(1, 2).Draw(t, "partitions"))
	require.NoError(t, err)
	parts, err := w.Partitions(context.Background(), property)
	require.NoError(t, err)
	for _, p := range parts {
		w.logs = append(w.logs, &modelLog{Partition: p, start: 1, rows: map[string]*modelRow{}})
	}
	return w
}

func (w *world) anyLog(t *rapid.T) *modelLog { return rapid.SampledFrom(w.logs).Draw(t, "partition") }

func (w *world) anyGroup(t *rapid.T) string { return rapid.SampledFrom(groups).Draw(t, "group") }

func (w *world) newMessage(t *rapid.T) (core.NewMessage, body) {
	w.names++
	b := body{name: fmt.Sprint("n", w.names), size: rapid.Int64Range(0, 20).Draw(t, "size"), created: w.now}
	if w.expire != 0 {
		b.expires = w.now + w.expire
	}
	return core.NewMessage{TransactionID: b.name, Payload: make([]byte, b.size)}, b
}

func (w *world) push(t *rapid.T) {
	l := w.anyLog(t)
	var items []core.PushItem
	var bodies []body
	for range rapid.IntRange(1, 6).Draw(t, "messages") {
		m, b := w.newMessage(t)
		items, bodies = append(items, core.PushItem{Queue: property, Partition: l.Name, NewMessage: m}), append(bodies, b)
	}
	out, err := w.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: items})
	require.NoError(t, err)
	for i := range out {
		require.Equal(t, core.PushQueued, out[i].Status)
		bodies[i].id = out[i].ID
		w.append(l, bodies[i])
	}
}

func (w *world) pushDelayed(t *rapid.T) {
	l := w.anyLog(t)
	m, b := w.newMessage(t)
	m.TransactionID = "" // what is delayed is not deduplicated
	m.Due = w.now + core.Time(rapid.Int64Range(1, 30).Draw(t, "delay")*1_000_000)
	out, err := w.Push(context.Background(), core.PushParams{
		Protocol: core.ProtocolCloudflare, Items: []core.PushItem{{Queue: property, Partition: l.Name, NewMessage: m}},
	})
	require.NoError(t, err)
	b.id, b.name, b.delayed = out[0].ID, out[0].ID.String(), true
	w.scheduled = append(w.scheduled, due{b, m.Due, l})
}

func (w *world) pop(t *rapid.T, change func(*core.ClaimParams)) {
	p := core.ClaimParams{
		Protocol: core.ProtocolQueen, Exclusive: true, Queue: property, Group: w.anyGroup(t), Messages: rapid.IntRange(1, 8).Draw(t, "n"),
		Lease: time.Duration(rapid.SampledFrom([]int{5, 20, 60}).Draw(t, "seconds")) * time.Second,
	}
	change(&p)
	c, err := w.Claim(context.Background(), p)
	require.NoError(t, err)
	w.tookExclusive(t, p, c)
}

func (w *world) popAny(t *rapid.T) {
	w.pop(t, func(p *core.ClaimParams) { p.Partitions = rapid.IntRange(0, 1).Draw(t, "cap") })
}

func (w *world) popNamed(t *rapid.T) {
	w.pop(t, func(p *core.ClaimParams) { p.Partition = w.anyLog(t).Name })
}

func (w *world) popAutoAck(t *rapid.T) {
	w.pop(t, func(p *core.ClaimParams) { p.AutoAck = true })
}

func (w *world) lease(t *rapid.T) {
	p := core.ClaimParams{Protocol: core.ProtocolQuerator, Queue: property, Messages: rapid.IntRange(1, 8).Draw(t, "n"), Partitions: 1}
	c, err := w.Claim(context.Background(), p)
	require.NoError(t, err)
	w.tookShared(t, p, c)
}

func (w *world) pull(t *rapid.T) {
	p := core.ClaimParams{
		Protocol: core.ProtocolCloudflare, Queue: property, Messages: rapid.IntRange(1, 8).Draw(t, "n"),
		Lease: time.Duration(rapid.SampledFrom([]int{5, 20, 60}).Draw(t, "seconds")) * time.Second,
	}
	c, err := w.Claim(context.Background(), p)
	require.NoError(t, err)
	w.tookShared(t, p, c)
}

func (w *world) advance(t *rapid.T) {
	to := w.now + core.Time(rapid.Int64Range(1, 40).Draw(t, "seconds")*1_000_000)
	for w.now < to {
		at := w.next(to)
		w.clock.Set(at.Std())
		w.settleDown(property)
		w.pass(at)
	}
}

func (w *world) seek(t *rapid.T) {
	l, g := w.anyLog(t), w.anyGroup(t)
	toEnd := rapid.Bool().Draw(t, "toEnd")
	n, err := w.Seek(context.Background(), core.SeekParams{Queue: property, Partition: l.Name, Group: g, ToEnd: toEnd, At: 1})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	w.model.seek(l, g, toEnd)
}

func (w *world) purge(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") != 0 {
		return
	}
	require.NoError(t, w.Purge(context.Background(), property))
	w.model.purge()
}

func (w *world) restart(*rapid.T) { w.rig.restart() }

func (w *world) extend(t *rapid.T) {
	if len(w.leases) == 0 {
		t.Skip("nothing was leased")
	}
	lease := rapid.SampledFrom(w.leases).Draw(t, "lease")
	d := time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second
	got, err := w.Extend(context.Background(), core.ExtendParams{Lease: lease, For: d})
	require.NoError(t, err)
	want := core.Extended{}
	for _, l := range w.logs {
		for _, r := range l.rows {
			live := l.exclusive(r)
			if len(live) == 0 || r.at(live[0]).lease != lease {
				continue
			}
			until := max(r.at(live[0]).until, w.now.Add(d))
			for _, off := range live {
				r.at(off).until = until
			}
			if want.Renewed++; want.Until == 0 || until < want.Until {
				want.Until = until
			}
		}
	}
	require.Equal(t, want, got)
}
