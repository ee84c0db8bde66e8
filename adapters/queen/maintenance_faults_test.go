package queen_test

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen/spool"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/memory"
)

// faultyStore is a store that can be away, lose the answers of its commits, and refuse what is too large for it.
type faultyStore struct {
	core.Store
	away atomic.Bool
	// lose makes the answer of an Update get lost: after it took place when it is 1, before when it is 2.
	lose atomic.Int32
	// mute makes Outcome fail.
	mute atomic.Bool
	// most refuses an Update with a segment of more bytes; 0 is none.
	most atomic.Int64
}

var errAway = core.Errorf(core.CodeUnavailable, "test", "the store is away")

func (s *faultyStore) Append(ctx context.Context, p core.AppendParams) ([]core.Placed, error) {
	if s.away.Load() {
		return nil, errAway
	}
	return s.Store.Append(ctx, p)
}

func (s *faultyStore) Update(ctx context.Context, p core.UpdateParams, fn func(core.Tx) (*core.ChangeSet, error)) ([]core.Placed, error) {
	if s.away.Load() {
		return nil, errAway
	}
	lost := core.Errorf(core.CodeUnknown, "test", "the answer is lost")
	lose := s.lose.Load()
	if lose == 2 {
		_, _ = s.Store.Update(ctx, p, func(tx core.Tx) (*core.ChangeSet, error) {
			_, _ = fn(tx)
			return nil, lost
		})
		return nil, lost
	}
	out, err := s.Store.Update(ctx, p, func(tx core.Tx) (*core.ChangeSet, error) {
		cs, err := fn(tx)
		if most := s.most.Load(); err == nil && most > 0 {
			for i := range cs.Segments {
				if int64(len(cs.Segments[i].Body)) > most {
					return nil, core.Errorf(core.CodeInvalid, "test", "too large")
				}
			}
		}
		return cs, err
	})
	if lose == 1 && err == nil {
		return nil, lost
	}
	return out, err
}

func (s *faultyStore) Outcome(context.Context, uuid.UUID) (bool, error) {
	if s.mute.Load() || s.away.Load() {
		return false, errAway
	}
	return s.lose.Load() == 1, nil
}

func (s *faultyStore) Record(ctx context.Context, kind, name string) ([]byte, error) {
	if s.away.Load() {
		return nil, errAway
	}
	return s.Store.Record(ctx, kind, name)
}

func (s *faultyStore) PutQueue(ctx context.Context, p core.PutQueueParams) (core.Queue, error) {
	if s.away.Load() {
		return core.Queue{}, errAway
	}
	return s.Store.PutQueue(ctx, p)
}

func (s *faultyStore) CreatePartitions(ctx context.Context, now core.Time, ps []core.Partition) ([]core.PartitionLog, error) {
	if s.away.Load() {
		return nil, errAway
	}
	return s.Store.CreatePartitions(ctx, now, ps)
}

// newFaultyDesk returns a desk over a store that can fail, with one queue that deduplicates nothing.
func newFaultyDesk(t *testing.T) (*desk, *faultyStore) {
	t.Helper()
	store := &faultyStore{Store: memory.New()}
	d := newDeskWith(t, store, coretest.New(coretest.Start), spool.Options{Dir: t.TempDir()})
	d.do(t, http.MethodPost, "/api/v1/configure", `{"queue":"q","options":{"dedupWindowSeconds":0}}`)
	return d, store
}

func TestPushesAreBufferedWhileTheStoreIsAway(t *testing.T) {
	d, store := newFaultyDesk(t)
	assert.Equal(t, []string{"queued"}, d.statuses(t, "q", "p", "a"))
	store.away.Store(true)
	assert.Equal(t, []string{"buffered", "buffered"}, d.statuses(t, "q", "p", "b", "c"))
	assert.Equal(t, []string{"buffered"}, d.statuses(t, "unknown", "p", "x"), "a queue that nobody knows yet")
	d.clock.Advance(5 * time.Second)
	assert.Equal(t, []string{"buffered"}, d.statuses(t, "q", "p", "d"))
	buffers := d.get(t, "/api/v1/status/buffers")
	assert.InDelta(t, 4, buffers["pending"], 0)
	assert.Equal(t, false, buffers["dbHealthy"])
	assert.Equal(t, http.StatusInternalServerError, d.do(t, http.MethodPost, "/api/v1/system/maintenance", `{"enabled":true}`).status,
		"the switch cannot be stored, and does not pretend to be")
	store.away.Store(false)
	d.drained(t)
	assert.Equal(t, []string{"queued"}, d.statuses(t, "q", "p", "e"))
	assert.Equal(t, map[string][]string{"p": {"a", "b", "c", "d", "e"}}, d.takeAll(t, "q"))
	assert.Equal(t, map[string][]string{"p": {"x"}}, d.takeAll(t, "unknown"))
	assert.Equal(t, true, d.get(t, "/api/v1/status/buffers")["dbHealthy"])
	d.end(t)
}

func TestALostAnswerNeitherLosesNorDoubles(t *testing.T) {
	for name, lose := range map[string]int32{"took place": 1, "did not": 2} {
		for name2, restart := range map[string]bool{"looked up": false, "killed meanwhile": true} {
			t.Run(name+", "+name2, func(t *testing.T) {
				d, store := newFaultyDesk(t)
				d.maintain(t, true)
				want := make([]string, 0, 50)
				for i := range 50 {
					want = append(want, strconv.Itoa(i))
				}
				d.statuses(t, "q", "p", want[:25]...)
				d.statuses(t, "q", "p", want[25:]...)
				store.lose.Store(lose)
				store.mute.Store(true)
				d.maintain(t, false)
				require.Eventually(t, func() bool {
					d.local.Advance(500 * time.Millisecond)
					return d.get(t, "/api/v1/status/buffers")["dbHealthy"] == false
				}, 10*time.Second, time.Millisecond, "the commit cannot be looked up")
				if restart {
					// What the dead process knew is gone; only the store and the disk say how far it came.
					store.away.Store(true)
					d.end(t)
					store.away.Store(false)
					store.lose.Store(0)
					store.mute.Store(false)
					d.begin(t)
				} else {
					store.mute.Store(false)
					if lose == 2 {
						require.Eventually(t, func() bool {
							d.local.Advance(500 * time.Millisecond)
							return d.get(t, "/api/v1/status/buffers")["dbHealthy"] == true
						}, 10*time.Second, time.Millisecond)
						store.lose.Store(0)
					}
				}
				d.drained(t)
				store.lose.Store(0)
				assert.Equal(t, map[string][]string{"p": want}, d.takeAll(t, "q"), "in a queue without deduplication")
				d.end(t)
			})
		}
	}
}

func TestAMessageThatTheStoreRefusesStandsInNobodysWay(t *testing.T) {
	d, store := newFaultyDesk(t)
	d.maintain(t, true)
	d.statuses(t, "q", "p", "a", "b")
	d.push(t, `{"items":[{"queue":"q","partition":"p","transactionId":"bad","payload":"`+string(make15k())+`"}]}`)
	d.statuses(t, "q", "p", "c")
	d.statuses(t, "q", "r", "d")
	store.most.Store(10_000)
	d.maintain(t, false)
	d.drained(t)
	assert.Equal(t, map[string][]string{"p": {"a", "b", "c"}, "r": {"d"}}, d.takeAll(t, "q"))
	assert.InDelta(t, 1, d.get(t, "/api/v1/status/buffers")["failed"], 0)
	assert.Contains(t, d.do(t, http.MethodGet, "/metrics/prometheus", "").body, "queen_file_buffer_failed 1\n")
	d.end(t)
}

func make15k() []byte {
	b := make([]byte, 15_000)
	for i := range b {
		b[i] = 'x'
	}
	return b
}
