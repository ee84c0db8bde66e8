package queen_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
	"github.com/leasehold/leasehold/conformance/testenv"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/memory"
	"github.com/leasehold/leasehold/store/postgres"
	"github.com/leasehold/leasehold/store/sqlite"
)

// The size of the random run, and how long it takes unless LEASEHOLD_QUEEN_MODEL_TIME says otherwise.
const (
	modelWorkers    = 24
	modelPartitions = 5000
	modelRetryLimit = 2
	modelTime       = 2 * time.Second
)

var modelGroups = []string{"__QUEUE_MODE__", "billing", "audit"}

// TestModel runs workers against a broker at random and compares every answer with a model of the protocol's rules: what a pop
// delivers, which lease is live, what an acknowledgement does, and at the end what is left and what became a dead letter.
func TestModel(t *testing.T) {
	memoryStore := memory.New()
	long := os.Getenv("LEASEHOLD_QUEEN_MODEL_TIME") != ""
	dir, schema := t.TempDir(), fmt.Sprint("queen_model_", os.Getpid())
	for name, open := range map[string]func(t *testing.T) core.Store{
		"memory": func(*testing.T) core.Store { return memoryStore },
		"sqlite": func(t *testing.T) core.Store {
			t.Helper()
			s, err := sqlite.Open(context.WithoutCancel(t.Context()), dir, sqlite.Options{})
			require.NoError(t, err)
			return s
		},
		"postgres": func(t *testing.T) core.Store {
			t.Helper()
			s, err := postgres.Open(context.WithoutCancel(t.Context()), testenv.Postgres(t), postgres.Options{Schema: schema, Logger: modelLog(t)})
			require.NoError(t, err)
			return s
		},
	} {
		if name == "postgres" && !long {
			continue // it takes longer to fill and to drain than all other tests together
		}
		t.Run(name, func(t *testing.T) {
			m := newModel(t, open)
			t.Cleanup(func() {
				require.NoError(t, m.engine.Shutdown(context.WithoutCancel(t.Context())))
				require.NoError(t, m.store.Close())
			})
			m.run(t)
		})
	}
}

// model is the world as the rules say it is. Ordinary calls hold world for reading, so that the clock stands still for them and
// their outcome is certain; what changes the world for others (time, seeks, restarts) holds it alone.
type model struct {
	world  sync.RWMutex
	store  core.Store
	open   func(t *testing.T) core.Store // opens the store again; that in memory is the same one
	clock  *coretest.Clock
	engine *core.Engine
	http   http.Handler
	stop   atomic.Bool

	parts []*modelPart
	byID  sync.Map // partition id → *modelPart

	mu      sync.Mutex
	letters map[string]int // how many dead letters there are, by group, partition, transaction id, error and retry count
	counts  map[string]int
	failed  atomic.Bool
}

// modelPart is a partition: its log, and each group's standing on it.
type modelPart struct {
	name string
	id   atomic.Pointer[string]

	log    sync.RWMutex // held for writing while a push is under way
	ids    []string
	pushed []core.Time
	serial int
	byTx   map[string]int

	rows []modelRow // by group
}

// modelRow is one group on one partition.
type modelRow struct {
	mu      sync.Mutex
	exists  bool
	cursor  int // messages before it are settled
	retries int
	lease   string // "" or the last one given
	end     int    // where the leased span ends
	until   core.Time
}

func (r *modelRow) live(now core.Time) bool { return r.lease != "" && now < r.until }

func newModel(t *testing.T, open func(t *testing.T) core.Store) *model {
	t.Helper()
	m := &model{store: open(t), open: open, clock: coretest.New(coretest.Start), letters: map[string]int{}, counts: map[string]int{}}
	for i := range modelPartitions {
		m.parts = append(m.parts, &modelPart{name: fmt.Sprint("p", i), byTx: map[string]int{}, rows: make([]modelRow, len(modelGroups))})
	}
	m.restart(t)
	m.call(t, http.MethodPost, "/api/v1/configure", fmt.Sprintf(`{"queue":"q","options":{"retryLimit":%d,"leaseTime":30,"dedupWindowSeconds":1000000000}}`, modelRetryLimit), nil)
	for first := 0; first < modelPartitions; first += 1000 {
		m.push(t, m.parts[first:first+1000])
	}
	return m
}

// restart puts another engine over the store, which is closed and opened again where it lives on disk.
func (m *model) restart(t *testing.T) {
	t.Helper()
	if m.engine != nil {
		require.NoError(t, m.engine.Shutdown(context.WithoutCancel(t.Context())))
		if _, ok := m.store.(*memory.Store); !ok {
			require.NoError(t, m.store.Close())
			m.store = m.open(t)
		}
	}
	engine, err := core.New(context.WithoutCancel(t.Context()), m.store, core.Options{Clock: m.clock, Logger: modelLog(t)})
	require.NoError(t, err)
	m.engine, m.http = engine, queen.New(engine, queen.Options{})
}

// modelLog puts what the engine and the store warn of beside what the test says.
func modelLog(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// call sends a request, decodes a JSON answer into to and returns the status.
func (m *model) call(t *testing.T, method, path, body string, to any) int {
	t.Helper()
	r := httptest.NewRequestWithContext(context.WithoutCancel(t.Context()), method, path, strings.NewReader(body))
	w := httptest.NewRecorder()
	m.http.ServeHTTP(w, r)
	if w.Code >= http.StatusInternalServerError {
		m.fault(t, "%s %s: %d %s", method, path, w.Code, w.Body.String())
	}
	if to != nil && w.Code != http.StatusNoContent {
		if err := json.Unmarshal(w.Body.Bytes(), to); err != nil {
			m.fault(t, "%s %s: %d %s: %v", method, path, w.Code, w.Body.String(), err)
		}
	}
	return w.Code
}

// fault reports the first differences and ends the run.
func (m *model) fault(t *testing.T, format string, args ...any) {
	t.Helper()
	m.stop.Store(true)
	if !m.failed.Swap(true) {
		t.Errorf(format, args...)
	}
}

func (m *model) count(what string, n int) {
	m.mu.Lock()
	m.counts[what] += n
	m.mu.Unlock()
}

func (m *model) run(t *testing.T) {
	t.Helper()
	limit := modelTime
	if text := os.Getenv("LEASEHOLD_QUEEN_MODEL_TIME"); text != "" {
		var err error
		limit, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	seed := rand.Uint64() //nolint:gosec // a test's dice
	t.Logf("seed %d, %v", seed, limit)
	timer := time.AfterFunc(limit, func() { m.stop.Store(true) })
	defer timer.Stop()
	var wg sync.WaitGroup
	for i := range modelWorkers {
		w := &modelWorker{m: m, t: t, r: rand.New(rand.NewPCG(seed, uint64(i)))} //nolint:gosec // a test's dice
		wg.Go(w.run)
	}
	wg.Wait()
	if !m.failed.Load() {
		m.drain(t)
	}
	if !m.failed.Load() {
		m.checkLetters(t)
	}
	names := make([]string, 0, len(m.counts))
	for name := range m.counts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Logf("%-24s %d", name, m.counts[name])
	}
}

// push appends one message to each of some partitions. The model knows them before the broker does, so a pop that delivers
// something that the model does not know is wrong.
func (m *model) push(t *testing.T, parts []*modelPart) {
	t.Helper()
	items := make([]string, 0, len(parts))
	now := m.clock.Now()
	for _, p := range parts {
		p.log.Lock()
		p.serial++
		id := fmt.Sprintf("%s-%d", p.name, p.serial)
		p.append(id, now)
		items = append(items, `{"queue":"q","partition":"`+p.name+`","transactionId":"`+id+`","payload":{"id":"`+id+`"}}`)
	}
	var out []pushedItem
	status := m.call(t, http.MethodPost, "/api/v1/push", `{"items":[`+strings.Join(items, ",")+`]}`, &out)
	for _, p := range parts {
		p.log.Unlock()
	}
	if status != http.StatusCreated || len(out) != len(parts) {
		m.fault(t, "push: %d, %d answers", status, len(out))
		return
	}
	for i := range out {
		if out[i].Status != "queued" {
			m.fault(t, "push of %s: %s", out[i].TransactionID, out[i].Status)
		}
	}
	m.count("pushed", len(parts))
}

func (p *modelPart) append(id string, now core.Time) {
	p.byTx[id] = len(p.ids)
	p.ids, p.pushed = append(p.ids, id), append(p.pushed, now)
}

// index finds a message of the log.
func (p *modelPart) index(id string) (int, bool) {
	p.log.RLock()
	defer p.log.RUnlock()
	i, ok := p.byTx[id]
	return i, ok
}

func (p *modelPart) at(i int) string {
	p.log.RLock()
	defer p.log.RUnlock()
	if i >= len(p.ids) {
		return "nothing"
	}
	return p.ids[i]
}

// delivered checks one partition's part of a pop and takes note of the lease.
func (m *model) delivered(t *testing.T, group int, messages []message, lease string, until core.Time, autoAck bool) *modelPart {
	t.Helper()
	p := m.partOf(messages[0])
	if p == nil {
		m.fault(t, "delivery from an unknown partition %s", messages[0].Partition)
		return nil
	}
	row := &p.rows[group]
	row.mu.Lock()
	defer row.mu.Unlock()
	if row.live(m.clock.Now()) {
		m.fault(t, "%s: a second lease while %s is live", p.name, row.lease)
	}
	for i := range messages {
		if want := p.at(row.cursor + i); messages[i].TransactionID != want {
			m.fault(t, "%s of %s: delivered %s at place %d, want %s (cursor %d)", p.name, modelGroups[group], messages[i].TransactionID, i, want, row.cursor)
			return nil
		}
	}
	row.exists = true
	if autoAck {
		row.cursor, row.lease, row.retries = row.cursor+len(messages), "", 0
		return p
	}
	row.lease, row.end, row.until = lease, row.cursor+len(messages), until
	return p
}

// partOf finds the partition of a message by its name, and learns its id.
func (m *model) partOf(msg message) *modelPart {
	if p, ok := m.byID.Load(msg.PartitionID); ok {
		return p.(*modelPart) //nolint:forcetypeassert // nothing else is stored
	}
	var n int
	if _, err := fmt.Sscanf(msg.Partition, "p%d", &n); err != nil || n >= len(m.parts) {
		return nil
	}
	p := m.parts[n]
	p.id.Store(&msg.PartitionID)
	m.byID.Store(msg.PartitionID, p)
	return p
}

// drain delivers everything that is left to every group and expects nothing to be missing.
func (m *model) drain(t *testing.T) {
	t.Helper()
	m.clock.Advance(time.Hour)
	for g, group := range modelGroups {
		for {
			var p popped
			status := m.call(t, http.MethodGet, "/api/v1/pop/queue/q?batch=1000&partitions=0&autoAck=true&consumerGroup="+group, "", &p)
			if status == http.StatusNoContent {
				break
			}
			for _, messages := range byPartition(p) {
				m.delivered(t, g, messages, "", 0, true)
			}
			m.count("drained", len(p.Messages))
			if m.failed.Load() {
				return
			}
		}
		for _, p := range m.parts {
			if p.rows[g].cursor != len(p.ids) {
				m.fault(t, "%s of %s: %d of %d messages were delivered", p.name, group, p.rows[g].cursor, len(p.ids))
			}
		}
	}
}

// checkLetters compares the dead letters with the model's.
func (m *model) checkLetters(t *testing.T) {
	t.Helper()
	found := map[string]int{}
	n := 0
	for offset := 0; ; offset += 1000 {
		var list struct {
			Messages []struct {
				TransactionID, Partition, ConsumerGroup, ErrorMessage string
				RetryCount                                            int
			}
			Total int
		}
		m.call(t, http.MethodGet, fmt.Sprintf("/api/v1/dlq?queue=q&limit=1000&offset=%d", offset), "", &list)
		for _, l := range list.Messages {
			found[letterKey(l.ConsumerGroup, l.Partition, l.TransactionID, l.ErrorMessage, l.RetryCount)]++
		}
		n += len(list.Messages)
		if len(list.Messages) < 1000 {
			if list.Total != n {
				m.fault(t, "the list of dead letters counts %d and has %d", list.Total, n)
			}
			break
		}
	}
	for key, want := range m.letters {
		if found[key] != want {
			m.fault(t, "%d dead letters %s, want %d", found[key], key, want)
		}
	}
	for key := range found {
		if m.letters[key] == 0 {
			m.fault(t, "%s is a dead letter and should not be", key)
		}
	}
	m.count("dead letters left", n)
}

// letterKey names a dead letter with all that is known of it. One group may give up on a message again after a seek.
func letterKey(group, partition, id, text string, retries int) string {
	return fmt.Sprint(group, " ", partition, " ", id, " ", text, " ", retries)
}
