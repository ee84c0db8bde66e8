package bench

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pretend is a wire to a server that takes known times, in a bubble of testing/synctest: time passes only while it waits.
type pretend struct {
	push, deliver, settle time.Duration
	// stallAt is the number of the push that takes stall.
	stallAt int
	stall   time.Duration

	pushes int
	events []event // by time
	data   []string
	parked []int // connections whose claims wait for a message
	got    func(reply)
}

// event is something that the server does at a time.
type event struct {
	at time.Time
	do func()
}

func (w *pretend) dial() error { return nil }
func (w *pretend) close()      {}

// after has something done in a while, after what is to be done at the same time already.
func (w *pretend) after(d time.Duration, do func()) {
	e := event{at: time.Now().Add(d), do: do}
	at := slices.IndexFunc(w.events, func(x event) bool { return x.at.After(e.at) })
	if at < 0 {
		at = len(w.events)
	}
	w.events = slices.Insert(w.events, at, e)
}

func (w *pretend) answer(conn, status int, body string) {
	w.got(reply{conn: conn, status: status, body: []byte(body)})
}

func (w *pretend) send(conn int, request []byte) {
	line, _, _ := bytes.Cut(request, []byte("\r\n"))
	switch {
	case bytes.Contains(line, []byte("/push")):
		payload, _, _ := stringMember(request, `"payload"`)
		data := string(payload)
		took := w.push
		if w.pushes++; w.pushes == w.stallAt {
			took = w.stall
		}
		w.after(took, func() {
			w.data = append(w.data, data)
			w.answer(conn, 201, fmt.Sprintf("[%s]", bytes.Repeat([]byte(`{"status":"queued"}`), bytes.Count(request, []byte(`"payload"`)))))
			w.serve()
		})
	case bytes.Contains(line, []byte("/pop/")):
		w.parked = append(w.parked, conn)
		w.serve()
	default:
		w.after(w.settle, func() { w.answer(conn, 200, `{"success":true}`) })
	}
}

// serve gives what is there to those who wait.
func (w *pretend) serve() {
	for len(w.data) > 0 && len(w.parked) > 0 {
		conn, data := w.parked[0], w.data[0]
		w.parked, w.data = w.parked[1:], w.data[1:]
		w.after(w.deliver, func() {
			w.answer(conn, 200, fmt.Sprintf(`{"partitionId":"p","leaseId":"l","consumerGroup":"g","messages":[{"transactionId":"t","data":%q}]}`, data))
		})
	}
}

func (w *pretend) wait(until time.Time, got func(reply)) error {
	w.got = got
	if len(w.events) > 0 && w.events[0].at.Before(until) {
		until = w.events[0].at
	}
	time.Sleep(time.Until(until))
	for len(w.events) > 0 && !w.events[0].at.After(time.Now()) {
		e := w.events[0]
		w.events = w.events[1:]
		e.do()
	}
	return nil
}

// pretendFleet are the clients of a load at such a server.
func pretendFleet(t *testing.T, w *pretend, l load, rate float64) *fleet {
	t.Helper()
	s := &spec{host: "h", queue: "q", batch: l.batch, payload: 40, partitions: 1, groups: 1, marks: l.kind == kindBoth}
	f, err := newFleet(queen{}, []*spec{s}, l, watched{}, options{driver: driverGoroutines, rate: rate})
	require.NoError(t, err)
	f.close()
	f.wire = w
	return f
}

// A server that stalls must be charged with every request that it kept from
// being sent, not with one.
func TestOpenLoopCountsFromWhenARequestWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := load{kind: kindPush, batch: 1, clients: 1}
		server := func() *pretend { return &pretend{push: time.Millisecond, stallAt: 5, stall: 300 * time.Millisecond} }
		open, err := pretendFleet(t, server(), l, 200).run(800*time.Millisecond, unlimited)
		require.NoError(t, err)
		require.Zero(t, open.failures, open.failure)
		require.EqualValues(t, 160, open.added, "what was due is sent late rather than not at all")
		// The fifth is due at 20 ms and answered at 320; each one after it is sent 1 ms later, and was due 5 ms later.
		require.InDelta(t, 300, open.push.quantile(1), 6)
		require.InDelta(t, 300-4*32, open.push.quantile(.8), 8)
		require.InDelta(t, 1, open.push.quantile(.2), .1)
		closed, err := pretendFleet(t, server(), l, 0).run(800*time.Millisecond, unlimited)
		require.NoError(t, err)
		require.InDelta(t, 300, closed.push.quantile(1), 6)
		require.InDelta(t, 1, closed.push.quantile(.99), .1, "a closed loop sees one slow request")
	})
}

func TestOpenLoopSendsAtItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &pretend{push: 3 * time.Millisecond}
		f := pretendFleet(t, w, load{kind: kindPush, batch: 10, clients: 4}, 500)
		for range 2 {
			o, err := f.run(2*time.Second, unlimited)
			require.NoError(t, err)
			require.InDelta(t, 500, o.perSecond, 1e-9)
			require.InDelta(t, 3, o.push.quantile(.99), .1)
		}
		require.Equal(t, 200, w.pushes)
	})
}

// Consumers wait while producers keep to the rate; a delivery lasts from when its push was due.
func TestOpenLoopTimesDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &pretend{push: 2 * time.Millisecond, deliver: 3 * time.Millisecond, settle: time.Millisecond}
		f := pretendFleet(t, w, load{kind: kindBoth, batch: 1, clients: 8, settle: 8}, 200)
		o, err := f.run(time.Second, 200)
		require.NoError(t, err)
		require.EqualValues(t, 200, o.removed)
		require.EqualValues(t, 200, o.deliver.n)
		require.InDelta(t, 5, o.deliver.quantile(.5), .1)
		require.InDelta(t, 5, o.deliver.quantile(.99), .1)
	})
}

func TestDeliveriesOfAnEarlierRunAreNotTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &pretend{push: time.Millisecond, deliver: time.Millisecond}
		f := pretendFleet(t, w, load{kind: kindBoth, batch: 1, clients: 2, settle: 2}, 100)
		_, err := f.run(time.Second, 10)
		require.NoError(t, err)
		w.data = append(w.data, fmt.Sprintf("%0*d", markDigits, 3)) // of that run, and delivered in the next one
		o, err := f.run(time.Second, 10)
		require.NoError(t, err)
		require.EqualValues(t, 10, o.removed)
		require.EqualValues(t, 9, o.deliver.n)
	})
}

func TestProducersWaitForConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &pretend{push: time.Millisecond, deliver: 20 * time.Millisecond, settle: time.Millisecond}
		f := pretendFleet(t, w, load{kind: kindBoth, batch: 1, clients: 4, settle: 4}, 0)
		o, err := f.run(time.Second, unlimited)
		require.NoError(t, err)
		require.Positive(t, o.removed)
		require.LessOrEqual(t, o.added, o.removed+4*ahead+4)
	})
}
