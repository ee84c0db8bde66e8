package queen

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/leasehold/leasehold/core"
)

// view are the query parameters of the dashboard's routes. Each route uses those that mean something to it.
type view struct {
	queue, partition, namespace, task, status, interval string
	// hasQueue tells the empty name from no name.
	hasQueue bool
	from, to core.Time
	pageParams
	minLag int64
}

var viewNames = map[string]bool{
	"queue": true, "partition": true, "namespace": true, "ns": true, "task": true, "status": true, "interval": true,
	"from": true, "to": true, "limit": true, "offset": true, "minLagSeconds": true,
}

// parseView reads a query. Where it names no time, the range is the last hour, or what back says; limit is that of a page.
func (s *server) parseView(r *http.Request, limit int, back time.Duration) (view, error) {
	v := view{pageParams: pageParams{limit: limit}, to: s.engine.Now(), minLag: 3600}
	err := eachParam(r.URL.RawQuery, func(name string) bool { return viewNames[name] }, v.set)
	if v.from == 0 {
		v.from = max(v.to.Add(-back), 1)
	}
	if err == nil && v.from > v.to {
		err = queryError("from", "before to")
	}
	return v, err
}

func (v *view) set(name, value string) (err error) {
	var n int64
	switch name {
	case "queue":
		// An empty filter is none, as the dashboard sends it.
		v.queue, v.hasQueue = value, value != ""
	case "partition":
		v.partition = value
	case "namespace", "ns":
		v.namespace = value
	case "task":
		v.task = value
	case "status":
		v.status = value
	case "interval":
		v.interval = value
	case "from", "to":
		return v.setTime(name, value)
	case "limit":
		n, err = queryInteger(name, value)
		v.limit = int(min(max(n, 0), maxDLQLimit))
	case "offset":
		n, err = queryInteger(name, value)
		v.offset = int(min(max(n, 0), maxSeconds))
	case "minLagSeconds":
		v.minLag, err = queryInteger(name, value)
	}
	return err
}

func (v *view) setTime(name, value string) error {
	if value == "" {
		return nil
	}
	t, ok := parseTime(value)
	if !ok {
		return queryError(name, "an ISO-8601 time with a zone")
	}
	if name == "from" {
		v.from = max(core.TimeOf(t), 1)
	} else {
		v.to = max(core.TimeOf(t), 1)
	}
	return nil
}

// matches reports whether a queue is among those that the query asks for.
func (v *view) matches(q *core.Queue) bool {
	return (!v.hasQueue || q.Name == v.queue) && (v.namespace == "" || q.Options.Namespace == v.namespace) &&
		(v.task == "" || q.Options.Task == v.task)
}

// stamp is a time as the protocol shows it; none is null.
type stamp core.Time

// MarshalJSON implements json.Marshaler.
func (t stamp) MarshalJSON() ([]byte, error) {
	if t == 0 {
		return []byte("null"), nil
	}
	return appendTime(nil, core.Time(t).Std()), nil
}

// dict is a JSON object.
type dict map[string]any

// answerJSON sends a value that holds no payload: payloads are spliced by the append functions, which keep their bytes.
func answerJSON(w http.ResponseWriter, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return core.WrapError(core.CodeInternal, "encode answer", err)
	}
	answer(w, http.StatusOK, func(b []byte) []byte { return append(b, raw...) })
	return nil
}

// isGone reports whether an error says that a queue was deleted since the list of queues was read.
func isGone(err error) bool { return err != nil && core.CodeOf(err) == core.CodeNoQueue }

// queueView is a queue with its figures for queue mode, the group that every queue has.
type queueView struct {
	core.Queue
	stats core.QueueStats
	counts
	bytes int64
}

// settled is what queue mode has done with: neither waiting nor leased nor a dead letter.
func (q *queueView) settled() int64 { return max(q.total-q.pending-q.processing-q.dead, 0) }

// messages are the counts as most routes show them.
func (q *queueView) messages() dict {
	return dict{"total": q.total, "pending": q.pending, "processing": q.processing, "completed": q.settled(), "failed": nil, "deadLetter": q.dead}
}

// oldestAge is the age of the oldest message that queue mode has not settled, in seconds.
func (q *queueView) oldestAge(now core.Time) float64 { return age(q.stats.Total.OldestAt, now) }

func age(at, now core.Time) float64 {
	if at == 0 {
		return 0
	}
	return max(now.Sub(at).Seconds(), 0)
}

// queuesOf returns the queues that a query asks for with their figures, newest first.
func (s *server) queuesOf(ctx context.Context, v *view) ([]queueView, error) {
	queues, err := s.engine.Queues(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]queueView, 0, len(queues))
	for i := range queues {
		if !v.matches(&queues[i]) {
			continue
		}
		one, err := s.viewOf(ctx, &queues[i])
		if isGone(err) {
			continue // deleted since the list was read
		}
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	slices.SortStableFunc(out, func(a, b queueView) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
	return out, nil
}

func (s *server) viewOf(ctx context.Context, q *core.Queue) (queueView, error) {
	v := queueView{Queue: *q}
	var err error
	if v.stats, err = s.engine.QueueStats(ctx, q.Name, ""); err != nil {
		return v, err
	}
	for i := range v.stats.Partitions {
		held := retained(&v.stats.Partitions[i])
		v.bytes += held.Bytes
		v.add(countsOf(&v.stats.Partitions[i], held.Messages))
	}
	_, v.dead, err = s.engine.DeadLetters(ctx, core.DeadLetterFilter{Queue: q.ID, Limit: 1})
	return v, err
}

// timeRange shows what a body is about.
func (v *view) timeRange() dict { return dict{"from": stamp(v.from), "to": stamp(v.to)} }

// page cuts a page out of a list.
func page[T any](list []T, p pageParams) []T {
	list = list[min(p.offset, len(list)):]
	return list[:min(p.limit, len(list))]
}

func (p *pageParams) show() dict { return dict{"limit": p.limit, "offset": p.offset} }

// perSecond is a rate with two digits behind the point.
func perSecond(n int64, over time.Duration) float64 {
	if over <= 0 {
		return 0
	}
	return float64(int64(float64(n)/over.Seconds()*100+0.5)) / 100
}
