package queen

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// The figures that are counted of a queue. Their order is that of the stored history, so new ones go to the end.
const (
	figurePushed     = iota // messages stored
	figureDuplicates        // messages dropped since their transaction id was known
	figurePushCalls         // pushes
	figurePopped            // messages handed out, redeliveries included
	figurePops              // pops that got something, per partition
	figureEmpty             // pops that ended with nothing
	figureDone              // messages completed
	figureRetried           // messages given back by "retry"
	figureFailed            // messages that failed
	figureDead              // messages that became dead letters
	figureExpired           // messages whose lease ran out
	figureLag               // sum of the messages' ages at delivery, in milliseconds
	figureLagged            // messages in that sum
	figureLagMax            // the highest of those ages
	figureCount
)

// figures are counts of one queue over some time.
type figures [figureCount]int64

func (f *figures) add(g *figures) {
	high := max(f[figureLagMax], g[figureLagMax])
	for i := range f {
		f[i] += g[i]
	}
	f[figureLagMax] = high
}

func (f *figures) zero() bool { return *f == figures{} }

// otherQueues sums the queues that a stored minute has no room for.
const otherQueues = "_other"

// MeterOptions are the settings of a Meter; a zero field is its default.
type MeterOptions struct {
	// Clock is the engine's clock. Required.
	Clock core.Clock
	// Gateway names this server among those that share a store, and stays the same when it restarts. Default: a new id, with which the totals
	// of this process begin anew.
	Gateway string
	// Logger receives what goes wrong with the history. Default: discarded.
	Logger *slog.Logger
	// Queues bounds how many queues get figures of their own in a stored minute or hour; the others are summed. Default: 100.
	Queues int
	// Minutes and Hours are how long the history is kept by the minute and by the hour. Defaults: a day, and 90 days.
	Minutes, Hours time.Duration
	// FlushEvery is how often the history is written, and so how far behind another server's figures may be. Default: 10 s.
	FlushEvery time.Duration
}

func (o *MeterOptions) fill() {
	if o.Gateway == "" {
		o.Gateway = uuid.NewString()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Queues <= 0 {
		o.Queues = 100
	}
	setDefault(&o.Minutes, 24*time.Hour)
	setDefault(&o.Hours, 90*24*time.Hour)
	setDefault(&o.FlushEvery, 10*time.Second)
}

func setDefault(d *time.Duration, def time.Duration) {
	if *d <= 0 {
		*d = def
	}
}

// Meter counts what the engine does, queue by queue, and keeps a bounded history of it in the store: the figures of the dashboard's routes
// and of both metrics routes. It is the engine's core.Observer; Start makes it keep the history. Its methods may be called from any
// goroutine.
type Meter struct {
	o        MeterOptions
	started  core.Time
	requests atomic.Int64

	mu sync.Mutex
	// total is since the counting began, over restarts where the gateway has a name.
	total figures
	// minutes and hours are what is not stored for good yet, by their number since the epoch.
	minutes, hours map[int64]map[string]*figures
	dirty          bool

	flushing sync.Mutex
	records  recorder
	stop     func() bool
	closed   bool
	// stored is what the store holds of this gateway's records, by kind and name.
	stored map[string][]byte
}

// recorder is what the history needs of the engine.
type recorder interface {
	Record(ctx context.Context, kind, name string) ([]byte, error)
	PutRecord(ctx context.Context, kind, name string, old, value []byte) error
	ListRecords(ctx context.Context, p core.ListRecordsParams) ([]core.Record, error)
}

// NewMeter returns a meter that counts and keeps nothing until Start.
func NewMeter(o MeterOptions) *Meter {
	o.fill()
	return &Meter{
		o: o, started: o.Clock.Now(), minutes: map[int64]map[string]*figures{}, hours: map[int64]map[string]*figures{}, stored: map[string][]byte{},
	}
}

// count adds to the figures of a queue, now.
func (m *Meter) count(queue string, f *figures) {
	if f.zero() {
		return
	}
	now := m.o.Clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.add(f)
	cell(m.minutes, now.Second()/60, queue).add(f)
	cell(m.hours, now.Second()/3600, queue).add(f)
	m.dirty = true
}

func cell(set map[int64]map[string]*figures, number int64, queue string) *figures {
	queues := set[number]
	if queues == nil {
		queues = map[string]*figures{}
		set[number] = queues
	}
	f := queues[queue]
	if f == nil {
		f = &figures{}
		queues[queue] = f
	}
	return f
}

// Pushed implements core.Observer.
func (m *Meter) Pushed(_ core.Protocol, queue string, queued, duplicate int) {
	m.count(queue, &figures{figurePushed: int64(queued), figureDuplicates: int64(duplicate), figurePushCalls: 1})
}

// ClaimedMessages implements core.Observer.
func (m *Meter) ClaimedMessages(_ core.Protocol, queue string, messages int) {
	if messages == 0 {
		m.count(queue, &figures{figureEmpty: 1})
		return
	}
	m.count(queue, &figures{figurePopped: int64(messages), figurePops: 1})
}

var outcomeFigures = map[string]int{
	"done": figureDone, "retry": figureRetried, "failed": figureFailed, "dead": figureDead, "expired": figureExpired,
}

// Settled implements core.Observer.
func (m *Meter) Settled(_ core.Protocol, queue, outcome string, messages int) {
	i, ok := outcomeFigures[outcome]
	if !ok {
		return
	}
	var f figures
	f[i] = int64(messages)
	m.count(queue, &f)
}

// Committed implements core.Observer.
func (m *Meter) Committed(string, int, int, time.Duration) {}

// request counts a request.
func (m *Meter) request() {
	if m != nil {
		m.requests.Add(1)
	}
}

// popped counts how old messages were when they were handed out.
func (m *Meter) popped(got *core.Claimed, now core.Time) {
	if m == nil {
		return
	}
	for i := range got.Partitions {
		p := &got.Partitions[i]
		var f figures
		for j := range p.Messages {
			age := max(now.Sub(p.Messages[j].AppendedAt).Milliseconds(), 0)
			f[figureLag] += age
			f[figureLagMax] = max(f[figureLagMax], age)
		}
		if f[figureLagged] = int64(len(p.Messages)); p.Queue != nil {
			m.count(p.Queue.Name, &f)
		}
	}
}

// totals returns what was counted since the beginning.
func (m *Meter) totals() figures {
	if m == nil {
		return figures{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total
}
