package storetest

import (
	"flag"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/memory"
)

// matchesTheModel runs random operations against the store and the memory model and compares all that can be seen.
func matchesTheModel(b *bundle) {
	require.NoError(b, b.s.Close())
	if f := flag.Lookup("rapid.checks"); b.h.Checks > 0 && f.Value.String() == f.DefValue {
		require.NoError(b, f.Value.Set(strconv.Itoa(b.h.Checks)))
	}
	rapid.Check(b.T, func(t *rapid.T) {
		m := newMachine(b, t)
		defer func() { _ = m.store.Close() }()
		actions := map[string]func(*rapid.T){
			"append": m.append, "update": m.update, "delete segments": m.deleteSegments, "remove idle": m.removeIdle, "queue": m.queue, "records": m.records,
			"partitions": m.partitions, "": m.compare,
		}
		if _, except := b.h.Exceptions["Reopen"]; !except {
			actions["reopen"] = m.reopen
		}
		t.Repeat(actions)
	})
}

// machine holds a store and its model, and what random operations choose from.
type machine struct {
	b       *bundle
	place   string
	store   core.Store
	model   *memory.Store
	now     core.Time
	queues  []uuid.UUID
	keys    []core.PartitionKey
	count   int
	heads   map[core.PartitionKey]int64
	changed bool
	seen    []*core.Row
	testing.TB
}

func newMachine(b *bundle, t *rapid.T) *machine {
	m := &machine{b: b, place: b.TempDir(), model: memory.New(), now: core.TimeOf(coretest.Start), TB: b.T, heads: map[core.PartitionKey]int64{}, changed: true}
	m.store = b.h.Open(b.T, m.place)
	for i := range 2 {
		m.putQueue(t, coretest.Queue(i+1, fmt.Sprint("q", i), m.now), 2)
	}
	return m
}

// both runs an operation on store and model, which must answer alike.
func both[T any](t *rapid.T, m *machine, op func(core.Store) (T, error)) (T, error) {
	got, gotErr := op(m.store)
	want, wantErr := op(m.model)
	require.Equal(t, core.CodeOf(wantErr), core.CodeOf(gotErr), "model: %v, store: %v", wantErr, gotErr)
	require.Equal(t, wantErr == nil, gotErr == nil, "model: %v, store: %v", wantErr, gotErr)
	if wantErr == nil {
		require.Equal(t, want, got)
	}
	m.changed = true
	return got, gotErr
}

func (m *machine) putQueue(t *rapid.T, q core.Queue, partitions int) {
	p := core.PutQueueParams{Queue: q, Now: m.now}
	for i := range partitions {
		m.count++
		p.Partitions = append(p.Partitions, coretest.Partition(1000+m.count, uuid.Nil, strconv.Itoa(i), 0))
	}
	made, err := both(t, m, func(s core.Store) (core.Queue, error) { return s.PutQueue(m.b.ctx, p) })
	if err != nil {
		return
	}
	m.queues = append(m.queues, made.ID)
	list, err := m.model.Partitions(m.b.ctx, made.ID)
	require.NoError(t, err)
	for i := range list {
		m.keys = append(m.keys, list[i].Key)
	}
}

func (m *machine) queue(t *rapid.T) {
	id := rapid.SampledFrom(m.queues).Draw(t, "queue")
	switch rapid.IntRange(0, 5).Draw(t, "what") {
	case 0:
		_, _ = both(t, m, func(s core.Store) (struct{}, error) { return struct{}{}, s.DeleteQueue(m.b.ctx, id) })
	case 1, 2:
		m.count++
		m.putQueue(t, coretest.Queue(m.count+10, fmt.Sprint("q", rapid.IntRange(0, 4).Draw(t, "name")), m.now), rapid.IntRange(0, 2).Draw(t, "partitions"))
	default:
		q := core.Queue{ID: id, Name: fmt.Sprint("q", rapid.IntRange(0, 4).Draw(t, "name")), Version: int64(rapid.IntRange(1, 3).Draw(t, "version"))}
		q.Options.MaxDeliveries = 3
		m.putQueue(t, q, 0)
	}
}

func (m *machine) partitions(t *rapid.T) {
	ps := make([]core.Partition, 0, 3)
	for range rapid.IntRange(1, 3).Draw(t, "partitions") {
		m.count++
		ps = append(ps, coretest.Partition(1000+m.count, rapid.SampledFrom(m.queues).Draw(t, "queue"), strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "name")), 0))
	}
	made, err := both(t, m, func(s core.Store) ([]core.PartitionLog, error) { return s.CreatePartitions(m.b.ctx, m.now, ps) })
	require.NoError(t, err)
	for i := range made {
		if made[i].Key != 0 {
			m.keys = append(m.keys, made[i].Key)
		}
	}
}

func (m *machine) records(t *rapid.T) {
	value := rapid.SampledFrom([][]byte{nil, {}, []byte("a")})
	name, old, next := rapid.SampledFrom([]string{"", "a\x00"}).Draw(t, "name"), value.Draw(t, "old"), value.Draw(t, "new")
	_, _ = both(t, m, func(s core.Store) (struct{}, error) { return struct{}{}, s.PutRecord(m.b.ctx, "k", name, old, next) })
	_, _ = both(t, m, func(s core.Store) ([]byte, error) { return s.Record(m.b.ctx, "k", name) })
}

// segments draws segments, at most one per partition: a store may join those of one commit.
func (m *machine) segments(t *rapid.T, most int) []core.NewSegment {
	var out []core.NewSegment
	used := map[core.PartitionKey]bool{}
	for range rapid.IntRange(0, most).Draw(t, "segments") {
		p := rapid.SampledFrom(m.keys).Draw(t, "partition")
		if used[p] {
			continue
		}
		used[p] = true
		n := core.NewSegment{Partition: p, Know: -1, Group: rapid.IntRange(0, 2).Draw(t, "group")}
		for range rapid.IntRange(1, 4).Draw(t, "messages") {
			m.count++
			msg := coretest.Message(m.count, m.now)
			if rapid.IntRange(0, 3).Draw(t, "expires") == 0 {
				msg.ExpiresAt = m.now + core.Time(rapid.IntRange(1, 50).Draw(t, "expiry"))
			}
			if rapid.IntRange(0, 9).Draw(t, "source") == 0 {
				msg.SourceID = "source"
			}
			n.Add(&msg)
		}
		if rapid.IntRange(0, 4).Draw(t, "knows") == 0 {
			n.Know = rapid.Int64Range(0, m.heads[p]).Draw(t, "know")
		}
		out = append(out, n)
	}
	return out
}

func (m *machine) placed(list []core.NewSegment, placed []core.Placed) {
	for i := range placed {
		m.heads[list[i].Partition] = placed[i].Log.Head
	}
}

func (m *machine) append(t *rapid.T) {
	m.now += core.Time(rapid.IntRange(-5, 20).Draw(t, "time"))
	p := core.AppendParams{Commit: uuid.New(), Now: m.now, Segments: m.segments(t, 3)}
	placed, err := both(t, m, func(s core.Store) ([]core.Placed, error) { return s.Append(m.b.ctx, p) })
	require.NoError(t, err)
	m.placed(p.Segments, placed)
}

func (m *machine) deleteSegments(t *rapid.T) {
	p := rapid.SampledFrom(m.keys).Draw(t, "partition")
	refs, err := m.model.Segments(m.b.ctx, p, rapid.Int64Range(0, m.heads[p]).Draw(t, "from"), 4)
	require.NoError(t, err)
	var remove, expiries []core.SegmentRef
	for _, r := range refs {
		switch rapid.IntRange(0, 2).Draw(t, "fate") {
		case 0:
			remove = append(remove, r)
		case 1:
			r.Expires = rapid.SampledFrom([]core.Time{0, m.now + 7}).Draw(t, "expires")
			expiries = append(expiries, r)
		}
	}
	_, _ = both(t, m, func(s core.Store) (struct{}, error) {
		return struct{}{}, s.DeleteSegments(m.b.ctx, m.now, remove, expiries)
	})
}

func (m *machine) reopen(t *rapid.T) {
	require.NoError(t, m.store.Close())
	m.store = m.b.h.Open(m.b.T, m.place)
	m.changed = true
}

func (m *machine) compare(t *rapid.T) {
	if m.changed {
		at := m.now + core.Time(rapid.IntRange(-3, 60).Draw(t, "look at"))
		require.Equal(t, Observe(m.TB, m.model, at), Observe(m.TB, m.store, at))
		m.changed = false
	}
}
