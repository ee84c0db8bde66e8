package queen

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/core"
)

// The kinds of records that hold the history: figures by minute and by hour, and each gateway's totals.
const (
	recordMinute = "queen-minute"
	recordHour   = "queen-hour"
	recordTotal  = "queen-total"
)

// agedAtOnce is how many old records one flush deletes at most.
const agedAtOnce = 100

// Start begins to keep the history in the store and goes on with the totals that it holds of this gateway.
func (m *Meter) Start(ctx context.Context, records recorder) error {
	now := m.o.Clock.Now()
	m.records = records
	var total figures
	raw, err := records.Record(ctx, recordTotal, m.o.Gateway)
	if err != nil {
		return err
	}
	if raw != nil && json.Unmarshal(raw, &total) == nil {
		m.stored[recordTotal+m.o.Gateway] = raw
	}
	m.mu.Lock()
	m.total.add(&total)
	m.mu.Unlock()
	for kind, number := range map[string]int64{recordMinute: now.Second() / 60, recordHour: now.Second() / 3600} {
		if err := m.resume(ctx, kind, number); err != nil {
			return err
		}
	}
	m.arm()
	return nil
}

// resume goes on with a minute or an hour that an earlier process of this gateway began.
func (m *Meter) resume(ctx context.Context, kind string, number int64) error {
	name := m.recordName(number)
	raw, err := m.records.Record(ctx, kind, name)
	if err != nil || raw == nil {
		return err
	}
	m.stored[kind+name] = raw
	m.mu.Lock()
	defer m.mu.Unlock()
	for queue, f := range decodeFigures(raw) {
		cell(m.pending(kind), number, queue).add(&f)
	}
	return nil
}

func (m *Meter) pending(kind string) map[int64]map[string]*figures {
	if kind == recordMinute {
		return m.minutes
	}
	return m.hours
}

func (m *Meter) recordName(number int64) string { return fmt.Sprintf("%010d-%s", number, m.o.Gateway) }

func (m *Meter) arm() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.stop = m.o.Clock.AfterFunc(m.o.Clock.Now().Add(m.o.FlushEvery), func() {
			if err := m.Flush(context.Background()); err != nil {
				m.o.Logger.Warn("the history of the queues' figures cannot be written", "error", err)
			}
			m.arm()
		})
	}
}

// Close writes what is not stored yet. It may be called twice, and without Start.
func (m *Meter) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	stop := m.stop
	m.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	return m.Flush(ctx)
}

// Flush writes what is not stored yet and deletes what is too old.
func (m *Meter) Flush(ctx context.Context) error {
	m.flushing.Lock()
	defer m.flushing.Unlock()
	now := m.o.Clock.Now()
	if err := m.age(ctx, now); err != nil {
		return err
	}
	m.mu.Lock()
	dirty, total := m.dirty, m.total
	m.dirty = false
	m.mu.Unlock()
	if !dirty {
		return nil
	}
	err := m.write(ctx, recordMinute, now.Second()/60)
	if err == nil {
		err = m.write(ctx, recordHour, now.Second()/3600)
	}
	if err == nil {
		var raw []byte
		if raw, err = json.Marshal(total); err == nil {
			err = m.put(ctx, recordTotal, m.o.Gateway, raw)
		}
	}
	if err != nil {
		m.mu.Lock()
		m.dirty = true
		m.mu.Unlock()
	}
	return err
}

// write stores the minutes or hours in memory and forgets those that are over.
func (m *Meter) write(ctx context.Context, kind string, current int64) error {
	m.mu.Lock()
	texts := map[int64][]byte{}
	for number, queues := range m.pending(kind) {
		texts[number] = encodeFigures(queues, m.o.Queues)
	}
	m.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(texts)) {
		if err := m.put(ctx, kind, m.recordName(number), texts[number]); err != nil {
			return err
		}
		if number >= current {
			continue
		}
		// Nothing is counted into a minute that is over: the clock never goes back.
		m.mu.Lock()
		delete(m.pending(kind), number)
		m.mu.Unlock()
		delete(m.stored, kind+m.recordName(number))
	}
	return nil
}

// put writes a record over what this gateway wrote last. What it does not know, after a commit whose answer was lost, it reads first.
func (m *Meter) put(ctx context.Context, kind, name string, value []byte) error {
	old := m.stored[kind+name]
	if string(old) == string(value) {
		return nil
	}
	err := m.records.PutRecord(ctx, kind, name, old, value)
	if core.CodeOf(err) == core.CodeConflict {
		if old, err = m.records.Record(ctx, kind, name); err == nil {
			err = m.records.PutRecord(ctx, kind, name, old, value)
		}
	}
	if err == nil {
		m.stored[kind+name] = value
	}
	return err
}

// age deletes the oldest records where they are too old. Every gateway does, so that the history of one that is gone goes too.
func (m *Meter) age(ctx context.Context, now core.Time) error {
	limits := map[string]int64{recordMinute: now.Add(-m.o.Minutes).Second() / 60, recordHour: now.Add(-m.o.Hours).Second() / 3600}
	var failed []error
	for kind, limit := range limits {
		old, err := m.records.ListRecords(ctx, core.ListRecordsParams{Kind: kind, Limit: agedAtOnce})
		if err != nil {
			return err
		}
		for i := range old {
			if recordNumber(old[i].Name) >= limit {
				break
			}
			if err := m.records.PutRecord(ctx, kind, old[i].Name, old[i].Value, nil); err != nil && core.CodeOf(err) != core.CodeConflict {
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}

func recordNumber(name string) int64 {
	text, _, _ := strings.Cut(name, "-")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// encodeFigures writes the busiest queues by name and sums the others.
func encodeFigures(queues map[string]*figures, limit int) []byte {
	names := slices.Collect(maps.Keys(queues))
	busy := func(name string) int64 { f := queues[name]; return f[figurePushed] + f[figurePopped] + f[figureDone] }
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(busy(b), busy(a)), cmp.Compare(a, b)) })
	out := make(map[string]figures, min(len(names), limit)+1)
	for i, name := range names {
		if i >= limit {
			name = otherQueues
		}
		sum := out[name]
		sum.add(queues[names[i]])
		out[name] = sum
	}
	raw, _ := json.Marshal(out) // numbers by name cannot fail
	return raw
}

func decodeFigures(raw []byte) map[string]figures {
	var out map[string]figures
	if json.Unmarshal(raw, &out) != nil {
		return nil // a record of another release; its minute is missing
	}
	return out
}

// point is what happened to one queue in one minute or hour.
type point struct {
	at    core.Time
	queue string
	figures
}

// span is a range of time with the width at which it is shown.
type span struct {
	from, to core.Time
	bucket   time.Duration
}

// bucketWidths are the widths at which history is shown, each for ranges up to so many times its width.
var bucketWidths = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour}

const bucketsShown = 120

// newSpan chooses the width of the buckets by the range.
func newSpan(from, to core.Time) span {
	s := span{from: from, to: to, bucket: bucketWidths[len(bucketWidths)-1]}
	for _, w := range bucketWidths {
		if to.Sub(from) <= w*bucketsShown {
			s.bucket = w
			break
		}
	}
	return s
}

// start returns the beginning of the bucket in which t lies.
func (s *span) start(t core.Time) core.Time {
	w := core.Time(s.bucket.Microseconds())
	return t - t%w
}

// history returns the figures of all gateways between from and to by queue and bucket, in order of time and then of name. It reads minutes
// where the buckets are narrower than an hour and the minutes are still kept.
func (m *Meter) history(ctx context.Context, s span) ([]point, error) {
	if m == nil {
		return nil, nil
	}
	kind, width := recordMinute, int64(60)
	if s.bucket >= time.Hour || m.o.Clock.Now().Sub(s.from) > m.o.Minutes {
		kind, width = recordHour, 3600
	}
	first, last := s.from.Second()/width, s.to.Second()/width
	sums := map[int64]map[string]*figures{}
	m.mu.Lock()
	mine := map[string]bool{}
	for number, queues := range m.pending(kind) {
		mine[m.recordName(number)] = true
		for queue, f := range queues {
			if number >= first && number <= last {
				cell(sums, number, queue).add(f)
			}
		}
	}
	m.mu.Unlock()
	if err := m.readHistory(ctx, kind, first, last, mine, sums); err != nil {
		return nil, err
	}
	buckets := map[core.Time]map[string]*figures{}
	for number, queues := range sums {
		at := s.start(core.Time(number * width * 1_000_000))
		if buckets[at] == nil {
			buckets[at] = map[string]*figures{}
		}
		for queue, f := range queues {
			if buckets[at][queue] == nil {
				buckets[at][queue] = &figures{}
			}
			buckets[at][queue].add(f)
		}
	}
	var out []point
	for _, at := range slices.Sorted(maps.Keys(buckets)) {
		for _, queue := range slices.Sorted(maps.Keys(buckets[at])) {
			out = append(out, point{at, queue, *buckets[at][queue]})
		}
	}
	return out, nil
}

// readHistory sums the stored records from number first to last, except those named in skip, which are counted already.
func (m *Meter) readHistory(ctx context.Context, kind string, first, last int64, skip map[string]bool, sums map[int64]map[string]*figures) error {
	if m.records == nil {
		return nil
	}
	p := core.ListRecordsParams{Kind: kind, After: fmt.Sprintf("%010d", first), Limit: 1000}
	for {
		list, err := m.records.ListRecords(ctx, p)
		if err != nil {
			return err
		}
		for i := range list {
			number := recordNumber(list[i].Name)
			if number > last {
				return nil
			}
			if skip[list[i].Name] {
				continue
			}
			for queue, f := range decodeFigures(list[i].Value) {
				cell(sums, number, queue).add(&f)
			}
		}
		if len(list) < p.Limit {
			return nil
		}
		p.After = list[len(list)-1].Name
	}
}

// clusterTotals sums the totals of all gateways.
func (m *Meter) clusterTotals(ctx context.Context) (figures, error) {
	sum := m.totals()
	if m == nil || m.records == nil {
		return sum, nil
	}
	list, err := m.records.ListRecords(ctx, core.ListRecordsParams{Kind: recordTotal, Limit: 1000})
	for i := range list {
		var f figures
		if list[i].Name != m.o.Gateway && json.Unmarshal(list[i].Value, &f) == nil {
			sum.add(&f)
		}
	}
	return sum, err
}
