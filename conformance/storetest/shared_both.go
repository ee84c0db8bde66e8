package storetest

import (
	"sync"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// catalogIsCounted changes queues and registrations, and appends with what is known of them.
func catalogIsCounted(b *bundle) {
	s := b.other()
	f := b.follow(s)
	known := f.next().Catalog
	inside := func() (n int64) {
		_, err := s.Update(b.ctx, core.UpdateParams{Commit: uuid.New(), Now: b.now}, func(tx core.Tx) (*core.ChangeSet, error) {
			n = tx.Catalog()
			return nil, nil //nolint:nilnil // an empty change set
		})
		require.NoError(b, err)
		return n
	}
	assert.Equal(b, known, inside())
	b.append(b.messages(b.p[0], 1))
	b.put(core.RowChange{Key: core.RowKey{Partition: b.p[0]}, Move: true})
	assert.Equal(b, known, f.next().Catalog, "only queues and registrations count")
	register := core.ChangeSet{Register: []core.Registration{{Queue: b.queue.ID, Group: "g"}}}
	for name, change := range map[string]func(){
		"a new queue": func() { b.makeQueue("more", "0") },
		"a change": func() {
			var err error
			b.queue, err = b.s.PutQueue(b.ctx, core.PutQueueParams{Queue: b.queue, Now: b.now})
			require.NoError(b, err)
		},
		"a registration": func() { b.update(nil, register) },
		"its end": func() {
			b.update(nil, core.ChangeSet{Unregister: []core.RegistrationKey{{Queue: b.queue.ID, Group: "g"}}})
		},
		"a deletion": func() {
			q, _ := b.makeQueue("less", "0")
			require.NoError(b, b.s.DeleteQueue(b.ctx, q.ID))
		},
	} {
		change()
		now := f.next().Catalog
		assert.NotEqual(b, known, now, name)
		assert.Equal(b, now, inside(), name)
		p := core.AppendParams{Commit: uuid.New(), Now: b.now, Segments: []core.NewSegment{b.messages(b.p[1], 1)}, CheckCatalog: true, Catalog: known}
		head := b.log(b.p[1]).Head
		_, err := s.Append(b.ctx, p)
		requireCode(b, core.CodeConflict, err)
		assert.Equal(b, head, b.log(b.p[1]).Head, "nothing is stored")
		p.Commit, p.Catalog = uuid.New(), now
		_, err = s.Append(b.ctx, p)
		require.NoError(b, err)
		known = now
	}
}

// deletedByAnother reads what this gateway wrote and read before another one deleted it.
func deletedByAnother(b *bundle) {
	b.append(b.messages(b.p[0], 3))
	b.append(b.messages(b.p[0], 3))
	assert.Len(b, b.read(b.p[0], 1, 6), 6)
	s := b.other()
	require.NoError(b, s.DeleteSegments(b.ctx, b.now, []core.SegmentRef{{Partition: b.p[0], First: 1, Last: 3}}, nil))
	ms := b.read(b.p[0], 1, 6)
	require.Len(b, ms, 3)
	assert.Equal(b, int64(4), ms[0].Offset)
	list, err := b.s.(core.Shared).ReadAll(b.ctx, []core.ReadParams{ //nolint:forcetypeassert // what the suite is about
		{Partition: b.p[0], Offsets: core.Runs{{First: 2, Last: 2}, {First: 5, Last: 6}}}, {Partition: b.p[1], Offsets: run(1, 9)}, {Partition: b.p[0], Offsets: run(4, 4)},
	})
	require.NoError(b, err)
	require.Len(b, list, 3)
	assert.Equal(b, []int{2, 0, 1}, []int{len(list[0]), len(list[1]), len(list[2])})
	assert.Equal(b, ms[1].Payload, list[0][0].Payload)
	_, err = b.s.Update(b.ctx, core.UpdateParams{Commit: uuid.New(), Now: b.now}, func(tx core.Tx) (*core.ChangeSet, error) {
		got, err := tx.Prefetch([]core.HeadersParams{{Partition: b.p[0], From: 1, To: 3}, {Partition: b.p[0], From: 5, To: 5}, {Partition: b.p[0], From: 1, To: 9, Limit: 1}})
		require.Len(b, got, 3)
		assert.Empty(b, got[0])
		require.Len(b, got[1], 1)
		assert.Equal(b, int64(4), got[1][0].First)
		assert.Equal(b, got[1], got[2])
		return nil, err
	})
	require.NoError(b, err)
}

// schedulesAreTakenOnce lets two gateways take the same due entries at the same time.
func schedulesAreTakenOnce(b *bundle) {
	stores := []core.Store{b.s, b.other()}
	for round := range 10 {
		var c core.ChangeSet
		for range 3 {
			c.Schedule = append(c.Schedule, core.ScheduledSegment{Due: b.now + 10, Segment: b.messages(b.p[0], 1)})
		}
		b.update(nil, c)
		var wg sync.WaitGroup
		for _, s := range stores {
			due, err := s.Due(b.ctx, b.now+10, 10)
			require.NoError(b, err)
			seqs, segments := make([]int64, len(due)), map[int64]core.NewSegment{}
			for i := range due {
				seqs[i], segments[due[i].Seq] = due[i].Seq, due[i].Segment
			}
			wg.Go(func() {
				_, err := s.Update(b.ctx, core.UpdateParams{Commit: uuid.New(), Now: b.now}, func(tx core.Tx) (*core.ChangeSet, error) {
					there, err := tx.Scheduled(seqs)
					c := core.ChangeSet{Unschedule: there}
					for _, seq := range there {
						c.Segments = append(c.Segments, segments[seq])
					}
					return &c, err
				})
				assert.NoError(b, err)
			})
		}
		wg.Wait()
		assert.Equal(b, int64(3*(round+1)), b.log(b.p[0]).Head)
	}
}

// appendsOfBothAsk lets two gateways append the same messages to the same partitions, each only what it does not find there.
func appendsOfBothAsk(b *bundle) {
	const rounds = 30
	stores := []core.Store{b.s, b.other()}
	segments := [3][rounds]core.NewSegment{}
	for p := range segments {
		for i := range segments[p] {
			segments[p][i] = b.messages(b.p[p], 1)
		}
	}
	var wg sync.WaitGroup
	for _, s := range stores {
		wg.Go(func() {
			var known [3]int64
			seen := map[uuid.UUID]bool{}
			first := func(n *core.NewSegment) uuid.UUID {
				hs, err := core.DecodeHeaders(n.Header, n.Count)
				assert.NoError(b, err)
				return hs[0].ID
			}
			for i := range rounds {
				var list []core.NewSegment
				var at []int
				for p := range segments {
					if n := segments[p][i]; !seen[first(&n)] {
						n.Know = known[p]
						list, at = append(list, n), append(at, p)
					}
				}
				placed, err := s.Append(b.ctx, core.AppendParams{
					Commit: uuid.New(), Now: b.now, Segments: list,
					Moved: func(key core.PartitionKey, _ core.LogState, newer []core.SegmentHeader, mine []int) ([]core.NewSegment, error) {
						for n := range newer {
							seen[newer[n].Messages[0].ID] = true
						}
						if n := list[mine[0]]; !seen[first(&n)] {
							return []core.NewSegment{n}, nil
						}
						return []core.NewSegment{{Partition: key}}, nil
					},
				})
				if !assert.NoError(b, err) {
					return
				}
				for k := range placed {
					known[at[k]] = placed[k].Log.Head
				}
			}
		})
	}
	wg.Wait()
	for at := range b.p {
		seen := map[uuid.UUID]bool{}
		for _, m := range b.read(b.p[at], 1, 1<<30) {
			assert.False(b, seen[m.ID], "it is there twice")
			seen[m.ID] = true
		}
		assert.Len(b, seen, len(segments[at]))
	}
}
