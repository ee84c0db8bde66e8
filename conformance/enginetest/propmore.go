package enginetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/core"
)

// leave has a client leave while its claim commits: what it was given goes back unused, to the same place, and no attempt counts.
func (w *world) leave(t *rapid.T) {
	p := core.ClaimParams{Protocol: core.ProtocolCloudflare, Queue: property, Group: core.QueueModeGroup, Messages: rapid.IntRange(1, 8).Draw(t, "n")}
	if rapid.Bool().Draw(t, "exclusive") {
		p.Protocol, p.Exclusive, p.Group = core.ProtocolQueen, true, w.anyGroup(t)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	reached, release := w.hooks.hold()
	done := make(chan error, 1)
	go func() {
		c, err := w.Claim(ctx, p)
		if err == nil && len(c.Partitions) > 0 {
			err = core.Errorf(core.CodeInternal, "leave", "a client that left got messages")
		}
		done <- err
	}()
	var err error
	select {
	case <-reached:
		cancel()
		release()
		err = <-done
	case err = <-done:
		release()
	}
	if err != nil {
		require.Equal(t, core.CodeCanceled, core.CodeOf(err), "%v", err)
	}
	for _, l := range w.logs {
		w.givenBack(t, l, p.Group)
	}
}

// givenBack learns which messages were touched: those wait now instead of lying in the log. Nothing else of them may differ.
func (w *world) givenBack(t *rapid.T, l *modelLog, g string) {
	r := l.row(g)
	batches, _, err := w.store.Batches(context.Background(), core.RowKey{Partition: l.Key, Group: g})
	require.NoError(t, err)
	last := map[core.Turn]place{} // a Cloudflare claim keeps no order among what it joins under the highest turn
	for i := range batches {
		b := &batches[i]
		b.Pending.Offsets(func(off int64) bool {
			if c := r.at(off); b.State == core.BatchWaiting && c.compare(last[b.Turn]) > 0 {
				last[b.Turn] = c.place
			}
			return true
		})
	}
	for i := range batches {
		b := &batches[i]
		if b.State != core.BatchWaiting {
			continue
		}
		b.Pending.Offsets(func(off int64) bool {
			if c := r.at(off); c.tail() {
				c.place = last[b.Turn]
			}
			if c := r.at(off); c.standing == fresh {
				c.standing, r.exists = back, true
				l.passed(r, off)
			}
			return true
		})
	}
}

// exists learns whether the reserved group has a row.
func (w *world) learnExists(t *rapid.T) {
	q, err := w.Queue(context.Background(), property)
	require.NoError(t, err)
	rows, err := w.store.Rows(context.Background(), core.RowsParams{Queue: q.ID, Group: core.QueueModeGroup, Now: w.now})
	require.NoError(t, err)
	for _, l := range w.logs {
		for i := range rows {
			if rows[i].Key.Partition == l.Key {
				l.row(core.QueueModeGroup).exists = true
			}
		}
	}
}

func (w *world) clear(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "really") != 0 {
		return
	}
	p := core.ClearParams{Queue: property, Queued: rapid.Bool().Draw(t, "queued"), Scheduled: rapid.Bool().Draw(t, "scheduled")}
	require.NoError(t, w.Clear(context.Background(), p))
	if p.Scheduled {
		w.scheduled = nil
	}
	for _, l := range w.logs {
		r := l.row(core.QueueModeGroup)
		l.each(r, func(off int64, c *copyOf) {
			switch {
			case c.standing == fresh && p.Queued, c.standing == back && !c.later && p.Queued, c.standing == back && c.later && p.Scheduled:
				c.standing = settled
				delete(r.ghosts, off)
			}
		})
	}
	w.learnExists(t)
}

func (w *world) importItem(t *rapid.T) {
	l := w.anyLog(t)
	m, b := w.newMessage(t)
	m.TransactionID = ""
	b.attempts = rapid.Int32Range(0, 2).Draw(t, "attempts")
	it := core.ImportItem{NewMessage: m, Attempts: b.attempts}
	if rapid.Bool().Draw(t, "leased") {
		it.LeasedUntil = w.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds")) * time.Second)
	}
	out, err := w.Import(context.Background(), property, l.Ordinal, []core.ImportItem{it})
	require.NoError(t, err)
	require.Equal(t, l.head()+1, out[0].Offset)
	w.append(l, b)
	msgs, err := w.store.Read(context.Background(), core.ReadParams{Partition: l.Key, Offsets: core.Runs{{First: l.head(), Last: l.head()}}})
	require.NoError(t, err)
	l.bodies[l.head()-1].id, l.bodies[l.head()-1].name = msgs[0].ID, msgs[0].ID.String()
	if it.LeasedUntil == 0 {
		return
	}
	r := l.row(core.QueueModeGroup)
	c := r.at(l.head())
	c.standing, c.protocol, c.until, r.exists = held, core.ProtocolQuerator, it.LeasedUntil, true
	batches, _, err := w.store.Batches(context.Background(), core.RowKey{Partition: l.Key, Group: core.QueueModeGroup})
	require.NoError(t, err)
	for i := range batches {
		if batches[i].Pending.Has(l.head()) {
			c.lease = batches[i].Lease
		}
	}
	d := core.Delivery{Message: msgs[0], Turn: out[0].Turn, TurnAt: core.Time(out[0].Second * 1_000_000), Lease: c.lease, Until: c.until, Attempt: c.attempts}
	w.handed = append(w.handed, delivered{d, l, core.ProtocolQuerator, c.epoch})
}
