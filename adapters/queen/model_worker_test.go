package queen_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/core"
)

// modelWorker is one client of the random run.
type modelWorker struct {
	m    *model
	t    *testing.T
	r    *rand.Rand
	held []modelLease
}

// modelLease is what a worker got by one pop.
type modelLease struct {
	id    string
	group int
	parts map[*modelPart][]message
}

func (w *modelWorker) run() {
	for !w.m.stop.Load() {
		switch n := w.r.IntN(1000); {
		case n < 300:
			w.shared(w.push)
		case n < 600:
			w.shared(func() { w.pop(false) })
		case n < 900 && len(w.held) > 0:
			w.shared(w.settle)
		case n < 960 && len(w.held) > 0:
			w.shared(w.extend)
		case n < 985:
			w.alone(w.passTime)
		case n < 990:
			w.alone(w.seek)
		case n < 992:
			w.alone(w.ackWithoutLease)
		case n < 994:
			w.alone(func() { w.pop(true) }) // two of one partition would be in no order that anybody can tell
		case n < 998:
			w.alone(w.replay)
		case n < 999:
			w.alone(func() { w.m.restart(w.t); w.m.count("restarts", 1) })
		}
	}
}

func (w *modelWorker) shared(f func()) {
	w.m.world.RLock()
	defer w.m.world.RUnlock()
	f()
}

func (w *modelWorker) alone(f func()) {
	w.m.world.Lock()
	defer w.m.world.Unlock()
	f()
}

func (w *modelWorker) push() {
	picked := map[int]bool{}
	for range 1 + w.r.IntN(8) {
		picked[w.r.IntN(modelPartitions)] = true
	}
	order := make([]int, 0, len(picked))
	for i := range picked {
		order = append(order, i)
	}
	slices.Sort(order) // locks in one order
	parts := make([]*modelPart, 0, len(order))
	for _, i := range order {
		parts = append(parts, w.m.parts[i])
	}
	w.m.push(w.t, parts)
}

func (w *modelWorker) pop(autoAck bool) {
	group := w.r.IntN(len(modelGroups))
	batch, width, seconds := 1+w.r.IntN(20), w.r.IntN(6), 5+w.r.IntN(60)
	path := "/api/v1/pop/queue/q"
	if w.r.IntN(10) == 0 {
		path += fmt.Sprint("/partition/p", w.r.IntN(modelPartitions))
	}
	now := w.m.clock.Now()
	var p popped
	status := w.m.call(w.t, http.MethodGet, fmt.Sprintf("%s?batch=%d&partitions=%d&leaseSeconds=%d&consumerGroup=%s&autoAck=%t", path, batch, width, seconds, modelGroups[group], autoAck), "", &p)
	switch {
	case status == http.StatusNoContent:
		w.m.count("empty pops", 1)
		return
	case status != http.StatusOK || len(p.Messages) == 0 || len(p.Messages) > batch || width > 0 && p.PartitionsClaimed > width || autoAck != (p.LeaseID == ""):
		w.m.fault(w.t, "pop: %d, %d messages of %d, %d partitions of %d", status, len(p.Messages), batch, p.PartitionsClaimed, width)
		return
	}
	lease := modelLease{id: p.LeaseID, group: group, parts: map[*modelPart][]message{}}
	for _, messages := range byPartition(p) {
		if part := w.m.delivered(w.t, group, messages, p.LeaseID, now.Add(time.Duration(seconds)*time.Second), autoAck); part != nil {
			lease.parts[part] = messages
		}
	}
	w.m.count("delivered", len(p.Messages))
	if !autoAck {
		w.held = append(w.held, lease)
	}
	if len(w.held) > 6 {
		w.held = w.held[1:] // abandoned: its lease runs out
		w.m.count("abandoned leases", 1)
	}
}

// settle acknowledges some of a lease in one call, or a lease that is over.
func (w *modelWorker) settle() {
	at := w.r.IntN(len(w.held))
	l := &w.held[at]
	parts := make([]*modelPart, 0, len(l.parts))
	for p := range l.parts {
		if w.r.IntN(4) > 0 {
			parts = append(parts, p)
		}
	}
	slices.SortFunc(parts, func(a, b *modelPart) int { return strings.Compare(a.name, b.name) })
	items := make([]modelAck, 0, 8*len(parts))
	for _, p := range parts {
		items = append(items, w.acks(p, l.parts[p])...)
	}
	if len(items) == 0 {
		return
	}
	for _, p := range parts {
		p.rows[l.group].mu.Lock()
	}
	w.ack(l.group, l.id, items)
	for _, p := range parts {
		p.rows[l.group].mu.Unlock()
	}
	if w.r.IntN(3) > 0 {
		w.held = slices.Delete(w.held, at, at+1)
	}
}

// modelAck is one item of an acknowledgement.
type modelAck struct {
	part   *modelPart
	id     string
	index  int
	status string
	text   string
}

// acks chooses what to say of the messages of one partition.
func (w *modelWorker) acks(p *modelPart, messages []message) (out []modelAck) {
	add := func(i int, status string) {
		at, _ := p.index(messages[i].TransactionID)
		out = append(out, modelAck{p, messages[i].TransactionID, at, status, fmt.Sprint("error ", w.r.IntN(1000))})
	}
	switch w.r.IntN(4) {
	case 0:
		add(len(messages)-1, "completed")
	case 1:
		add(w.r.IntN(len(messages)), "completed")
	case 2:
		for i := range messages { // a consumer whose handler failed
			add(i, "failed")
		}
	default:
		for range 1 + w.r.IntN(4) {
			add(w.r.IntN(len(messages)), []string{"completed", "completed", "failed", "retry", "dlq"}[w.r.IntN(5)])
		}
	}
	return out
}

// ack sends items and compares each answer with what the rules say; the rows are locked.
func (w *modelWorker) ack(group int, lease string, items []modelAck) {
	list := make([]string, len(items))
	for i, it := range items {
		list[i] = fmt.Sprintf(`{"transactionId":"%s","partitionId":"%s","leaseId":"%s","status":"%s","error":"%s"}`, it.id, *it.part.id.Load(), lease, it.status, it.text)
	}
	var out []acked
	w.m.call(w.t, http.MethodPost, "/api/v1/ack/batch", `{"consumerGroup":"`+modelGroups[group]+`","acknowledgments":[`+strings.Join(list, ",")+`]}`, &out)
	want := make([]string, len(items))
	for first := 0; first < len(items); {
		last := first
		for last < len(items) && items[last].part == items[first].part {
			last++
		}
		copy(want[first:last], w.m.settle(group, lease, items[first:last]))
		first = last
	}
	if len(out) != len(items) {
		w.m.fault(w.t, "ack: %d answers for %d items", len(out), len(items))
		return
	}
	for i, it := range items {
		a := out[i]
		got := fmt.Sprint(a.Success, a.LeaseReleased, a.DLQ, a.Noop, " ", a.text())
		if got != want[i] {
			w.m.fault(w.t, "ack of %s as %s under %q by %s: %s, want %s", it.id, it.status, lease, modelGroups[group], got, want[i])
		}
	}
	w.m.count("acknowledged", len(items))
}

// extend prolongs a lease, live or not.
func (w *modelWorker) extend() {
	l := &w.held[w.r.IntN(len(w.held))]
	seconds := 1 + w.r.IntN(90)
	now := w.m.clock.Now()
	until := now.Add(time.Duration(seconds) * time.Second)
	want := 0
	var earliest core.Time
	for p := range l.parts {
		row := &p.rows[l.group]
		row.mu.Lock()
		if row.live(now) && row.lease == l.id {
			want++
			row.until = max(row.until, until)
			if earliest == 0 || row.until < earliest {
				earliest = row.until
			}
		}
		row.mu.Unlock()
	}
	var out struct {
		Success      bool
		Renewed      int
		NewExpiresAt *time.Time
	}
	w.m.call(w.t, http.MethodPost, "/api/v1/lease/"+l.id+"/extend", fmt.Sprintf(`{"seconds":%d}`, seconds), &out)
	if out.Renewed != want || out.Success != (want > 0) || want > 0 && core.TimeOf(*out.NewExpiresAt) != earliest {
		w.m.fault(w.t, "extend: %+v, want %d until %v", out, want, earliest.Std())
	}
	w.m.count("extended", want)
}

func (w *modelWorker) passTime() {
	w.m.clock.Advance(time.Duration(w.r.IntN(4000)) * time.Millisecond)
	w.m.count("clock steps", 1)
}

// seek moves a group on one partition, or on all of them.
func (w *modelWorker) seek() {
	group := w.r.IntN(len(modelGroups))
	parts, path := w.m.parts, "/api/v1/consumer-groups/"+modelGroups[group]+"/queues/q/seek"
	if w.r.IntN(20) > 0 {
		p := w.m.parts[w.r.IntN(modelPartitions)]
		parts, path = []*modelPart{p}, "/api/v1/consumer-groups/"+modelGroups[group]+"/queues/q/partitions/"+p.name+"/seek"
	}
	body, at := `{"toEnd":true}`, core.Time(-1)
	if w.r.IntN(3) > 0 {
		ids := parts[w.r.IntN(len(parts))].pushed
		at = ids[w.r.IntN(len(ids))]
		body = `{"timestamp":"` + at.Std().Format(time.RFC3339Nano) + `"}`
	}
	if status := w.m.call(w.t, http.MethodPost, path, body, nil); status != http.StatusOK {
		w.m.fault(w.t, "seek: %d", status)
	}
	for _, p := range parts {
		row := &p.rows[group]
		row.exists, row.lease, row.retries, row.cursor = true, "", 0, len(p.ids)
		if at >= 0 {
			row.cursor = slices.IndexFunc(append(slices.Clone(p.pushed), 1<<62), func(t core.Time) bool { return t >= at })
		}
	}
	w.m.count("seeks", 1)
}

// ackWithoutLease completes up to some message, whoever holds it, or says something negative where nobody does.
func (w *modelWorker) ackWithoutLease() {
	group := w.r.IntN(len(modelGroups))
	p := w.m.parts[w.r.IntN(modelPartitions)]
	row := &p.rows[group]
	if p.id.Load() == nil || !row.exists {
		return
	}
	i := w.r.IntN(len(p.ids))
	w.ack(group, "", []modelAck{{p, p.ids[i], i, "completed", ""}})
	w.m.count("acks without a lease", 1)
}

// replay moves a dead letter back, or deletes it.
func (w *modelWorker) replay() {
	var list struct {
		Messages []struct {
			ID, TransactionID, Partition, ConsumerGroup, ErrorMessage string
			RetryCount                                                int
		}
	}
	w.m.call(w.t, http.MethodGet, "/api/v1/dlq?queue=q&limit=1", "", &list)
	if len(list.Messages) == 0 {
		return
	}
	l := list.Messages[0]
	var n int
	_, _ = fmt.Sscanf(l.Partition, "p%d", &n)
	p := w.m.parts[n]
	w.m.letters[letterKey(l.ConsumerGroup, l.Partition, l.TransactionID, l.ErrorMessage, l.RetryCount)]--
	var out replayed
	if status := w.m.call(w.t, http.MethodPost, "/api/v1/dlq/"+l.ID+"/replay", "", &out); status != http.StatusOK {
		w.m.fault(w.t, "replay: %d %+v", status, out)
		return
	}
	p.append(out.ReplayedAs.Transaction_id, w.m.clock.Now())
	w.m.count("replays", 1)
}
