package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// sharedTests are the obligations of core.Shared.
var sharedTests = []contractTest{
	{"FollowTellsWhatChanged", followTellsWhatChanged},
	{"FollowTellsOfPurgesAndDeletions", followTellsOfPurgesAndDeletions},
	{"FollowLeavesNothingOut", followLeavesNothingOut},
	{"FollowUnderLoad", followUnderLoad},
	{"CatalogIsCounted", catalogIsCounted},
	{"NotifyOfOthers", notifyOfOthers},
	{"LeasedRows", leasedRows},
	{"OneClock", oneClock},
	{"SchedulesAreTakenOnce", schedulesAreTakenOnce},
	{"AppendsOfBothAsk", appendsOfBothAsk},
	{"DeletedByAnother", deletedByAnother},
	{"FollowTellsOfIdle", followTellsOfIdle},
	{"IdleOfBoth", idleOfBoth},
}

// RunShared runs what stores owe that several gateways use at once.
func RunShared(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range sharedTests {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(newBundle(t, h))
		})
	}
}

// other returns the store as a second gateway sees it: opened in the same place, or what Another of a store in memory says.
func (b *bundle) other() core.Store {
	if sharing, ok := b.s.(interface{ Another() core.Store }); ok {
		return sharing.Another()
	}
	s := b.h.Open(b.T, b.place)
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// follower follows at a store.
type follower struct {
	*bundle
	s      core.Shared
	cursor string
}

func (b *bundle) follow(s core.Store) *follower {
	f := &follower{bundle: b, s: s.(core.Shared)} //nolint:forcetypeassert // what the suite is about
	got := f.next()
	assert.Empty(b, got.Logs, "it begins now")
	assert.Empty(b, got.Rows)
	assert.Empty(b, got.Queues)
	return f
}

func (f *follower) next() core.Followed {
	f.Helper()
	got, err := f.s.Follow(f.ctx, f.cursor)
	require.NoError(f, err)
	require.False(f, got.Lost)
	require.NotEmpty(f, got.Next)
	f.cursor = got.Next
	return got
}

// heads returns the heads of the logs in an answer.
func heads(got core.Followed) map[core.PartitionKey]int64 {
	out := map[core.PartitionKey]int64{}
	for i := range got.Logs {
		out[got.Logs[i].Key] = got.Logs[i].Log.Head
	}
	return out
}

func followTellsWhatChanged(b *bundle) {
	f := b.follow(b.other())
	own := b.follow(b.s)
	queue, keys := b.makeQueue("other", "0", "1")
	got := f.next()
	assert.Equal(b, []uuid.UUID{queue.ID}, got.Queues)
	assert.Equal(b, map[core.PartitionKey]int64{keys[0]: 0, keys[1]: 0}, heads(got), "partitions that are new")
	for _, p := range got.Logs {
		assert.Equal(b, queue.ID, p.Queue)
	}
	made, err := b.s.CreatePartitions(b.ctx, b.now, []core.Partition{{ID: uuid.New(), Queue: queue.ID, Name: "2"}})
	require.NoError(b, err)
	got = f.next()
	assert.Equal(b, made, got.Logs)
	assert.Empty(b, got.Queues)

	b.append(b.messages(keys[0], 3))
	b.append(b.messages(keys[0], 2), b.messages(keys[1], 1))
	got = f.next()
	assert.Equal(b, map[core.PartitionKey]int64{keys[0]: 5, keys[1]: 1}, heads(got))
	assert.Empty(b, got.Rows)

	row, more := core.RowKey{Partition: keys[0], Group: "g\x00"}, core.RowKey{Partition: keys[1], Group: ""}
	b.put(core.RowChange{Key: row, Move: true, Frontier: core.Frontier{Offset: 1}}, core.RowChange{Key: more, Move: true})
	b.put(core.RowChange{Key: row, Drop: true})
	got = f.next()
	assert.ElementsMatch(b, []core.RowKey{row, more}, got.Rows)
	assert.Empty(b, got.Logs)
	b.update(nil, core.ChangeSet{Register: []core.Registration{{Queue: queue.ID, Group: "g"}}})
	assert.Equal(b, []uuid.UUID{queue.ID}, f.next().Queues)
	b.update(nil, core.ChangeSet{Unregister: []core.RegistrationKey{{Queue: b.queue.ID, Group: "g"}}})
	assert.Equal(b, []uuid.UUID{b.queue.ID}, f.next().Queues)
	b.queue, err = b.s.PutQueue(b.ctx, core.PutQueueParams{Queue: b.queue, Now: b.now})
	require.NoError(b, err)
	assert.Equal(b, []uuid.UUID{b.queue.ID}, f.next().Queues)
	b.update(nil, core.ChangeSet{Segments: []core.NewSegment{b.messages(keys[1], 4)}})
	assert.Equal(b, map[core.PartitionKey]int64{keys[1]: 5}, heads(f.next()))

	for _, got := range []core.Followed{f.next(), own.next()} {
		assert.Empty(b, got.Logs, "each commit once, and none of its own")
		assert.Empty(b, got.Rows)
		assert.Empty(b, got.Queues)
	}
}

func followTellsOfPurgesAndDeletions(b *bundle) {
	for _, p := range b.p {
		b.append(b.messages(p, 2))
	}
	rows := []core.RowKey{{Partition: b.p[0], Group: "a"}, {Partition: b.p[0], Group: "b"}, {Partition: b.p[1], Group: "a"}}
	for _, key := range rows {
		b.put(core.RowChange{Key: key, Move: true, Frontier: core.Frontier{Offset: 1}})
	}
	f := b.follow(b.other())
	b.update(nil, core.ChangeSet{Purge: []core.PartitionKey{b.p[0]}})
	got := f.next()
	assert.ElementsMatch(b, rows[:2], got.Rows, "a purge changes the rows of all groups")
	require.Len(b, got.Logs, 1)
	assert.Equal(b, int64(3), got.Logs[0].Log.Start)
	require.NoError(b, b.s.DeleteSegments(b.ctx, b.now, []core.SegmentRef{{Partition: b.p[2], First: 1, Last: 2}}, nil))
	got = f.next()
	require.Len(b, got.Logs, 1)
	assert.Equal(b, b.p[2], got.Logs[0].Key)
	assert.Equal(b, int64(3), got.Logs[0].Log.Start)
	b.append(b.messages(b.p[1], 1))
	require.NoError(b, b.s.DeleteQueue(b.ctx, b.queue.ID))
	got = f.next()
	assert.Equal(b, []uuid.UUID{b.queue.ID}, got.Queues)
	assert.Empty(b, got.Logs, "those that are gone are missing")
}

// followLeavesNothingOut looks while a commit is under way that began before others ended.
func followLeavesNothingOut(b *bundle) {
	s := b.other()
	f := b.follow(s)
	inside, done := make(chan struct{}), make(chan error)
	go func() {
		_, err := b.s.Update(b.ctx, core.UpdateParams{Commit: uuid.New(), Now: b.now, Rows: []core.RowRequest{{Key: core.RowKey{Partition: b.p[1]}}}},
			func(core.Tx) (*core.ChangeSet, error) {
				inside <- struct{}{}
				<-inside
				return &core.ChangeSet{Rows: []core.RowChange{{Key: core.RowKey{Partition: b.p[1]}, Move: true}}}, nil
			})
		done <- err
	}()
	<-inside
	b.append(b.messages(b.p[0], 1)) // begins later, ends earlier
	got := f.next()
	assert.Equal(b, map[core.PartitionKey]int64{b.p[0]: 1}, heads(got))
	assert.Empty(b, got.Rows)
	assert.Empty(b, heads(f.next()))
	inside <- struct{}{}
	require.NoError(b, <-done)
	got = f.next()
	assert.Equal(b, []core.RowKey{{Partition: b.p[1]}}, got.Rows)
	assert.Empty(b, got.Logs, "once only")
	assert.Empty(b, f.next().Rows)
}

// followUnderLoad counts each of many concurrent commits.
func followUnderLoad(b *bundle) {
	const writers, each = 4, 25
	f := b.follow(b.other())
	names := make([]core.RowKey, 0, writers*each)
	for i := range writers * each {
		names = append(names, core.RowKey{Partition: b.p[i%3], Group: string(rune('a'+i/26)) + string(rune('a'+i%26))})
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				key := names[w*each+i]
				_, err := b.s.Update(b.ctx, core.UpdateParams{Commit: uuid.New(), Now: b.now, Rows: []core.RowRequest{{Key: key}}},
					func(core.Tx) (*core.ChangeSet, error) {
						return &core.ChangeSet{Rows: []core.RowChange{{Key: key, Move: true}}}, nil
					})
				assert.NoError(b, err)
			}
		})
	}
	finished := make(chan struct{})
	go func() { wg.Wait(); close(finished) }()
	seen := map[core.RowKey]int{}
	for last := false; ; {
		for _, key := range f.next().Rows {
			seen[key]++
		}
		if last {
			break
		}
		select {
		case <-finished:
			last = true
		default:
		}
	}
	assert.Len(b, seen, writers*each)
	for key, n := range seen {
		assert.Equal(b, 1, n, "%v", key)
	}
}

func notifyOfOthers(b *bundle) {
	s := b.other()
	ctx, cancel := context.WithCancel(b.ctx)
	called, ended := make(chan struct{}, 1000), make(chan error)
	go func() {
		ended <- s.(core.Shared).Notify(ctx, func() { called <- struct{}{} }) //nolint:forcetypeassert // what the suite is about
	}()
	heard := func(why string) {
		b.Helper()
		select {
		case <-called:
		case <-time.After(20 * time.Second):
			b.Fatal(why)
		}
	}
	heard("it has begun to listen, so something may have come before")
	drain := func() {
		for quiet := false; !quiet; {
			select {
			case <-called:
			case <-time.After(300 * time.Millisecond):
				quiet = true
			}
		}
	}
	drain()
	b.append(b.messages(b.p[0], 1))
	s.(core.Shared).Await() //nolint:forcetypeassert // what the suite is about
	heard("another gateway committed before anybody awaited it")
	drain()
	b.append(b.messages(b.p[0], 1))
	heard("another gateway committed")
	drain()
	s.(core.Shared).Await() //nolint:forcetypeassert // what the suite is about
	_, err := s.Append(b.ctx, core.AppendParams{Commit: uuid.New(), Now: b.now, Segments: []core.NewSegment{b.messages(b.p[0], 1)}})
	require.NoError(b, err)
	select {
	case <-called:
		b.Error("it heard of its own commit")
	case <-time.After(500 * time.Millisecond):
	}
	for range 200 {
		b.append(b.messages(b.p[0], 1))
	}
	heard("others committed")
	drain()
	cancel()
	requireCode(b, core.CodeCanceled, <-ended)
	require.NoError(b, s.Close())
	requireCode(b, core.CodeClosed, s.(core.Shared).Notify(b.ctx, func() {})) //nolint:forcetypeassert // what the suite is about
}

func leasedRows(b *bundle) {
	b.append(b.messages(b.p[0], 5), b.messages(b.p[1], 5))
	lease, shared := uuid.New(), uuid.New()
	batch := func(id int64, lease uuid.UUID, exclusive bool) core.Batch {
		return core.Batch{ID: id, First: id, Last: id, Pending: run(id, id), Lease: lease, Exclusive: exclusive, Until: b.now - 5}
	}
	one, two := core.RowKey{Partition: b.p[0], Group: "g"}, core.RowKey{Partition: b.p[1], Group: "h"}
	b.put(core.RowChange{Key: one, Move: true, Put: []core.Batch{batch(1, lease, true), batch(2, shared, false)}},
		core.RowChange{Key: two, Move: true, Put: []core.Batch{batch(1, lease, true)}})
	leased := func(lease uuid.UUID) []core.RowKey {
		list, err := b.other().(core.Shared).Leased(b.ctx, lease) //nolint:forcetypeassert // what the suite is about
		require.NoError(b, err)
		return list
	}
	assert.ElementsMatch(b, []core.RowKey{one, two}, leased(lease), "its deadline does not matter")
	assert.Empty(b, leased(shared), "only exclusive ones")
	assert.Empty(b, leased(uuid.New()))
	waiting := batch(1, lease, true)
	waiting.State = core.BatchWaiting
	b.put(core.RowChange{Key: one, Put: []core.Batch{waiting}}, core.RowChange{Key: two, Delete: []int64{1}})
	assert.Empty(b, leased(lease))
}

func oneClock(b *bundle) {
	one, two := b.s.(core.Shared).Clock(), b.other().(core.Shared).Clock() //nolint:forcetypeassert // what the suite is about
	before := one.Now()
	assert.Less(b, two.Now().Sub(before).Abs(), 500*time.Millisecond, "it is the database's")
	last := before
	for range 10_000 {
		now := one.Now()
		require.GreaterOrEqual(b, now, last)
		last = now
	}
	called := make(chan core.Time)
	at := one.Now().Add(30 * time.Millisecond)
	one.AfterFunc(at, func() { called <- one.Now() })
	assert.GreaterOrEqual(b, <-called, at)
	stop := one.AfterFunc(one.Now().Add(time.Hour), func() { b.Error("it was stopped") })
	assert.True(b, stop())
	assert.False(b, stop())
}
