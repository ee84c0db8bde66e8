package enginetest

import (
	"slices"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/core"
)

func (w *world) logOf(id uuid.UUID) *modelLog {
	for _, l := range w.logs {
		if l.ID == id {
			return l
		}
	}
	return nil
}

// same checks that a delivery is the message that lies at its offset.
func (w *world) same(t *rapid.T, l *modelLog, d *core.Delivery) {
	require.LessOrEqual(t, d.Offset, l.head())
	b := l.body(d.Offset)
	require.Equal(t, b.id, d.ID)
	require.Equal(t, b.name, d.Transaction())
	require.Len(t, d.Payload, int(b.size))
	require.Equal(t, b.created, d.CreatedAt)
}

// passed lets a row's frontier pass what lies below an offset that a claim took from the log.
func (l *modelLog) passed(r *modelRow, off int64) {
	for o := range r.ghosts {
		if o < off && r.at(o).standing == fresh {
			r.at(o).standing = settled
			delete(r.ghosts, o)
		}
	}
}

// take checks one partition's messages of an exclusive claim that had left messages to take.
func (w *world) takeExclusive(t *rapid.T, l *modelLog, p *core.ClaimParams, ds []core.Delivery, left int) {
	r := l.row(p.Group)
	want := l.candidates(r, w.now)
	require.NotEmpty(t, want, "nothing of the partition may be delivered")
	n := min(left, r.orderly(want))
	if n > 0 {
		require.Len(t, ds, n, "an exclusive claim takes all that is in order")
	} else {
		require.LessOrEqual(t, len(ds), left)
	}
	for i := range ds {
		d := &ds[i]
		w.same(t, l, d)
		c := r.at(d.Offset)
		if n > 0 {
			require.Equal(t, want[i], d.Offset)
		} else {
			require.Contains(t, want, d.Offset)
			require.Zero(t, c.compare(r.at(want[0]).place), "what has been to the tail comes in the order of turns")
			require.Equal(t, r.at(ds[0].Offset).attempts, c.attempts)
			require.True(t, i == 0 || ds[i-1].Offset < d.Offset)
		}
	}
	for i := range ds {
		d := &ds[i]
		c := r.at(d.Offset)
		l.passed(r, d.Offset)
		require.Equal(t, p.AutoAck, d.Lease == uuid.UUID{})
		if c.standing = held; p.AutoAck {
			c.standing, r.retries = settled, 0
			continue
		}
		require.Equal(t, w.now.Add(p.Lease), d.Until)
		c.lease, c.exclusive, c.until, c.protocol, c.later = d.Lease, true, d.Until, core.ProtocolQueen, false
	}
	r.exists = true
}

func (w *world) tookExclusive(t *rapid.T, p core.ClaimParams, c core.Claimed) {
	left, had := p.Messages, map[*modelLog]bool{}
	if p.Partitions > 0 {
		require.LessOrEqual(t, len(c.Partitions), p.Partitions)
	}
	for i := range c.Partitions {
		cp := &c.Partitions[i]
		l := w.logOf(cp.Partition.ID)
		require.False(t, had[l], "a partition comes once")
		require.NotEmpty(t, cp.Messages)
		had[l] = true
		w.takeExclusive(t, l, &p, cp.Messages, left)
		left -= len(cp.Messages)
		for j := range cp.Messages {
			require.Equal(t, c.Lease, cp.Messages[j].Lease)
			w.handed = append(w.handed, delivered{cp.Messages[j], l, core.ProtocolQueen, l.row(p.Group).at(cp.Messages[j].Offset).epoch})
		}
	}
	if len(c.Partitions) > 0 && !p.AutoAck {
		w.leases = append(w.leases, c.Lease)
	}
	if left == 0 || p.Partitions > 0 && len(c.Partitions) == p.Partitions {
		return
	}
	for _, l := range w.logs {
		if !had[l] && (p.Partition == "" || p.Partition == l.Name) {
			require.Empty(t, l.candidates(l.row(p.Group), w.now), "partition %s had something", l.Name)
		}
	}
}

// takeShared checks one partition's messages of a shared claim.
func (w *world) takeShared(t *rapid.T, l *modelLog, p *core.ClaimParams, ds []core.Delivery) {
	r := l.row(core.QueueModeGroup)
	want := l.candidates(r, w.now)
	require.LessOrEqual(t, len(ds), len(want))
	got := map[int64]bool{}
	for i := range ds {
		d := &ds[i]
		w.same(t, l, d)
		require.Contains(t, want, d.Offset)
		require.False(t, got[d.Offset], "a message comes once")
		got[d.Offset] = true
		c := r.at(d.Offset)
		require.Zero(t, c.compare(r.at(want[i]).place), "offset %d is out of turn: %v", d.Offset, want)
		require.Equal(t, c.attempts+1, d.Attempt)
	}
	for i := range ds {
		d := &ds[i]
		c := r.at(d.Offset)
		l.passed(r, d.Offset)
		c.standing, c.exclusive, c.later, c.lease, c.until, c.protocol = held, false, false, d.Lease, d.Until, p.Protocol
		c.attempts++
		if p.Lease > 0 {
			require.Equal(t, w.now.Add(p.Lease), d.Until)
		}
		w.handed = append(w.handed, delivered{*d, l, p.Protocol, c.epoch})
		r.exists = true
	}
}

func (w *world) tookShared(t *rapid.T, p core.ClaimParams, c core.Claimed) {
	most, sum := 0, 0
	var fullest []*modelLog
	for _, l := range w.logs {
		n := len(l.candidates(l.row(core.QueueModeGroup), w.now))
		if sum += n; n > most {
			most, fullest = n, nil
		}
		if n == most && n > 0 {
			fullest = append(fullest, l)
		}
	}
	if p.Protocol == core.ProtocolQuerator {
		sum = most
		require.LessOrEqual(t, len(c.Partitions), 1)
	}
	got := 0
	for i := range c.Partitions {
		l := w.logOf(c.Partitions[i].Partition.ID)
		if p.Protocol == core.ProtocolQuerator {
			if !slices.Contains(fullest, l) {
				for _, l := range w.logs {
					w.explain(t, l, core.QueueModeGroup)
				}
				require.Fail(t, "another partition is fuller", "%d serves, most are %d", l.Ordinal, most)
			}
		}
		got += len(c.Partitions[i].Messages)
		w.takeShared(t, l, &p, c.Partitions[i].Messages)
	}
	require.Equal(t, min(p.Messages, sum), got)
}
