package sealed_test

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/enginetest"
	"github.com/leasehold/leasehold/conformance/storetest"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/memory"
	"github.com/leasehold/leasehold/store/sealed"
	"github.com/leasehold/leasehold/store/sqlite"
)

// TestStore runs the whole suite of stores over one that is wrapped: without encrypted queues nothing is different.
func TestStore(t *testing.T) {
	ring := sealed.NewRing(key(t, "1"))
	storetest.Run(t, storetest.Harness{
		Open: func(tb testing.TB, place string) core.Store {
			tb.Helper()
			s, err := sqlite.Open(context.WithoutCancel(tb.Context()), place, sqlite.Options{})
			require.NoError(tb, err)
			return sealed.Wrap(s, sealed.Options{Keys: ring})
		},
		Exceptions: map[string]string{
			"FailingCommit":   "the fault is injected into the store below, by its own suite",
			"MatchesTheModel": "the store below is compared with the model by its own suite",
		},
	})
}

// TestEngine runs suites of the engine over stores in which every payload is sealed.
func TestEngine(t *testing.T) {
	ring := sealed.NewRing(key(t, "1"))
	stores := map[string]enginetest.Open{
		"memory": func(*testing.T) core.Store { return sealed.WrapAll(memory.New(), sealed.Options{Keys: ring}) },
		"shared": func(*testing.T) core.Store {
			return sealed.WrapAll(memory.NewShared(core.NewSystemClock()), sealed.Options{Keys: ring})
		},
		"sqlite": func(t *testing.T) core.Store {
			t.Helper()
			s, err := sqlite.Open(context.Background(), t.TempDir(), sqlite.Options{})
			require.NoError(t, err)
			return sealed.WrapAll(s, sealed.Options{Keys: ring})
		},
	}
	suites := map[string]func(*testing.T, enginetest.Open){
		"Walks": enginetest.Walks, "Transactions": enginetest.Transactions, "Waking": enginetest.Waking, "Large": enginetest.Large,
		"Deduplication": enginetest.Deduplication, "Deleting": enginetest.Deleting, "Linearizable": enginetest.Linearizable,
	}
	for store, open := range stores {
		for name, suite := range suites {
			t.Run(store+"/"+name, func(t *testing.T) { suite(t, open) })
		}
	}
}

// rig is a store with one encrypted and one plain queue of one partition each, and the store below.
type rig struct {
	*testing.T
	below, over  core.Store
	secret, open core.PartitionKey
	queue        core.Queue
	now          core.Time
}

func newRig(t *testing.T, o sealed.Options) *rig {
	t.Helper()
	r := &rig{T: t, below: memory.New(), now: core.TimeOf(coretest.Start)}
	r.over = sealed.Wrap(r.below, o)
	t.Cleanup(func() { require.NoError(t, r.over.Close()) })
	r.queue, r.secret = r.make(1, true)
	_, r.open = r.make(2, false)
	return r
}

// make makes a queue with a partition.
func (r *rig) make(n int, encrypted bool) (core.Queue, core.PartitionKey) {
	r.Helper()
	q := coretest.Queue(n, "q"+strconv.Itoa(n), r.now)
	q.Options.Queen.EncryptionEnabled = encrypted
	q, err := r.over.PutQueue(r.Context(), core.PutQueueParams{Queue: q, Now: r.now})
	require.NoError(r, err)
	made, err := r.over.CreatePartitions(r.Context(), r.now, []core.Partition{coretest.Partition(10+n, q.ID, "p", r.now)})
	require.NoError(r, err)
	return q, made[0].Key
}

func (r *rig) append(over core.Store, segments ...core.NewSegment) error {
	_, err := over.Append(r.Context(), core.AppendParams{Commit: coretest.ID(len(segments)), Now: r.now, Segments: segments})
	return err
}

// read returns the payloads of a partition.
func (r *rig) read(s core.Store, p core.PartitionKey) []string {
	r.Helper()
	list, err := s.Read(r.Context(), core.ReadParams{Partition: p, Offsets: core.Runs{{First: 1, Last: 100}}})
	require.NoError(r, err)
	out := make([]string, 0, len(list))
	for i := range list {
		require.Len(r, list[i].Payload, int(list[i].Size))
		out = append(out, string(list[i].Payload))
	}
	return out
}

// switchTo changes the option of the encrypted queue.
func (r *rig) switchTo(on bool) {
	r.Helper()
	r.queue.Options.Queen.EncryptionEnabled = on
	q, err := r.over.PutQueue(r.Context(), core.PutQueueParams{Queue: r.queue, Now: r.now})
	require.NoError(r, err)
	r.queue = q
}

func TestOnlyEncryptedQueuesAreSealed(t *testing.T) {
	r := newRig(t, sealed.Options{Keys: sealed.NewRing(key(t, "1"))})
	require.NoError(t, r.append(r.over, coretest.Segments(r.secret, 1, 2, r.now), coretest.Segments(r.open, 3, 2, r.now)))
	assert.Equal(t, []string{`{"n":1}`, `{"n":2}`}, r.read(r.over, r.secret))
	assert.Equal(t, []string{`{"n":3}`, `{"n":4}`}, r.read(r.over, r.open))
	assert.Equal(t, []string{`{"n":3}`, `{"n":4}`}, r.read(r.below, r.open))
	for _, stored := range r.read(r.below, r.secret) {
		assert.NotContains(t, stored, `"n"`)
		assert.Len(t, stored, len(`{"n":1}`)+sealed.Overhead)
	}
	// Switched off and on again, everything stays readable.
	r.switchTo(false)
	require.NoError(t, r.append(r.over, coretest.Segments(r.secret, 5, 1, r.now)))
	r.switchTo(true)
	require.NoError(t, r.append(r.over, coretest.Segments(r.secret, 6, 1, r.now)))
	assert.Equal(t, []string{`{"n":1}`, `{"n":2}`, `{"n":5}`, `{"n":6}`}, r.read(r.over, r.secret))
	below := r.read(r.below, r.secret)
	assert.Equal(t, `{"n":5}`, below[2])
	assert.NotContains(t, below[3], `"n"`)
	// What went in is not changed under the caller's hands.
	again := coretest.Segments(r.secret, 7, 1, r.now)
	body := bytes.Clone(again.Body)
	list := []core.NewSegment{again}
	require.NoError(t, r.append(r.over, list...))
	assert.Equal(t, body, list[0].Body)
}

func TestEverythingThatHoldsAPayload(t *testing.T) {
	r := newRig(t, sealed.Options{Keys: sealed.NewRing(key(t, "1"))})
	letter := core.DeadLetter{ID: coretest.ID(50), Queue: r.queue.ID, Partition: r.secret, Group: "g", FailedAt: r.now, Message: coretest.Message(9, r.now)}
	letter.Message.Offset = 1
	later := r.now.Add(time.Hour)
	_, err := r.over.Update(r.Context(), core.UpdateParams{Commit: coretest.ID(60), Now: r.now}, func(core.Tx) (*core.ChangeSet, error) {
		return &core.ChangeSet{
			Segments: []core.NewSegment{coretest.Segments(r.secret, 1, 1, r.now)}, DeadLetters: []core.DeadLetter{letter},
			Schedule: []core.ScheduledSegment{{Due: later, Segment: coretest.Segments(r.secret, 2, 1, r.now)}},
		}, nil
	})
	require.NoError(t, err)
	payloads := func(s core.Store) []string {
		out := r.read(s, r.secret)
		letters, n, err := s.DeadLetters(r.Context(), core.DeadLetterFilter{Limit: 9})
		require.NoError(t, err)
		require.Equal(t, int64(1), n)
		scheduled, err := s.Scheduled(r.Context(), core.ScheduledParams{Partition: r.secret, Limit: 9})
		require.NoError(t, err)
		return append(out, string(letters[0].Message.Payload), string(scheduled[0].Segment.Body))
	}
	for _, p := range payloads(r.below) {
		assert.NotContains(t, p, `"n"`)
	}
	plain := payloads(r.over)
	assert.Equal(t, []string{`{"n":1}`, `{"n":9}`}, plain[:2])
	assert.Contains(t, plain[2], `{"n":2}`)

	// What is due moves to the log as it is, and is read there; so is what an update reads inside.
	due, err := r.over.Due(r.Context(), later, 9)
	require.NoError(t, err)
	require.Len(t, due, 1)
	_, err = r.over.Update(r.Context(), core.UpdateParams{Commit: coretest.ID(61), Now: later}, func(tx core.Tx) (*core.ChangeSet, error) {
		inside, err := tx.Read(r.secret, core.Runs{{First: 1, Last: 1}})
		require.NoError(t, err)
		assert.Equal(t, `{"n":1}`, string(inside[0].Payload))
		d, ok, err := tx.DeadLetter(letter.ID)
		require.NoError(t, err)
		require.True(t, ok)
		assert.Equal(t, `{"n":9}`, string(d.Message.Payload))
		seg := due[0].Segment
		seg.Know = -1
		return &core.ChangeSet{Segments: []core.NewSegment{seg}, Unschedule: []int64{due[0].Seq}}, nil
	})
	require.NoError(t, err)
	assert.Equal(t, []string{`{"n":1}`, `{"n":2}`}, r.read(r.over, r.secret))
}

func TestWithoutTheKey(t *testing.T) {
	good := sealed.NewRing(key(t, "1"))
	r := newRig(t, sealed.Options{Keys: good})
	require.NoError(t, r.append(r.over, coretest.Segments(r.secret, 1, 1, r.now), coretest.Segments(r.open, 2, 1, r.now)))
	for name, ring := range map[string]*sealed.Ring{"none": nil, "another": sealed.NewRing(key(t, "2"))} {
		without := sealed.Wrap(r.below, sealed.Options{Keys: ring})
		queues, err := without.Queues(t.Context())
		require.NoError(t, err)
		for i := range queues {
			_, err = without.Partitions(t.Context(), queues[i].ID)
			require.NoError(t, err)
		}
		_, err = without.Read(t.Context(), core.ReadParams{Partition: r.secret, Offsets: core.Runs{{First: 1, Last: 9}}})
		require.Equal(t, core.CodeInternal, core.CodeOf(err), name)
		require.ErrorIs(t, err, sealed.ErrNoKey)
		assert.Equal(t, `{"n":2}`, r.read(without, r.open)[0], "other queues are as ever")
		require.NoError(t, r.append(without, coretest.Segments(r.open, 3, 1, r.now)))
		stored := r.read(r.below, r.secret)
		err = r.append(without, coretest.Segments(r.open, 4, 1, r.now), coretest.Segments(r.secret, 4, 1, r.now))
		if ring != nil {
			require.NoError(t, err)
			continue
		}
		require.Equal(t, core.CodeInvalid, core.CodeOf(err))
		assert.Equal(t, stored, r.read(r.below, r.secret), "nothing is stored in the clear")
	}
}

func TestPlaintextWhereItIsAllowed(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t, sealed.Options{AllowPlaintext: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for n := range 3 {
		require.NoError(t, r.append(r.over, coretest.Segments(r.secret, n, 1, r.now)))
	}
	assert.Equal(t, []string{`{"n":0}`, `{"n":1}`, `{"n":2}`}, r.read(r.below, r.secret))
	assert.Equal(t, 1, strings.Count(log.String(), "plaintext"), "said once for each queue")
}

func TestDeletedQueuesAreForgotten(t *testing.T) {
	r := newRig(t, sealed.Options{Keys: sealed.NewRing(key(t, "1"))})
	require.NoError(t, r.over.DeleteQueue(t.Context(), r.queue.ID))
	placed, err := r.over.Append(t.Context(), core.AppendParams{Commit: coretest.ID(70), Now: r.now, Segments: []core.NewSegment{coretest.Segments(r.secret, 1, 1, r.now)}})
	require.NoError(t, err)
	assert.True(t, placed[0].Gone, "a commit on its way hears what the store says")
	q, p := r.make(3, true)
	require.NoError(t, r.append(r.over, coretest.Segments(p, 1, 1, r.now)))
	assert.NotContains(t, r.read(r.below, p)[0], `"n"`, q.Name)
}

func TestPartitionsAreReadTogether(t *testing.T) {
	below := memory.NewShared(core.NewSystemClock())
	r := &rig{T: t, below: below, now: core.TimeOf(coretest.Start), over: sealed.Wrap(below, sealed.Options{Keys: sealed.NewRing(key(t, "1"))})}
	t.Cleanup(func() { require.NoError(t, r.over.Close()) })
	r.queue, r.secret = r.make(1, true)
	_, r.open = r.make(2, false)
	require.NoError(t, r.append(r.over, coretest.Segments(r.secret, 1, 1, r.now), coretest.Segments(r.open, 2, 1, r.now)))
	shared, ok := r.over.(core.Shared)
	require.True(t, ok)
	got, err := shared.ReadAll(t.Context(), []core.ReadParams{
		{Partition: r.open, Offsets: core.Runs{{First: 1, Last: 1}}}, {Partition: r.secret, Offsets: core.Runs{{First: 1, Last: 1}}},
	})
	require.NoError(t, err)
	assert.Equal(t, []string{`{"n":2}`, `{"n":1}`}, []string{string(got[0][0].Payload), string(got[1][0].Payload)})
}

// TestGatewaysAgreeOnWhatIsEncrypted switches a queue's encryption at one gateway and pushes at another one, at once.
func TestGatewaysAgreeOnWhatIsEncrypted(t *testing.T) {
	ring := sealed.NewRing(key(t, "1"))
	below := memory.NewShared(core.NewSystemClock())
	engine := func(s core.Store) *core.Engine {
		e, err := core.New(t.Context(), sealed.Wrap(s, sealed.Options{Keys: ring}), core.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Shutdown(context.WithoutCancel(t.Context()))) })
		return e
	}
	a, b := engine(below), engine(below.Another())
	push := func(e *core.Engine, payload string) {
		t.Helper()
		_, err := e.Push(t.Context(), core.PushParams{Protocol: core.ProtocolQueen, Create: true, Items: []core.PushItem{
			{Queue: "q", NewMessage: core.NewMessage{Payload: []byte(payload)}},
		}})
		require.NoError(t, err)
	}
	push(a, `"clear"`)
	push(b, `"clear"`) // and so both know the queue
	for round := range 5 {
		on := round%2 == 0
		_, err := a.ConfigureQueue(t.Context(), "q", func(q *core.Queue) error {
			q.Options.Queen.EncryptionEnabled = on
			return nil
		})
		require.NoError(t, err)
		push(b, map[bool]string{true: `"secret"`, false: `"clear"`}[on])
	}
	queues, err := below.Queues(t.Context())
	require.NoError(t, err)
	parts, err := below.Partitions(t.Context(), queues[0].ID)
	require.NoError(t, err)
	list, err := below.Read(t.Context(), core.ReadParams{Partition: parts[0].Key, Offsets: core.Runs{{First: 1, Last: 99}}})
	require.NoError(t, err)
	plain := 0
	for i := range list {
		assert.NotContains(t, string(list[i].Payload), "secret")
		if string(list[i].Payload) == `"clear"` {
			plain++
		}
	}
	assert.Equal(t, []int{7, 4}, []int{len(list), plain})
	got, err := b.Claim(t.Context(), core.ClaimParams{Protocol: core.ProtocolQueen, Exclusive: true, Queue: "q", Messages: 9, Partitions: 1})
	require.NoError(t, err)
	assert.Len(t, got.Partitions[0].Messages, 7)
}
