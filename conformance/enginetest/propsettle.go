package enginetest

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/core"
)

var ackStatuses = []core.AckStatus{core.AckCompleted, core.AckCompleted, core.AckCompleted, core.AckRetry, core.AckFailed, core.AckFailed, core.AckDead}

// ackSome acknowledges some of the messages at offs.
func (w *world) ackSome(t *rapid.T, l *modelLog, group string, lease uuid.UUID, offs []int64) {
	var acks []core.Ack
	var model []modelAck
	for _, off := range rapid.SliceOfN(rapid.SampledFrom(offs), 1, 4).Draw(t, "offsets") {
		a := modelAck{off, rapid.SampledFrom(ackStatuses).Draw(t, "status")}
		model = append(model, a)
		acks = append(acks, core.Ack{Partition: l.ID, TransactionID: l.body(off).name, Group: group, Status: a.status, Lease: lease})
	}
	key := core.RowKey{Partition: l.Key, Group: group}
	batches, _, err := w.store.Batches(context.Background(), key)
	require.NoError(t, err)
	want := w.model.ack(l, group, lease, model, func(off int64) core.Runs {
		for i := range batches {
			if batches[i].Pending.Has(off) {
				return batches[i].Pending
			}
		}
		return nil
	})
	got, err := w.Ack(context.Background(), acks)
	require.NoError(t, err)
	for i := range want {
		if want[i].gone && core.CodeOf(got[i].Err) == core.CodeUnresolvable {
			continue
		}
		require.Equal(t, want[i].failed, got[i].Err != nil, "item %d: %v", i, got[i].Err)
		if want[i].failed {
			require.Equal(t, want[i].code, core.CodeOf(got[i].Err), "item %d: %v", i, got[i].Err)
		}
		require.Equal(t, want[i].noop, got[i].Noop, "item %d is without effect", i)
		require.Equal(t, want[i].dead, got[i].Dead, "item %d is dead", i)
		require.Equal(t, want[i].released, got[i].Released, "item %d released", i)
	}
}

func (l *modelLog) offsets() (offs []int64) {
	for off := int64(1); off <= l.head(); off++ {
		offs = append(offs, off)
	}
	return offs
}

// ack acknowledges anything under any lease or none.
func (w *world) ack(t *rapid.T) {
	l := w.anyLog(t)
	if l.head() == 0 {
		t.Skip("no messages")
	}
	lease := rapid.SampledFrom(append([]uuid.UUID{{}, {}, uuid.New()}, w.leases...)).Draw(t, "lease")
	// What has expired may or may not be there still, and what was delayed is found by its id only under a lease.
	offs := slices.DeleteFunc(l.offsets(), func(off int64) bool {
		b := l.body(off)
		return b.expires != 0 && b.expires <= w.now || b.delayed && lease == uuid.UUID{}
	})
	if len(offs) == 0 {
		t.Skip("no messages")
	}
	w.ackSome(t, l, w.anyGroup(t), lease, offs)
}

// ackLive acknowledges what a live exclusive lease holds.
func (w *world) ackLive(t *rapid.T) {
	for _, l := range w.logs {
		for _, g := range groups {
			r := l.row(g)
			if live := l.exclusive(r); len(live) > 0 {
				w.ackSome(t, l, g, r.at(live[0]).lease, live)
				return
			}
		}
	}
	t.Skip("no lease")
}

func (w *world) settleTokens(t *rapid.T) {
	var known []int
	for i := range w.handed {
		if !w.handed[i].log.ghost(w.handed[i].Offset) {
			known = append(known, i)
		}
	}
	if len(known) == 0 {
		t.Skip("nothing was delivered")
	}
	picked := rapid.SliceOfNDistinct(rapid.SampledFrom(known), 1, 4, func(i int) uuid.UUID { return w.handed[i].ID }).Draw(t, "tokens")
	var items []core.MessageSettlement
	for _, i := range picked {
		d := &w.handed[i]
		s := core.MessageSettlement{MessageToken: core.MessageToken{
			Partition: d.log.ID, Offset: d.Offset, Message: d.ID, Lease: d.Lease, Attempt: d.Attempt,
		}}
		if rapid.Bool().Draw(t, "retry") {
			s.Outcome, s.KeepAttempts = core.OutcomeRetry, rapid.IntRange(0, 5).Draw(t, "keep") == 0
			s.Delay = time.Duration(rapid.SampledFrom([]int{-1, 0, 0, 6, 15}).Draw(t, "delay")) * time.Second
		}
		items = append(items, s)
	}
	want := w.settleModel(items, picked)
	got, err := w.SettleMessages(context.Background(), property, items)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// settleModel settles message by message: acknowledgements first.
func (w *world) settleModel(items []core.MessageSettlement, picked []int) []core.MessageSettled {
	out := make([]core.MessageSettled, len(items))
	w.seq++
	for i := range items {
		l := w.handed[picked[i]].log
		if items[i].Outcome != core.OutcomeRetry {
			w.doneModel(l, items[i].Offset)
			out[i] = core.MessageSettled{Counted: true}
		}
	}
	for i := range items {
		if items[i].Outcome == core.OutcomeRetry {
			code := w.retryModel(w.handed[picked[i]].log, &items[i])
			out[i] = core.MessageSettled{Counted: code == core.CodeInternal, Code: code}
		}
	}
	return out
}

func (w *world) doneModel(l *modelLog, off int64) {
	r := l.row(core.QueueModeGroup)
	c := r.at(off)
	if off < l.start || c.standing == settled {
		return
	}
	w.done(l, r, off, func() { c.standing, r.exists = settled, true })
}

func (w *world) retryModel(l *modelLog, s *core.MessageSettlement) core.Code {
	r := l.row(core.QueueModeGroup)
	c := r.at(s.Offset)
	delay := s.Delay
	if delay < 0 {
		delay = time.Duration(w.retryDelay) * time.Second
	}
	due := w.now.Add(delay)
	switch {
	case s.Offset < l.start || c.standing == settled || c.standing == fresh:
		return core.CodeNoMessage
	case c.standing == held && !c.exclusive && c.lease == s.Lease:
		if s.KeepAttempts {
			c.attempts--
		} else if w.limit > 0 && c.attempts >= w.limit {
			w.kill(core.QueueModeGroup, c)
			return core.CodeInternal
		}
		w.comeBack(l, c, due)
		return core.CodeInternal
	case c.standing == back:
		if delay > 0 && (!c.later || due > c.until) {
			c.later, c.until = true, due
		}
		return core.CodeInternal
	default:
		return core.CodeNotLeased
	}
}

func (w *world) settleItems(t *rapid.T) {
	byLog := map[*modelLog][]int{}
	for i := range w.handed {
		d := &w.handed[i]
		if d.protocol == core.ProtocolQuerator && !d.log.ghost(d.Offset) && !d.log.vague(d.Offset) {
			byLog[w.handed[i].log] = append(byLog[w.handed[i].log], i)
		}
	}
	l := w.anyLog(t)
	if len(byLog[l]) == 0 {
		t.Skip("nothing was leased")
	}
	offset := func(i int) int64 { return w.handed[i].Offset }
	picked := rapid.SliceOfNDistinct(rapid.SampledFrom(byLog[l]), 1, 3, offset).Draw(t, "items")
	p := core.SettleItemsParams{Queue: property, Ordinal: l.Ordinal}
	code, bad := core.CodeInternal, -1
	for n, i := range picked {
		s := core.ItemSettlement{ItemRef: item(w.handed[i].Delivery)}
		s.Outcome = rapid.SampledFrom([]core.Outcome{core.OutcomeDone, core.OutcomeDone, core.OutcomeRetry, core.OutcomeDead}).Draw(t, "outcome")
		if s.Outcome == core.OutcomeRetry && rapid.Bool().Draw(t, "later") {
			s.Due = w.now + core.Time(rapid.Int64Range(1, 20).Draw(t, "due")*1_000_000)
		}
		p.Items = append(p.Items, s)
		if bad < 0 {
			if code = l.itemCode(&w.handed[i]); code != core.CodeInternal {
				bad = n
			}
		}
	}
	err := w.SettleItems(context.Background(), p)
	if bad >= 0 {
		require.Equal(t, code, core.CodeOf(err), "%v", err)
		require.Equal(t, bad, core.ItemOf(err))
		return
	}
	require.NoError(t, err)
	w.seq++
	r := l.row(core.QueueModeGroup)
	for i := range p.Items {
		c := r.at(p.Items[i].Offset)
		switch {
		case p.Items[i].Outcome == core.OutcomeDone:
			c.standing = settled
		case p.Items[i].Outcome == core.OutcomeDead, w.limit > 0 && c.attempts >= w.limit:
			w.kill(core.QueueModeGroup, c)
		default:
			w.comeBack(l, c, p.Items[i].Due)
		}
	}
}

// itemCode says what is the matter with an item's id.
func (l *modelLog) itemCode(d *delivered) core.Code {
	c := l.row(core.QueueModeGroup).at(d.Offset)
	switch {
	case d.Offset < l.start, c.standing == settled, c.epoch != d.epoch, c.standing == back && c.later:
		return core.CodeNoMessage
	case c.standing != held || c.exclusive:
		return core.CodeNotLeased
	default:
		return core.CodeInternal
	}
}

// deleteAhead settles a message wherever it is, as an operator does.
func (w *world) deleteAhead(t *rapid.T) {
	l := w.anyLog(t)
	if l.head() < l.start {
		t.Skip("no messages")
	}
	off := rapid.Int64Range(l.start, l.head()).Draw(t, "offset")
	if l.ghost(off) {
		t.Skip("it may or may not be there still")
	}
	got, err := w.SettleMessages(context.Background(), property, []core.MessageSettlement{
		{MessageToken: core.MessageToken{Partition: l.ID, Offset: off, Message: l.body(off).id}},
	})
	require.NoError(t, err)
	require.True(t, got[0].Counted)
	w.doneModel(l, off)
}
